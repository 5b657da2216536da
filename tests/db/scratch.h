// A folder of its own for each database test, and records to put there.
// SPDX-License-Identifier: MIT
#pragma once
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "db/find_db.h"

namespace polymio {

/// Runs once, before the next flock of this process. Defined with the other injected faults.
extern std::function<void()> g_before_flock;

class ScratchTest : public ::testing::Test {
 protected:
  using Records = std::vector<FindRecord>;

  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "polymio-db-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    user_ = folder_ / "user";
    system_ = folder_ / "system";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  FindDb open() const { return FindDb("dev-1", user_, system_); }
  static void store(FindDb&& db, const Records& records) { db.store(records); }
  std::filesystem::path file() const { return user_ / "dev-1.pdb.txt"; }

  static std::string read(const std::filesystem::path& path) {
    std::ostringstream out;
    out << std::ifstream(path, std::ios::binary).rdbuf();
    return out.str();
  }
  static void append(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::app | std::ios::binary) << bytes;
  }

  static FindRecord record(std::string solver, double time_us, std::string key = "k") {
    return {std::move(key),        std::move(solver), 1,         time_us, 64, "tile=8x6", 4, 2,
            RecordKind::kMeasured, "conv fwd",        {1.5f, 6}, 1e9};
  }

  std::filesystem::path folder_, user_, system_;
};

}  // namespace polymio
