// How a chain is cut into stages.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "core/problem_text.h"
#include "primitives/fusion/fusion.h"

namespace polymio::fusion {
namespace {

template <class Kind>
const Kind* kind_at(const std::vector<Operation>& all, std::size_t i) {
  return i < all.size() ? std::get_if<Kind>(&all[i]) : nullptr;
}

/// Whether a convolution can take operations that follow it as its epilogue.
bool takes_epilogue(const convolution::Problem& p) {
  const DataType t = p.y.type;
  const bool is_float =
      t == DataType::kFloat || t == DataType::kDouble || t == DataType::kHalf || t == DataType::kBFloat16;
  return p.direction == convolution::Direction::kForward && is_float && !p.y.has_cast();
}

bool is_per_channel(const TensorDesc& t) { return t.packed() && t.count() == t.lens[1]; }

/// Whether a scale and a bias per channel in the type of the convolution's parameters can stand for the batch norm.
bool folds(const convolution::Problem& p, const batch_norm::Problem& norm) {
  const DataType t = p.parameter_type();
  return norm.direction == batch_norm::Direction::kInference && norm.mode == batch_norm::Mode::kSpatial &&
         norm.scale_type == t && norm.bias_type == t && norm.moment_type == t && is_per_channel(norm.parameters);
}

/// UnsupportedOp unless y = f(x) tells the derivative.
void check_told_by_result(activation::Mode mode) {
  try {
    const int y = 0;
    activation::forward_was_in_place(mode, {}, &y, &y);
  } catch (const Error& e) {
    fail(Status::kUnsupportedOp, "the gradient of {} needs its input, which the chain does not have",
         activation::name_of(mode));
  }
}

/// The descriptor that op_tensor broadcasts over `data`.
TensorDesc per_channel(const TensorDesc& data) {
  std::vector<std::int64_t> lens(static_cast<std::size_t>(data.rank), 1);
  lens[1] = data.lens[1];
  return make_tensor(data.type, lens, {});
}

const TensorDesc& result_of(const Stage& s) {
  if (const auto* p = std::get_if<Stage::AddBias>(&s.problem)) return p->y;
  if (const auto* p = std::get_if<convolution::Problem>(&s.problem)) return p->output();
  if (const auto* p = std::get_if<batch_norm::Problem>(&s.problem)) return p->out;
  return std::get<activation::Problem>(s.problem).output();
}

void validate(const Stage& s) {
  if (const auto* p = std::get_if<convolution::Problem>(&s.problem)) convolution::validate(*p);
  if (const auto* p = std::get_if<batch_norm::Problem>(&s.problem)) batch_norm::validate(*p);
  if (const auto* p = std::get_if<activation::Problem>(&s.problem)) activation::validate(*p);
}

}  // namespace

void check_bias(const TensorDesc& bias, const TensorDesc& data) {
  const auto channel = static_cast<std::size_t>(bias.rank > 1);
  require(data.rank > 1 && bias.type == data.type && bias.count() == data.lens[1] &&
              bias.lens[channel] == data.lens[1] && bias.packed(),
          "the bias is {} {}: it must be {}, packed, with one value for each channel of {}: [1, channels, 1, ...]",
          polymio::name_of(bias.type), sizes_text(bias), polymio::name_of(data.type), sizes_text(data));
}

Chain::Chain(std::vector<Operation> operations) {
  if (operations.empty()) fail(Status::kUnsupportedOp, "there are no operations");
  for (std::size_t i = 0; i < operations.size();) i = add(operations, i);
  place();
  for (const Stage& s : stages_) validate(s);
}

std::size_t Chain::add(const std::vector<Operation>& all, std::size_t i) {
  if (kind_at<Convolution>(all, i)) return add_convolution(all, i);
  if (kind_at<BatchNorm>(all, i)) return add_norm(all, i);
  Stage s;
  if (const auto* bias = kind_at<Bias>(all, i)) {
    if (i == 0 && kind_at<Convolution>(all, i + 1)) fail(Status::kUnsupportedOp, "a bias in front of a convolution");
    s.problem = Stage::AddBias{bias->x, bias->y, per_channel(bias->x)};
    s.bias = i;
    stages_.push_back(std::move(s));
    return i + 1;
  }
  const auto& a = std::get<Activation>(all[i]);
  const auto* norm = kind_at<BatchNorm>(all, i + 1);
  if (a.backward && norm && !norm->problem.forward()) {
    add_gradient(*norm, i + 1, a, i);
    return i + 2;
  }
  const bool has_input = a.input.rank > 0;
  if (a.backward && !has_input) check_told_by_result(a.mode);
  s.problem = a.backward ? activation::backward_problem(a.mode, has_input ? a.input : a.x, a.x, a.x, a.y)
                         : activation::forward_problem(a.mode, a.x, a.y);
  s.activation = i;
  stages_.push_back(std::move(s));
  return i + 1;
}

std::size_t Chain::add_convolution(const std::vector<Operation>& all, std::size_t i) {
  const auto& convolution = std::get<Convolution>(all[i]);
  convolution::Problem p = convolution.problem;
  Stage s;
  s.constraints = convolution.constraints;
  s.seed = convolution.seed;
  s.convolution = i++;
  if (takes_epilogue(p)) {
    if (kind_at<Bias>(all, i)) {
      p.epilogue.bias = true;
      s.bias = i++;
    }
    if (const auto* norm = kind_at<BatchNorm>(all, i); norm && folds(p, norm->problem)) {
      p.epilogue.norm = true;
      s.norm = i++;
    }
    if (const auto* a = kind_at<Activation>(all, i); a && !a->backward) {
      p.epilogue.activation = static_cast<int>(a->mode);
      s.activation = i++;
    }
  }
  s.problem = p;
  stages_.push_back(std::move(s));
  return i;
}

std::size_t Chain::add_norm(const std::vector<Operation>& all, std::size_t i) {
  const auto& norm = std::get<BatchNorm>(all[i]);
  const auto* a = kind_at<Activation>(all, i + 1);
  if (a && a->backward && !norm.problem.forward()) {  // MIOpen names the gradients of a pair in forward order
    add_gradient(norm, i, *a, i + 1);
    return i + 2;
  }
  batch_norm::Problem p = norm.problem;
  Stage s;
  s.norm = i++;
  if (a && !a->backward && p.forward() && batch_norm::computes(a->mode)) {
    p.activation = a->mode;
    s.activation = i++;
  }
  s.problem = p;
  stages_.push_back(std::move(s));
  return i;
}

/// The gradient of a batch norm and of the activation behind it.
void Chain::add_gradient(const BatchNorm& norm, std::size_t i, const Activation& a, std::size_t j) {
  batch_norm::Problem p = norm.problem;
  Stage gradient;
  gradient.norm = i;
  if (batch_norm::computes(a.mode)) {
    p.activation = a.mode;
    gradient.activation = j;
    gradient.problem = p;
    stages_.push_back(std::move(gradient));
    return;
  }
  // The activation's input again, from the saved moments.
  batch_norm::Problem again = p;
  again.direction = batch_norm::Direction::kInference;
  again.out = p.x;
  again.dy = {};
  Stage forward;
  forward.problem = again;
  forward.norm = i;
  forward.from = kNormX;
  stages_.push_back(std::move(forward));
  Stage activation;
  activation.problem = activation::backward_problem(a.mode, p.x, p.x, p.dy, p.out);
  activation.activation = j;
  stages_.push_back(std::move(activation));
  p.dy = p.out;  // where the activation's gradient is
  gradient.problem = p;
  stages_.push_back(std::move(gradient));
}

/// Chooses where stages read and write: up to the last convolution in buffers, then in the result.
void Chain::place() {
  std::size_t last = 0;  // stages before it write to buffers
  for (std::size_t i = 0; i < stages_.size(); ++i)
    if (std::holds_alternative<convolution::Problem>(stages_[i].problem)) last = i;
  const auto buffer = [&](std::size_t bytes) {
    buffers_.push_back(bytes);
    return static_cast<int>(buffers_.size()) - 1;
  };
  int at = kIn;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    Stage& s = stages_[i];
    if (s.from == kNormX) {  // aside: the result so far stays where it is
      s.to = buffer(result_of(s).bytes());
      continue;
    }
    s.from = at;
    const bool in_place = at >= 0 && !std::holds_alternative<convolution::Problem>(s.problem);
    if (i >= last)
      at = kOut;
    else if (!in_place)
      at = buffer(result_of(s).bytes());
    s.to = at;
  }
}

}  // namespace polymio::fusion
