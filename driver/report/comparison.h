// Two runs problem by problem.
// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "driver/report/run.h"

namespace polymio::driver {

// A problem that ran in both. `a` and `b` are the fastest of a problem that ran with several solvers.
struct Pair {
  const Measurement* a;
  const Measurement* b;

  double ratio() const { return b->result.ms / a->result.ms; }
  // Milliseconds that b loses over the occurrences that a has; negative if it gains.
  double lost_ms() const { return (b->result.ms - a->result.ms) * static_cast<double>(a->count); }
};

struct Comparison {
  std::vector<Pair> both;  // most lost time first
  std::vector<const Measurement*> only_a,
      only_b;                    // in the order of the runs; a problem that failed on one side is here
  std::size_t other_counts = 0;  // of `both`: how many problems occur more often in one run

  // Milliseconds over both, with the counts of a, by the directions given.
  double ms_a(int directions = kAllDirections) const;
  double ms_b(int directions = kAllDirections) const;
};

// The runs must outlive the result.
Comparison compare(const Run& a, const Run& b);

// "12 problems in both, 1 only in A, 0 only in B; A 10.0 ms, B 12.0 ms: B takes 1.200 times as long".
std::string summary_of(const Comparison& comparison);

}  // namespace polymio::driver
