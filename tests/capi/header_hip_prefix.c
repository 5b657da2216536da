// A program with the headers of this library's HIP layer, whose config.h defines the macro: no platform is needed.
// Never run.
// SPDX-License-Identifier: MIT
#define POLYMIO_HIP_PREFIX 1
#include <miopen/miopen.h>
#if !defined(HIP_INCLUDE_HIP_HIP_RUNTIME_API_H) || !MIOPEN_BACKEND_HIP
#error "HIP's header must be included"
#endif

_Static_assert(_Generic((miopenAcceleratorQueue_t)0, hipStream_t : 1, default : 0), "HIP's stream");
