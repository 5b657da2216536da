// A recurrent network and its weights: which elements of the parameter buffer are which matrix or bias.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "base/dtype.h"

namespace polymio::rnn {

/// Numbers equal miopenRNNMode_t.
enum class Mode : int { kRelu = 0, kTanh = 1, kLstm = 2, kGru = 3 };
inline constexpr int kModes = 4;

/// A matrix of `rows` x `columns`, rows contiguous, or a bias of `rows` elements.
struct Part {
  std::int64_t offset = 0;  // in elements of the parameter buffer
  std::int64_t rows = 0, columns = 1;
  std::int64_t count() const { return rows * columns; }
};

/// Gates in the order of MIOpen: LSTM input, forget, output, cell; GRU update, reset, new.
struct Network {
  Mode mode = Mode::kTanh;
  DataType type = DataType::kFloat;
  bool skips_input = false;  // x is added to every gate of the first layer, without a matrix
  bool bidirectional = false, has_bias = false;
  std::int64_t layers = 1, hidden = 1, input = 1;

  bool operator==(const Network&) const = default;
  std::uint64_t hash(std::uint64_t seed) const;

  std::int64_t gates() const { return mode == Mode::kLstm ? 4 : mode == Mode::kGru ? 3 : 1; }
  std::int64_t directions() const { return bidirectional ? 2 : 1; }
  std::int64_t width() const { return directions() * hidden; }                // of y
  std::int64_t all_gates() const { return directions() * gates() * hidden; }  // columns of all gates of a layer
  /// Columns of a layer's input matrices; 0 if it has none.
  std::int64_t columns(std::int64_t layer) const { return layer > 0 ? width() : skips_input ? 0 : input; }

  /// Matrix `id` of a layer in a direction: input matrices of the gates, then the recurrent ones. Within a layer the
  /// input matrices of both directions are contiguous.
  Part matrix(std::int64_t layer, std::int64_t direction, std::int64_t id) const;
  /// Bias `id` in the same order; the input biases of both directions are contiguous.
  Part bias(std::int64_t layer, std::int64_t direction, std::int64_t id) const;
  std::int64_t matrix_elements() const;
  std::int64_t elements() const;
};

}  // namespace polymio::rnn
