// Which accelerator back end the including program uses. It only chooses the C type of a stream (types.h), never the
// device: one library serves every device. A program may define the macros before the first MIOpen include.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_CONFIG_H_
#define MIOPEN_CONFIG_H_

/// 1: <hip/hip_runtime_api.h> is included. By default only where it compiles: with a HIP platform chosen, as hipcc
/// does, or with the headers of this library's HIP layer, where POLYMIO_HIP_PREFIX is defined: by the config.h beside
/// them. Otherwise types.h declares hipStream_t itself, as HIP does.
#ifndef MIOPEN_BACKEND_HIP
#ifdef POLYMIO_HIP_PREFIX
#define MIOPEN_BACKEND_HIP 1
#elif (defined(__HIP_PLATFORM_AMD__) || defined(__HIP_PLATFORM_NVIDIA__)) && defined(__has_include)
#if __has_include(<hip/hip_runtime_api.h>)
#define MIOPEN_BACKEND_HIP 1
#endif
#endif
#endif
#ifndef MIOPEN_BACKEND_HIP
#define MIOPEN_BACKEND_HIP 0
#endif

/// 1: streams are `cl_command_queue` and the OpenCL header is included. 0 unless defined.
#ifndef MIOPEN_BACKEND_OPENCL
#define MIOPEN_BACKEND_OPENCL 0
#endif

#endif  // MIOPEN_CONFIG_H_
