// The journal under several processes, crashes and foreign contents.
// SPDX-License-Identifier: MIT
#include "db/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <new>
#include <random>
#include <set>
#include <sstream>
#include <thread>

namespace polymio {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;
using Views = std::vector<std::string_view>;

class JournalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "polymio-journal-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = folder_ / "device.pdb.txt";
  }
  void TearDown() override { fs::remove_all(folder_); }

  static Lines read_all(Journal& journal) {
    Lines lines;
    journal.read_new([&] { lines.clear(); }, [&](std::string_view r) { lines.emplace_back(r); });
    return lines;
  }
  Lines read_file() const {
    Journal journal(path_, "test");
    return read_all(journal);
  }
  std::string text() const {
    std::ostringstream out;
    out << std::ifstream(path_).rdbuf();
    return out.str();
  }
  void add_bytes(const std::string& bytes) const { std::ofstream(path_, std::ios::app) << bytes; }

  /// Runs `body` in a child process that exits at once afterwards.
  template <class F>
  static pid_t spawn(F body) {
    const pid_t child = ::fork();
    if (child == 0) {
      body();
      ::_exit(0);
    }
    return child;
  }
  static int wait_for(pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
  }

  fs::path folder_, path_;
};

bool append_one(Journal& journal, const std::string& record) { return journal.append(std::span(&record, 1)); }

TEST_F(JournalTest, KeepsRecordsInOrderAndMakesFolders) {
  path_ = folder_ / "a" / "b" / "device.pdb.txt";
  Journal journal(path_, "test");
  EXPECT_TRUE(read_all(journal).empty());
  EXPECT_FALSE(fs::exists(folder_ / "a")) << "reading must not create anything";
  EXPECT_TRUE(journal.append(Lines{"one", "two three"}));
  EXPECT_TRUE(append_one(journal, ""));
  EXPECT_EQ(read_file(), (Lines{"one", "two three", ""}));
  EXPECT_EQ(text().find("# test\n"), 0u);
}

TEST_F(JournalTest, ReadsOnlyWhatIsNew) {
  Journal reader(path_, "test"), writer(path_, "test");
  append_one(writer, "one");
  EXPECT_EQ(read_all(reader), Lines{"one"});
  EXPECT_TRUE(read_all(reader).empty());
  append_one(writer, "two");
  EXPECT_EQ(read_all(reader), Lines{"two"});
}

TEST_F(JournalTest, SkipsTornForeignAndForgedLines) {
  Journal journal(path_, "test");
  append_one(journal, "good 1");
  const std::string whole = text();
  add_bytes("\n0123456789abcdef good 9\n");                  // wrong checksum
  add_bytes(std::string("\n\0\xff\xfe binary \x80\n", 14));  // foreign bytes
  add_bytes("\nzzzzzzzzzzzzzzzz text\n\n\nshort\n");
  add_bytes(whole.substr(whole.find("good 1") - 17, 20));  // a record that lost its end
  append_one(journal, "good 2");
  EXPECT_EQ(read_file(), (Lines{"good 1", "good 2"}));
}

TEST_F(JournalTest, WaitsForTheEndOfALine) {
  Journal writer(path_, "test"), reader(path_, "test");
  append_one(writer, "one");
  append_one(writer, "two");
  const std::string whole = text();
  fs::remove(path_);
  for (std::size_t cut = whole.find("one") + 4; cut < whole.size(); ++cut) {
    std::ofstream(path_, std::ios::trunc) << whole.substr(0, cut);
    Journal fresh(path_, "test");
    EXPECT_EQ(read_all(fresh), Lines{"one"}) << cut;
    add_bytes(whole.substr(cut));
    EXPECT_EQ(read_all(fresh), Lines{"two"}) << cut;
  }
}

TEST_F(JournalTest, SkipsHugeForeignContents) {
  add_bytes(std::string(5 << 20, 'x'));
  Journal journal(path_, "test");
  EXPECT_TRUE(append_one(journal, "good"));
  EXPECT_EQ(read_all(journal), Lines{"good"});
}

