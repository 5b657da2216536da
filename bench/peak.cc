// Independent multiply-adds on registers, best of many short rounds.
// SPDX-License-Identifier: MIT
#include "bench/peak.h"

#include <algorithm>
#include <ctime>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace polymio::bench {
namespace {

#if defined(__x86_64__)
constexpr int kAccumulators = 16;  // more than latency times instructions per cycle
constexpr int kIterations = 20000;

/// Optimization barrier: keeps the sums, and keeps the compiler from computing equal ones only once.
void keep(void* sums) { asm volatile("" : : "r"(sums) : "memory"); }

__attribute__((target("avx512f"))) double wide_round() {
  __m512 acc[kAccumulators] = {};
  const __m512 a = _mm512_set1_ps(1);
  keep(acc);
  for (int i = 0; i < kIterations; ++i)
#pragma GCC unroll 16
    for (__m512& sum : acc) sum = _mm512_fmadd_ps(a, a, sum);
  for (int i = 1; i < kAccumulators; ++i) acc[0] = _mm512_add_ps(acc[0], acc[i]);
  keep(acc);
  return 32.0 * kAccumulators * kIterations;
}

__attribute__((target("avx2,fma"))) double narrow_round() {
  constexpr int kRegisters = 12;
  __m256 acc[kRegisters] = {};
  const __m256 a = _mm256_set1_ps(1);
  keep(acc);
  for (int i = 0; i < kIterations; ++i)
#pragma GCC unroll 12
    for (__m256& sum : acc) sum = _mm256_fmadd_ps(a, a, sum);
  for (int i = 1; i < kRegisters; ++i) acc[0] = _mm256_add_ps(acc[0], acc[i]);
  keep(acc);
  return 16.0 * kRegisters * kIterations;
}

__attribute__((target("avx512f,avx512bf16"))) double bf16_round() {
  __m512 acc[kAccumulators] = {};
  const __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1), _mm512_set1_ps(1));
  keep(acc);
  for (int i = 0; i < kIterations; ++i)
#pragma GCC unroll 16
    for (__m512& sum : acc) sum = _mm512_dpbf16_ps(sum, a, a);
  for (int i = 1; i < kAccumulators; ++i) acc[0] = _mm512_add_ps(acc[0], acc[i]);
  keep(acc);
  return 64.0 * kAccumulators * kIterations;
}

__attribute__((target("avx512f,avx512vnni"))) double int8_round() {
  __m512i acc[kAccumulators] = {};
  const __m512i a = _mm512_set1_epi32(0x01010101);
  keep(acc);
  for (int i = 0; i < kIterations; ++i)
#pragma GCC unroll 16
    for (__m512i& sum : acc) sum = _mm512_dpbusd_epi32(sum, a, a);
  for (int i = 1; i < kAccumulators; ++i) acc[0] = _mm512_add_epi32(acc[0], acc[i]);
  keep(acc);
  return 128.0 * kAccumulators * kIterations;
}

double seconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double best_rate(double (*round)()) {
  constexpr double kSeconds = 0.1;
  double best = 0;
  for (const double end = seconds(CLOCK_MONOTONIC) + kSeconds; seconds(CLOCK_MONOTONIC) < end;) {
    const double start = seconds(CLOCK_MONOTONIC);
    const double operations = round();
    best = std::max(best, operations / (seconds(CLOCK_MONOTONIC) - start));
  }
  return 1e-9 * best;
}
#endif

}  // namespace

double peak_gflops(const std::string& dtype) {
#if defined(__x86_64__)
  if (dtype == "bf16" && __builtin_cpu_supports("avx512bf16")) return best_rate(bf16_round);
  if (dtype == "int8" && __builtin_cpu_supports("avx512vnni")) return best_rate(int8_round);
  if (__builtin_cpu_supports("avx512f")) return best_rate(wide_round);
  if (__builtin_cpu_supports("fma")) return best_rate(narrow_round);
#endif
  return 0;
}

}  // namespace polymio::bench
