// HIP functions for programs written for it: devices, memory, copies, streams, events, errors. libpolymio_hip runs them
// on CPUs, NVIDIA GPUs and OpenCL devices. C99 and C++11.
// SPDX-License-Identifier: MIT
#ifndef HIP_INCLUDE_HIP_HIP_RUNTIME_API_H
#define HIP_INCLUDE_HIP_HIP_RUNTIME_API_H

#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__ 1
#endif
#ifndef __HIP_PLATFORM_HCC__
#define __HIP_PLATFORM_HCC__ 1
#endif

#include <hip/hip_version.h>
#include <stddef.h>
#include <stdint.h>

// Rules. A function that fails returns what was wrong and keeps it for hipGetLastError, of each thread; the text is
// that of polymioGetLastError (miopen/polymio.h). No function throws. All are safe to call from several threads, as
// long as no other thread uses an object while it is destroyed.
//
// Devices. With POLYMIO_DEVICE set there is one, the device that it names; else those of polymioGetDeviceInfo, the CPU
// first. Each thread has a current one, which is device 0 until hipSetDevice, and which miopenCreate uses, too.
//
// Streams. Commands of a stream run in order, and those of different streams side by side. A null stream is the default
// stream of the current device: its commands begin when the blocking streams of the device are done and the other way
// round. On a CPU a stream is a queue with a thread, and commands of the default stream run in the caller.

#define HIP_PUBLIC_API __attribute__((visibility("default")))

