// SPDX-License-Identifier: MIT
#include "primitives/common/gpu/window.h"

#include <algorithm>

#include "base/math.h"

namespace polymio::gpu_skeletons {
namespace {

using kernels::kWindowRun;
using kernels::kWindowThreads;

constexpr std::int64_t kMaxUnits = std::int64_t{1} << 30;  // of a launch
constexpr std::size_t kMostOperands = 4, kMostArguments = 3 + 2 * kMostOperands;
constexpr int kMostLanes = 32, kLeastLanes = 8, kFarStride = 8, kFewestChannels = 16;

std::int64_t results_along(const WindowResults& r, std::size_t axis) {
  const kernels::WindowAxis& a = r.axes.axis[axis];
  return r.backward ? a.size : a.windows;
}

bool is_aligned(const WindowOperand& o, std::int64_t elements) {
  const std::int64_t bytes = std::min<std::int64_t>(elements * static_cast<std::int64_t>(o.size), 16);
  return reinterpret_cast<std::uintptr_t>(o.data) % static_cast<std::uintptr_t>(bytes) == 0;
}

bool takes_vectors(const WindowOperand& o, int vector) {
  if (!o.data) return true;
  if (o.is_accessed_singly) return o.at.channel == 1;
  const std::int64_t steps[] = {o.at.image, o.at.axis[0], o.at.axis[1], o.at.axis[2]};
  return o.at.channel == 1 && is_aligned(o, vector) &&
         std::ranges::all_of(steps, [&](std::int64_t s) { return s % vector == 0; });
}

bool is_dense(const WindowResults& r, const WindowOperand& o) {
  if (!o.data || !o.is_result) return true;
  const std::int64_t sizes[] = {results_along(r, 2), results_along(r, 1), results_along(r, 0), r.channels, r.images};
  const std::int64_t steps[] = {o.at.axis[2], o.at.axis[1], o.at.axis[0], o.at.channel, o.at.image};
  std::int64_t dense = 1;
  for (std::size_t k = 0; k < std::size(sizes); ++k) {
    if (sizes[k] != 1 && steps[k] != dense) return false;
    dense *= sizes[k];
  }
  return true;
}

/// Threads that share a window: neighbouring threads should read neighbouring elements.
int lanes_of(const WindowResults& r, const WindowOperand& in) {
  const kernels::WindowAxis& w = r.axes.axis[2];
  const bool apart = w.windows == 1 || w.stride.divisor >= kFarStride;
  if (r.backward || !apart || in.at.axis[2] != 1) return 1;
  int lanes = kMostLanes;
  while (lanes > std::min(w.length, w.size)) lanes /= 2;
  return lanes >= kLeastLanes ? lanes : 1;
}

}  // namespace

WindowPlan plan_window(const DeviceInfo& device, const WindowResults& r, std::span<const WindowOperand> operands) {
  const WindowOperand &in = operands[0], &out = operands[1];
  if (r.channels > 1 && in.at.channel == 1) {  // results read more than they write
    const bool vectors = out.at.channel == 1 && r.channels % r.vector == 0 &&
                         std::ranges::all_of(operands, [&](const auto& o) { return takes_vectors(o, r.vector); });
    if (vectors) return {WindowEntry::kVectors};
    if (in.at.axis[2] != 1 && (out.at.channel == 1 || r.channels >= kFewestChannels)) return {WindowEntry::kChannels};
  }
  if (const int lanes = lanes_of(r, in); lanes > 1) return {WindowEntry::kLanes, lanes};
  const std::int64_t results = r.images * r.channels * results_along(r, 0) * results_along(r, 1) * results_along(r, 2);
  const bool runs = results >= std::int64_t{kWindowThreads} * kWindowRun * device.units &&
                    is_aligned(out, kWindowRun) &&
                    std::ranges::all_of(operands, [&](const auto& o) { return is_dense(r, o); });
  return {runs ? WindowEntry::kRuns : WindowEntry::kElements};
}

void launch_window(Stream& stream, const Kernel& kernel, const WindowPlan& plan, const WindowResults& r,
                   std::span<const WindowOperand> operands, Argument formula) {
  const bool along_channels = plan.entry == WindowEntry::kVectors || plan.entry == WindowEntry::kChannels;
  const std::int64_t unit = plan.entry == WindowEntry::kVectors ? r.vector : 1;
  const int per_block = plan.entry == WindowEntry::kRuns ? kWindowThreads * kWindowRun : kWindowThreads / plan.lanes;
  std::int64_t plane = 1;
  for (std::size_t k = 0; k < 3; ++k) plane *= results_along(r, k);
  // Launches count units in an int: parts of a batch, or of the channels of an image. Parts of runs begin aligned.
  const std::int64_t step = plan.entry == WindowEntry::kRuns ? std::int64_t{kWindowRun} : unit;
  const std::int64_t most_channels = std::min(r.channels, std::max<std::int64_t>(kMaxUnits / plane / step, 1) * step);
  const std::int64_t most_images =
      most_channels < r.channels ? 1 : std::max<std::int64_t>(kMaxUnits / (plane * r.channels / unit) / step, 1) * step;
  for (std::int64_t image = 0; image < r.images; image += most_images)
    for (std::int64_t channel = 0; channel < r.channels; channel += most_channels) {
      const std::int64_t images = std::min(most_images, r.images - image);
      const std::int64_t channels = std::min(most_channels, r.channels - channel) / unit;
      kernels::WindowShape shape{static_cast<int>(images * channels * plane), plan.lanes, {}};
      shape.size[along_channels ? 0 : 3] = kernels::make_divider(channels);
      for (std::size_t k = 0; k < 3; ++k)
        shape.size[along_channels ? k + 1 : k] = kernels::make_divider(results_along(r, 2 - k));
      Buffer buffers[kMostOperands] = {nullptr, nullptr, nullptr, nullptr};
      kernels::WindowAt at[kMostOperands];
      Argument arguments[kMostArguments];
      std::size_t n = 0;
      arguments[n++] = {Argument::Kind::kValue, &shape, sizeof(shape)};
      arguments[n++] = {Argument::Kind::kValue, &r.axes, sizeof(r.axes)};
      for (std::size_t o = 0; o < operands.size(); ++o) {
        buffers[o] = Buffer(operands[o].data ? operands[o].data : operands[1].data);  // not every driver takes null
        at[o] = operands[o].at;
        at[o].first += image * at[o].image + channel * at[o].channel;
        arguments[n++] = {Argument::Kind::kBuffer, &buffers[o], sizeof(Buffer)};
        arguments[n++] = {Argument::Kind::kValue, &at[o], sizeof(at[o])};
      }
      arguments[n++] = formula;
      stream.launch(kernel, launch_shape(kWindowThreads, ceil_div(shape.count, per_block)), {arguments, n});
    }
}

}  // namespace polymio::gpu_skeletons
