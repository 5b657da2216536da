// Kernels for NVIDIA's sm90 and newer are C++ class templates: kThreads (per block), kResident (blocks per
// multiprocessor), Arguments (one struct, passed by value) and run(const Arguments&). KernelSpec::instantiation names
// the class with its template arguments, and the library appends its ENTRY_POINT to the source.
// SPDX-License-Identifier: MIT
#pragma once

using u32 = unsigned int;
using u64 = unsigned long long;

#define DEVICE __device__ __forceinline__

// The arguments are a grid constant: tensor maps among them have an address.
#define ENTRY_POINT(name, ...)                                                                    \
  using name##_kernel = __VA_ARGS__;                                                              \
  extern "C" __global__ void __launch_bounds__(name##_kernel::kThreads, name##_kernel::kResident) \
      name(const __grid_constant__ name##_kernel::Arguments arguments) {                          \
    name##_kernel::run(arguments);                                                                \
  }
