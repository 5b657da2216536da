// Compiled programs on disk: one file each, named by the hash of everything that it depends on. After disk errors
// programs are compiled again. Programs are code: files or folders that users other than this one and root may write
// are neither read nor written.
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
  /// Without a folder nothing is cached. Beyond `limit_bytes` the least recently used programs are removed.
  explicit KernelCache(std::filesystem::path folder, std::size_t limit_bytes = std::size_t{512} << 20);

  /// MIOPEN_CUSTOM_CACHE_DIR, else $XDG_CACHE_HOME/miopen or ~/.cache/miopen, ignoring relative ones; empty with
  /// MIOPEN_DISABLE_CACHE.
  static std::filesystem::path default_folder();

  /// The program of this key, if its file is complete.
  std::optional<std::string> load(const std::string& key) const;
  void store(const std::string& key, const std::string& program);
  /// Removes a program that the device refuses.
  void drop(const std::string& key) const;

  /// The lock for compiling the program of a key: one process at a time.
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
