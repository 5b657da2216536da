// HIP for C++: the functions of hip_runtime_api.h, and kernels of the program. On the CPU device a launch runs the
// kernel for one thread of one block after the other, without barriers; on others it is hipErrorNotSupported.
// SPDX-License-Identifier: MIT
#ifndef HIP_INCLUDE_HIP_HIP_RUNTIME_H
#define HIP_INCLUDE_HIP_HIP_RUNTIME_H

#ifdef __cplusplus
// Programs count on HIP to bring these.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
#else
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#endif

#include <hip/hip_runtime_api.h>

#define __host__
#define __device__
#define __constant__
#define __launch_bounds__(...)
#ifndef __forceinline__
#define __forceinline__ inline __attribute__((always_inline))
#endif

#ifdef __cplusplus
#include <hip/hip_vector_types.h>

/// Inline, so that a kernel which the program never launches is not linked. Shared memory is memory of the thread that
/// runs all threads of a block.
#define __global__ inline
#define __shared__ thread_local
#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define HIP_SYMBOL(x) x

/// The first parameter of kernels for hipLaunchKernel.
struct hipLaunchParm {};

/// The position of the running thread of a kernel.
extern __thread uint3 threadIdx __asm__("polymioHipThreadIdx");
extern __thread uint3 blockIdx __asm__("polymioHipBlockIdx");
extern __thread uint3 blockDim __asm__("polymioHipBlockDim");
extern __thread uint3 gridDim __asm__("polymioHipGridDim");
#define hipThreadIdx_x (threadIdx.x)
#define hipThreadIdx_y (threadIdx.y)
#define hipThreadIdx_z (threadIdx.z)
#define hipBlockIdx_x (blockIdx.x)
#define hipBlockIdx_y (blockIdx.y)
#define hipBlockIdx_z (blockIdx.z)
#define hipBlockDim_x (blockDim.x)
#define hipBlockDim_y (blockDim.y)
#define hipBlockDim_z (blockDim.z)
#define hipGridDim_x (gridDim.x)
#define hipGridDim_y (gridDim.y)
#define hipGridDim_z (gridDim.z)

extern "C" {
/// Ends the launch with hipErrorNotSupported and a text on stderr: what the kernel uses is not available.
[[noreturn]] HIP_PUBLIC_API void polymioHipUnavailable(const char* what);
/// Queues `run(data)`, then `drop(data)`; drops at once what cannot be launched.
HIP_PUBLIC_API hipError_t polymioHipLaunch(void (*run)(void* data), void (*drop)(void* data), void* data, dim3 grid,
                                           dim3 block, size_t shared, hipStream_t stream);
}

inline void __syncthreads() { polymioHipUnavailable("__syncthreads"); }
inline void __threadfence() {}
inline void __threadfence_block() {}
/// Dynamic shared memory: none.
#define HIP_DYNAMIC_SHARED(type, name) type* const name = (polymioHipUnavailable("dynamic shared memory"), (type*)0);

template <class T>
inline T atomicAdd(T* address, T value) {
  T before, after;
  __atomic_load(address, &before, __ATOMIC_RELAXED);
  do {
    after = before + value;
  } while (!__atomic_compare_exchange(address, &before, &after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return before;
}

namespace polymio_hip {

template <class T>
struct Same {
  using Type = T;
};

/// Runs `thread()` for every thread of every block.
template <class Thread>
void for_each_thread(dim3 grid, dim3 block, const Thread& thread) {
  gridDim = uint3{grid.x, grid.y, grid.z};
  blockDim = uint3{block.x, block.y, block.z};
  for (unsigned bz = 0; bz < grid.z; ++bz)
    for (unsigned by = 0; by < grid.y; ++by)
      for (unsigned bx = 0; bx < grid.x; ++bx) {
        blockIdx = uint3{bx, by, bz};
        for (unsigned z = 0; z < block.z; ++z)
          for (unsigned y = 0; y < block.y; ++y)
            for (unsigned x = 0; x < block.x; ++x) {
              threadIdx = uint3{x, y, z};
              thread();
            }
      }
}

template <class Thread>
hipError_t launch(Thread thread, dim3 grid, dim3 block, size_t shared, hipStream_t stream) {
  struct Call {
    Thread thread;
    dim3 grid, block;
  };
  return polymioHipLaunch(
      [](void* data) {
        const Call& call = *static_cast<Call*>(data);
        for_each_thread(call.grid, call.block, call.thread);
      },
      [](void* data) { delete static_cast<Call*>(data); }, new Call{thread, grid, block}, grid, block, shared, stream);
}

}  // namespace polymio_hip

/// Queues a kernel. Arguments are converted to the types of its parameters. Errors: hipGetLastError.
template <class... P>
void hipLaunchKernelGGL(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, hipStream_t stream,
                        typename polymio_hip::Same<P>::Type... arguments) {
  polymio_hip::launch([=] { kernel(arguments...); }, grid, block, shared, stream);
}

/// The same for kernels whose first parameter is a hipLaunchParm.
template <class... P>
void hipLaunchKernel(void (*kernel)(hipLaunchParm, P...), dim3 grid, dim3 block, size_t shared, hipStream_t stream,
                     typename polymio_hip::Same<P>::Type... arguments) {
  polymio_hip::launch([=] { kernel(hipLaunchParm(), arguments...); }, grid, block, shared, stream);
}

/// Kernels by address, with addresses of arguments: hipErrorNotSupported.
HIP_PUBLIC_API hipError_t hipLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                                          hipStream_t stream);
#endif  // __cplusplus

#endif  // HIP_INCLUDE_HIP_HIP_RUNTIME_H
