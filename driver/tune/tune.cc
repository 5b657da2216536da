// The command line of 'tune': settings, rows as they arrive, the summary and the pack.
// SPDX-License-Identifier: MIT
#include "driver/commands.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <set>

#include "driver/db/records.h"
#include "driver/db/doctor.h"
#include "driver/run/list.h"
#include "driver/run/result.h"
#include "driver/tune/work.h"

namespace polymio::driver {
namespace {

constexpr Command kTuneCommand{"tune", "--from-list FILE",
                               "Tunes every problem of a list and stores the results in your own database.\n"
                               "Resumes where an earlier run ended. Interrupt it once to end in good order,\n"
                               "twice to kill it. Results hold for the number of threads they ran with.\n"
                               "Status 0: all is tuned; 3: budget or interrupt came first; 1: one failed."};

struct TuneArgs {
  TuneSettings settings;
  std::int64_t jobs = 1;
  std::string share, out;
  bool json = false;
};

Flags flags_of(TuneArgs& args) {
  return {
      {"", "from-list", Text{&args.settings.list, "FILE"}, "problems, as POLYMIO_RECORD and db import write them"},
      {"", "budget", Duration{&args.settings.budget}, "90s, 10m, 2h (default: until everything is tuned)"},
      {"", "jobs", Integer{&args.jobs, 1, 1024}, "processes, each with its share of the cores"},
      {"", "device", Texts{&args.settings.devices, "DEVICE"}, "cpu, cuda:0, ... (default: the library's choice)"},
      {"", "share", Text{&args.share, "I/N"}, "part I, from 0, of N (default: as mpirun or srun say)"},
      {"", "out", Text{&args.out, "PACK"}, "also write a pack; with N > 1 as PACK.I"},
      {"", "again", Switch{&args.settings.again}, "tune again what is tuned already"},
      {"", "json", Switch{&args.json}, "one JSON object per problem"},
  };
}

// The distinct problems of this share, one per direction.
std::vector<TuneProblem> problems_of(const TuneSettings& settings) {
  std::vector<TuneProblem> all;
  std::set<std::string> seen;
  for (std::unique_ptr<Operation>& read : read_operations(settings.list)) {
    const std::shared_ptr<Operation> operation = std::move(read);
    for (const Direction direction : kDirections) {
      if ((operation->directions() & direction) == 0) continue;
      std::string line = operation->line(direction);
      if (seen.insert(line).second) all.push_back({operation, direction, std::move(line), operation->cost()});
    }
  }
  std::vector<double> costs;
  for (const TuneProblem& problem : all) costs.push_back(problem.cost);
  std::vector<TuneProblem> mine;
  for (const std::size_t i : deal(costs, settings.share)) mine.push_back(all[i]);
  return mine;
}

constexpr const char* kHeader = "problem                       untuned   tuned  gain  done solver";

std::string row_text(const TuneRow& row) {
  if (!row.error.empty()) return fmt::format("FAILED {}\n  {}", row.line, row.error);
  const bool convolution = conv_bases().type_of(row.line.substr(0, row.line.find(' '))) != kNoType;
  const bool both = row.before_ms > 0 && row.after_ms > 0;
  return fmt::format("{:<29} {:>7} {:>7.4g} {:>5} {:>4}{} {}", convolution ? shape_text(row.line, false) : row.line,
                     both ? fmt::format("{:.4g}", row.before_ms) : "-", row.after_ms,
                     both ? fmt::format("{:.2f}", row.before_ms / row.after_ms) : "-", row.candidates,
                     row.complete ? " " : "+", row.solver);
}

// The latest row of each problem on each device class.
class Tally {
 public:
  explicit Tally(std::size_t expected) : expected_(expected) {}

  void add(const TuneRow& row) {
    candidates_ += row.candidates;
    for (std::size_t at = 0; at < row.problem.size();) {
      const std::size_t end = std::min(row.problem.find(kPartsOfProblem, at), row.problem.size());
      keys_.insert(row.problem.substr(at, end - at));
      at = end + kPartsOfProblem.size();
    }
    auto [place, fresh] = rows_.try_emplace(row.architecture + ' ' + row.line, row);
    if (fresh) return;
    const double before = place->second.before_ms;  // only the first row's time is untuned
    place->second = row;
    if (before > 0) place->second.before_ms = before;
  }

