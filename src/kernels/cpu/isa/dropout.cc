// Dropout: the steps of many generators at once, and the map that applies a mask.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/dropout.h"

#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/skeletons/map.h"
#include "kernels/gpu/portable/xorwow.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

using Numbers = Vec<std::uint32_t>;

void draw(const Draws& draws, std::uint32_t* states, i64 pitch, i64 n, std::uint8_t* mask) {
  constexpr i64 kStep = kLanes<std::uint32_t>;
  using Bytes = typename VecType<std::uint8_t, kStep>::type;
  const Numbers least = broadcast(draws.least), any = broadcast(draws.any ? 1u : 0u);
  for (i64 i = 0; i < n; i += kStep) {
    std::uint32_t* const at = states + i;
    Numbers w[6], v;
    for (int k = 0; k < 6; ++k) w[k] = load(at + k * pitch);
    XORWOW_STEP(w[0], w[1], w[2], w[3], w[4], w[5], v);
    for (int k = 0; k < 6; ++k) store(at + k * pitch, w[k]);
    const Bytes kept = __builtin_convertvector((Numbers)(v >= least) & any, Bytes);
    if (i + kStep <= n)
      __builtin_memcpy(mask + i, &kept, kStep);
    else
      __builtin_memcpy(mask + i, &kept, static_cast<std::size_t>(n - i));
  }
}

/// T: the type of the arithmetic.
template <class T>
struct Apply {
  Vec<T> operator()(Vec<T> x, Vec<T> mask) const { return mask != Vec<T>{} ? x * scale : Vec<T>{}; }
  T scale;
};

template <class S>
void apply_to(double scale, bool non_temporal, const Run& run) {
  using T = std::conditional_t<kIs16BitFloat<S>, float, S>;
  map<T, Types<S, std::int8_t>, Types<S>>(Apply<T>{static_cast<T>(scale)}, run, Streaming{non_temporal});
}

void apply(DataType type, double scale, bool non_temporal, const Run& run) {
  switch (type) {
    case DataType::kHalf: return apply_to<Half>(scale, non_temporal, run);
    case DataType::kBFloat16: return apply_to<Bfloat16>(scale, non_temporal, run);
    case DataType::kDouble: return apply_to<double>(scale, non_temporal, run);
    default: return apply_to<float>(scale, non_temporal, run);
  }
}

}  // namespace

template <>
const DropoutKernels& entry_points<DropoutKernels>() {
  static constexpr DropoutKernels kKernels{.draw = draw, .apply = apply};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
