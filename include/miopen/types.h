// Types shared by all groups: objects, status codes, data types, tensor layouts, the stream, and
// the rules that every function follows.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_TYPES_H_
#define MIOPEN_TYPES_H_

#include <miopen/config.h>
#include <miopen/export.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if MIOPEN_BACKEND_HIP || defined(POLYMIO_HIP_PREFIX) || defined(__HIP_PLATFORM_AMD__) || \
    defined(__HIP_PLATFORM_NVIDIA__)
#include <hip/hip_runtime_api.h>
#elif MIOPEN_BACKEND_OPENCL
#ifdef __APPLE__
#include <OpenCL/cl.h>
#else
#include <CL/cl.h>
#endif
#endif

// Rules for all groups, unless a function says otherwise:
//
// Errors. Every function returns a miopenStatus_t. A null or out-of-range argument gives
// miopenStatusBadParm; polymioGetLastError (polymio.h) tells the cause, the given value and
// the allowed ones. After an error outputs are unspecified, but nothing is leaked and the objects
// stay usable. No function throws, prints to stdout or ends the process.
//
// Ownership. A Create function allocates an object, the matching Destroy function frees it; the
// caller owns both. Descriptors passed to a call are read during the call only. Buffers always
// belong to the caller and must stay alive until the work on the stream is done.
//
// Buffers. Data pointers are memory of the handle's device: on a CPU any host pointer, of any
// alignment (elements at odd addresses cost a copy), on a GPU a multiple of the element's size.
// Scaling factors (alpha, beta) are host pointers: to double when the output tensor is
// double, to float for all other data types. A beta of 0 never reads the output, so that it may be
// uninitialised.
//
// Order. Work is queued on the handle's stream and may be running when the call returns; on a CPU
// the call waits for what the stream has to do before, and the work is complete when it returns.
//
// Threads. Calls that compute, find or query may run at the same time, on one handle too, as long
// as no two of them write the same buffer. Nothing else may use an object while a function changes
// or destroys it: sets a descriptor, or the stream, allocator, profiling, thread cap or executor of
// a handle.
//
// Units. Times are milliseconds, workspaces and memory are bytes, sizes and strides are elements.
// Sizes and strides are given in the order N, C, [D,] H, W for every layout.
//
// MIOPEN_BETA_API. Define it before the first include to see the functions and enumerators that are
// not final. The library always exports all of them.

/// Declares an opaque object: `struct name` and its pointer type `name_t`. The struct is complete
/// and empty in C++ (it can be a template argument or a base) and incomplete in C. The use site
/// adds the semicolon.
#ifdef __cplusplus
#define MIOPEN_DECLARE_OBJECT(name) \
  struct name {};                   \
  typedef struct name* name##_t
#else
#define MIOPEN_DECLARE_OBJECT(name) \
  struct name;                      \
  typedef struct name* name##_t
#endif

/// Default argument of a parameter in C++; nothing in C, where the caller passes the value.
#ifdef __cplusplus
#define MIOPEN_DEFAULT_ARG(value) = value
#else
#define MIOPEN_DEFAULT_ARG(value)
#endif

/// Marks an enum whose values do not fit an int: an extension before C23.
#if defined(__GNUC__) && !defined(__cplusplus)
#define MIOPEN_EXTENSION __extension__
#else
#define MIOPEN_EXTENSION
#endif

/// Type of an enum that also takes numbers that it does not name, which C++ allows only if the type is fixed.
#if defined(__cplusplus) && __cplusplus >= 201103L
#define MIOPEN_ENUM_TYPE : int
#else
#define MIOPEN_ENUM_TYPE
#endif

/// A device with its stream, allocator, caches of plans and kernels. See handle.h.
MIOPEN_DECLARE_OBJECT(miopenHandle);
/// One operation of a fusion plan; owned by its plan. See fusion.h.
MIOPEN_DECLARE_OBJECT(miopenFusionOpDescriptor);
/// Data type, sizes and strides of a tensor. See tensor.h.
MIOPEN_DECLARE_OBJECT(miopenTensorDescriptor);
/// A batch of sequences of different lengths. See rnn.h.
MIOPEN_DECLARE_OBJECT(miopenSeqTensorDescriptor);
/// Pads, strides, dilations, groups and attributes of a convolution. See convolution.h.
MIOPEN_DECLARE_OBJECT(miopenConvolutionDescriptor);
/// Mode, window, pads and strides of a pooling. See pooling.h.
MIOPEN_DECLARE_OBJECT(miopenPoolingDescriptor);
/// Parameters of a local response normalisation. See lrn.h.
MIOPEN_DECLARE_OBJECT(miopenLRNDescriptor);
/// Kind and parameters of an activation function. See activation.h.
MIOPEN_DECLARE_OBJECT(miopenActivationDescriptor);
/// Parameters of a recurrent network. See rnn.h.
MIOPEN_DECLARE_OBJECT(miopenRNNDescriptor);
/// Parameters of the CTC loss. See loss.h.
MIOPEN_DECLARE_OBJECT(miopenCTCLossDescriptor);
/// Rate and random state of a dropout. See dropout.h.
MIOPEN_DECLARE_OBJECT(miopenDropoutDescriptor);
/// Operation and options of a reduction. See reduce_tensor.h.
MIOPEN_DECLARE_OBJECT(miopenReduceTensorDescriptor);
/// Parameters of a multi-head attention. See find2.h.
MIOPEN_DECLARE_OBJECT(miopenMhaDescriptor);
/// Parameters of a softmax problem. See find2.h.
MIOPEN_DECLARE_OBJECT(miopenSoftmaxDescriptor);
/// An ordered list of operations that run as one. See fusion.h.
MIOPEN_DECLARE_OBJECT(miopenFusionPlanDescriptor);
/// Reserved; no function takes it.
MIOPEN_DECLARE_OBJECT(miopenOperatorDescriptor);
/// Run-time arguments of a fusion plan. See fusion.h.
MIOPEN_DECLARE_OBJECT(miopenOperatorArgs);
/// What to compute: an operation, a direction, tensor descriptors. See find2.h.
MIOPEN_DECLARE_OBJECT(miopenProblem);
/// Options of miopenFindSolutions. See find2.h.
MIOPEN_DECLARE_OBJECT(miopenFindOptions);
/// One way to compute a problem, ready to run. See find2.h.
MIOPEN_DECLARE_OBJECT(miopenSolution);

