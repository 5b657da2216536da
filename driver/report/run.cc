// Sums, roofs and the order of a run's measurements.
// SPDX-License-Identifier: MIT
#include "driver/report/run.h"

#include <fmt/format.h>

#include <algorithm>

#include "driver/run/conv_args.h"

namespace polymio::driver {
namespace {

constexpr double kAbove = 1.005;  // shown as more than 100%

void take_explanation(Measurement& measurement) {
  const Solvers solvers = solvers_of(measurement.result.explanation);
  const auto number = [](const nlohmann::json& solver, const char* key) {
    return solver.contains(key) && solver[key].is_number() ? solver[key].get<double>() : 0;
  };
  for (const nlohmann::json& solver : solvers.usable) {
    measurement.solvers.push_back({solver.value("name", ""), solver.value("algorithm", ""),
                                   solver.value("tune_point", ""), number(solver, "measured_us"),
                                   number(solver, "predicted_us"), number(solver, "workspace")});
  }
  for (const auto& [reason, names] : solvers.refused) measurement.refused.push_back({reason, names});
  measurement.result.explanation = nullptr;
}

}  // namespace

Measurement* Run::find(const std::string& line) {
  const auto found = std::find_if(measurements.begin(), measurements.end(),
                                  [&](const Measurement& measurement) { return measurement.result.line == line; });
  return found == measurements.end() ? nullptr : &*found;
}

void Run::add(const Result& result) {
  for (Measurement& measurement : measurements) {
    Result& known = measurement.result;
    if (known.line != result.line || known.solver != result.solver || known.error != result.error) continue;
    const auto count = static_cast<double>(measurement.count++);
    known.ms = (known.ms * count + result.ms) / (count + 1);
    known.average_ms = (known.average_ms * count + result.average_ms) / (count + 1);
    if (known.ok() && !result.ok()) {
      known.checked = true;
      known.verified = false;
      known.verify_text = result.verify_text;
    }
    return;
  }
  Measurement& fresh = measurements.emplace_back();
  fresh.result = result;
  if (result.explanation.is_object()) take_explanation(fresh);
}

Roof roof_of(const Machine& machine, const Result& result) {
  const double arithmetic = machine.fp32_gflops > 0 ? result.gflop / machine.fp32_gflops * 1e3 : 0;
  const double memory =
      machine.bandwidth_gbytes > 0 ? (result.bytes_read + result.bytes_written) / machine.bandwidth_gbytes * 1e-6 : 0;
  return {std::max(arithmetic, memory), memory > arithmetic};
}

double roof_part(const Machine& machine, const Result& result) {
  return result.error.empty() && result.ms > 0 ? roof_of(machine, result).ms / result.ms : 0;
}

std::string reason_above_roof(const Machine& machine, const Result& result) {
  const double part = roof_part(machine, result);
  if (part <= kAbove) return "";
  const std::string algorithm = algorithm_name(result.algorithm);
  if (roof_of(machine, result).memory) return "its tensors were in the caches, which are faster than the memory";
  if (algorithm == "Winograd" || algorithm == "FFT") {
    return fmt::format("{} saved at least {:.0f}% of the direct operations", algorithm, 100 * (1 - 1 / part));
  }
  const DataType type = conv_bases().type_of(parse_line(result.line).base);
  if (type != kFloat) return fmt::format("{} arithmetic may exceed the fp32 peak", type_name(type));
  return "the measured peak is too low: other load, or another clock";
}

Total total_of(const Run& run, int directions) {
  Total total;
  for (const Measurement& measurement : run.measurements) {
    const Result& result = measurement.result;
    if (!result.error.empty() || (result.direction & directions) == 0) continue;
    const auto count = static_cast<double>(measurement.count);
    total.count += measurement.count;
    total.gflop += result.gflop * count;
    total.ms += measurement.total_ms();
    total.roof_ms += roof_of(run.machine, result).ms * count;
  }
  return total;
}

Checks checks_of(const Run& run) {
  Checks checks;
  for (const Measurement& measurement : run.measurements) {
    const Result& result = measurement.result;
    checks.runs += measurement.count;
    if (result.ok() && result.checked) checks.verified += measurement.count;
    if (!result.ok()) checks.wrong += measurement.count;
    checks.outputs += result.outputs_checked;
  }
  return checks;
}

RunnerUp runner_up(const Measurement& measurement) {
  RunnerUp second;
  double chosen = 0;
  for (const Alternative& solver : measurement.solvers) {
    if (solver.name == measurement.result.solver) {
      chosen = solver.us();
    } else if (second.solver == nullptr) {
      second.solver = &solver;
    }
  }
  if (second.solver != nullptr && chosen > 0) second.ratio = second.solver->us() / chosen;
  return second;
}

std::string runner_up_text(const Measurement& measurement) {
  const RunnerUp second = runner_up(measurement);
  if (second.solver == nullptr) return measurement.solvers.empty() ? "unknown" : "none";
  if (second.ratio <= 0) return second.solver->name;
  const std::string distance =
      second.ratio < 10 ? fmt::format("{:+.0f}%", 100 * (second.ratio - 1)) : fmt::format("{:.0f}x", second.ratio);
  return fmt::format("{} {}{}", second.solver->name, distance, second.solver->measured_us > 0 ? "" : "?");
}

std::vector<const Measurement*> by_time(const Run& run) {
  std::vector<const Measurement*> sorted;
  for (const Measurement& measurement : run.measurements) sorted.push_back(&measurement);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Measurement* a, const Measurement* b) { return a->total_ms() > b->total_ms(); });
  return sorted;
}

std::string name_of(const Measurement& measurement) {
  if (measurement.layers.empty()) return shape_text(measurement.result.line, true);
  if (measurement.layers.size() == 1) return measurement.layers[0];
  return fmt::format("{} and {} more", measurement.layers[0], measurement.layers.size() - 1);
}

}  // namespace polymio::driver
