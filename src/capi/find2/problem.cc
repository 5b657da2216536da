// Find 2.0 problems: operations with their direction and tensors, and fused problems.
// SPDX-License-Identifier: MIT
#include "capi/find2/problem.h"

#include <algorithm>
#include <memory>
#include <string>

#include "capi/activation.h"
#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/tensor.h"

using namespace polymio;
using capi::deref;
using capi::guard;
using capi::not_null;
using capi::ProblemState;

namespace polymio::capi {
namespace {

struct Id {
  miopenTensorArgumentId_t id;
  const char* name;
};
constexpr Id kConvolutionIds[] = {{miopenTensorConvolutionX, "miopenTensorConvolutionX"},
                                  {miopenTensorConvolutionW, "miopenTensorConvolutionW"},
                                  {miopenTensorConvolutionY, "miopenTensorConvolutionY"}};
constexpr Id kBiasIds[] = {{miopenTensorBiasX, "miopenTensorBiasX"},
                           {miopenTensorBiasY, "miopenTensorBiasY"},
                           {miopenTensorBias, "miopenTensorBias"}};
constexpr Id kActivationIds[] = {{miopenTensorActivationX, "miopenTensorActivationX"},
                                 {miopenTensorActivationY, "miopenTensorActivationY"},
                                 {miopenTensorActivationDX, "miopenTensorActivationDX"},
                                 {miopenTensorActivationDY, "miopenTensorActivationDY"}};

/// The results of a fused problem's operations in order; only the last one is stored.
constexpr miopenTensorArgumentId_t kResults[] = {miopenTensorConvolutionY, miopenTensorBiasX, miopenTensorBiasY,
                                                 miopenTensorActivationX, miopenTensorActivationY};

template <class Visit>
void each_id(const ProblemState& p, const Visit& visit) {
  if (p.has_convolution) std::for_each(std::begin(kConvolutionIds), std::end(kConvolutionIds), visit);
  if (p.has_bias) std::for_each(std::begin(kBiasIds), std::end(kBiasIds), visit);
  if (p.has_activation) std::for_each(std::begin(kActivationIds), std::end(kActivationIds), visit);
}

const TensorDesc& tensor(const ProblemState& p, miopenTensorArgumentId_t id, Status missing) {
  const auto it = p.tensors.find(id);
  if (it == p.tensors.end())
    fail(missing, "the problem has no descriptor for {}: call miopenSetProblemTensorDescriptor", name_of(id));
  return it->second;
}

/// The output of the last operation: the last given descriptor, else a dense tensor in the layout of x.
TensorDesc fused_output(const ProblemState& p, const TensorDesc& x, const TensorDesc& w) {
  const auto lens = output_sizes(p.conv, x, w);
  const bool last = x.is_channels_last() && !x.is_channels_first();
  TensorDesc y = last && x.rank == 4   ? make_tensor(x.type, Layout::kNHWC, lens)
                 : last && x.rank == 5 ? make_tensor(x.type, Layout::kNDHWC, lens)
                                       : make_tensor(x.type, lens, {});
  const TensorDesc first = y;
  for (const auto id : kResults) {
    const auto it = p.tensors.find(id);
    if (it == p.tensors.end()) continue;
    y = it->second;
    require(y.type == first.type && y.rank == first.rank && y.lens == first.lens,
            "the descriptor of {} is {} [{}], but the convolution gives {} [{}]", name_of(id), polymio::name_of(y.type),
            fmt::join(y.sizes(), ", "), polymio::name_of(first.type), fmt::join(first.sizes(), ", "));
  }
  return y;
}

void check_bias(const TensorDesc& bias, const TensorDesc& y) {
  const auto channel = static_cast<std::size_t>(bias.rank > 1);
  require(bias.type == y.type && bias.count() == y.lens[1] && bias.lens[channel] == y.lens[1] && bias.packed(),
          "the bias is {} [{}]: it must be {}, packed, with one value for each of the {} channels: [1, {}, 1, ...]",
          polymio::name_of(bias.type), fmt::join(bias.sizes(), ", "), polymio::name_of(y.type), y.lens[1], y.lens[1]);
}

}  // namespace

const char* name_of(miopenTensorArgumentId_t id) {
  ProblemState all;
  all.has_convolution = all.has_bias = all.has_activation = true;
  const char* name = "an unknown tensor";
  each_id(all, [&](const Id& i) { name = i.id == id ? i.name : name; });
  return name;
}

void check_id(const ProblemState& p, miopenTensorArgumentId_t id) {
  bool found = false;
  each_id(p, [&](const Id& i) { found = found || i.id == id; });
  if (found) return;
  std::string allowed;
  each_id(p, [&](const Id& i) {
    allowed += fmt::format("{}{} ({})", allowed.empty() ? "" : ", ", i.name, static_cast<unsigned>(i.id));
  });
  require(false, "tensor id {} does not belong to the problem: allowed are {}", static_cast<unsigned>(id), allowed);
}

void check_no_scalar(miopenTensorArgumentId_t id) {
  require((id & miopenTensorArgumentIsScalar) == 0, "argument id {:#x} is a scalar: convolutions have none",
          static_cast<unsigned>(id));
}

miopenTensorArgumentId_t output_id(const ProblemState& p) {
  return p.has_activation ? miopenTensorActivationY : p.has_bias ? miopenTensorBiasY : miopenTensorConvolutionY;
}

ConvolutionCall make_call(const ProblemState& p, Status missing) {
  if (!p.has_convolution)
    fail(Status::kNotImplemented, "a bias or activation problem alone is not implemented: fuse it with a convolution");
  const TensorDesc& x = tensor(p, miopenTensorConvolutionX, missing);
  const TensorDesc& w = tensor(p, miopenTensorConvolutionW, missing);
  if (!p.fused()) return make_call(p.conv, p.direction, x, w, tensor(p, miopenTensorConvolutionY, missing));
  if (p.conv.transposed) fail(Status::kUnsupportedOp, "a transposed convolution cannot be fused with other operations");
  const TensorDesc y = fused_output(p, x, w);
  auto call = make_call(p.conv, p.direction, x, w, y);
  if (p.has_bias) check_bias(tensor(p, miopenTensorBias, missing), y);
  call.problem.epilogue = {p.has_bias, p.has_activation ? p.activation.mode : 0};
  return call;
}

}  // namespace polymio::capi

