// The object behind a handle.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/handle.h>

#include <string>

#include "capi/common/object.h"
#include "core/handle.h"

namespace polymio::capi {

struct HandleObject : miopenHandle, InSlots<HandleObject> {
  static constexpr const char* kKind = "handle";
  Magic<0x706f6c7968616e64> magic;
  Handle handle;
  HandleObject(const std::string& device, void* stream) : handle(device, stream) {}
};

inline Handle& deref(miopenHandle_t h) { return checked<HandleObject>(h).handle; }

}  // namespace polymio::capi
