// Cells of recurrent networks: a step of a layer in one direction for some of its hidden units, the products apart.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "base/dtype.h"

namespace polymio::kernels {

enum class RnnCell : int { kRelu = 0, kTanh = 1, kLstm = 2, kGru = 3 };

/// Gates or states of some samples: the first unit of the first gate of sample 0, elements from sample to sample and
/// from gate to gate. T: a tensor of the network's type, null if absent, or of fp32 where it says so.
template <class Data>
struct RnnRows {
  Data* data = nullptr;
  std::int64_t pitch = 0, gate = 0;
};
using RnnIn = RnnRows<const void>;
using RnnOut = RnnRows<void>;
using RnnFloats = RnnRows<float>;

/// Samples [0, begun) continue their sequences, [begun, samples) begin; after the step [0, continued) go on, the others
/// end.
struct RnnStep {
  RnnCell cell = RnnCell::kTanh;
  DataType type = DataType::kFloat;  // fp32, fp16 or bf16
  std::int64_t samples = 0, begun = 0, continued = 0, units = 0;
};

struct RnnForward : RnnStep {
  RnnIn x;                                // products of the input
  RnnFloats recurrent;                    // of the state
  RnnIn input_bias, recurrent_bias;       // absent: 0; pitch is not used
  bool bias_of_first = true;              // whether samples that begin have a recurrent bias
  RnnFloats h_before, h_after;            // fp32
  RnnIn cx;                               // of samples that begin; absent: 0
  RnnFloats c;                            // fp32, in place
  RnnOut y, hy, cy;                       // hy, cy: of samples that end
  RnnOut gates, previous_h, recurrent_n;  // kept for the backward passes; recurrent_n: h Rn + bRn of GRU
  RnnFloats previous_c;                   // the same, fp32
};

struct RnnBackward : RnnStep {
  RnnIn dy;
  RnnFloats product;  // gradients of h through the gates of the step that follows, of samples that continue
  RnnFloats direct;   // GRU: the same through z, in place
  RnnFloats dc;       // of c, in place
  RnnIn dhy, dcy;     // of samples that end; absent: 0
  RnnOut dhx, dcx;    // of samples that begin; dhx: what does not pass through the gates, of GRU
  RnnIn gates, previous_h, recurrent_n;
  RnnFloats previous_c;
  RnnOut input_gradient;      // of the products of the input
  RnnOut recurrent_gradient;  // of the products of the state, GRU only: else the same
};

struct RnnKernels {
  static constexpr bool kHasDotProducts = false;
  void (*forward)(const RnnForward& step);
  void (*backward)(const RnnBackward& step);
};

}  // namespace polymio::kernels
