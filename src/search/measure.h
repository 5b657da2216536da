// The one stopwatch. Contestants are started (built, checked, warmed up), then run in turn, so that drift
// hits all alike; losers are stopped and leave; the median of what was seen counts.
// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "runtime/device.h"

namespace polymio::search {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual double now_us() = 0;
  /// Whether the time of a first run bounds that of later ones; it does not where the run waits for code to be loaded.
  virtual bool first_run_counts() const { return true; }
};
Clock& steady_clock();

/// Tells when the device has done all that is queued now, by its own clock: what is queued between two looks is
/// timed without the host.
std::unique_ptr<Clock> device_clock(Stream&);

enum class Run {
  kDone,
  kStopped,  // took longer than it was allowed
  kOut,      // cannot take part
};

/// Each call may stop after about `most_us` and say so.
struct Trial {
  std::function<Run(double most_us, double& warm_us)> start;  // once, before all else; `warm_us`: of its run alone
  std::function<Run(double most_us)> run;                     // once to completion
  double predicted_us = 0;
};

struct Budget {
  double total_us = 250e3;  // no new round starts after this
  bool strict = false;      // nothing starts unless twice its prediction fits what is left, nor runs beyond
  int rounds = 8;           // at most
  double rival_us = std::numeric_limits<double>::infinity();  // a time that is known: who is slower leaves
  double sample_us = 30;                                      // shorter runs are repeated inside one sample
  double give_up_ratio = 2.0;  // a contestant leaves when its fastest sample is this much over the best
};

struct Timing {
  enum class State {
    kMeasured,
    kStopped,  // a loser: `us` is the time after which it was stopped
    kOut,
    kSkipped,  // did not fit the strict budget, or had no run that counts in it
  };
  State state = State::kSkipped;
  double us = 0;  // the median; what was left of the budget when skipped
  int samples = 0;
};

/// Times every contestant. Stops when the fastest one's slowest sample beats everybody's fastest (after
/// three rounds), when the rounds are done or the budget ends. Each contestant that was started and is
/// neither stopped nor out has at least one sample: where a strict budget has no room for another, its warm-up, or none
/// if first runs do not count.
std::vector<Timing> measure(Clock&, const std::vector<Trial>& trials, const Budget&);

}  // namespace polymio::search
