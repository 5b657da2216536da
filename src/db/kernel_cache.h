// Compiled programs on disk: one file each, named by the hash of all that it depends on. Any failure of the
// disk means that programs are compiled again. A program is code: files and a folder that another user than this one or
// root may write are neither used nor written.
// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "db/key_lock.h"
#include "db/text_file.h"

namespace polymio {

class KernelCache {
 public:
  /// An empty folder caches nothing. Beyond `limit_bytes` what was not used for longest is removed.
  explicit KernelCache(std::filesystem::path folder, std::size_t limit_bytes = std::size_t{512} << 20);

  /// MIOPEN_CUSTOM_CACHE_DIR, else $XDG_CACHE_HOME/miopen or ~/.cache/miopen, where relative ones do not count; empty
  /// with MIOPEN_DISABLE_CACHE.
  static std::filesystem::path default_folder();

  /// The program of this key when its file is whole.
  std::optional<std::string> load(const std::string& key) const;
  void store(const std::string& key, const std::string& program);
  /// A program that its device refuses.
  void drop(const std::string& key) const;

  /// One process at a time makes the program of a key.
  KeyLock lock(const std::string& key, std::chrono::milliseconds patience) const;

 private:
  std::filesystem::path path_of(const std::string& key) const;
  File open_folder() const;
  bool make_folder() const;
  void trim() const;

  std::filesystem::path folder_;
  std::size_t limit_;
};

}  // namespace polymio
