// The CTC loss on CPUs: a task per sequence. Forward, each step's row of states is kept; backward, the rows are those
// of the reversed sequence, and each step's posteriors are subtracted from its gradient at once.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/math.h"
#include "kernels/cpu/ctc.h"
#include "kernels/cpu/kernels_of.h"
#include "primitives/ctc/passes.h"

namespace polymio::ctc {
namespace {

using kernels::CtcKernels;
using kernels::CtcRow;
using kernels::kCtcNone;
using kernels::kCtcPadding;

constexpr std::int64_t kAlignment = 64;
constexpr float kNoLog = static_cast<float>(kCtcNone);
constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr int kDead = kCtcNone / 2;  // below: no path reaches the state

std::int64_t padded(std::int64_t count) { return round_up(count, kCtcPadding); }

/// Elements of a row of states, with what is before it.
std::int64_t row_pitch(std::int64_t states) { return kCtcPadding + padded(states); }

/// The row at number `i` of a memory of rows.
CtcRow row_at(void* rows, std::int64_t i, std::int64_t states) {
  const std::int64_t pitch = row_pitch(states);
  int* const whole = static_cast<int*>(rows) + 2 * i * pitch;
  return {whole + kCtcPadding, reinterpret_cast<float*>(whole + pitch) + kCtcPadding};
}

void clear(const CtcRow& row, std::int64_t count) {
  std::fill_n(row.whole - kCtcPadding, kCtcPadding + count, kCtcNone);
  std::fill_n(row.part - kCtcPadding, kCtcPadding + count, 0.0f);
}

/// What is kept of each step of a sequence: its row of states, the logarithm of the sum of its classes' exponentials.
struct Kept {
  void* rows;
  float* log_sums;
};

constexpr std::int64_t kUnit = 4;  // bytes of every element
static_assert(sizeof(int) == kUnit && sizeof(float) == kUnit);

std::size_t kept_bytes(const Problem& p, std::int64_t states) {
  return static_cast<std::size_t>(round_up(p.steps() * (2 * row_pitch(states) + 1) * kUnit, kAlignment));
}

/// The arrays of a task, in its scratch memory.
struct Rows {
  Rows(void* scratch, std::int64_t classes, std::int64_t states) {
    auto* at = static_cast<float*>(scratch);
    const auto take = [&](std::int64_t count) {
      float* const taken = at;
      at += count;
      return taken;
    };
    x = take(padded(classes));
    gradient = take(padded(classes));
    log_probs = take(padded(states));
    posteriors = take(padded(states));
    skip = reinterpret_cast<int*>(take(padded(states)));
    labels = reinterpret_cast<int*>(take(padded(states)));
    for (CtcRow* row : {&state[0], &state[1], &reversed}) *row = row_at(take(2 * row_pitch(states)), 0, states);
  }
  static std::size_t bytes(std::int64_t classes, std::int64_t states) {
    return static_cast<std::size_t>((2 * padded(classes) + 4 * padded(states) + 6 * row_pitch(states)) * kUnit);
  }

  float *x, *gradient, *log_probs, *posteriors;
  int *skip, *labels;  // labels: classes of the states
  CtcRow state[2], reversed;
};

class Sequence {
 public:
  Sequence(const Problem& p, const Args& args, const CtcKernels& kernels, std::int64_t n, std::int64_t count,
           std::int64_t steps, const Kept& kept, const Rows& rows)
      : p_(p), args_(args), kernels_(kernels), n_(n), steps_(steps), states_(2 * count + 1), kept_(kept), rows_(rows) {}

  void run(const int* labels) {
    set_labels(labels, false);
    const double log_likelihood = forward();
    dtype::store(p_.probs.type, args_.losses, n_, 0 - log_likelihood);
    if (!args_.gradients) return;
    set_labels(labels, true);
    backward(log_likelihood);
    std::fill_n(rows_.gradient, padded(p_.classes()), 0.0f);
    for (std::int64_t t = steps_; t < p_.steps(); ++t) write_gradient(t);
  }

