// Recurrent networks by definition, in double, one sample after the other; gradients by the chain rule, step by step.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include "reference/convolution.h"
#include "reference/tensor.h"
#include "reference/tolerance.h"

namespace polymio::reference {

using Doubles = std::vector<double>;

struct Rnn {
  enum class Cell { kRelu, kTanh, kLstm, kGru } cell = Cell::kTanh;
  bool skips_input = false;  // x is added to every gate of the first layer
  bool bidirectional = false;
  bool has_bias = false;
  bool bias_of_first = true;  // whether the first step of a sequence has a recurrent bias
  std::int64_t layers = 1, hidden = 1, input = 1;
  std::int64_t steps = 1;             // of the padded tensors
  std::vector<std::int64_t> lengths;  // of each sample
  // Between layers, for each but the last: 1 where an element is kept, in the order of packed rows, samples by
  // descending length; empty: no dropout.
  std::vector<std::vector<unsigned char>> masks{};
  double kept_scale = 1;  // 1 / (1 - rate)

  std::int64_t gates() const { return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1; }
  std::int64_t directions() const { return bidirectional ? 2 : 1; }
  std::int64_t width() const { return directions() * hidden; }
  std::int64_t samples() const { return static_cast<std::int64_t>(lengths.size()); }
  std::int64_t columns(std::int64_t layer) const { return layer > 0 ? width() : skips_input ? 0 : input; }
  // Where a gate's matrix or bias begins in the weights. Per layer: input matrices of all directions and gates,
  // recurrent matrices; behind all matrices, per layer: input biases, recurrent biases.
  std::int64_t matrix(std::int64_t layer, std::int64_t direction, std::int64_t gate, bool recurrent) const;
  std::int64_t bias(std::int64_t layer, std::int64_t direction, std::int64_t gate, bool recurrent) const;
  std::int64_t weights() const;
};

// x [steps, samples, input], y and dy [steps, samples, width], states [layers * directions, samples, hidden]. Empty
// states and gradients are 0; without dy only the forward pass is computed. Results of padding are 0.
struct RnnInputs {
  Doubles x, w, hx, cx, dy, dhy, dcy;
};
struct RnnResults {
  Doubles y, hy, cy, dx, dhx, dcx, dw;
};
RnnResults evaluate(const Rnn& network, const RnnInputs& inputs);

// Order of a sequence tensor; the numbers are those of miopenRNNBaseLayout_t. Packed: step by step the samples that are
// long enough; their lengths must not ascend.
enum class RnnOrder { kPacked = 1, kTimeMajor = 2, kBatchMajor = 3 };
// The sequence tensor of x or y, [rows, width].
Tensor rnn_tensor(const Rnn& network, RnnOrder order, Type type, std::int64_t width);
Doubles from_sequence(const Rnn& network, RnnOrder order, const Tensor& tensor, const void* data);
// The elements of such a tensor, or of a state or the weights, as compare() takes them; errors scale with the largest.
Result to_sequence(const Rnn& network, RnnOrder order, const Tensor& tensor, const Doubles& values);
Result to_result(const Doubles& values);
// What an implementation that keeps states and gates in this type rounds: a bound of the rounding error of all steps is
// useless, errors of independent steps mostly cancel.
Arithmetic arithmetic(const Rnn& network, Type type);

}  // namespace polymio::reference
