// Launches of kernels/gpu/portable/window.h: how results are distributed to threads, and the parts of a launch.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "kernels/gpu/portable/window_shape.h"
#include "runtime/device.h"

namespace polymio::gpu_skeletons {

/// Entry points of a program that includes window.h.
enum class WindowEntry { kElements, kRuns, kChannels, kVectors, kLanes };
inline constexpr std::array<const char*, 5> kWindowEntries = {"window_elements", "window_runs", "window_channels",
                                                              "window_vectors", "window_lanes"};

/// Most elements of an image of one channel, in every tensor.
inline constexpr std::int64_t kMaxWindowPlane = std::int64_t{1} << 30;

/// A tensor of N, C, D, H, W and its memory, null if absent.
struct WindowOperand {
  const void* data = nullptr;
  kernels::WindowAt at{};
  std::size_t size = 1;             // bytes of an element
  bool is_result = false;           // has an element for each result
  bool is_accessed_singly = false;  // not by vectors of channels
};

/// The results: windows forward, elements backward. Only programs of forward results have lanes.
struct WindowResults {
  std::int64_t images = 1, channels = 1;
  kernels::WindowAxes axes{};
  bool backward = false;
  int vector = 1;  // VECTOR of the program
};

struct WindowPlan {
  WindowEntry entry = WindowEntry::kElements;
  int lanes = 1;  // threads per result
};

/// The first operand is what the results read, the second the result. Vectors need channels that are contiguous and
/// aligned in every operand, runs results that are contiguous in N, C, D, H, W order and fill the device.
WindowPlan plan_window(const DeviceInfo&, const WindowResults&, std::span<const WindowOperand>);

/// Launches the plan's entry point on all operands, in their order; `formula` is the last argument.
void launch_window(Stream&, const Kernel&, const WindowPlan&, const WindowResults&, std::span<const WindowOperand>,
                   Argument formula);

}  // namespace polymio::gpu_skeletons
