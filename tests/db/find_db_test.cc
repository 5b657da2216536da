// The find database: merging of times, the system's pack, folders from the environment.
// SPDX-License-Identifier: MIT
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <thread>

#include "scratch.h"

namespace polymio {
namespace {

namespace fs = std::filesystem;

class FindDbTest : public ScratchTest {
 protected:
  void TearDown() override {
    for (const auto& [name, value] : saved_)
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
    ScratchTest::TearDown();
  }
  void set(const char* name, const char* value) {
    const char* old = std::getenv(name);
    saved_.emplace(name, old ? std::optional<std::string>(old) : std::nullopt);
    value ? ::setenv(name, value, 1) : ::unsetenv(name);
  }

  std::map<std::string, std::optional<std::string>> saved_;
};

TEST_F(FindDbTest, KeepsRecordsForTheNextProcess) {
  store(open(), {record("B", 2.5), record("A", 1.25), record("A", 9, "other key")});
  FindDb db = open();
  EXPECT_EQ(db.lookup("k"), (Records{record("A", 1.25), record("B", 2.5)}));
  EXPECT_EQ(db.lookup("other key"), Records{record("A", 9, "other key")});
  EXPECT_TRUE(db.lookup("unknown").empty());
  EXPECT_EQ(db.path(), (user_ / "dev-1.pdb.txt").string());
  std::ifstream file(db.path());
  std::string first;
  std::getline(file, first);
  EXPECT_EQ(first.find("# Polymio find database, format 1"), 0u);
}

TEST_F(FindDbTest, NewestWinsPerSolverUnitsAndCap) {
  FindDb db = open();
  FindRecord one_thread = record("A", 8);
  one_thread.thread_cap = 1;
  FindRecord other_units = record("A", 5);
  other_units.units = 64;
  db.store(Records{record("A", 3), one_thread, other_units});
  db.store(Records{record("A", 2)});
  EXPECT_EQ(db.lookup("k"), (Records{one_thread, record("A", 2), other_units}));
  FindRecord bumped = record("A", 7);
  bumped.solver_version = 2;
  db.store(Records{bumped});
  EXPECT_EQ(db.lookup("k"), (Records{one_thread, bumped, other_units}));
}

TEST_F(FindDbTest, PredictionNeverHidesAMeasurementOfTheSameVersion) {
  FindDb db = open();
  FindRecord predicted = record("A", 1);
  predicted.kind = RecordKind::kPredicted;
  db.store(Records{predicted});
  EXPECT_EQ(db.lookup("k"), Records{predicted});
  db.store(Records{record("A", 2)});
  db.store(Records{predicted});
  EXPECT_EQ(db.lookup("k"), Records{record("A", 2)});
  predicted.solver_version = 2;
  db.store(Records{predicted});
  EXPECT_EQ(db.lookup("k"), Records{predicted});
}

TEST_F(FindDbTest, UserPrecedesSystemUnlessTheSystemIsNewer) {
  FindRecord newer = record("B", 4);
  newer.solver_version = 2;
  store(FindDb("dev-1", system_, std::nullopt), {record("A", 10), newer, record("C", 30)});
  FindDb db = open();
  db.store(Records{record("A", 1), record("B", 2)});
  EXPECT_EQ(db.lookup("k"), (Records{record("A", 1), newer, record("C", 30)}));
  FindDb plain("dev-1", user_, std::nullopt);
  EXPECT_EQ(plain.lookup("k"), (Records{record("A", 1), record("B", 2)}));
  FindDb pack("dev-1", std::nullopt, system_);
  EXPECT_EQ(pack.lookup("k").size(), 3u);
  pack.store(Records{record("D", 1)});
  EXPECT_EQ(pack.lookup("k").size(), 4u);
  EXPECT_EQ(FindDb("dev-1", std::nullopt, system_).lookup("k").size(), 3u) << "the pack is never written";
}

TEST_F(FindDbTest, SeesWhatOthersStoreAndRemove) {
  FindDb db = open();
  EXPECT_TRUE(db.lookup("k").empty());
  const pid_t child = ::fork();
  if (child == 0) {
    store(open(), {record("A", 1)});
    ::_exit(0);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(db.lookup("k"), Records{record("A", 1)});
  fs::remove_all(user_);
  EXPECT_TRUE(db.lookup("k").empty()) << "a removed database is forgotten";
  db.store(Records{record("B", 1)});
  EXPECT_EQ(open().lookup("k"), Records{record("B", 1)});
}

TEST_F(FindDbTest, DeviceClassesAreSeparate) {
  store(FindDb("cpu-a", user_, {}), {record("A", 1)});
  EXPECT_TRUE(FindDb("cpu-b", user_, {}).lookup("k").empty());
  EXPECT_TRUE(FindDb("cpu", user_, {}, true, Journal::Sharing::kPerHost).lookup("k").empty());
  FindDb odd("../../etc/x y", user_, {});
  EXPECT_EQ(fs::path(odd.path()).parent_path(), user_);
}

TEST_F(FindDbTest, CompactionKeepsWhatLookupSees) {
  FindDb db = open();
  FindRecord predicted = record("A", 1);
  predicted.kind = RecordKind::kPredicted;
  for (int i = 0; i < 50; ++i) db.store(Records{record("A", i), record("B", 100 + i), record("A", i, "other")});
  db.store(Records{predicted});
  std::ofstream(db.path(), std::ios::app) << "\nforeign line\n";
  const auto before = fs::file_size(db.path());
  const Records expected = {record("A", 49), record("B", 149)};
  EXPECT_EQ(db.lookup("k"), expected);
  EXPECT_TRUE(db.compact());
  EXPECT_LT(fs::file_size(db.path()), before / 20);
  EXPECT_EQ(db.lookup("k"), expected);
  EXPECT_EQ(open().lookup("k"), expected);
  EXPECT_EQ(open().lookup("other"), Records{record("A", 49, "other")});
}

TEST_F(FindDbTest, LargeFilesCompactThemselves) {
  FindDb db = open();
  Records batch;
  for (int i = 0; i < 100; ++i) batch.push_back(record("A", i, std::to_string(i % 10)));
  for (int i = 0; i < 100; ++i) db.store(batch);
  std::ifstream file(db.path());
  std::size_t lines = 0;
  for (std::string line; std::getline(file, line);) lines += !line.empty() && line[0] != '#';
  EXPECT_LT(lines, 2500u);
  EXPECT_EQ(db.lookup("3"), Records{record("A", 93, "3")});
}

TEST_F(FindDbTest, UnwritableFolderMeansMemory) {
  std::ofstream(folder_ / "file") << "x";
  FindDb db("dev-1", folder_ / "file" / "below", system_);
  ::testing::internal::CaptureStderr();
  db.store(Records{record("A", 1)});
  db.store(Records{record("A", 2), record("B", 3)});
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
  EXPECT_NE(told.find("cannot"), std::string::npos);
  EXPECT_EQ(db.lookup("k"), (Records{record("A", 2), record("B", 3)}));
}

TEST_F(FindDbTest, UnsavedRecordsOutliveAReplacedFile) {
  FindDb db = open();
  db.store(Records{record("A", 1)});
  fs::remove(db.path());
  fs::create_directory(db.path());
  db.store(Records{record("B", 2)});
  fs::remove(db.path());
  store(open(), {record("C", 3)});
  EXPECT_EQ(db.lookup("k"), (Records{record("B", 2), record("C", 3)}));
  EXPECT_EQ(open().lookup("k"), Records{record("C", 3)});
}

TEST_F(FindDbTest, NoFolderMeansMemoryWithoutAWarning) {
  FindDb db("dev-1", std::nullopt, std::nullopt);
  ::testing::internal::CaptureStderr();
  db.store(Records{record("A", 1)});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(db.lookup("k"), Records{record("A", 1)});
  EXPECT_EQ(db.path(), "");
  EXPECT_FALSE(db.compact());
}

TEST_F(FindDbTest, ThreadsShareOne) {
  FindDb db = open();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&db, t] {
      for (int i = 0; i < 100; ++i) {
        db.store(Records{record("S" + std::to_string(t), i, std::to_string(i))});
        EXPECT_FALSE(db.lookup(std::to_string(i)).empty());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  FindDb fresh = open();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(fresh.lookup(std::to_string(i)).size(), 4u);
}

TEST_F(FindDbTest, EnvironmentChoosesTheFolders) {
  set("MIOPEN_SYSTEM_DB_PATH", system_.c_str());
  set("MIOPEN_DEBUG_DISABLE_FIND_DB", nullptr);
  set("XDG_CONFIG_HOME", nullptr);
  set("HOME", folder_.c_str());
  set("MIOPEN_USER_DB_PATH", user_.c_str());
  FindDb& first = find_db("dev-1");
  EXPECT_EQ(first.path(), (user_ / "dev-1.pdb.txt").string());
  EXPECT_EQ(&find_db("dev-1"), &first);
  EXPECT_NE(&find_db("dev-2"), &first);
  set("MIOPEN_USER_DB_PATH", "~/elsewhere");
  EXPECT_EQ(find_db("dev-1").path(), (folder_ / "elsewhere" / "dev-1.pdb.txt").string());
  set("MIOPEN_USER_DB_PATH", nullptr);
  EXPECT_EQ(find_db("dev-1").path(), (folder_ / ".config" / "miopen" / "dev-1.pdb.txt").string());
  set("XDG_CONFIG_HOME", (folder_ / "xdg").c_str());
  EXPECT_EQ(find_db("dev-1").path(), (folder_ / "xdg" / "miopen" / "dev-1.pdb.txt").string());
  set("XDG_CONFIG_HOME", nullptr);
  set("HOME", nullptr);
  EXPECT_EQ(find_db("dev-1").path(), "");
  find_db("dev-1").store(Records{record("A", 1)});
  EXPECT_EQ(find_db("dev-1").lookup("k"), Records{record("A", 1)});
}

TEST_F(FindDbTest, DisabledNeitherStoresNorFinds) {
  set("MIOPEN_SYSTEM_DB_PATH", system_.c_str());
  set("MIOPEN_USER_DB_PATH", user_.c_str());
  set("MIOPEN_DEBUG_DISABLE_FIND_DB", "1");
  find_db("dev-1").store(Records{record("A", 1)});
  EXPECT_TRUE(find_db("dev-1").lookup("k").empty());
  EXPECT_FALSE(fs::exists(user_));
  set("MIOPEN_DEBUG_DISABLE_FIND_DB", "0");
  EXPECT_TRUE(find_db("dev-1").lookup("k").empty());
  find_db("dev-1").store(Records{record("A", 1)});
  EXPECT_EQ(find_db("dev-1").lookup("k").size(), 1u);
}

TEST_F(FindDbTest, EachFolderCanBeDisabled) {
  set("MIOPEN_SYSTEM_DB_PATH", system_.c_str());
  set("MIOPEN_USER_DB_PATH", user_.c_str());
  set("MIOPEN_DEBUG_DISABLE_USER_DB", "1");
  EXPECT_EQ(db_folders(), std::vector<fs::path>{system_});
  EXPECT_EQ(find_db("dev-1").path(), "");
  set("MIOPEN_DEBUG_DISABLE_USER_DB", nullptr);
  set("MIOPEN_DEBUG_DISABLE_SYSTEM_DB", "1");
  EXPECT_EQ(db_folders(), std::vector<fs::path>{user_});
}

}  // namespace
}  // namespace polymio
