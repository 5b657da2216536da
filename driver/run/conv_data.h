// Contents of the tensors: seeded random numbers, raw files, dumps.
// Data is reproducible: equal seeds give equal elements.
// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "driver/base/library.h"
#include "driver/run/conv_problem.h"

namespace polymio::driver {

// The three tensors of one direction. The written tensor holds random numbers when beta != 0, otherwise 0xff bytes (NaN
// in floating point), so that an unwritten output fails verification.
struct TensorData {
  Buffer buffers[3];
  std::vector<unsigned char> old;  // contents of the written tensor before the run; empty if beta is 0

  TensorData(const Session& session, const Problem& problem);
  const void* host(Role role) { return buffers[role].host(); }
  // Restores the initial contents of the written tensor.
  void reset_written(const Problem& problem);
};

// Uniform random elements in memory of tensor.space() elements. Float types: [0, 0.01), symmetric
// about 0 if `weights`; int8 and int32: [0, 127) and [-63, 63]; 8-bit floats and tensors cast to
// them: [-1, 1).
void fill_random(const reference::Tensor& tensor, void* memory, std::uint64_t seed, bool weights);

// The raw elements of a file. Throws RunError when it is shorter than `bytes`.
void read_file(const std::string& path, void* memory, std::size_t bytes);
void write_file(const std::string& path, const void* memory, std::size_t bytes);

}  // namespace polymio::driver
