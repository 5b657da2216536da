// The internal form of sequences: samples sorted by descending length, packed step by step.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "primitives/rnn/rnn.h"

namespace polymio::rnn {

/// Steps with equally many samples.
struct StepRun {
  std::int64_t first = 0, count = 0;  // steps
  std::int64_t samples = 0, row = 0;  // the row of the first step
};

struct Schedule {
  explicit Schedule(const Sequences&);

  std::int64_t samples = 0;           // all, those of length 0 included
  std::int64_t steps = 0, rows = 0;   // of the longest sample; of the packed form
  std::int64_t padded_steps = 0;      // of the padded tensors
  std::vector<std::int64_t> order;    // the caller's number of each sample
  std::vector<std::int64_t> lengths;  // descending
  std::vector<std::int64_t> active;   // samples of each step, then 0
  std::vector<std::int64_t> row;      // the first row of each step
  std::vector<StepRun> runs;
  bool sorted = true;  // the caller's order is the internal one

  bool full() const { return sorted && rows == samples * padded_steps; }
  /// Whether a tensor in this order is the packed form.
  bool is_packed(Order order_of_tensor) const {
    return order_of_tensor == Order::kPacked ||
           (full() && (order_of_tensor == Order::kTimeMajor || samples == 1 || padded_steps == 1));
  }

  // In processing order, `s` from 0: forward in time, or backward in the second direction.
  std::int64_t step(std::int64_t direction, std::int64_t s) const { return direction == 0 ? s : steps - 1 - s; }
  /// Samples of step t that were in the step before; the others begin here.
  std::int64_t begun(std::int64_t direction, std::int64_t t) const {
    if (direction != 0) return active[static_cast<std::size_t>(t) + 1];
    return t == 0 ? 0 : active[static_cast<std::size_t>(t)];
  }
  /// Samples of step t that are in the step after; the others end here.
  std::int64_t continued(std::int64_t direction, std::int64_t t) const { return begun(1 - direction, t); }
};

}  // namespace polymio::rnn