/// The stream (queue) of a device. Its C type is that of the runtime header that the program has included before (HIP,
/// CUDA, OpenCL), else hipStream_t, declared as HIP declares it, so that HIP may also be included later. All of them
/// are pointers, so the ABI is the same. A CPU handle takes null and
/// streams of the HIP layer.
#if MIOPEN_BACKEND_HIP || defined(HIP_INCLUDE_HIP_HIP_RUNTIME_API_H)
typedef hipStream_t miopenAcceleratorQueue_t;
#elif MIOPEN_BACKEND_OPENCL || defined(__OPENCL_CL_H)
typedef cl_command_queue miopenAcceleratorQueue_t;
#elif defined(__CUDA_RUNTIME_API_H__) || defined(__DRIVER_TYPES_H__)
typedef cudaStream_t miopenAcceleratorQueue_t;
#else
typedef struct ihipStream_t* hipStream_t;
typedef hipStream_t miopenAcceleratorQueue_t;
#endif

/// The result of a call.
typedef enum {
  miopenStatusSuccess = 0,               ///< The call did what it says.
  miopenStatusNotInitialized = 1,        ///< An object is used before it is complete.
  miopenStatusInvalidValue = 2,          ///< A missing or malformed value, such as null sizes.
  miopenStatusBadParm = 3,               ///< A null or wrong argument.
  miopenStatusAllocFailed = 4,           ///< Memory could not be allocated.
  miopenStatusInternalError = 5,         ///< A fault of the library.
  miopenStatusNotImplemented = 6,        ///< Not available in this version or on this device.
  miopenStatusUnknownError = 7,          ///< The device or runtime failed.
  miopenStatusUnsupportedOp = 8,         ///< The combination of operations is not supported.
  miopenStatusGpuOperationsSkipped = 9,  ///< Only compiled, not run, as requested.
  miopenStatusVersionMismatch = 10,      ///< Saved data is from another version.
} miopenStatus_t;

/// Element type of a tensor. The value 4 is reserved. polymio.h has more types, by number. The 8-bit floats are FNUZ
/// formats: bias 8 and 16, largest number 240 and 57344; code 0x80 is the only NaN, there is no infinity and no -0.
typedef enum MIOPEN_ENUM_TYPE {
  miopenHalf = 0,                      ///< 16-bit float (IEEE binary16).
  miopenFloat = 1,                     ///< 32-bit float.
  miopenInt32 = 2,                     ///< 32-bit signed integer.
  miopenInt8 = 3,                      ///< 8-bit signed integer.
  miopenBFloat16 = 5,                  ///< 16-bit float, 8 exponent bits.
  miopenDouble = 6,                    ///< 64-bit float.
  miopenFloat8_fnuz = 7,               ///< 8-bit float e4m3fnuz.
  miopenBFloat8_fnuz = 8,              ///< 8-bit float e5m2fnuz.
  miopenFloat8 = miopenFloat8_fnuz,    ///< Its name before API level 3.5.
  miopenBFloat8 = miopenBFloat8_fnuz,  ///< Its name before API level 3.5.
  miopenInt64 = 9,                     ///< 64-bit signed integer.
} miopenDataType_t;

/// A type of MIOpen 1 and 2 that no function accepts any more. A macro, so that a `switch` over the types needs no
/// case.
#define miopenInt8x4 ((miopenDataType_t)4)

/// Order of the dimensions in memory, outermost first. A suffix cX packs X channels together.
typedef enum {
  miopenTensorNCHW = 0,
  miopenTensorNHWC = 1,
  miopenTensorCHWN = 2,
  miopenTensorNCHWc4 = 3,
  miopenTensorNCHWc8 = 4,
  miopenTensorCHWNc4 = 5,
  miopenTensorCHWNc8 = 6,
  miopenTensorNCDHW = 7,
  miopenTensorNDHWC = 8,
} miopenTensorLayout_t;

#endif  // MIOPEN_TYPES_H_
