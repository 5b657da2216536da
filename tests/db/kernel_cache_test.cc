// The cache files of compiled kernels: round trips, damage, eviction, folders that cannot be written.
// SPDX-License-Identifier: MIT
#include "db/kernel_cache.h"

#include <sys/stat.h>

#include <thread>

#include "scratch.h"

namespace polymio {
namespace {

namespace fs = std::filesystem;

class KernelCacheTest : public ScratchTest {
 protected:
  KernelCache cache(std::size_t limit = 1 << 20) const { return KernelCache(user_, limit); }
  fs::path path(const std::string& key) const { return user_ / (key + ".kernel"); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(user_), fs::directory_iterator()));
  }
};

const std::string kProgram(
    "\x7f"
    "ELF\0\n\xff binary\n",
    15);

TEST_F(KernelCacheTest, ProgramsComeBackAsTheyWere) {
  cache().store("a", kProgram);
  cache().store("b", "");
  EXPECT_EQ(cache().load("a"), kProgram);
  EXPECT_EQ(cache().load("b"), "");
  EXPECT_FALSE(cache().load("c"));
  EXPECT_EQ(files(), 2u) << "nothing temporary stays";
  cache().drop("a");
  EXPECT_FALSE(cache().load("a"));
}

TEST_F(KernelCacheTest, DamagedFilesAreIgnored) {
  cache().store("a", kProgram);
  const std::string whole = read(path("a"));
  const auto put = [&](const std::string& text) { std::ofstream(path("a"), std::ios::binary) << text; };
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    put(changed);
    EXPECT_FALSE(cache().load("a")) << "byte " << i;
    put(whole.substr(0, i));
    EXPECT_FALSE(cache().load("a")) << "cut at " << i;
  }
  put(whole + "x");
  EXPECT_FALSE(cache().load("a"));
  put(whole);
  EXPECT_EQ(cache().load("a"), kProgram);
  fs::rename(path("a"), path("b"));
  EXPECT_FALSE(cache().load("b")) << "it is the program of another key";
}

TEST_F(KernelCacheTest, TheLeastRecentlyUsedIsRemovedFirst) {
  const std::string program(1000, 'p');
  KernelCache all = cache(4500);
  const auto hours_ago = [&](const std::string& key, int hours) {
    fs::last_write_time(path(key), fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  for (const char* key : {"a", "b", "c", "d"}) all.store(key, program);
  hours_ago("a", 4);
  hours_ago("b", 3);
  hours_ago("c", 2);
  hours_ago("d", 1);
  EXPECT_TRUE(all.load("a")) << "used now";
  all.store("e", program);
  EXPECT_TRUE(all.load("a") && all.load("d") && all.load("e"));
  EXPECT_FALSE(all.load("b") || all.load("c"));
}

TEST_F(KernelCacheTest, WithoutAFolderNothingIsKept) {
  KernelCache none{fs::path()};
  none.store("a", kProgram);
  EXPECT_FALSE(none.load("a"));
  append(folder_ / "file", "not a folder");
  KernelCache blocked(folder_ / "file");
  blocked.store("a", kProgram);  // one warning
  EXPECT_FALSE(blocked.load("a"));
  EXPECT_EQ(read(folder_ / "file"), "not a folder");
}

TEST_F(KernelCacheTest, ManyWritersOfOneKeyLeaveOneWholeFile) {
  {
    std::vector<std::jthread> writers;
    for (int i = 0; i < 8; ++i)
      writers.emplace_back([&] {
        for (int j = 0; j < 20; ++j) {
          cache().store("a", kProgram);
          const auto seen = cache().load("a");
          EXPECT_EQ(seen, kProgram);
        }
      });
  }
  EXPECT_EQ(files(), 1u);
}

TEST_F(KernelCacheTest, PathsThatOthersMayWriteAreNeitherReadNorWritten) {
  const auto mode_of = [](const fs::path& p) { return fs::status(p).permissions(); };
  const mode_t usual = ::umask(0);
  cache().store("a", kProgram);
  ::umask(usual);
  EXPECT_EQ(mode_of(user_), fs::perms(0755)) << "whatever the umask";
  EXPECT_EQ(mode_of(path("a")), fs::perms(0644));
  for (const mode_t open : {020, 002}) {
    for (const fs::path& p : {user_, path("a")}) {
      const mode_t closed = p == user_ ? 0755 : 0644;
      ASSERT_EQ(::chmod(p.c_str(), closed | open), 0);
      const Outcome outcome = in_child([&] {
        cache().store("b", kProgram);
        return !cache().load("a") && !cache().load("a");
      });
      EXPECT_TRUE(outcome.passed) << p;
      EXPECT_EQ(outcome.lines(), 1) << outcome.told;
      EXPECT_NE(outcome.told.find("allows others to write it"), std::string::npos) << outcome.told;
      EXPECT_EQ(fs::exists(path("b")), p != user_);
      fs::remove(path("b"));
      ASSERT_EQ(::chmod(p.c_str(), closed), 0);
      EXPECT_EQ(cache().load("a"), kProgram);
    }
  }
}

TEST_F(KernelCacheTest, LinksAndFifosAreNoPrograms) {
  cache().store("a", kProgram);
  fs::rename(path("a"), folder_ / "elsewhere");
  fs::create_symlink(folder_ / "elsewhere", path("a"));
  EXPECT_FALSE(cache().load("a"));
  fs::remove(path("a"));
  ASSERT_EQ(::mkfifo(path("a").c_str(), 0600), 0);
  EXPECT_FALSE(cache().load("a"));
}

TEST_F(KernelCacheTest, RelativeFoldersOfTheEnvironmentDoNotCount) {
  const Outcome outcome = in_child([] {
    ::unsetenv("MIOPEN_CUSTOM_CACHE_DIR");
    ::setenv("HOME", "/home/somebody", 1);
    ::setenv("XDG_CACHE_HOME", "cache", 1);
    const bool ignored = KernelCache::default_folder() == "/home/somebody/.cache/miopen";
    ::setenv("HOME", "somebody", 1);
    const bool none = KernelCache::default_folder().empty();
    ::setenv("XDG_CACHE_HOME", "/cache", 1);
    return ignored && none && KernelCache::default_folder() == "/cache/miopen";
  });
  EXPECT_TRUE(outcome.passed);
}

TEST_F(KernelCacheTest, TheEnvironmentNamesTheFolder) {
  const char* outer = std::getenv("MIOPEN_CUSTOM_CACHE_DIR");
  const std::string before = outer ? outer : "";
  ::setenv("MIOPEN_CUSTOM_CACHE_DIR", user_.c_str(), 1);
  EXPECT_EQ(KernelCache::default_folder(), user_);
  ::setenv("MIOPEN_DISABLE_CACHE", "1", 1);
  EXPECT_TRUE(KernelCache::default_folder().empty());
  ::unsetenv("MIOPEN_DISABLE_CACHE");
  ::unsetenv("MIOPEN_CUSTOM_CACHE_DIR");
  EXPECT_EQ(KernelCache::default_folder().filename(), "miopen");
  if (outer) ::setenv("MIOPEN_CUSTOM_CACHE_DIR", before.c_str(), 1);
}

}  // namespace
}  // namespace polymio
