// The find database: what every solver cost on every problem, kept across processes in one text
// file per device class in the user's folder, over a read-only pack of the same format.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "db/journal.h"

namespace polymio {

/// What one solver did on one problem.
struct FindRecord {
  std::string key;     // Problem::key()
  std::string solver;  // frozen solver name
  int solver_version = 0;
  double time_us = 0;
  std::size_t workspace = 0;
  std::string tune_point;  // empty when nothing is tuned
  int units = 0;           // cores or multiprocessors of the device it ran on
  int thread_cap = 0;      // threads of the stream; 0 where that means nothing
  bool measured = false;   // else predicted

  bool operator==(const FindRecord&) const = default;
};

/// One line of text without the checksum, and back. Decoding ignores fields added after the known
/// ones and gives nothing for a foreign line.
std::string encode(const FindRecord& record);
std::optional<FindRecord> decode(std::string_view text);

/// Thread-safe. Failing files never fail a call: records then live in memory only.
class FindDb {
 public:
  /// Without a folder that layer does not exist. `enabled` false: stores and finds nothing.
  FindDb(std::string device_class, std::optional<std::filesystem::path> user_dir,
         std::optional<std::filesystem::path> system_dir, bool enabled = true,
         Journal::Sharing sharing = Journal::Sharing::kDetect);

  /// Records of the key, one per (solver, units, thread cap) in order of solver name: the newest,
  /// except that a prediction never hides a measurement of the same solver version. The user's
  /// record goes before the system's unless the system's solver version is higher. Sees what other
  /// processes have stored by now. Comparing solver versions with today's is left to the caller.
  std::vector<FindRecord> lookup(const std::string& key);

  void store(std::span<const FindRecord> records);

  /// Drops replaced records from the user's file; false when that is not possible now. `store`
  /// calls it when more than half of a large file is dead.
  bool compact();

  /// The user's file; empty when records stay in memory.
  const std::string& path() const { return path_; }

 private:
  using Table = std::unordered_map<std::string, std::vector<FindRecord>>;

  void refresh();
  bool compact_locked();

  const bool enabled_;
  std::string path_;
  std::mutex mutex_;
  std::optional<Journal> user_journal_, system_journal_;
  Table user_, system_;
  std::vector<FindRecord> unsaved_;
  std::size_t user_lines_ = 0;  // records in the user's file, replaced ones included
  std::size_t user_live_ = 0;   // records in user_
};

/// The process-wide database of a device class under the folders that the environment names now:
/// MIOPEN_USER_DB_PATH, MIOPEN_SYSTEM_DB_PATH, MIOPEN_DEBUG_DISABLE_FIND_DB. References stay valid.
FindDb& find_db(const std::string& device_class);

}  // namespace polymio
