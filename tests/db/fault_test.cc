// The find database under faults of files and processes: calls succeed, answers are correct, no stored record is lost,
// and each cause is logged once.
// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "base/error.h"
#include "scratch.h"

std::function<void()> polymio::g_before_flock;

namespace {

// Errors of network file systems; 0: the call works.
std::atomic<int> g_rename_error = 0, g_fsync_error = 0, g_flock_error = 0;
std::atomic<bool> g_rename_happens = false;  // the rename succeeds, although it reports the error

int fail_with(int error) {
  errno = error;
  return -1;
}

}  // namespace

// These definitions take precedence over those of the C library.
extern "C" int rename(const char* from, const char* to) noexcept {
  if (g_rename_error != 0 && !g_rename_happens) return fail_with(g_rename_error);
  const int done = static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
  return g_rename_error != 0 ? fail_with(g_rename_error) : done;
}
extern "C" int fsync(int fd) {
  return g_fsync_error != 0 ? fail_with(g_fsync_error) : static_cast<int>(::syscall(SYS_fsync, fd));
}
extern "C" int flock(int fd, int operation) noexcept {
  if (const auto action = std::exchange(polymio::g_before_flock, nullptr)) action();
  return g_flock_error != 0 ? fail_with(g_flock_error) : static_cast<int>(::syscall(SYS_flock, fd, operation));
}

namespace polymio {
namespace {

namespace fs = std::filesystem;

class FaultTest : public ScratchTest {
 protected:
  void TearDown() override {
    g_rename_error = g_fsync_error = g_flock_error = 0;
    g_rename_happens = false;
    ScratchTest::TearDown();
  }

  /// Stores repeatedly in a database that cannot be written, and expects to find every record.
  static bool works_in_memory(FindDb& db, const Records& before = {}) {
    Records expected = before;
    for (int i = 0; i < 5; ++i) {
      db.store(Records{record("M" + std::to_string(i), 9 - i), record("M" + std::to_string(i), i)});
      expected.push_back(record("M" + std::to_string(i), i));
    }
    db.store(Calibration{4, 2, 100, 10});
    return !db.compact() && db.lookup("k") == expected && db.relatives("conv fwd").size() == expected.size() &&
           db.calibration(4, 2).has_value();
  }

  /// Another process stores and compacts successfully; afterwards the file is complete and undamaged.
  void expect_recovery(const Records& expected) {
    store(open(), expected);
    EXPECT_TRUE(open().compact());
    const auto layer = open().layers().at(0);
    EXPECT_EQ(layer.bad_lines, 0u);
    EXPECT_EQ(layer.problem, "");
    EXPECT_EQ(open().lookup("k"), expected);
    EXPECT_EQ(names_in(user_), std::set<std::string>{"dev-1.pdb.txt"});
  }

