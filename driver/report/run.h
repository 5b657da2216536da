// A run as a value: problems, their times, and on what they ran. Pages are made of it; run_file.h has its JSON.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "driver/run/result.h"

namespace polymio::driver {

// A solver that can compute a problem.
struct Alternative {
  std::string name, algorithm, tune_point;
  double measured_us = 0, predicted_us = 0;  // 0: unknown
  double workspace = 0;                      // bytes

  double us() const { return measured_us > 0 ? measured_us : predicted_us; }
};

struct Refusal {
  std::string reason;
  std::vector<std::string> solvers;
};

// A problem with its direction, once, however often the run has it.
struct Measurement {
  Result result;                     // its explanation is in the fields below instead
  std::vector<std::string> layers;   // of the network; may be empty
  std::int64_t count = 1;            // how often the run has the problem
  std::vector<Alternative> solvers;  // that can compute it, fastest first
  std::vector<Refusal> refused;

  // Milliseconds of all its occurrences; 0 when it failed.
  double total_ms() const { return result.error.empty() ? result.ms * static_cast<double>(count) : 0; }
};

struct Machine {
  std::string device, model, architecture;
  std::string governor;           // of the CPU's clock; may be empty
  std::vector<double> clock_ghz;  // of a core, measured during the run; may be empty
  std::int64_t units = 0, threads = 0;
  double memory_bytes = 0, cache_bytes[3] = {0, 0, 0};
  double fp32_gflops = 0, bandwidth_gbytes = 0;  // measured peaks
};

struct Run {
  std::string title;
  std::string command, date;    // date in UTC as 2026-01-31T23:59:59Z
  std::string version, commit;  // of the library, of the source of the driver; commit may be empty
  Machine machine;
  std::vector<std::pair<std::string, std::string>> notes;  // name and value, shown with the machine
  std::vector<Measurement> measurements;

  // The measurement of a line, or null.
  Measurement* find(const std::string& line);
  // Adds a result. One with the line and solver of a measurement counts as another occurrence of it: the times are
  // averaged, and a failure stays.
  void add(const Result& result);
};

// The least time of a problem by the definition of convolution: the longer one of its arithmetic at the measured fp32
// peak and its tensors at the measured bandwidth.
struct Roof {
  double ms = 0;
  bool memory = false;  // the tensors take longer
};
Roof roof_of(const Machine& machine, const Result& result);

// The part of the roof that a result reaches, 1 at the roof; 0 when it failed.
double roof_part(const Machine& machine, const Result& result);

// Why the result is above the roof; empty if it is not.
std::string reason_above_roof(const Machine& machine, const Result& result);

// Sums over measurements that did not fail, with their counts.
struct Total {
  std::int64_t count = 0;
  double gflop = 0, ms = 0, roof_ms = 0;

  double gflops() const { return ms > 0 ? gflop / ms * 1e3 : 0; }
  double roof_part() const { return ms > 0 ? roof_ms / ms : 0; }
};
inline constexpr int kAllDirections = kForward | kBackwardData | kBackwardWeights;
Total total_of(const Run& run, int directions = kAllDirections);

// Counts over all occurrences.
struct Checks {
  std::int64_t runs = 0, verified = 0, wrong = 0;  // wrong: or failed
  std::int64_t outputs = 0;                        // compared
};
Checks checks_of(const Run& run);

// The fastest solver beside the one that ran.
struct RunnerUp {
  const Alternative* solver = nullptr;  // null: there is no other
  double ratio = 0;                     // of its time to that of the solver that ran; 0: unknown
};
RunnerUp runner_up(const Measurement& measurement);

// "ConvCpuDirectFwd +12%"; with a question mark if the time is predicted.
std::string runner_up_text(const Measurement& measurement);

// Measurements by the time of all their occurrences, longest first.
std::vector<const Measurement*> by_time(const Run& run);

// "layer1.0.conv2 and 2 more"; the shape if there are no layers.
std::string name_of(const Measurement& measurement);

}  // namespace polymio::driver
