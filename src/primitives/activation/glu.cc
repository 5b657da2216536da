// The gated linear unit; on the CPU a simple pass in double, any strides.
// SPDX-License-Identifier: MIT
#include "base/error.h"
#include "core/aligned_buffer.h"
#include "primitives/activation/scalar.h"
#include "primitives/activation/solvers.h"

namespace polymio::activation {
namespace {

constexpr std::int64_t kPart = 4096;

/// The first half of `t` along `dim`.
TensorDesc half_of(const TensorDesc& t, std::int64_t dim) {
  TensorDesc half = t;
  half.lens[static_cast<std::size_t>(dim)] /= 2;
  return half;
}

std::int64_t second_half(const TensorDesc& t, std::int64_t dim) {
  const auto d = static_cast<std::size_t>(dim);
  return t.lens[d] / 2 * t.strides[d];
}

void check(const TensorDesc& in, const TensorDesc& out, const char* out_name, std::int64_t dim) {
  require(dim >= 0 && dim < in.rank, "dimension {} is not one of the {} of the input", dim, in.rank);
  const std::int64_t size = in.lens[static_cast<std::size_t>(dim)];
  require(size % 2 == 0, "the input has size {} in dimension {}: it must be even", size, dim);
  // A forward activation of one half has the same requirements on types and sizes.
  try {
    validate(forward_problem(Mode::kPassthru, half_of(in, dim), out));
  } catch (const Error& e) {
    fail(e.status, "half of the input and {} (x and y here): {}", out_name, e.what());
  }
}

double load(const TensorDesc& t, const void* data, std::int64_t offset) { return dtype::load(t.type, data, offset); }

}  // namespace

void glu_forward(Stream& stream, const TensorDesc& in, const void* x, const TensorDesc& out, void* y,
                 std::int64_t dim) {
  check(in, out, "the output", dim);
  require(x != y, "the output is written over the input, half of which is still needed");
  const Problem p = forward_problem(Mode::kLogistic, half_of(in, dim), out);
  const Grid grid = grid_of(p);
  const std::int64_t second = second_half(in, dim);
  if (stream.info().kind != DeviceKind::kCpu) {
    // GPU kernels need aligned elements; the CPU pass below does not.
    const AlignedBuffer from(stream.info(), in, x, "the input"), to(stream.info(), out, y, "the output");
    return gate_forward(stream, grid, in.type, from.data(), second, to.data());
  }
  for_parts(stream, grid.count(), kPart, [&](std::int64_t first, std::int64_t end) {
    Cursor at(grid, first);
    for (std::int64_t i = first; i < end; ++i, at.advance(1)) {
      const double a = load(in, x, at.offset(1)), b = load(in, x, at.offset(1) + second);
      dtype::store(out.type, y, at.offset(0), a * value_at(Mode::kLogistic, {}, b));
    }
  });
}

void glu_backward(Stream& stream, const TensorDesc& in, const void* x, const TensorDesc& out_grad, const void* dy,
                  const TensorDesc& in_grad, void* dx, std::int64_t dim) {
  check(in, out_grad, "the output's gradient", dim);
  check(in_grad, out_grad, "the output's gradient", dim);
  validate(forward_problem(Mode::kPassthru, in, in_grad));
  const Problem p = backward_problem(Mode::kLogistic, half_of(in, dim), out_grad, out_grad, half_of(in_grad, dim));
  const Grid grid = grid_of(p);
  const std::int64_t second_in = second_half(in, dim), second_grad = second_half(in_grad, dim);
  if (stream.info().kind != DeviceKind::kCpu) {
    const AlignedBuffer from(stream.info(), in, x, "the input"), grad(stream.info(), out_grad, dy, "outputGrad"),
        to(stream.info(), in_grad, dx, "inputGrad");
    return gate_backward(stream, grid, in.type, from.data(), second_in, grad.data(), to.data(), second_grad);
  }
  for_parts(stream, grid.count(), kPart, [&](std::int64_t first, std::int64_t end) {
    Cursor at(grid, first);
    for (std::int64_t i = first; i < end; ++i, at.advance(1)) {
      const double a = load(in, x, at.offset(1)), b = load(in, x, at.offset(1) + second_in);
      const double grad = load(out_grad, dy, at.offset(2));
      dtype::store(in.type, dx, at.offset(0), grad * value_at(Mode::kLogistic, {}, b));
      dtype::store(in.type, dx, at.offset(0) + second_grad, gradient_at(Mode::kLogistic, {}, b, grad * a));
    }
  });
}

}  // namespace polymio::activation
