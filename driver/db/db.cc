// One function per sub-command, over records as values.
// SPDX-License-Identifier: MIT
#include "driver/commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "driver/db/import.h"
#include "driver/db/records.h"
#include "driver/db/doctor.h"
#include "driver/base/files.h"
#include "driver/run/common_args.h"
#include "driver/run/result.h"

namespace polymio::driver {
namespace {

constexpr std::size_t kAny = 1000000;
constexpr double kSameTime = 0.10;  // times within this relative difference are the same

std::string_view kind_name(const Record& record) { return kRecordKinds[record.kind].name; }

// The values of the flags of all sub-commands.
struct DbArgs {
  std::vector<std::string> operands;
  std::vector<int> kinds;
  std::string filter, out, device;
  bool json = false, verbose = false, older_versions = false, measured_only = false;

  bool has_kind(const Record& record) const {
    return std::find(kinds.begin(), kinds.end(), static_cast<int>(record.kind)) != kinds.end();
  }
};

// The named files, else the existing files of the user's own database.
std::vector<std::string> files_of(const DbArgs& args) {
  if (!args.operands.empty()) return args.operands;
  std::vector<std::string> files = user_files("");
  std::erase_if(files, [](const std::string& file) { return !std::filesystem::exists(file); });
  return files;
}

std::string time_text(const Record& record) {
  return std::isfinite(record.ms) ? fmt::format("{:.4g} ms", record.ms) : std::string("-");
}

std::string result_text(const Record& r) {
  const std::string point = r.tune_point.empty() ? "" : fmt::format(" [{}]", r.tune_point);
  return fmt::format("{:<11} {:>11} {:>10}  {} v{}{}, {} of {} cores", kind_name(r), time_text(r),
                     bytes_text(static_cast<double>(r.workspace)), r.solver, r.solver_version, point,
                     r.threads == 0 ? r.units : r.threads, r.units);
}

nlohmann::ordered_json to_json(const Record& r) {
  return {{"problem", r.problem},       {"solver", r.solver}, {"solver_version", r.solver_version},
          {"kind", kind_name(r)},       {"ms", r.ms},         {"workspace_bytes", r.workspace},
          {"tune_point", r.tune_point}, {"units", r.units},   {"threads", r.threads},
          {"family", r.family},         {"work", r.work}};
}

void warn_damaged(const std::string& path, const RecordFile& file) {
  if (file.damaged.empty()) return;
  fmt::print(stderr, "{}: {} damaged or foreign line{}, the first is line {}; 'db verify' lists them\n", path,
             file.damaged.size(), plural(file.damaged.size()), file.damaged[0].number);
}

void print_grouped(const std::vector<Record>& records) {
  std::map<std::string, std::vector<const Record*>> groups;
  for (const Record& record : records) groups[record.problem].push_back(&record);
  for (auto& [problem, members] : groups) {
    fmt::print("{}\n", problem);
    std::stable_sort(members.begin(), members.end(), [](const Record* a, const Record* b) {
      return std::tuple(a->kind > polymioRecordTuned, a->ms) < std::tuple(b->kind > polymioRecordTuned, b->ms);
    });
    for (const Record* record : members) fmt::print("  {}\n", result_text(*record));
  }
  fmt::print("{} record{} of {} problem{}\n", records.size(), plural(records.size()), groups.size(),
             plural(groups.size()));
}

constexpr Command kList{"db list", "[FILE...]", "Lists the records of files; the default is your own database.", 0,
                        kAny};

Flags list_flags(DbArgs& args) {
  return {
      {"", "json", Switch{&args.json}, "one JSON object per record"},
      {"", "kind", Names{&args.kinds, kRecordKinds}, "only some"},
      {"", "filter", Text{&args.filter, "TEXT"}, "only records with this text in problem or solver"},
  };
}

int list(const DbArgs& args) {
  std::vector<Record> all;
  for (const std::string& path : files_of(args)) {
    RecordFile file = read_records(path);
    warn_damaged(path, file);
    std::move(file.records.begin(), file.records.end(), std::back_inserter(all));
  }
  std::vector<Record> records = current(all);
  std::erase_if(records, [&](const Record& r) {
    const bool matches =
        r.problem.find(args.filter) != std::string::npos || r.solver.find(args.filter) != std::string::npos;
    return !matches || (!args.kinds.empty() && !args.has_kind(r));
  });
  if (!args.json) {
    print_grouped(records);
    return 0;
  }
  for (const Record& record : records) fmt::print("{}\n", to_json(record).dump());
  return 0;
}

constexpr Command kMerge{"db merge", "OUT IN...",
                         "Writes one pack with the records of all inputs: of two of the same identity the\n"
                         "one of the later input, unless the other is of a newer version of the solver.",
                         2, kAny};

int merge(const DbArgs& args) {
  const std::string& out = args.operands[0];
  std::vector<Record> all;
  for (std::size_t i = 1; i < args.operands.size(); ++i) {
    RecordFile file = read_records(args.operands[i]);
    require_pack(args.operands[i], file);
    warn_damaged(args.operands[i], file);
    std::move(file.records.begin(), file.records.end(), std::back_inserter(all));
  }
  const std::vector<Record> merged = current(all, true);
  write_records(out, merged);
  fmt::print("{}: {} record{} from {} file{}\n", out, merged.size(), plural(merged.size()), args.operands.size() - 1,
             plural(args.operands.size() - 1));
  return 0;
}

// Find records by problem, solver, units and threads.
using Key = std::tuple<std::string, std::string, int, int>;

std::map<Key, Record> finds_of(const std::string& path) {
  const RecordFile file = read_records(path);
  warn_damaged(path, file);
  std::map<Key, Record> finds;
  for (const Record& r : current(file.records)) {
    if (r.is_find()) finds.insert_or_assign(Key{r.problem, r.solver, r.units, r.threads}, r);
  }
  return finds;
}

// The fastest measured solver by problem, units and threads.
std::map<std::tuple<std::string, int, int>, Record> winners_of(const std::map<Key, Record>& finds) {
  std::map<std::tuple<std::string, int, int>, Record> winners;
  for (const auto& [key, record] : finds) {
    if (!record.measured()) continue;
    const auto [place, fresh] = winners.try_emplace({record.problem, record.units, record.threads}, record);
    if (!fresh && record.ms < place->second.ms) place->second = record;
  }
  return winners;
}

struct Difference {
  std::size_t same = 0, only_a = 0, only_b = 0, times = 0, winners = 0;

