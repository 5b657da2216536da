// Problems of find 2.0. A new kind of operation is a struct here, an alternative of Operation and its make_call; a
// primitive that solves problems is an alternative of ProblemCall and the functions that convolution.h has.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/find2.h>

#include <map>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "capi/convolution/call.h"
#include "capi/mha.h"
#include "capi/softmax.h"
#include "primitives/fusion/fusion.h"

namespace polymio::capi {

/// A tensor of an operation.
struct TensorName {
  miopenTensorArgumentId_t id;
  const char* text;
};

struct ConvolutionOperation {
  static constexpr const char* kName = "a convolution";
  static constexpr bool kIsFusable = true;  // may be part of a fused problem
  static constexpr TensorName kTensors[] = {{miopenTensorConvolutionX, "miopenTensorConvolutionX"},
                                            {miopenTensorConvolutionW, "miopenTensorConvolutionW"},
                                            {miopenTensorConvolutionY, "miopenTensorConvolutionY"}};
  ConvolutionObject::State descriptor;
};

struct BiasOperation {
  static constexpr const char* kName = "a bias";
  static constexpr bool kIsFusable = true;
  static constexpr TensorName kTensors[] = {{miopenTensorBiasX, "miopenTensorBiasX"},
                                            {miopenTensorBiasY, "miopenTensorBiasY"},
                                            {miopenTensorBias, "miopenTensorBias"}};
};

struct ActivationOperation {
  static constexpr const char* kName = "an activation";
  static constexpr bool kIsFusable = true;
  static constexpr TensorName kTensors[] = {{miopenTensorActivationX, "miopenTensorActivationX"},
                                            {miopenTensorActivationY, "miopenTensorActivationY"},
                                            {miopenTensorActivationDX, "miopenTensorActivationDX"},
                                            {miopenTensorActivationDY, "miopenTensorActivationDY"}};
  activation::Mode mode = activation::Mode::kPassthru;
  activation::Parameters parameters;
};

/// Its direction is that of the problem, but in a fused forward problem it may be inference.
struct BatchnormOperation {
  static constexpr const char* kName = "a batch norm";
  static constexpr bool kIsFusable = true;
  static constexpr TensorName kTensors[] = {
      {miopenTensorBatchnormX, "miopenTensorBatchnormX"},
      {miopenTensorBatchnormY, "miopenTensorBatchnormY"},
      {miopenTensorBatchnormRunningMean, "miopenTensorBatchnormRunningMean"},
      {miopenTensorBatchnormRunningVariance, "miopenTensorBatchnormRunningVariance"},
      {miopenTensorBatchnormSavedMean, "miopenTensorBatchnormSavedMean"},
      {miopenTensorBatchnormSavedVariance, "miopenTensorBatchnormSavedVariance"},
      {miopenTensorBatchnormScale, "miopenTensorBatchnormScale"},
      {miopenTensorBatchnormScaleDiff, "miopenTensorBatchnormScaleDiff"},
      {miopenTensorBatchnormEstimatedMean, "miopenTensorBatchnormEstimatedMean"},
      {miopenTensorBatchnormEstimatedVariance, "miopenTensorBatchnormEstimatedVariance"},
      {miopenTensorBatchnormBias, "miopenTensorBatchnormBias"},
      {miopenTensorBatchnormBiasDiff, "miopenTensorBatchnormBiasDiff"},
      {miopenTensorBatchnormDX, "miopenTensorBatchnormDX"},
      {miopenTensorBatchnormDY, "miopenTensorBatchnormDY"},
      {miopenScalarBatchnormExpAvgFactor, "miopenScalarBatchnormExpAvgFactor"},
      {miopenScalarBatchnormEpsilon, "miopenScalarBatchnormEpsilon"}};
  batch_norm::Mode mode = batch_norm::Mode::kSpatial;
  batch_norm::Direction direction = batch_norm::Direction::kTraining;
  bool updates_running_moments = false;
};

struct SoftmaxOperation {
  static constexpr const char* kName = "a softmax";
  static constexpr bool kIsFusable = false;
  static constexpr TensorName kTensors[] = {{miopenTensorSoftmaxX, "miopenTensorSoftmaxX"},
                                            {miopenTensorSoftmaxY, "miopenTensorSoftmaxY"},
                                            {miopenTensorSoftmaxDX, "miopenTensorSoftmaxDX"},
                                            {miopenTensorSoftmaxDY, "miopenTensorSoftmaxDY"}};
  SoftmaxObject::State descriptor;
};

struct MhaOperation {
  static constexpr const char* kName = "attention";
  static constexpr bool kIsFusable = false;
  static constexpr TensorName kTensors[] = {{miopenTensorMhaK, "miopenTensorMhaK"},
                                            {miopenTensorMhaQ, "miopenTensorMhaQ"},
                                            {miopenTensorMhaV, "miopenTensorMhaV"},
                                            {miopenTensorMhaDescaleK, "miopenTensorMhaDescaleK"},
                                            {miopenTensorMhaDescaleQ, "miopenTensorMhaDescaleQ"},
                                            {miopenTensorMhaDescaleV, "miopenTensorMhaDescaleV"},
                                            {miopenTensorMhaDescaleS, "miopenTensorMhaDescaleS"},
                                            {miopenTensorMhaScaleS, "miopenTensorMhaScaleS"},
                                            {miopenTensorMhaScaleO, "miopenTensorMhaScaleO"},
                                            {miopenTensorMhaDropoutProbability, "miopenTensorMhaDropoutProbability"},
                                            {miopenTensorMhaDropoutSeed, "miopenTensorMhaDropoutSeed"},
                                            {miopenTensorMhaDropoutOffset, "miopenTensorMhaDropoutOffset"},
                                            {miopenTensorMhaO, "miopenTensorMhaO"},
                                            {miopenTensorMhaAmaxO, "miopenTensorMhaAmaxO"},
                                            {miopenTensorMhaAmaxS, "miopenTensorMhaAmaxS"},
                                            {miopenTensorMhaM, "miopenTensorMhaM"},
                                            {miopenTensorMhaZInv, "miopenTensorMhaZInv"},
                                            {miopenTensorMhaDO, "miopenTensorMhaDO"},
                                            {miopenTensorMhaDescaleO, "miopenTensorMhaDescaleO"},
                                            {miopenTensorMhaDescaleDO, "miopenTensorMhaDescaleDO"},
                                            {miopenTensorMhaDescaleDS, "miopenTensorMhaDescaleDS"},
                                            {miopenTensorMhaScaleDS, "miopenTensorMhaScaleDS"},
                                            {miopenTensorMhaScaleDQ, "miopenTensorMhaScaleDQ"},
                                            {miopenTensorMhaScaleDK, "miopenTensorMhaScaleDK"},
                                            {miopenTensorMhaScaleDV, "miopenTensorMhaScaleDV"},
                                            {miopenTensorMhaDQ, "miopenTensorMhaDQ"},
                                            {miopenTensorMhaDK, "miopenTensorMhaDK"},
                                            {miopenTensorMhaDV, "miopenTensorMhaDV"},
                                            {miopenTensorMhaAmaxDQ, "miopenTensorMhaAmaxDQ"},
                                            {miopenTensorMhaAmaxDK, "miopenTensorMhaAmaxDK"},
                                            {miopenTensorMhaAmaxDV, "miopenTensorMhaAmaxDV"},
                                            {miopenTensorMhaAmaxDS, "miopenTensorMhaAmaxDS"},
                                            {miopenTensorMhaBias, "miopenTensorMhaBias"},
                                            {miopenTensorMhaMask, "miopenTensorMhaMask"}};
  MhaObject::State descriptor;
};

/// Of any primitive, for polymio.h's functions only: solutions of find 2.0 do not run it.
struct CollectedOperation {
  static constexpr const char* kName = "a collected problem";
  static constexpr bool kIsFusable = false;
  static constexpr std::span<const TensorName> kTensors{};
  CollectedProblem collected;
};

using Operation = std::variant<ConvolutionOperation, BiasOperation, ActivationOperation, BatchnormOperation,
                               SoftmaxOperation, MhaOperation, CollectedOperation>;

/// An operation, or several that are fused: each reads the result of the one before.
struct ProblemState {
  std::vector<Operation> operations;
  miopenProblemDirection_t direction = miopenProblemDirectionForward;
  std::map<miopenTensorArgumentId_t, TensorDesc> tensors;

