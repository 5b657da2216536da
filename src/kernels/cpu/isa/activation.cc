// Activation functions: one loop over dense memory for every function, pass and element type.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/activation.h"

#if !defined(__AVX2__) && defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "kernels/cpu/isa/math_functions.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

// miopenActivationMode_t
enum Mode : int { kPassthru, kLogistic, kTanh, kRelu, kSoftrelu, kAbs, kPower, kClippedRelu, kLeakyRelu, kElu };
using Pass = ActivationPass;

// ---- loads and stores: vectors of the arithmetic's type from and to the storage type ----

template <class S>
struct Storage {  // of the 16-bit floats
  using Arithmetic = float;
  using Bits = std::uint16_t;
};
template <>
struct Storage<float> {
  using Arithmetic = float;
  using Bits = float;
};
template <>
struct Storage<double> {
  using Arithmetic = double;
  using Bits = double;
};
template <class S>
using Arith = typename Storage<S>::Arithmetic;
template <class S>
using Stored = typename VecType<typename Storage<S>::Bits, kLanes<Arith<S>>>::type;

template <class S>
Vec<Arith<S>> widen_vector(Stored<S> v) {
  if constexpr (sizeof(S) == sizeof(Arith<S>)) {
    return v;
  } else if constexpr (__is_same(S, Bfloat16)) {
    using Wide = typename VecType<std::uint32_t, kLanes<float>>::type;
    return (Vec<float>)(__builtin_convertvector(v, Wide) << 16);
  } else {
#if defined(__AVX512F__)  // masked: GCC 12 warns about the intrinsics without a mask
    return (Vec<float>)_mm512_maskz_cvtph_ps(0xffff, (__m256i)v);
#elif defined(__F16C__)
    return (Vec<float>)_mm256_cvtph_ps((__m128i)v);
#else
    Vec<float> wide;
    for (int i = 0; i < kLanes<float>; ++i) wide[i] = widen(Half{v[i]});
    return wide;
#endif
  }
}

template <class S>
Stored<S> narrow_vector(Vec<Arith<S>> v) {
  if constexpr (sizeof(S) == sizeof(Arith<S>)) {
    return v;
  } else if constexpr (__is_same(S, Bfloat16)) {
    using Wide = typename VecType<std::uint32_t, kLanes<float>>::type;
    const Wide bits = (Wide)v;
    const Wide rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16, quiet = (bits >> 16) | 0x40u;
    return __builtin_convertvector(v == v ? rounded : quiet, Stored<S>);
  } else {
#if defined(__AVX512F__)
    return (Stored<S>)_mm512_maskz_cvtps_ph(0xffff, (__m512)v, _MM_FROUND_TO_NEAREST_INT);
#elif defined(__F16C__)
    return (Stored<S>)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
#else
    Stored<S> narrowed;
    for (int i = 0; i < kLanes<float>; ++i) narrowed[i] = narrow<Half>(v[i]).bits;
    return narrowed;
#endif
  }
}

template <class S>
Vec<Arith<S>> read(const S* p) {
  Stored<S> v;
  __builtin_memcpy(&v, p, sizeof v);
  return widen_vector<S>(v);
}

template <class S>
void write(S* p, Vec<Arith<S>> v) {
  const Stored<S> narrowed = narrow_vector<S>(v);
  __builtin_memcpy(p, &narrowed, sizeof narrowed);
}

/// write() with a non-temporal store, or a plain one where the instruction set has none; p is aligned to Stored<S>.
template <class S>
void store_non_temporal(S* p, Vec<Arith<S>> v) {
  const Stored<S> narrowed = narrow_vector<S>(v);
#if defined(__AVX512F__)
  if constexpr (sizeof narrowed == 64) return _mm512_stream_si512((__m512i*)p, (__m512i)narrowed);
#endif
#if defined(__AVX2__)
  if constexpr (sizeof narrowed == 32) return _mm256_stream_si256((__m256i*)p, (__m256i)narrowed);
#endif
#if defined(__SSE2__)
  if constexpr (sizeof narrowed == 16) return _mm_stream_si128((__m128i*)p, (__m128i)narrowed);
#endif
  __builtin_memcpy(p, &narrowed, sizeof narrowed);
}

// ---- the functions ----

template <class T>
struct Constants {
  T alpha, beta, gamma, inverse_beta;  // inverse_beta is 0 for beta 0
  explicit Constants(const Activation& job)
      : alpha(static_cast<T>(job.alpha)),
        beta(static_cast<T>(job.beta)),
        gamma(static_cast<T>(job.gamma)),
        inverse_beta(beta != 0 ? 1 / beta : 0) {}
};

/// (alpha + beta x) ^ gamma, or dy times its derivative; 0 where the base is 0 or less.
static inline Vec<double> power(Vec<double> x, const Constants<double>& c, bool derivative, Vec<double> dy) {
  const Vec<double> zero{}, base = x * c.beta + c.alpha;
  Vec<double> v;
  for (int i = 0; i < kLanes<double>; ++i) v[i] = __builtin_pow(base[i], derivative ? c.gamma - 1 : c.gamma);
  if (derivative) v = v * (c.gamma * c.beta) * dy;
  return base <= zero ? zero : v;
}

