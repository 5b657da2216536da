// Every solver of matrix products, a row each; ids 9001 to 9999 are theirs.
// SPDX-License-Identifier: MIT
#include "primitives/matmul/solvers.h"

#include <fmt/format.h>

#include "base/error.h"
#include "core/registry.h"

namespace polymio::matmul {

SolverMaker<Direction> cpu_gemm, cuda_library;

namespace {

constexpr SolverInfo info(std::uint64_t id, const char* name, unsigned devices, bool deterministic = true) {
  return {.id = id, .name = name, .method = "Gemm", .devices = devices, .deterministic = deterministic};
}

constexpr Registration<Direction> kRows[] = {
    {info(9001, "MatmulCpuGemm", kCpu), Direction::kForward, cpu_gemm},
    {info(9002, "MatmulCudaLibrary", kCuda, false), Direction::kForward, cuda_library},
    {info(9003, "MatmulGpuTiles", kGpus), Direction::kForward, gpu_tiles},
};

}  // namespace

SolverList solvers(DeviceKind kind) { return registered<kRows>().list(Direction::kForward, kind); }

SolverList all_solvers() { return registered<kRows>().all(); }

const SolverBase& best_solver(const DeviceInfo& device, const Problem& p) {
  const SolverBase* best = nullptr;
  double least = 0;
  for (const SolverBase* solver : solvers(device.kind)) {
    if (!solver->is_applicable(device, p)) continue;
    const double us = solver->estimate(device, p, solver->default_point(device, p));
    if (best && us >= least) continue;
    best = solver;
    least = us;
  }
  if (best) return *best;
  std::string reasons;
  for (const SolverBase* solver : solvers(device.kind))
    reasons += fmt::format("; {}: {}", solver->info().name, solver->is_applicable(device, p).text());
  fail(Status::kNotImplemented, "no solver can do: {}{}", p.key(), reasons);
}

}  // namespace polymio::matmul
