// A lock per key across processes: an flock on a temporary file, with a bounded wait. After I/O errors processes do not
// wait for each other.
// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <filesystem>
#include <string>

#include "db/journal.h"

namespace polymio {

class KeyLock {
 public:
  /// Waits at most `patience`. The file "<folder>/<hash of key>.busy" is removed by the last holder.
  KeyLock(const std::filesystem::path& folder, const std::string& key, std::chrono::milliseconds patience);
  ~KeyLock();
  KeyLock(const KeyLock&) = delete;
  KeyLock& operator=(const KeyLock&) = delete;

  bool held() const { return static_cast<bool>(file_); }
  /// Whether another process held the lock: the result may exist by now.
  bool waited() const { return waited_; }

 private:
  std::filesystem::path path_;
  File file_;
  bool waited_ = false;
};

}  // namespace polymio
