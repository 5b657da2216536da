// Depthwise, pointwise and direct convolutions that write results with non-temporal stores: the same bits as with
// regular stores, which unaligned results use, and bytes outside the result are unchanged.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/handle.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

constexpr float kGuard = -77;
constexpr std::size_t kLine = 16;  // floats

Problem channels_last(Direction direction, std::int64_t stride) {
  Problem p;
  p.direction = direction;
  p.geometry.spatial = 2;
  p.geometry.groups = 64;
  const std::int64_t size = 72, out = (size - 1) / stride + 1;
  for (std::size_t i = 0; i < 2; ++i) {
    p.geometry.pad[i] = 1;
    p.geometry.stride[i] = stride;
  }
  const std::int64_t x[] = {4, 64, size, size}, w[] = {64, 1, 3, 3}, y[] = {4, 64, out, out};
  p.x = make_tensor(DataType::kFloat, Layout::kNHWC, x);
  p.w = make_tensor(DataType::kFloat, Layout::kNHWC, w);
  p.y = make_tensor(DataType::kFloat, Layout::kNHWC, y);
  validate(p);
  return p;
}

std::vector<float> numbers(const TensorDesc& t) {
  std::vector<float> v(static_cast<std::size_t>(t.count()));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i * 37 % 101) - 50;
  return v;
}

/// The result, written `shift` floats after the start of a cache line.
std::vector<float> run(const SolverBase& solver, const Problem& p, std::size_t shift) {
  std::vector<float> x = numbers(p.x), w = numbers(p.w), y = numbers(p.y);
  const auto count = static_cast<std::size_t>(p.output().count());
  std::vector<float> memory(count + 4 * kLine, kGuard);
  const std::size_t prefetch = reinterpret_cast<std::uintptr_t>(memory.data()) / sizeof(float) % kLine;
  float* const result = memory.data() + 2 * kLine - prefetch + shift;
  Handle handle("cpu", nullptr);
  Problem::Args args;
  args.x = x.data();
  args.w = w.data();
  args.y = y.data();
  (p.direction == Direction::kForward ? args.y : args.x) = result;
  const TunePoint point = solver.default_point(handle.device(), p);
  std::vector<char> workspace(solver.workspace_size(handle.device(), p, point));
  args.workspace = workspace.data();
  args.workspace_bytes = workspace.size();
  solver.build(handle.stream(), p, point)(handle.stream(), &args);
  EXPECT_EQ(result[-1], kGuard);
  EXPECT_EQ(result[count], kGuard);
  return {result, result + count};
}

/// Alignment does not change any bit of the result of the direction's solver of that name.
void compare_alignments(const Problem& p, const char* name) {
  int seen = 0;
  for (const SolverBase* solver : solvers(p.direction)) {
    if (std::string(solver->info().name).find(name) == std::string::npos) continue;
    ++seen;
    const auto aligned = run(*solver, p, 0), shifted = run(*solver, p, 1);
    EXPECT_EQ(std::memcmp(aligned.data(), shifted.data(), aligned.size() * sizeof(float)), 0) << p.key();
  }
  EXPECT_EQ(seen, 1);
}

TEST(NonTemporalStores, AlignmentDoesNotChangeResults) {
  for (const Direction direction : {Direction::kForward, Direction::kBackwardData})
    for (const std::int64_t stride : {1, 2}) compare_alignments(channels_last(direction, stride), "CpuDepthwise");
}

TEST(NonTemporalStores, AlignmentDoesNotChangePointwiseResults) {
  for (const Direction direction : {Direction::kForward, Direction::kBackwardData}) {
    for (const std::int64_t depth : {24, 600}) {
      Problem p;
      p.direction = direction;
      p.geometry.spatial = 2;
      const bool forward = direction == Direction::kForward;
      const std::int64_t c = forward ? depth : 52, k = forward ? 52 : depth, n = depth > 100 ? 1 : 8;
      const std::int64_t x[] = {n, c, 56, 56}, w[] = {k, c, 1, 1}, y[] = {n, k, 56, 56};
      p.x = make_tensor(DataType::kFloat, Layout::kNCHW, x);
      p.w = make_tensor(DataType::kFloat, Layout::kNCHW, w);
      p.y = make_tensor(DataType::kFloat, Layout::kNCHW, y);
      validate(p);
      compare_alignments(p, "CpuGemm");
    }
  }
}

TEST(NonTemporalStores, AlignmentDoesNotChangeDirectResults) {
  struct Case {
    std::int64_t n, c, size, filter;
  };
  for (const auto& [n, c, size, filter] : {Case{1, 3, 184, 3}, {16, 64, 56, 1}, {3800, 3, 3, 3}}) {
    Problem p;
    p.geometry.spatial = 2;
    for (std::size_t i = 0; i < 2; ++i) p.geometry.pad[i] = filter / 2;
    const std::int64_t x[] = {n, c, size, size}, w[] = {64, c, filter, filter}, y[] = {n, 64, size, size};
    p.x = make_tensor(DataType::kFloat, Layout::kNHWC, x);
    p.w = make_tensor(DataType::kFloat, Layout::kNHWC, w);
    p.y = make_tensor(DataType::kFloat, Layout::kNHWC, y);
    validate(p);
    compare_alignments(p, "CpuDirect");
  }
}

}  // namespace
}  // namespace polymio::convolution
