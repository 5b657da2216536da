// SPDX-License-Identifier: MIT
#include "reference/ctc.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace polymio::reference {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

using Rows = std::vector<std::vector<double>>;

double add_logs(double a, double b) {
  const double most = std::max(a, b);
  return most == kNone ? kNone : most + std::log(std::exp(a - most) + std::exp(b - most));
}

// Logarithms of the classes' probabilities at the steps of sequence n that count.
Rows log_probs(const Ctc& p, const void* probs, std::size_t n) {
  const std::vector<std::int64_t>& strides = p.probs.strides;
  Rows rows;
  for (int t = 0; t < p.input_lengths[n]; ++t) {
    std::vector<double>& row = rows.emplace_back();
    double sum = kNone;
    for (std::int64_t c = 0; c < p.probs.lens[2]; ++c) {
      const std::int64_t at = t * strides[0] + static_cast<std::int64_t>(n) * strides[1] + c * strides[2];
      row.push_back(load(p.probs.type, probs, at));
      sum = add_logs(sum, row.back());
    }
    if (p.softmax)
      for (double& v : row) v -= sum;
  }
  return rows;
}

// Logarithms of the probabilities of all paths to each state at each step, that step's own included.
Rows paths(const Rows& log_probs, const std::vector<int>& states, std::int64_t blank) {
  Rows rows;
  for (const std::vector<double>& at_step : log_probs) {
    std::vector<double> row(states.size(), kNone);
    for (std::size_t s = 0; s < states.size(); ++s) {
      double before = rows.empty() && s <= 1 ? 0 : kNone;
      if (!rows.empty()) {
        const std::vector<double>& last = rows.back();
        before = s > 0 ? add_logs(last[s], last[s - 1]) : last[s];
        if (s > 1 && states[s] != blank && states[s] != states[s - 2]) before = add_logs(before, last[s - 2]);
      }
      row[s] = before + at_step[static_cast<std::size_t>(states[s])];
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

CtcResults evaluate(const Ctc& p, const void* probs) {
  const auto batch = static_cast<std::size_t>(p.probs.lens[1]), classes = static_cast<std::size_t>(p.probs.lens[2]);
  const auto elements = static_cast<std::size_t>(p.probs.count());
  CtcResults all;
  all.gradients.value.assign(elements, 0);
  all.gradients.magnitude.assign(elements, 0);
  std::ptrdiff_t first = 0;
  for (std::size_t n = 0; n < batch; ++n) {
    std::vector<int> states(1, static_cast<int>(p.blank));
    for (const auto end = first + p.label_lengths[n]; first < end; ++first) {
      states.push_back(p.labels[static_cast<std::size_t>(first)]);
      states.push_back(static_cast<int>(p.blank));
    }
    const Rows logs = log_probs(p, probs, n);
    const Rows forward = paths(logs, states, p.blank);
    const Rows reversed_logs(logs.rbegin(), logs.rend());
    const std::vector<int> reversed(states.rbegin(), states.rend());
    const Rows backward = paths(reversed_logs, reversed, p.blank);
    double total = logs.empty() ? 0 : forward.back().back();
    if (!logs.empty() && states.size() > 1) total = add_logs(total, forward.back()[states.size() - 2]);
    const auto steps = static_cast<double>(logs.size());
    all.losses.value.push_back(0 - total);
    all.losses.magnitude.push_back(std::fabs(total) + steps);
    // Every step rounds numbers of the size of a few steps' logarithms.
    const double depth = 8 + 4 * std::fabs(total) / std::max(steps, 1.0);
    for (std::size_t t = 0; t < logs.size() && std::isfinite(total); ++t) {
      double* const value = &all.gradients.value[(t * batch + n) * classes];
      double* const magnitude = &all.gradients.magnitude[(t * batch + n) * classes];
      std::vector<double> shares(classes, 0);
      for (std::size_t s = 0; s < states.size(); ++s) {
        const auto k = static_cast<std::size_t>(states[s]);
        const double both = forward[t][s] + backward[logs.size() - 1 - t][states.size() - 1 - s];
        if (both != kNone) shares[k] += std::exp(both - (p.softmax ? 1 : 2) * logs[t][k] - total);
      }
      for (std::size_t k = 0; k < classes; ++k) {
        const double prob = p.softmax ? std::exp(logs[t][k]) : 0;
        value[k] = prob - shares[k];
        magnitude[k] = (prob + shares[k]) * depth;
      }
    }
  }
  return all;
}

Arithmetic arithmetic(const Ctc& p) {
  Arithmetic how;
  how.output = p.probs.type;
  how.accumulate = Type::kFloat;
  how.reduction_length = p.probs.lens[0] + 8;
  return how;
}

}  // namespace polymio::reference
