// The object behind an activation descriptor.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/activation.h>

#include "capi/common/object.h"
#include "primitives/activation/activation.h"

namespace polymio::capi {

struct ActivationObject : miopenActivationDescriptor, InSlots<ActivationObject> {
  static constexpr const char* kKind = "activation descriptor";
  Magic<0x706f6c7961637469> magic;
  activation::Mode mode = activation::Mode::kPassthru;
  activation::Parameters parameters;
};

inline ActivationObject& deref(miopenActivationDescriptor_t a) { return checked<ActivationObject>(a); }

}  // namespace polymio::capi
