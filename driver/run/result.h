// The result of one run of one direction as a value: printed, written as JSON, drawn in the report.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "driver/run/common_args.h"
#include "reference/tolerance.h"

namespace polymio::driver {

struct Result {
  std::string line;  // the problem with this direction alone, in the driver's syntax
  Direction direction = kForward;
  std::string error;  // why the run failed; empty: it did not

  int algorithm = -1;
  std::string solver = "UNKNOWN";
  std::uint64_t solution = 0;
  std::size_t workspace = 0;
  std::string source;  // of the choice: database (stored before this run), measured (in this run), estimate

  double gflop = 0;
  double bytes_read = 0, bytes_written = 0;
  double ms = 0;          // median of the timed runs
  double average_ms = 0;  // without the first run
  double find_ms = 0;     // wall-clock time until the choice was made

  bool checked = false;
  bool verified = false;
  std::int64_t outputs_checked = 0, outputs = 0;
  double worst_error = 0, worst_tolerance = 0;
  std::string verify_text;

  std::string find_report;  // what find measured and skipped; may be empty
  // polymioExplain's object, or null; of an operation that runs several problems, an array of them.
  nlohmann::json explanation;

  // Takes the explanations and the solvers' names from polymioGetLastExplanation's text.
  void set_choice(const std::string& explanations);
  // Of the timed runs, at least one.
  void set_times(std::vector<double> times);
  // `name` is the title of the text, "... Verifies OK on CPU reference (e < t)" or "... FAILED: e > t".
  void set_comparison(const std::string& name, std::int64_t all, std::int64_t compared,
                      const reference::Comparison& comparison);

  bool ok() const { return error.empty() && (!checked || verified); }
  double gflops() const { return ms > 0 ? gflop / ms * 1e3 : 0; }
  double gbytes() const { return ms > 0 ? (bytes_read + bytes_written) / ms * 1e-6 : 0; }
  double intensity() const { return gflop * 1e9 / (bytes_read + bytes_written); }
};

const char* direction_title(Direction direction);  // "Forward", "Backward Data", "Backward Weights"
const char* direction_short(Direction direction);  // "fwd", "bwd", "wrw"
const char* algorithm_name(int algorithm);

nlohmann::json to_json(const Result& result);

// "4x64x56x56 -> 64, 3x3 s2 g32": the sizes of a driver line in short. `typeset` uses real
// multiplication signs and arrows.
std::string shape_text(const std::string& line, bool typeset);

// One line of a table: direction, algorithm, solver, time, rate, workspace, verification, driver line.
std::string row(const Result& result);
std::string row_header();

// The solvers of polymioExplain's object: usable solvers by time, and the names of refused solvers by reason.
struct Solvers {
  std::vector<nlohmann::json> usable;
  std::vector<std::pair<std::string, std::vector<std::string>>> refused;
};
Solvers solvers_of(const nlohmann::json& explanation);

// Microseconds of a solver of polymioExplain's object: measured, else predicted, else infinite.
double time_of(const nlohmann::json& solver);

// Result::explanation as a table: usable solvers by time, then refused solvers by reason.
void print_explanation(const std::string& title, const Result& result);

// "12.3 MiB"; "0" for none.
std::string bytes_text(double bytes);

}  // namespace polymio::driver
