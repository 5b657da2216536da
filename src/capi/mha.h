// The object behind an attention descriptor, and an attention problem of find 2.0.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/find2.h>

#include "capi/common/object.h"
#include "primitives/mha/mha.h"

namespace polymio::capi {

struct MhaObject : miopenMhaDescriptor, InSlots<MhaObject> {
  static constexpr const char* kKind = "attention descriptor";
  struct State {
    float scale = 1;
  };
  Magic<0x706f6c796d686100> magic;
  State state;
};

inline MhaObject::State& deref(miopenMhaDescriptor_t d) { return checked<MhaObject>(d).state; }

struct MhaCall {
  mha::Problem problem;
  Constraints constraints{};
  search::FindMode find_mode = search::default_find_mode();
};

/// Find, immediate mode and tuning of the call's problem, which must outlive the result.
inline search::Call search_call(Handle& handle, const MhaCall& call, const Constraints& allowed) {
  return mha::search_call(handle, call.problem, allowed);
}
inline search::Call search_call(Handle& handle, const MhaCall& call) {
  return search_call(handle, call, call.constraints);
}

/// Logs the MIOpenDriver line of the call.
void log_call(const MhaCall&, const mha::Problem::Args&, const char* function, std::uint64_t solution = 0);

}  // namespace polymio::capi
