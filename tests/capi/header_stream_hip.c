// A program that has included the HIP runtime before passes its own stream type without a cast.
// The runtime is imitated by its include guard and the type. Never run.
// SPDX-License-Identifier: MIT
#define HIP_INCLUDE_HIP_HIP_RUNTIME_API_H
typedef struct ihipStream_t* hipStream_t;
#include <miopen/miopen.h>

_Static_assert(_Generic((miopenAcceleratorQueue_t)0, hipStream_t : 1, default : 0), "HIP stream");
_Static_assert(_Generic(&miopenSetStream, miopenStatus_t (*)(miopenHandle_t, hipStream_t) : 1, default : 0),
               "taken by the functions");
