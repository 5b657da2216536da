// Choice of the kernel table by instruction set.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/kernels.h"

#include "base/built_isas.h"

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

}  // namespace polymio::kernels
