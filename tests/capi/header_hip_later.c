// A program that includes HIP after the API, of which it also uses the stream type alone. Never run.
// SPDX-License-Identifier: MIT
#include <miopen/miopen.h>
#ifdef HIP_INCLUDE_HIP_HIP_RUNTIME_API_H
#error "without a platform HIP's header does not compile and must not be included"
#endif
miopenStatus_t set_stream_hip_later(miopenHandle_t handle, hipStream_t stream);

#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>

miopenStatus_t set_stream_hip_later(miopenHandle_t handle, hipStream_t stream) {
  const miopenStatus_t status = miopenGetStream(handle, &stream);
  return status == miopenStatusSuccess ? miopenSetStream(handle, stream) : status;
}
