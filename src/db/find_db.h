// The find database: results of solvers on problems, kept across processes. One text file per device class in the
// user's folder; below it packs of the same format: first those that the program loaded, then the system's.
// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "db/journal.h"

namespace polymio {

// The file "<device class>.pdb.txt". Lines end with a line break; empty lines and comments ("# ...") are ignored, lines
// with a wrong checksum are skipped. Every other line is
//   checksum key solver version microseconds workspace tune-point units thread-cap kind family log-sizes work
// with one blank between fields. The checksum is the XXH3-64 of everything after its blank, as 16 lower-case
// hexadecimal digits. In text fields (key, solver, tune point, family) blanks, '%', '@' and bytes outside printable
// ASCII are written as %XX, an empty text as "-". Kind is the number of a RecordKind; log-sizes are numbers separated
// by commas, or "-". The last three fields may be missing, and more may follow. Lines whose first field begins with '@'
// have other types: "@calibration units threads gflops gbytes-per-second".
//
// A record replaces an older one with the same identity: for find records key, solver, units and cap; for trials and
// failures also solver version and tune point; for quarantines family, solver and version. A prediction does not
// replace a measurement of its version. An erasure drops older find records of its key and solver in its file. A tuned
// record drops older trials and failures of its key, solver, version, units and cap. Compaction rewrites the file
// without dropped records and erasures; valid lines of unknown types stay.

/// Numbers are part of the file format.
enum class RecordKind : int {
  kPredicted = 0,    // an estimate in place of a measurement
  kMeasured = 1,     // at `tune_point`
  kTuned = 2,        // measured at the best point of a completed search
  kTrial = 3,        // one point of a search
  kFailed = 4,       // a point that could not be built or run, or was stopped because it was slow
  kQuarantined = 5,  // the solver gave a wrong result on a problem of `family`; `key` is that problem
  kErased = 6,       // drops the user's find records of key and solver
};

/// The result of one solver on one problem.
struct FindRecord {
  std::string key;     // Problem::key()
  std::string solver;  // frozen solver name
  int solver_version = 0;
  double time_us = 0;
  std::size_t workspace = 0;
  std::string tune_point;  // empty if the solver has no knobs
  int units = 0;           // cores or multiprocessors of the device
  int thread_cap = 0;      // threads of the stream; 0 if not applicable
  RecordKind kind = RecordKind::kPredicted;
  std::string family;            // Problem::family(); empty when unknown
  std::vector<float> log_sizes;  // Problem::log_sizes()
  double work = 0;               // Problem::work()

  bool is_find() const { return kind <= RecordKind::kTuned; }
  bool measured() const { return kind == RecordKind::kMeasured || kind == RecordKind::kTuned; }
  bool operator==(const FindRecord&) const = default;
};

/// A record as a line of text without the checksum, and back. decode() accepts lines without the last three fields,
/// ignores fields after the known ones and returns nothing for lines of other types.
std::string encode(const FindRecord& record);
std::optional<FindRecord> decode(std::string_view text);

/// The measured peak of a machine.
struct Calibration {
  int units = 0, threads = 0;
  double fp32_gflops = 0, bandwidth_gbs = 0;
};

/// Thread-safe. File errors never fail a call: records then stay in memory.
class FindDb {
 public:
  /// Without a folder there is no such layer. `enabled` false: stores and finds nothing.
  FindDb(std::string device_class, std::optional<std::filesystem::path> user_dir,
         std::optional<std::filesystem::path> system_dir, bool enabled = true,
         Journal::Sharing sharing = Journal::Sharing::kDetect);
  ~FindDb();

  /// Find records of the key, one per (solver, units, thread cap) in order of solver name: the newest, except that a
  /// prediction never hides a measurement of the same solver version. The user's record takes precedence over a pack's
  /// unless the pack's solver version is higher. Includes what other processes have stored. The caller compares solver
  /// versions with the current ones.
  std::vector<FindRecord> lookup(const std::string& key);

  /// The same without the system's pack.
  std::vector<FindRecord> lookup_user(const std::string& key);

  /// The same without any pack: what was measured by this user.
  std::vector<FindRecord> lookup_own(const std::string& key);

  /// The newest trials and failures of the key and solver, one per (version, units, thread cap, tune point), of
  /// searches that are not completed.
  std::vector<FindRecord> trials(const std::string& key, const std::string& solver);

  /// Quarantine records of a family, one per (solver, version).
  std::vector<FindRecord> quarantined(const std::string& family);

  /// Measured find records of all problems of a family, merged as in lookup(), from the newest 2048 find records of the
  /// family in each file and pack.
  std::vector<FindRecord> relatives(const std::string& family);

  /// Waits at most `patience` for a lock of another process. Records that are not written by then are visible to
  /// lookups and written by a later store. Does not block lookups. Compacts only if `patience` is 100 ms or more.
  void store(std::span<const FindRecord> records, std::chrono::milliseconds patience = std::chrono::seconds(2));

  /// The newest calibration in the user's file for this number of cores and threads.
  std::optional<Calibration> calibration(int units, int threads);
  void store(const Calibration&);

  /// Adds a pack between the user's records and the system's, above earlier packs; a file that is loaded already is
  /// read again. Throws BadParm if the file cannot be read or has no record.
  void load_pack(const std::filesystem::path& file);
  void load_pack(std::string_view text);

  /// Removes dropped records from the user's file; false if that is not possible at the moment. store() calls it when
  /// more than half of a large file is dropped records.
  bool compact();

  /// The user's file; empty when records stay in memory.
  const std::string& path() const;

  /// A file or pack of the database.
  struct Layer {
    std::string name;  // "user", "pack", "system"
    std::string path;  // empty for a pack from memory
    bool readable = false, writable = false;
    std::string problem;  // why it cannot be read or written, else empty
    std::size_t records = 0, bad_lines = 0, bytes = 0;
  };
  /// In order of precedence.
  std::vector<Layer> layers();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The process-wide database of a device class, for the current values of MIOPEN_USER_DB_PATH, MIOPEN_SYSTEM_DB_PATH
/// and MIOPEN_DEBUG_DISABLE_FIND_DB. References stay valid.
FindDb& find_db(const std::string& device_class);

/// The user's folder, then the system's, for the current environment; only those that are configured.
std::vector<std::filesystem::path> db_folders();

/// Visits the lines of a pack or database file until `visit` returns false. `record` is null for an invalid line;
/// comments, empty lines and calibrations are skipped. Throws BadParm if the file cannot be read.
void read_pack(const std::filesystem::path& file,
               const std::function<bool(std::size_t line, std::string_view text, const FindRecord* record)>& visit);

/// Replaces the content of `file` by these records, merged, under an exclusive lock. On failure, also if other
/// processes hold the lock for more than two seconds, throws and leaves the file unchanged.
void write_pack(const std::filesystem::path& file, std::span<const FindRecord> records);

}  // namespace polymio
