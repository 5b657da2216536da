// Activation functions: a map for every function, pass and element type.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/activation.h"

#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/skeletons/map.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

// miopenActivationMode_t, and one more
enum Mode : int {
  kPassthru,
  kLogistic,
  kTanh,
  kRelu,
  kSoftrelu,
  kAbs,
  kPower,
  kClippedRelu,
  kLeakyRelu,
  kElu,
  kClamp,
  kSwish
};
using Pass = ActivationPass;

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

template <class T>
Vec<T> logistic(Vec<T> x) {
  const Vec<T> one = broadcast<T>(1), u = exp_of<T>(-absolute<T>(x));
  return (x >= Vec<T>{} ? one : u) / (one + u);
}

/// f(x). NaN stays NaN.
template <int kMode, class T>
Vec<T> forward(Vec<T> x, const Constants<T>& c) {
  const Vec<T> zero{};
  if constexpr (kMode == kLogistic) {
    return logistic<T>(x);
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
  } else if constexpr (kMode == kClamp) {
    const Vec<T> bottom = broadcast<T>(c.alpha), top = broadcast<T>(c.beta), below = x > top ? top : x;
    return below < bottom ? bottom : below;
  } else if constexpr (kMode == kSwish) {
    return x * logistic<T>(x * c.alpha);
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
    return dy * logistic<T>(x);
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
  } else if constexpr (kMode == kClamp) {
    const Vec<T> below = x > broadcast<T>(c.beta) ? zero : dy;
    return x <= broadcast<T>(c.alpha) ? zero : below;
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

// ---- the maps ----

template <int kMode, class T>
struct Forward {
  Vec<T> operator()(Vec<T> x) const { return forward<kMode, T>(x, c); }
  Constants<T> c;
};
template <int kMode, class T>
struct Backward {
  Vec<T> operator()(Vec<T> x, Vec<T> dy) const { return backward<kMode, T>(x, dy, c); }
  Constants<T> c;
};
template <int kMode, class T>
struct BackwardFromY {
  Vec<T> operator()(Vec<T> y, Vec<T> dy) const { return backward_from_y<kMode, T>(y, dy, c); }
  Constants<T> c;
};

/// Elements [first, end); S: the storage type.
template <int kMode, Pass kPass, class S>
void compute(const Activation& job, i64 first, i64 end) {
  using T = std::conditional_t<kIs16BitFloat<S>, float, S>;
  const Constants<T> c(job);
  const Blend blend{job.scale, job.keep, job.non_temporal};
  Run run;
  run.in[0] = static_cast<const S*>(job.x) + first;
  run.out[0] = static_cast<S*>(job.result) + first;
  run.n = end - first;
  if constexpr (kPass == Pass::kForward) return map<T, Types<S>, Types<S>>(Forward<kMode, T>{c}, run, blend);
  run.in[1] = static_cast<const S*>(job.dy) + first;
  if constexpr (kPass == Pass::kBackward) return map<T, Types<S, S>, Types<S>>(Backward<kMode, T>{c}, run, blend);
  if constexpr (kPass == Pass::kBackwardFromY)
    return map<T, Types<S, S>, Types<S>>(BackwardFromY<kMode, T>{c}, run, blend);
}

template <class T>
struct Glu {
  Vec<T> operator()(Vec<T> a, Vec<T> b) const { return a * forward<kLogistic, T>(b, c); }
  Constants<T> c;
};
/// Gradients of both halves.
template <class T>
struct GluBackward {
  Vectors<T, 2> operator()(Vec<T> a, Vec<T> b, Vec<T> dy) const {
    return {{dy * forward<kLogistic, T>(b, c), backward<kLogistic, T>(b, dy * a, c)}};
  }
  Constants<T> c;
};

template <class S>
void glu_of(bool backward, const Run& run) {
  using T = std::conditional_t<kIs16BitFloat<S>, float, S>;
  const Constants<T> c{Activation{}};
  if (backward) return map<T, Types<S, S, S>, Types<S, S>>(GluBackward<T>{c}, run);
  map<T, Types<S, S>, Types<S>>(Glu<T>{c}, run);
}

constexpr int mode_of(std::size_t index) { return static_cast<int>(index) / kActivationPasses; }
constexpr Pass pass_of(std::size_t index) {
  const int mode = mode_of(index);
  if (mode == kSwish) return Pass::kForward;  // epilogues have no gradients
  const Pass pass = static_cast<Pass>(static_cast<int>(index) % kActivationPasses);
  const bool has_own = mode == kLogistic || mode == kTanh || mode == kSoftrelu || mode == kElu;
  return pass == Pass::kBackwardFromY && !has_own ? Pass::kBackward : pass;
}

/// The map for each mode and pass.
using Entry = void (*)(const Activation& job, i64 first, i64 end);

template <class S, std::size_t... I>
Entry entry(std::size_t index, std::index_sequence<I...>) {
  static constexpr Entry kEntries[] = {&compute<mode_of(I), pass_of(I), S>...};
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

void glu(DataType type, bool backward, const Run& run) {
  switch (type) {
    case DataType::kHalf: return glu_of<Half>(backward, run);
    case DataType::kBFloat16: return glu_of<Bfloat16>(backward, run);
    case DataType::kDouble: return glu_of<double>(backward, run);
    default: return glu_of<float>(backward, run);
  }
}

}  // namespace

template <>
const ActivationKernels& entry_points<ActivationKernels>() {
  static constexpr ActivationKernels kKernels{.run = activation, .glu = glu};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
