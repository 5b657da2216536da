// Elements of BYTES (2, 4 or 16) and how they lie in 16 bytes.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/portable.h"

#if BYTES == 16
typedef u32x4 element;
#elif BYTES == 4
typedef u32 element;
#else
typedef u16 element;
#endif

INLINE u32x4 packed(const element* v) {
#if BYTES == 16
  return v[0];
#else
  u32x4 unit;
#if BYTES == 4
  unit.x = v[0];
  unit.y = v[1];
  unit.z = v[2];
  unit.w = v[3];
#else
  unit.x = v[0] | (u32)v[1] << 16;
  unit.y = v[2] | (u32)v[3] << 16;
  unit.z = v[4] | (u32)v[5] << 16;
  unit.w = v[6] | (u32)v[7] << 16;
#endif
  return unit;
#endif
}
