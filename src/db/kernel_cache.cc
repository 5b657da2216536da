// SPDX-License-Identifier: MIT
#include "db/kernel_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/hash.h"
#include "base/log.h"
#include "db/text_file.h"

namespace polymio {
namespace {

namespace fs = std::filesystem;

// A file is the first line with the key and the hash of the program, then the program.
constexpr std::string_view kMagic = "Polymio kernel 1 ";
constexpr const char* kSuffix = ".kernel";

std::string head(const std::string& key, std::string_view program) {
  return fmt::format("{}{} {:016x}\n", kMagic, key, content_hash(program));
}

}  // namespace

KernelCache::KernelCache(fs::path folder, std::size_t limit_bytes) : folder_(std::move(folder)), limit_(limit_bytes) {}

fs::path KernelCache::default_folder() {
  if (env::flag(env::kDisableCache, false)) return {};
  if (const auto custom = env::text(env::kCacheDir)) return *custom;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache) return fs::path(cache) / "miopen";
  const char* home = std::getenv("HOME");
  return home && *home ? fs::path(home) / ".cache" / "miopen" : fs::path();
}

fs::path KernelCache::path_of(const std::string& key) const { return folder_ / (key + kSuffix); }

std::optional<std::string> KernelCache::load(const std::string& key) const {
  std::string text;
  if (folder_.empty() || read_file(path_of(key), text) != 0) return std::nullopt;
  const std::size_t end = text.find('\n');
  if (end == std::string::npos) return std::nullopt;
  const std::string_view program = std::string_view(text).substr(end + 1);
  if (std::string_view(text).substr(0, end + 1) != head(key, program)) {
    log::info("the cached kernel {} is damaged; it is compiled again", path_of(key).string());
    return std::nullopt;
  }
  std::error_code ignored;
  fs::last_write_time(path_of(key), fs::file_time_type::clock::now(), ignored);  // says when it was used
  return std::string(program);
}

void KernelCache::store(const std::string& key, const std::string& program) {
  if (folder_.empty()) return;
  static std::atomic<unsigned> number{0};
  std::error_code error;
  fs::create_directories(folder_, error);
  const fs::path temporary = folder_ / fmt::format("{}.{}.{}.tmp", key, ::getpid(), number++);
  const int code = replace_file(path_of(key), temporary, head(key, program) + program, 0);
  if (code != 0)
    log::warn_once("kernel cache " + folder_.string(), "compiled kernels cannot be kept in {}: {}; name a folder in {}",
                   folder_.string(), std::strerror(code), env::kCacheDir.name);
  else
    trim();
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
    if (total <= limit_ - limit_ / 4) break;  // not again at the next one
    if (fs::remove(f.path, error)) total -= f.bytes;
  }
}

}  // namespace polymio
