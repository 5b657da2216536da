// The language of portable kernels: the common subset of C99 and C++ under one set of names for OpenCL C 1.2, CUDA and
// HIP. 16-bit floats are stored as bit patterns and computed in fp32. Needs no toolkit header.
// SPDX-License-Identifier: MIT
#pragma once

#if defined(__OPENCL_VERSION__)

typedef long i64;
typedef ulong u64;
typedef uint4 u32x4;
typedef unsigned int u32;
typedef unsigned short u16;
#define KERNEL __kernel void
#define GLOBAL __global
#define FIXED const     // qualifies structs that are parameters of a kernel and may have variable indices
#define LOCAL __local   // qualifies pointers
#define SHARED __local  // qualifies arrays
#define LARGE_SHARED(type, name, count) __local type name[count]
#ifdef __OPTIMIZE__
// PoCL's compiler crashes on a local variable of a kernel in another function, where the optimizer puts it in place of
// a pointer argument that always points to it.
#define INLINE inline static __attribute__((always_inline))
#else
#define INLINE inline static
#endif
#define RESTRICT restrict
#define BLOCK(d) ((int)get_group_id(d))
#define BLOCKS(d) ((int)get_num_groups(d))
#define THREAD(d) ((int)get_local_id(d))
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define BARRIER_GLOBAL() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)  // the block sees its own stores
#define THREADS_PER_BLOCK(n) __attribute__((reqd_work_group_size(n, 1, 1)))
#define THREADS_PER_BLOCK_OF(n, blocks) THREADS_PER_BLOCK(n)
#define FLOAT_OF_BITS(u) as_float(u)
#define BITS_OF_FLOAT(f) as_uint(f)
#define DOUBLE_OF_BITS(u) as_double(u)
#define BITS_OF_DOUBLE(f) as_ulong(f)
#define FMA(a, b, c) fma(a, b, c)
#define FMA64(a, b, c) fma(a, b, c)
#define ROUND(v) rint(v)
#ifdef FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#define FLOAT_OF_HALF(p, i) vload_half(i, (GLOBAL const half*)(p))
INLINE float float_of_half(u16 bits) { return vload_half(0, (const half*)&bits); }
INLINE u16 half_of_float(float v) {
  u16 bits;
  vstore_half_rte(v, 0, (half*)&bits);
  return bits;
}
#define STORE_HALF(p, i, v) vstore_half_rte(v, i, (GLOBAL half*)(p))

#else

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;
#define GLOBAL
#define RESTRICT __restrict__

#if defined(__HIP__) || defined(__HIPCC_RTC__)

#define KERNEL extern "C" __attribute__((global)) void
#define FIXED const
#define LOCAL
#define SHARED __attribute__((shared))
#define LARGE_SHARED(type, name, count) __attribute__((shared)) type name[count]
#define INLINE __attribute__((device)) inline static
#define BLOCK(d)                                        \
  ((int)((d) == 0   ? __builtin_amdgcn_workgroup_id_x() \
         : (d) == 1 ? __builtin_amdgcn_workgroup_id_y() \
                    : __builtin_amdgcn_workgroup_id_z()))
#define BLOCKS(d)                                                                          \
  ((int)((d) == 0   ? __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x() \
         : (d) == 1 ? __builtin_amdgcn_grid_size_y()                                       \
                    : __builtin_amdgcn_grid_size_z()))  // blocks are one-dimensional
#define THREAD(d) ((int)__builtin_amdgcn_workitem_id_x())
#define BARRIER()                                                                       \
  (__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"), __builtin_amdgcn_s_barrier(), \
   __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"))
#define THREADS_PER_BLOCK(n) __attribute__((amdgpu_flat_work_group_size(n, n)))
#define THREADS_PER_BLOCK_OF(n, blocks) THREADS_PER_BLOCK(n)
#define FLOAT_OF_BITS(u) __builtin_bit_cast(float, u)
#define BITS_OF_FLOAT(f) __builtin_bit_cast(u32, f)
#define DOUBLE_OF_BITS(u) __builtin_bit_cast(double, u)
#define BITS_OF_DOUBLE(f) __builtin_bit_cast(u64, f)
#define FMA(a, b, c) __builtin_fmaf(a, b, c)
#define FMA64(a, b, c) __builtin_fma(a, b, c)
#define ROUND(v) __builtin_rint(v)
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
INLINE float float_of_half(u16 bits) { return (float)__builtin_bit_cast(_Float16, bits); }
INLINE u16 half_of_float(float v) { return __builtin_bit_cast(u16, (_Float16)v); }
#define FLOAT_OF_HALF(p, i) ((float)__builtin_bit_cast(_Float16, (p)[i]))
#define STORE_HALF(p, i, v) ((p)[i] = __builtin_bit_cast(u16, (_Float16)(v)))

#else

