// The objects behind fusion plans, their operations, and arguments.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/fusion.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "capi/common/object.h"
#include "primitives/fusion/fusion.h"

namespace polymio::capi {

enum class OpKind : int {
  kNone,
  kConvolution,
  kBias,
  kActivation,
  kActivationBackward,
  kNormInference,
  kNormTraining,
  kNormBackward
};
const char* name_of(OpKind);

/// Belongs to its plan.
struct FusionOpObject : miopenFusionOpDescriptor, InSlots<FusionOpObject> {
  static constexpr const char* kKind = "operation of a fusion plan";
  Magic<0x706f6c79666f7065> magic;
  OpKind kind = OpKind::kNone;
  std::size_t index = 0;
  bool updates_running_moments = false;
  fusion::Operation operation;
};

struct FusionPlanObject : miopenFusionPlanDescriptor, InSlots<FusionPlanObject> {
  static constexpr const char* kKind = "fusion plan";
  Magic<0x706f6c7966706c6e> magic;
  miopenFusionDirection_t direction = miopenVerticalFusion;
  TensorDesc input, output;  // output: of the last operation so far
  std::vector<std::unique_ptr<FusionOpObject>> operations;
  unsigned algorithms = ~0u;  // of the convolution, a bit each

  /// The plan on one handle. Runs that need the memory wait for each other.
  struct Compiled {
    std::uint64_t handle;
    fusion::Plan plan;
    std::shared_ptr<void> memory;
    std::mutex mutex;
  };
  mutable std::mutex mutex;            // of what follows
  std::optional<fusion::Chain> chain;  // set by the first compilation after a change
  std::vector<std::shared_ptr<Compiled>> compiled;
};

struct OperatorArgsObject : miopenOperatorArgs, InSlots<OperatorArgsObject> {
  static constexpr const char* kKind = "set of operator arguments";
  Magic<0x706f6c796f617267> magic;
  // By the place of the operation in its plan.
  std::vector<OpKind> kinds;
  std::vector<fusion::Args> args;
};

inline FusionPlanObject& deref(miopenFusionPlanDescriptor_t p) { return checked<FusionPlanObject>(p); }
inline FusionOpObject& deref(miopenFusionOpDescriptor_t o) { return checked<FusionOpObject>(o); }
inline OperatorArgsObject& deref(miopenOperatorArgs_t a) { return checked<OperatorArgsObject>(a); }

}  // namespace polymio::capi
