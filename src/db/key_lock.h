// One process at a time works on a key: an flock on a temporary file of the key, waited for a bounded
// time. Any I/O failure means that everybody works alone.
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
  bool waited() const { return waited_; }  // somebody else held it: what was wanted may exist by now

 private:
  std::filesystem::path path_;
  File file_;
  bool waited_ = false;
};

}  // namespace polymio
