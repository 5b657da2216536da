// Every convolution solver; ids 1 to 999 are convolution's. Order decides between equal times.
// Adding one: its file, a line here, a line of cases.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/solvers.h"

#include "primitives/convolution/convolution.h"

namespace polymio::convolution {

SolverList solvers() {
  static const SolverBase* const list[] = {
      &cpu_gemm(Direction::kForward),
      &cpu_gemm(Direction::kBackwardData),
      &cpu_gemm(Direction::kBackwardWeights),
      &cpu_implicit_gemm(Direction::kForward),
      &cpu_implicit_gemm(Direction::kBackwardData),
      &cpu_implicit_gemm(Direction::kBackwardWeights),
      &cpu_reference(Direction::kForward),
      &cpu_reference(Direction::kBackwardData),
      &cpu_reference(Direction::kBackwardWeights),
  };
  return list;
}

const SolverBase* solver_by_id(std::uint64_t id) {
  for (const SolverBase* s : solvers())
    if (s->info().id == id) return s;
  return nullptr;
}

}  // namespace polymio::convolution
