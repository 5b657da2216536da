// The softmax problem: its text, hash and validation.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "core/tensor_checks.h"
#include "primitives/softmax/solvers.h"

namespace polymio::softmax {
namespace {

/// Rows stay apart from the dimensions before them, and channels from those after them.
Problem make_problem(Direction direction, Algorithm algorithm, Mode mode, const TensorDesc& in, const TensorDesc& out,
                     const TensorDesc* dy = nullptr) {
  Problem p;
  p.direction = direction;
  p.algorithm = algorithm;
  p.mode = mode;
  p.in = with_images(in);
  p.out = with_images(out);
  if (dy) p.dy = with_images(*dy);
  TensorDesc* const all[] = {&p.in, &p.out, &p.dy};
  merge_dimensions({all, dy ? 3u : 2u}, kMostRank, 1, mode == Mode::kChannel ? 2 : kMaxRank);
  return p;
}

}  // namespace

Problem forward_problem(Algorithm algorithm, Mode mode, const TensorDesc& x, const TensorDesc& y) {
  return make_problem(Direction::kForward, algorithm, mode, x, y);
}

Problem backward_problem(Algorithm algorithm, Mode mode, const TensorDesc& y, const TensorDesc& dy,
                         const TensorDesc& dx) {
  return make_problem(Direction::kBackward, algorithm, mode, y, dx, &dy);
}

std::int64_t Problem::row_size() const {
  std::int64_t n = 1;
  for (std::size_t d = 0; d < static_cast<std::size_t>(in.rank); ++d) n *= reduces(d) ? in.lens[d] : 1;
  return n;
}

// Backward, -I is the layout of dx.
std::string Problem::key() const {
  std::string text = base_arg("softmax", in.type, in.rank - 2) + size_flags(in);
  text += fmt::format(" -a {} -m {} -F {}", static_cast<int>(algorithm), static_cast<int>(mode), forward() ? 1 : 2);
  text += layout_flags(forward() ? in : out, "-I", "--in_strides");
  text += layout_flags(forward() ? out : in, "-O", "--out_strides");
  if (!forward() && !same_strides(dy, in)) text += strides_flag(dy, "--dout_strides");
  return text;
}

/// What is contiguous: rows, columns or neither.
const char* memory_class(const Problem& p) {
  const auto [kept, reduced] = row_loops_of(p);
  return reduced.contiguous() ? "rows" : kept.contiguous() ? "columns" : "strided";
}

std::string Problem::family() const {
  return fmt::format("softmax {} {} {} {} {}", forward() ? "fwd" : "bwd", polymio::name_of(in.type),
                     log() ? "log" : "exp", mode == Mode::kInstance ? "instance" : "channel", memory_class(*this));
}

std::vector<float> Problem::log_sizes() const {
  const std::int64_t n = row_size();
  return {std::log2(static_cast<float>(in.count() / n)), std::log2(static_cast<float>(n))};
}

double Problem::work() const {
  return (forward() ? 2.0 : 3.0) * static_cast<double>(in.count()) * static_cast<double>(size_of(in.type));
}

void validate(const Problem& p) {
  const int algorithm = static_cast<int>(p.algorithm), mode = static_cast<int>(p.mode);
  require(algorithm >= 0 && algorithm < kAlgorithms,
          "softmax algorithm {} is unknown: allowed are 0 (fast), 1 (accurate), 2 (log)", algorithm);
  require(mode >= 0 && mode < kModes, "softmax mode {} is unknown: allowed are 0 (instance), 1 (channel)", mode);
  if (p.in.rank > kMostRank) require_same_sizes(p.in, p.in_name(), p.out, p.out_name());
  require_merged(p.in, p.in_name(), kMostRank);
  require_float_tensor(p.in, p.in_name(), kMostRank, "softmax");
  const auto check = [&](const TensorDesc& t, const char* name) {
    require_float_tensor(t, name, kMostRank, "softmax");
    require_same_type(p.in, p.in_name(), t, name);
    require_same_sizes(p.in, p.in_name(), t, name);
  };
  if (!p.forward()) check(p.dy, "dy");
  check(p.out, p.out_name());
  require_separate(p.out, p.out_name());
}

common::RowLoops row_loops_of(const Problem& p) {
  const TensorDesc* const forward[] = {&p.out, &p.in};
  const TensorDesc* const backward[] = {&p.out, &p.in, &p.dy};
  const Loop all = p.forward() ? make_loop(forward) : make_loop(backward);
  common::RowLoops loops = common::row_loops(all, [&](std::size_t dim) { return p.reduces(dim); });
  loops.kept.simplify();
  return loops;
}

}  // namespace polymio::softmax
