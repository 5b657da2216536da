// Depthwise convolution with channels first: vectors run along the rows of x and y, which are used where they lie.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/depthwise.h"
#include "kernels/cpu/vec.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

void depthwise_rows(const Depthwise& job, i64 first, i64 end, void* scratch);
std::size_t depthwise_rows_scratch(const Depthwise& job);

/// The same for 16-bit types, and groups with channels last of these and float, by way of float copies of a few planes
/// at a time.
void depthwise_copied(const Depthwise& job, i64 first, i64 end, void* scratch);
std::size_t depthwise_copied_scratch(const Depthwise& job);

/// The same by way of transposed copies of some channels: of float jobs that are turned, and of backward weights of
/// float and double where that is faster.
bool transposes(const Depthwise& job);
void depthwise_transposed(const Depthwise& job, i64 first, i64 end, void* scratch);
std::size_t depthwise_transposed_scratch(const Depthwise& job);

/// The same of jobs with few pixels.
void depthwise_pixels(const Depthwise& job, i64 first, i64 end, void* scratch);
std::size_t depthwise_pixels_scratch(const Depthwise& job);

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
