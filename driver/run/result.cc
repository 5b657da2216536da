// Results as JSON and as lines of a table.
// SPDX-License-Identifier: MIT
#include "driver/run/result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>

#include "driver/run/conv_args.h"

namespace polymio::driver {
namespace {

std::string verdict(const Result& result) {
  if (!result.error.empty()) return "ERROR: " + result.error;
  if (!result.checked) return "not verified";
  const char* argument = result.verified ? "verified" : "WRONG";
  if (result.outputs_checked == result.outputs) return fmt::format("{} all", argument);
  return fmt::format("{} {} of {}", argument, result.outputs_checked, result.outputs);
}

// The end of the values to print: one value when all are equal.
std::vector<std::int64_t>::const_iterator same(const std::vector<std::int64_t>& values) {
  const bool equal = std::equal(values.begin() + 1, values.end(), values.begin());
  return equal ? values.begin() + 1 : values.end();
}

std::string time_text(const nlohmann::json& solver, const char* key) {
  if (!solver.contains(key) || !solver[key].is_number()) return "-";
  return fmt::format("{:.1f}", solver[key].get<double>());
}

}  // namespace

void Result::set_choice(const std::string& explanations) {
  std::vector<nlohmann::json> all;
  std::istringstream lines(explanations);
  for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
  if (all.empty()) return;
  solver.clear();
  for (const nlohmann::json& one : all) solver += (solver.empty() ? "" : " + ") + one.value("chosen", "");
  source = all[0].value("source", "");
  explanation = all.size() == 1 ? all[0] : nlohmann::json(all);
}

void Result::set_times(std::vector<double> times) {
  if (times.size() > 1) times.erase(times.begin());
  average_ms = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  ms = *middle;
}

void Result::set_comparison(const std::string& name, std::int64_t all, std::int64_t compared,
                            const reference::Comparison& comparison) {
  checked = true;
  verified = comparison.ok();
  outputs = all;
  outputs_checked = compared;
  worst_error = std::abs(comparison.got - comparison.want);
  worst_tolerance = comparison.tolerance;
  if (verified) {
    verify_text = fmt::format("{} Verifies OK on CPU reference ({:.3g} {} {:.3g})", name, worst_error,
                              worst_error < worst_tolerance ? "<" : "<=", worst_tolerance);
    return;
  }
  verify_text =
      fmt::format("{} FAILED: {:.3g} > {:.3g} ({} wrong outputs; worst at {}: got {}, want {})", name, worst_error,
                  worst_tolerance, comparison.failures, comparison.index, comparison.got, comparison.want);
}
const char* direction_title(Direction direction) {
  if (direction == kForward) return "Forward";
  return direction == kBackwardData ? "Backward Data" : "Backward Weights";
}

const char* direction_short(Direction direction) {
  if (direction == kForward) return "fwd";
  return direction == kBackwardData ? "bwd" : "wrw";
}

const char* algorithm_name(int algorithm) {
  static const char* const kNames[] = {"GEMM", "Direct", "FFT", "Winograd", "GEMM", "ImplicitGEMM"};
  return algorithm >= 0 && algorithm <= 5 ? kNames[algorithm] : "-";
}

nlohmann::json to_json(const Result& result) {
  nlohmann::json json = {
      {"problem", result.line},
      {"direction", direction_short(result.direction)},
      {"ok", result.ok()},
      {"error", result.error},
      {"algorithm", algorithm_name(result.algorithm)},
      {"solver", result.solver},
      {"solution", result.solution},
      {"workspace", result.workspace},
      {"source", result.source},
      {"gflop", result.gflop},
      {"bytes_read", result.bytes_read},
      {"bytes_written", result.bytes_written},
      {"ms", result.ms},
      {"average_ms", result.average_ms},
      {"find_ms", result.find_ms},
      {"gflops", result.gflops()},
      {"gbytes_per_s", result.gbytes()},
  };
  if (result.checked) {
    json["verification"] = {{"ok", result.verified},
                            {"outputs_checked", result.outputs_checked},
                            {"outputs", result.outputs},
                            {"worst_error", result.worst_error},
                            {"tolerance", result.worst_tolerance},
                            {"text", result.verify_text}};
  }
  if (!result.explanation.is_null()) json["explain"] = result.explanation;
  if (!result.find_report.empty()) json["find_report"] = result.find_report;
  return json;
}

std::string shape_text(const std::string& line, bool typeset) {
  const char* const times = typeset ? "\u00d7" : "x";
  const ConvArgs args = parse_line(line);
  const auto x = input_lens(args);
  const auto w = weight_lens(args);
  const std::vector<std::int64_t> filter(w.begin() + 2, w.end());
  std::string text = fmt::format("{} {} {}, {}", fmt::join(x, times), typeset ? "\u2192" : "->", args.out_channels,
                                 fmt::join(filter, times));
  const auto stride = strides(args);
  const auto dilation = dilations(args);
  if (*std::max_element(stride.begin(), stride.end()) > 1) {
    text += fmt::format(" s{}", fmt::join(stride.begin(), same(stride), times));
  }
  if (*std::max_element(dilation.begin(), dilation.end()) > 1) {
    text += fmt::format(" d{}", fmt::join(dilation.begin(), same(dilation), times));
  }
  if (args.groups > 1) text += fmt::format(" g{}", args.groups);
  if (args.transpose != 0) text += " trans";
  return args.base == "conv" ? text : fmt::format("{} {}", args.base.substr(4), text);
}

std::string row_header() {
  return fmt::format("{:<3} {:<12} {:<23} {:>9} {:>8} {:>9}  {:<27}problem", "dir", "algorithm", "solver", "ms",
                     "GFLOP/s", "workspace", "check");
}

std::string row(const Result& result) {
  if (!result.error.empty()) {
    return fmt::format("{:<3} {}  {}", direction_short(result.direction), verdict(result), result.line);
  }
  return fmt::format("{:<3} {:<12} {:<23} {:>9.{}f} {:>8.1f} {:>9}  {:<26} {}", direction_short(result.direction),
                     algorithm_name(result.algorithm), result.solver, result.ms, result.ms < 0.1 ? 6 : 3,
                     result.gflops(), bytes_text(static_cast<double>(result.workspace)), verdict(result), result.line);
}

Solvers solvers_of(const nlohmann::json& explanation) {
  Solvers solvers;
  for (const nlohmann::json& solver : explanation.value("solvers", nlohmann::json::array())) {
    if (solver.value("applicable", false)) {
      solvers.usable.push_back(solver);
      continue;
    }
    const std::string reason = solver.value("reason", "");
    auto place = std::find_if(solvers.refused.begin(), solvers.refused.end(),
                              [&](const auto& group) { return group.first == reason; });
    if (place == solvers.refused.end()) place = solvers.refused.insert(place, {reason, {}});
    place->second.push_back(solver.value("name", ""));
  }
  std::stable_sort(solvers.usable.begin(), solvers.usable.end(),
                   [](const auto& a, const auto& b) { return time_of(a) < time_of(b); });
  return solvers;
}

void print_explanation(const std::string& title, const Result& result) {
  if (result.explanation.is_null()) return fmt::print("{}: one way, no solvers to choose from\n", title);
  if (result.explanation.is_array()) {
    Result part = result;
    for (const nlohmann::json& one : result.explanation) {
      part.explanation = one;
      part.source.clear();
      print_explanation(title, part);
    }
    return;
  }
  const nlohmann::json& all = result.explanation;
  const Solvers solvers = solvers_of(all);
  fmt::print("{}: {} on {}, chosen {} (source: {})\n", title, all.value("problem", ""), all.value("device", ""),
             all.value("chosen", ""), result.source.empty() ? all.value("source", "") : result.source);
  fmt::print("  {:<28} {:<13} {:>13} {:>12} {:>10} {:<4} {}\n", "solver", "algorithm", "predicted us", "measured us",
             "workspace", "det.", "class, tune point");
  for (const nlohmann::json& solver : solvers.usable) {
    const std::string arithmetic = solver.value("arithmetic", "");
    fmt::print("  {:<28} {:<13} {:>13} {:>12} {:>10} {:<4} {}, {}{}\n", solver.value("name", ""),
               solver.value("algorithm", ""), time_text(solver, "predicted_us"), time_text(solver, "measured_us"),
               bytes_text(solver.value("workspace", 0.0)), solver.value("deterministic", false) ? "yes" : "no",
               solver.value("error_class", ""), solver.value("tune_point", ""),
               arithmetic.empty() ? "" : fmt::format(" ({})", arithmetic));
  }
  for (const auto& [reason, names] : solvers.refused) {
    fmt::print("  {} refused: {}\n", fmt::join(names, ", "), reason);
  }
  for (std::size_t at = 0; at < result.find_report.size();) {  // one line per solver
    const std::size_t end = std::min(result.find_report.find("; ", at), result.find_report.size());
    fmt::print("  find: {}\n", result.find_report.substr(at, end - at));
    at = end + 2;
  }
}

double time_of(const nlohmann::json& solver) {
  for (const char* key : {"measured_us", "predicted_us"}) {
    if (solver.contains(key) && solver[key].is_number()) return solver[key].get<double>();
  }
  return std::numeric_limits<double>::infinity();
}

std::string bytes_text(double bytes) {
  if (bytes <= 0) return "0";
  static const char* const kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

}  // namespace polymio::driver
