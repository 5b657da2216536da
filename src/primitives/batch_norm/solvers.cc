// Every batch norm solver, a row each; ids 2001 to 2999 are batch norm's.
// SPDX-License-Identifier: MIT
#include "primitives/batch_norm/solvers.h"

#include <algorithm>
#include <limits>

#include "core/registry.h"

namespace polymio::batch_norm {

using Maker = SolverMaker<Direction>;
Maker cpu_rows, gpu_passes, gpu_channels, gpu_threads;

namespace {

/// On GPUs the order of sums depends on the alignment of the tensors to 16 bytes.
constexpr SolverInfo info(std::uint64_t id, const char* name, unsigned devices, bool sums = true) {
  return {.id = id, .name = name, .method = "Direct", .devices = devices, .deterministic = devices == kCpu || !sums};
}

constexpr Registration<Direction> kRows[] = {
    {info(2001, "BnormCpuTrain", kCpu), Direction::kTraining, cpu_rows},
    {info(2002, "BnormCpuInfer", kCpu), Direction::kInference, cpu_rows},
    {info(2003, "BnormCpuBwd", kCpu), Direction::kBackward, cpu_rows},
    {info(2004, "BnormGpuTrain", kGpus), Direction::kTraining, gpu_passes},
    {info(2005, "BnormGpuInfer", kGpus, false), Direction::kInference, gpu_passes},
    {info(2006, "BnormGpuBwd", kGpus), Direction::kBackward, gpu_passes},
    {info(2007, "BnormGpuChannelsTrain", kGpus, false), Direction::kTraining, gpu_channels},
    {info(2008, "BnormGpuChannelsBwd", kGpus, false), Direction::kBackward, gpu_channels},
    {info(2009, "BnormGpuThreadsTrain", kGpus, false), Direction::kTraining, gpu_threads},
    {info(2010, "BnormGpuThreadsBwd", kGpus, false), Direction::kBackward, gpu_threads},
};

}  // namespace

SolverList solvers(Direction direction, DeviceKind kind) { return registered<kRows>().list(direction, kind); }

SolverList all_solvers() { return registered<kRows>().all(); }

Range range_of(activation::Mode mode, const activation::Parameters& p) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (mode) {
    case activation::Mode::kRelu: return {0, kInfinity};
    case activation::Mode::kClippedRelu: return {std::min(0.0, p.alpha), p.alpha};
    case activation::Mode::kClamp: return {p.alpha, p.beta};
    default: return {-kInfinity, kInfinity};
  }
}

}  // namespace polymio::batch_norm
