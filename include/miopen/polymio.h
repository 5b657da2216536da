// Extensions of this library beside the MIOpen API: the text of the last error, devices and their
// memory, threads, data types, the precision of convolutions, and why a solver was chosen. The rules of types.h
// hold here too. Every struct that the library fills begins with its size, which the caller sets to
// sizeof the struct: the library writes no more than that, so structs can grow.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_POLYMIO_H_
#define MIOPEN_POLYMIO_H_

#include <miopen/types.h>

/// @{
/// The version of this library.
#define POLYMIO_VERSION_MAJOR 0
#define POLYMIO_VERSION_MINOR 1
#define POLYMIO_VERSION_PATCH 0
/// @}

/// Weights of one convolution, in the form that its fastest solver reads. For inference: packing is done once, not
/// at each run. Opaque; belongs to its handle, which must outlive it.
MIOPEN_DECLARE_OBJECT(polymioPackedWeights);

/// The 8-bit float e4m3fn of the OCP, wherever a function takes a miopenDataType_t: bias 7, largest number 448, a NaN.
#define POLYMIO_FLOAT8_E4M3FN ((miopenDataType_t)0x100)
/// The 8-bit float e5m2 of the OCP: bias 15, largest number 57344, infinities and NaNs.
#define POLYMIO_FLOAT8_E5M2 ((miopenDataType_t)0x101)

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

/// Kinds of devices, as a bit mask.
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

/// Describes device `index`, from 0 to the count - 1. The CPU is first. BadParm if the index is out of range, or if
/// `info->size` is not set.
MIOPEN_EXPORT miopenStatus_t polymioGetDeviceInfo(int index, polymioDeviceInfo_t* info);

/// Why there is no device of this kind: a missing library, driver or device; "" if there is one. The text is
/// valid as long as the process.
MIOPEN_EXPORT miopenStatus_t polymioGetDeviceAbsence(polymioDeviceKind_t kind, const char** reason);

/// The GEMM library used by convolutions on device `index` ("cuBLASLt for CUDA 13.0"), or why none is used: a missing
/// file, an older driver; "" on devices without such a library. Loads the library. The text is valid as long as the
/// process. BadParm if the index is out of range.
MIOPEN_EXPORT miopenStatus_t polymioGetMatrixLibrary(int index, const char** text);

/// Creates a handle on the device of this name, whatever POLYMIO_DEVICE says. BadParm with the list of devices
/// if there is none, NotInitialized with the reason if there is no device of this kind. Free it with miopenDestroy.
MIOPEN_EXPORT miopenStatus_t polymioCreateOnDevice(miopenHandle_t* handle, const char* device);

/// Creates a handle on the CPU whose calls check their arguments and compute nothing (find is NotImplemented). They
/// leave the problems that they are of to polymioTakeProblem, at most one for calls that are equal. Free it with
/// miopenDestroy.
MIOPEN_EXPORT miopenStatus_t polymioCreateCollector(miopenHandle_t* handle);

/// The oldest problem that the calls with such a handle have left, null if there is none, of any primitive that has
/// solvers. It is for this header's functions; miopenFindSolutions and polymioPrepare return NotImplemented. Buffers of
/// the calls need not be alive. BadParm for other handles. Free it with miopenDestroyProblem.
MIOPEN_EXPORT miopenStatus_t polymioTakeProblem(miopenHandle_t handle, miopenProblem_t* problem);

/// Describes the device of a handle.
MIOPEN_EXPORT miopenStatus_t polymioGetHandleDevice(miopenHandle_t handle, polymioDeviceInfo_t* info);

/// The measured peak of a device.
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

/// Prepares calls on these problems: builds every applicable solver and compiles its kernels, several in parallel; also
/// tensor operations on the problems' types, biases, and the problems' activations, fused or alone. Later runs on the
/// handle with any algorithm, solution, workspace, alpha and beta neither compile nor allocate, and may be captured
/// into a CUDA graph. During a capture, a call that is not prepared is NotInitialized.
MIOPEN_EXPORT miopenStatus_t polymioPrepare(miopenHandle_t handle, const miopenProblem_t* problems, size_t count);

/// Packs `w` for the problem: a convolution or transposed convolution, forward or backward data, without fused
/// operations. Allocates memory, and measures the most promising solvers with some runs on private buffers. `w` must
/// not change or be freed until the object is destroyed. BadParm for other problems; AllocFailed without memory.
MIOPEN_EXPORT miopenStatus_t polymioPackWeights(miopenHandle_t handle, miopenProblem_t problem, const void* w,
                                                polymioPackedWeights_t* packed);

