// A folder of its own per database test, and sample records.
// SPDX-License-Identifier: MIT
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "db/find_db.h"

namespace polymio {

/// Called once, before the next flock of this process. Defined with the other injected faults.
extern std::function<void()> g_before_flock;

/// The stderr and the result of a child process.
struct Outcome {
  bool passed;
  std::string told;
  std::ptrdiff_t lines() const { return std::count(told.begin(), told.end(), '\n'); }
};

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

  static pid_t spawn(const std::function<bool()>& body) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(body() ? 0 : 1);
    return child;
  }

  /// Runs `body` in a process of its own, since warnings are logged once per process.
  Outcome in_child(const std::function<bool()>& body) const {
    const std::filesystem::path log = folder_ / "stderr";
    const pid_t child = spawn([&] {
      const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
      ::dup2(fd, STDERR_FILENO);
      return body();
    });
    int status = -1;
    ::waitpid(child, &status, 0);
    return {status == 0, read(log)};
  }

  static FindRecord record(std::string solver, double time_us, std::string key = "k") {
    return {std::move(key),        std::move(solver), 1,         time_us, 64, "tile=8x6", 4, 2,
            RecordKind::kMeasured, "conv fwd",        {1.5f, 6}, 1e9};
  }

  std::filesystem::path folder_, user_, system_;
};

}  // namespace polymio