  void missing(const std::map<Key, Record>& from, const std::map<Key, Record>& in, const char* mark,
               std::size_t& count) {
    for (const auto& [key, record] : from) {
      if (in.contains(key)) continue;
      ++count;
      fmt::print("{} {}\n    {}\n", mark, record.problem, result_text(record));
    }
  }
  void compare_times(const std::map<Key, Record>& a, const std::map<Key, Record>& b) {
    for (const auto& [key, old] : a) {
      const auto found = b.find(key);
      if (found == b.end()) continue;
      const double change = found->second.ms / old.ms - 1;
      if (!(std::abs(change) > kSameTime)) {
        ++same;
        continue;
      }
      ++times;
      fmt::print("~ {}\n    {}: {} {} -> {} {} ({:+.0f}%)\n", old.problem, old.solver, kind_name(old), time_text(old),
                 kind_name(found->second), time_text(found->second), 100 * change);
    }
  }
  void compare_winners(const std::map<Key, Record>& a, const std::map<Key, Record>& b) {
    const auto others = winners_of(b);
    for (const auto& [key, old] : winners_of(a)) {
      const auto found = others.find(key);
      if (found == others.end() || found->second.solver == old.solver) continue;
      ++winners;
      fmt::print("! {}\n    fastest: {} {} -> {} {}\n", old.problem, old.solver, time_text(old), found->second.solver,
                 time_text(found->second));
    }
  }
  bool none() const { return only_a + only_b + times + winners == 0; }
};

constexpr Command kDiff{"db diff", "A B",
                        "Compares find records: '<' only in A, '>' only in B, '~' times more than 10%\n"
                        "apart, '!' another solver is the fastest. Status 1 when there is any.",
                        2, 2};

int diff(const DbArgs& args) {
  const auto a = finds_of(args.operands[0]), b = finds_of(args.operands[1]);
  Difference difference;
  difference.missing(a, b, "<", difference.only_a);
  difference.missing(b, a, ">", difference.only_b);
  difference.compare_times(a, b);
  difference.compare_winners(a, b);
  fmt::print("{} same, {} only in A, {} only in B, {} with another time, {} with another winner\n", difference.same,
             difference.only_a, difference.only_b, difference.times, difference.winners);
  return difference.none() ? 0 : 1;
}

constexpr Command kPrune{"db prune", "[FILE]",
                         "Drops records of your choice, records that later ones replace, and damaged\n"
                         "lines. The default is your own database.",
                         0, 1};

Flags prune_flags(DbArgs& args) {
  return {
      {"", "out", Text{&args.out, "OUT"}, "write here instead of replacing FILE"},
      {"", "older-versions", Switch{&args.older_versions}, "drop all but the newest version of each solver"},
      {"", "kind", Names{&args.kinds, kRecordKinds}, "drop some"},
  };
}

int prune(const DbArgs& args) {
  const auto files = files_of(args);
  if (files.size() != 1) {
    throw RunError(fmt::format("db prune: your own database has {} files; name one of them", files.size()));
  }
  const std::string path = files[0], out = args.out.empty() ? path : args.out;
  const ExclusiveUse lock(path);
  const RecordFile file = read_records(path);
  require_pack(path, file);
  std::vector<Record> kept = current(file.records);
  std::map<std::string, int> newest;
  for (const Record& r : kept) newest[r.solver] = std::max(newest[r.solver], r.solver_version);
  std::erase_if(kept, [&](const Record& r) {
    return args.has_kind(r) || (args.older_versions && r.solver_version < newest[r.solver]);
  });
  std::error_code differs;
  std::filesystem::equivalent(out, path, differs) ? lock.replace(kept) : write_records(out, kept);
  fmt::print("{}: {} record{} kept, {} dropped, {} damaged line{} dropped\n", out, kept.size(), plural(kept.size()),
             file.records.size() - kept.size(), file.damaged.size(), plural(file.damaged.size()));
  return 0;
}

constexpr Command kVerify{"db verify", "[FILE...]",
                          "Checks every line; status 1 when one is damaged. The default is your own database.", 0,
                          kAny};

int verify(const DbArgs& args) {
  constexpr std::size_t kShown = 60;  // characters of a damaged line
  bool damaged = false;
  for (const std::string& path : files_of(args)) {
    const RecordFile file = read_records(path);
    for (const RecordFile::Line& line : file.damaged) {
      std::string text = line.text.substr(0, kShown);
      for (char& c : text) c = c < ' ' || c > '~' ? '?' : c;
      fmt::print("{}:{}: damaged or foreign: {}{}\n", path, line.number, text, line.text.size() > kShown ? "..." : "");
    }
    fmt::print("{}: {} record{}, {} damaged line{}\n", path, file.records.size(), plural(file.records.size()),
               file.damaged.size(), plural(file.damaged.size()));
    damaged = damaged || !file.damaged.empty();
  }
  return damaged ? 1 : 0;
}

constexpr Command kImport{"db import", "FDB",
                          "Converts a FindDb of MIOpen to a list of problems, for --from-list and\n"
                          "tune: files such as gfx942130.HIP.fdb.txt.",
                          1, 1};

Flags import_flags(DbArgs& args) {
  return {
      {"", "out", Text{&args.out, "LIST"}, "write the list here instead of to stdout"},
      {"", "verbose", Switch{&args.verbose}, "print the reason for each skipped line"},
  };
}

int import(const DbArgs& args) {
  const std::string& path = args.operands[0];
  std::istringstream file(read_whole(path));
  const ImportedList list = import_find_db(file);
  if (list.records == 0 && !list.skipped.empty()) {
    throw RunError(
        fmt::format("'{}' has no line of a FindDb; line {}: {}", path, list.skipped[0].line, list.skipped[0].reason));
  }
  std::string text;
  for (const std::string& problem : list.problems) text += problem + '\n';
  if (args.out.empty()) {
    fmt::print("{}", text);
  } else {
    write_whole(args.out, text);
  }
  for (const ImportedList::Skipped& skipped : list.skipped) {
    if (args.verbose) fmt::print(stderr, "{}:{}: {}\n", path, skipped.line, skipped.reason);
  }
  fmt::print(stderr, "{}: {} problem{} from {} record{}, {} line{} skipped\n", path, list.problems.size(),
             plural(list.problems.size()), list.records, plural(list.records), list.skipped.size(),
             plural(list.skipped.size()));
  return 0;
}

constexpr Command kExport{"db export", "OUT",
                          "Writes your own database of the device as a pack, without the trials of tuning.", 1, 1};

Flags export_flags(DbArgs& args) {
  return {
      device_flag(args.device),
      {"", "measured-only", Switch{&args.measured_only}, "leave out predictions"},
  };
}

int export_pack(const DbArgs& args) {
  const std::string& out = args.operands[0];
  std::vector<Record> kept = user_records(args.device);
  std::erase_if(kept, [&](const Record& r) {
    const bool search = r.kind == polymioRecordTrial || r.kind == polymioRecordFailed;
    return search || (args.measured_only && r.kind == polymioRecordPredicted);
  });
  write_records(out, kept);
  fmt::print("{}: {} record{}\n", out, kept.size(), plural(kept.size()));
  return 0;
}

Flags no_flags(DbArgs&) { return {}; }

struct Entry {
  const Command& command;
  Flags (*flags)(DbArgs&);
  int (*run)(const DbArgs&);
};
constexpr Entry kEntries[] = {
    {kList, list_flags, list},           {kMerge, no_flags, merge},   {kDiff, no_flags, diff},
    {kPrune, prune_flags, prune},        {kVerify, no_flags, verify}, {kImport, import_flags, import},
    {kExport, export_flags, export_pack}};

std::string db_help() {
  std::string text = "Usage: MIOpenDriver db COMMAND ...; 'db COMMAND --help' says more.\n";
  for (const Entry& entry : kEntries) {
    const std::string_view summary = entry.command.summary;
    text += fmt::format("  {:<26} {}\n", fmt::format("{} {}", entry.command.name, entry.command.operands),
                        summary.substr(0, summary.find_first_of(".:;,")));
  }
  return text + "  db doctor [PROBLEM]        the same as 'doctor'\n";
}

}  // namespace

int run_db(std::span<const std::string> arguments) {
  std::string names;
  for (const Entry& entry : kEntries) names += fmt::format("{} ", entry.command.name.substr(3));
  if (arguments.empty()) throw ArgError(fmt::format("db: no sub-command, allowed: {}doctor", names));
  if (arguments[0] == "--help" || arguments[0] == "-h") {
    fmt::print("{}", db_help());
    return 0;
  }
  if (arguments[0] == "doctor") return run_doctor(arguments.subspan(1));
  for (const Entry& entry : kEntries) {
    if (entry.command.name.substr(3) != arguments[0]) continue;
    DbArgs args;
    auto operands = parse_or_help(entry.command, entry.flags(args), arguments.subspan(1));
    if (!operands) return 0;
    args.operands = std::move(*operands);
    return entry.run(args);
  }
  throw ArgError(fmt::format("db: unknown sub-command '{}', allowed: {}doctor", arguments[0], names));
}

}  // namespace polymio::driver
