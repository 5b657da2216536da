// SPDX-License-Identifier: MIT
#include "db/kernel_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/hash.h"
#include "base/log.h"

namespace polymio {
namespace {

namespace fs = std::filesystem;

// File format: a line with the key and the hash of the program, then the program.
constexpr std::string_view kMagic = "Polymio kernel 1 ";
constexpr const char* kSuffix = ".kernel";

std::string header_line(const std::string& key, std::string_view program) {
  return fmt::format("{}{} {:016x}\n", kMagic, key, content_hash(program));
}

void warn_untrusted(const fs::path& path, const std::string& why) {
  log::warn_once(
      "kernel cache " + path.string(),
      "compiled kernels in {} are neither used nor stored: {}; make it writable by you alone (chmod go-w), or "
      "set another folder in {}",
      path.string(), why, env::kCacheDir.name);
}

}  // namespace

KernelCache::KernelCache(fs::path folder, std::size_t limit_bytes) : folder_(std::move(folder)), limit_(limit_bytes) {}

fs::path KernelCache::default_folder() {
  if (env::flag(env::kDisableCache, false)) return {};
  if (const auto custom = env::text(env::kCacheDir)) return *custom;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache == '/') return fs::path(cache) / "miopen";
  const char* home = std::getenv("HOME");
  return home && *home == '/' ? fs::path(home) / ".cache" / "miopen" : fs::path();
}

fs::path KernelCache::path_of(const std::string& key) const { return folder_ / (key + kSuffix); }

/// Opens the folder if no other user may write it. Files are opened relative to this descriptor, so that a changed path
/// has no effect.
File KernelCache::open_folder() const {
  if (folder_.empty()) return {};
  File folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info {};
  if (!folder || ::fstat(folder.fd(), &info) != 0) return {};
  const std::string why = why_untrusted(info);
  if (why.empty()) return folder;
  warn_untrusted(folder_, why);
  return {};
}

/// Creates the folder, writable by this user only whatever the umask is. False if another user may write it.
bool KernelCache::make_folder() const {
  if (folder_.empty()) return false;
  std::error_code ignored;
  fs::create_directories(folder_.parent_path(), ignored);
  if (::mkdir(folder_.c_str(), 0755) == 0 || errno != EEXIST) return true;
  struct stat info {};
  if (::stat(folder_.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return true;  // store() reports the error
  return static_cast<bool>(open_folder());
}

std::optional<std::string> KernelCache::load(const std::string& key) const {
  const File folder = open_folder();
  if (!folder) return std::nullopt;
  // NONBLOCK: opening a fifo must not wait.
  const File file(::openat(folder.fd(), (key + kSuffix).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!file || ::fstat(file.fd(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  if (const std::string why = why_untrusted(info); !why.empty()) {
    warn_untrusted(path_of(key), why);
    return std::nullopt;
  }
  std::string text;
  if (read_rest(file.fd(), 0, text) != 0) return std::nullopt;
  const std::size_t end = text.find('\n');
  if (end == std::string::npos) return std::nullopt;
  const std::string_view program = std::string_view(text).substr(end + 1);
  if (std::string_view(text).substr(0, end + 1) != header_line(key, program)) {
    log::info("the cached kernel {} is damaged; it is compiled again", path_of(key).string());
    return std::nullopt;
  }
  ::futimens(file.fd(), nullptr);  // time of last use
  return std::string(program);
}

void KernelCache::store(const std::string& key, const std::string& program) {
  if (!make_folder()) return;
  static std::atomic<unsigned> number{0};
  const fs::path temporary = folder_ / fmt::format("{}.{}.{}.tmp", key, ::getpid(), number++);
  constexpr mode_t kMode = 0644;
  const int code = replace_file(path_of(key), temporary, header_line(key, program) + program, kMode);
  if (code != 0)
    log::warn_once("kernel cache " + folder_.string(),
                   "compiled kernels cannot be stored in {}: {}; set another folder in {}", folder_.string(),
                   std::strerror(code), env::kCacheDir.name);
  else
    trim();
}

KeyLock KernelCache::lock(const std::string& key, std::chrono::milliseconds patience) const {
  return KeyLock(make_folder() ? folder_ : fs::path(), key, patience);
}

void KernelCache::drop(const std::string& key) const {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove(path_of(key), ignored);
}

void KernelCache::trim() const {
  struct Found {
    fs::path path;
    fs::file_time_type used;
    std::uintmax_t bytes;
  };
  std::vector<Found> files;
  std::uintmax_t total = 0;
  std::error_code error;
  for (auto it = fs::directory_iterator(folder_, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    std::error_code gone;
    if (it->path().extension() != kSuffix) continue;
    Found f{it->path(), it->last_write_time(gone), it->file_size(gone)};
    if (gone) continue;
    total += f.bytes;
    files.push_back(std::move(f));
  }
  if (total <= limit_) return;
  std::sort(files.begin(), files.end(), [](const Found& a, const Found& b) { return a.used < b.used; });
  for (const Found& f : files) {
    if (total <= limit_ - limit_ / 4) break;  // a quarter is free, so that the next store does not trim again
    if (fs::remove(f.path, error)) total -= f.bytes;
  }
}

}  // namespace polymio
