// One launch for all steps of a layer in one direction: where it applies, and how it is launched.
// SPDX-License-Identifier: MIT
#pragma once
#include <optional>

#include "core/kernel_builder.h"
#include "primitives/rnn/schedule.h"

namespace polymio::rnn {

/// As in persistent.cl.
struct Walk {
  std::int64_t weights = 0;
  int steps = 0, reversed = 0, depth = 0;
};

struct Persistent {
  int rows = 16, samples = 32;  // of the weights of a group of units; multiplied at once
  bool backward = false, by_matrix_units = false;
  Launch launch;
  std::size_t local_bytes = 0;

  KernelSpec spec(const DeviceInfo&, const Network&) const;
};

/// Nothing unless all sequences have the same length, the weights fit the local memory of all multiprocessors at once,
/// and the blocks can wait for each other (CUDA), or one block has all units.
std::optional<Persistent> persistent(const DeviceInfo&, const Network&, const Schedule&, Pass);

/// Elements of a sample that the blocks exchange: its state, or the gradients of its gates.
std::int64_t persistent_depth(const Network&, Pass);

/// Bytes before the two buffers of the exchange: how many blocks have arrived.
inline constexpr std::size_t kArrivedBytes = 256;
std::size_t persistent_bytes(const Network&, std::int64_t samples, Pass);

}  // namespace polymio::rnn
