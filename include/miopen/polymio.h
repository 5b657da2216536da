// Extensions of this library beside the MIOpen API: the text of the last error, devices and their
// memory, threads, the precision of convolutions, and why a solver was chosen. The rules of types.h
// hold here too. Every struct that the library fills begins with its size, which the caller sets to
// sizeof the struct: the library writes no more than that, so structs can grow.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_POLYMIO_H_
#define MIOPEN_POLYMIO_H_

#include <miopen/types.h>

#define POLYMIO_VERSION_MAJOR 0
#define POLYMIO_VERSION_MINOR 1
#define POLYMIO_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/// The text of the last call of this thread that failed: what was wrong, what was given, what is
/// allowed. "" if no call has failed. The pointer is owned by the library and valid until the next
/// failing call of this thread. Never null.
MIOPEN_EXPORT const char* polymioGetLastError(void);

/// The version of the library (miopenGetVersion gives the level of the MIOpen API). Null outputs
/// are skipped.
MIOPEN_EXPORT miopenStatus_t polymioGetVersion(size_t* major, size_t* minor, size_t* patch);

/// Kinds of devices; the values are bits.
typedef enum {
  polymioDeviceCpu = 1,
  polymioDeviceCuda = 2,
  polymioDeviceOpenCl = 4,
  polymioDeviceHip = 8,
} polymioDeviceKind_t;

/// One device of this machine. Texts end with a NUL.
typedef struct polymioDeviceInfo_t {
  size_t size;            ///< Set by the caller: sizeof(polymioDeviceInfo_t).
  char name[64];          ///< As POLYMIO_DEVICE and polymioCreateOnDevice take it: "cpu", "cuda:0".
  char model[128];        ///< The product, as the device reports it.
  char architecture[64];  ///< The class that database files are named after.
  int kind;               ///< One of polymioDeviceKind_t.
  int units;              ///< Cores or multiprocessors.
  size_t memory_bytes;    ///< All memory of the device.
  size_t cache_bytes[3];  ///< L1, L2, L3; 0 where there is none or it is unknown.
} polymioDeviceInfo_t;

/// Number of devices that polymioGetDeviceInfo can describe; at least 1, the CPU.
MIOPEN_EXPORT miopenStatus_t polymioGetDeviceCount(int* count);

/// Describes device `index`, 0 up to the count less one. The CPU is first. BadParm if the index is
/// outside, or if `info->size` is not set.
MIOPEN_EXPORT miopenStatus_t polymioGetDeviceInfo(int index, polymioDeviceInfo_t* info);

/// Creates a handle on the device of this name, whatever POLYMIO_DEVICE says. BadParm with the list
/// of devices if there is none. Free it with miopenDestroy.
MIOPEN_EXPORT miopenStatus_t polymioCreateOnDevice(miopenHandle_t* handle, const char* device);

/// Describes the device of a handle.
MIOPEN_EXPORT miopenStatus_t polymioGetHandleDevice(miopenHandle_t handle, polymioDeviceInfo_t* info);

/// What the device reaches in practice.
typedef struct polymioDevicePeak_t {
  size_t size;              ///< Set by the caller: sizeof(polymioDevicePeak_t).
  double fp32_gflops;       ///< Fused multiply-adds, two operations each, in 1e9 per second.
  double bandwidth_gbytes;  ///< Main memory traffic in 1e9 bytes per second.
  int threads;              ///< Threads that were used: the thread cap of the handle.
} polymioDevicePeak_t;

/// Measures the arithmetic and memory peak with the threads that the handle may use. Takes about 0.15
/// s; the handle keeps the result until the cap changes. Other load on the machine lowers it.
MIOPEN_EXPORT miopenStatus_t polymioMeasureDevice(miopenHandle_t handle, polymioDevicePeak_t* peak);

/// Allocates `bytes` (may be 0) on the handle's device, aligned to 64 bytes; or by the functions of
/// miopenSetAllocator, if set. AllocFailed if there is not enough. Free it with polymioFree on this handle.
MIOPEN_EXPORT miopenStatus_t polymioMalloc(miopenHandle_t handle, void** memory, size_t bytes);

