// The FMA loop behind measure_peak: independent accumulators in registers. Compiled once per ISA.
// Instruction sets: also those that add dot products.
// SPDX-License-Identifier: MIT
namespace polymio::cpu::POLYMIO_ISA_NAMESPACE {

#if defined(__AVX512F__)
constexpr int kBytes = 64, kChains = 24;
#elif defined(__AVX__)
constexpr int kBytes = 32, kChains = 12;
#else
constexpr int kBytes = 16, kChains = 12;
#endif

/// Runs `iterations` x kChains dependent-in-chain multiply-adds; returns the flops done. `sink` keeps
/// the result alive. 12 chains cover 2 ports x latency 5 within 16 registers; AVX-512 has 32.
double fma_flops(long iterations, float* sink) {
  typedef float Vec __attribute__((vector_size(kBytes)));
  Vec acc[kChains], a = Vec{} + 0.999f, b = Vec{} + 0.001f;
  for (auto& v : acc) v = a;
  for (long i = 0; i < iterations; ++i) {
#pragma GCC unroll 24
    for (int c = 0; c < kChains; ++c) acc[c] = acc[c] * a + b;
  }
  Vec sum = acc[0];
  for (int c = 1; c < kChains; ++c) sum += acc[c];
  *sink = sum[0];
  return 2.0 * kChains * (kBytes / sizeof(float)) * static_cast<double>(iterations);
}

}  // namespace polymio::cpu::POLYMIO_ISA_NAMESPACE
