// Choice of the kernel table by instruction set.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/kernels.h"

namespace polymio::kernels {

namespace generic {
extern const KernelTable kTable;
}
#if defined(__x86_64__)
namespace avx2 {
extern const KernelTable kTable;
}
namespace avx512 {
extern const KernelTable kTable;
}
namespace avx512_bf16 {
extern const KernelTable kTable;
}
#endif

const KernelTable& kernel_table(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512Bf16) return avx512_bf16::kTable;
  if (isa == Isa::kAvx512) return avx512::kTable;
  if (isa == Isa::kAvx2) return avx2::kTable;
#endif
  static_cast<void>(isa);
  return generic::kTable;
}

}  // namespace polymio::kernels
