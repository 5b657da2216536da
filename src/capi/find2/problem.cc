// Find 2.0 problems: operations with their direction and tensors, and fused problems.
// SPDX-License-Identifier: MIT
#include "capi/find2/problem.h"

#include <miopen/polymio.h>

#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "capi/activation.h"
#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/common/tensor.h"
#include "capi/find2/convolution.h"
#include "capi/find2/chain.h"
#include "capi/find2/mha.h"
#include "capi/find2/softmax.h"

using namespace polymio;
using capi::deref;
using capi::guard;
using capi::not_null;
using capi::Operation;
using capi::ProblemState;

namespace polymio::capi {
namespace {

std::span<const TensorName> tensors_of(const Operation& operation) {
  return std::visit([](const auto& kind) -> std::span<const TensorName> { return kind.kTensors; }, operation);
}

/// The name among those of every kind of operation.
template <class... Kind>
const char* find_name(miopenTensorArgumentId_t id, std::type_identity<std::variant<Kind...>>) {
  for (const std::span<const TensorName> tensors : {std::span<const TensorName>(Kind::kTensors)...})
    for (const TensorName& tensor : tensors)
      if (tensor.id == id) return tensor.text;
  return "an unknown tensor";
}

/// Whether it is a convolution with a bias and an activation in this order, each of which may be missing.
bool is_convolution_with_epilogue(const ProblemState& p) {
  std::size_t last = 0;
  for (const Operation& operation : p.operations) {
    const std::size_t place = operation.index();  // of Operation: convolution, bias, activation, others
    if (place > 2 || (&operation == &p.operations.front() ? place != 0 : place <= last)) return false;
    last = place;
  }
  return true;
}

}  // namespace

const char* name_of(miopenTensorArgumentId_t id) { return find_name(id, std::type_identity<Operation>()); }

bool has_id(const ProblemState& p, miopenTensorArgumentId_t id) {
  for (const Operation& operation : p.operations)
    for (const TensorName& tensor : tensors_of(operation))
      if (tensor.id == id) return true;
  return false;
}

void check_id(const ProblemState& p, miopenTensorArgumentId_t id) {
  if (has_id(p, id)) return;
  std::string allowed;
  for (const Operation& operation : p.operations)
    for (const TensorName& tensor : tensors_of(operation))
      allowed += fmt::format("{}{} ({})", allowed.empty() ? "" : ", ", tensor.text, static_cast<unsigned>(tensor.id));
  fail(Status::kBadParm, "tensor id {} does not belong to the problem: allowed are {}", static_cast<unsigned>(id),
       allowed);
}

void check_no_scalar(miopenTensorArgumentId_t id, const ProblemState* p) {
  require((id & miopenTensorArgumentIsScalar) == 0 || (p && has_id(*p, id)),
          "argument id {:#x} is a scalar: the problem has none", static_cast<unsigned>(id));
}

const TensorDesc& tensor(const ProblemState& p, miopenTensorArgumentId_t id, Status missing) {
  const auto it = p.tensors.find(id);
  if (it == p.tensors.end())
    fail(missing, "the problem has no descriptor for {}: call miopenSetProblemTensorDescriptor", name_of(id));
  return it->second;
}

ProblemCall make_call(const ProblemState& p, Status missing) {
  if (p.find<CollectedOperation>())
    fail(Status::kNotImplemented,
         "the problem was collected: allowed are polymioWarmProblems, polymioTune and the calls that describe it");
  if (const auto* softmax = p.find<SoftmaxOperation>()) return make_call(*softmax, p, missing);
  if (const auto* mha = p.find<MhaOperation>()) return make_call(*mha, p, missing);
  if (is_convolution_with_epilogue(p)) return make_call(*p.find<ConvolutionOperation>(), p, missing);
  if (p.find<BiasOperation>() && p.direction == miopenProblemDirectionBackward)
    fail(Status::kNotImplemented, "no tensor id names the gradient of a bias: call miopenConvolutionBackwardBias");
  return make_chain_call(p, missing);
}

}  // namespace polymio::capi

namespace {

void give(miopenProblem_t* problem, Operation operation, miopenProblemDirection_t direction) {
  *not_null(problem, "problem") = nullptr;
  auto object = std::make_unique<capi::ProblemObject>();
  object->state.operations.push_back(std::move(operation));
  object->state.direction = direction;
  *problem = object.release();
}

/// BadParm unless it is a direction of an operation without weights: forward or backward.
void check_without_weights(miopenProblemDirection_t d) {
  require(d == miopenProblemDirectionForward || d == miopenProblemDirectionBackward,
          "direction {} is not one of this operation: 0 (forward), 1 (backward)", static_cast<int>(d));
}

const char* name_of(const Operation& operation) {
  return std::visit([](const auto& kind) { return kind.kName; }, operation);
}
bool is_fusable(const Operation& operation) {
  return std::visit([](const auto& kind) { return kind.kIsFusable; }, operation);
}

bool is_forward(miopenProblemDirection_t d) {
  return d == miopenProblemDirectionForward || d == miopenProblemDirectionInference;
}

/// Their arguments have one id each, so that a fused problem has at most one operation of a kind.
void check_kinds(const ProblemState& a, const ProblemState& b) {
  for (const Operation& last : a.operations)
    for (const Operation& next : b.operations)
      if (last.index() == next.index())
        fail(Status::kUnsupportedOp, "{} cannot be fused behind {}: their tensors have the same ids", name_of(next),
             name_of(last));
}

/// Forward problems, or the gradients of a batch norm and an activation.
void check_directions(const ProblemState& a, const ProblemState& b) {
  if (is_forward(a.direction) && is_forward(b.direction)) return;
  const auto has_gradient = [](const ProblemState& p) {
    return p.direction == miopenProblemDirectionBackward && !p.find<capi::ConvolutionOperation>() &&
           !p.find<capi::BiasOperation>();
  };
  if (!has_gradient(a) || !has_gradient(b))
    fail(Status::kUnsupportedOp,
         "only forward problems can be fused, or the gradients of a batch norm and an activation");
}

}  // namespace