/// In double, since an exponent multiplies the relative error.
static inline Vec<float> power(Vec<float> x, const Constants<float>& c, bool derivative, Vec<float> dy) {
  using Half = typename VecType<float, kLanes<double>>::type;
  const Vec<double> zero{};
  const double alpha = c.alpha, beta = c.beta, gamma = c.gamma;
  Half in[2], grad[2], out[2];
  __builtin_memcpy(in, &x, sizeof x);
  __builtin_memcpy(grad, &dy, sizeof dy);
  for (int h = 0; h < 2; ++h) {
    const Vec<double> base = __builtin_convertvector(in[h], Vec<double>) * beta + alpha;
    // 1 where the result is not used: subnormal intermediate results would be slow.
    Vec<double> v = power_for_float(base <= zero ? broadcast(1.0) : base, derivative ? gamma - 1 : gamma);
    if (derivative) v = v * (gamma * beta) * __builtin_convertvector(grad[h], Vec<double>);
    out[h] = __builtin_convertvector(base <= zero ? zero : v, Half);
  }
  Vec<float> result;
  __builtin_memcpy(&result, out, sizeof result);
  return result;
}

/// f(x). NaN stays NaN.
template <int kMode, class T>
Vec<T> forward(Vec<T> x, const Constants<T>& c) {
  const Vec<T> zero{}, one = broadcast<T>(1);
  if constexpr (kMode == kLogistic) {
    const Vec<T> u = exp_of<T>(-absolute<T>(x));
    return (x >= zero ? one : u) / (one + u);
  } else if constexpr (kMode == kTanh) {
    const Vec<T> z = x * c.alpha, u = expm1_down<T>(-2 * absolute<T>(z));
    return with_sign<T>(u / (u + 2), z) * c.beta;
  } else if constexpr (kMode == kRelu) {
    return x <= zero ? zero : x;
  } else if constexpr (kMode == kSoftrelu) {
    return (x > zero ? x : zero) + log1p_unit<T>(exp_of<T>(-absolute<T>(x)));
  } else if constexpr (kMode == kAbs) {
    return absolute<T>(x);
  } else if constexpr (kMode == kPower) {
    return power(x, c, false, zero);
  } else if constexpr (kMode == kClippedRelu) {
    const Vec<T> positive = x <= zero ? zero : x, top = broadcast<T>(c.alpha);
    return positive > top ? top : positive;
  } else if constexpr (kMode == kLeakyRelu) {
    return x <= zero ? x * c.alpha : x;
  } else if constexpr (kMode == kElu) {
    return x <= zero ? expm1_down<T>(x) * c.alpha : x;
  }
  return x;
}

/// dy f'(x). At a kink it is the derivative from the left, except that of |x| at 0, which is 0.
template <int kMode, class T>
Vec<T> backward(Vec<T> x, Vec<T> dy, const Constants<T>& c) {
  const Vec<T> zero{}, one = broadcast<T>(1);
  if constexpr (kMode == kLogistic) {
    const Vec<T> u = exp_of<T>(-absolute<T>(x)), d = one + u;
    return dy * (u / (d * d));
  } else if constexpr (kMode == kTanh) {
    const Vec<T> u = exp_of<T>(-2 * absolute<T>(x * c.alpha)), d = one + u;
    return dy * (u / (d * d)) * (4 * c.alpha * c.beta);
  } else if constexpr (kMode == kRelu) {
    return x <= zero ? zero : dy;
  } else if constexpr (kMode == kSoftrelu) {
    const Vec<T> u = exp_of<T>(-absolute<T>(x));
    return dy * ((x >= zero ? one : u) / (one + u));
  } else if constexpr (kMode == kAbs) {
    return x < zero ? -dy : x > zero ? dy : zero;
  } else if constexpr (kMode == kPower) {
    return power(x, c, true, dy);
  } else if constexpr (kMode == kClippedRelu) {
    const Vec<T> below = x > broadcast<T>(c.alpha) ? zero : dy;
    return x <= zero ? zero : below;
  } else if constexpr (kMode == kLeakyRelu) {
    return x <= zero ? dy * c.alpha : dy;
  } else if constexpr (kMode == kElu) {
    return x <= zero ? dy * (exp_of<T>(x) * c.alpha) : dy;
  }
  return dy;
}

/// backward() from y = f(x), for the modes where y suffices.
template <int kMode, class T>
Vec<T> backward_from_y(Vec<T> y, Vec<T> dy, const Constants<T>& c) {
  const Vec<T> one = broadcast<T>(1);
  if constexpr (kMode == kLogistic) {
    return dy * (y * (one - y));
  } else if constexpr (kMode == kTanh) {
    const Vec<T> t = y * c.inverse_beta;
    return dy * ((one - t * t) * (c.alpha * c.beta));
  } else if constexpr (kMode == kSoftrelu) {
    return dy * -expm1_down<T>(-y);
  } else if constexpr (kMode == kElu) {
    return y <= Vec<T>{} ? dy * (y + c.alpha) : dy;
  }
  return dy;
}

