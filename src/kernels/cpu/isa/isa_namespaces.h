// Namespaces of instruction sets. POLYMIO_SHARED_NAMESPACE is defined where an instruction set (avx512_bf16,
// avx512_amx) only adds products of some types to another one (avx512), whose kernels it shares; else it is the
// instruction set's own.
// SPDX-License-Identifier: MIT
#pragma once

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Whether this instruction set only adds products of some types to POLYMIO_SHARED_NAMESPACE.
#if defined(POLYMIO_SHARED_NAMESPACE)
inline constexpr bool kAddsProducts = true;
#else
#define POLYMIO_SHARED_NAMESPACE POLYMIO_ISA_NAMESPACE
inline constexpr bool kAddsProducts = false;
#endif

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE

namespace polymio::kernels::POLYMIO_SHARED_NAMESPACE {

/// The entry points of a family of kernels, defined where they are.
template <class Kernels>
const Kernels& entry_points();

}  // namespace polymio::kernels::POLYMIO_SHARED_NAMESPACE

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

using namespace POLYMIO_SHARED_NAMESPACE;
template <class Kernels>
const Kernels& entry_points();

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
