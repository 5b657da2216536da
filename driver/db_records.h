// Database files as values: reading, the current state of a journal, writing as a whole.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "driver/files.h"
#include "driver/library.h"

namespace polymio::driver {

// polymioRecord_t with texts of its own.
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

// Throws RunError when the file has lines but no record: it is something else, which nothing should be made of.
void require_pack(const std::string& path, const RecordFile& file);

// What a database with these records would answer: a later record replaces an earlier one of the same thing,
// except that no prediction replaces a measurement of the same solver version; and, where the records come from
// several files, that no find record replaces one of a newer solver version.
std::vector<Record> current(const std::vector<Record>& records, bool several = false);

// The current state of the user's own database of a device; empty where there is none yet. Throws RunError.
std::vector<Record> user_records(const std::string& device);

// The file as a whole; on failure throws RunError and leaves what was there.
void write_records(const std::string& path, const std::vector<Record>& records);

// "tuned" and its siblings, in the order of their numbers.
const std::vector<std::string>& kind_names();

// Keeps every process from appending to a database while it is being replaced. Where the file system knows no
// locks, or nobody appends, it does nothing; throws RunError when others hold the file for long.
class ExclusiveUse {
 public:
  explicit ExclusiveUse(const std::string& path);
  // Puts these records in place of the file that is held, as a whole: write_records would wait for this very lock.
  // On failure throws RunError and leaves what was there.
  void replace(const std::vector<Record>& records) const;
  ExclusiveUse(const ExclusiveUse&) = delete;
  ExclusiveUse& operator=(const ExclusiveUse&) = delete;

 private:
  std::string path_;
  Descriptor file_;
};

}  // namespace polymio::driver
