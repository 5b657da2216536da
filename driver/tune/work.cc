// Tunes problem after problem; unused budget goes to the problems that are not complete.
// SPDX-License-Identifier: MIT
#include "driver/tune/work.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <ctime>

#include "driver/run/conv_calls.h"

namespace polymio::driver {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

volatile std::sig_atomic_t signal_count = 0;

// Launchers send a signal to the process and to its group: signals within 200 ms count as one.
extern "C" void count_signal(int number) {
  static std::int64_t last_ms = 0;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t ms = static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
  if (signal_count > 0 && ms - last_ms < 200) return;
  last_ms = ms;
  signal_count = signal_count + 1;
  if (signal_count < 2) return;
  std::signal(number, SIG_DFL);
  std::raise(number);
}

// The polymioTuningCallback of a session.
struct Watch {
  Progress* progress;
  std::map<std::string, double> first_ms{};  // of the current problem, per solver: time of the first tune point

  static int on_progress(void* context, const polymioTuningProgress_t* p) noexcept {
    auto& self = *static_cast<Watch*>(context);
    if (p->done == 1) self.first_ms.emplace(p->solver, p->best_time);
    if (self.progress != nullptr) {
      const std::string best = std::isfinite(p->best_time) ? fmt::format(", best {:.4g} ms", p->best_time) : "";
      self.progress->note(fmt::format("{} {}/{}{}", p->solver, p->done, p->total, best));
    }
    return Signals::count();
  }
};

// A solver of polymioExplain's object.
struct ExplainedSolver {
  std::string point;
  double measured_ms = 0;  // 0: not measured
};

ExplainedSolver find_solver(const nlohmann::json& explanation, const std::string& name) {
  for (const auto& solver : explanation.value("solvers", nlohmann::json::array())) {
    if (solver.value("name", "") != name) continue;
    const auto us = solver.find("measured_us");
    const bool measured = us != solver.end() && us->is_number();
    return {solver.value("tune_point", ""), measured ? us->get<double>() * 1e-3 : 0};
  }
  return {};
}

// Milliseconds of the choice before tuning, preferring the measurement closest in time to that of the new choice.
double time_before(const nlohmann::json& before, const nlohmann::json& after, const Watch& watch) {
  const std::string chosen = before.value("chosen", "");
  const ExplainedSolver old = find_solver(before, chosen);
  const ExplainedSolver now = find_solver(after, chosen);
  if (now.point == old.point && now.measured_ms > 0) return now.measured_ms;
  const auto first = watch.first_ms.find(chosen);
  if (first != watch.first_ms.end() && std::isfinite(first->second)) return first->second;
  return old.measured_ms;
}

void append(std::string& all, std::string_view part) {
  if (!all.empty()) all += kPartsOfProblem;
  all += part;
}

// Adds a problem, or a part of a fused one, to the row.
void tune_part(const Session& session, miopenProblem_t problem, const polymioTuneOptions_t& options, Watch& watch,
               TuneRow& row) {
  watch.first_ms.clear();
  const auto before = nlohmann::json::parse(explain(session, problem));
  append(row.problem, before.value("problem", ""));
  polymioTuneResult_t result{};
  result.size = sizeof(result);
  check(polymioTune(session.get(), problem, &options, &result), "polymioTune");
  row.complete = row.complete && result.complete != 0;
  row.candidates += result.candidates;
  append(row.solver, solution_name(result.solution_id));
  row.after_ms += static_cast<double>(result.time);
  row.before_ms += result.candidates > 0 ? time_before(before, nlohmann::json::parse(explain(session, problem)), watch)
                                         : static_cast<double>(result.time);
}

TuneRow tune_one(const Session& session, const TuneProblem& item, double seconds, bool again, Watch& watch) {
  TuneRow row;
  row.architecture = session.device.architecture;
  row.line = item.line;
  try {
    const std::vector<OwnedProblem> parts = item.operation->problems(item.direction);
    polymioTuneOptions_t options{};
    options.size = sizeof(options);
    options.budget_ms = seconds * 1e3 / static_cast<double>(parts.size());
    options.again = again ? 1 : 0;
    row.complete = true;
    for (const OwnedProblem& part : parts) tune_part(session, part.get(), options, watch, row);
    if (row.candidates == 0) row.before_ms = 0;  // no part was measured
  } catch (const std::exception& error) {
    row.complete = false;
    row.error = error.what();
  }
  return row;
}

}  // namespace

nlohmann::ordered_json to_json(const TuneRow& row) {
  return {{"architecture", row.architecture},
          {"line", row.line},
          {"problem", row.problem},
          {"error", row.error},
          {"complete", row.complete},
          {"candidates", row.candidates},
          {"solver", row.solver},
          {"before_ms", row.before_ms},
          {"after_ms", row.after_ms}};
}

TuneRow row_of(const nlohmann::json& json) {
  TuneRow row;
  row.architecture = json.value("architecture", "");
  row.line = json.value("line", "");
  row.problem = json.value("problem", "");
  row.error = json.value("error", "");
  row.complete = json.value("complete", false);
  row.candidates = json.value("candidates", std::size_t{0});
  row.solver = json.value("solver", "");
  row.before_ms = json.value("before_ms", 0.0);
  row.after_ms = json.value("after_ms", 0.0);
  return row;
}

Signals::Signals() {
  signal_count = 0;
  std::signal(SIGINT, count_signal);
  std::signal(SIGTERM, count_signal);
}

Signals::~Signals() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

int Signals::count() { return signal_count; }

void tune_here(const TuneSettings& settings, const std::vector<TuneProblem>& problems, Progress* progress,
               const TuneReport& report) {
  const Session session(settings.devices[0]);
  Watch watch{progress};
  check(polymioSetTuningCallback(session.get(), &Watch::on_progress, &watch), "polymioSetTuningCallback");
  const auto start = Clock::now();
  const auto remaining = [&] { return settings.budget > 0 ? settings.budget - seconds_since(start) : INFINITY; };
  std::vector<TuneProblem> todo = problems;
  bool first_pass = true;
  bool progressed = true;
  while (!todo.empty() && progressed) {
    std::vector<TuneProblem> incomplete;
    double remaining_cost = 0;
    for (const TuneProblem& item : todo) remaining_cost += item.cost;
    progressed = false;
    for (const TuneProblem& item : todo) {
      if (Signals::count() > 0 || remaining() <= 0) return;
      const double seconds = settings.budget > 0 ? remaining() * item.cost / remaining_cost : 0;
      remaining_cost = std::max(remaining_cost - item.cost, 0.0);
      const TuneRow row = tune_one(session, item, seconds, settings.again && first_pass, watch);
      report(row);
      if (!row.complete && row.error.empty()) incomplete.push_back(item);
      progressed = progressed || row.candidates > 0;
    }
    if (settings.budget <= 0) return;
    todo = std::move(incomplete);
    first_pass = false;
  }
}

}  // namespace polymio::driver
