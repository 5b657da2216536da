// Every convolution solver; ids 1 to 999 are convolution's. Order decides between equal times.
// Adding one: its file, a line here, a line of cases.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/solvers.h"

#include <array>
#include <vector>

#include "primitives/convolution/convolution.h"

namespace polymio::convolution {

SolverList solvers(Direction direction) {
  const auto list = [](Direction d) {
    std::vector<const SolverBase*> all{&cpu_depthwise(d), &cpu_grouped(d), &cpu_gemm(d), &cpu_implicit_gemm(d)};
    all.push_back(d == Direction::kBackwardWeights ? &cpu_direct_weights() : &cpu_direct(d));
    if (d != Direction::kBackwardWeights) all.push_back(&cpu_fft(d));
    all.insert(all.end(), {&cpu_winograd(d), &cpu_winograd_large(d)});
    all.push_back(&cpu_reference(d));
    return all;
  };
  static const std::array lists = {list(Direction::kForward), list(Direction::kBackwardData),
                                   list(Direction::kBackwardWeights)};
  return lists[static_cast<std::size_t>(direction)];
}

const SolverBase* solver_by_id(std::uint64_t id) {
  for (const Direction d : {Direction::kForward, Direction::kBackwardData, Direction::kBackwardWeights})
    for (const SolverBase* s : solvers(d))
      if (s->info().id == id) return s;
  return nullptr;
}

const SolverBase* solver_by_name(const std::string& text) {
  for (const Direction d : {Direction::kForward, Direction::kBackwardData, Direction::kBackwardWeights})
    for (const SolverBase* s : solvers(d))
      if (s->info().name == text || std::to_string(s->info().id) == text) return s;
  return nullptr;
}

}  // namespace polymio::convolution