#ifdef __cplusplus
#define HIP_DEFAULT_ARG(value) = value
extern "C" {
#else
#define HIP_DEFAULT_ARG(value)
#endif

typedef enum hipError_t {
  hipSuccess = 0,
  hipErrorInvalidValue = 1,
  hipErrorOutOfMemory = 2,
  hipErrorMemoryAllocation = 2,
  hipErrorNotInitialized = 3,
  hipErrorInitializationError = 3,
  hipErrorDeinitialized = 4,
  hipErrorInvalidConfiguration = 9,
  hipErrorInvalidPitchValue = 12,
  hipErrorInvalidSymbol = 13,
  hipErrorInvalidDevicePointer = 17,
  hipErrorInvalidMemcpyDirection = 21,
  hipErrorInsufficientDriver = 35,
  hipErrorMissingConfiguration = 52,
  hipErrorPriorLaunchFailure = 53,
  hipErrorInvalidDeviceFunction = 98,
  hipErrorNoDevice = 100,
  hipErrorInvalidDevice = 101,
  hipErrorInvalidImage = 200,
  hipErrorInvalidContext = 201,
  hipErrorNoBinaryForGpu = 209,
  hipErrorFileNotFound = 301,
  hipErrorInvalidHandle = 400,
  hipErrorInvalidResourceHandle = 400,
  hipErrorIllegalState = 401,
  hipErrorNotFound = 500,
  hipErrorNotReady = 600,
  hipErrorIllegalAddress = 700,
  hipErrorLaunchOutOfResources = 701,
  hipErrorLaunchTimeOut = 702,
  hipErrorPeerAccessAlreadyEnabled = 704,
  hipErrorPeerAccessNotEnabled = 705,
  hipErrorAssert = 710,
  hipErrorHostMemoryAlreadyRegistered = 712,
  hipErrorHostMemoryNotRegistered = 713,
  hipErrorLaunchFailure = 719,
  hipErrorNotSupported = 801,
  hipErrorStreamCaptureUnsupported = 900,
  hipErrorUnknown = 999,
  hipErrorRuntimeMemory = 1052,
  hipErrorRuntimeOther = 1053,
  hipErrorTbd
} hipError_t;

typedef enum hipMemcpyKind {
  hipMemcpyHostToHost = 0,
  hipMemcpyHostToDevice = 1,
  hipMemcpyDeviceToHost = 2,
  hipMemcpyDeviceToDevice = 3,
  hipMemcpyDefault = 4
} hipMemcpyKind;

typedef enum hipMemoryType {
  hipMemoryTypeUnregistered = 0,
  hipMemoryTypeHost = 1,
  hipMemoryTypeDevice = 2,
  hipMemoryTypeManaged = 3
} hipMemoryType;

typedef enum hipDeviceAttribute_t {
  hipDeviceAttributeClockRate = 5,
  hipDeviceAttributeComputeCapabilityMajor = 23,
  hipDeviceAttributeL2CacheSize = 19,
  hipDeviceAttributeMaxThreadsPerBlock = 56,
  hipDeviceAttributeMemoryBusWidth = 59,
  hipDeviceAttributeMemoryClockRate = 60,
  hipDeviceAttributeComputeCapabilityMinor = 61,
  hipDeviceAttributeMultiprocessorCount = 63,
  hipDeviceAttributeMaxSharedMemoryPerBlock = 74,
  hipDeviceAttributeWarpSize = 87
} hipDeviceAttribute_t;

typedef int hipDevice_t;
typedef void* hipDeviceptr_t;
typedef struct ihipStream_t* hipStream_t;
typedef struct ihipEvent_t* hipEvent_t;
typedef void (*hipStreamCallback_t)(hipStream_t stream, hipError_t status, void* userData);
typedef void (*hipHostFn_t)(void* userData);

#define hipStreamDefault 0x00
#define hipStreamNonBlocking 0x01
#define hipEventDefault 0x0
#define hipEventBlockingSync 0x1
#define hipEventDisableTiming 0x2
#define hipHostMallocDefault 0x0
#define hipHostMallocPortable 0x1
#define hipHostMallocMapped 0x2
#define hipMemAttachGlobal 0x1
#define hipDeviceScheduleAuto 0x0
#define hipDeviceScheduleSpin 0x1
#define hipDeviceScheduleYield 0x2
#define hipDeviceScheduleBlockingSync 0x4
/// The default stream under two other names.
#define hipStreamLegacy ((hipStream_t)0)
#define hipStreamPerThread ((hipStream_t)0)

/// Sizes of a grid or block.
typedef struct dim3 {
  uint32_t x, y, z;
#ifdef __cplusplus
  constexpr dim3(uint32_t x_ = 1, uint32_t y_ = 1, uint32_t z_ = 1) : x(x_), y(y_), z(z_) {}
#endif
} dim3;

/// A device. Members that do not apply to it are 0. Sizes in bytes, clocks in kHz.
typedef struct hipDeviceProp_t {
  char name[256];  ///< The product.
  size_t totalGlobalMem;
  size_t sharedMemPerBlock;
  int regsPerBlock;
  int warpSize;
  int maxThreadsPerBlock;
  int maxThreadsDim[3];
  int maxGridSize[3];
  int clockRate;
  int memoryClockRate;  ///< With memoryBusWidth, in bits, and two transfers per clock it gives the bandwidth.
  int memoryBusWidth;
  size_t totalConstMem;
  int major;  ///< Of the compute capability of NVIDIA's GPUs; 1.0 elsewhere.
  int minor;
  int multiProcessorCount;  ///< Or cores.
  int l2CacheSize;
  int maxThreadsPerMultiProcessor;
  int computeMode;
  int clockInstructionRate;
  int concurrentKernels;
  int pciDomainID;
  int pciBusID;
  int pciDeviceID;
  size_t maxSharedMemoryPerMultiProcessor;
  int isMultiGpuBoard;
  int canMapHostMemory;
  int gcnArch;            ///< 0: no AMD GPU.
  char gcnArchName[256];  ///< The class of the device as database files have it: "cuda-sm90".
  int integrated;
  int managedMemory;
  int unifiedAddressing;
  int cooperativeLaunch;
} hipDeviceProp_t;

/// What hipPointerGetAttributes tells.
typedef struct hipPointerAttribute_t {
  enum hipMemoryType type;
  int device;
  void* devicePointer;
  void* hostPointer;
  int isManaged;
  unsigned allocationFlags;
} hipPointerAttribute_t;

// Start, errors. Texts are static.
HIP_PUBLIC_API hipError_t hipInit(unsigned int flags);
HIP_PUBLIC_API hipError_t hipDriverGetVersion(int* driverVersion);
HIP_PUBLIC_API hipError_t hipRuntimeGetVersion(int* runtimeVersion);
HIP_PUBLIC_API const char* hipGetErrorName(hipError_t error);
HIP_PUBLIC_API const char* hipGetErrorString(hipError_t error);
/// The last error of this thread; hipGetLastError also clears it. hipErrorNotReady is not kept.
HIP_PUBLIC_API hipError_t hipGetLastError(void);
HIP_PUBLIC_API hipError_t hipPeekAtLastError(void);

// Devices.
HIP_PUBLIC_API hipError_t hipGetDeviceCount(int* count);
HIP_PUBLIC_API hipError_t hipSetDevice(int deviceId);
HIP_PUBLIC_API hipError_t hipGetDevice(int* deviceId);
HIP_PUBLIC_API hipError_t hipGetDeviceProperties(hipDeviceProp_t* prop, int deviceId);
HIP_PUBLIC_API hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int deviceId);
HIP_PUBLIC_API hipError_t hipDeviceGet(hipDevice_t* device, int ordinal);
HIP_PUBLIC_API hipError_t hipDeviceGetName(char* name, int length, hipDevice_t device);
HIP_PUBLIC_API hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t device);
HIP_PUBLIC_API hipError_t hipDeviceGetPCIBusId(char* pciBusId, int length, int device);
/// Flags are accepted and have no effect.
HIP_PUBLIC_API hipError_t hipSetDeviceFlags(unsigned flags);
/// Waits for all streams of the current device.
HIP_PUBLIC_API hipError_t hipDeviceSynchronize(void);
/// Waits only: memory and streams stay.
HIP_PUBLIC_API hipError_t hipDeviceReset(void);
/// Always 0: devices exchange data through the host.
HIP_PUBLIC_API hipError_t hipDeviceCanAccessPeer(int* canAccessPeer, int deviceId, int peerDeviceId);

