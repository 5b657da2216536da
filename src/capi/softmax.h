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

/// A softmax problem of find 2.0.
struct SoftmaxCall {
  softmax::Problem problem;
  Constraints constraints{};
  search::FindMode find_mode = search::default_find_mode();
};

/// Find, immediate mode and tuning of the call's problem, which must outlive the result.
inline search::Call search_call(Handle& handle, const SoftmaxCall& call, const Constraints& allowed) {
  return softmax::search_call(handle, call.problem, allowed);
}
inline search::Call search_call(Handle& handle, const SoftmaxCall& call) {
  return search_call(handle, call, call.constraints);
}

/// Logs the MIOpenDriver line of the call.
void log_call(const softmax::Problem&, const softmax::Problem::Args&, const char* function, std::uint64_t solution = 0);
inline void log_call(const SoftmaxCall& c, const softmax::Problem::Args& args, const char* function,
                     std::uint64_t solution = 0) {
  log_call(c.problem, args, function, solution);
}

}  // namespace polymio::capi
