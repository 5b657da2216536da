// Operations on blocks of floats. Functions that map.h's neighbours lack: the logarithm, tanh and the error function.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/chain.h"

#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/skeletons/map.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

using V = Vec<float>;
using I = Ints<float>;

V number(float v) { return broadcast<float>(v); }

V log_of(V x) {
  const I subnormal = x < number(0x1p-126f);
  const V normal = absolute<float>(subnormal ? x * 0x1p24f : x);
  const I least = (I)number(0.70710678f);
  const I n = ((I)normal - least) >> 23;
  const V m = (V)((I)normal - (n << 23));  // in [sqrt(1/2), sqrt(2))
  const V s = (m - 1) / (m + 1), q = s * s, twice = s + s;
  const V whole = __builtin_convertvector(subnormal ? n - 24 : n, V);
  const V log_m = twice + twice * (q * log_series<float, Float<float>::kLogTerms>(q));
  const V result = whole * Float<float>::kLn2High + (log_m + whole * Float<float>::kLn2Low);
  const V infinity = number(__builtin_inff());
  const V special = x == 0 ? -infinity : x > 0 ? x : number(__builtin_nanf(""));
  return ((x > 0) & (x < infinity)) ? result : special;
}

V tanh_of(V x) {
  const V e = expm1_down<float>(absolute<float>(x) * -2);
  const V t = -e / (e + 2);
  return x == x ? with_sign<float>(t, x) : x;
}

/// Below 2 the series 2 / sqrt(pi) e^-x^2 (x + 2 x^3 / 3 + 4 x^5 / 15 ...), whose terms are positive; above the
/// continued fraction of erfc(x) = e^-x^2 / sqrt(pi) / (x + 1/2 / (x + 1 / (x + 3/2 / ...))).
V erf_of(V x) {
  constexpr int kTerms = 24, kDepth = 12;
  const V v = absolute<float>(x), limit = number(2);
  const V near = v < limit ? v : limit, far = v < limit ? limit : v;
  const V u = near * near * 2;
  V sum = number(1);
  for (int k = kTerms; k >= 1; --k) sum = sum * (u * (1.0f / static_cast<float>(2 * k + 1))) + 1;
  V fraction = far;
  for (int k = kDepth; k >= 1; --k) fraction = far + number(0.5f * static_cast<float>(k)) / fraction;
  const V e = exp_of<float>(-(v * v)) * 1.12837917f;
  const V result = v < limit ? near * sum * e : 1 - e * 0.5f / fraction;
  return x == x ? with_sign<float>(result, x) : x;
}

// Loops over blocks stay rolled: they are many, and their bodies long enough.
template <class F>
void unary(const ChainStep<float>& s, const F& f) {
#pragma GCC unroll 1
  for (i64 i = 0; i < kChainBlock; i += kLanes<float>) store(s.out + i, f(load(s.a + i)));
}
template <class F>
void binary(const ChainStep<float>& s, const F& f) {
#pragma GCC unroll 1
  for (i64 i = 0; i < kChainBlock; i += kLanes<float>) store(s.out + i, f(load(s.a + i), load(s.b + i)));
}

V truth(I condition) { return condition ? number(1) : V{}; }

void apply(const ChainStep<float>& s) {
  switch (s.op) {
    case ChainOp::kConstant:
#pragma GCC unroll 1
      for (i64 i = 0; i < kChainBlock; i += kLanes<float>) store(s.out + i, number(s.shift));
      return;
    case ChainOp::kAffine: {
      const V scale = number(s.scale), shift = number(s.shift);
      return unary(s, [&](V a) { return a * scale + shift; });
    }
    case ChainOp::kAdd: return binary(s, [](V a, V b) { return a + b; });
    case ChainOp::kSub: return binary(s, [](V a, V b) { return a - b; });
    case ChainOp::kMul: return binary(s, [](V a, V b) { return a * b; });
    case ChainOp::kDiv: return binary(s, [](V a, V b) { return a / b; });
    case ChainOp::kMin: return binary(s, [](V a, V b) { return ((a < b) | (a != a)) ? a : b; });
    case ChainOp::kMax: return binary(s, [](V a, V b) { return ((a > b) | (a != a)) ? a : b; });
    case ChainOp::kMinNumber: return binary(s, [](V a, V b) { return ((a < b) | (b != b)) ? a : b; });
    case ChainOp::kMaxNumber: return binary(s, [](V a, V b) { return ((a > b) | (b != b)) ? a : b; });
    case ChainOp::kLess: return binary(s, [](V a, V b) { return truth(a < b); });
    case ChainOp::kLessEqual: return binary(s, [](V a, V b) { return truth(a <= b); });
    case ChainOp::kEqual: return binary(s, [](V a, V b) { return truth(a == b); });
    case ChainOp::kSelect:
#pragma GCC unroll 1
      for (i64 i = 0; i < kChainBlock; i += kLanes<float>) {
        const V a = load(s.a + i), b = load(s.b + i), c = load(s.c + i);
        store(s.out + i, a != V{} ? b : c);
      }
      return;
    case ChainOp::kAbs: return unary(s, [](V a) { return absolute<float>(a); });
    case ChainOp::kExp: return unary(s, [](V a) { return exp_of<float>(a); });
    case ChainOp::kExpm1: return unary(s, [](V a) { return expm1_down<float>(a); });
    case ChainOp::kLog: return unary(s, log_of);
    case ChainOp::kLog1p: return unary(s, [](V a) { return log1p_unit<float>(a); });
    case ChainOp::kTanh: return unary(s, tanh_of);
    case ChainOp::kErf: return unary(s, erf_of);
    default: __builtin_unreachable();
  }
}

struct Same {
  V operator()(V v) const { return v; }
};

void load_floats(DataType type, const void* from, float* to, i64 n) {
  Run run;
  run.in[0] = from;
  run.out[0] = to;
  run.n = n;
  if (type == DataType::kHalf) return map<float, Types<Half>, Types<float>>(Same{}, run);
  map<float, Types<Bfloat16>, Types<float>>(Same{}, run);
}

void store_floats(DataType type, const float* from, void* to, i64 n) {
  Run run;
  run.in[0] = from;
  run.out[0] = to;
  run.n = n;
  if (type == DataType::kHalf) return map<float, Types<float>, Types<Half>>(Same{}, run);
  map<float, Types<float>, Types<Bfloat16>>(Same{}, run);
}

}  // namespace

template <>
const ChainKernels& entry_points<ChainKernels>() {
  static constexpr ChainKernels kKernels{.apply = apply, .load = load_floats, .store = store_floats};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
