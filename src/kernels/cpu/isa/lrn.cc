// Local response normalisation: maps for each element type and usual exponent, and the sums of windows.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/lrn.h"

#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/lrn_windows.h"
#include "kernels/cpu/isa/skeletons/map.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

/// Values of beta; the first three need no logarithm.
enum Exponent : int { kThreeQuarters, kOneHalf, kOne, kAny, kExponents };

int exponent_of(double beta) {
  return beta == 0.75 ? kThreeQuarters : beta == 0.5 ? kOneHalf : beta == 1 ? kOne : kAny;
}

static inline Vec<double> power(Vec<double> base, double exponent) {
  for (int i = 0; i < kLanes<double>; ++i) base[i] = __builtin_pow(base[i], exponent);
  return base;
}
/// In double, since an exponent multiplies the relative error.
static inline Vec<float> power(Vec<float> base, double exponent) {
  using Half = typename VecType<float, kLanes<double>>::type;
  const Vec<double> zero{}, at_zero = broadcast(__builtin_pow(0, exponent)), nan = broadcast(__builtin_nan(""));
  Half parts[2];
  __builtin_memcpy(parts, &base, sizeof base);
  for (Half& part : parts) {
    const Vec<double> wide = __builtin_convertvector(part, Vec<double>);
    const Vec<double> normal = wide <= zero ? broadcast(1.0) : wide;
    Vec<double> v = power_for_float(normal, exponent);
    v = wide == zero ? at_zero : v;
    v = wide < zero ? nan : v;
    part = __builtin_convertvector(v, Half);
  }
  __builtin_memcpy(&base, parts, sizeof base);
  return base;
}

#if defined(__AVX512F__)
/// About 14 bits of 1 / sqrt(v).
static inline Vec<float> estimated_inverse_root(Vec<float> v) {
  return (Vec<float>)_mm512_maskz_rsqrt14_ps(0xffff, (__m512)v);
}
#endif

/// 1 / sqrt(v).
template <class T>
static inline Vec<T> inverse_root(Vec<T> v) {
#if defined(__AVX512F__)
  if constexpr (__is_same(T, float)) {
    // A step of Newton's method, which gives NaN for 0 and infinity.
    const Vec<float> r = estimated_inverse_root(v);
    const Vec<float> closer = r * (1.5f - (0.5f * r) * (v * r));
    return closer == closer ? closer : r;
  }
#endif
  return broadcast<T>(1) / square_root(v);
}

/// v ^ -0.75.
template <class T>
static inline Vec<T> inverse_three_quarters(Vec<T> v) {
#if defined(__AVX512F__)
  if constexpr (__is_same(T, float)) {
    // As above: the error is a quarter of 1 - q^4 v^3, whose factors are near v^-1/2 and v^1/2, so that they neither
    // overflow nor underflow.
    const Vec<float> r = estimated_inverse_root(v), q = r * (r * estimated_inverse_root(r));
    const Vec<float> inverse = q * (q * v);
    const Vec<float> closer = q + 0.25f * q * (1 - inverse * (inverse * v));
    return closer == closer ? closer : r;
  }
#endif
  const Vec<T> r = broadcast<T>(1) / square_root(square_root(v));
  return r * r * r;
}

template <class T>
struct Constants {
  T k, factor, ratio;
  double exponent;
  explicit Constants(const Lrn& job)
      : k(static_cast<T>(job.k)),
        factor(static_cast<T>(job.factor)),
        ratio(static_cast<T>(job.ratio)),
        exponent(-job.beta) {}
};

/// Not inlined: copies at every use made the code for AVX-512 a third larger.
template <class T>
[[gnu::noinline]] Vec<T> any_power(Vec<T> v, double exponent) {
  return power(v, exponent);
}

/// scale ^ -beta.
template <int kExponent, class T>
[[gnu::always_inline]] inline Vec<T> normaliser(Vec<T> scale, const Constants<T>& c) {
  if constexpr (kExponent == kAny) return any_power<T>(scale, c.exponent);
  if constexpr (kExponent == kOne) return broadcast<T>(1) / scale;
  if constexpr (kExponent == kOneHalf) return inverse_root<T>(scale);
  return inverse_three_quarters<T>(scale);
}

template <class T>
struct Square {
  Vec<T> operator()(Vec<T> x) const { return x * x; }
};

/// kStored: the scale is given, else the sum of squares.
template <bool kStored, class T>
Vec<T> scale_of(Vec<T> given, const Constants<T>& c) {
  return kStored ? given : given * c.factor + c.k;
}

template <bool kStored, class T>
struct Product {
  Vec<T> operator()(Vec<T> dy, Vec<T> given, Vec<T> y) const { return y * dy / scale_of<kStored>(given, c); }
  Constants<T> c;
};

template <int kExponent, class T>
struct Forward {
  Vec<T> operator()(Vec<T> x, Vec<T> sums) const { return x * normaliser<kExponent, T>(scale_of<false>(sums, c), c); }
  Constants<T> c;
};
template <int kExponent, class T>
struct ForwardWithScale {
  Vectors<T, 2> operator()(Vec<T> x, Vec<T> sums) const {
    const Vec<T> scale = scale_of<false>(sums, c);
    return {{x * normaliser<kExponent, T>(scale, c), scale}};
  }
  Constants<T> c;
};
template <int kExponent, bool kStored, class T>
struct Backward {
  Vec<T> operator()(Vec<T> x, Vec<T> dy, Vec<T> given, Vec<T> sums) const {
    return dy * normaliser<kExponent, T>(scale_of<kStored>(given, c), c) - x * c.ratio * sums;
  }
  Constants<T> c;
};

