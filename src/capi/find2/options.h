// Options of a find.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/find2.h>

#include <map>
#include <optional>

#include "capi/common/object.h"

namespace polymio::capi {

struct FindOptionsState {
  bool tune = false;
  miopenFindResultsOrder_t order = miopenFindResultsOrderByTime;
  std::size_t workspace_limit = SIZE_MAX;
  struct Workspace {
    void* data;
    std::size_t bytes;
  };
  std::optional<Workspace> workspace;  // the caller's
  std::map<miopenTensorArgumentId_t, void*> tensors;
};

struct FindOptionsObject : miopenFindOptions, InSlots<FindOptionsObject> {
  static constexpr const char* kKind = "find options object";
  Magic<0x706f6c796f707473> magic;
  FindOptionsState state;
};

inline FindOptionsState& deref(miopenFindOptions_t o) { return checked<FindOptionsObject>(o).state; }

}  // namespace polymio::capi
