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
  int steps = 0, reversed = 0, depth = 0, samples = 0;
};

struct Persistent {
  int rows = 16, samples = 32;  // of the weights of a group of units; multiplied at once
  bool backward = false, by_matrix_units = false;
  bool single = false;           // a block has one group of units and multiplies its samples at once
  std::int64_t row_samples = 0;  // of a row of blocks, launch.blocks[0]
  Launch launch;
  std::size_t local_bytes = 0;

  KernelSpec spec(const DeviceInfo&, const Network&) const;
};

/// Nothing unless all sequences have the same length, the weights fit the local memory of all multiprocessors at once,
/// and the blocks can wait for each other (CUDA), or one block has all units.
std::optional<Persistent> persistent(const DeviceInfo&, const Network&, const Schedule&, Pass);

/// Elements of a sample that the blocks exchange at a step: its state, or the gradients of its gates.
std::int64_t persistent_depth(const Network&, Pass);

/// Bytes of what the blocks exchange at all steps; 0 where so many samples are not one launch.
std::size_t persistent_bytes(const DeviceInfo&, const Network&, std::int64_t samples, std::int64_t steps, Pass);

}  // namespace polymio::rnn
