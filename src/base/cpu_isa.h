// Instruction sets that the CPU kernels are compiled for, weakest first.
// SPDX-License-Identifier: MIT
#pragma once

namespace polymio {

/// kGeneric is the baseline of the build (x86-64: SSE2); kAvx2 adds AVX2, FMA and F16C; kAvx512 adds AVX-512 F, BW, DQ
/// and VL; kAvx512Bf16 adds AVX-512 BF16 and VNNI, kAvx512Amx the tiles of AMX for bf16 and int8.
enum class CpuIsa : int { kGeneric = 0, kAvx2 = 1, kAvx512 = 2, kAvx512Bf16 = 3, kAvx512Amx = 4 };

}  // namespace polymio
