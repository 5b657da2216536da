// The one stopwatch. Contestants are warmed up, then run in turn, so that drift hits all alike; losers
// leave early; the median of what was seen counts.
// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <vector>

namespace polymio::search {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual double now_us() = 0;
};
Clock& steady_clock();

struct Budget {
  double total_us = 250e3;     // no new round starts after this
  int rounds = 8;              // at most
  double sample_us = 30;       // shorter runs are repeated inside one sample
  double give_up_ratio = 2.0;  // a contestant leaves when its fastest sample is this much over the best
};

struct Timing {
  double median_us = 0;
  int samples = 0;
};

/// Times every contestant (each call runs it once to completion). Stops when the fastest one's slowest
/// sample beats everybody's fastest (after three rounds), when the rounds are done or the budget ends.
/// Each contestant has at least one sample; a warm-up longer than half the budget is its sample.
std::vector<Timing> measure(Clock&, const std::vector<std::function<void()>>& contestants, const Budget&);

}  // namespace polymio::search
