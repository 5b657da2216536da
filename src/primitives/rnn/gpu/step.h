// What kernels of recurrent networks share on the host.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "primitives/rnn/network.h"
#include "runtime/device.h"

namespace polymio::rnn {

/// As in kernels/gpu/portable/rnn_cell.h.
struct Step {
  std::int64_t x_pitch = 0, x_gate = 0, gates = 0, width = 0, input_bias = -1, recurrent_bias = -1;
  int samples = 0, begun = 0, continued = 0, hidden = 0, bias_of_first = 0;
  int has_cx = 0, has_hy = 0, has_cy = 0, keeps = 0;
};

inline std::vector<std::string> cell_options(const DeviceInfo& device, DataType type, Mode mode) {
  const std::string name = polymio::name_of(type);
  std::vector<std::string> options = {"-DMODE=" + std::to_string(static_cast<int>(mode)), "-DIN=" + name,
                                      "-DOUT=" + name, "-DNUM=float"};
  if (device.gpu.fp64) options.emplace_back("-DFP64");
  return options;
}

}  // namespace polymio::rnn
