// Database files as values: read, reduce a journal to its current state, write atomically.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "driver/base/files.h"
#include "driver/base/flags.h"
#include "driver/base/library.h"

namespace polymio::driver {

// polymioRecord_t that owns its texts.
struct Record {
  std::string problem, solver;
  int solver_version = 0;
  double ms = 0;
  std::size_t workspace = 0;
  std::string tune_point;
  int units = 0, threads = 0;
  polymioRecordKind_t kind = polymioRecordPredicted;
  std::string family, log_sizes;
  double work = 0;

  bool is_find() const { return kind <= polymioRecordTuned; }
  bool measured() const { return kind == polymioRecordMeasured || kind == polymioRecordTuned; }
};

struct RecordFile {
  struct Line {
    std::size_t number;
    std::string text;
  };
  std::vector<Record> records;  // in file order
  std::vector<Line> damaged;    // damaged or foreign
};

// Throws RunError.
RecordFile read_records(const std::string& path);

// Throws RunError when the file has lines but no record: it is not a database.
void require_pack(const std::string& path, const RecordFile& file);

// The current state of a database with these records: a later record replaces an earlier one of the same identity,
// except that no prediction replaces a measurement of the same solver version; and with `several` (records of several
// files) no find record replaces one of a newer solver version.
std::vector<Record> current(const std::vector<Record>& records, bool several = false);

// The current state of the user's own database of a device; empty when it does not exist yet. Throws RunError.
std::vector<Record> user_records(const std::string& device);

// Replaces the file atomically; on failure throws RunError and leaves the old file.
void write_records(const std::string& path, const std::vector<Record>& records);

// The ending of a noun.
inline const char* plural(std::size_t n) { return n == 1 ? "" : "s"; }

// Indexed by polymioRecordKind_t.
inline constexpr Choice kRecordKinds[] = {
    {"predicted", polymioRecordPredicted}, {"measured", polymioRecordMeasured},
    {"tuned", polymioRecordTuned},         {"trial", polymioRecordTrial},
    {"failed", polymioRecordFailed},       {"quarantined", polymioRecordQuarantined},
    {"erased", polymioRecordErased}};

// Locks a database against appends while it is being replaced. Does nothing where the file system has no locks or the
// file does not exist; throws RunError when another process holds the lock for 5 s.
class ExclusiveUse {
 public:
  explicit ExclusiveUse(const std::string& path);
  // Replaces the locked file atomically; write_records would wait for this lock. On failure throws RunError and leaves
  // the old file.
  void replace(const std::vector<Record>& records) const;
  ExclusiveUse(const ExclusiveUse&) = delete;
  ExclusiveUse& operator=(const ExclusiveUse&) = delete;

 private:
  std::string path_;
  Descriptor file_;
};

}  // namespace polymio::driver
