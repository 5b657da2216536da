// Find 2.0 problems: operations with their direction and tensors, and fused problems.
// SPDX-License-Identifier: MIT
#include "capi/find2/problem.h"

#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "capi/activation.h"
#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/tensor.h"
#include "capi/find2/convolution.h"
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

[[noreturn]] ConvolutionCall fail_alone() {
  fail(Status::kNotImplemented, "a bias or activation problem alone is not implemented: fuse it with a convolution");
}
ConvolutionCall make_call(const BiasOperation&, const ProblemState&, Status) { fail_alone(); }
ConvolutionCall make_call(const ActivationOperation&, const ProblemState&, Status) { fail_alone(); }

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
  return std::visit([&](const auto& first) -> ProblemCall { return make_call(first, p, missing); },
                    p.operations.front());
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

struct FusionPlace {
  int number;
  const char* name;
};
FusionPlace fusion_place(const Operation& operation) {
  return std::visit([](const auto& kind) { return FusionPlace{kind.kFusionPlace, kind.kName}; }, operation);
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
    const FusionPlace last = fusion_place(a.operations.back()), next = fusion_place(b.operations.front());
    for (const FusionPlace& place : {last, next})
      if (place.number == capi::kNotFused)
        fail(Status::kNotImplemented, "{} cannot be part of a fused problem", place.name);
    if (last.number >= next.number)
      fail(Status::kUnsupportedOp,
           "{} cannot be fused behind {}: supported is a convolution, then a bias, then an activation, where bias or "
           "activation may be missing",
           next.name, last.name);
    if (a.direction != miopenProblemDirectionForward || b.direction != miopenProblemDirectionForward)
      fail(Status::kUnsupportedOp, "only forward problems can be fused");
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
    require(!p.fused(), "the problem is fused: set the tensors of its parts before miopenFuseProblems");
    capi::check_id(p, id);
    p.tensors[id] = capi::described(descriptor, "the tensor");
  });
}
