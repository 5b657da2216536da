// Where a pass keeps what in the workspace and the reserve space.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <vector>

#include "primitives/rnn/schedule.h"

namespace polymio::rnn {

/// A part of the workspace or of the reserve space; aligned to 256 bytes, as their starts are.
struct Region {
  std::size_t offset = 0, bytes = 0;
  char* in(void* memory) const { return bytes ? static_cast<char*>(memory) + offset : nullptr; }
};

struct Memory {
  Memory(const DeviceInfo&, const Problem&, std::int64_t samples, std::int64_t rows, bool sorted, bool converts_x,
         bool converts_y);

  /// Of a layer in the reserve space: activated gates, states before each step, h Rn + bRn of GRU, its output after the
  /// dropout and the mask; the last layer has no output there.
  struct Kept {
    Region gates, previous_h, previous_c, recurrent_n, output, mask;
  };
  std::vector<Kept> kept;

  // Of the workspace. Gradients of gates come first: both backward passes have them at the same place.
  struct Gradients {
    Region input, recurrent;  // the same region but for GRU
  };
  std::vector<Gradients> gradients;  // for each layer
  Region x, y;                       // packed; y: and dy
  std::array<Region, 4> states;      // sorted: initial h and c, final ones; or their gradients
  Region products;                   // of the input, in inference
  Region weights;                    // of the input, [columns, all_gates()], where transposes_weights()
  std::array<Region, 2> outputs;     // of layers in inference; of one layer the gradient
  Region steps, multiplier;
  Sizes sizes;  // each 256 bytes larger, so that its start can be aligned
};

/// Whether the forward pass transposes the input matrices of a layer first: on the CPU products read them faster then.
bool transposes_weights(const DeviceInfo&, const Network&, std::int64_t layer, std::int64_t rows);

/// The aligned start of a workspace or reserve space.
void* aligned_start(void* memory);

}  // namespace polymio::rnn
