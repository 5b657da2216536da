// The tensors of a convolution in memory.
// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "driver/base/library.h"
#include "driver/run/conv_problem.h"

namespace polymio::driver {

// The three tensors of one direction. The written tensor holds random numbers when beta != 0, otherwise NaNs or, as an
// integer, -1, so that an unwritten output fails verification.
struct TensorData {
  Buffer buffers[3];
  std::vector<unsigned char> old;  // contents of the written tensor before the run; empty if beta is 0

  TensorData(const Session& session, const Problem& problem);
  const void* host(Role role) { return buffers[role].host(); }
  // Restores the initial contents of the written tensor.
  void reset_written(const Problem& problem);
};

}  // namespace polymio::driver
