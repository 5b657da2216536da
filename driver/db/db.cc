// One function per sub-command, over records as values.
// SPDX-License-Identifier: MIT
#include "driver/db/db.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <tuple>

#include "driver/db/import.h"
#include "driver/db/records.h"
#include "driver/db/doctor.h"
#include "driver/base/files.h"
#include "driver/run/result.h"
#include "driver/base/flags.h"

namespace polymio::driver {
namespace {

constexpr std::size_t kAny = 1000000;
constexpr double kSameTime = 0.10;  // times within this relative difference are the same

const char* plural(std::size_t n) { return n == 1 ? "" : "s"; }

const std::string& kind_name(const Record& record) { return kind_names()[static_cast<std::size_t>(record.kind)]; }

std::set<polymioRecordKind_t> kinds_of(const Arguments& arguments) {
  std::set<polymioRecordKind_t> kinds;
  for (const std::string& name : arguments.values("--kind")) {
    const auto found = std::find(kind_names().begin(), kind_names().end(), name);
    if (found == kind_names().end()) {
      throw ArgError(fmt::format("--kind: bad value '{}', allowed: {}", name, fmt::join(kind_names(), " ")));
    }
    kinds.insert(static_cast<polymioRecordKind_t>(found - kind_names().begin()));
  }
  return kinds;
}

// The named files, else the existing files of the user's own database.
std::vector<std::string> files_of(const Arguments& arguments) {
  if (!arguments.operands().empty()) return arguments.operands();
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

constexpr TextFlag kListFlags[] = {
    {"--json", "", "one JSON object per record"},
    {"--kind", "KIND[,..]", "only predicted measured tuned trial failed ..."},
    {"--filter", "TEXT", "only records with this text in problem or solver"},
};
constexpr Command kList{"db list",  "[FILE...]", "Lists the records of files; the default is your own database.",
                        kListFlags, 0,           kAny};

int list(const Arguments& arguments) {
  const auto kinds = kinds_of(arguments);
  const std::string filter = arguments.value("--filter").value_or("");
  std::vector<Record> all;
  for (const std::string& path : files_of(arguments)) {
    RecordFile file = read_records(path);
    warn_damaged(path, file);
    std::move(file.records.begin(), file.records.end(), std::back_inserter(all));
  }
  std::vector<Record> records = current(all);
  std::erase_if(records, [&](const Record& r) {
    const bool matches = r.problem.find(filter) != std::string::npos || r.solver.find(filter) != std::string::npos;
    return !matches || (!kinds.empty() && !kinds.contains(r.kind));
  });
  if (!arguments.has("--json")) {
    print_grouped(records);
    return 0;
  }
  for (const Record& record : records) fmt::print("{}\n", to_json(record).dump());
  return 0;
}

constexpr Command kMerge{"db merge",
                         "OUT IN...",
                         "Writes one pack with the records of all inputs: of two of the same identity the\n"
                         "one of the later input, unless the other is of a newer version of the solver.",
                         {},
                         2,
                         kAny};

int merge(const Arguments& arguments) {
  const std::string& out = arguments.operands()[0];
  std::vector<Record> all;
  for (std::size_t i = 1; i < arguments.operands().size(); ++i) {
    RecordFile file = read_records(arguments.operands()[i]);
    require_pack(arguments.operands()[i], file);
    warn_damaged(arguments.operands()[i], file);
    std::move(file.records.begin(), file.records.end(), std::back_inserter(all));
  }
  const std::vector<Record> merged = current(all, true);
  write_records(out, merged);
  fmt::print("{}: {} record{} from {} file{}\n", out, merged.size(), plural(merged.size()),
             arguments.operands().size() - 1, plural(arguments.operands().size() - 1));
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

constexpr Command kDiff{"db diff",
                        "A B",
                        "Compares find records: '<' only in A, '>' only in B, '~' times more than 10%\n"
                        "apart, '!' another solver is the fastest. Status 1 when there is any.",
                        {},
                        2,
                        2};

int diff(const Arguments& arguments) {
  const auto a = finds_of(arguments.operands()[0]), b = finds_of(arguments.operands()[1]);
  Difference difference;
  difference.missing(a, b, "<", difference.only_a);
  difference.missing(b, a, ">", difference.only_b);
  difference.compare_times(a, b);
  difference.compare_winners(a, b);
  fmt::print("{} same, {} only in A, {} only in B, {} with another time, {} with another winner\n", difference.same,
             difference.only_a, difference.only_b, difference.times, difference.winners);
  return difference.none() ? 0 : 1;
}

constexpr TextFlag kPruneFlags[] = {
    {"--out", "OUT", "write here instead of replacing FILE"},
    {"--older-versions", "", "drop all but the newest version of each solver"},
    {"--kind", "KIND[,..]", "drop predicted measured tuned trial failed ..."},
};
constexpr Command kPrune{"db prune",
                         "[FILE]",
                         "Drops records of your choice, records that later ones replace, and damaged\n"
                         "lines. The default is your own database.",
                         kPruneFlags,
                         0,
                         1};

int prune(const Arguments& arguments) {
  const auto kinds = kinds_of(arguments);
  const auto files = files_of(arguments);
  if (files.size() != 1) {
    throw RunError(fmt::format("db prune: your own database has {} files; name one of them", files.size()));
  }
  const std::string path = files[0], out = arguments.value("--out").value_or(path);
  const ExclusiveUse lock(path);
  const RecordFile file = read_records(path);
  require_pack(path, file);
  std::vector<Record> kept = current(file.records);
  std::map<std::string, int> newest;
  for (const Record& r : kept) newest[r.solver] = std::max(newest[r.solver], r.solver_version);
  std::erase_if(kept, [&](const Record& r) {
    return kinds.contains(r.kind) || (arguments.has("--older-versions") && r.solver_version < newest[r.solver]);
  });
  std::error_code differs;
  std::filesystem::equivalent(out, path, differs) ? lock.replace(kept) : write_records(out, kept);
  fmt::print("{}: {} record{} kept, {} dropped, {} damaged line{} dropped\n", out, kept.size(), plural(kept.size()),
             file.records.size() - kept.size(), file.damaged.size(), plural(file.damaged.size()));
  return 0;
}

constexpr Command kVerify{
    "db verify", "[FILE...]", "Checks every line; status 1 when one is damaged. The default is your own database.",
    {},          0,           kAny};

int verify(const Arguments& arguments) {
  constexpr std::size_t kShown = 60;  // characters of a damaged line
  bool damaged = false;
  for (const std::string& path : files_of(arguments)) {
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

constexpr TextFlag kImportFlags[] = {
    {"--out", "LIST", "write the list here instead of to stdout"},
    {"--verbose", "", "print the reason for each skipped line"},
};
constexpr Command kImport{"db import",
                          "FDB",
                          "Converts a FindDb of MIOpen to a list of problems, for --from-list and\n"
                          "tune: files such as gfx942130.HIP.fdb.txt.",
                          kImportFlags,
                          1,
                          1};

int import(const Arguments& arguments) {
  const std::string& path = arguments.operands()[0];
  std::istringstream file(read_whole(path));
  const ImportedList list = import_find_db(file);
  if (list.records == 0 && !list.skipped.empty()) {
    throw RunError(
        fmt::format("'{}' has no line of a FindDb; line {}: {}", path, list.skipped[0].line, list.skipped[0].reason));
  }
  std::string text;
  for (const std::string& problem : list.problems) text += problem + '\n';
  if (const auto out = arguments.value("--out")) {
    write_whole(*out, text);
  } else {
    fmt::print("{}", text);
  }
  for (const ImportedList::Skipped& skipped : list.skipped) {
    if (arguments.has("--verbose")) fmt::print(stderr, "{}:{}: {}\n", path, skipped.line, skipped.reason);
  }
  fmt::print(stderr, "{}: {} problem{} from {} record{}, {} line{} skipped\n", path, list.problems.size(),
             plural(list.problems.size()), list.records, plural(list.records), list.skipped.size(),
             plural(list.skipped.size()));
  return 0;
}

constexpr TextFlag kExportFlags[] = {
    {"--device", "DEVICE", "cpu, cuda:0, ... (default: the library's choice)"},
    {"--measured-only", "", "leave out predictions"},
};
constexpr Command kExport{
    "db export",  "OUT", "Writes your own database of the device as a pack, without the trials of tuning.",
    kExportFlags, 1,     1};

int export_pack(const Arguments& arguments) {
  const std::string& out = arguments.operands()[0];
  std::vector<Record> kept = user_records(arguments.value("--device").value_or(""));
  std::erase_if(kept, [&](const Record& r) {
    const bool search = r.kind == polymioRecordTrial || r.kind == polymioRecordFailed;
    return search || (arguments.has("--measured-only") && r.kind == polymioRecordPredicted);
  });
  write_records(out, kept);
  fmt::print("{}: {} record{}\n", out, kept.size(), plural(kept.size()));
  return 0;
}

struct Entry {
  const Command& command;
  int (*run)(const Arguments&);
};
constexpr Entry kEntries[] = {{kList, list},     {kMerge, merge},   {kDiff, diff},         {kPrune, prune},
                              {kVerify, verify}, {kImport, import}, {kExport, export_pack}};

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
    const Arguments rest(entry.command, arguments.subspan(1));
    if (!rest.help()) return entry.run(rest);
    fmt::print("{}", help_of(entry.command));
    return 0;
  }
  throw ArgError(fmt::format("db: unknown sub-command '{}', allowed: {}doctor", arguments[0], names));
}

}  // namespace polymio::driver
