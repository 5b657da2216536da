// A program that chooses HIP's platform, as hipcc does: the API includes HIP's header. Never run.
// SPDX-License-Identifier: MIT
#define __HIP_PLATFORM_AMD__ 1
#include <miopen/miopen.h>
#if !defined(HIP_INCLUDE_HIP_HIP_RUNTIME_API_H) || !MIOPEN_BACKEND_HIP
#error "HIP's header must be included"
#endif

miopenStatus_t set_stream_hip_platform(miopenHandle_t handle, hipStream_t stream);
miopenStatus_t set_stream_hip_platform(miopenHandle_t handle, hipStream_t stream) {
  return miopenSetStream(handle, stream);
}