TEST_F(JournalTest, StartsAgainWhenTheFileIsReplacedShortenedOrRemoved) {
  Journal reader(path_, "test"), writer(path_, "test");
  int restarts = 0;
  const auto read = [&] {
    Lines lines;
    reader.read_new([&] { ++restarts; }, [&](std::string_view r) { lines.emplace_back(r); });
    return lines;
  };
  append_one(writer, "one");
  EXPECT_EQ(read(), Lines{"one"});
  EXPECT_TRUE(writer.compact([](Views) { return Views{"replaced"}; }));
  EXPECT_EQ(read(), Lines{"replaced"});
  EXPECT_EQ(restarts, 1);
  fs::resize_file(path_, 0);
  append_one(writer, "x");
  EXPECT_EQ(read(), Lines{"x"});
  EXPECT_EQ(restarts, 2);
  fs::remove_all(folder_);
  EXPECT_TRUE(read().empty());
  EXPECT_EQ(restarts, 3);
  EXPECT_TRUE(append_one(writer, "back"));
  EXPECT_EQ(read(), Lines{"back"});
  EXPECT_EQ(restarts, 3);
}

TEST_F(JournalTest, CompactionKeepsModeAndHeader) {
  Journal journal(path_, "test");
  journal.append(Lines{"a", "b", "c"});
  ASSERT_EQ(::chmod(path_.c_str(), 0640), 0);
  Lines seen;
  EXPECT_TRUE(journal.compact([&](Views all) {
    seen.assign(all.begin(), all.end());
    return Views{all[2], all[0]};
  }));
  EXPECT_EQ(seen, (Lines{"a", "b", "c"}));
  EXPECT_EQ(read_file(), (Lines{"c", "a"}));
  EXPECT_EQ(text().find("# test\n"), 0u);
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
  EXPECT_FALSE(fs::exists(path_.string() + ".tmp"));
}

TEST_F(JournalTest, CompactionIsSkippedWhenBusyMissingOrALink) {
  const auto keep = [](Views all) { return all; };
  Journal journal(path_, "test");
  EXPECT_FALSE(journal.compact(keep));
  append_one(journal, "one");
  {
    const File other(::open(path_.c_str(), O_RDWR));
    ASSERT_EQ(::flock(other.fd(), LOCK_SH), 0);
    EXPECT_FALSE(journal.compact(keep));
  }
  EXPECT_TRUE(journal.compact(keep));
  const fs::path link = folder_ / "link.pdb.txt";
  fs::create_symlink(path_, link);
  Journal linked(link, "test");
  EXPECT_FALSE(linked.compact(keep));
  EXPECT_TRUE(append_one(linked, "two"));
  EXPECT_EQ(read_file(), (Lines{"one", "two"}));
}

TEST_F(JournalTest, WaitingForAHeldLockIsBoundedAndNoFailure) {
  Journal journal(path_, "test");
  append_one(journal, "one");
  File stopped(::open(path_.c_str(), O_RDWR));
  ASSERT_EQ(::flock(stopped.fd(), LOCK_EX), 0);
  Journal reader(path_, "test");
  EXPECT_EQ(read_all(reader), Lines{"one"});
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(journal.append(Lines{"two"}, std::chrono::milliseconds(50)));
  const auto waited = std::chrono::steady_clock::now() - start;
  EXPECT_GE(waited, std::chrono::milliseconds(50));
  EXPECT_LT(waited, std::chrono::seconds(2));
  EXPECT_EQ(journal.problem(), "");
  stopped = {};
  EXPECT_TRUE(append_one(journal, "three"));
  EXPECT_EQ(read_all(reader), Lines{"three"});
}

TEST_F(JournalTest, FailureIsFalseAndPermanent) {
  std::ofstream(folder_ / "file") << "x";
  Journal below_file(folder_ / "file" / "sub" / "d.pdb.txt", "test");
  EXPECT_FALSE(append_one(below_file, "one"));
  EXPECT_TRUE(read_all(below_file).empty());
  Journal no_folder("/proc/polymio/d.pdb.txt", "test");
  EXPECT_FALSE(append_one(no_folder, "one"));
  fs::create_directory(folder_ / "d.pdb.txt");
  Journal is_folder(folder_ / "d.pdb.txt", "test");
  EXPECT_FALSE(append_one(is_folder, "one"));
  EXPECT_TRUE(read_all(is_folder).empty());
  fs::remove(folder_ / "d.pdb.txt");
  EXPECT_FALSE(append_one(is_folder, "one"));
  EXPECT_FALSE(fs::exists(folder_ / "d.pdb.txt"));
}

