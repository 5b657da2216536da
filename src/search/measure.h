// The one place that measures times. Candidates are started (built, checked, warmed up), then run in alternation, so
// that drift affects all equally; slow ones are stopped and dropped; a candidate's time is the median of its samples.
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
  /// Start and end of a sample; the end waits for its runs and returns their time.
  virtual void start_sample() { start_us_ = now_us(); }
  virtual double end_sample() { return now_us() - start_us_; }
  /// Whether a sample follows an unmeasured run: a device that works on one does not wait for the host to start more.
  virtual bool leads_in() const { return false; }
  /// Whether the time of a first run bounds that of later ones. It does not where the first run loads code.
  virtual bool first_run_counts() const { return true; }
  /// Shorter runs are repeated within one sample.
  virtual double sample_us() const { return 30; }

 private:
  double start_us_ = 0;
};
Clock& steady_clock();

/// A clock of device events: now_us() waits for all queued work, and the difference of two calls is device time
/// without host overhead.
std::unique_ptr<Clock> device_clock(Stream&);

enum class Run {
  kDone,
  kStopped,  // took longer than allowed
  kOut,      // failed, or its result is wrong
};

/// A candidate to be measured. Each function may stop after about `most_us` and then returns kStopped.
struct Trial {
  std::function<Run(double most_us, double& warm_us)> start;  // build, check, warm up; `warm_us`: time of its run alone
  std::function<Run(double most_us)> run;                     // one run to completion
  double predicted_us = 0;
};

struct Budget {
  double total_us = 250e3;  // no new round starts after this; on GPUs, without `strict`, from the first samples on
  bool strict = false;      // a run starts only if twice its prediction fits the rest, and is stopped at the end
  int rounds = 8;           // most samples per candidate
  /// Another candidate's time: slower candidates are dropped.
  double best_known_us = std::numeric_limits<double>::infinity();
  double sample_us = 0;        // instead of the clock's
  double give_up_ratio = 2.0;  // a candidate is dropped when its fastest sample exceeds the best time by this factor
};

struct Timing {
  enum class State {
    kMeasured,
    kStopped,  // `us` is the time after which it was stopped
    kOut,
    kSkipped,  // did not fit the strict budget, or has no valid sample within it
  };
  State state = State::kSkipped;
  double us = 0;  // the median; when skipped, the rest of the budget at that time
  int samples = 0;
};

/// Measures every candidate. Ends when the slowest sample of the fastest candidate beats all samples of the others
/// (after three rounds), after the last round, or with the budget. Each candidate that was started and neither stopped
/// nor excluded has at least one sample; where a strict budget has no room for one that is the warm-up run, if the
/// clock's first runs count.
std::vector<Timing> measure(Clock&, const std::vector<Trial>& trials, const Budget&);

}  // namespace polymio::search
