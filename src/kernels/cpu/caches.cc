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

bool permutes_beside_products() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd");
#else
  return false;
#endif
}

}  // namespace polymio::kernels
