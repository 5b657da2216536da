// Keys that have the order of the elements, of type IN, as unsigned integers; NaNs are the largest. The including
// source includes elements.h.
// SPDX-License-Identifier: MIT
#pragma once

#if SIZE_OF(IN_TYPE) == 8
typedef u64 bits_t;
#else
typedef u32 bits_t;
#endif
#define BITS (8 * SIZE_OF(IN_TYPE))
#define INFINITY_BITS                        \
  (IN_TYPE == TYPE_fp64   ? (u64)0x7ff << 52 \
   : IN_TYPE == TYPE_fp32 ? (u64)0x7f800000u \
   : IN_TYPE == TYPE_bf16 ? (u64)0x7f80u     \
   : IN_TYPE == TYPE_fp16 ? (u64)0x7c00u     \
                          : (u64)0)  // integers

INLINE bits_t key_at(GLOBAL const u8* x, i64 at) {
  const u64 bits = load_bits(x, SIZE_OF(IN_TYPE), at), sign = (u64)1 << (BITS - 1), most = sign | (sign - 1);
  const u64 magnitude = bits & (sign - 1);
  if (INFINITY_BITS != 0 && magnitude > INFINITY_BITS) return (bits_t)most;
  return (bits_t)(INFINITY_BITS == 0 || !(bits & sign) ? bits ^ sign : bits ^ most);
}
