// The file that collects problems, shared between processes that may be stopped or killed.
// SPDX-License-Identifier: MIT
#include "search/record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/env.h"
#include "db/text_file.h"

namespace polymio::search {
namespace {

namespace fs = std::filesystem;

class RecordTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "polymio-record-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    file_ = folder_ / "problems";
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// The variable is read once per process: runs the test of that name, disabled here, in a new one.
  int run(const std::string& name) const {
    const std::string self = fs::read_symlink("/proc/self/exe").string();
    return std::system(fmt::format("{}='{}' '{}' --gtest_also_run_disabled_tests --gtest_filter=RecordChild.{} >'{}'",
                                   env::kRecord.name, file_.string(), self, "DISABLED_" + name,
                                   (folder_ / "out").string())
                           .c_str());
  }
  std::string text() const {
    std::ostringstream out;
    out << std::ifstream(file_).rdbuf();
    return out.str();
  }

  fs::path folder_, file_;
};

TEST_F(RecordTest, TornLastLineDoesNotSwallowTheNext) {
  std::ofstream(file_) << "MIOpenDriver a\nMIOpenDri";
  EXPECT_EQ(run("Two"), 0);
  EXPECT_EQ(text(), "MIOpenDriver a\nMIOpenDri\nMIOpenDriver b\n");
  EXPECT_EQ(run("Two"), 0);
  EXPECT_EQ(text(), "MIOpenDriver a\nMIOpenDri\nMIOpenDriver b\n");
}

TEST_F(RecordTest, WaitingForAHeldLockIsBounded) {
  EXPECT_EQ(run("WhileLocked"), 0);
  EXPECT_EQ(text(), "MIOpenDriver a\nMIOpenDriver b\nMIOpenDriver c\n");
}

TEST_F(RecordTest, OnlyARegularFileIsOpened) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0666), 0);
  EXPECT_EQ(run("Two"), 0) << "a fifo must not be waited for";
  fs::remove(file_);
  fs::create_directory(file_);
  EXPECT_EQ(run("Two"), 0);
  fs::remove(file_);
  const fs::path victim = folder_ / "victim";
  for (const bool exists : {false, true}) {
    if (exists) std::ofstream(victim) << "mine";
    fs::create_symlink(victim, file_);
    EXPECT_EQ(run("Two"), 0);
    EXPECT_EQ(fs::exists(victim), exists);
    fs::remove(file_);
  }
  EXPECT_EQ(fs::file_size(victim), 4u);
}

TEST_F(RecordTest, ASparseFileIsNotRead) {
  std::ofstream(file_) << "";
  fs::resize_file(file_, std::uintmax_t{64} << 30);
  EXPECT_EQ(run("Two"), 0);
  EXPECT_EQ(fs::file_size(file_), std::uintmax_t{64} << 30);
}

TEST(RecordChild, DISABLED_Two) {
  record_problem("a");
  record_problem("b");
}

TEST(RecordChild, DISABLED_WhileLocked) {
  using Clock = std::chrono::steady_clock;
  const std::string path = env::text(env::kRecord).value();
  File stopped(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  ASSERT_EQ(::flock(stopped.fd(), LOCK_EX), 0);
  const auto start = Clock::now();
  record_problem("a");
  record_problem("b");
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(fs::file_size(path), 0u);
  stopped = {};
  record_problem("c");
}

}  // namespace
}  // namespace polymio::search
