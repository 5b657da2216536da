// SPDX-License-Identifier: MIT
#include "primitives/rnn/schedule.h"

#include <algorithm>
#include <numeric>

namespace polymio::rnn {

Schedule::Schedule(const Sequences& sequences) : padded_steps(sequences.steps) {
  const auto given = sequences.lengths.all();
  samples = static_cast<std::int64_t>(given.size());
  order.resize(given.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return given[static_cast<std::size_t>(a)] > given[static_cast<std::size_t>(b)];
  });
  sorted = std::is_sorted(order.begin(), order.end());
  for (const std::int64_t sample : order) lengths.push_back(given[static_cast<std::size_t>(sample)]);
  steps = lengths.empty() ? 0 : lengths.front();
  std::int64_t present = samples;
  for (std::int64_t t = 0; t < steps; ++t) {
    while (lengths[static_cast<std::size_t>(present) - 1] <= t) --present;
    if (active.empty() || active.back() != present) runs.push_back({t, 0, present, rows});
    ++runs.back().count;
    active.push_back(present);
    row.push_back(rows);
    rows += present;
  }
  active.push_back(0);
}

}  // namespace polymio::rnn
