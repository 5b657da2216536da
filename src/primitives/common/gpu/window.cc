// SPDX-License-Identifier: MIT
#include "primitives/common/gpu/window.h"

#include <algorithm>

#include "base/math.h"

namespace polymio::gpu_skeletons {
namespace {

constexpr std::int64_t kThreads = 256;                     // as in window.h
constexpr std::int64_t kMaxUnits = std::int64_t{1} << 30;  // of a launch
constexpr std::size_t kMostOperands = 4, kMostArguments = 2 + 2 * kMostOperands;

std::int64_t results_along(const WindowResults& r, std::size_t axis) {
  return r.backward ? r.axes[axis].size : r.axes[axis].windows;
}

bool takes_vectors(const WindowOperand& o, int vector) {
  if (!o.data) return true;
  if (o.single) return o.at.channel == 1;
  const std::int64_t steps[] = {o.at.first, o.at.image, o.at.axis[0], o.at.axis[1], o.at.axis[2]};
  const auto bytes = std::min<std::int64_t>(vector * static_cast<std::int64_t>(o.size), 16);
  return o.at.channel == 1 && reinterpret_cast<std::uintptr_t>(o.data) % static_cast<std::uintptr_t>(bytes) == 0 &&
         std::ranges::all_of(steps, [&](std::int64_t s) { return s % vector == 0; });
}

}  // namespace

WindowEntry plan_window(const WindowResults& r, std::span<const WindowOperand> operands, std::size_t result) {
  if (r.channels == 1 || operands[result].at.channel != 1 ||
      (results_along(r, 2) > 1 && operands[result].at.axis[2] == 1))
    return WindowEntry::kElements;
  const bool vectors = r.channels % r.vector == 0 &&
                       std::ranges::all_of(operands, [&](const auto& o) { return takes_vectors(o, r.vector); });
  return vectors ? WindowEntry::kVectors : WindowEntry::kChannels;
}

void launch_window(Stream& stream, const Kernel& kernel, WindowEntry entry, const WindowResults& r,
                   std::span<const WindowOperand> operands, std::size_t result, Argument formula) {
  const bool along_channels = entry != WindowEntry::kElements;
  const std::int64_t unit = entry == WindowEntry::kVectors ? r.vector : 1;
  std::int64_t plane = 1;
  for (std::size_t k = 0; k < 3; ++k) plane *= results_along(r, k);
  // Launches count units in an int: parts of a batch, or of the channels of an image.
  const std::int64_t most_channels = std::min(r.channels, std::max<std::int64_t>(kMaxUnits / plane, 1) * unit);
  const std::int64_t most_images =
      most_channels < r.channels ? 1 : std::max<std::int64_t>(kMaxUnits / (plane * r.channels / unit), 1);
  for (std::int64_t image = 0; image < r.images; image += most_images)
    for (std::int64_t channel = 0; channel < r.channels; channel += most_channels) {
      const std::int64_t images = std::min(most_images, r.images - image);
      const std::int64_t channels = std::min(most_channels, r.channels - channel) / unit;
      kernels::WindowShape shape{static_cast<int>(images * channels * plane), {}, {}};
      std::ranges::copy(r.axes, shape.axis);
      shape.size[along_channels ? 0 : 3] = kernels::make_divider(channels);
      for (std::size_t k = 0; k < 3; ++k)
        shape.size[along_channels ? k + 1 : k] = kernels::make_divider(results_along(r, 2 - k));
      Buffer buffers[kMostOperands] = {nullptr, nullptr, nullptr, nullptr};
      kernels::WindowAt at[kMostOperands];
      Argument arguments[kMostArguments];
      std::size_t n = 0;
      arguments[n++] = {Argument::Kind::kValue, &shape, sizeof(shape)};
      for (std::size_t o = 0; o < operands.size(); ++o) {
        buffers[o] =
            Buffer(operands[o].data ? operands[o].data : operands[result].data);  // not every driver takes null
        at[o] = operands[o].at;
        at[o].first += image * at[o].image + channel * at[o].channel;
        arguments[n++] = {Argument::Kind::kBuffer, &buffers[o], sizeof(Buffer)};
        arguments[n++] = {Argument::Kind::kValue, &at[o], sizeof(at[o])};
      }
      arguments[n++] = formula;
      stream.launch(kernel, launch_shape(kThreads, ceil_div(shape.count, kThreads)), {arguments, n});
    }
}

}  // namespace polymio::gpu_skeletons