  std::string summary(double seconds) const {
    double before = 0, after = 0, logs = 0;
    std::size_t compared = 0, complete = 0, failed = 0;
    for (const auto& [line, row] : rows_) {
      complete += row.complete ? 1 : 0;
      failed += row.error.empty() ? 0 : 1;
      if (!row.error.empty() || row.before_ms <= 0 || row.after_ms <= 0) continue;
      ++compared;
      before += row.before_ms;
      after += row.after_ms;
      logs += std::log(row.before_ms / row.after_ms);
    }
    std::string text = fmt::format("{} of {} problems tuned, {} failed; {} candidates in {}\n", complete, expected_,
                                   failed, candidates_, duration_text(seconds));
    if (compared == 0) return text;
    return text + fmt::format("{:.4g} ms untuned, {:.4g} ms tuned: {:.2f}x; geometric mean {:.2f}x over {} problem{}",
                              before, after, before / after, std::exp(logs / static_cast<double>(compared)), compared,
                              compared == 1 ? "" : "s");
  }

  int status() const {
    bool complete = rows_.size() >= expected_;
    for (const auto& [line, row] : rows_) {
      if (!row.error.empty()) return 1;
      complete = complete && row.complete;
    }
    return complete ? 0 : kIncomplete;
  }

  const std::set<std::string>& keys() const { return keys_; }

 private:
  std::size_t expected_;
  std::size_t candidates_ = 0;
  std::map<std::string, TuneRow> rows_;
  std::set<std::string> keys_;
};

// Writes one pack per device class.
void write_packs(const TuneSettings& settings, const std::string& out, const std::set<std::string>& keys) {
  const auto classes = by_class(settings.devices);
  for (const auto& [architecture, devices] : classes) {
    require_storage(devices[0]);  // the disk may have filled up meanwhile
    std::vector<Record> kept = user_records(devices[0]);
    std::erase_if(kept, [&](const Record& r) {
      return !keys.contains(r.problem) || (!r.is_find() && r.kind != polymioRecordQuarantined);
    });
    std::string file = out;
    if (classes.size() > 1) file += "." + architecture;
    if (settings.share.count > 1) file += fmt::format(".{}", settings.share.index);
    write_records(file, kept);
    fmt::print(stderr, "{}: {} records for {}\n", file, kept.size(), architecture);
  }
}

// Prints rows as they arrive: as text above a progress bar, or as JSON.
class Output {
 public:
  Output(const std::vector<TuneProblem>& problems, std::size_t classes, bool json) {
    if (json) return;
    double total = 0;
    for (const TuneProblem& problem : problems) {
      total += problem.cost * static_cast<double>(classes);
      costs_[problem.line] = problem.cost;
    }
    bar_.emplace(fmt::format("{} problems", problems.size()), total);
    line(kHeader);
  }
  Progress* bar() { return bar_ ? &*bar_ : nullptr; }
  void line(const std::string& text) {
    if (bar_) bar_->line(text);
  }
  void add(const TuneRow& row) {
    if (!bar_) {
      fmt::print("{}\n", to_json(row).dump());
      std::fflush(stdout);
      return;
    }
    line(row_text(row));
    if (seen_.insert(row.architecture + ' ' + row.line).second) bar_->advance(costs_[row.line]);
  }

 private:
  std::optional<Progress> bar_;
  std::map<std::string, double> costs_;
  std::set<std::string> seen_;
};

int tune(const TuneArgs& args) {
  const TuneSettings& settings = args.settings;
  const auto start = std::chrono::steady_clock::now();
  const std::vector<TuneProblem> problems = problems_of(settings);
  const auto classes = by_class(settings.devices);
  for (const auto& [architecture, devices] : classes) require_storage(devices[0]);
  const Signals signals;
  Output output(problems, classes.size(), args.json);
  if (Progress* bar = output.bar()) bar->limit(settings.budget);
  Tally tally(problems.size() * classes.size());
  const auto report = [&](const TuneRow& row) {
    tally.add(row);
    output.add(row);
  };
  if (settings.jobs > 1 || settings.devices.size() > 1) {
    tune_in_children(settings, report);
  } else {
    tune_here(settings, problems, output.bar(), report);
  }
  output.line(tally.summary(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()));
  const bool ranks = settings.share.count > 1 && args.share.empty();
  if (!args.out.empty() || ranks) write_packs(settings, args.out.empty() ? "tuned.pack" : args.out, tally.keys());
  return tally.status();
}

}  // namespace

int run_tune(std::span<const std::string> arguments) {
  TuneArgs args;
  if (!parse_or_help(kTuneCommand, flags_of(args), arguments)) return 0;
  TuneSettings& settings = args.settings;
  if (settings.list.empty()) throw ArgError("tune: no list, allowed: --from-list FILE");
  if (settings.devices.empty()) settings.devices = {""};
  settings.jobs = static_cast<int>(args.jobs);
  settings.share = args.share.empty() ? share_from_environment() : parse_share(args.share);
  return tune(args);
}

}  // namespace polymio::driver
