// The activation problem: its text, hash and validation.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "primitives/activation/activation.h"
#include "primitives/activation/grid.h"

namespace polymio::activation {
namespace {

TensorDesc with_images(const TensorDesc& t) {
  if (t.rank != 1) return t;
  TensorDesc wide = t;
  wide.rank = 2;
  wide.lens[1] = t.lens[0];
  wide.strides[1] = t.strides[0];
  wide.lens[0] = 1;
  wide.strides[0] = t.lens[0] * t.strides[0];
  return wide;
}

const char* memory_class(const Problem& p) {
  const Grid grid = grid_of(p);
  return grid.flat() ? "dense" : grid.contiguous() ? "rows" : "strided";
}

void check_tensor(const TensorDesc& t, const char* name) {
  require(t.type == DataType::kFloat || t.type == DataType::kHalf || t.type == DataType::kBFloat16 ||
              t.type == DataType::kDouble,
          "{} is {}: activations take fp32, fp16, bf16 and fp64", name, polymio::name_of(t.type));
  require(t.rank >= 1 && t.rank <= kMostRank, "{} has rank {}: 1 to {} are allowed", name, t.rank, kMostRank);
  require(t.vector_length == 1, "{} has a layout with vectors of {} channels, which activations do not take", name,
          t.vector_length);
  require(!t.has_cast(), "{} has the cast type {}, which activations do not take", name, polymio::name_of(t.cast));
}

void check_pair(const TensorDesc& t, const char* name, const TensorDesc& x) {
  check_tensor(t, name);
  require(t.type == x.type, "x is {}, {} is {}: their data types must be equal", polymio::name_of(x.type), name,
          polymio::name_of(t.type));
  require(t.rank == x.rank && t.lens == x.lens, "x has sizes {}, {} has {}: they must be equal", sizes_text(x), name,
          sizes_text(t));
}

}  // namespace

const char* name_of(Mode m) {
  static constexpr const char* kNames[] = {"passthru", "logistic", "tanh",        "relu",      "softrelu",
                                           "abs",      "power",    "clippedrelu", "leakyrelu", "elu"};
  return kNames[static_cast<int>(m)];
}

Problem forward_problem(Mode mode, const TensorDesc& x, const TensorDesc& y) {
  Problem p;
  p.mode = mode;
  p.x = with_images(x);
  p.y = with_images(y);
  return p;
}

Problem backward_problem(Mode mode, const TensorDesc& x, const TensorDesc& y, const TensorDesc& dy,
                         const TensorDesc& dx) {
  Problem p = forward_problem(mode, x, y);
  p.direction = Direction::kBackward;
  p.dy = with_images(dy);
  p.dx = with_images(dx);
  return p;
}

std::string Problem::key() const {
  std::string text = base_arg("activ", x.type, x.rank - 2);
  static constexpr const char* kFlags[] = {"-n", "-c", "-!", "-H", "-W"};
  for (int d = 0; d < x.rank; ++d) {
    const auto flag = static_cast<std::size_t>(d < 2 ? d : d + kMostRank - x.rank);
    text += fmt::format(" {} {}", kFlags[flag], x.lens[static_cast<std::size_t>(d)]);
  }
  text += fmt::format(" -m {} -F {}", static_cast<int>(mode), forward() ? 1 : 2);
  text += layout_flags(x, "-I", "--in_strides") + layout_flags(y, "-O", "--out_strides");
  if (forward()) return text;
  if (!same_memory(dx, x)) text += strides_flag(dx, "--din_strides");
  if (!same_memory(dy, y)) text += strides_flag(dy, "--dout_strides");
  return text;
}

std::string Problem::family() const {
  return fmt::format("activ {} {} {} {}", forward() ? "fwd" : "bwd", polymio::name_of(x.type), name_of(mode),
                     memory_class(*this));
}

std::vector<float> Problem::log_sizes() const { return {std::log2(static_cast<float>(count()))}; }

double Problem::work() const {
  return (forward() ? 2.0 : 3.0) * static_cast<double>(count()) * static_cast<double>(size_of(x.type));
}

void validate(const Problem& p) {
  const int mode = static_cast<int>(p.mode);
  require(mode >= 0 && mode <= 9, "activation mode {} is unknown: allowed are 0 (passthru) to 9 (ELU)", mode);
  check_tensor(p.x, "x");
  check_pair(p.y, "y", p.x);
  if (!p.forward()) {
    check_pair(p.dy, "dy", p.x);
    check_pair(p.dx, "dx", p.x);
  }
  const TensorDesc* output[] = {&p.output()};
  require(Grid(output).separate(), "the output {} overlaps itself: strides {} for sizes {}", p.forward() ? "y" : "dx",
          strides_text(*output[0]), sizes_text(*output[0]));
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
