// Rows of the CTC loss.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/ctc.h"

#include <algorithm>

#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/math_functions.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

using V = Vec<float>;
using I = Ints<float>;
constexpr int kN = kLanes<float>;
static_assert(kCtcPadding % kN == 0);

V larger(V a, V b) { return a > b ? a : b; }

float largest_lane(V v) {
  float largest = v[0];
  for (int i = 1; i < kN; ++i) largest = max_of(largest, v[i]);
  return largest;
}

/// log(1 + x) for 0 <= x <= 2; above 1 it is ln 2 + log(1 + (x - 1) / 2). Exact for 0, which most steps have: an error
/// would be that of all of them.
V log1p_two(V x) {
  const V one = broadcast(1.0f);
  const auto halved = x > one;
  return log1p_unit<float>(halved ? (x - 1.0f) * 0.5f : x) + (halved ? broadcast(0.69314718056f) : V{});
}

CtcSum sum(const float* x, i64 count) {
  constexpr i64 kBlock = 4096;  // an fp32 sum of ones stops at 2^24
  V largest = load(x);
  for (i64 i = kN; i < count; i += kN) largest = larger(largest, load(x + i));
  const float most = largest_lane(largest);
  double all = 0;
  for (i64 first = 0; first < count; first += kBlock) {
    V total{};
    for (i64 i = first; i < std::min(first + kBlock, count); i += kN) total += exp_of<float>(load(x + i) - most);
    for (int i = 0; i < kN; ++i) all += static_cast<double>(total[i]);
  }
  return {most, static_cast<float>(all)};
}

void exponentials(const float* x, i64 count, float shift, float* out) {
  for (i64 i = 0; i < count; i += kN) store(out + i, exp_of<float>(load(x + i) - shift));
}

struct Logs {
  I whole;
  V part;
};

Logs load_logs(const CtcRow& row, i64 s) { return {load(row.whole + s), load(row.part + s)}; }

/// a - b, NaN for NaN.
V difference(const Logs& a, const Logs& b) { return __builtin_convertvector(a.whole - b.whole, V) + (a.part - b.part); }

void step(const CtcStep& job) {
  const I none = I{} + kCtcNone, most = I{} - kCtcNone;
  for (i64 s = 0; s < job.count; s += kN) {
    const Logs a = load_logs(job.previous, s), b = load_logs(job.previous, s - 1);
    Logs c = load_logs(job.previous, s - 2);
    c.whole += load(job.skip + s);
    // The largest of the three, and the logarithms of the others relative to it.
    const V b_over_a = difference(b, a);
    const auto is_b = b_over_a > V{};
    const Logs high{is_b ? b.whole : a.whole, is_b ? b.part : a.part};
    const V c_over_high = difference(c, high);
    const auto is_c = c_over_high > V{};
    const V most_part = is_c ? c.part : high.part;
    const V first = -absolute<float>(c_over_high);
    const V second = -absolute<float>(b_over_a) - (is_c ? c_over_high : V{});
    const V part = (log1p_two(exp_of<float>(first) + exp_of<float>(second)) + most_part) + load(job.log_probs + s);
    const I carried = __builtin_convertvector(part == part ? part : V{}, I);
    const I whole = (is_c ? c.whole : high.whole) + carried;
    store(job.out.whole + s, whole < none ? none : whole > most ? most : whole);
    store(job.out.part + s, part - __builtin_convertvector(carried, V));
  }
}

void posteriors(const CtcPosteriors& job) {
  const V none = broadcast(static_cast<float>(kCtcNone));
  for (i64 s = 0; s < job.count; s += kN) {
    const Logs a = load_logs(job.forward, s), b = load_logs(job.backward, s);
    const V log_prob = load(job.log_probs + s);
    const V exponent = __builtin_convertvector(a.whole + b.whole - job.whole, V) +
                       ((a.part + b.part - job.part) - log_prob * job.passes);
    store(job.out + s, log_prob <= none ? V{} : exp_of<float>(exponent));
  }
}

}  // namespace

template <>
const CtcKernels& entry_points<CtcKernels>() {
  static constexpr CtcKernels kKernels{
      .sum = sum, .exponentials = exponentials, .step = step, .posteriors = posteriors};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
