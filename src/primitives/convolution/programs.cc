// The GPU programs that serve nearly every convolution: what the solvers need for a few typical problems.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <set>

#include "core/kernel_builder.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

struct UsualShape {
  std::int64_t channels, outputs, groups, filter, stride;
};
// The first kBaseShapes are those of the base programs: ordinary, grouped, depthwise.
constexpr UsualShape kShapes[] = {{64, 64, 1, 3, 1},  {256, 256, 32, 3, 1}, {96, 96, 96, 3, 1}, {64, 64, 1, 1, 1},
                                  {64, 64, 1, 3, 2},  {3, 64, 1, 7, 2},     {96, 96, 96, 3, 2}, {96, 96, 96, 5, 1},
                                  {64, 64, 1, 5, 1},  {64, 64, 1, 1, 2},    {64, 3, 1, 3, 1},   {8, 64, 1, 4, 4},
                                  {96, 96, 96, 9, 1}, {96, 96, 96, 9, 2}};
constexpr std::size_t kBaseShapes = 3;
constexpr std::int64_t kImages[] = {8, 64}, kSide = 28;  // base programs: the first

Problem make_problem(const UsualShape& s, std::int64_t images, Direction direction, DataType type, bool channels_last) {
  const Layout layout = channels_last ? Layout::kNHWC : Layout::kNCHW;
  const std::int64_t pad = s.filter == s.stride ? 0 : s.filter / 2,
                     side = forward_size(kSide, s.filter, pad, s.stride, 1);
  Problem p;
  p.direction = direction;
  p.geometry.pad = {pad, pad, 0};
  p.geometry.stride = {s.stride, s.stride, 1};
  p.geometry.groups = s.groups;
  const DataType written = type == DataType::kInt8 ? DataType::kInt32 : type;
  p.x = make_tensor(type, layout, std::array{images, s.channels, kSide, kSide});
  p.w = make_tensor(type, layout, std::array{s.outputs, s.channels / s.groups, s.filter, s.filter});
  p.y = make_tensor(written, layout, std::array{images, s.outputs, side, side});
  return p;
}

}  // namespace

std::vector<KernelSpec> base_programs(const DeviceInfo& device, bool others) {
  std::vector<KernelSpec> programs;
  std::set<std::string> seen;
  const auto add = [&](KernelSpec& spec) {
    const auto& o = spec.options;
    if (!others && std::find(o.begin(), o.end(), "-DUNALIGNED") != o.end()) return;
    if (seen.insert(program_name(spec)).second) programs.push_back(std::move(spec));
  };
  const auto add_all = [&](const Problem& p) {
    for (const SolverBase* s : solvers(p.direction, device.kind)) {
      const bool usual =
          !s->info().reference && static_cast<int>(s->error_class(p)) <= static_cast<int>(Constraints{}.math);
      if (!s->is_applicable(device, p) || (!usual && !others)) continue;
      for (KernelSpec& spec : s->kernel_specs(device, p, s->default_point(device, p))) add(spec);
    }
  };
  if (device.kind == DeviceKind::kCpu) return programs;
  const std::span<const UsualShape> shapes(kShapes, others ? std::size(kShapes) : kBaseShapes);
  std::vector<DataType> types = {DataType::kFloat, DataType::kHalf, DataType::kBFloat16, DataType::kInt8};
  if (others) types.push_back(DataType::kFloat8Fnuz);
  for (const DataType type : types)
    for (const Direction d : {Direction::kForward, Direction::kBackwardData, Direction::kBackwardWeights})
      for (const bool channels_last : {false, true})
        for (const UsualShape& shape : shapes)
          for (const std::int64_t images : std::span(kImages, others ? std::size(kImages) : 1))
            if (type != DataType::kInt8 || d == Direction::kForward)
              add_all(make_problem(shape, images, d, type, channels_last));
  return programs;
}

}  // namespace polymio::convolution