  static std::set<std::string> names_in(const fs::path& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
    return names;
  }
};

TEST_F(FaultTest, FolderThatIsAFile) {
  append(folder_ / "file", "x");
  for (const fs::path& bad : {folder_ / "file", folder_ / "file" / "below", fs::path("/proc/polymio/db")}) {
    const Outcome outcome = in_child([&] {
      FindDb db("dev-1", bad, bad);
      const bool works = works_in_memory(db);
      const auto layer = db.layers().at(0);
      return works && !layer.writable && !layer.problem.empty();
    });
    EXPECT_TRUE(outcome.passed) << bad << outcome.told;
    EXPECT_EQ(outcome.lines(), 1) << outcome.told;
  }
  EXPECT_EQ(read(folder_ / "file"), "x");
}

TEST_F(FaultTest, ReadOnlyFolder) {
  store(open(), {record("A", 1)});
  const std::string before = read(file());
  ASSERT_EQ(::chmod(file().c_str(), 0444), 0);
  ASSERT_EQ(::chmod(user_.c_str(), 0555), 0);
  ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  const Outcome outcome = in_child([&] {
    if (::getuid() == 0 && ::setuid(65534) != 0) return false;  // root ignores permissions
    FindDb db = open();
    const auto layer = db.layers().at(0);
    const bool told = layer.readable && !layer.writable && layer.problem.find("Permission denied") != std::string::npos;
    return told && works_in_memory(db, {record("A", 1)});
  });
  ASSERT_EQ(::chmod(user_.c_str(), 0755), 0);
  EXPECT_TRUE(outcome.passed) << outcome.told;
  EXPECT_EQ(outcome.lines(), 1) << outcome.told;
  EXPECT_EQ(read(file()), before);
}

TEST_F(FaultTest, NoHome) {
  const Outcome outcome = in_child([&] {
    for (const char* name : {"HOME", "XDG_CONFIG_HOME", "MIOPEN_USER_DB_PATH"}) ::unsetenv(name);
    ::setenv("MIOPEN_SYSTEM_DB_PATH", system_.c_str(), 1);
    fs::current_path(folder_);
    FindDb& db = find_db("dev-1");
    return works_in_memory(db) && db.path().empty() && !db.layers().at(0).problem.empty();
  });
  EXPECT_TRUE(outcome.passed) << outcome.told;
  EXPECT_EQ(outcome.told, "") << "having no HOME is no fault";
  EXPECT_EQ(names_in(folder_), std::set<std::string>{"stderr"}) << "nothing may be written anywhere";
}

// Writes beyond some size fail, in the middle of a record or of a batch.
TEST_F(FaultTest, FullDiskWhileStoring) {
  const Records kept = {record("A", 1), record("B", 2)};
  store(open(), kept);
  const std::string before = read(file());
  for (const std::uintmax_t space : {0, 1, 20, 100, 400}) {
    const Outcome outcome = in_child([&] {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit = {before.size() + space, before.size() + space};
      if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
      FindDb db = open();
      return works_in_memory(db, kept);
    });
    EXPECT_TRUE(outcome.passed) << space << outcome.told;
    EXPECT_EQ(outcome.lines(), 1) << space << outcome.told;
    EXPECT_EQ(read(file()).size(), before.size() + space) << "the write was meant to be cut";
    Records found = open().lookup("k");
    ASSERT_GE(found.size(), 2u);
    found.resize(2);
    EXPECT_EQ(found, kept);
    store(open(), {record("C", 3)});
    EXPECT_EQ(open().lookup("k").at(2), record("C", 3)) << "a torn line must not swallow the next one";
    EXPECT_TRUE(open().compact());
    EXPECT_EQ(open().layers().at(0).bad_lines, 0u);
    std::ofstream(file(), std::ios::trunc) << before;
  }
}

// The new file of a compaction or of a pack does not fit.
TEST_F(FaultTest, FullDiskWhileReplacing) {
  store(open(), {record("A", 1), record("B", 2)});
  write_pack(folder_ / "pack", Records{record("P", 1)});
  const std::string before = read(file()), pack = read(folder_ / "pack");
  const Outcome outcome = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {before.size() / 2, before.size() / 2};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    FindDb db = open();
    if (db.compact() || db.compact() || db.lookup("k").size() != 2) return false;
    try {
      write_pack(folder_ / "pack", Records(100, record("Q", 2)));
      write_pack(folder_ / "pack", Records{record("Q", 2), record("R", 2), record("S", 2)});
    } catch (const Error& e) {
      const std::string text = e.what();
      return text.find("pack") != std::string::npos && text.find("File too large") != std::string::npos;
    }
    return false;
  });
  EXPECT_TRUE(outcome.passed) << outcome.told;
  EXPECT_EQ(outcome.lines(), 1) << outcome.told;
  EXPECT_EQ(read(file()), before);
  EXPECT_EQ(read(folder_ / "pack"), pack);
  EXPECT_EQ(names_in(folder_), (std::set<std::string>{"stderr", "pack", "user"})) << "no temporary file may stay";
  expect_recovery({record("A", 1), record("B", 2), record("C", 3)});
}

