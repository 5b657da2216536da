// Find 2.0 problems of convolutions: the operator, its direction and its tensors as one object.
// SPDX-License-Identifier: MIT
#include "capi/guard.h"
#include "capi/translate.h"

using namespace polymio;
using capi::deref;
using capi::guard;
using capi::not_null;

miopenStatus_t miopenCreateConvProblem(miopenProblem_t* problem, miopenConvolutionDescriptor_t operatorDesc,
                                       miopenProblemDirection_t direction) {
  return guard([&] {
    not_null(problem, "problem");
    require(direction >= miopenProblemDirectionForward && direction <= miopenProblemDirectionBackwardWeights,
            "direction {} is not one of a convolution: 0 (forward), 1 (backward), 2 (backward weights)",
            static_cast<int>(direction));
    auto object = std::make_unique<capi::ProblemObject>();
    object->conv = deref(operatorDesc);
    object->direction = static_cast<convolution::Direction>(direction);
    *problem = object.release();
  });
}

miopenStatus_t miopenDestroyProblem(miopenProblem_t problem) {
  return guard([&] { delete &deref(problem); });
}

miopenStatus_t miopenSetProblemTensorDescriptor(miopenProblem_t problem, miopenTensorArgumentId_t id,
                                                const miopenTensorDescriptor_t descriptor) {
  return guard([&] {
    require(id >= miopenTensorConvolutionX && id <= miopenTensorConvolutionY,
            "tensor id {} does not belong to a convolution: allowed are X (1), W (2), Y (3)",
            static_cast<unsigned>(id));
    deref(problem).tensors[id] = capi::described(descriptor, "the tensor");
  });
}