namespace {

void give(miopenProblem_t* problem, const ProblemState& state) {
  *not_null(problem, "problem") = nullptr;
  auto object = std::make_unique<capi::ProblemObject>();
  object->state = state;
  *problem = object.release();
}

/// The direction of an operation without weights: forward or backward.
convolution::Direction plain_direction(miopenProblemDirection_t d) {
  require(d == miopenProblemDirectionForward || d == miopenProblemDirectionBackward,
          "direction {} is not one of this operation: 0 (forward), 1 (backward)", static_cast<int>(d));
  return static_cast<convolution::Direction>(d);
}

}  // namespace

miopenStatus_t miopenCreateConvProblem(miopenProblem_t* problem, miopenConvolutionDescriptor_t operatorDesc,
                                       miopenProblemDirection_t direction) {
  return guard([&] {
    not_null(problem, "problem");
    require(direction >= miopenProblemDirectionForward && direction <= miopenProblemDirectionBackwardWeights,
            "direction {} is not one of a convolution: 0 (forward), 1 (backward), 2 (backward weights)",
            static_cast<int>(direction));
    ProblemState state;
    state.has_convolution = true;
    state.conv = deref(operatorDesc);
    state.direction = static_cast<convolution::Direction>(direction);
    give(problem, state);
  });
}

miopenStatus_t miopenCreateActivationProblem(miopenProblem_t* problem, miopenActivationDescriptor_t operatorDesc,
                                             miopenProblemDirection_t direction) {
  return guard([&] {
    not_null(problem, "problem");
    const auto& activation = deref(operatorDesc);
    ProblemState state;
    state.has_activation = true;
    state.direction = plain_direction(direction);
    const auto& values = activation.parameters;
    state.activation = {static_cast<int>(activation.mode), values.alpha, values.beta, values.gamma};
    give(problem, state);
  });
}

miopenStatus_t miopenCreateBiasProblem(miopenProblem_t* problem, miopenProblemDirection_t direction) {
  return guard([&] {
    not_null(problem, "problem");
    ProblemState state;
    state.has_bias = true;
    state.direction = plain_direction(direction);
    give(problem, state);
  });
}

miopenStatus_t miopenFuseProblems(miopenProblem_t problem1, miopenProblem_t problem2) {
  return guard([&] {
    ProblemState& a = deref(problem1);
    const ProblemState& b = deref(problem2);
    // Order of a fused problem: convolution, bias, activation, each at most once.
    const auto first = [](const ProblemState& p) { return p.has_convolution ? 0 : p.has_bias ? 1 : 2; };
    const auto last = [](const ProblemState& p) { return p.has_activation ? 2 : p.has_bias ? 1 : 0; };
    static constexpr const char* kNames[] = {"a convolution", "a bias", "an activation"};
    if (last(a) >= first(b))
      fail(Status::kUnsupportedOp,
           "{} cannot be fused behind {}: supported is a convolution, then a bias, then an activation, where bias or "
           "activation may be missing",
           kNames[first(b)], kNames[last(a)]);
    if (a.direction != convolution::Direction::kForward || b.direction != convolution::Direction::kForward)
      fail(Status::kUnsupportedOp, "only forward problems can be fused");
    a.has_bias |= b.has_bias;
    a.has_activation |= b.has_activation;
    a.activation = b.activation;
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