// On network file systems the rename or the sync that ends a rewrite may report an error.
TEST_F(FaultTest, RenameOrSyncFails) {
  const Records kept = {record("A", 1), record("B", 2)};
  store(open(), kept);
  write_pack(folder_ / "pack", Records{record("P", 1)});
  const std::string before = read(file()), pack = read(folder_ / "pack");
  for (std::atomic<int>* fault : {&g_rename_error, &g_fsync_error}) {
    for (const int error : {EIO, ESTALE, EBUSY}) {
      const Outcome outcome = in_child([&] {
        *fault = error;
        FindDb db = open();
        return !db.compact() && !db.compact() && db.lookup("k") == kept;
      });
      EXPECT_TRUE(outcome.passed) << outcome.told;
      EXPECT_EQ(outcome.lines(), 1) << outcome.told;
      EXPECT_EQ(read(file()), before);
      *fault = error;
      try {
        write_pack(folder_ / "pack", Records{record("Q", 2)});
        ADD_FAILURE() << "the failure was not told";
      } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find((folder_ / "pack").string()), std::string::npos) << e.what();
        EXPECT_NE(std::string(e.what()).find(std::strerror(error)), std::string::npos) << e.what();
      }
      *fault = 0;
      EXPECT_EQ(read(folder_ / "pack"), pack);
    }
  }
  EXPECT_EQ(names_in(folder_), (std::set<std::string>{"stderr", "pack", "user"})) << "no temporary file may stay";
  expect_recovery({record("A", 1), record("B", 2), record("C", 3)});
}

// A network file system repeats a rename that has already succeeded and reports the second attempt's error.
TEST_F(FaultTest, RenameHappensButReportsFailure) {
  const Records kept = {record("A", 1), record("B", 2)};
  store(open(), kept);
  const Outcome outcome = in_child([&] {
    g_rename_error = ENOENT;
    g_rename_happens = true;
    FindDb db = open();
    db.compact();
    db.store(Records{record("C", 3)});
    return db.lookup("k") == Records{record("A", 1), record("B", 2), record("C", 3)};
  });
  EXPECT_TRUE(outcome.passed) << outcome.told;
  EXPECT_LE(outcome.lines(), 1) << outcome.told;
  expect_recovery({record("A", 1), record("B", 2), record("C", 3)});
}

TEST_F(FaultTest, TargetReplacedByAFolder) {
  store(open(), {record("A", 1)});
  const Outcome outcome = in_child([&] {
    FindDb db = open();
    db.lookup("k");
    fs::remove(file());
    fs::create_directory(file());
    try {
      write_pack(file(), Records{record("Q", 2)});
      return false;
    } catch (const Error& e) {
      if (std::string(e.what()).find("not a regular file") == std::string::npos) return false;
    }
    return works_in_memory(db);
  });
  EXPECT_TRUE(outcome.passed) << outcome.told;
  EXPECT_EQ(outcome.lines(), 1) << outcome.told;
  EXPECT_TRUE(fs::is_directory(file()));
}

// /dev/full accepts no byte; a device must never be replaced by a file.
TEST_F(FaultTest, DeviceInsteadOfTheFile) {
  fs::create_directories(user_);
  fs::create_symlink("/dev/full", file());
  const Outcome outcome = in_child([&] {
    FindDb db = open();
    return works_in_memory(db);
  });
  EXPECT_TRUE(outcome.passed) << outcome.told;
  EXPECT_EQ(outcome.lines(), 1) << outcome.told;
  EXPECT_THROW(write_pack(file(), Records{record("Q", 2)}), Error);
  EXPECT_TRUE(fs::is_symlink(file()) && fs::is_character_file("/dev/full"));
}

// A process was stopped while compacting: results stay in memory until the lock is free.
TEST_F(FaultTest, LockHeldByAStoppedProcess) {
  store(open(), {record("A", 1)});
  const Outcome outcome = in_child([&] {
    File stopped(::open(file().c_str(), O_RDWR));
    if (::flock(stopped.fd(), LOCK_EX) != 0) return false;
    FindDb db = open();
    const auto start = std::chrono::steady_clock::now();
    db.store(Records{record("B", 2)}, std::chrono::milliseconds(1));
    db.store(Records{record("C", 3)}, std::chrono::milliseconds(1));
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(1)) return false;
    if (db.lookup("k") != Records{record("A", 1), record("B", 2), record("C", 3)}) return false;
    if (open().lookup("k") != Records{record("A", 1)}) return false;
    stopped = {};
    db.store(Records{record("D", 4)});
    const Records all = {record("A", 1), record("B", 2), record("C", 3), record("D", 4)};
    if (db.lookup("k") != all || open().lookup("k") != all) return false;
    // Lines written late must not override newer records when the file is read again.
    store(open(), {record("B", 7)});
    return open().compact() && db.lookup("k").at(1) == record("B", 7);
  });
  EXPECT_TRUE(outcome.passed) << outcome.told;
  EXPECT_EQ(outcome.told, "") << "a busy file is no failure";
}

