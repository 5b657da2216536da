// The activation problem: its text, hash and validation.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "core/tensor_checks.h"
#include "primitives/activation/solvers.h"

namespace polymio::activation {
const char* name_of(Mode m) {
  static constexpr const char* kNames[] = {"passthru", "logistic",    "tanh",      "relu", "softrelu", "abs",
                                           "power",    "clippedrelu", "leakyrelu", "elu",  "clamp",    "swish"};
  return kNames[static_cast<int>(m)];
}

Problem forward_problem(Mode mode, const TensorDesc& x, const TensorDesc& y) {
  Problem p;
  p.mode = mode;
  p.x = with_images(x);
  p.y = with_images(y);
  TensorDesc* const all[] = {&p.x, &p.y};
  merge_dimensions(all, kMostRank);
  return p;
}

Problem backward_problem(Mode mode, const TensorDesc& x, const TensorDesc& y, const TensorDesc& dy,
                         const TensorDesc& dx) {
  Problem p;
  p.mode = mode;
  p.direction = Direction::kBackward;
  p.x = with_images(x);
  p.y = with_images(y);
  p.dy = with_images(dy);
  p.dx = with_images(dx);
  TensorDesc* const all[] = {&p.x, &p.y, &p.dy, &p.dx};
  merge_dimensions(all, kMostRank);
  return p;
}

std::string Problem::key() const {
  std::string text = base_arg("activ", x.type, x.rank - 2) + size_flags(x);
  text += fmt::format(" -m {} -F {}", static_cast<int>(mode), forward() ? 1 : 2);
  text += layout_flags(x, "-I", "--in_strides") + layout_flags(y, "-O", "--out_strides");
  if (forward()) return text;
  if (!same_strides(dx, x)) text += strides_flag(dx, "--din_strides");
  if (!same_strides(dy, y)) text += strides_flag(dy, "--dout_strides");
  return text;
}

std::string Problem::family() const {
  return fmt::format("activ {} {} {} {}", forward() ? "fwd" : "bwd", polymio::name_of(x.type), name_of(mode),
                     loop_of(*this).memory_class());
}

std::vector<float> Problem::log_sizes() const { return {std::log2(static_cast<float>(count()))}; }

double Problem::work() const {
  return (forward() ? 2.0 : 3.0) * static_cast<double>(count()) * static_cast<double>(size_of(x.type));
}

void validate(const Problem& p) {
  const int mode = static_cast<int>(p.mode);
  require(mode >= 0 && mode < kModes, "activation mode {} is unknown: allowed are 0 (passthru) to 10 (clamp)", mode);
  const auto check = [&](const TensorDesc& t, const char* name) {
    require_float_tensor(t, name, kMostRank, "activations");
    require_same_type(p.x, "x", t, name);
    require_same_sizes(p.x, "x", t, name);
  };
  if (p.x.rank > kMostRank) require_same_sizes(p.x, "x", p.y, "y");
  require_merged(p.x, "x", kMostRank);
  require_float_tensor(p.x, "x", kMostRank, "activations");
  check(p.y, "y");
  if (!p.forward()) {
    check(p.dy, "dy");
    check(p.dx, "dx");
  }
  require_separate(p.output(), p.forward() ? "y" : "dx");
}

Loop loop_of(const Problem& p) {
  const TensorDesc* const forward[] = {&p.y, &p.x};
  const TensorDesc* const backward[] = {&p.dx, &p.x, &p.dy};
  return p.forward() ? simplified_loop(forward) : simplified_loop(backward);
}

bool forward_was_in_place(Mode mode, const Parameters& p, const void* x, const void* y) {
  if (x != y || mode == Mode::kPassthru) return false;
  const bool slope = mode == Mode::kLeakyRelu || mode == Mode::kElu;
  const bool told = mode == Mode::kLogistic || mode == Mode::kTanh || mode == Mode::kSoftrelu || mode == Mode::kRelu ||
                    (slope && p.alpha >= 0);
  require(told,
          "x and y are one buffer, so it holds y, from which the derivative of {} cannot be told: keep x in a "
          "buffer of its own",
          name_of(mode));
  return true;
}

}  // namespace polymio::activation
