// Vectors of two to four numbers.
// SPDX-License-Identifier: MIT
#ifndef HIP_INCLUDE_HIP_HIP_VECTOR_TYPES_H
#define HIP_INCLUDE_HIP_HIP_VECTOR_TYPES_H

#ifdef __cplusplus
#define POLYMIO_HIP_VECTORS(T, name)                                         \
  struct name##2 {                                                           \
    T x, y;                                                                  \
  };                                                                         \
  struct name##3 {                                                           \
    T x, y, z;                                                               \
  };                                                                         \
  struct alignas(4 * sizeof(T)) name##4 {                                    \
    T x, y, z, w;                                                            \
  };                                                                         \
  inline name##2 make_##name##2(T x, T y) { return name##2 {x, y}; }         \
  inline name##3 make_##name##3(T x, T y, T z) { return name##3 {x, y, z}; } \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return name##4 {x, y, z, w}; }

POLYMIO_HIP_VECTORS(signed char, char)
POLYMIO_HIP_VECTORS(unsigned char, uchar)
POLYMIO_HIP_VECTORS(short, short)
POLYMIO_HIP_VECTORS(unsigned short, ushort)
POLYMIO_HIP_VECTORS(int, int)
POLYMIO_HIP_VECTORS(unsigned int, uint)
POLYMIO_HIP_VECTORS(float, float)
POLYMIO_HIP_VECTORS(double, double)
#undef POLYMIO_HIP_VECTORS
#endif

#endif  // HIP_INCLUDE_HIP_HIP_VECTOR_TYPES_H
