// Group `handle`: library version, handles, streams, allocator, profiling.
// SPDX-License-Identifier: MIT
#include <miopen/handle.h>
#include <miopen/version.h>

#include "base/debug_flags.h"
#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"

using namespace polymio;
using capi::deref;
using capi::guard;
using capi::not_null;

namespace {

void create(miopenHandle_t* handle, const std::string& device, void* stream) {
  *not_null(handle, "handle") = nullptr;
  *handle = new capi::HandleObject(device, stream);
}

DebugFlag debug_flag_of(miopenDebugFlag_t flag) {
  require(flag >= miopenDebugLoggingQuiet && flag <= miopenDebugAlwaysEnableConvDirectNaive,
          "debug flag {} is unknown: allowed are 0 (quiet logging), 1 (find enforce disabled), 2 (warm-up), "
          "3 (naive convolution always enabled)",
          static_cast<int>(flag));
  return static_cast<DebugFlag>(flag);
}

}  // namespace

const char* miopenGetErrorString(miopenStatus_t error) {
  switch (error) {
    case miopenStatusSuccess: return "miopenStatusSuccess";
    case miopenStatusNotInitialized: return "miopenStatusNotInitialized";
    case miopenStatusInvalidValue: return "miopenStatusInvalidValue";
    case miopenStatusBadParm: return "miopenStatusBadParm";
    case miopenStatusAllocFailed: return "miopenStatusAllocFailed";
    case miopenStatusInternalError: return "miopenStatusInternalError";
    case miopenStatusNotImplemented: return "miopenStatusNotImplemented";
    case miopenStatusUnknownError: return "miopenStatusUnknownError";
    case miopenStatusUnsupportedOp: return "miopenStatusUnsupportedOp";
    case miopenStatusGpuOperationsSkipped: return "miopenStatusGpuOperationsSkipped";
    case miopenStatusVersionMismatch: return "miopenStatusVersionMismatch";
  }
  return "Unknown error status";
}

miopenStatus_t miopenGetVersion(size_t* major, size_t* minor, size_t* patch) {
  if (major) *major = MIOPEN_VERSION_MAJOR;
  if (minor) *minor = MIOPEN_VERSION_MINOR;
  if (patch) *patch = MIOPEN_VERSION_PATCH;
  return miopenStatusSuccess;
}

miopenStatus_t miopenCreate(miopenHandle_t* handle) {
  return guard([&] { create(handle, default_device(nullptr), nullptr); });
}

miopenStatus_t miopenCreateWithStream(miopenHandle_t* handle, miopenAcceleratorQueue_t stream) {
  return guard([&] { create(handle, default_device(stream), stream); });
}

miopenStatus_t miopenDestroy(miopenHandle_t handle) {
  return guard([&] { delete &capi::checked<capi::HandleObject>(handle); });
}

miopenStatus_t miopenSetStream(miopenHandle_t handle, miopenAcceleratorQueue_t streamID) {
  return guard([&] { deref(handle).stream().set_native(streamID); });
}

miopenStatus_t miopenGetStream(miopenHandle_t handle, miopenAcceleratorQueue_t* streamID) {
  return guard([&] {
    *not_null(streamID, "streamID") = static_cast<miopenAcceleratorQueue_t>(deref(handle).stream().native());
  });
}

miopenStatus_t miopenSetAllocator(miopenHandle_t handle, miopenAllocatorFunction allocator,
                                  miopenDeallocatorFunction deallocator, void* allocatorContext) {
  return guard([&] { deref(handle).set_allocator(allocator, deallocator, allocatorContext); });
}

miopenStatus_t miopenGetKernelTime(miopenHandle_t handle, float* time) {
  return guard([&] { *not_null(time, "time") = deref(handle).kernel_ms(); });
}

miopenStatus_t miopenEnableProfiling(miopenHandle_t handle, bool enable) {
  return guard([&] { deref(handle).enable_profiling(enable); });
}

miopenStatus_t miopenSetTuningPolicy(miopenHandle_t handle, miopenTuningPolicy_t newValue) {
  return guard([&] {
    require(newValue >= miopenTuningPolicyNone && newValue <= miopenTuningPolicyDbClean,
            "tuning policy {} is unknown: allowed are 1 (none), 2 (DbUpdate), 3 (Search), 4 (SearchDbUpdate), "
            "5 (DbClean)",
            static_cast<int>(newValue));
    deref(handle).set_tuning_policy(static_cast<Enforce>(newValue));
  });
}

miopenStatus_t miopenGetTuningPolicy(miopenHandle_t handle, miopenTuningPolicy_t* value) {
  return guard([&] { *not_null(value, "value") = static_cast<miopenTuningPolicy_t>(deref(handle).tuning_policy()); });
}

miopenStatus_t miopenSetDebugFlag(miopenDebugFlag_t flag, bool value) {
  return guard([&] { set_debug_flag(debug_flag_of(flag), value); });
}

miopenStatus_t miopenGetDebugFlag(miopenDebugFlag_t flag, bool* value) {
  return guard([&] { *not_null(value, "value") = debug_flag(debug_flag_of(flag)); });
}
