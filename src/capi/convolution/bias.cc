// Convolutions: bias and its gradient.
// SPDX-License-Identifier: MIT
#include <miopen/convolution.h>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/common/log_call.h"
#include "capi/common/tensor.h"
#include "primitives/tensor_ops/tensor_ops.h"

using namespace polymio;
using capi::deref;
using capi::described;
using capi::guard;
using capi::not_null;
using capi::scalar;

namespace {

/// The driver adds dense biases of floating-point types, with alpha 1 and beta 0 only.
void log_call(const char* function, int direction, double alpha, const TensorDesc& bias, double beta,
              const TensorDesc& y) {
  capi::log_call(function, [&]() -> std::string {
    const bool repeats = alpha == 1 && beta == 0 && bias.is_channels_first() && !is_integer(y.type) && y.rank > 2;
    if (!repeats) return "";
    return base_arg("bias", y.type, y.rank - 2) + size_flags(y) + layout_flags(y, "-I", "--in_strides") +
           fmt::format(" -F {}", direction);
  });
}

}  // namespace

miopenStatus_t miopenConvolutionForwardBias(miopenHandle_t handle, const void* alpha,
                                            const miopenTensorDescriptor_t bDesc, const void* b, const void* beta,
                                            const miopenTensorDescriptor_t yDesc, void* y) {
  return guard([&] {
    const tensor_ops::Input bias{described(bDesc, "b"), not_null(b, "b")};
    const tensor_ops::Output out{described(yDesc, "y"), not_null(y, "y")};
    const double factor = scalar(alpha, out.desc.type, "alpha"), kept = scalar(beta, out.desc.type, "beta");
    log_call("miopenConvolutionForwardBias", 1, factor, bias.desc, kept, out.desc);
    deref(handle).run([&](Stream& stream) { tensor_ops::bias_forward(stream, factor, bias, kept, out); });
  });
}

miopenStatus_t miopenConvolutionBackwardBias(miopenHandle_t handle, const void* alpha,
                                             const miopenTensorDescriptor_t dyDesc, const void* dy, const void* beta,
                                             const miopenTensorDescriptor_t dbDesc, void* db) {
  return guard([&] {
    const tensor_ops::Input in{described(dyDesc, "dy"), not_null(dy, "dy")};
    const tensor_ops::Output out{described(dbDesc, "db"), not_null(db, "db")};
    const double factor = scalar(alpha, out.desc.type, "alpha"), kept = scalar(beta, out.desc.type, "beta");
    log_call("miopenConvolutionBackwardBias", 2, factor, out.desc, kept, in.desc);
    deref(handle).run([&](Stream& stream) { tensor_ops::bias_backward(stream, factor, in, kept, out); });
  });
}
