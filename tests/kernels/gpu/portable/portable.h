// What kernels for sm90 use of the language of portable kernels, on the CPU. Tests find this header before the one in
// src/.
// SPDX-License-Identifier: MIT
#pragma once
#include <bit>
#include <cmath>

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;
#define GLOBAL
#define INLINE [[maybe_unused]] inline static
#define FLOAT_OF_BITS(u) std::bit_cast<float>(u)
#define BITS_OF_FLOAT(f) std::bit_cast<u32>(f)
#define FMA(a, b, c) std::fma(a, b, c)
#define UNROLL
#define WAIT_FOR_EARLIER_KERNEL()
#define BEGIN_NEXT_KERNEL()
#define NO_UNROLL