/// Frees memory of polymioMalloc once the work queued on the handle is done. Null is allowed.
MIOPEN_EXPORT miopenStatus_t polymioFree(miopenHandle_t handle, void* memory);

/// Direction of a copy.
typedef enum {
  polymioCopyHostToDevice = 0,
  polymioCopyDeviceToHost = 1,
  polymioCopyDeviceToDevice = 2,
} polymioCopyKind_t;

/// Copies `bytes`, in order with the work on the handle's stream; ranges must not overlap. Host
/// memory may be reused or read when the call returns.
MIOPEN_EXPORT miopenStatus_t polymioCopy(miopenHandle_t handle, void* dst, const void* src, size_t bytes,
                                         polymioCopyKind_t kind);

/// Waits until all work queued on the handle is done; an error of that work is returned here.
MIOPEN_EXPORT miopenStatus_t polymioSynchronize(miopenHandle_t handle);

/// Limits the CPU threads that calls on this handle use. 0 means every core that the process may
/// run on, the default unless the environment sets another. BadParm if negative.
MIOPEN_EXPORT miopenStatus_t polymioSetThreadCap(miopenHandle_t handle, int threads);

/// How many threads calls on this handle may use; with the cap 0 that is the number of cores.
MIOPEN_EXPORT miopenStatus_t polymioGetThreadCap(miopenHandle_t handle, int* threads);

/// Runs `task(task_context, index)` exactly once for each index from 0 to `tasks` less one, in any
/// order, on any threads, possibly at the same time, and returns when all of them have returned. It
/// must not throw.
typedef void (*polymioExecutorFunction)(void* context, size_t tasks, void (*task)(void* task_context, size_t index),
                                        void* task_context);

/// Runs the CPU work of this handle on the caller's threads: each parallel section is one call of
/// `function` with `context`, made by the thread that called the library. The context must stay
/// alive until the executor is replaced or the handle destroyed. A null function restores the
/// default.
MIOPEN_EXPORT miopenStatus_t polymioSetExecutor(miopenHandle_t handle, polymioExecutorFunction function, void* context);

/// Which rounding errors a convolution may have, from the least to the most.
typedef enum {
  polymioMathStrict = 0,    ///< Only solvers whose error is that of a plain sum in the data type.
  polymioMathAccurate = 1,  ///< The default: fp32 arithmetic and fp32 sums, in any order.
  polymioMathTf32 = 2,      ///< Also products rounded to tf32 or bf16.
  polymioMathAny = 3,       ///< Also approximate algorithms, such as large Winograd tiles.
} polymioMathMode_t;

/// Sets the math mode of a convolution. It restricts find, the immediate mode, stored results and
/// runs.
MIOPEN_EXPORT miopenStatus_t polymioSetConvolutionMathMode(miopenConvolutionDescriptor_t convDesc,
                                                           polymioMathMode_t mode);

/// The math mode of a convolution.
MIOPEN_EXPORT miopenStatus_t polymioGetConvolutionMathMode(miopenConvolutionDescriptor_t convDesc,
                                                           polymioMathMode_t* mode);

/// Explains in JSON how the problem would be computed on the handle: every solver, applicable or
/// the rule that refuses it, predicted and measured microseconds, workspace bytes, determinism, and
/// where the choice comes from. The problem needs all its tensor descriptors. Nothing is measured.
///
/// `*size` is the capacity of `buffer` on entry and the bytes needed, with the NUL, on return. A
/// null buffer asks for the size only; if the buffer is too small only the size is written and the
/// status is BadParm.
MIOPEN_EXPORT miopenStatus_t polymioExplain(miopenHandle_t handle, miopenProblem_t problem, char* buffer, size_t* size);

/// The name of the solver behind an immediate-mode solution id, such as "ConvCpuGemmFwd". Names
/// never change. The text is static. BadParm if the id is unknown.
MIOPEN_EXPORT miopenStatus_t polymioGetSolutionName(uint64_t solution_id, const char** name);

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_POLYMIO_H_
