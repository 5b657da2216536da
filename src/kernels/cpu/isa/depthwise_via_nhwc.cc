// NCHW through NHWC copies: fp32 and fp64.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/depthwise_via_nhwc.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

// The most bytes of x and y per vector of channels: depthwise, groups.
constexpr i64 kDepthwiseBytes = 40 << 10, kGroupBytes = 1 << 20;

}  // namespace

bool uses_nhwc_copies(const Depthwise& job) {
  const ConvShape& s = job.shape;
  const i64 lanes = s.dtype == DataType::kDouble ? kLanes<double> : kLanes<float>;
  const i64 bytes = (s.in[0] * s.in[1] * s.in[2] + s.out[0] * s.out[1] * s.out[2]) * kVectorBytes;
  if (job.direction != ConvDirection::kBackwardWeights || !job.aligned() || s.groups * s.c < lanes ||
      !job.has_packed_planes()) {
    return false;
  }
  if (s.c > 1) return s.c <= lanes && bytes <= kGroupBytes;
  return 2 * s.out[2] <= lanes && bytes <= kDepthwiseBytes;
}

void depthwise_via_nhwc(const Depthwise& job, i64 first, i64 end, void* scratch) {
  if (job.transposed) return NhwcCopy<float>(job, scratch).data(first, end);
  if (job.shape.dtype == DataType::kDouble) return NhwcCopy<double>(job, scratch).weights(first, end);
  NhwcCopy<float>(job, scratch).weights(first, end);
}

std::size_t depthwise_via_nhwc_scratch(const Depthwise& job) {
  return job.shape.dtype == DataType::kDouble ? NhwcCopy<double>(job, nullptr).bytes()
                                              : NhwcCopy<float>(job, nullptr).bytes();
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
