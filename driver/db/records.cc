// Database files through the public calls; locks as the library takes them on its own files.
// SPDX-License-Identifier: MIT
#include "driver/db/records.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <exception>
#include <map>
#include <thread>
#include <tuple>

#include "driver/db/doctor.h"

namespace polymio::driver {
namespace {

const char* text_of(const char* text) { return text == nullptr ? "" : text; }

Record to_record(const polymioRecord_t& r) {
  return {text_of(r.problem),
          text_of(r.solver),
          r.solver_version,
          r.time,
          r.workspace_size,
          text_of(r.tune_point),
          r.units,
          r.threads,
          r.kind,
          text_of(r.family),
          text_of(r.log_sizes),
          r.work};
}

polymioRecord_t to_api(const Record& r) {
  polymioRecord_t out{};
  out.size = sizeof(out);
  out.problem = r.problem.c_str();
  out.solver = r.solver.c_str();
  out.solver_version = r.solver_version;
  out.time = r.ms;
  out.workspace_size = r.workspace;
  out.tune_point = r.tune_point.c_str();
  out.units = r.units;
  out.threads = r.threads;
  out.kind = r.kind;
  out.family = r.family.c_str();
  out.log_sizes = r.log_sizes.c_str();
  out.work = r.work;
  return out;
}

// The library's callback: no exception may cross the C API.
struct Reader {
  RecordFile file;
  std::exception_ptr error;

  static int visit(void* context, std::size_t line, const char* text, const polymioRecord_t* record) noexcept {
    auto& self = *static_cast<Reader*>(context);
    try {
      if (record != nullptr) {
        self.file.records.push_back(to_record(*record));
      } else {
        self.file.damaged.push_back({line, text_of(text)});
      }
      return 0;
    } catch (...) {
      self.error = std::current_exception();
      return 1;
    }
  }
};

// A later record of the same identity replaces an earlier one.
using Identity = std::tuple<int, std::string, std::string, int, int, int, std::string>;

Identity identity_of(const Record& r) {
  if (r.kind == polymioRecordQuarantined) return {1, r.family, r.solver, r.solver_version, 0, 0, ""};
  if (r.is_find()) return {0, r.problem, r.solver, 0, r.units, r.threads, ""};
  return {2, r.problem, r.solver, r.solver_version, r.units, r.threads, r.tune_point};
}

}  // namespace

RecordFile read_records(const std::string& path) {
  Reader reader;
  const miopenStatus_t status = polymioReadRecords(path.c_str(), &Reader::visit, &reader);
  if (reader.error) std::rethrow_exception(reader.error);
  if (status != miopenStatusSuccess) throw RunError(polymioGetLastError());
  return std::move(reader.file);
}

void require_pack(const std::string& path, const RecordFile& file) {
  if (!file.records.empty() || file.damaged.empty()) return;
  throw RunError(fmt::format("'{}' is not a pack: none of its {} lines is a record; nothing was written", path,
                             file.damaged.size()));
}

std::vector<Record> current(const std::vector<Record>& records, bool several) {
  std::vector<Record> kept;
  std::map<Identity, std::size_t> places;
  std::vector<bool> dead;
  for (const Record& record : records) {
    if (record.kind == polymioRecordErased) {
      const Identity first{0, record.problem, record.solver, 0, INT_MIN, INT_MIN, ""};
      for (auto at = places.lower_bound(first); at != places.end(); ++at) {
        const Record& old = kept[at->second];
        if (!old.is_find() || old.problem != record.problem || old.solver != record.solver) break;
        dead[at->second] = true;
      }
      continue;
    }
    const auto [found, fresh] = places.try_emplace(identity_of(record), kept.size());
    if (fresh) {
      kept.push_back(record);
      dead.push_back(false);
      continue;
    }
    Record& old = kept[found->second];
    const bool weaker = record.kind == polymioRecordPredicted && old.measured() && !dead[found->second] &&
                        old.solver_version == record.solver_version;
    const bool older =
        several && record.is_find() && !dead[found->second] && record.solver_version < old.solver_version;
    if (weaker || older) continue;
    old = record;
    dead[found->second] = false;
  }
  std::size_t at = 0;
  std::erase_if(kept, [&](const Record&) { return dead[at++]; });
  return kept;
}

std::vector<Record> user_records(const std::string& device) {
  std::vector<Record> all;
  for (const std::string& path : user_files(device)) {
    if (!std::filesystem::exists(path)) continue;
    RecordFile file = read_records(path);
    std::move(file.records.begin(), file.records.end(), std::back_inserter(all));
  }
  return current(all);
}

void write_records(const std::string& path, const std::vector<Record>& records) {
  std::vector<polymioRecord_t> out;
  out.reserve(records.size());
  for (const Record& record : records) out.push_back(to_api(record));
  if (polymioWriteRecords(path.c_str(), out.data(), out.size()) != miopenStatusSuccess) {
    throw RunError(polymioGetLastError());
  }
}

ExclusiveUse::ExclusiveUse(const std::string& path) : path_(path) {
  if (!open_regular(path, O_RDONLY, file_).empty()) return;
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::seconds(5);
  while (flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return;
    if (Clock::now() > deadline) {
      throw RunError(fmt::format("'{}' is in use by other processes; try again, or write elsewhere with --out", path));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void ExclusiveUse::replace(const std::vector<Record>& records) const {
  namespace fs = std::filesystem;
  std::error_code error;
  const Target target = target_of(path_);
  fs::remove(target.temporary, error);  // the library would follow a link there
  write_records(target.temporary, records);
  fs::permissions(target.temporary, fs::status(target.file, error).permissions(), error);
  fs::rename(target.temporary, target.file, error);
  if (!error) return;
  std::error_code ignored;
  fs::remove(target.temporary, ignored);
  throw RunError(fmt::format("cannot write '{}': {}", path_, error.message()));
}

}  // namespace polymio::driver