TEST_F(FaultTest, LookupsContinueWhileAStoreWaits) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kPatience = std::chrono::seconds(2);
  store(open(), {record("A", 1)});
  const File stopped(::open(file().c_str(), O_RDWR));
  ASSERT_EQ(::flock(stopped.fd(), LOCK_EX), 0);
  FindDb db = open();
  std::atomic<bool> done = false;
  std::thread waiting([&] {
    const auto start = Clock::now();
    db.store(Records{record("B", 2)}, kPatience);
    EXPECT_GE(Clock::now() - start, kPatience);
    done = true;
  });
  Clock::duration longest{};
  while (!done) {
    const auto start = Clock::now();
    EXPECT_FALSE(db.lookup("k").empty());
    longest = std::max(longest, Clock::now() - start);
  }
  waiting.join();
  EXPECT_LT(longest, kPatience / 2);
  EXPECT_EQ(db.lookup("k"), (Records{record("A", 1), record("B", 2)}));
}

TEST_F(FaultTest, ShortTimeoutNeverCompacts) {
  FindDb db = open();
  db.store(Records(3000, record("A", 1)), std::chrono::milliseconds(99));
  const auto before = fs::file_size(file());
  db.store(Records{record("A", 2)}, std::chrono::milliseconds(99));
  EXPECT_GT(fs::file_size(file()), before);
  db.store(Records{record("A", 3)}, std::chrono::milliseconds(100));
  EXPECT_LT(fs::file_size(file()), before / 100);
}

// An appending process locks the file and verifies its identity: until it is done, the file must not be replaced.
TEST_F(FaultTest, ReplacingWaitsForAppendingProcesses) {
  store(open(), {record("A", 1)});
  const std::string before = read(file());
  File appending(::open(file().c_str(), O_RDWR));
  ASSERT_EQ(::flock(appending.fd(), LOCK_SH), 0);
  try {
    write_pack(file(), Records{record("P", 1)});
    ADD_FAILURE() << "it was replaced under a writer";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("other processes hold it locked"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find(file().string()), std::string::npos) << e.what();
  }
  EXPECT_EQ(read(file()), before);
  EXPECT_EQ(names_in(user_), std::set<std::string>{"dev-1.pdb.txt"});
  std::atomic<bool> finished = false;
  std::thread end([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    finished = true;
    appending = {};
  });
  write_pack(file(), Records{record("P", 1)});
  EXPECT_TRUE(finished);
  end.join();
  EXPECT_EQ(open().lookup("k"), Records{record("P", 1)});
}

// Without locks every host has a file of its own, and no process compacts.
TEST_F(FaultTest, LocksFail) {
  store(open(), {record("A", 1)});
  const Outcome outcome = in_child([&] {
    g_flock_error = ENOLCK;
    FindDb db = open(), other = open();
    db.store(Records{record("B", 2)});
    other.store(Records{record("C", 3)});
    const Records all = {record("A", 1), record("B", 2), record("C", 3)};
    return db.lookup("k") == all && other.lookup("k") == all && !db.compact();
  });
  EXPECT_TRUE(outcome.passed) << outcome.told;
  EXPECT_EQ(outcome.told, "");
  EXPECT_EQ(names_in(user_).size(), 2u);
  EXPECT_EQ(open().lookup("k"), Records{record("A", 1)}) << "the shared file must stay as it was";
}

