// Group `tensor`, arithmetic.
// SPDX-License-Identifier: MIT
#include "primitives/tensor_ops/tensor_ops.h"

#include <cstring>
#include <iterator>
#include <string>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/common/log_call.h"
#include "capi/common/tensor.h"

using namespace polymio;
using capi::deref;
using capi::described;
using capi::guard;
using capi::not_null;
using capi::scalar;

namespace {

tensor_ops::Input input(miopenTensorDescriptor_t desc, const void* data, const char* name) {
  return {described(desc, name), not_null(data, name)};
}

tensor_ops::Output output(miopenTensorDescriptor_t desc, void* data, const char* name) {
  return {described(desc, name), not_null(data, name)};
}

/// Whether the driver's command has such tensors.
bool is_of_driver(const TensorDesc& t) { return t.vector_length == 1 && !is_fp8(t.type) && t.type != DataType::kInt64; }

std::string scalar_flag(const char* flag, double value, double usual) {
  return value == usual ? "" : fmt::format(" {} {}", flag, value);
}

/// Nothing for tensors that the driver's command does not have.
std::string command_of(const char* op, const TensorDesc& in, const TensorDesc& out, double alpha, double beta) {
  if (!is_of_driver(in) || in.type != out.type) return "";
  return fmt::format("{}{}{}", base_arg("tensorop", in.type, 2), capi::list_flags("-D", in), " -O ") + op +
         strides_unless_dense(out, "--out_strides") + scalar_flag("--alpha1", alpha, 1) +
         scalar_flag("--beta", beta, 0);
}

std::string command_of(tensor_ops::Op op, double alpha1, const TensorDesc& a, double alpha2, const TensorDesc& b,
                       double beta, const TensorDesc& c) {
  constexpr const char* kNames[] = {"add", "mul", "min", "max"};
  const auto number = static_cast<std::size_t>(op);
  if (number >= std::size(kNames) || b.type != c.type) return "";
  const std::string command = command_of(kNames[number], a, c, alpha1, beta);
  if (command.empty()) return "";
  const std::string lengths = b.lens == a.lens ? "" : fmt::format(" --b_lengths {}", fmt::join(b.sizes(), ","));
  return command + lengths + strides_unless_dense(b, "--b_strides") + scalar_flag("--alpha2", alpha2, 1);
}

/// Of an operation on one tensor; `value` is of its type.
void log_call(const char* function, const char* op, const TensorDesc& y, const void* value) {
  capi::log_call(function, [&]() -> std::string {
    if (!is_of_driver(y)) return "";
    return command_of(op, make_tensor(y.type, y.sizes(), {}), y, dtype::load(y.type, value, 0), 0);
  });
}

}  // namespace

miopenStatus_t miopenOpTensor(miopenHandle_t handle, miopenTensorOp_t tensorOp, const void* alpha1,
                              const miopenTensorDescriptor_t aDesc, const void* A, const void* alpha2,
                              const miopenTensorDescriptor_t bDesc, const void* B, const void* beta,
                              const miopenTensorDescriptor_t cDesc, void* C) {
  return guard([&] {
    const auto a = input(aDesc, A, "A"), b = input(bDesc, B, "B");
    const auto c = output(cDesc, C, "C");
    const double scale_a = scalar(alpha1, c.desc.type, "alpha1"), scale_b = scalar(alpha2, c.desc.type, "alpha2");
    const double kept = scalar(beta, c.desc.type, "beta");
    tensor_ops::Op op;  // memcpy: a C caller's value may be outside the enumeration
    std::memcpy(&op, &tensorOp, sizeof op);
    capi::log_call("miopenOpTensor", [&] { return command_of(op, scale_a, a.desc, scale_b, b.desc, kept, c.desc); });
    deref(handle).run([&](Stream& stream) { tensor_ops::op_tensor(stream, op, scale_a, a, scale_b, b, kept, c); });
  });
}

miopenStatus_t miopenSetTensor(miopenHandle_t handle, const miopenTensorDescriptor_t yDesc, void* y,
                               const void* alpha) {
  return guard([&] {
    const auto out = output(yDesc, y, "y");
    not_null(alpha, "alpha");
    log_call("miopenSetTensor", "set", out.desc, alpha);
    deref(handle).run([&](Stream& stream) { tensor_ops::set(stream, out, alpha); });
  });
}

miopenStatus_t miopenScaleTensor(miopenHandle_t handle, const miopenTensorDescriptor_t yDesc, void* y,
                                 const void* alpha) {
  return guard([&] {
    const auto out = output(yDesc, y, "y");
    not_null(alpha, "alpha");
    log_call("miopenScaleTensor", "scale", out.desc, alpha);
    deref(handle).run([&](Stream& stream) { tensor_ops::scale(stream, out, alpha); });
  });
}

miopenStatus_t miopenTransformTensor(miopenHandle_t handle, const void* alpha, const miopenTensorDescriptor_t xDesc,
                                     const void* x, const void* beta, const miopenTensorDescriptor_t yDesc, void* y) {
  return guard([&] {
    const auto in = input(xDesc, x, "x");
    const auto out = output(yDesc, y, "y");
    const double factor = scalar(alpha, out.desc.type, "alpha"), kept = scalar(beta, out.desc.type, "beta");
    capi::log_call("miopenTransformTensor", [&] { return command_of("transform", in.desc, out.desc, factor, kept); });
    deref(handle).run([&](Stream& stream) { tensor_ops::transform(stream, factor, in, kept, out); });
  });
}