// Memory of the current device, aligned to 64 bytes. 0 bytes give null, which hipFree takes.
HIP_PUBLIC_API hipError_t hipMalloc(void** ptr, size_t size);
/// Frees memory of any device, once its work is done.
HIP_PUBLIC_API hipError_t hipFree(void* ptr);
HIP_PUBLIC_API hipError_t hipMallocAsync(void** ptr, size_t size, hipStream_t stream);
HIP_PUBLIC_API hipError_t hipFreeAsync(void* ptr, hipStream_t stream);
/// CPU only; NotSupported on GPUs.
HIP_PUBLIC_API hipError_t hipMallocManaged(void** ptr, size_t size, unsigned int flags HIP_DEFAULT_ARG(1));
/// Ordinary memory of the host. Flags have no effect.
HIP_PUBLIC_API hipError_t hipHostMalloc(void** ptr, size_t size, unsigned int flags HIP_DEFAULT_ARG(0));
HIP_PUBLIC_API hipError_t hipHostAlloc(void** ptr, size_t size, unsigned int flags);
HIP_PUBLIC_API hipError_t hipMallocHost(void** ptr, size_t size);
HIP_PUBLIC_API hipError_t hipHostFree(void* ptr);
HIP_PUBLIC_API hipError_t hipFreeHost(void* ptr);
HIP_PUBLIC_API hipError_t hipMemGetInfo(size_t* free, size_t* total);
/// InvalidValue for what neither hipMalloc nor hipHostMalloc has made.
HIP_PUBLIC_API hipError_t hipPointerGetAttributes(hipPointerAttribute_t* attributes, const void* ptr);

// Copies and fills. Functions without a stream use the default stream and are complete when they return. Memory of the
// host must stay as it is until an asynchronous copy is done.
HIP_PUBLIC_API hipError_t hipMemcpy(void* dst, const void* src, size_t sizeBytes, hipMemcpyKind kind);
HIP_PUBLIC_API hipError_t hipMemcpyAsync(void* dst, const void* src, size_t sizeBytes, hipMemcpyKind kind,
                                         hipStream_t stream HIP_DEFAULT_ARG(NULL));
HIP_PUBLIC_API hipError_t hipMemcpyWithStream(void* dst, const void* src, size_t sizeBytes, hipMemcpyKind kind,
                                              hipStream_t stream);
