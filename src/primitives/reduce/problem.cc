// The problem of a reduction: its text, hash and validation.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "core/tensor_checks.h"
#include "primitives/reduce/solvers.h"

namespace polymio::reduce {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat,  DataType::kHalf,  DataType::kBFloat16,
                               DataType::kDouble, DataType::kInt32, DataType::kInt8};

void require_tensor(const TensorDesc& t, const char* name) {
  require(std::ranges::find(kTypes, t.type) != std::end(kTypes),
          "{} has type {}: reductions take fp32, fp16, bf16, fp64, int32 and int8", name, name_of(t.type));
  require(t.vector_length == 1, "{} has vectors of {} channels: reductions take layouts without vectors", name,
          t.vector_length);
  require(!t.has_cast(), "{} has the cast type {}: reductions take tensors without cast", name, name_of(t.cast));
}

bool is_reduced(const Problem& p, std::size_t d) { return p.a.lens[d] != p.c.lens[d]; }

/// The dimensions of -R: one of size 1 where nothing is reduced, "none" if there is none.
std::string reduced_text(const Problem& p) {
  std::string text;
  for (std::size_t d = 0; d < static_cast<std::size_t>(p.a.rank); ++d)
    if (is_reduced(p, d)) text += fmt::format("{}{}", text.empty() ? "" : ",", d);
  if (!text.empty()) return text;
  const auto sizes = p.a.sizes();
  const auto one = std::ranges::find(sizes, 1);
  return one == sizes.end() ? "none" : std::to_string(one - sizes.begin());
}

/// The number of the operation in the function's enumeration.
int number_of(const Problem& p) {
  switch (p.kind) {
    case Kind::kTensor: return static_cast<int>(p.op);
    case Kind::kCalculation: return p.op == Op::kMul ? 1 : 2;
    case Kind::kExtreme: return p.op == Op::kMin ? 3 : 4;
    case Kind::kPosition: return p.op == Op::kMin ? 1 : 2;
  }
  return 0;
}

}  // namespace

bool is_extreme(Op op) { return op == Op::kMin || op == Op::kMax || op == Op::kAmax; }

TensorDesc positions_of(const TensorDesc& c) {
  TensorDesc t = c;
  t.type = t.cast = DataType::kInt32;
  std::array<std::size_t, kMaxRank> order;
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto end = order.begin() + c.rank;
  std::stable_sort(order.begin(), end, [&](std::size_t d, std::size_t e) { return c.strides[d] > c.strides[e]; });
  std::int64_t stride = 1;
  for (auto at = end; at != order.begin();) {
    t.strides[*--at] = stride;
    stride *= c.lens[*at];
  }
  return t;
}

std::string Problem::key() const {
  static constexpr const char* kBases[] = {"reduce", "reducecalculation", "reduceextreme", "reduceextreme"};
  const std::string base = kBases[static_cast<int>(kind)];
  std::string text =
      base_arg((a.type == DataType::kInt32 ? base + "int32" : base).c_str(), a.type, 2) +
      fmt::format(" -D {} -R {} -O {}", fmt::join(a.sizes(), ","), reduced_text(*this), number_of(*this));
  if (nan == (kind == Kind::kTensor ? Nan::kPropagate : Nan::kZero)) text += " -N 1";
  if (kind == Kind::kTensor && has_positions()) text += " -I 1";
  text += strides_unless_dense(a, "--in_strides");
  if (has_values()) {
    text += strides_unless_dense(c, "--out_strides");
    if (c.type != a.type) text += fmt::format(" --out_type {}", name_of(c.type));
  }
  const bool usual =
      kind == Kind::kPosition ? c.is_channels_first() : !has_positions() || same_strides(positions, positions_of(c));
  return usual ? text : text + strides_flag(positions, "--indices_strides");
}

std::string Problem::family() const {
  const Loops loops(*this);
  const bool columns = loops.kept.inner().strides[0] == 1 && loops.kept.inner().size > 1;
  return fmt::format("reduce {} {} {} {} {} {}", static_cast<int>(op), static_cast<int>(nan), name_of(a.type),
                     has_values() ? name_of(c.type) : "none", has_positions() ? "positions" : "values",
                     loops.reduced.inner().strides[0] == 1 ? "rows"
                     : columns                             ? "columns"
                                                           : "strided");
}

std::vector<float> Problem::log_sizes() const {
  return {std::log2(static_cast<float>(c.count())), std::log2(static_cast<float>(length()))};
}

double Problem::work() const {
  const auto bytes = [](const TensorDesc& t) {
    return static_cast<double>(t.count()) * static_cast<double>(size_of(t.type));
  };
  return bytes(a) + bytes(c) + (kind != Kind::kPosition && has_positions() ? bytes(positions) : 0);
}

void validate(const Problem& p) {
  require(static_cast<int>(p.op) >= 0 && static_cast<int>(p.op) < kOps,
          "operation {} is unknown: allowed are 0 (add) to 7 (norm2)", static_cast<int>(p.op));
  require_tensor(p.a, "a");
  require_tensor(p.c, "c");
  bool fits = p.a.rank == p.c.rank;
  for (std::size_t d = 0; fits && d < static_cast<std::size_t>(p.a.rank); ++d)
    fits = p.c.lens[d] == 1 || p.c.lens[d] == p.a.lens[d];
  if (!fits)
    fail(Status::kUnknownError, "c has sizes {}, a has {}: each size of c must be 1 or that of a", sizes_text(p.c),
         sizes_text(p.a));
  require_separate(p.c, "c");
  if (!p.has_positions()) return;
  require(p.length() <= INT32_MAX,
          "{} elements are reduced: their positions must be less than 2^31, as int32 indices are", p.length());
  require(p.positions.type == DataType::kInt32, "the indices have type {}: they must be int32",
          name_of(p.positions.type));
  require_same_sizes(p.positions, "the tensor of indices", p.c, "c");
  require_separate(p.positions, "the tensor of indices");
}

bool is_supported(const DeviceInfo& device, const Problem& p) {
  const auto wide = [](DataType t) { return t == DataType::kDouble || t == DataType::kInt32; };
  return device.kind == DeviceKind::kCpu || device.gpu.fp64 || !(wide(p.a.type) || (p.has_values() && wide(p.c.type)));
}

Loops::Loops(const Problem& p) {
  const TensorDesc* const operands[] = {&p.a, &p.c, p.has_positions() ? &p.positions : &p.c};
  const Loop all = make_loop(operands);
  kept.operands = reduced.operands = all.operands;
  for (std::size_t d = 0; d < all.rank; ++d) (is_reduced(p, d) ? reduced : kept).push(all.dims[d]);
  kept.simplify();
  p.has_positions() ? reduced.merge() : reduced.simplify();
}

}  // namespace polymio::reduce
