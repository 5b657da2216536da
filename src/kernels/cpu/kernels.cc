// Choice of the kernel table by instruction set, and what kernels assume about caches.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/kernels.h"

#include <unistd.h>

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
#define CHOOSE(id, name, here) \
  if (isa >= Isa::id) return name::kTable;
  POLYMIO_BUILT_ISAS(CHOOSE)
#undef CHOOSE
  return generic::kTable;
}

std::int64_t result_caches() {
  constexpr std::int64_t kShare = 8 << 20, kServer = 64 << 20;
  static const std::int64_t kLevel3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return kLevel3 > kServer || kLevel3 < 2 * kShare ? kShare : kLevel3 / 2;
}

}  // namespace polymio::kernels
