// A small random convolution for one call of the API fuzzer, with its data and its reference.
// SPDX-License-Identifier: MIT
#pragma once
#include "capi/api.h"
#include "fuzz/api.h"
#include "reference/convolution.h"

namespace polymio::fuzz {

using test::Direction;

/// Sizes, types and strides, and what the descriptor holds.
struct ConvolutionShape {
  ConvolutionShape(Random&, Direction);
  ConvolutionModel conv;
  TensorModel x, w, y;
  bool stochastic = false;
};

/// Its objects, data and calls. Inputs are small integers, so that only transforms round.
struct ConvolutionCase {
  ConvolutionCase(World&, Direction, const ConvolutionShape&);
  ConvolutionCase(World& w, Direction d) : ConvolutionCase(w, d, ConvolutionShape(w.random, d)) {}
  ConvolutionCase(const ConvolutionCase&) = delete;
  ConvolutionCase& operator=(const ConvolutionCase&) = delete;
  ~ConvolutionCase();

  Operand& output() { return direction == Direction::kForward ? y : direction == Direction::kBackwardData ? x : w; }
  /// Sets alpha and beta, and the output's contents before the call.
  void set_scalars(double alpha, double beta);
  std::vector<miopenConvSolution_t> solutions();
  /// Compares the output with the reference.
  void expect_right(const std::string& what);
  /// Makes some arguments of the call wrong.
  void spoil(Draw& d, bool buffers, bool scalars);

  World& world;
  Direction direction;
  ConvolutionShape shape;
  Operand x, w, y;
  Operand misfit;  // an output that does not match x and w
  miopenConvolutionDescriptor_t conv = nullptr;
  double alpha = 1, beta = 0;
  Scalar alpha_value, beta_value;
  std::vector<unsigned char> before;
  test::Call call;
};

/// A workspace of `bytes`; null for 0.
struct Workspace {
  Workspace(World& w, std::size_t bytes) : buffer(w, bytes, 64), bytes(bytes) {}
  void* data() { return bytes ? buffer.data() : nullptr; }
  Buffer buffer;
  std::size_t bytes;
};

}  // namespace polymio::fuzz