TEST_F(JournalTest, FifoInsteadOfTheFileDoesNotBlock) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  Journal journal(path_, "test");
  EXPECT_TRUE(read_all(journal).empty());
  EXPECT_FALSE(append_one(journal, "one"));
  EXPECT_FALSE(journal.compact([](Views all) { return all; }));
}

TEST_F(JournalTest, ReadOnlyFolderIsReadAndNotWritten) {
  Journal journal(path_, "test");
  append_one(journal, "one");
  fs::permissions(path_, fs::perms::owner_read);
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  constexpr uid_t kNobody = 65534;  // root ignores permissions
  const bool root = ::getuid() == 0;
  if (root) {
    ASSERT_EQ(::chown(folder_.c_str(), kNobody, kNobody), 0);
    ASSERT_EQ(::chown(path_.c_str(), kNobody, kNobody), 0);
  }
  const pid_t child = spawn([&] {
    if (root && ::setuid(kNobody) != 0) ::_exit(3);
    Journal other(path_, "test"), missing(folder_ / "new.pdb.txt", "test");
    const bool read = read_all(other) == Lines{"one"};
    const bool wrote = append_one(other, "two") || append_one(missing, "two");
    ::_exit(read && !wrote ? 0 : 4);
  });
  EXPECT_EQ(wait_for(child), 0);
  fs::permissions(folder_, fs::perms::owner_all);
  EXPECT_EQ(read_file(), Lines{"one"});
}

TEST_F(JournalTest, FullDiskLosesOnlyTheRecordThatDidNotFit) {
  Journal journal(path_, "test");
  append_one(journal, "before");
  const auto size = fs::file_size(path_);
  const pid_t child = spawn([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit limit = {size + 30, size + 30};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    Journal full(path_, "test");
    ::_exit(append_one(full, std::string(100, 'x')) ? 1 : 0);
  });
  EXPECT_EQ(wait_for(child), 0);
  EXPECT_EQ(fs::file_size(path_), size + 30) << "the write was meant to be cut";
  EXPECT_TRUE(append_one(journal, "after"));
  EXPECT_EQ(read_file(), (Lines{"before", "after"}));
}

TEST_F(JournalTest, ManyProcessesLoseNothingWhileOneCompacts) {
  constexpr int kWriters = 8, kRecords = 200, kCompactions = 3;
  struct Shared {
    std::atomic<int> compactions, records;
  };
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Shared& shared = *new (memory) Shared{};
  Journal inherited(path_, "test");  // used by every child, as in a program that forks
  append_one(inherited, "first");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  std::set<pid_t> running;
  for (int w = 0; w < kWriters; ++w) {
    running.insert(spawn([&] {
      // First at full speed; then with pauses, until some compactions have happened.
      const auto more = [&] {
        return shared.compactions < kCompactions && std::chrono::steady_clock::now() < deadline;
      };
      for (int r = 0; r < kRecords || more(); ++r) {
        if (!append_one(inherited, fmt::format("{} {} {}", w, r, std::string(r % 200, 'p')))) ::_exit(1);
        ++shared.records;
        if (r >= kRecords) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }));
  }
  while (!running.empty()) {
    shared.compactions += inherited.compact([](Views all) { return all; });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    int status = 0;
    const pid_t done = ::waitpid(-1, &status, WNOHANG);
    if (done <= 0) continue;
    EXPECT_EQ(status, 0);
    running.erase(done);
  }
  EXPECT_GE(shared.compactions, kCompactions);
  EXPECT_GE(shared.records, kWriters * kRecords);
  const Lines lines = read_file();
  EXPECT_EQ(lines.size(), 1u + static_cast<std::size_t>(shared.records));
  const std::set<std::string> distinct(lines.begin(), lines.end());
  EXPECT_EQ(distinct.size(), lines.size());
  EXPECT_EQ(distinct.count(fmt::format("7 199 {}", std::string(199, 'p'))), 1u);
  ::munmap(memory, sizeof(Shared));
}

TEST_F(JournalTest, ReaderSeesEveryRecordWhileOthersWriteAndCompact) {
  const pid_t child = spawn([&] {
    Journal writer(path_, "test");
    for (int r = 0; r < 300; ++r) {
      if (!append_one(writer, fmt::format("{}", r))) ::_exit(1);
      if (r % 20 == 19) writer.compact([](Views all) { return all; });
    }
  });
  Journal reader(path_, "test");
  Lines seen;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (seen.size() < 300 && std::chrono::steady_clock::now() < deadline) {
    reader.read_new([&] { seen.clear(); }, [&](std::string_view r) { seen.emplace_back(r); });
    for (std::size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], fmt::format("{}", i));
  }
  EXPECT_EQ(seen.size(), 300u);
  EXPECT_EQ(wait_for(child), 0);
}

