// Rows of the CTC loss: logarithms of path probabilities as sums of an integer and a fp32 fraction, which keeps its
// accuracy however small the probability is. Every array has a multiple of kCtcPadding elements; what pads it is
// kCtcNone, or a logarithm of kCtcNone.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace polymio::kernels {

inline constexpr std::int64_t kCtcPadding = 16;
/// The logarithm of 0: sums of two of them are integers of 32 bits.
inline constexpr int kCtcNone = -(1 << 29);

/// Logarithms of states: whole[s] + part[s], -1 < part[s] < 1.
struct CtcRow {
  int* whole;
  float* part;
};

/// out[s] = log_probs[s] + log(e^previous[s] + e^previous[s - 1] + e^(previous[s - 2] + skip[s])). The two elements
/// before `previous` are kCtcNone; skip is 0 or kCtcNone.
struct CtcStep {
  CtcRow previous, out;
  const int* skip;
  const float* log_probs;
  std::int64_t count;
};

/// out[s] = e^(forward[s] + backward[s] - passes * log_probs[s] - whole - part), 0 where log_probs[s] is that of 0.
struct CtcPosteriors {
  CtcRow forward, backward;
  const float* log_probs;
  float* out;
  std::int64_t count;
  float passes;
  int whole;
  float part;
};

/// The sum of e^(x - largest).
struct CtcSum {
  float largest, sum;
};

struct CtcKernels {
  static constexpr bool kHasDotProducts = false;
  CtcSum (*sum)(const float* x, std::int64_t count);
  /// out = e^(x - shift).
  void (*exponentials)(const float* x, std::int64_t count, float shift, float* out);
  void (*step)(const CtcStep& step);
  void (*posteriors)(const CtcPosteriors& job);
};

}  // namespace polymio::kernels
