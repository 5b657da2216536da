// Results as JSON and as lines of a table.
// SPDX-License-Identifier: MIT
#include "driver/result.h"

#include <fmt/format.h>

#include "driver/problem.h"

namespace polymio::driver {
namespace {

std::string verdict(const Result& result) {
  if (!result.error.empty()) return "ERROR: " + result.error;
  if (!result.checked) return "not verified";
  const char* word = result.verified ? "verified" : "WRONG";
  if (result.outputs_checked == result.outputs) return fmt::format("{} all", word);
  return fmt::format("{} {} of {}", word, result.outputs_checked, result.outputs);
}

}  // namespace

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
  if (!result.layer.empty()) json["layer"] = result.layer;
  if (result.checked) {
    json["verification"] = {{"ok", result.verified},
                            {"outputs_checked", result.outputs_checked},
                            {"outputs", result.outputs},
                            {"worst_error", result.worst_error},
                            {"tolerance", result.worst_tolerance},
                            {"text", result.verify_text}};
  }
  if (!result.explanation.is_null()) json["explain"] = result.explanation;
  return json;
}

std::string row_header(double peak_gflops) {
  return fmt::format("{:<3}  {:<12} {:<26} {:>10} {:>9}{} {:>10}  {:<22} {}", "dir", "algorithm",
                     "solver", "ms", "GFLOP/s", peak_gflops > 0 ? "  %peak" : "", "workspace",
                     "check", "problem");
}

std::string row(const Result& result, double peak_gflops) {
  const std::string part =
      peak_gflops > 0 ? fmt::format(" {:>5.1f}%", 100 * result.gflops() / peak_gflops) : "";
  const std::string name =
      result.layer.empty() ? result.line : fmt::format("{}: {}", result.layer, result.line);
  if (!result.error.empty()) {
    return fmt::format("{:<3}  {}  {}", direction_short(result.direction), verdict(result), name);
  }
  return fmt::format("{:<3}  {:<12} {:<26} {:>10.3f} {:>9.1f}{} {:>10}  {:<22} {}",
                     direction_short(result.direction), algorithm_name(result.algorithm),
                     result.solver, result.ms, result.gflops(), part,
                     bytes_text(static_cast<double>(result.workspace)), verdict(result), name);
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