template <class S>
using Arithmetic = std::conditional_t<kIs16BitFloat<S>, float, S>;

template <int kExponent, class S>
void forward_of(const Lrn& job, const Run& run) {
  using T = Arithmetic<S>;
  const Constants<T> c(job);
  if (run.out[1]) return map<T, Types<S, T>, Types<S, S>>(ForwardWithScale<kExponent, T>{c}, run);
  map<T, Types<S, T>, Types<S>>(Forward<kExponent, T>{c}, run, Streaming{job.non_temporal});
}

template <int kExponent, class S>
void windows_of(const Lrn& job, const LrnRows& rows) {
  using T = Arithmetic<S>;
  using F = Forward<kExponent, T>;
  LrnWindowRows<S, T, F>(F{Constants<T>(job)}, rows, job.non_temporal).compute();
  if (job.non_temporal) finish_non_temporal_stores();
}

template <int kExponent, class S>
void backward_of(const Lrn& job, const Run& run) {
  using T = Arithmetic<S>;
  const Constants<T> c(job);
  const Streaming how{job.non_temporal};
  if (job.has_scale) return map<T, Types<S, S, S, T>, Types<S>>(Backward<kExponent, true, T>{c}, run, how);
  map<T, Types<S, S, T, T>, Types<S>>(Backward<kExponent, false, T>{c}, run, how);
}

template <class T>
void window_of(T* sums, i64 taps, i64 step, i64 n) {
  constexpr i64 kStep = kLanes<T>;
  i64 i = 0;
  // Each store is before what later iterations read.
  for (; i + 4 * kStep <= n; i += 4 * kStep) {
    Vec<T> sum[4];
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u) sum[u] = load(sums + i + u * kStep);
    for (i64 t = 1; t < taps; ++t) {
      const T* const tap = sums + i + t * step;
#pragma GCC unroll 4
      for (int u = 0; u < 4; ++u) sum[u] = sum[u] + load(tap + u * kStep);
    }
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u) store(sums + i + u * kStep, sum[u]);
  }
  for (; i < n; i += kStep) {
    Vec<T> sum = load(sums + i);
    for (i64 t = 1; t < taps; ++t) sum = sum + load(sums + i + t * step);
    store(sums + i, sum);
  }
}

/// Calls body(null pointer to S) with S: the storage type.
template <class Body>
void with_type(DataType type, const Body& body) {
  switch (type) {
    case DataType::kHalf: return body(static_cast<Half*>(nullptr));
    case DataType::kBFloat16: return body(static_cast<Bfloat16*>(nullptr));
    case DataType::kDouble: return body(static_cast<double*>(nullptr));
    default: return body(static_cast<float*>(nullptr));
  }
}

void squares(const Lrn& job, const Run& run) {
  with_type(job.type, [&]<class S>(S*) {
    using T = Arithmetic<S>;
    map<T, Types<S>, Types<T>>(Square<T>{}, run);
  });
}

void products(const Lrn& job, const Run& run) {
  with_type(job.type, [&]<class S>(S*) {
    using T = Arithmetic<S>;
    const Constants<T> c(job);
    if (job.has_scale) return map<T, Types<S, S, S>, Types<T>>(Product<true, T>{c}, run);
    map<T, Types<S, T, S>, Types<T>>(Product<false, T>{c}, run);
  });
}

void window(const Lrn& job, void* sums, i64 taps, i64 step, i64 n) {
  if (job.type == DataType::kDouble) return window_of(static_cast<double*>(sums), taps, step, n);
  window_of(static_cast<float*>(sums), taps, step, n);
}

void forward(const Lrn& job, const Run& run) {
  with_type(job.type, [&]<class S>(S*) {
    static constexpr decltype(&forward) kEntries[kExponents] = {forward_of<kThreeQuarters, S>, forward_of<kOneHalf, S>,
                                                                forward_of<kOne, S>, forward_of<kAny, S>};
    kEntries[exponent_of(job.beta)](job, run);
  });
}

void forward_windows(const Lrn& job, const LrnRows& rows) {
  with_type(job.type, [&]<class S>(S*) {
    static constexpr decltype(&forward_windows) kEntries[kExponents] = {
        windows_of<kThreeQuarters, S>, windows_of<kOneHalf, S>, windows_of<kOne, S>, windows_of<kAny, S>};
    kEntries[exponent_of(job.beta)](job, rows);
  });
}

void backward(const Lrn& job, const Run& run) {
  with_type(job.type, [&]<class S>(S*) {
    static constexpr decltype(&backward) kEntries[kExponents] = {
        backward_of<kThreeQuarters, S>, backward_of<kOneHalf, S>, backward_of<kOne, S>, backward_of<kAny, S>};
    kEntries[exponent_of(job.beta)](job, run);
  });
}

}  // namespace

template <>
const LrnKernels& entry_points<LrnKernels>() {
  static constexpr LrnKernels kKernels{.squares = squares,
                                       .products = products,
                                       .window = window,
                                       .forward_windows = forward_windows,
                                       .forward = forward,
                                       .backward = backward};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
