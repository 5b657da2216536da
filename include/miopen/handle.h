// Handles: a device with its stream, allocator and caches; the version of the API and the names of status codes.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_HANDLE_H_
#define MIOPEN_HANDLE_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// Threads: calls on different handles are independent. On one handle any number of threads may find, run, tune, query,
// allocate and set limits at the same time, each with its own outputs and workspace and with descriptors that no other
// thread changes; results are the same as of sequential calls. Only while no other call uses the handle: miopenDestroy,
// miopenSetStream, polymioSetThreadCap, polymioSetExecutor. With profiling on, the time is that of the call that ended
// last.

// Fork: a child of a process that had a handle computes on the calling thread only, with new handles and with those
// that no other thread was using during the fork; polymioGetThreadCap returns 1. An executor that the child sets is
// used. A child of a process without a handle has no such restrictions.

/// Allocates `sizeBytes` of device memory; null if there is none. `context` is the allocatorContext
/// of miopenSetAllocator. Called on the thread of the API call; it must not call the library.
typedef void* (*miopenAllocatorFunction)(void* context, size_t sizeBytes);

/// Frees memory of the matching allocator function.
typedef void (*miopenDeallocatorFunction)(void* context, void* memory);

/// What finds do about tuning, whatever their find mode and exhaustiveSearch say. The same actions as the values of
/// MIOPEN_FIND_ENFORCE, which acts while the policy is none. Tuned results are stored in the user's find database.
typedef enum {
  miopenTuningPolicyNone = 1,            ///< As the find asks.
  miopenTuningPolicyDbUpdate = 2,        ///< A find that asks for tuning tunes even what is tuned already.
  miopenTuningPolicySearch = 3,          ///< Every find tunes what is not tuned yet.
  miopenTuningPolicySearchDbUpdate = 4,  ///< Every find tunes, even what is tuned already.
  miopenTuningPolicyDbClean = 5,         ///< No find tunes; each removes the user's records of its problem.
} miopenTuningPolicy_t;

#ifdef MIOPEN_BETA_API
/// Switches of the whole process, all off at first. Any thread may set them.
typedef enum {
  miopenDebugLoggingQuiet = 0,        ///< No log line is written.
  miopenDebugFindEnforceDisable = 1,  ///< MIOPEN_FIND_ENFORCE and tuning policies do not act.
  miopenDebugIsWarmupOngoing = 2,     ///< Stored and reported only.
  /// Stored and reported only: the reference solvers are always available here, after all others.
  miopenDebugAlwaysEnableConvDirectNaive = 3,
} miopenDebugFlag_t;
#endif

/// The name of the enumerator, such as "miopenStatusBadParm"; "Unknown error status" for other
/// values. The text is static. polymioGetLastError tells the reason of a failure.
MIOPEN_EXPORT const char* miopenGetErrorString(miopenStatus_t error);

/// The API level of the library, 3.5.2: compare it with MIOPEN_VERSION_MAJOR and so on. Null
/// outputs are skipped. polymioGetVersion gives the version of the library itself.
MIOPEN_EXPORT miopenStatus_t miopenGetVersion(size_t* major, size_t* minor, size_t* patch);

/// Creates a handle on the device that POLYMIO_DEVICE names; unset, on the thread's current device of the HIP layer if
/// the process uses that; else on a CUDA device that the process uses already, else on the CPU. polymioCreateOnDevice
/// chooses explicitly.
MIOPEN_EXPORT miopenStatus_t miopenCreate(miopenHandle_t* handle);

/// Creates a handle that queues its work on `stream`: a CUstream (cudaStream_t) on CUDA, whose device it is then
/// unless POLYMIO_DEVICE names one; a cl_command_queue on OpenCL; on every device a stream of the HIP layer, which may
/// be destroyed before the handle. A null stream gives the same as miopenCreate; on a CPU anything else is BadParm.
MIOPEN_EXPORT miopenStatus_t miopenCreateWithStream(miopenHandle_t* handle, miopenAcceleratorQueue_t stream);

/// Waits for the work of the handle and frees it with its caches. Streams given by the caller stay alive. BadParm if
/// null.
MIOPEN_EXPORT miopenStatus_t miopenDestroy(miopenHandle_t handle);

/// Queues later work on another stream of the same device; null is the default stream. Does not
/// wait for work queued before. BadParm if the stream does not belong to the device of the handle.
MIOPEN_EXPORT miopenStatus_t miopenSetStream(miopenHandle_t handle, miopenAcceleratorQueue_t streamID);

/// The stream in use; null for the default stream. Its creator owns it.
MIOPEN_EXPORT miopenStatus_t miopenGetStream(miopenHandle_t handle, miopenAcceleratorQueue_t* streamID);

/// Replaces the functions by which the handle allocates device memory, polymioMalloc included. Each null stands for
/// the default of its own: an allocator alone must give memory that the device's own function frees (std::free on a
/// CPU, cuMemFree on CUDA), a deallocator alone gets what that device's own function allocated. Memory allocated before
/// is freed by the function that belonged to it. The context is passed through and must outlive the handle.
MIOPEN_EXPORT miopenStatus_t miopenSetAllocator(miopenHandle_t handle, miopenAllocatorFunction allocator,
                                                miopenDeallocatorFunction deallocator, void* allocatorContext);

/// Milliseconds that the device spent on the last call that ran a kernel; 0 if profiling is off.
MIOPEN_EXPORT miopenStatus_t miopenGetKernelTime(miopenHandle_t handle, float* time);

/// Switches the timing for miopenGetKernelTime on or off (the default). While it is on each call
/// waits for its work to finish.
MIOPEN_EXPORT miopenStatus_t miopenEnableProfiling(miopenHandle_t handle, bool enable);

/// Sets the tuning policy of the handle's finds, and of the first calls of primitives without a find. BadParm for other
/// values; the policy stays then.
MIOPEN_EXPORT miopenStatus_t miopenSetTuningPolicy(miopenHandle_t handle, miopenTuningPolicy_t newValue);

/// The tuning policy, none at first.
MIOPEN_EXPORT miopenStatus_t miopenGetTuningPolicy(miopenHandle_t handle, miopenTuningPolicy_t* value);

#ifdef MIOPEN_BETA_API
/// Sets a switch. BadParm if it is unknown.
MIOPEN_EXPORT miopenStatus_t miopenSetDebugFlag(miopenDebugFlag_t flag, bool value);

/// The state of a switch.
MIOPEN_EXPORT miopenStatus_t miopenGetDebugFlag(miopenDebugFlag_t flag, bool* value);
#endif

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_HANDLE_H_
