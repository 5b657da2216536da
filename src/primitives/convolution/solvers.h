// The solver objects listed in solvers.cc. One class serves all three directions.
// SPDX-License-Identifier: MIT
#pragma once
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {

/// The traits that all CPU solvers share.
constexpr SolverInfo cpu_info(std::uint64_t id, const char* name, Algorithm algorithm, int version = 1) {
  return {.id = id,
          .name = name,
          .algorithm = algorithm,
          .version = version,
          .devices = static_cast<unsigned>(DeviceKind::kCpu),
          .dynamic = true,
          .deterministic = true,
          .capture_safe = true,
          .reference = false};
}

const Solver<Problem>& cpu_reference(Direction);         // ids 1, 2, 3
const Solver<Problem>& cpu_gemm(Direction);              // ids 4, 5, 6
const Solver<Problem>& cpu_implicit_gemm(Direction);     // ids 7, 8, 9
const Solver<Problem>& cpu_depthwise(Direction);         // ids 10, 11, 12
const Solver<Problem>& cpu_direct(Direction);            // ids 13, 14: not weights
const Solver<Problem>& cpu_direct_weights();             // id 15
const Solver<Problem>& cpu_grouped(Direction);           // ids 22, 23, 24
const Solver<Problem>& cpu_fft(Direction);               // ids 25, 26: forward, backward data
const Solver<Problem>& cpu_winograd(Direction);          // ids 16, 17, 18
const Solver<Problem>& cpu_winograd_large(Direction);    // ids 19, 20, 21: tiles of 6x6
const Solver<Problem>& gpu_reference(Direction);         // ids 101, 102, 103
const Solver<Problem>& gpu_implicit_gemm(Direction);     // ids 104, 105, 106
const Solver<Problem>& gpu_depthwise(Direction);         // ids 107, 108, 109
const Solver<Problem>& gpu_grouped(Direction);           // ids 110, 111, 112
const Solver<Problem>& gpu_winograd(Direction);          // ids 113, 114, 115
const Solver<Problem>& gpu_fft(Direction);               // ids 116, 117; no weights
const Solver<Problem>& gpu_gemm(Direction);              // ids 118, 119, 120
const Solver<Problem>& cuda_gemm(Direction, bool tf32);  // ids 121, 122, 123; with TF32 124, 125, 126

}  // namespace polymio::convolution
