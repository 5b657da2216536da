// The list of convolution solvers (ids 1 to 999). The order decides between equal times. To add a solver: its file, a
// line here, a line of test cases.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/solvers.h"

#include <array>
#include <vector>

#include "primitives/convolution/convolution.h"

namespace polymio::convolution {

SolverList solvers(Direction direction, DeviceKind kind) {
  const auto list = [](Direction d) {
    std::vector<const SolverBase*> all{&cpu_depthwise(d), &cpu_grouped(d), &cpu_gemm(d), &cpu_implicit_gemm(d)};
    all.push_back(d == Direction::kBackwardWeights ? &cpu_direct_weights() : &cpu_direct(d));
    if (d != Direction::kBackwardWeights) all.push_back(&cpu_fft(d));
    all.insert(all.end(), {&cpu_winograd(d), &cpu_winograd_large(d)});
    all.push_back(&cpu_reference(d));
    return all;
  };
  const auto gpu_list = [](Direction d) {
    std::vector<const SolverBase*> all{&gpu_depthwise(d), &gpu_grouped(d), &gpu_winograd(d)};
    if (d != Direction::kBackwardWeights) all.push_back(&gpu_fft(d));
    all.insert(all.end(), {&cuda_gemm(d, false), &cuda_gemm(d, true), &gpu_gemm(d), &gpu_implicit_gemm(d)});
    all.push_back(&gpu_reference(d));
    return all;
  };
  static const std::array lists = {list(Direction::kForward), list(Direction::kBackwardData),
                                   list(Direction::kBackwardWeights)};
  static const std::array gpu_lists = {gpu_list(Direction::kForward), gpu_list(Direction::kBackwardData),
                                       gpu_list(Direction::kBackwardWeights)};
  return (kind == DeviceKind::kCpu ? lists : gpu_lists)[static_cast<std::size_t>(direction)];
}

namespace {

template <class Is>
const SolverBase* first_that(const Is& is) {
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda})
    for (const Direction d : {Direction::kForward, Direction::kBackwardData, Direction::kBackwardWeights})
      for (const SolverBase* s : solvers(d, kind))
        if (is(s->info())) return s;
  return nullptr;
}

}  // namespace

const SolverBase* solver_by_id(std::uint64_t id) {
  return first_that([id](const SolverInfo& info) { return info.id == id; });
}

const SolverBase* solver_by_name(const std::string& text) {
  return first_that([&](const SolverInfo& info) { return info.name == text || std::to_string(info.id) == text; });
}

}  // namespace polymio::convolution
