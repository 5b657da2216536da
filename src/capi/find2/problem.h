// Problems of find 2.0.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/find2.h>

#include <map>

#include "capi/convolution/call.h"

namespace polymio::capi {

/// A problem of find 2.0: a convolution with fused operations, or operations that are to be fused with one.
struct ProblemState {
  bool has_convolution = false, has_bias = false, has_activation = false;  // its operations, in this order
  ConvolutionObject::State conv;
  convolution::Direction direction = convolution::Direction::kForward;
  struct Activation {
    int mode = 0;  // miopenActivationMode_t
    double alpha = 0, beta = 0, gamma = 0;
  } activation;
  std::map<miopenTensorArgumentId_t, TensorDesc> tensors;
  bool fused() const { return has_convolution + has_bias + has_activation > 1; }
};

struct ProblemObject : miopenProblem, InSlots<ProblemObject> {
  static constexpr const char* kKind = "problem";
  Magic<0x706f6c7970726f62> magic;
  ProblemState state;
};

inline ProblemState& deref(miopenProblem_t p) { return checked<ProblemObject>(p).state; }

/// The call of a complete problem; `missing` is the status if a tensor descriptor is not set.
ConvolutionCall make_call(const ProblemState&, Status missing);

/// BadParm unless the argument belongs to the problem.
void check_id(const ProblemState&, miopenTensorArgumentId_t);
void check_no_scalar(miopenTensorArgumentId_t);
const char* name_of(miopenTensorArgumentId_t);

/// The argument that the last operation of the problem writes.
miopenTensorArgumentId_t output_id(const ProblemState&);

}  // namespace polymio::capi
