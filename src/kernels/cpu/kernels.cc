// Choice of the kernel table by instruction set; properties of the processor (caches.h).
// SPDX-License-Identifier: MIT
#include "kernels/cpu/kernels.h"

#include "base/built_isas.h"
#include "kernels/cpu/caches.h"

namespace polymio::kernels {

#define DECLARE(id, name, here)    \
  namespace name {                 \
  extern const KernelTable kTable; \
  }
POLYMIO_BUILT_ISAS(DECLARE)
#undef DECLARE

const KernelTable& kernel_table(Isa isa) {
  // Plans for another machine's processor also call kernel functions, which must run on this processor.
  const KernelTable* table = nullptr;
#define CHOOSE(id, name, here) \
  table = &name::kTable;       \
  if (isa >= Isa::id && (here)) return *table;
  POLYMIO_BUILT_ISAS(CHOOSE)
#undef CHOOSE
  return *table;
}

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
