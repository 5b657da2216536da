// The batch norm problem: its text, hash and validation.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "core/tensor_checks.h"
#include "primitives/batch_norm/solvers.h"

namespace polymio::batch_norm {
namespace {

const char* name_of(Direction d) {
  static constexpr const char* kNames[] = {"train", "infer", "bwd"};
  return kNames[static_cast<int>(d)];
}

std::string type_flag(const char* flag, DataType type, DataType usual) {
  return type == usual ? "" : fmt::format(" {} {}", flag, polymio::name_of(type));
}

}  // namespace

TensorDesc parameters_of(const TensorDesc& x, Mode mode) {
  std::vector<std::int64_t> lens(x.sizes().begin(), x.sizes().end());
  for (std::size_t d = 0; d < lens.size(); ++d)
    if (d == 0 || (d > 1 && mode == Mode::kSpatial)) lens[d] = 1;
  return make_tensor(DataType::kFloat, lens, {});
}

std::string Problem::key() const {
  const DataType usual = x.type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  std::string text = base_arg("bnorm", x.type, x.rank - 2) + size_flags(x);
  text += fmt::format(" -m {} -F {}", static_cast<int>(mode), forward() ? static_cast<int>(direction) + 1 : 0);
  if (!forward()) text += " -b 1";
  if (activation != activation::Mode::kPassthru) text += fmt::format(" --activ {}", static_cast<int>(activation));
  text += type_flag("--grad_type", out.type, x.type) + type_flag("--scale_type", scale_type, usual) +
          type_flag("--bias_type", bias_type, usual) + type_flag("--stat_type", moment_type, usual);
  text += layout_flags(parameters, "--param_layout", "--param_strides");
  text += layout_flags(x, "-I", "--in_strides") + layout_flags(forward() ? out : dy, "-O", "--out_strides");
  if (!forward() && !same_strides(out, x)) text += strides_flag(out, "--din_strides");
  return text;
}

std::string Problem::family() const {
  const common::RowLoops loops = loops_of(*this);
  return fmt::format("bnorm {} {} {} {} {} {}", name_of(direction), polymio::name_of(x.type),
                     polymio::name_of(out.type), mode == Mode::kSpatial ? "spatial" : "activation",
                     activation::name_of(activation), loops.reduced.inner().strides[1] == 1 ? "rows" : "columns");
}

std::vector<float> Problem::log_sizes() const {
  const auto rows = static_cast<float>(parameters.count());
  return {std::log2(rows), std::log2(static_cast<float>(count()) / rows)};
}

double Problem::work() const {
  const double in = static_cast<double>(size_of(x.type)), result = static_cast<double>(size_of(out.type));
  return static_cast<double>(count()) * (forward() ? in + result : in + 2 * result);
}

bool computes(activation::Mode mode) {
  using enum activation::Mode;
  return mode == kPassthru || mode == kRelu || mode == kClippedRelu || mode == kClamp;
}

void validate(const Problem& p) {
  const bool backward = !p.forward();
  const char* const out = backward ? "dx" : "y";
  require(p.mode == Mode::kPerActivation || p.mode == Mode::kSpatial,
          "batch norm mode {} is unknown: allowed are 0 (per activation) and 1 (spatial)", static_cast<int>(p.mode));
  const auto check = [&](const TensorDesc& t, const char* name) {
    require(t.rank >= 2 && t.rank <= kMostRank, "{} has rank {}: batch norms need channels, so 2 to {} are allowed",
            name, t.rank, kMostRank);
    require_float_tensor(t, name, kMostRank, "batch norms");
    require_same_sizes(p.x, "x", t, name);
  };
  check(p.x, "x");
  check(p.out, out);
  if (backward) {
    check(p.dy, "dy");
    require_same_type(p.dy, "dy", p.out, "dx");
    require(p.out.type == p.x.type || (p.out.type == DataType::kFloat && size_of(p.x.type) == 2),
            "x is {}, dx is {}: dx must have the type of x, or be fp32 if x has 16 bits", polymio::name_of(p.x.type),
            polymio::name_of(p.out.type));
  } else {
    require_same_type(p.x, "x", p.out, out);
  }
  require_same_sizes(parameters_of(p.x, p.mode), "what belongs to x", p.parameters, "a parameter");
  require(p.parameters.packed(), "the parameters have strides {} for sizes {}: they must have no gaps",
          strides_text(p.parameters), sizes_text(p.parameters));
  for (const DataType t : {p.scale_type, p.bias_type, p.moment_type})
    require(t == DataType::kFloat || t == DataType::kHalf || t == DataType::kBFloat16 || t == DataType::kDouble,
            "a parameter is {}: batch norms take fp32, fp16, bf16 and fp64", polymio::name_of(t));
  if (!computes(p.activation))
    fail(Status::kNotImplemented, "batch norms compute no {}: allowed are passthru, relu, clippedrelu and clamp",
         activation::name_of(p.activation));
  require_separate(p.out, out);
}

common::RowLoops loops_of(const Problem& p) {
  const TensorDesc* const operands[] = {&p.out, &p.x, p.forward() ? &p.x : &p.dy, &p.parameters};
  const bool spatial = p.mode == Mode::kSpatial;
  common::RowLoops loops =
      common::row_loops(make_loop(operands), [&](std::size_t d) { return d == 0 || (spatial && d > 1); });
  loops.kept.simplify();
  return loops;
}

}  // namespace polymio::batch_norm