#define KERNEL extern "C" __global__ void
#define FIXED const __grid_constant__  // a variable index does not copy it to local memory
#define LOCAL
#define SHARED __shared__
#define LARGE_SHARED(type, name, count) extern __shared__ type name[]  // above 48 KiB in all: sized by the launch
#define INLINE __device__ __forceinline__ static
#define BLOCK(d) ((int)((d) == 0 ? blockIdx.x : (d) == 1 ? blockIdx.y : blockIdx.z))
#define BLOCKS(d) ((int)((d) == 0 ? gridDim.x : (d) == 1 ? gridDim.y : gridDim.z))
#define THREAD(d) ((int)((d) == 0 ? threadIdx.x : (d) == 1 ? threadIdx.y : threadIdx.z))
#define BARRIER() __syncthreads()
#define LANES_BARRIER() __syncwarp()
#define THREADS_PER_BLOCK(n) __launch_bounds__(n)
#define THREADS_PER_BLOCK_OF(n, blocks) \
  __launch_bounds__(n, blocks)  // limits registers so that `blocks` fit a multiprocessor
typedef uint4 u32x4;
#define FLOAT_OF_BITS(u) __uint_as_float(u)
#define BITS_OF_FLOAT(f) __float_as_uint(f)
#define DOUBLE_OF_BITS(u) __longlong_as_double((long long)(u))
#define BITS_OF_DOUBLE(f) ((u64)__double_as_longlong(f))
#define FMA(a, b, c) fmaf(a, b, c)
#define FMA64(a, b, c) fma(a, b, c)
#define ROUND(v) rint(v)
INLINE float float_of_half(u16 bits) {
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
  return v;
}
INLINE u16 half_of_float(float v) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}
#define FLOAT_OF_HALF(p, i) float_of_half((p)[i])
#define STORE_HALF(p, i, v) ((p)[i] = half_of_float(v))

#endif
#endif

// A barrier of the threads with equal THREAD(0) / 32. All threads of the block call it.
#ifndef LANES_BARRIER
#define LANES_BARRIER() BARRIER()
#endif
#ifndef BARRIER_GLOBAL
#define BARRIER_GLOBAL() BARRIER()
#endif
#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define CEIL_DIV(a, b) (((a) + (b)-1) / (b))

// Where Launch::programmatic is set (PTX ISA 9.7.13): waits for the kernel before this one, which may still run; lets
// the next kernel begin as soon as all blocks have done this or ended.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define WAIT_FOR_EARLIER_KERNEL() asm volatile("griddepcontrol.wait;" ::: "memory")
#define BEGIN_NEXT_KERNEL() asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#else
#define WAIT_FOR_EARLIER_KERNEL()
#define BEGIN_NEXT_KERNEL()
#endif

// Element types by name, as in LOAD(fp16, p, i): storage type, loads and stores.
typedef signed char i8;
typedef unsigned char u8;
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define STORED(type) PASTE(stored_, type)
#define LOAD(type, p, i) PASTE(load_, type)(p, i)
#define STORE(type, p, i, v) PASTE(store_, type)(p, i, v)
typedef float stored_fp32;
typedef u16 stored_fp16;
typedef u16 stored_bf16;
typedef i8 stored_int8;
typedef int stored_int32;

INLINE float load_fp32(GLOBAL const float* p, i64 i) { return p[i]; }
INLINE float load_fp16(GLOBAL const u16* p, i64 i) { return FLOAT_OF_HALF(p, i); }
INLINE float load_bf16(GLOBAL const u16* p, i64 i) { return FLOAT_OF_BITS((u32)p[i] << 16); }
INLINE int load_int8(GLOBAL const i8* p, i64 i) { return p[i]; }
INLINE int load_int32(GLOBAL const int* p, i64 i) { return p[i]; }

INLINE void store_fp32(GLOBAL float* p, i64 i, float v) { p[i] = v; }
INLINE void store_fp16(GLOBAL u16* p, i64 i, float v) { STORE_HALF(p, i, v); }
INLINE u16 bf16_of_float(float v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
#else
  const u32 u = BITS_OF_FLOAT(v);
  return (u16)(v != v ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
#endif
}
INLINE void store_bf16(GLOBAL u16* p, i64 i, float v) { p[i] = bf16_of_float(v); }

#ifdef FP64
typedef double stored_fp64;
typedef double real;  // the widest float of the device
INLINE double load_fp64(GLOBAL const double* p, i64 i) { return p[i]; }
INLINE void store_fp64(GLOBAL double* p, i64 i, double v) { p[i] = v; }
// Rounds to nearest, ties to even, and saturates.
INLINE void store_int8(GLOBAL i8* p, i64 i, double v) {
  const double r = ROUND(v);
  p[i] = (i8)(r < -128.0 ? -128 : r > 127.0 ? 127 : (int)r);
}
INLINE void store_int32(GLOBAL int* p, i64 i, double v) {
  const double r = ROUND(v);
  p[i] = r <= -2147483648.0 ? (int)(-2147483647 - 1) : r >= 2147483647.0 ? 2147483647 : (int)r;
}
#else
typedef float real;
#endif