 private:
  void set_labels(const int* labels, bool reversed) const {
    const auto blank = static_cast<int>(p_.blank_class());
    std::fill_n(rows_.skip, padded(states_), kCtcNone);
    std::fill_n(rows_.log_probs, padded(states_), kNoLog);
    for (std::int64_t s = 0; s < states_; ++s)
      rows_.labels[s] = s % 2 == 0 ? blank : labels[(reversed ? states_ - 1 - s : s) / 2];
    for (std::int64_t s = 3; s < states_; s += 2)
      if (rows_.labels[s] != blank && rows_.labels[s] != rows_.labels[s - 2]) rows_.skip[s] = 0;
  }

  /// The row before the first step: the path is before the first label.
  void start(const CtcRow& row) const {
    clear(row, padded(states_));
    row.whole[0] = 0;
  }

  void read_step(std::int64_t t) const {
    const TensorDesc& d = p_.probs;
    const std::int64_t classes = p_.classes(), first = t * d.strides[0] + n_ * d.strides[1];
    if (d.type == DataType::kFloat && d.strides[2] == 1) {
      std::copy_n(static_cast<const float*>(args_.probs) + first, classes, rows_.x);
    } else {
      for (std::int64_t c = 0; c < classes; ++c)
        rows_.x[c] = static_cast<float>(dtype::load(d.type, args_.probs, first + c * d.strides[2]));
    }
    std::fill(rows_.x + classes, rows_.x + padded(classes), kNoLog);
  }

  void gather(float log_sum) const {
    const auto log_prob = [&](int label) {
      const float v = rows_.x[label] - log_sum;
      return v < kNoLog ? kNoLog : v > -kNoLog ? -kNoLog : v;  // NaN stays
    };
    const float blank = log_prob(rows_.labels[0]);
    for (std::int64_t s = 0; s < states_; s += 2) rows_.log_probs[s] = blank;
    for (std::int64_t s = 1; s < states_; s += 2) rows_.log_probs[s] = log_prob(rows_.labels[s]);
  }

  void advance(const CtcRow& previous, const CtcRow& next) const {
    kernels_.step({previous, next, rows_.skip, rows_.log_probs, padded(states_)});
  }
  CtcRow kept_row(std::int64_t t) const { return row_at(kept_.rows, t, states_); }

  /// The logarithm of the probability of all paths.
  double forward() const {
    start(rows_.state[0]);
    CtcRow previous = rows_.state[0];
    for (std::int64_t t = 0; t < steps_; ++t) {
      read_step(t);
      float log_sum = 0;
      if (p_.softmax) {
        const kernels::CtcSum sum = kernels_.sum(rows_.x, padded(p_.classes()));
        log_sum = static_cast<float>(static_cast<double>(sum.largest) + std::log(static_cast<double>(sum.sum)));
      }
      gather(log_sum);
      kept_.log_sums[t] = log_sum;
      const CtcRow row = kept_row(t);
      clear(row, 0);
      advance(previous, row);
      previous = row;
    }
    const auto at = [&](std::int64_t s) {
      const bool is_dead = previous.whole[s] < kDead && !std::isnan(previous.part[s]);
      return is_dead ? kNothing : static_cast<double>(previous.whole[s]) + static_cast<double>(previous.part[s]);
    };
    const double last = at(states_ - 1), before = states_ > 1 ? at(states_ - 2) : kNothing;
    if (std::isnan(last + before)) return std::numeric_limits<double>::quiet_NaN();
    const double most = std::max(last, before);
    return most == kNothing ? most : most + std::log1p(std::exp(std::min(last, before) - most));
  }