  bool fused() const { return operations.size() > 1; }
  /// The operation of this kind, or null.
  template <class Kind>
  const Kind* find() const {
    for (const Operation& operation : operations)
      if (const auto* kind = std::get_if<Kind>(&operation)) return kind;
    return nullptr;
  }
};

struct ProblemObject : miopenProblem, InSlots<ProblemObject> {
  static constexpr const char* kKind = "problem";
  Magic<0x706f6c7970726f62> magic;
  ProblemState state;
};

inline ProblemState& deref(miopenProblem_t p) { return checked<ProblemObject>(p).state; }

/// The plans of a problem that runs as several calls, by handle and solution.
class ChainPlans;

/// A bias, an activation or a batch norm, or a fused problem that is no convolution with bias and activation.
struct ChainCall {
  std::shared_ptr<const fusion::Chain> chain;
  miopenTensorArgumentId_t in, out;
  TensorDesc in_desc, out_desc;
  TensorDesc scale, bias, moments;  // of a batch norm; the gradients of scale and bias are described as the bias
  Constraints constraints{};
  search::FindMode find_mode = search::default_find_mode();
  std::shared_ptr<ChainPlans> plans;
};

/// A problem as its primitive takes it.
using ProblemCall = std::variant<ConvolutionCall, SoftmaxCall, ChainCall, MhaCall>;

inline search::Call search_call(Handle& handle, const CollectedOperation& operation) {
  const CollectedProblem& c = operation.collected;
  return {handle, *c.primitive, *c.problem, c.constraints};
}

/// The call of a complete problem that was not collected; `missing` is the status if a tensor descriptor is not set.
ProblemCall make_call(const ProblemState&, Status missing);

/// The descriptor of a tensor of the problem; fails with the status `missing` if it is not set.
const TensorDesc& tensor(const ProblemState&, miopenTensorArgumentId_t, Status missing);

/// A tensor that runs of a problem need, and its buffer.
struct TensorBuffer {
  miopenTensorArgumentId_t id;
  const TensorDesc* desc;  // null: the problem has no such tensor
  void* data = nullptr;
  double limit = 1;          // of the random values that find makes
  bool is_optional = false;  // may be missing when the problem runs
};

/// BadParm unless the tensor belongs to the problem.
void check_id(const ProblemState&, miopenTensorArgumentId_t);

/// BadParm for the id of a scalar that the problem, if there is one, does not have.
void check_no_scalar(miopenTensorArgumentId_t, const ProblemState* = nullptr);

const char* name_of(miopenTensorArgumentId_t);

}  // namespace polymio::capi
