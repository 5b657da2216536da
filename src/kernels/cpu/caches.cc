// Properties of the running processor.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/caches.h"

namespace polymio::kernels {

bool fetches_streams() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd");
#else
  return true;
#endif
}

bool fetches_merged_rows() {
#if defined(__x86_64__)
  const bool is_zen4 = __builtin_cpu_is("amdfam19h") && __builtin_cpu_supports("avx512f");  // Zen 3 has no AVX-512
  return fetches_streams() && !is_zen4;
#else
  return fetches_streams();
#endif
}

bool permutes_beside_products() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd");
#else
  return false;
#endif
}

}  // namespace polymio::kernels
