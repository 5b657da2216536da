// The object behind a reduction descriptor.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/reduce_calculation.h>
#include <miopen/reduce_extreme.h>
#include <miopen/reduce_tensor.h>

#include "capi/common/object.h"
#include "primitives/reduce/reduce.h"

namespace polymio::capi {

struct ReduceObject : miopenReduceTensorDescriptor, InSlots<ReduceObject> {
  static constexpr const char* kKind = "reduction descriptor";
  Magic<0x706f6c7972656475> magic;
  reduce::Op op = reduce::Op::kAdd;
  reduce::Nan nan = reduce::Nan::kIgnore;
  miopenDataType_t computation = miopenFloat;
  miopenReduceTensorIndices_t indices = MIOPEN_REDUCE_TENSOR_NO_INDICES;
  miopenIndicesType_t indices_type = MIOPEN_32BIT_INDICES;
};

inline ReduceObject& deref(miopenReduceTensorDescriptor_t r) { return checked<ReduceObject>(r); }

}  // namespace polymio::capi