TEST_F(JournalTest, SurvivesKillAtAnyMoment) {
  std::mt19937 random(7);
  int pipe_ends[2];
  Lines promised;
  for (int round = 0; round < 30; ++round) {
    ASSERT_EQ(::pipe(pipe_ends), 0);
    const pid_t child = spawn([&] {
      Journal writer(path_, "test");
      for (int r = 0;; ++r) {
        const std::string record = fmt::format("{} {} {}", round, r, std::string(r % 50, 'k'));
        if (!append_one(writer, record)) ::_exit(1);
        const std::string line = record + "\n";
        if (::write(pipe_ends[1], line.data(), line.size()) < 0) ::_exit(2);
        if (r % 7 == 6) writer.compact([](Views all) { return all; });
      }
    });
    ::close(pipe_ends[1]);
    std::string told(1 << 20, '\0');
    ASSERT_EQ(::read(pipe_ends[0], told.data(), 1), 1);  // it has begun
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 15000));
    ::kill(child, SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(wait_for(child)));
    std::size_t size = 1;
    for (ssize_t got; (got = ::read(pipe_ends[0], &told[size], told.size() - size)) > 0;)
      size += static_cast<std::size_t>(got);
    ::close(pipe_ends[0]);
    std::istringstream lines(told.substr(0, size));
    for (std::string line; std::getline(lines, line);) promised.push_back(line);
  }
  Journal journal(path_, "test");
  EXPECT_TRUE(append_one(journal, "alive"));
  EXPECT_TRUE(journal.compact([](Views all) { return all; })) << "the dead must not hold the lock";
  const Lines lines = read_file();
  const std::set<std::string> present(lines.begin(), lines.end());
  for (const std::string& record : promised) EXPECT_EQ(present.count(record), 1u) << record;
  EXPECT_GE(promised.size(), 30u);
  EXPECT_EQ(lines.back(), "alive");
}

TEST_F(JournalTest, PerHostFilesAreAllReadAndNeverCompacted) {
  {
    Journal shared(path_, "test");
    append_one(shared, "shared");
  }
  Journal mine(path_, "test", Journal::Sharing::kPerHost);
  EXPECT_TRUE(append_one(mine, "mine"));
  EXPECT_EQ(read_file(), Lines{"shared"}) << "the shared file must stay as it was";
  Journal elsewhere(folder_ / "device.pdb.otherhost.txt", "test");
  append_one(elsewhere, "theirs");
  Journal unrelated(folder_ / "device2.pdb.txt", "test");
  append_one(unrelated, "unrelated");
  Lines lines = read_all(mine);
  EXPECT_EQ(lines.front(), "shared");
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(lines, (Lines{"mine", "shared", "theirs"}));
  append_one(elsewhere, "more");
  EXPECT_EQ(read_all(mine), Lines{"more"});
  EXPECT_FALSE(mine.compact([](Views all) { return all; }));
}

TEST_F(JournalTest, LeavesNoDescriptorToChildPrograms) {
  Journal journal(path_, "test");
  append_one(journal, "one");
  read_all(journal);
  int followed = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (fs::read_symlink(entry.path(), error) != fs::canonical(path_)) continue;
    ++followed;
    EXPECT_TRUE(::fcntl(std::stoi(entry.path().filename()), F_GETFD) & FD_CLOEXEC);
  }
  EXPECT_EQ(followed, 1);
}

}  // namespace
}  // namespace polymio
