// The object behind a softmax descriptor, and how softmax calls are translated.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/softmax.h>

#include "capi/common/object.h"
#include "primitives/softmax/softmax.h"

namespace polymio::capi {

struct SoftmaxObject : miopenSoftmaxDescriptor, InSlots<SoftmaxObject> {
  static constexpr const char* kKind = "softmax descriptor";
  struct State {
    float alpha = 1, beta = 0;
    softmax::Algorithm algorithm = softmax::Algorithm::kAccurate;
    softmax::Mode mode = softmax::Mode::kChannel;
  };
  Magic<0x706f6c79736f6674> magic;
  State state;
};

inline SoftmaxObject::State& deref(miopenSoftmaxDescriptor_t s) { return checked<SoftmaxObject>(s).state; }

/// BadParm for unknown numbers.
softmax::Algorithm checked_algorithm(miopenSoftmaxAlgorithm_t);
softmax::Mode checked_mode(miopenSoftmaxMode_t);

/// Logs the MIOpenDriver line of the call.
void log_call(const softmax::Problem&, const softmax::Problem::Args&, const char* function);

}  // namespace polymio::capi
