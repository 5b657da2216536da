// The find database: what every solver did on every problem, kept across processes in one text file
// per device class in the user's folder, over packs of the same format: those the program loaded, then
// the system's.
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

// The file "<device class>.pdb.txt". Lines end with a line break; empty ones and comments ("# ...") mean
// nothing, and a line whose checksum is wrong is skipped. Every other line is
//   checksum key solver version microseconds workspace tune-point units thread-cap kind family log-sizes work
// with one blank between words. The checksum is the XXH3-64 of all behind its blank, as 16 lower-case
// hexadecimal digits. In texts (key, solver, tune point, family) blanks, '%', '@' and everything outside
// printable ASCII stand as %XX, and an empty text as "-". Kind is the number of RecordKind; log-sizes are
// numbers separated by commas, or "-". The last three words may be missing, and more may follow. Lines whose
// first word begins with '@' are of other types: "@calibration units threads gflops gbytes-per-second".
//
// A record replaces an older one about the same thing: of find records key, solver, units and cap; of
// trials and failures those, solver version and tune point; of quarantines family, solver and version. A
// prediction does not replace a measurement of its version. An erasure drops older find records of key and
// solver in its file. A tuned record drops older trials and failures of key, solver, version, units and
// cap. Compaction rewrites the file without what is dropped and without erasures; valid lines of formats it
// does not know stay.

/// Numbers are part of the file format.
enum class RecordKind : int {
  kPredicted = 0,    // an estimate that stood for a measurement
  kMeasured = 1,     // at `tune_point`
  kTuned = 2,        // measured at the best point of a completed search
  kTrial = 3,        // one point of a search
  kFailed = 4,       // a point that could not be built or run, or was stopped as a loser
  kQuarantined = 5,  // the solver gave a wrong result on a problem of `family`; `key` is that problem
  kErased = 6,       // the user's find record of key and solver is dropped
};

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
  RecordKind kind = RecordKind::kPredicted;
  std::string family;            // Problem::family(); empty when unknown
  std::vector<float> log_sizes;  // Problem::log_sizes()
  double work = 0;               // Problem::work()

  bool is_find() const { return kind <= RecordKind::kTuned; }
  bool measured() const { return kind == RecordKind::kMeasured || kind == RecordKind::kTuned; }
  bool operator==(const FindRecord&) const = default;
};

/// One line of text without the checksum, and back. Decoding takes lines without the last three fields,
/// ignores fields added after the known ones and gives nothing for a foreign line.
std::string encode(const FindRecord& record);
std::optional<FindRecord> decode(std::string_view text);

/// What was measured of a machine, so that it is measured once.
struct Calibration {
  int units = 0, threads = 0;
  double fp32_gflops = 0, bandwidth_gbs = 0;
};

/// Thread-safe. Failing files never fail a call: records then live in memory only.
class FindDb {
 public:
  /// Without a folder that layer does not exist. `enabled` false: stores and finds nothing.
  FindDb(std::string device_class, std::optional<std::filesystem::path> user_dir,
         std::optional<std::filesystem::path> system_dir, bool enabled = true,
         Journal::Sharing sharing = Journal::Sharing::kDetect);
  ~FindDb();

  /// Find records of the key, one per (solver, units, thread cap) in order of solver name: the newest,
  /// except that a prediction never hides a measurement of the same solver version. The user's
  /// record goes before a pack's unless the pack's solver version is higher. Sees what other
  /// processes have stored by now. Comparing solver versions with today's is left to the caller.
  std::vector<FindRecord> lookup(const std::string& key);

  /// The same without the system's pack.
  std::vector<FindRecord> lookup_user(const std::string& key);

  /// Trials and failures of the key and solver, one per (version, units, thread cap, tune point): the newest,
  /// and only those of searches that were not completed since.
  std::vector<FindRecord> trials(const std::string& key, const std::string& solver);

  /// Quarantine records of a family: of all solvers, one per (solver, version).
  std::vector<FindRecord> quarantined(const std::string& family);

  /// Measured find records of all problems of a family, merged as in lookup. Looks at the newest 2048 find records
  /// of the family in each file and pack.
  std::vector<FindRecord> relatives(const std::string& family);

  /// Records that cannot be written within `patience`, since another process holds the file, are found all the same
  /// and written by the next store that can. Lookups go on meanwhile. Compacts only with 100 ms or more.
  void store(std::span<const FindRecord> records, std::chrono::milliseconds patience = std::chrono::seconds(2));

  /// The user's newest.
  std::optional<Calibration> calibration(int units, int threads);
  void store(const Calibration&);

  /// Puts a pack between the user's records and the system's, above those loaded before; a file that was
  /// loaded already is read anew. Throws BadParm when the file cannot be read
  /// or when not one line is a record.
  void load_pack(const std::filesystem::path& file);
  void load_pack(std::string_view text);

  /// Drops replaced records from the user's file; false when that is not possible now. `store`
  /// calls it when more than half of a large file is dead.
  bool compact();

  /// The user's file; empty when records stay in memory.
  const std::string& path() const;

  /// A file or pack that answers come from, in order of precedence.
  struct Layer {
    std::string name;  // "user", "pack", "system"
    std::string path;  // empty for a pack from memory
    bool readable = false, writable = false;
    std::string problem;  // why it cannot be read or written; empty when all is well
    std::size_t records = 0, bad_lines = 0, bytes = 0;
  };
  std::vector<Layer> layers();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The process-wide database of a device class under the folders that the environment names now:
/// MIOPEN_USER_DB_PATH, MIOPEN_SYSTEM_DB_PATH, MIOPEN_DEBUG_DISABLE_FIND_DB. References stay valid.
FindDb& find_db(const std::string& device_class);

/// The folders that the environment names now: the user's, then the system's; without those that do not exist.
std::vector<std::filesystem::path> db_folders();

/// Every line of a pack or database file until `visit` says false: `record` is null for a line that is none
/// (comments, empty lines and calibrations are not visited). Throws BadParm when the file cannot be read.
void read_pack(const std::filesystem::path& file,
               const std::function<bool(std::size_t line, std::string_view text, const FindRecord* record)>& visit);

/// Replaces `file` as a whole by these records, merged; a failure leaves what was there and throws. Nobody
/// appends to the file meanwhile; a failure is also when others hold it for more than two seconds.
void write_pack(const std::filesystem::path& file, std::span<const FindRecord> records);

}  // namespace polymio