HIP_PUBLIC_API hipError_t hipMemcpyHtoD(hipDeviceptr_t dst, void* src, size_t sizeBytes);
HIP_PUBLIC_API hipError_t hipMemcpyDtoH(void* dst, hipDeviceptr_t src, size_t sizeBytes);
HIP_PUBLIC_API hipError_t hipMemcpyDtoD(hipDeviceptr_t dst, hipDeviceptr_t src, size_t sizeBytes);
HIP_PUBLIC_API hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t dst, void* src, size_t sizeBytes, hipStream_t stream);
HIP_PUBLIC_API hipError_t hipMemcpyDtoHAsync(void* dst, hipDeviceptr_t src, size_t sizeBytes, hipStream_t stream);
HIP_PUBLIC_API hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t dst, hipDeviceptr_t src, size_t sizeBytes,
                                             hipStream_t stream);
/// `value` is a byte.
HIP_PUBLIC_API hipError_t hipMemset(void* dst, int value, size_t sizeBytes);
HIP_PUBLIC_API hipError_t hipMemsetAsync(void* dst, int value, size_t sizeBytes,
                                         hipStream_t stream HIP_DEFAULT_ARG(NULL));
HIP_PUBLIC_API hipError_t hipMemsetD8(hipDeviceptr_t dst, unsigned char value, size_t count);

// Streams of the current device.
HIP_PUBLIC_API hipError_t hipStreamCreate(hipStream_t* stream);
HIP_PUBLIC_API hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned int flags);
/// All priorities are the same.
HIP_PUBLIC_API hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned int flags, int priority);
HIP_PUBLIC_API hipError_t hipDeviceGetStreamPriorityRange(int* leastPriority, int* greatestPriority);
/// Waits for the stream. Handles may still have it: they keep what they need of it.
HIP_PUBLIC_API hipError_t hipStreamDestroy(hipStream_t stream);
HIP_PUBLIC_API hipError_t hipStreamSynchronize(hipStream_t stream);
/// hipErrorNotReady while commands are left.
HIP_PUBLIC_API hipError_t hipStreamQuery(hipStream_t stream);
HIP_PUBLIC_API hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event,
                                             unsigned int flags HIP_DEFAULT_ARG(0));
HIP_PUBLIC_API hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t* device);
/// Calls a function of the host in order with the stream; on GPUs the call waits for the stream.
HIP_PUBLIC_API hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback, void* userData,
                                               unsigned int flags);
HIP_PUBLIC_API hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void* userData);

// Events. On a CPU they are times of the host's clock.
HIP_PUBLIC_API hipError_t hipEventCreate(hipEvent_t* event);
HIP_PUBLIC_API hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags);
HIP_PUBLIC_API hipError_t hipEventDestroy(hipEvent_t event);
HIP_PUBLIC_API hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream HIP_DEFAULT_ARG(NULL));
HIP_PUBLIC_API hipError_t hipEventSynchronize(hipEvent_t event);
HIP_PUBLIC_API hipError_t hipEventQuery(hipEvent_t event);
/// hipErrorNotReady until both are reached.
HIP_PUBLIC_API hipError_t hipEventElapsedTime(float* ms, hipEvent_t start, hipEvent_t stop);

#ifdef __cplusplus
}  // extern "C"

template <class T>
inline hipError_t hipMalloc(T** ptr, size_t size) {
  return hipMalloc(reinterpret_cast<void**>(ptr), size);
}
template <class T>
inline hipError_t hipMallocAsync(T** ptr, size_t size, hipStream_t stream) {
  return hipMallocAsync(reinterpret_cast<void**>(ptr), size, stream);
}
template <class T>
inline hipError_t hipMallocManaged(T** ptr, size_t size, unsigned int flags = 1) {
  return hipMallocManaged(reinterpret_cast<void**>(ptr), size, flags);
}
template <class T>
inline hipError_t hipHostMalloc(T** ptr, size_t size, unsigned int flags = 0) {
  return hipHostMalloc(reinterpret_cast<void**>(ptr), size, flags);
}
template <class T>
inline hipError_t hipMallocHost(T** ptr, size_t size) {
  return hipMallocHost(reinterpret_cast<void**>(ptr), size);
}
#endif

#endif  // HIP_INCLUDE_HIP_HIP_RUNTIME_API_H
