// A program that has included OpenCL before passes its own queue type without a cast.
// The header is imitated by its include guard and the type. Never run.
// SPDX-License-Identifier: MIT
#define __OPENCL_CL_H
typedef struct _cl_command_queue* cl_command_queue;
#include <miopen/miopen.h>

_Static_assert(_Generic((miopenAcceleratorQueue_t)0, cl_command_queue : 1, default : 0), "OpenCL queue");
