// Cells of recurrent networks: a step of a layer in one direction for some of its hidden units, the products apart.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
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
  RnnIn x;                           // products of the input
  RnnFloats recurrent;               // of the state; overwritten
  RnnIn input_bias, recurrent_bias;  // absent: 0; pitch is not used
  bool bias_of_first = true;         // whether samples that begin have a recurrent bias
  RnnIn h_before;
  RnnOut h_after;
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

/// c = a x panels: products of bf16 pairs, neighbouring depths, summed in fp32.
struct RnnProduct {
  const void* a = nullptr;       // [rows, depth], bf16
  const void* panels = nullptr;  // [panel][depth / 2][column] of pairs
  float* c = nullptr;            // [rows, panels * columns]
  std::int64_t rows = 0, depth = 0, a_pitch = 0, c_pitch = 0;
  std::int64_t count = 0, columns = 0;  // of panels; columns are a multiple of 16
};

/// c = a x b, summed in fp32.
struct RnnFloatProduct {
  const void* a = nullptr;  // [rows, depth]
  DataType type = DataType::kFloat;
  const float* b = nullptr;  // panels: [panel][depth][lane]; or a matrix in place
  float* c = nullptr;        // [panel][row][lane], or [rows, columns]
  std::int64_t rows = 0, depth = 0, columns = 0;
  std::int64_t a_pitch = 0, b_pitch = 0, c_pitch = 0;  // of matrices
};

struct RnnFloatKernels {
  static constexpr bool kHasDotProducts = false;
  std::int64_t lanes = 0;  // of a panel
  /// c of panels; columns are whole panels. `scratch` has the bytes that scratch() returns.
  void (*multiply)(const RnnFloatProduct&, void* scratch);
  std::size_t (*scratch)(std::int64_t rows, std::int64_t depth);
  /// A panel of the rows, or of the columns, of a matrix; zeros in the other lanes. `depth`: of the panel.
  void (*pack_rows)(DataType, const void* matrix, std::int64_t pitch, std::int64_t depth, std::int64_t rows,
                    float* panel);
  void (*pack_columns)(DataType, const void* matrix, std::int64_t pitch, std::int64_t depth, std::int64_t columns,
                       float* panel);
  /// Of at most kFewRows rows of fp32 by a matrix in place: of [columns, depth], or of [depth, columns].
  static constexpr std::int64_t kFewRows = 4;
  void (*multiply_rows)(const RnnFloatProduct&);
  void (*multiply_columns)(const RnnFloatProduct&);
};

struct RnnProductKernels {
  static constexpr bool kHasDotProducts = true;
  /// Whether they are faster than products in fp32; if not, the other functions are null.
  bool (*has_pairs)();
  void (*multiply)(const RnnProduct&);
  /// A panel of `columns` columns from a matrix [depth, count], count <= columns; zeros in the other columns.
  void (*pack)(const void* matrix, std::int64_t pitch, std::int64_t depth, std::int64_t count, std::int64_t columns,
               void* panel);
};

}  // namespace polymio::kernels
