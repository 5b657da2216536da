// Whose kernels an instruction set takes: its own, or those of POLYMIO_SHARED_NAMESPACE, which is defined where an
// instruction set only adds products of some types to another one.
// SPDX-License-Identifier: MIT
#pragma once

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

#if defined(POLYMIO_SHARED_NAMESPACE)
inline constexpr bool kAddsProducts = true;
#else
#define POLYMIO_SHARED_NAMESPACE POLYMIO_ISA_NAMESPACE
inline constexpr bool kAddsProducts = false;
#endif

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE

namespace polymio::kernels::POLYMIO_SHARED_NAMESPACE {}

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
using namespace POLYMIO_SHARED_NAMESPACE;
}
