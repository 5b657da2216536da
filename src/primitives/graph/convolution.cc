// Steps of convolutions: pads that differ, transposed mode, mixed types, and what is fused after them.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/convolution.h"

#include <algorithm>

#include "base/error.h"
#include "core/kernel_builder.h"
#include "primitives/graph/draft.h"
#include "primitives/tensor_ops/tensor_ops.h"

namespace polymio::graph {
namespace {

using PlainDirection = convolution::Direction;

/// A node as a plain convolution: which of its tensors is x, w and y.
struct Roles {
  PlainDirection direction;
  Operand x, w, y;
  Operand& output() {
    return direction == PlainDirection::kForward ? y : direction == PlainDirection::kBackwardData ? x : w;
  }
};

Roles roles_of(Draft& draft, const Node& n, const Operand& out) {
  const Operand first = draft.tensor(n.in[0]), second = draft.tensor(n.in[1]);
  Roles r{static_cast<PlainDirection>(n.convolution.direction), first, second, out};
  if (r.direction == PlainDirection::kBackwardData) r = {r.direction, out, first, second};
  if (r.direction == PlainDirection::kBackwardWeights) r = {r.direction, first, out, second};
  if (!n.convolution.transposed) return r;
  std::swap(r.x, r.y);
  if (r.direction != PlainDirection::kBackwardWeights)
    r.direction = r.direction == PlainDirection::kForward ? PlainDirection::kBackwardData : PlainDirection::kForward;
  return r;
}

/// Whether the pads before are enough, that is the windows are those of equal pads.
bool has_equal_pads(const Roles& r, const Convolution& c) {
  for (std::size_t d = 0; d < c.pre.size(); ++d) {
    const std::int64_t size =
        convolution::forward_size(r.x.desc.lens[d + 2], r.w.desc.lens[d + 2], c.pre[d], c.stride[d], c.dilation[d]);
    if (c.pre[d] != c.post[d] && size != r.y.desc.lens[d + 2]) return false;
  }
  return true;
}

}  // namespace

void Draft::add_convolution(const Node& n, const Epilogue& fused) {
  const Convolution& c = n.convolution;
  const Operand given = tensor(fused.y >= 0 ? fused.y : n.out);
  Roles r = roles_of(*this, n, given);
  const int spatial = static_cast<int>(c.pre.size());
  for (const Operand* o : {&r.x, &r.w, &r.y})
    require(o->desc.rank == spatial + 2,
            "a convolution of {} spatial dimensions needs tensors of rank {}, {} was given", spatial, spatial + 2,
            o->desc.rank);
  if (spatial > 3) fail(Status::kNotImplemented, "convolution has 1 to 3 spatial dimensions, {} were given", spatial);
  for (const auto* sizes : {&c.pre, &c.post, &c.stride, &c.dilation})
    for (const std::int64_t s : *sizes)
      require(s <= INT32_MAX, "a pad, stride or dilation of a convolution is {}: at most {} is supported", s,
              INT32_MAX);
  const bool has_output_pads = r.direction == PlainDirection::kBackwardData;
  Operand padded = r.x;
  const bool equal_pads = has_equal_pads(r, c);
  if (!equal_pads) {
    TensorDesc wide = r.x.desc;
    for (std::size_t d = 0; d < c.pre.size(); ++d) wide.lens[d + 2] += c.pre[d] + c.post[d];
    padded = temporary(make_tensor(wide.type, wide.sizes(), {}));
    Operand inside = padded;
    inside.desc.lens = r.x.desc.lens;
    for (std::size_t d = 0; d < c.pre.size(); ++d) inside.at += c.pre[d] * padded.desc.strides[d + 2];
    if (!has_output_pads) {
      push("zero", {padded}, 0, [padded](Handle& handle) -> Built {
        if (handle.device().kind != DeviceKind::kCpu)
          build_kernels(handle.stream(), tensor_ops::programs(handle.device(), {&padded.desc.type, 1}));
        return {[padded](const Running& on) {
          const std::uint64_t zero = 0;
          tensor_ops::set(on.stream, {padded.desc, on.address(padded)}, &zero);
        }};
      });
      copy(r.x, inside);
      r.x = padded;
    }
  }
  // Mixed types: all operands in one, but for those that convolutions mix themselves.
  const DataType types[] = {r.x.desc.type, r.w.desc.type, r.y.desc.type};
  const bool mixes = std::ranges::any_of(types, [](DataType t) { return is_integer(t) || is_fp8(t); });
  const bool equal = types[0] == types[1] && types[1] == types[2];
  const bool has_temporary = has_output_pads && !equal_pads;
  DataType type = given.desc.type;
  if (!equal && !mixes) {
    type = std::ranges::find(types, DataType::kDouble) != std::end(types) ? DataType::kDouble : DataType::kFloat;
    for (Operand* o : {&r.x, &r.w, &r.y})
      if (o != &r.output()) *o = in_type(*o, type);
  }
  Operand result = given;
  if (has_temporary)
    result = temporary(make_tensor(type, padded.desc.sizes(), {}));
  else if (type != given.desc.type)
    result = dense(given.desc, type);
  r.output() = result;
  const bool indirect = result.buffer != given.buffer;

  convolution::Problem problem;
  problem.direction = r.direction;
  problem.x = r.x.desc;
  problem.w = r.w.desc;
  problem.y = r.y.desc;
  problem.geometry.spatial = spatial;
  for (std::size_t d = 0; d < c.pre.size(); ++d) {
    problem.geometry.pad[d] = equal_pads ? c.pre[d] : 0;
    problem.geometry.stride[d] = c.stride[d];
    problem.geometry.dilation[d] = c.dilation[d];
  }
  require(r.w.desc.lens[1] > 0 && r.x.desc.lens[1] % r.w.desc.lens[1] == 0,
          "x has {} channels, w {}: the first must be a multiple of the second", r.x.desc.lens[1], r.w.desc.lens[1]);
  problem.geometry.groups = r.x.desc.lens[1] / r.w.desc.lens[1];
  problem.epilogue = {fused.bias >= 0, fused.activation};
  convolution::Problem::Args values;
  values.alpha = c.alpha * fused.scale;
  values.beta = fused.residual >= 0 ? fused.residual_scale : indirect ? 0 : c.beta;
  values.activation_alpha = fused.alpha;
  problem.scalars = values.beta != 0    ? convolution::Scalars::kBilinear
                    : values.alpha != 1 ? convolution::Scalars::kScale
                                        : convolution::Scalars::kDefault;
  convolution::validate(problem);
  if (fused.residual >= 0) copy(tensor(fused.residual), result);
  std::vector<Operand> operands = {r.x, r.w, r.y};
  const Operand bias = fused.bias >= 0 ? tensor(fused.bias) : result;
  if (problem.epilogue.bias) operands.push_back(bias);
  const bool is_fused = fused.y >= 0;
  push(is_fused ? "convolution+" : "convolution", operands, problem.flops(), [=](Handle& handle) -> Built {
    const search::Call call = convolution::make_call(handle, problem, {});
    const auto plan = std::make_shared<const polymio::Plan>(call.first_plan());
    return {[=](const Running& on) {
              convolution::Problem::Args args = values;
              args.x = on.address(r.x);
              args.w = on.address(r.w);
              args.y = on.address(r.y);
              if (problem.epilogue.bias) args.bias = on.address(bias);
              args.workspace = on.scratch;
              args.workspace_bytes = plan->workspace;
              plan->invoke(on.stream, &args);
            },
            plan->workspace};
  });
  if (!indirect) return;
  Operand inside = result;
  if (has_temporary) {
    inside.desc.lens = given.desc.lens;
    for (std::size_t d = 0; d < c.pre.size(); ++d) inside.at += c.pre[d] * result.desc.strides[d + 2];
  }
  if (c.beta == 0) return copy(inside, given);
  Chain sum;
  sum.in = {inside.desc, given.desc};
  sum.out = {given.desc};
  sum.in_double = is_wide(given.desc.type);
  sum.results = {sum.add(kernels::ChainOp::kAdd, 0, sum.affine(1, c.beta, 0))};
  push_chain("pointwise", {inside, given}, {given}, std::move(sum));
}

}  // namespace polymio::graph
