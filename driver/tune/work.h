// The work of 'tune': tunes one share of the problems in this process or in child processes.
// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "driver/run/operation.h"
#include "driver/base/progress.h"
#include "driver/tune/plan.h"

namespace polymio::driver {

struct TuneProblem {
  std::shared_ptr<Operation> operation;
  Direction direction;
  std::string line;  // in the driver's syntax
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

// The result of one problem.
struct TuneRow {
  std::string architecture;  // class of the device
  std::string line;          // the problem in the driver's syntax
  std::string problem;       // its key in databases; kPartsOfProblem between those of a fused one
  std::string error;
  bool complete = false;
  std::size_t candidates = 0;
  std::string solver;
  double before_ms = 0;  // time of the choice before tuning; 0: unknown
  double after_ms = 0;
};

inline constexpr std::string_view kPartsOfProblem = " + ";

nlohmann::ordered_json to_json(const TuneRow& row);
TuneRow row_of(const nlohmann::json& json);

// Counts SIGINT and SIGTERM during its lifetime: after the first tuning ends in good order, the second kills.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  static int count();
};

// Exit status where a budget or an interrupt came first.
inline constexpr int kIncomplete = 3;

// Called per finished problem, in any order; again when a problem is resumed.
using TuneReport = std::function<void(const TuneRow&)>;

// Devices by class. Devices of one class share the problems; every class gets all problems, since each has its own
// database.
std::map<std::string, std::vector<std::string>> by_class(const std::vector<std::string>& devices);

// Tunes `problems` on settings.devices[0] within the budget. Problems not begun when the budget or a signal ends the
// run are not reported. `progress` may be null.
void tune_here(const TuneSettings& settings, const std::vector<TuneProblem>& problems, Progress* progress,
               const TuneReport& report);

// The same in child processes, one per job and device. Throws RunError when one fails as a whole.
void tune_in_children(const TuneSettings& settings, const TuneReport& report);

}  // namespace polymio::driver