TEST_F(FaultTest, TornLastLine) {
  store(open(), {record("A", 1), record("B", 2)});
  const std::string whole = read(file());
  const std::size_t last = whole.rfind('\n', whole.size() - 2);
  for (std::size_t cut = last; cut + 1 < whole.size(); cut += 5) {
    std::ofstream(file(), std::ios::trunc) << whole.substr(0, cut);
    EXPECT_EQ(open().lookup("k"), Records{record("A", 1)}) << cut;
    expect_recovery({record("A", 1), record("C", 3)});
  }
}

TEST_F(FaultTest, ForeignBytes) {
  std::mt19937 random(5);
  const auto noise = [&](std::size_t size) {
    std::string bytes(size, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    return bytes;
  };
  fs::create_directories(user_);
  append(file(), noise(100000));
  Records expected;
  for (int i = 0; i < 20; ++i) {
    expected.push_back(record(std::string(1, static_cast<char>('A' + i)), i));
    store(open(), {expected.back()});
    append(file(), i % 5 == 0 ? std::string(5 << 20, i % 2 ? '\0' : 'x') : noise(random() % 20000) + "\n\n\0\n# \n");
  }
  const Outcome outcome = in_child([&] { return open().lookup("k") == expected; });
  EXPECT_TRUE(outcome.passed);
  EXPECT_EQ(outcome.told, "");
  EXPECT_GT(open().layers().at(0).bad_lines, 100u);
  FindDb with_pack("dev-1", std::nullopt, std::nullopt);
  with_pack.load_pack(file());
  EXPECT_EQ(with_pack.lookup("k"), expected);
  EXPECT_THROW(with_pack.load_pack(std::string_view(noise(50000))), Error);
  expect_recovery(expected);
  EXPECT_LT(fs::file_size(file()), 10000u);
}

// Any change of one byte: no crash, no record that was never stored.
TEST_F(FaultTest, FlippedBytes) {
  const Records stored = {record("A", 1), record("B", 2), record("C", 3)};
  store(open(), stored);
  const std::string whole = read(file());
  std::mt19937 random(6);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
    std::ofstream(file(), std::ios::trunc | std::ios::binary) << damaged;
    const Records found = open().lookup("k");
    EXPECT_GE(found.size(), 2u) << at;
    for (const FindRecord& r : found) EXPECT_NE(std::find(stored.begin(), stored.end(), r), stored.end()) << at;
  }
}

TEST_F(FaultTest, BigFile) {
  Records many;
  for (int i = 0; i < 60000; ++i)
    many.push_back(record("S" + std::to_string(i % 6), i, fmt::format("conv {} {:060}", i / 6, 0)));
  fs::create_directories(user_);
  write_pack(file(), many);
  ASSERT_GT(fs::file_size(file()), 8u << 20);
  FindDb db = open();
  for (int i = 0; i < 60000; i += 5000) {
    const auto at = many.begin() + i / 6 * 6;
    EXPECT_EQ(db.lookup(at->key), Records(at, at + 6));
  }
  db.store(Records{record("S0", 1)});
  EXPECT_EQ(db.relatives("conv fwd").size(), 2048u);
  const auto size = fs::file_size(file());
  EXPECT_TRUE(db.compact());
  EXPECT_EQ(fs::file_size(file()), size) << "nothing was dead";
  EXPECT_EQ(open().lookup(many.back().key), Records(many.end() - 6, many.end()));
}

