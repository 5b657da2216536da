// Results of gpu_rig: one row per problem, solver and tune point, as a line of JSON; and the tables made of rows.
// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

namespace polymio {

struct Row {
  std::string device, problem, name, group, direction, type, solver, point, state, note;
  int version = 1;
  bool is_default = false;
  int samples = 0;
  double us = 0, floor_us = 0, predicted_us = 0, first_ms = 0;
  double flops = 0, bytes = 0, workspace = 0;
  double error_norm = 0, error_ratio = 0;

  bool timed() const { return state == kTimed; }
  /// Whether this and an earlier row measure the same.
  std::string key() const;

  static constexpr const char* kTimed = "timed";
  static constexpr const char* kWrong = "wrong";
  static constexpr const char* kFailed = "failed";
  static constexpr const char* kStuck = "stuck";  // the device did not finish
};

/// Throws std::runtime_error, naming the file and the line. A last line that is cut off is left out.
std::vector<Row> read_rows(const std::string& path);
void append_rows(const std::string& path, const std::vector<Row>& rows);

/// A line per problem and solver: its best point and the regret of its default point.
std::string table_of(const std::vector<Row>& rows);
/// A line per solver and type: geometric means over the problems.
std::string summary_of(const std::vector<Row>& rows);

}  // namespace polymio
