// Untrusted files: links and fifos at the paths that are read and written, unbounded sizes, files and folders of
// another user.
// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>

#include "base/error.h"
#include "db/kernel_cache.h"
#include "db/key_lock.h"
#include "scratch.h"

namespace polymio {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;

class FilesTest : public ScratchTest {
 protected:
  void SetUp() override {
    ScratchTest::SetUp();
    victim_ = folder_ / "victim";
    append(victim_, "mine");
  }

  /// A fifo, a folder, a device behind a link, a socket: none of them may be opened as a file.
  std::vector<fs::path> strange() const {
    const fs::path fifo = folder_ / "fifo", socket = folder_ / "socket", device = folder_ / "device";
    EXPECT_EQ(::mkfifo(fifo.c_str(), 0666), 0);
    fs::create_symlink("/dev/zero", device);
    sockaddr_un name{AF_UNIX, {}};
    socket.string().copy(name.sun_path, sizeof name.sun_path - 1);
    const File end(::socket(AF_UNIX, SOCK_STREAM, 0));
    EXPECT_EQ(::bind(end.fd(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
    return {fifo, socket, device};
  }
  /// Makes a sparse file.
  static void make_sparse(const fs::path& path, std::uintmax_t bytes) {
    append(path, "");
    fs::resize_file(path, bytes);
  }
  /// The text of the exception that the call throws.
  template <class Call>
  static std::string text_of(const Call& call) {
    try {
      call();
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }

  fs::path victim_;
};

TEST_F(FilesTest, OnlyRegularFilesAreOpened) {
  for (const fs::path& path : strange())
    for (const int flags : {O_RDONLY, O_WRONLY, O_RDWR | O_APPEND | O_CREAT}) {
      const File file = open_regular(path, flags);
      EXPECT_FALSE(file) << path;
      EXPECT_EQ(file_error(errno), "it is not a regular file") << path;
    }
  EXPECT_FALSE(open_regular(folder_, O_RDONLY));
  EXPECT_EQ(file_error(errno), "Is a directory");
  EXPECT_TRUE(open_regular(victim_, O_RDWR));
}

TEST_F(FilesTest, NothingIsMadeBehindALink) {
  const fs::path link = folder_ / "link", nowhere = folder_ / "made";
  fs::create_symlink(nowhere, link);
  EXPECT_FALSE(open_regular(link, O_WRONLY | O_CREAT));
  EXPECT_EQ(errno, ELOOP);
  EXPECT_FALSE(fs::exists(nowhere));
  EXPECT_TRUE(open_regular(nowhere, O_WRONLY | O_CREAT));
  EXPECT_TRUE(open_regular(link, O_WRONLY | O_CREAT)) << "the user's own link to a file that is there";
  EXPECT_FALSE(open_regular(link, O_WRONLY | O_CREAT | O_NOFOLLOW));
}

TEST_F(FilesTest, DatabaseThatIsALinkToNothingIsNotMade) {
  fs::create_directories(user_);
  fs::create_symlink(folder_ / "made", file());
  const Outcome outcome = in_child([&] {
    FindDb db = open();
    db.store(Records{record("A", 1)});
    return db.lookup("k") == Records{record("A", 1)};
  });
  EXPECT_TRUE(outcome.passed) << outcome.told;
  EXPECT_NE(outcome.told.find("symbolic link"), std::string::npos) << outcome.told;
  EXPECT_FALSE(fs::exists(folder_ / "made"));
}

TEST_F(FilesTest, TemporaryFilesDoNotFollowLinks) {
  fs::create_symlink(victim_, folder_ / "pack.tmp");
  EXPECT_EQ(replace_file(folder_ / "pack", folder_ / "pack.tmp", "text", 0), 0);
  EXPECT_EQ(read(victim_), "mine");
  EXPECT_EQ(read(folder_ / "pack"), "text");
  store(open(), {record("A", 1)});
  fs::create_symlink(victim_, file().string() + ".tmp");
  EXPECT_TRUE(open().compact());
  EXPECT_EQ(read(victim_), "mine");
}

TEST_F(FilesTest, LockFilesDoNotFollowLinksNorWaitForFifos) {
  fs::create_directories(user_);
  { const KeyLock known(user_, "key", std::chrono::milliseconds(0)); }
  std::string name;
  {
    const KeyLock held(user_, "key", std::chrono::milliseconds(0));
    name = fs::directory_iterator(user_)->path();
  }
  fs::create_symlink(folder_ / "made", name);
  EXPECT_FALSE(KeyLock(user_, "key", std::chrono::milliseconds(0)).held());
  EXPECT_FALSE(fs::exists(folder_ / "made"));
  fs::remove(name);
  ASSERT_EQ(::mkfifo(name.c_str(), 0666), 0);
  EXPECT_FALSE(KeyLock(user_, "key", std::chrono::milliseconds(0)).held());
}

TEST_F(FilesTest, PacksAreRegularFiles) {
  FindDb db = open();
  for (const fs::path& path : strange())
    for (const std::string& text : {text_of([&] { db.load_pack(path); }), text_of([&] { read_pack(path, {}); })})
      EXPECT_NE(text.find("it is not a regular file"), std::string::npos) << path << text;
}

TEST_F(FilesTest, SizesAreBounded) {
  const auto start = std::chrono::steady_clock::now();
  const fs::path sparse = folder_ / "sparse";
  make_sparse(sparse, std::uintmax_t{64} << 30);
  for (const std::string& text : {text_of([&] { open().load_pack(sparse); }), text_of([&] { read_pack(sparse, {}); })})
    EXPECT_NE(text.find("it is larger than 1024 MiB"), std::string::npos) << text;
  store(open(), {record("A", 1)});
  fs::resize_file(file(), std::uintmax_t{64} << 30);
  const Outcome outcome = in_child([&] {
    FindDb db = open();
    db.store(Records{record("B", 2)});
    const auto layer = db.layers().at(0);
    return db.lookup("k") == Records{record("B", 2)} && !db.compact() && !layer.readable &&
           layer.problem.find("1024 MiB") != std::string::npos;
  });
  EXPECT_TRUE(outcome.passed) << outcome.told;
  EXPECT_EQ(outcome.lines(), 1) << outcome.told;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST_F(FilesTest, LinesAreBounded) {
  const FindRecord longest = record("A", 1, std::string(kLongestLine - 200, 'k'));
  const FindRecord longer = record("A", 1, std::string(kLongestLine, 'k'));
  write_pack(folder_ / "pack", Records{longest});
  FindDb db = open();
  db.load_pack(folder_ / "pack");
  EXPECT_EQ(db.lookup(longest.key).size(), 1u);
  const std::string text = text_of([&] { write_pack(folder_ / "pack", Records{longer}); });
  EXPECT_NE(text.find("at most 65519 are read"), std::string::npos) << text;
  std::string lines;
  append_line(lines, encode(longer));
  append_line(lines, encode(record("B", 2)));
  db.load_pack(std::string_view(lines));
  EXPECT_EQ(db.lookup(longer.key).size(), 0u);
  EXPECT_EQ(db.lookup("k").size(), 1u);
}

TEST_F(FilesTest, DatabaseThatAllMayWriteIsOneWarning) {
  store(open(), {record("A", 1)});
  for (const auto& [path, mode] : {std::pair{file(), 0666}, std::pair{user_, 0777}}) {
    ASSERT_EQ(::chmod(path.c_str(), static_cast<mode_t>(mode)), 0);
    const Outcome outcome = in_child([&] { return open().lookup("k").size() == 1; });
    EXPECT_TRUE(outcome.passed) << outcome.told;
    EXPECT_EQ(outcome.lines(), 1) << outcome.told;
    EXPECT_NE(outcome.told.find("every user may write " + path.string()), std::string::npos) << outcome.told;
    ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  }
  const Outcome outcome = in_child([&] { return open().lookup("k").size() == 1; });
  EXPECT_EQ(outcome.told, "") << "a database of this user alone";
}

// Two users

class TwoUsersTest : public FilesTest {
 protected:
  void SetUp() override {
    FilesTest::SetUp();
    if (::geteuid() != 0) GTEST_SKIP() << "only root can be two users";
    ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  }
  /// As in_child, as another user.
  Outcome as_nobody(const std::function<bool()>& body) const {
    return in_child([&] { return ::setresuid(kNobody, kNobody, kNobody) == 0 && body(); });
  }
  static bool give(const fs::path& path, uid_t user) { return ::lchown(path.c_str(), user, user) == 0; }
};

TEST_F(TwoUsersTest, KernelsOfRootAreUsedAndThoseOfOthersAreNot) {
  const fs::path cache = folder_ / "cache";
  KernelCache(cache).store("a", "program");
  ASSERT_EQ(::chmod(cache.c_str(), 0755), 0);
  ASSERT_EQ(::chmod((cache / "a.kernel").c_str(), 0644), 0);
  EXPECT_TRUE(as_nobody([&] { return KernelCache(cache).load("a") == "program"; }).passed) << "root's";
  ASSERT_TRUE(give(cache / "a.kernel", kNobody));
  const Outcome file = in_child([&] { return !KernelCache(cache).load("a") && !KernelCache(cache).load("a"); });
  EXPECT_TRUE(file.passed) << file.told;
  EXPECT_EQ(file.lines(), 1) << file.told;
  EXPECT_NE(file.told.find("belongs to user 65534"), std::string::npos) << file.told;
  ASSERT_TRUE(give(cache / "a.kernel", 0) && give(cache, kNobody));
  const Outcome folder = in_child([&] {
    KernelCache(cache).store("b", "program");
    return !KernelCache(cache).load("a") && !KernelCache(cache).lock("a", std::chrono::milliseconds(0)).held();
  });
  EXPECT_TRUE(folder.passed) << folder.told;
  EXPECT_EQ(folder.lines(), 1) << folder.told;
  EXPECT_FALSE(fs::exists(cache / "b.kernel")) << "nothing is left in another user's folder";
}

TEST_F(TwoUsersTest, FilesOfAnotherUserInASharedFolderAreNotUsed) {
  const fs::path shared = folder_ / "shared";
  fs::create_directories(shared);
  ASSERT_EQ(::chmod(shared.c_str(), 01777), 0);  // as /tmp
  const Outcome planted = as_nobody([&] {
    KernelCache(shared / "cache").store("a", "evil");
    KernelCache own(shared / "own");
    own.store("a", "program");
    fs::create_symlink(victim_, shared / "pack");
    return own.load("a") == "program";
  });
  ASSERT_TRUE(planted.passed) << planted.told;
  EXPECT_EQ(planted.told, "") << "a folder of one's own in a shared one is fine";
  EXPECT_TRUE(in_child([&] { return !KernelCache(shared / "cache").load("a"); }).passed);
  const std::string text = text_of([&] { write_pack(shared / "pack", Records{record("A", 1)}); });
  EXPECT_NE(text.find("symbolic link of user 65534"), std::string::npos) << text;
  EXPECT_EQ(read(victim_), "mine");
}

TEST_F(TwoUsersTest, TemporaryFilesOfAnotherUserAreNotWritten) {
  const fs::path shared = folder_ / "shared";
  fs::create_directories(shared);
  ASSERT_EQ(::chmod(shared.c_str(), 01777), 0);
  fs::create_symlink(victim_, shared / "file.tmp");
  const Outcome outcome =
      as_nobody([&] { return replace_file(shared / "file", shared / "file.tmp", "text", 0) == EEXIST; });
  EXPECT_TRUE(outcome.passed) << outcome.told;
  EXPECT_EQ(read(victim_), "mine");
}

}  // namespace
}  // namespace polymio
