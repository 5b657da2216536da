// A program that includes HIP before: its stream goes to the API without a cast. Never run.
// SPDX-License-Identifier: MIT
#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>
#include <miopen/miopen.h>

miopenStatus_t set_stream_hip_first(miopenHandle_t handle, hipStream_t stream);
miopenStatus_t set_stream_hip_first(miopenHandle_t handle, hipStream_t stream) {
  const miopenStatus_t status = miopenGetStream(handle, &stream);
  return status == miopenStatusSuccess ? miopenSetStream(handle, stream) : status;
}