  void backward(double log_likelihood) const {
    start(rows_.state[0]);
    clear(rows_.state[1], padded(states_));
    const bool has_paths = !std::isinf(log_likelihood);
    for (std::int64_t t = steps_; t-- > 0;) {
      read_step(t);
      gather(kept_.log_sums[t]);
      const CtcRow row = rows_.state[(steps_ - t) % 2];
      advance(rows_.state[(steps_ - t - 1) % 2], row);
      if (p_.softmax)
        kernels_.exponentials(rows_.x, padded(p_.classes()), kept_.log_sums[t], rows_.gradient);
      else
        std::fill_n(rows_.gradient, padded(p_.classes()), 0.0f);
      if (has_paths) subtract_posteriors(t, row, log_likelihood);
      write_gradient(t);
    }
  }

  /// The shares of paths that are in each state at step t, from those before and those after it.
  void subtract_posteriors(std::int64_t t, const CtcRow& row, double log_likelihood) const {
    const CtcRow forward = kept_row(t), &reversed = rows_.reversed;
    std::reverse_copy(forward.whole, forward.whole + states_, reversed.whole);
    std::reverse_copy(forward.part, forward.part + states_, reversed.part);
    std::fill(reversed.whole + states_, reversed.whole + padded(states_), kCtcNone);
    std::fill(reversed.part + states_, reversed.part + padded(states_), 0.0f);
    const int whole = std::isnan(log_likelihood) ? 0 : static_cast<int>(log_likelihood);
    const auto part = static_cast<float>(log_likelihood - whole);
    kernels_.posteriors(
        {reversed, row, rows_.log_probs, rows_.posteriors, padded(states_), p_.softmax ? 1.0f : 2.0f, whole, part});
    float blanks = 0;
    for (std::int64_t s = 0; s < states_; s += 2) blanks += rows_.posteriors[s];
    rows_.gradient[rows_.labels[0]] -= blanks;
    for (std::int64_t s = 1; s < states_; s += 2) rows_.gradient[rows_.labels[s]] -= rows_.posteriors[s];
  }

  void write_gradient(std::int64_t t) const {
    const TensorDesc& d = p_.gradients;
    const std::int64_t first = t * d.strides[0] + n_ * d.strides[1];
    if (d.type == DataType::kFloat && d.strides[2] == 1) {
      std::copy_n(rows_.gradient, p_.classes(), static_cast<float*>(args_.gradients) + first);
      return;
    }
    for (std::int64_t c = 0; c < p_.classes(); ++c)
      dtype::store(d.type, args_.gradients, first + c * d.strides[2], static_cast<double>(rows_.gradient[c]));
  }

  const Problem& p_;
  const Args& args_;
  const CtcKernels& kernels_;
  const std::int64_t n_, steps_, states_;
  const Kept& kept_;
  const Rows& rows_;
};

}  // namespace

std::size_t cpu_workspace_size(const Problem& p, const Extent& e) {
  return static_cast<std::size_t>(p.batch()) * kept_bytes(p, e.most_states()) + kAlignment;
}

void run_on_cpu(Stream& stream, const Problem& p, const Sequences& sequences, const Args& args) {
  const std::int64_t states = extent_of(p, sequences).most_states();
  const auto& kernels = kernels::kernels_of<CtcKernels>(stream.info().isa);
  const std::size_t bytes = kept_bytes(p, states);
  char* const kept = reinterpret_cast<char*>(round_up(reinterpret_cast<std::intptr_t>(args.workspace), kAlignment));
  const auto batch = static_cast<std::size_t>(p.batch());
  stream.parallel_for(batch, Rows::bytes(p.classes(), states), [&](std::size_t n, void* scratch) {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < n; ++i) first += sequences.label_lengths[i];
    auto* const rows = reinterpret_cast<float*>(kept + n * bytes);
    const Kept own{rows, rows + 2 * p.steps() * row_pitch(states)};
    const Rows arrays(scratch, p.classes(), states);
    Sequence sequence(p, args, kernels, static_cast<std::int64_t>(n), sequences.label_lengths[n],
                      sequences.input_lengths[n], own, arrays);
    sequence.run(sequences.labels + first);
  });
}

}  // namespace polymio::ctc