/// The convolution of the problem, alpha 1 and beta 0: `input` is x, or dy for backward data, `output` y or dx, in
/// the shapes and layouts of the problem. Needs no workspace. Several threads may run one object.
MIOPEN_EXPORT miopenStatus_t polymioRunPackedWeights(miopenHandle_t handle, polymioPackedWeights_t packed,
                                                     const void* input, void* output);

/// The chosen solver.
typedef struct polymioPackedWeightsInfo_t {
  size_t size;           ///< Set by the caller: sizeof(polymioPackedWeightsInfo_t).
  uint64_t solution_id;  ///< As of immediate mode.
  char solver[64];       ///< Its name.
  size_t bytes;          ///< Size of the packed weights; 0 if the weights are read in place.
} polymioPackedWeightsInfo_t;

/// Describes packed weights.
MIOPEN_EXPORT miopenStatus_t polymioGetPackedWeightsInfo(polymioPackedWeights_t packed,
                                                         polymioPackedWeightsInfo_t* info);

/// Frees the object and its memory.
MIOPEN_EXPORT miopenStatus_t polymioDestroyPackedWeights(polymioPackedWeights_t packed);

/// Compiles the GPU programs that serve nearly every convolution into the kernel cache on disk, unless they are there.
/// `device` is a device ("cuda:0"), or an architecture ("cuda-sm90") whose compiler is installed; the device itself is
/// not needed. Outputs may be null: the number of programs (0 for the CPU), and of those compiled by this call.
MIOPEN_EXPORT miopenStatus_t polymioWarm(const char* device, size_t* programs, size_t* compiled);

/// The same for the programs of given problems, of every part of fused ones: those of the solvers whose names begin
/// with `solver` (null: all; BadParm if there is none) at their default tune points or, with `all_points`, at every
/// point, so that tuning on another machine with the same compiler compiles nothing.
MIOPEN_EXPORT miopenStatus_t polymioWarmProblems(const char* device, const miopenProblem_t* problems, size_t count,
                                                 const char* solver, int all_points, size_t* programs,
                                                 size_t* compiled);

/// Limits the CPU threads that calls on this handle use. 0 means every core that the process may
/// run on, the default unless the environment sets another. BadParm if negative.
MIOPEN_EXPORT miopenStatus_t polymioSetThreadCap(miopenHandle_t handle, int threads);

/// How many threads calls on this handle may use; with the cap 0 that is the number of cores, and 1 in a forked
/// child (see handle.h).
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

/// The rounding errors that a convolution may have, smallest first.
typedef enum {
  polymioMathStrict = 0,    ///< Only solvers whose error is that of a plain sum in the data type.
  polymioMathAccurate = 1,  ///< The default: the errors of fp32 products and sums, in any order.
  polymioMathTf32 = 2,      ///< Also products rounded to tf32 or bf16.
  polymioMathAny = 3,       ///< Also approximate algorithms, such as large Winograd tiles.
} polymioMathMode_t;

/// Sets the math mode of a convolution. It restricts find, the immediate mode, stored results and
/// runs. Where it is accurate, MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE chooses: miopenMathDefault makes it tf32. All other
/// modes take precedence over the attribute, whose value they leave as it is.
MIOPEN_EXPORT miopenStatus_t polymioSetConvolutionMathMode(miopenConvolutionDescriptor_t convDesc,
                                                           polymioMathMode_t mode);

/// The math mode of a convolution.
MIOPEN_EXPORT miopenStatus_t polymioGetConvolutionMathMode(miopenConvolutionDescriptor_t convDesc,
                                                           polymioMathMode_t* mode);

/// Explains in JSON how the problem would be computed on the handle: for every solver whether it applies or why not,
/// predicted and measured microseconds, workspace bytes and determinism; and the source of the choice. The problem
/// needs all its tensor descriptors. Nothing is measured.
///
/// `*size` is the capacity of `buffer` on entry and the bytes needed, with the NUL, on return. A
/// null buffer only gets the size; if the buffer is too small only the size is written and the status is BadParm.
MIOPEN_EXPORT miopenStatus_t polymioExplain(miopenHandle_t handle, miopenProblem_t problem, char* buffer, size_t* size);

/// The name of the solver behind an immediate-mode solution id, such as "ConvCpuGemmFwd". Names
/// never change. The text is static. BadParm if the id is unknown.
MIOPEN_EXPORT miopenStatus_t polymioGetSolutionName(uint64_t solution_id, const char** name);

/// Where a time comes from.
typedef enum {
  polymioSourceEstimate = 0,   ///< Predicted by the solver's roofline model of this machine.
  polymioSourceModel = 1,      ///< Predicted by the learned model.
  polymioSourceNeighbour = 2,  ///< Measured on a similar problem, or with another number of cores.
  polymioSourceMeasured = 3,   ///< Measured on this problem, now or earlier.
} polymioSource_t;

