// Channels first by way of transposed copies, of float and double.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/depthwise_via_nhwc.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

constexpr i64 kMostBytes = 40 << 10, kGroupBytes = 1 << 20;  // of x and y, of a vector of channels

}  // namespace

bool transposes(const Depthwise& job) {
  const ConvShape& s = job.shape;
  const i64 lanes = s.dtype == DataType::kDouble ? kLanes<double> : kLanes<float>;
  const i64 bytes = (s.in[0] * s.in[1] * s.in[2] + s.out[0] * s.out[1] * s.out[2]) * kVectorBytes;
  if (job.direction != ConvDirection::kBackwardWeights || !job.aligned() || s.groups * s.c < lanes ||
      !job.has_packed_planes()) {
    return false;
  }
  if (s.c > 1) return s.c <= lanes && bytes <= kGroupBytes;
  return 2 * s.out[2] <= lanes && bytes <= kMostBytes;
}

void depthwise_transposed(const Depthwise& job, i64 first, i64 end, void* scratch) {
  if (job.transposed) return Transposed<float>(job, scratch).data(first, end);
  if (job.shape.dtype == DataType::kDouble) return Transposed<double>(job, scratch).weights(first, end);
  Transposed<float>(job, scratch).weights(first, end);
}

std::size_t depthwise_transposed_scratch(const Depthwise& job) {
  return job.shape.dtype == DataType::kDouble ? Transposed<double>(job, nullptr).bytes()
                                              : Transposed<float>(job, nullptr).bytes();
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