// Concurrent writers; whoever finds half of the records dead compacts the file.
TEST_F(FaultTest, ManyProcessesWriteAtOnce) {
  constexpr int kProcesses = 64, kRounds = 30;
  const auto own = [](int process, int round) {
    return record("S", process * 1000 + round, fmt::format("own {} {}", process, round));
  };
  const auto hot = [](int process, int round) { return record("S", round, fmt::format("hot {}", process)); };
  const Outcome outcome = in_child([&] {
    int start[2];
    if (::pipe(start) != 0) return false;
    std::vector<pid_t> children;
    for (int p = 0; p < kProcesses; ++p) {
      children.push_back(spawn([&] {
        ::close(start[1]);
        char c;
        if (::read(start[0], &c, 1) != 0) return false;  // wait until all processes have started
        FindDb db = open();
        for (int r = 0; r < kRounds; ++r) db.store(Records{own(p, r), hot(p, r - 1), hot(p, r)});
        return db.lookup(own(p, 3).key) == Records{own(p, 3)};
      }));
    }
    ::close(start[1]);
    bool good = true;
    for (const pid_t child : children) {
      int status = -1;
      ::waitpid(child, &status, 0);
      good = good && status == 0;
    }
    return good;
  });
  EXPECT_TRUE(outcome.passed);
  EXPECT_EQ(outcome.told, "");
  const auto written = open().layers().at(0);
  EXPECT_LT(written.records, std::size_t{kProcesses * kRounds * 3}) << "nobody has compacted";
  EXPECT_EQ(written.bad_lines, 0u);
  FindDb db = open();
  for (int p = 0; p < kProcesses; ++p) {
    for (int r = 0; r < kRounds; ++r) EXPECT_EQ(db.lookup(own(p, r).key), Records{own(p, r)});
    EXPECT_EQ(db.lookup(hot(p, 0).key), Records{hot(p, kRounds - 1)});
  }
  EXPECT_TRUE(db.compact());
  EXPECT_EQ(open().layers().at(0).records, std::size_t{kProcesses * (kRounds + 1)});
}

/// Kills two writers of one database at a random moment; returns the records that they reported as stored.
class KillTest : public FaultTest {
 protected:
  /// Stores and compacts forever; reports every finished store ("S key") and begun compaction ("C").
  bool write_for_ever(int round, int tell) const {
    FindDb db = open();
    for (int i = 0;; ++i) {
      const std::string key = fmt::format("{}-{}", round, i);
      db.store(Records{record("S", i, key), record("S", i, "hot")});
      const std::string line = "S " + key + "\n";
      if (::write(tell, line.data(), line.size()) < 0) return false;
      if (i % 4 != 3) continue;
      if (::write(tell, "C\n", 2) < 0) return false;
      db.compact();
    }
  }

  /// Every second kill happens during a compaction.
  std::string kill_one(int round, std::mt19937& random) {
    int ends[2];
    if (::pipe(ends) != 0) return "";
    const pid_t child = spawn([&] { return write_for_ever(round, ends[1]); });
    ::close(ends[1]);
    std::string told(1 << 20, '\0');
    std::size_t size = 0;
    const auto hear = [&] {
      const ssize_t got = ::read(ends[0], &told[size], told.size() - size);
      size += got > 0 ? static_cast<std::size_t>(got) : 0;
      return got > 0;
    };
    const std::string awaited = round % 2 ? "C" : "S";
    while (told.find(awaited) == std::string::npos && hear()) continue;
    const unsigned most = round % 2 ? 50u << round / 2 % 8 : 6000;  // however long a compaction takes here
    std::this_thread::sleep_for(std::chrono::microseconds(random() % most));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself";
    while (hear()) continue;
    ::close(ends[0]);
    return told.substr(0, size);
  }
};

TEST_F(KillTest, NothingStoredIsLost) {
  constexpr int kKills = 220;
  std::mt19937 random(7);
  std::map<std::string, int> stored;  // key -> time
  int in_compaction = 0;
  for (int round = 0; round < kKills; ++round) {
    std::istringstream told(kill_one(round, random));
    for (std::string line; std::getline(told, line);)
      if (line[0] == 'S') stored[line.substr(2)] = std::stoi(line.substr(line.find('-') + 1));
    const bool left = fs::exists(file().string() + ".tmp");
    in_compaction += left;
    if (round % 20 != 19) continue;
    FindDb db = open();
    EXPECT_TRUE(db.compact()) << "the dead must not hold the lock";
    EXPECT_EQ(db.layers().at(0).bad_lines, 0u);
    EXPECT_EQ(names_in(user_), std::set<std::string>{"dev-1.pdb.txt"});
    for (const auto& [key, time] : stored) ASSERT_EQ(db.lookup(key), Records{record("S", time, key)});
  }
  EXPECT_GE(stored.size(), std::size_t{kKills});
  EXPECT_GE(in_compaction, 5) << "too few kills hit a compaction";
  RecordProperty("kills_in_compaction", in_compaction);
}

}  // namespace
}  // namespace polymio