miopenStatus_t miopenCreateConvProblem(miopenProblem_t* problem, miopenConvolutionDescriptor_t operatorDesc,
                                       miopenProblemDirection_t direction) {
  return guard([&] {
    not_null(problem, "problem");
    require(direction >= miopenProblemDirectionForward && direction <= miopenProblemDirectionBackwardWeights,
            "direction {} is not one of a convolution: 0 (forward), 1 (backward), 2 (backward weights)",
            static_cast<int>(direction));
    give(problem, capi::ConvolutionOperation{deref(operatorDesc)}, direction);
  });
}

miopenStatus_t miopenCreateActivationProblem(miopenProblem_t* problem, miopenActivationDescriptor_t operatorDesc,
                                             miopenProblemDirection_t direction) {
  return guard([&] {
    not_null(problem, "problem");
    const capi::ActivationObject& activation = deref(operatorDesc);
    check_without_weights(direction);
    give(problem, capi::ActivationOperation{activation.mode, activation.parameters}, direction);
  });
}

miopenStatus_t miopenCreateBiasProblem(miopenProblem_t* problem, miopenProblemDirection_t direction) {
  return guard([&] {
    not_null(problem, "problem");
    check_without_weights(direction);
    give(problem, capi::BiasOperation{}, direction);
  });
}

miopenStatus_t miopenCreateBatchnormProblem(miopenProblem_t* problem, miopenBatchNormMode_t mode,
                                            bool runningMeanVariance, miopenProblemDirection_t direction) {
  return guard([&] {
    not_null(problem, "problem");
    using batch_norm::Direction;
    capi::BatchnormOperation operation;
    operation.mode = static_cast<batch_norm::Mode>(mode);
    require(operation.mode == batch_norm::Mode::kPerActivation || operation.mode == batch_norm::Mode::kSpatial,
            "batch norm mode {} is unknown: allowed are 0 (per activation) and 1 (spatial)", static_cast<int>(mode));
    require(is_forward(direction) || direction == miopenProblemDirectionBackward,
            "direction {} is not one of a batch norm: 0 (forward), 1 (backward), 4 (inference)",
            static_cast<int>(direction));
    operation.direction = direction == miopenProblemDirectionForward    ? Direction::kTraining
                          : direction == miopenProblemDirectionBackward ? Direction::kBackward
                                                                        : Direction::kInference;
    operation.updates_running_moments = runningMeanVariance;
    give(problem, operation, direction);
  });
}

miopenStatus_t miopenCreateSoftmaxProblem(miopenProblem_t* problem, miopenSoftmaxDescriptor_t operatorDesc,
                                          miopenProblemDirection_t direction) {
  return guard([&] {
    not_null(problem, "problem");
    give(problem, capi::SoftmaxOperation{deref(operatorDesc)}, direction);
  });
}

miopenStatus_t miopenCreateMhaProblem(miopenProblem_t* problem, miopenMhaDescriptor_t operatorDesc,
                                      miopenProblemDirection_t direction) {
  return guard([&] {
    not_null(problem, "problem");
    give(problem, capi::MhaOperation{deref(operatorDesc)}, direction);
  });
}

miopenStatus_t miopenFuseProblems(miopenProblem_t problem1, miopenProblem_t problem2) {
  return guard([&] {
    ProblemState& a = deref(problem1);
    const ProblemState& b = deref(problem2);
    for (const Operation* operation : {std::as_const(a.operations).data(), b.operations.data()})
      if (!is_fusable(*operation))
        fail(Status::kNotImplemented, "{} cannot be part of a fused problem", name_of(*operation));
    check_kinds(a, b);
    check_directions(a, b);
    if (std::holds_alternative<capi::BiasOperation>(a.operations.back()) &&
        std::holds_alternative<capi::ConvolutionOperation>(b.operations.front()))
      fail(Status::kUnsupportedOp, "a convolution cannot be fused behind a bias");
    a.operations.insert(a.operations.end(), b.operations.begin(), b.operations.end());
    a.tensors.insert(b.tensors.begin(), b.tensors.end());
  });
}

miopenStatus_t miopenDestroyProblem(miopenProblem_t problem) {
  return guard([&] { delete &capi::checked<capi::ProblemObject>(problem); });
}

miopenStatus_t miopenSetProblemTensorDescriptor(miopenProblem_t problem, miopenTensorArgumentId_t id,
                                                const miopenTensorDescriptor_t descriptor) {
  return guard([&] {
    ProblemState& p = deref(problem);
    capi::check_no_scalar(id);
    require(!p.fused(), "the problem is fused: set the tensors of its parts before miopenFuseProblems");
    capi::check_id(p, id);
    p.tensors[id] = capi::described(descriptor, "the tensor");
  });
}

miopenStatus_t polymioTakeProblem(miopenHandle_t handle, miopenProblem_t* problem) {
  return guard([&] {
    Handle& h = deref(handle);
    *not_null(problem, "problem") = nullptr;
    require(h.collects(), "the handle collects no problems: polymioCreateCollector makes one that does");
    if (auto collected = h.take_problem())
      give(problem, capi::CollectedOperation{std::move(*collected)}, miopenProblemDirectionForward);
  });
}
