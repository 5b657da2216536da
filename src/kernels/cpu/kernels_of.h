// The entry points of CPU kernels: a struct per family (GemmKernels, ...), an object of it per instruction set.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "base/built_isas.h"
#include "base/cpu_isa.h"

namespace polymio::kernels {

#define POLYMIO_DECLARE(id, name, here) \
  namespace name {                      \
  template <class Kernels>              \
  const Kernels& entry_points();        \
  }
POLYMIO_BUILT_ISAS(POLYMIO_DECLARE)
#undef POLYMIO_DECLARE

/// Scratch memory of every entry point is aligned to this.
inline constexpr std::size_t kScratchAlignment = 64;

/// The entry points of a family for an instruction set. They are serial and reentrant: callers cut the work into pieces
/// and pass each piece scratch memory. Families without kHasDotProducts serve sets that only add dot products by those
/// of AVX-512.
template <class Kernels>
const Kernels& kernels_of(CpuIsa isa) {
  constexpr bool kGeneric = kGenericIsComplete || requires { Kernels::kTestedPerInstructionSet; };
  // Plans for another machine's processor also call kernel functions, which must run on this processor.
  const Kernels& (*best)() = nullptr;
#define POLYMIO_CHOOSE(id, name, here)                                                                        \
  if constexpr (CpuIsa::id == CpuIsa::kGeneric ? kGeneric                                                     \
                                               : Kernels::kHasDotProducts || CpuIsa::id <= CpuIsa::kAvx512) { \
    best = name::entry_points<Kernels>;                                                                       \
    if (isa >= CpuIsa::id && (here)) return best();                                                           \
  }
  POLYMIO_BUILT_ISAS(POLYMIO_CHOOSE)
#undef POLYMIO_CHOOSE
  return best();
}

}  // namespace polymio::kernels
