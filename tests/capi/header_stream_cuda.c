// A program that has included the CUDA runtime before passes its own stream type without a cast.
// The runtime is imitated by an include guard and the type. Never run.
// SPDX-License-Identifier: MIT
#define __DRIVER_TYPES_H__
typedef struct CUstream_st* cudaStream_t;
#include <miopen/miopen.h>

_Static_assert(_Generic((miopenAcceleratorQueue_t)0, cudaStream_t : 1, default : 0), "CUDA stream");
_Static_assert(_Generic(&miopenSetStream, miopenStatus_t (*)(miopenHandle_t, cudaStream_t) : 1, default : 0),
               "taken by the functions");
