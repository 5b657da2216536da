// Copies to local memory through registers: of pairs of 16-bit or quads of 8-bit elements that lie apart and, with
// CODES and SECOND_CODES (the types of two operands), of units of 8-bit floats that become bf16, which has all their
// values.
// SPDX-License-Identifier: MIT
#pragma once

#ifdef CODES
#define OPERAND_T u8
#else
#define OPERAND_T in_t
#endif

// Registers that a copy is loaded to. Those of 16-bit elements are not used before the products of the step, which
// would wait for them.
#define RAW (IN_BYTES == 2 ? 2 : 1)
INLINE void load_element(GLOBAL const OPERAND_T* p, int inside, int i, u32* raw) {
#if IN_BYTES == 2
  raw[i] = inside ? p[0] : 0;
#elif IN_BYTES == 1
  if (i == 0) raw[0] = 0;
  if (inside) raw[0] |= (u32)(u8)p[0] << i * 8;
#endif
}

#ifndef CODES

INLINE u32 quad_of(const u32* raw) { return RAW == 2 ? raw[0] | raw[RAW - 1] << 16 : raw[0]; }
#define COPY_UNIT(dst, src, unit, inside, raw) copy_bytes(dst, src, unit* IN_BYTES, inside)
#define STORE_COPY(dst, raw, unit, type) *(LOCAL u32*)(dst) = quad_of(raw)

#else

// Parameters of a format in float8.h.
#define FORMAT_fp8 4, 1
#define FORMAT_bfp8 5, 1
#define FORMAT_fp8_e4m3fn 4, 0
#define FORMAT_fp8_e5m2 5, 0

/// The value of the code in the low byte, as bits of fp32. The exponent field of the code begins that of an fp32, which
/// is subnormal where the code is: a product corrects the bias of both, where float8.h would convert an integer.
INLINE u32 widened(u32 code, const int exponent, const int fnuz) {
  const u32 fields = 0x80000000u | 0x7fu << (16 + exponent), body = code & 0x7fu;
  const u32 moved = (u32)((int)(code << 24) >> (8 - exponent)) & fields;
  const u32 bits = BITS_OF_FLOAT(FLOAT_OF_BITS(moved) * FLOAT_OF_BITS((u32)(254 - FP8_BIAS(exponent, fnuz)) << 23));
  const int special = fnuz ? bits == 0x80000000u : body >= (exponent == 4 ? 0x7fu : 0x7cu);
  return special ? bits | (fnuz ? 0x7fc00000u : 0x7f800000u) : bits;
}

/// Loads 2, 4 or 8 codes at a multiple of their bytes, or zeros.
INLINE void load_codes(GLOBAL const u8* p, const int unit, int inside, u32* raw) {
  raw[0] = raw[1] = 0;
  if (!inside) return;
  if (unit == 8) {
    const u64 codes = *(GLOBAL const u64*)p;
    raw[0] = (u32)codes;
    raw[1] = (u32)(codes >> 32);
  } else {
    raw[0] = unit == 4 ? *(GLOBAL const u32*)p : *(GLOBAL const u16*)p;
  }
}

/// Stores a unit, or the pair of load_element.
INLINE void store_widened(LOCAL u16* dst, const u32* raw, const int unit, const int exponent, const int fnuz) {
  u32 pairs[4];
  UNROLL
  for (int i = 0; i < CEIL_DIV(unit, 2); ++i) {
    const u32 codes = unit == 1 ? raw[0] | raw[1] << 8 : raw[i / 2] >> i % 2 * 16;
    pairs[i] = widened(codes, exponent, fnuz) >> 16 | widened(codes >> 8, exponent, fnuz);
  }
  if (unit == 8) {
    u32x4 v;
    v.x = pairs[0];
    v.y = pairs[1];
    v.z = pairs[2];
    v.w = pairs[3];
    *(LOCAL u32x4*)dst = v;
  } else if (unit == 4) {
    *(LOCAL u64*)dst = (u64)pairs[0] | (u64)pairs[1] << 32;
  } else {
    *(LOCAL u32*)dst = pairs[0];
  }
}
#define COPY_UNIT(dst, src, unit, inside, raw) load_codes(src, unit, inside, raw)
#define STORE_COPY(dst, raw, unit, type) store_widened(dst, raw, unit, PASTE(FORMAT_, type))

#endif
