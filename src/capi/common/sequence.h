// The object behind a sequence tensor descriptor.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/tensor.h>

#include <array>
#include <optional>
#include <vector>

#include "capi/common/object.h"
#include "primitives/rnn/rnn.h"

namespace polymio::capi {

struct SeqTensorObject : miopenSeqTensorDescriptor, InSlots<SeqTensorObject> {
  static constexpr const char* kKind = "sequence tensor descriptor";
  Magic<0x706f6c7973657174> magic;
  DataType type = DataType::kFloat;
  rnn::Order order = rnn::Order::kTimeMajor;
  std::int64_t steps = 0, vector = 0;  // 0 until set
  std::vector<std::int64_t> lengths;
  std::optional<std::array<unsigned char, 8>> padding;  // an element
};

inline SeqTensorObject& deref(miopenSeqTensorDescriptor_t t) { return checked<SeqTensorObject>(t); }

}  // namespace polymio::capi
