// The object behind a dropout descriptor.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/dropout.h>

#include "capi/common/object.h"
#include "primitives/dropout/dropout.h"

namespace polymio::capi {

struct DropoutObject : miopenDropoutDescriptor, InSlots<DropoutObject> {
  static constexpr const char* kKind = "dropout descriptor";
  Magic<0x706f6c7964726f70> magic;
  float rate = 0;
  void* states = nullptr;  // the caller's device memory
  std::size_t states_bytes = 0;
  unsigned long long seed = 0;
  bool use_mask = false, state_evo = false;
};

inline DropoutObject& deref(miopenDropoutDescriptor_t d) { return checked<DropoutObject>(d); }

}  // namespace polymio::capi
