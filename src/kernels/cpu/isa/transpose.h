// Transposes of matrices, widened to fp32 on load and narrowed on store.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/storage_types.h"
#include "kernels/cpu/isa/store_results.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// dst[e * step + lane] = src[lane * stride + e] for e < count; lanes from `lanes` on are zero.
template <class T>
static inline void transpose_in(const T* src, i64 stride, int lanes, i64 count, float* dst, i64 step) {
  constexpr int kN = kLanes<float>;
  for (i64 e = 0; e < count; e += kN) {
    const int some = static_cast<int>(min_of<i64>(kN, count - e));
    Floats rows[kN];
    if (some == kN && lanes == kN) {
      for (int l = 0; l < kN; ++l) rows[l] = load_widened(src + l * stride + e);
    } else {
      for (int l = 0; l < kN; ++l) rows[l] = l < lanes ? load_widened(src + l * stride + e, some) : Floats{};
    }
    transpose(rows);
    for (int i = 0; i < some; ++i) store(dst + (e + i) * step, rows[i]);
  }
}

/// result = alpha * sum + beta * result.
struct Scaling {
  float alpha, beta;
};

/// p[i] = alpha * v[i] + beta * p[i] for i < n.
template <class T>
static inline void write_scaled(T* p, Floats v, int n, Scaling s) {
  v *= broadcast(s.alpha);
  if (s.beta != 0) v += load_widened(p, n) * broadcast(s.beta);
  n == kLanes<float> ? store_narrowed(p, v) : store_narrowed(p, v, n);
}

template <class R>
static inline void write_scaled(Integer<R>* p, Floats v, int n, Scaling s) {
  const Emit<std::int32_t, R> emit{s.alpha, s.beta};
  emit(&p->value, __builtin_convertvector(v, Vec<std::int32_t>), n);
}

/// The inverse of transpose_in, scaled: dst[lane * stride + e] = alpha * src[e * step + lane] + beta * dst[...].
template <class T>
static inline void transpose_out(const float* src, i64 step, T* dst, i64 stride, int lanes, i64 count, Scaling s) {
  constexpr int kN = kLanes<float>;
  for (i64 e = 0; e < count; e += kN) {
    const int some = static_cast<int>(min_of<i64>(kN, count - e));
    Floats rows[kN];
    for (int i = 0; i < kN; ++i) rows[i] = i < some ? load(src + (e + i) * step) : Floats{};
    transpose(rows);
    for (int l = 0; l < lanes; ++l) write_scaled(dst + l * stride + e, rows[l], some, s);
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
