// Products of the state of recurrent networks with packed weights, in bf16 pairs (vdpbf16ps, AMX).
// Instruction sets: also those that add dot products.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/dot_operands.h"
#include "kernels/cpu/isa/row_tiles.h"
#include "kernels/cpu/rnn.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

bool has_pairs() { return kHasAmx || prefers_bf16_dot(); }

#if defined(__AVX512BF16__)

constexpr i64 kPairLanes = kLanes<std::int32_t>, kPairBytes = 4;

void multiply(const RnnProduct& p) {
  Amx amx;
  // Whole panels, which are then read once and in sequence; of tile registers only as many as hold all sums.
  const i64 vectors = p.columns / kPairLanes, step = kHasAmx && p.rows > kAmxHeight ? 2 : 4;
  for (i64 panel = 0; panel < p.count; ++panel) {
    const char* const b = static_cast<const char*>(p.panels) + panel * p.depth / 2 * p.columns * kPairBytes;
    for (i64 v = 0; v < vectors; v += step) {
      Micro m{.a = p.a,
              .b = b + v * kVectorBytes,
              .depth = p.depth / 2,
              .a_row = p.a_pitch * kPairBytes / 2,
              .a_step = kPairBytes,
              .b_step = p.columns * kPairBytes,
              .c = p.c + panel * p.columns + v * kPairLanes,
              .c_row = p.c_pitch * static_cast<i64>(sizeof(float))};
      multiply_rows(amx, Dot::kBf16, p.rows, min_of(step, vectors - v), m);
    }
  }
}

void pack(const void* matrix, i64 pitch, i64 depth, i64 count, i64 columns, void* panel) {
  const auto* line = static_cast<const Bfloat16*>(matrix);
  auto* to = static_cast<std::int32_t*>(panel);
  for (i64 d = 0; d < depth; d += 2, line += 2 * pitch)
    for (i64 c = 0; c < columns; c += kPairLanes, to += kPairLanes)
      store(to, c < count ? interleave_pairs(line + c, line + pitch + c, min_of(kPairLanes, count - c))
                          : Vec<std::int32_t>{});
}

constexpr RnnProductKernels kKernels{.has_pairs = has_pairs, .multiply = multiply, .pack = pack};

#else

constexpr RnnProductKernels kKernels{.has_pairs = has_pairs, .multiply = nullptr, .pack = nullptr};

#endif

}  // namespace

template <>
const RnnProductKernels& entry_points<RnnProductKernels>() {
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
