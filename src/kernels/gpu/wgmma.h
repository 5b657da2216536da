// The matrix product of a warpgroup on NVIDIA's sm90, as text for a program.
// SPDX-License-Identifier: MIT
#pragma once
#include <string>

namespace polymio::kernels {

/// d (64 x columns) = a (64 x depth) * b (depth x columns) + d, or without d: multiply(float (&d)[columns / 2], a, b,
/// accumulate) with descriptors of operands in shared memory. `type` is "f16" or "bf16", of depth 16, or "tf32", of
/// depth 8; a transposed operand (not of TF32) is contiguous along rows of a or columns of b, others along the depth.
/// `columns` is a multiple of 8, at most 256.
std::string wgmma(int columns, const char* type, bool transpose_a, bool transpose_b);

/// The same with a, 64 x 16, in registers, of "f16" or "bf16": multiply(float (&d)[columns / 2], const unsigned
/// (&a)[4], b, accumulate). b is contiguous along columns.
std::string wgmma_of_registers(int columns, const char* type);

/// The same of operands of 8 bits, of depth 32, none transposed: "e4m3" or "e5m2" each with sums of fp32, or both "s8"
/// with sums of int (int (&d)[columns / 2]), `columns` a multiple of 16.
std::string wgmma_of_bytes(int columns, const char* type_a, const char* type_b);

}  // namespace polymio::kernels