/// One way to compute a problem.
typedef struct polymioOption_t {
  size_t size;             ///< Set by the caller in every element: sizeof(polymioOption_t).
  uint64_t solution_id;    ///< For the immediate mode.
  float time;              ///< Milliseconds.
  size_t workspace_size;   ///< Bytes.
  polymioSource_t source;  ///< Where the time comes from.
} polymioOption_t;

/// The trade-off between time and workspace: the Pareto-optimal solutions, least workspace first, each faster than the
/// one before. The first needs no workspace. `*count` is the capacity of `options` on entry and the number of solutions
/// on return; a null `options` only gets the number. Nothing is measured.
MIOPEN_EXPORT miopenStatus_t polymioGetOptions(miopenHandle_t handle, miopenProblem_t problem, polymioOption_t* options,
                                               size_t* count);

/// Where the time that the immediate mode reports for a solution comes from. BadParm if the solution
/// does not apply to the problem.
MIOPEN_EXPORT miopenStatus_t polymioGetSolutionSource(miopenHandle_t handle, miopenProblem_t problem,
                                                      uint64_t solution_id, polymioSource_t* source);

/// The same for a solution of miopenFindSolutions.
MIOPEN_EXPORT miopenStatus_t polymioGetFoundSolutionSource(miopenSolution_t solution, polymioSource_t* source);

/// Limits the workspace in bytes: no call on the handle requires, reports or allocates more. Applies to size queries,
/// find, the immediate mode, stored results and the private buffers of tuning. SIZE_MAX, the default, is no limit. A
/// solution without workspace always exists.
MIOPEN_EXPORT miopenStatus_t polymioSetWorkspaceLimit(miopenHandle_t handle, size_t bytes);

/// The limit of the handle; SIZE_MAX is none.
MIOPEN_EXPORT miopenStatus_t polymioGetWorkspaceLimit(miopenHandle_t handle, size_t* bytes);

/// Time limit of one find in milliseconds; 0, the default, is none. Within the limit find measures solvers in the order
/// of their predictions and returns predictions for the rest; polymioGetLastFindReport tells what it skipped.
MIOPEN_EXPORT miopenStatus_t polymioSetFindBudget(miopenHandle_t handle, double milliseconds);

/// The limit of a find on the handle; 0 is none.
MIOPEN_EXPORT miopenStatus_t polymioGetFindBudget(miopenHandle_t handle, double* milliseconds);

/// What the last find of this thread measured and what it skipped, and why, as text. "" before the first.
/// Owned by the library, valid until the next find of this thread. Never null.
MIOPEN_EXPORT const char* polymioGetLastFindReport(void);

/// Primitives without a find (batch norm, pooling, softmax, normalizations, reductions and others) choose a solver in
/// the first call of a problem, fusion plans when they are compiled, others in a find. While `on` is not 0, such a call
/// of this thread keeps what explains its choice; what was kept before is forgotten. Off by default.
MIOPEN_EXPORT miopenStatus_t polymioSetExplaining(int on);

/// The explanations that this thread has kept, of up to 16 problems, the latest last: JSON as of polymioExplain, a line
/// each. "" before the first. Owned by the library, valid until the thread keeps another one. Never null.
MIOPEN_EXPORT const char* polymioGetLastExplanation(void);

/// Online tuning, off by default. On: calls that name an algorithm (miopenConvolutionForward and its siblings) try the
/// promising solvers of the problem, of any algorithm, within the given workspace, until the fastest is known. Uses no
/// thread or memory of its own: every measurement is a call of the application. With reasonable predictions a thousand
/// calls cost at most 2% more than with the fastest solver. Results of different solvers differ by rounding. Calls with
/// a beta other than 0 do not take part.
MIOPEN_EXPORT miopenStatus_t polymioSetTuneWhileRunning(miopenHandle_t handle, int on);

/// The progress of the tuning of one solver for one problem.
typedef struct polymioTuningProgress_t {
  size_t size;          ///< Set by the library.
  const char* problem;  ///< Its MIOpenDriver line; valid during the call.
  const char* solver;   ///< Its name.
  size_t done;          ///< Measured candidates.
  size_t total;         ///< All candidates of this solver.
  double best_time;     ///< Milliseconds of the best candidate so far; infinite before the first.
  double eta;           ///< Expected seconds for the rest of this solver.
} polymioTuningProgress_t;

/// Called between the candidates of any tuning on the handle, by the thread that tunes. A result other than 0 stops the
/// tuning: measurements are kept, and a later tuning continues from them.
typedef int (*polymioTuningCallback)(void* context, const polymioTuningProgress_t* progress);

