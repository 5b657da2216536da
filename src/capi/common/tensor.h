// The object behind a tensor descriptor.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/tensor.h>

#include <optional>

#include "capi/common/object.h"
#include "core/tensor.h"

namespace polymio::capi {

struct TensorObject : miopenTensorDescriptor, InSlots<TensorObject> {
  static constexpr const char* kKind = "tensor descriptor";
  Magic<0x706f6c7974656e73> magic;
  TensorDesc desc;               // rank 0 until set
  std::optional<Layout> layout;  // as the caller gave it; none with strides
};

inline TensorDesc& deref(miopenTensorDescriptor_t t) { return checked<TensorObject>(t).desc; }

/// The tensor of a descriptor that has been set; else BadParm.
inline const TensorDesc& described(miopenTensorDescriptor_t t, const char* role) {
  if (!t) fail(Status::kBadParm, "the descriptor of {} is null", role);
  const TensorDesc& desc = deref(t);
  if (desc.rank == 0) fail(Status::kBadParm, "the descriptor of {} has not been set, or with sizes of 0 only", role);
  return desc;
}

}  // namespace polymio::capi
