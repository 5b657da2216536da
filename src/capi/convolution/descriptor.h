// The object behind a convolution descriptor.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/convolution.h>

#include <vector>

#include "capi/common/object.h"
#include "core/solver.h"
#include "search/find.h"

namespace polymio::capi {

struct ConvolutionObject : miopenConvolutionDescriptor, InSlots<ConvolutionObject> {
  static constexpr const char* kKind = "convolution descriptor";
  Magic<0x706f6c79636f6e76> magic;
  struct State {
    bool transposed = false;
    std::vector<int> pad{0, 0}, stride{1, 1}, dilation{1, 1}, output_pad{0, 0};
    int groups = 1;
    int fp16_alt = -1, deterministic = 0, fp8_rounding = 1;
    int find_mode = static_cast<int>(search::default_find_mode());
    MathMode math = MathMode::kAccurate;
    int math_type = miopenMathPedantic;
    std::uint64_t seed = 0;  // of stochastic rounding

    /// The math mode of calls: the attribute decides where the mode is the default one.
    MathMode allowed_math() const {
      return math == MathMode::kAccurate && math_type == miopenMathDefault ? MathMode::kTf32 : math;
    }
  } state;
};

inline ConvolutionObject::State& deref(miopenConvolutionDescriptor_t c) { return checked<ConvolutionObject>(c).state; }

}  // namespace polymio::capi
