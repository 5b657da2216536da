// Group `tensor`, arithmetic.
// SPDX-License-Identifier: MIT
#include "primitives/tensor_ops/tensor_ops.h"

#include <cstring>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
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
    deref(handle).run([&](Stream& stream) { tensor_ops::op_tensor(stream, op, scale_a, a, scale_b, b, kept, c); });
  });
}

miopenStatus_t miopenSetTensor(miopenHandle_t handle, const miopenTensorDescriptor_t yDesc, void* y,
                               const void* alpha) {
  return guard([&] {
    const auto out = output(yDesc, y, "y");
    not_null(alpha, "alpha");
    deref(handle).run([&](Stream& stream) { tensor_ops::set(stream, out, alpha); });
  });
}

miopenStatus_t miopenScaleTensor(miopenHandle_t handle, const miopenTensorDescriptor_t yDesc, void* y,
                                 const void* alpha) {
  return guard([&] {
    const auto out = output(yDesc, y, "y");
    not_null(alpha, "alpha");
    deref(handle).run([&](Stream& stream) { tensor_ops::scale(stream, out, alpha); });
  });
}

miopenStatus_t miopenTransformTensor(miopenHandle_t handle, const void* alpha, const miopenTensorDescriptor_t xDesc,
                                     const void* x, const void* beta, const miopenTensorDescriptor_t yDesc, void* y) {
  return guard([&] {
    const auto in = input(xDesc, x, "x");
    const auto out = output(yDesc, y, "y");
    const double factor = scalar(alpha, out.desc.type, "alpha"), kept = scalar(beta, out.desc.type, "beta");
    deref(handle).run([&](Stream& stream) { tensor_ops::transform(stream, factor, in, kept, out); });
  });
}
