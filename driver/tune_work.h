// The parts of 'tune': one share of the problems tuned in this process, or child processes that do so.
// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "driver/conv_args.h"
#include "driver/progress.h"
#include "driver/tune_plan.h"

namespace polymio::driver {

struct TuneProblem {
  ConvArgs args;
  Direction direction;
  double cost;
};

struct TuneSettings {
  std::string list;
  double budget = 0;  // seconds; 0: none
  int jobs = 1;
  std::vector<std::string> devices;  // at least one; "" is the library's choice
  Share share;
  bool again = false;
};

// What came of one problem.
struct TuneRow {
  std::string architecture;  // class of the device
  std::string line;          // the problem in the driver's syntax
  std::string problem;       // its key in databases
  std::string error;
  bool complete = false;
  std::size_t candidates = 0;
  std::string solver;
  double before_ms = 0, after_ms = 0;  // the choice before tuning, and after; 0: unknown
};

nlohmann::ordered_json to_json(const TuneRow& row);
TuneRow row_of(const nlohmann::json& json);

// Counts signals while it lives: after the first one tuning ends in good order, the second one kills.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  static int count();
};

// Called as a problem is done, in any order; more than once for a problem that is taken up again.
using TuneReport = std::function<void(const TuneRow&)>;

// Devices of one class share the problems; every class gets all of them, since each has a database of its own.
std::map<std::string, std::vector<std::string>> by_class(const std::vector<std::string>& devices);

// Tunes `problems` on the one device within the budget; what was not begun when the budget or a signal ended it is
// not reported. `progress` may be null.
void tune_here(const TuneSettings& settings, const std::vector<TuneProblem>& problems, Progress* progress,
               const TuneReport& report);

// The same in children of this process, one for each job and device. Throws RunError when one fails as a whole.
void tune_in_children(const TuneSettings& settings, const TuneReport& report);

}  // namespace polymio::driver
