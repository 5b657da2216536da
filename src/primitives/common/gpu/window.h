// Launches of kernels/gpu/portable/window.h: how results are distributed to threads, and the parts of a launch.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "base/function_ref.h"
#include "kernels/gpu/portable/window_shape.h"
#include "runtime/device.h"

namespace polymio::gpu_skeletons {

/// Entry points of a program that includes window.h.
enum class WindowEntry { kElements, kChannels, kVectors };
inline constexpr std::array<const char*, 3> kWindowEntries = {"window_elements", "window_channels", "window_vectors"};

/// Most elements of an image of one channel, in every tensor.
inline constexpr std::int64_t kMaxWindowPlane = std::int64_t{1} << 30;

/// A tensor of N, C, D, H, W and its memory, null if absent.
struct WindowOperand {
  const void* data = nullptr;
  kernels::WindowAt at{};
  std::size_t size = 1;  // bytes of an element
  bool single = false;   // accessed one element at a time, even by vectors of channels
};

/// The results: windows forward, elements backward.
struct WindowResults {
  std::int64_t images = 1, channels = 1;
  std::array<kernels::WindowAxis, 3> axes{};
  bool backward = false;
  int vector = 1;  // VECTOR of the program
};

/// The result is the operand `result`. Vectors are of channels that are contiguous and aligned in every operand.
WindowEntry plan_window(const WindowResults&, std::span<const WindowOperand>, std::size_t result);

/// Launches the entry point on all operands in their order; `formula` is the last argument.
void launch_window(Stream&, const Kernel&, WindowEntry, const WindowResults&, std::span<const WindowOperand>,
                   std::size_t result, Argument formula);

}  // namespace polymio::gpu_skeletons