/// Sets the callback; null removes it. `context` must stay alive until then.
MIOPEN_EXPORT miopenStatus_t polymioSetTuningCallback(miopenHandle_t handle, polymioTuningCallback function,
                                                      void* context);

/// Options of polymioTune.
typedef struct polymioTuneOptions_t {
  size_t size;       ///< Set by the caller: sizeof(polymioTuneOptions_t).
  double budget_ms;  ///< For the whole problem; 0: MIOPEN_TUNING_TIME_MS_MAX per solver.
  int again;         ///< Not 0: also tunes solvers that are tuned already.
} polymioTuneOptions_t;

/// The result of polymioTune.
typedef struct polymioTuneResult_t {
  size_t size;            ///< Set by the caller: sizeof(polymioTuneResult_t).
  int complete;           ///< 1: every solver is tuned; 0: stopped by the budget or the callback.
  size_t candidates;      ///< Measured by this call.
  uint64_t solution_id;   ///< The fastest.
  float time;             ///< Its milliseconds.
  size_t workspace_size;  ///< Its workspace in bytes.
} polymioTuneResult_t;

/// Tunes every solver of a problem on random inputs in private memory (within the handle's workspace limit) and stores
/// the results; continues an earlier tuning that was stopped. `options` may be null.
MIOPEN_EXPORT miopenStatus_t polymioTune(miopenHandle_t handle, miopenProblem_t problem,
                                         const polymioTuneOptions_t* options, polymioTuneResult_t* result);

/// Kinds and contents of records in a database or pack. Texts are valid during the call only.
typedef enum {
  polymioRecordPredicted = 0,
  polymioRecordMeasured = 1,
  polymioRecordTuned = 2,        ///< Measured at the best point of a completed search.
  polymioRecordTrial = 3,        ///< One point of a search.
  polymioRecordFailed = 4,       ///< A point that failed, or was stopped because it was slow.
  polymioRecordQuarantined = 5,  ///< The solver gave a wrong result on a problem of this family.
  polymioRecordErased = 6,       ///< The user's record was erased.
} polymioRecordKind_t;

/// One record. Texts end with a NUL and are not null.
typedef struct polymioRecord_t {
  size_t size;               ///< Set by the side that fills the struct: sizeof(polymioRecord_t).
  const char* problem;       ///< Its MIOpenDriver line.
  const char* solver;        ///< Its name.
  int solver_version;        ///< The solver's version when it was measured.
  double time;               ///< Milliseconds.
  size_t workspace_size;     ///< Bytes.
  const char* tune_point;    ///< "" if the solver has no knobs.
  int units;                 ///< Cores or multiprocessors of the device.
  int threads;               ///< Threads that were used.
  polymioRecordKind_t kind;  ///< Where the time comes from.
  const char* family;        ///< "" if unknown.
  const char* log_sizes;     ///< Numbers separated by commas.
  double work;               ///< Operations or bytes, by which times are scaled within a family; 0 if unknown.
} polymioRecord_t;

/// Called for every line `text` of a file; `record` is null if the line is damaged or not a record. A result other than
/// 0 ends the reading.
typedef int (*polymioRecordVisitor)(void* context, size_t line, const char* text, const polymioRecord_t* record);

/// Reads a database or pack. BadParm if it cannot be read.
MIOPEN_EXPORT miopenStatus_t polymioReadRecords(const char* file, polymioRecordVisitor visitor, void* context);

/// Writes a pack: replaces the file by these records, merged; on failure the old file stays.
MIOPEN_EXPORT miopenStatus_t polymioWriteRecords(const char* file, const polymioRecord_t* records, size_t count);

/// Loads a pack in this process, for devices of the class `architecture` (as in polymioDeviceInfo_t). Precedence: the
/// user's own results, this pack, the system's. BadParm if the file is not a pack.
MIOPEN_EXPORT miopenStatus_t polymioLoadPack(const char* architecture, const char* file);

/// The same for a pack of `size` bytes at `data`, which is copied.
MIOPEN_EXPORT miopenStatus_t polymioLoadPackFromMemory(const char* architecture, const void* data, size_t size);

/// JSON: the database files of the handle's device, whether they can be read and written, their numbers of records and
/// damaged lines; and, if `problem` is not null, whether the database has it, and if not, why and what to do, and which
/// solvers refuse it for which reason. `buffer` and `size` as in polymioExplain.
MIOPEN_EXPORT miopenStatus_t polymioDiagnose(miopenHandle_t handle, miopenProblem_t problem, char* buffer,
                                             size_t* size);

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_POLYMIO_H_
