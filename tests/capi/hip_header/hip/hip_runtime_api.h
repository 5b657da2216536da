// What the header tests need of HIP's header: its include guard, its stream, and that it does not compile without a
// platform, unless it is that of this library's HIP layer.
// SPDX-License-Identifier: MIT
#ifndef HIP_INCLUDE_HIP_HIP_RUNTIME_API_H
#define HIP_INCLUDE_HIP_HIP_RUNTIME_API_H
#if !defined(__HIP_PLATFORM_AMD__) && !defined(__HIP_PLATFORM_NVIDIA__) && !defined(POLYMIO_HIP_PREFIX)
#error "no platform"
#endif
typedef struct ihipStream_t* hipStream_t;
#endif
