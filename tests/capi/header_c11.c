// Compiles as C11 with every function visible: the headers, the layout of the public structs, the
// constants of the version. It is never run; the checks are static assertions.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_BETA_API
#define MIOPEN_BETA_API
#endif
#include <miopen/miopen.h>
#include <miopen/miopen_internal.h>
#include <miopen/polymio.h>

_Static_assert(sizeof(miopenConvAlgoPerf_t) == 16, "size is ABI");
_Static_assert(offsetof(miopenConvAlgoPerf_t, fwd_algo) == 0, "offset is ABI");
_Static_assert(offsetof(miopenConvAlgoPerf_t, bwd_weights_algo) == 0, "offset is ABI");
_Static_assert(offsetof(miopenConvAlgoPerf_t, bwd_data_algo) == 0, "offset is ABI");
_Static_assert(offsetof(miopenConvAlgoPerf_t, time) == 4, "offset is ABI");
_Static_assert(offsetof(miopenConvAlgoPerf_t, memory) == 8, "offset is ABI");

_Static_assert(sizeof(miopenConvSolution_t) == 32, "size is ABI");
_Static_assert(offsetof(miopenConvSolution_t, time) == 0, "offset is ABI");
_Static_assert(offsetof(miopenConvSolution_t, workspace_size) == 8, "offset is ABI");
_Static_assert(offsetof(miopenConvSolution_t, solution_id) == 16, "offset is ABI");
_Static_assert(offsetof(miopenConvSolution_t, algorithm) == 24, "offset is ABI");

_Static_assert(sizeof(struct miopenTensorArgument_t) == 24, "size is ABI");
_Static_assert(offsetof(struct miopenTensorArgument_t, id) == 0, "offset is ABI");
_Static_assert(offsetof(struct miopenTensorArgument_t, descriptor) == 8, "offset is ABI");
_Static_assert(offsetof(struct miopenTensorArgument_t, buffer) == 16, "offset is ABI");

_Static_assert(offsetof(polymioDeviceInfo_t, size) == 0, "the size comes first");
_Static_assert(offsetof(polymioDeviceInfo_t, name) == 8, "offset is ABI");
_Static_assert(offsetof(polymioDeviceInfo_t, kind) == 264, "offset is ABI");
_Static_assert(offsetof(polymioDeviceInfo_t, cache_bytes) == 280, "offset is ABI");
_Static_assert(sizeof(polymioDeviceInfo_t) == 304, "size is ABI");
_Static_assert(offsetof(polymioDevicePeak_t, size) == 0, "the size comes first");
_Static_assert(offsetof(polymioDevicePeak_t, threads) == 24, "offset is ABI");
_Static_assert(sizeof(polymioDevicePeak_t) == 32, "size is ABI");
_Static_assert(miopenFloat8 == miopenFloat8_fnuz && miopenBFloat8 == miopenBFloat8_fnuz, "two names of one type");
_Static_assert(POLYMIO_FLOAT8_E4M3FN == 0x100 && POLYMIO_FLOAT8_E5M2 == 0x101, "outside MIOpen's numbers");

_Static_assert(sizeof(miopenDataType_t) == sizeof(int), "enums are passed as int");
_Static_assert(sizeof(miopenTensorArgumentId_t) == sizeof(int), "enums are passed as int");
_Static_assert(_Generic((miopenAcceleratorQueue_t)0, struct ihipStream_t* : 1, default : 0), "HIP's stream");
_Static_assert(MIOPEN_BACKEND_HIP == 0 && MIOPEN_BACKEND_OPENCL == 0, "off unless defined");
_Static_assert(MIOPEN_VERSION_MAJOR == 3 && MIOPEN_VERSION_MINOR == 5 && MIOPEN_VERSION_PATCH == 2, "API level");
#define TEXT(value) #value
#define TEXT_OF(macro) TEXT(macro)
_Static_assert(sizeof("MIOpen 3.5.2-" TEXT_OF(MIOPEN_VERSION_TWEAK)) > 0, "a log line");
_Static_assert(miopenInt8x4 == 4 && miopenConvolutionFwdAlgoStaticCompiledGEMM == 4, "names of MIOpen 2");
_Static_assert(miopenConvolutionFindModeReserved_4 == 4, "a name of the internal header");
_Static_assert(MIOPEN_API_VERSION_REDUCE_TENSOR == 1, "reduction interface");
_Static_assert(MIOPEN_API_VERSION_CONVOLUTION_FIND_MODE == 1, "find mode interface");
