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
  bool by_matrix_units = false;
  Launch launch;
  std::size_t local_bytes = 0;

  KernelSpec spec(const DeviceInfo&, const Network&) const;
};

/// Nothing unless all sequences have the same length, the weights fit the local memory of all multiprocessors at once,
/// and the blocks can wait for each other (CUDA), or one block has all units.
std::optional<Persistent> persistent_forward(const DeviceInfo&, const Network&, const Schedule&);

/// Elements of a sample's state.
std::int64_t persistent_depth(const Network&);

/// Bytes before the two states: how many blocks have arrived.
inline constexpr std::size_t kArrivedBytes = 256;
std::size_t persistent_bytes(const Network&, std::int64_t samples);

}  // namespace polymio::rnn
