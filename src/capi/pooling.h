// The object behind a pooling descriptor.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/pooling.h>

#include "capi/common/object.h"
#include "primitives/pooling/pooling.h"

namespace polymio::capi {

/// Values are kept as given and checked when used, as MIOpen does.
struct PoolingObject : miopenPoolingDescriptor, InSlots<PoolingObject> {
  static constexpr const char* kKind = "pooling descriptor";
  Magic<0x706f6c79706f6f6c> magic;
  pooling::Mode mode = pooling::Mode::kMax;
  pooling::Window window;
  int index = miopenIndexUint8;
  int position = miopenPoolingWorkspaceIndexMask;
};

inline PoolingObject& deref(miopenPoolingDescriptor_t p) { return checked<PoolingObject>(p); }

}  // namespace polymio::capi
