// Depthwise and grouped convolution: the kernel of a job's path.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/depthwise_paths.h"
#include "kernels/cpu/isa/entry_points.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

struct DepthwiseKernel {
  void (*run)(const Depthwise& job, i64 first, i64 end, void* scratch);
  std::size_t (*scratch)(const Depthwise& job);
};

DepthwiseKernel kernel_of(const Depthwise& job) {
  switch (job.path) {
    case DepthwisePath::kNchw: return {depthwise_nchw, depthwise_nchw_scratch};
    case DepthwisePath::kNchwFewPixels: return {depthwise_few_pixels, depthwise_few_pixels_scratch};
    case DepthwisePath::kViaNhwc:
      if (job.copy_path == DepthwisePath::kNhwc) return {depthwise_via_nhwc, depthwise_via_nhwc_scratch};
      if constexpr (kHasBf16Dot) return {depthwise_via_nhwc_dot, depthwise_via_nhwc_dot_scratch};
      break;
    case DepthwisePath::kViaFp32: return {depthwise_via_fp32, depthwise_via_fp32_scratch};
    case DepthwisePath::kNhwc: return {depthwise_nhwc, depthwise_nhwc_scratch};
    case DepthwisePath::kNhwcTapPairs:
      if constexpr (kHasBf16Dot) return {depthwise_tap_pairs, depthwise_tap_pairs_scratch};
      break;
    case DepthwisePath::kNhwcGroupedDot:
      if constexpr (kHasBf16Dot) return {depthwise_grouped_dot, depthwise_grouped_dot_scratch};
      break;
  }
  __builtin_unreachable();  // plans have dot products only where the instruction set has them
}

}  // namespace

void depthwise(const Depthwise& job, i64 first, i64 end, void* scratch) {
  kernel_of(job).run(job, first, end, scratch);
}

std::size_t depthwise_scratch(const Depthwise& job) { return kernel_of(job).scratch(job); }

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
