// Paths of depthwise convolution other than NHWC in place. Each computes pieces [first, end) of a job.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/depthwise.h"
#include "kernels/cpu/vec.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// NCHW: vectors run along the rows of x and y, which are accessed in place. Types and jobs of the paths below are
/// passed on to them.
void depthwise_nchw(const Depthwise& job, i64 first, i64 end, void* scratch);
std::size_t depthwise_nchw_scratch(const Depthwise& job);

/// fp32 NCHW copies of a few planes at a time: NCHW of int8 and 16-bit types, and NHWC groups that are not aligned.
void depthwise_fp32_copy(const Depthwise& job, i64 first, i64 end, void* scratch);
std::size_t depthwise_fp32_copy_scratch(const Depthwise& job);

/// NHWC copies of some channels of an NCHW job: fp32 jobs with `transposed`, and backward weights of fp32 and fp64
/// where uses_nhwc_copies().
bool uses_nhwc_copies(const Depthwise& job);
void depthwise_via_nhwc(const Depthwise& job, i64 first, i64 end, void* scratch);
std::size_t depthwise_via_nhwc_scratch(const Depthwise& job);

/// NCHW with `few_pixels`.
void depthwise_few_pixels(const Depthwise& job, i64 first, i64 end, void* scratch);
std::size_t depthwise_few_pixels_scratch(const Depthwise& job);

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