// ---- the loop ----

/// The loop over elements: result = scale * f(x) + keep * result.
template <int kMode, Pass kPass, class S>
class Sweep {
 public:
  using T = Arith<S>;

  explicit Sweep(const Activation& job)
      : job_(job),
        c_(job),
        scale_(static_cast<T>(job.scale)),
        result_scale_(static_cast<T>(job.keep)),
        x_(static_cast<const S*>(job.x)),
        dy_(static_cast<const S*>(job.dy)),
        out_(static_cast<S*>(job.result)) {}

  void run(i64 i, i64 end) const {
    if (job_.non_temporal && result_scale_ == 0 && job_.x != job_.result && job_.dy != job_.result) {
      i = align(i, end);
      for (; i + kStep <= end; i += kStep) store_non_temporal<S>(out_ + i, value(i));
#if defined(__SSE2__)
      _mm_sfence();  // other threads read the result when they see that the task is done
#endif
    }
    for (; i + kStep <= end; i += kStep) write<S>(out_ + i, value(i));
    if (i < end) part(i, static_cast<int>(end - i));
  }

 private:
  static constexpr i64 kStep = kLanes<T>;

  Vec<T> compute(Vec<T> x, Vec<T> dy) const {
    if constexpr (kPass == Pass::kForward) return forward<kMode, T>(x, c_);
    if constexpr (kPass == Pass::kBackward) return backward<kMode, T>(x, dy, c_);
    return backward_from_y<kMode, T>(x, dy, c_);
  }
  Vec<T> value(i64 i) const {
    Vec<T> dy{};
    if constexpr (kPass != Pass::kForward) dy = read<S>(dy_ + i);
    Vec<T> v = compute(read<S>(x_ + i), dy) * scale_;
    if (result_scale_ != 0) v = v + read<S>(out_ + i) * result_scale_;
    return v;
  }

  /// n < kStep elements, through full vectors on the stack.
  __attribute__((noinline)) void part(i64 i, int n) const {
    S x[kStep] = {}, dy[kStep] = {}, out[kStep] = {};
    const auto bytes = static_cast<std::size_t>(n) * sizeof(S);
    __builtin_memcpy(x, x_ + i, bytes);
    if constexpr (kPass != Pass::kForward) __builtin_memcpy(dy, dy_ + i, bytes);
    if (result_scale_ != 0) __builtin_memcpy(out, out_ + i, bytes);
    Vec<T> v = compute(read<S>(x), read<S>(dy)) * scale_;
    if (result_scale_ != 0) v = v + read<S>(out) * result_scale_;
    write<S>(out, v);
    __builtin_memcpy(out_ + i, out, bytes);
  }

  /// Computes the elements up to the first aligned vector of the result; returns its index.
  i64 align(i64 i, i64 end) const {
    const auto past = reinterpret_cast<std::uintptr_t>(out_ + i) % sizeof(Stored<S>);
    const i64 n = past == 0 ? 0 : min_of<i64>(end - i, static_cast<i64>((sizeof(Stored<S>) - past) / sizeof(S)));
    if (n > 0) part(i, static_cast<int>(n));
    return i + n;
  }

  const Activation& job_;
  Constants<T> c_;
  T scale_, result_scale_;
  const S *x_, *dy_;
  S* out_;
};

template <int kMode, Pass kPass, class S>
void sweep(const Activation& job, i64 first, i64 end) {
  Sweep<kMode, kPass, S>(job).run(first, end);
}

constexpr int mode_of(std::size_t index) { return static_cast<int>(index) / kActivationPasses; }
constexpr Pass pass_of(std::size_t index) {
  const int mode = mode_of(index);
  const Pass pass = static_cast<Pass>(static_cast<int>(index) % kActivationPasses);
  const bool has_own = mode == kLogistic || mode == kTanh || mode == kSoftrelu || mode == kElu;
  return pass == Pass::kBackwardFromY && !has_own ? Pass::kBackward : pass;
}

/// The loop for each mode and pass.
using Entry = void (*)(const Activation& job, i64 first, i64 end);

template <class S, std::size_t... I>
Entry entry(std::size_t index, std::index_sequence<I...>) {
  static constexpr Entry kEntries[] = {&sweep<mode_of(I), pass_of(I), S>...};
  return kEntries[index];
}

template <class S>
void run(const Activation& job, i64 first, i64 end) {
  const auto index = static_cast<std::size_t>(job.mode * kActivationPasses + static_cast<int>(job.pass));
  entry<S>(index, std::make_index_sequence<kActivationModes * kActivationPasses>{})(job, first, end);
}

void activation(const Activation& job, i64 first, i64 end) {
  switch (job.type) {
    case DataType::kHalf: return run<Half>(job, first, end);
    case DataType::kBFloat16: return run<Bfloat16>(job, first, end);
    case DataType::kDouble: return run<double>(job, first, end);
    default: return run<float>(job, first, end);
  }
}

}  // namespace

template <>
const ActivationKernels& entry_points<ActivationKernels>() {
  static constexpr ActivationKernels kKernels{.run = activation};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
