// NCHW through NHWC copies: fp32 and fp64.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/depthwise_via_nhwc.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
void depthwise_via_nhwc(const Depthwise& job, i64 first, i64 end, void* scratch) {
  if (job.direction != ConvDirection::kBackwardWeights) return NhwcCopy<float>(job, scratch).data(first, end);
  if (job.shape.dtype == DataType::kDouble) return NhwcCopy<double>(job, scratch).weights(first, end);
  NhwcCopy<float>(job, scratch).weights(first, end);
}

std::size_t depthwise_via_nhwc_scratch(const Depthwise& job) {
  return job.shape.dtype == DataType::kDouble ? NhwcCopy<double>(job, nullptr).bytes()
                                              : NhwcCopy<float>(job, nullptr).bytes();
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
