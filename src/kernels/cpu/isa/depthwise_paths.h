// The kernel of each path of depthwise convolution: computes pieces [first, end) of a job with that path.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/depthwise.h"
#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/micro_kernel.h"
#include "kernels/cpu/vec.h"

namespace polymio::kernels::POLYMIO_SHARED_NAMESPACE {

using i64 = std::int64_t;

void depthwise_nchw(const Depthwise& job, i64 first, i64 end, void* scratch);
std::size_t depthwise_nchw_scratch(const Depthwise& job);

void depthwise_few_pixels(const Depthwise& job, i64 first, i64 end, void* scratch);
std::size_t depthwise_few_pixels_scratch(const Depthwise& job);

/// copy_path kNhwc only.
void depthwise_via_nhwc(const Depthwise& job, i64 first, i64 end, void* scratch);
std::size_t depthwise_via_nhwc_scratch(const Depthwise& job);

void depthwise_via_fp32(const Depthwise& job, i64 first, i64 end, void* scratch);
std::size_t depthwise_via_fp32_scratch(const Depthwise& job);

void depthwise_nhwc(const Depthwise& job, i64 first, i64 end, void* scratch);
std::size_t depthwise_nhwc_scratch(const Depthwise& job);

}  // namespace polymio::kernels::POLYMIO_SHARED_NAMESPACE

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

// Only where kHasBf16Dot.
void depthwise_via_nhwc_dot(const Depthwise& job, i64 first, i64 end, void* scratch);
std::size_t depthwise_via_nhwc_dot_scratch(const Depthwise& job);

void depthwise_tap_pairs(const Depthwise& job, i64 first, i64 end, void* scratch);
std::size_t depthwise_tap_pairs_scratch(const Depthwise& job);

void depthwise_grouped_dot(const Depthwise& job, i64 first, i64 end, void* scratch);
std::size_t depthwise_grouped_dot_scratch(const Depthwise& job);

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
