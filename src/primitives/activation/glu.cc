// The gated linear unit, any strides.
// SPDX-License-Identifier: MIT
#include "base/error.h"
#include "core/aligned_buffer.h"
#include "kernels/cpu/activation.h"
#include "kernels/cpu/kernels_of.h"
#include "primitives/activation/solvers.h"

namespace polymio::activation {
namespace {

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

/// Elements `offset` of an operand after `data`.
const void* after(const void* data, DataType type, std::int64_t offset) {
  return static_cast<const char*>(data) + offset * static_cast<std::int64_t>(size_of(type));
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

/// On the CPU; operands: outputs first, then inputs.
void run_gate(Stream& stream, std::span<const TensorDesc* const> tensors, common::Operands operands, bool backward) {
  const auto& table = kernels::kernels_of<kernels::ActivationKernels>(stream.info().isa);
  const DataType type = tensors[0]->type;
  common::map(stream, Tiles(simplified_loop(tensors)), operands,
              [&](const kernels::Run& run) { table.glu(type, backward, run); });
}

}  // namespace

void glu_forward(Stream& stream, const TensorDesc& in, const void* x, const TensorDesc& out, void* y,
                 std::int64_t dim) {
  check(in, out, "the output", dim);
  require(x != y, "the output is written over the input, half of which is still needed");
  const TensorDesc half = half_of(in, dim);
  const std::int64_t second = second_half(in, dim);
  const AlignedBuffer from(stream.info(), in, x, "the input"), to(stream.info(), out, y, "the output");
  if (stream.info().kind != DeviceKind::kCpu) {
    const Loop loop = loop_of(forward_problem(Mode::kLogistic, half, out));
    return gate_forward(stream, loop, in.type, from.data(), second, to.data());
  }
  const TensorDesc* const tensors[] = {&out, &half, &half};
  common::Operands operands;
  const std::size_t size = size_of(in.type);
  operands.push(to.data(), size);
  operands.push(from.data(), size);
  operands.push(after(from.data(), in.type, second), size);
  run_gate(stream, tensors, operands, false);
  to.write_back();
}

void glu_backward(Stream& stream, const TensorDesc& in, const void* x, const TensorDesc& out_grad, const void* dy,
                  const TensorDesc& in_grad, void* dx, std::int64_t dim) {
  check(in, out_grad, "the output's gradient", dim);
  check(in_grad, out_grad, "the output's gradient", dim);
  validate(forward_problem(Mode::kPassthru, in, in_grad));
  const TensorDesc half = half_of(in, dim), half_grad = half_of(in_grad, dim);
  const std::int64_t second_in = second_half(in, dim), second_grad = second_half(in_grad, dim);
  const AlignedBuffer from(stream.info(), in, x, "the input"), grad(stream.info(), out_grad, dy, "outputGrad"),
      to(stream.info(), in_grad, dx, "inputGrad");
  if (stream.info().kind != DeviceKind::kCpu) {
    const Loop loop = loop_of(backward_problem(Mode::kLogistic, half, out_grad, out_grad, half_grad));
    return gate_backward(stream, loop, in.type, from.data(), second_in, grad.data(), to.data(), second_grad);
  }
  const TensorDesc* const tensors[] = {&half_grad, &half_grad, &half, &half, &out_grad};
  common::Operands operands;
  operands.outputs = 2;
  const std::size_t size = size_of(in.type);
  operands.push(to.data(), size);
  operands.push(after(to.data(), in.type, second_grad), size);
  operands.push(from.data(), size);
  operands.push(after(from.data(), in.type, second_in), size);
  operands.push(grad.data(), size);
  run_gate(stream, tensors, operands, true);
  to.write_back();
}

}  // namespace polymio::activation
