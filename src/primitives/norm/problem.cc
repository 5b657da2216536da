// The normalization problem: its text, hash and validation.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "core/tensor_checks.h"
#include "primitives/common/caches.h"
#include "primitives/norm/solvers.h"

namespace polymio::norm {
namespace {

constexpr const char* kUsers = "normalizations";

const char* name_of(Kind kind) {
  static constexpr const char* kNames[] = {"layernorm", "addlayernorm", "t5layernorm", "groupnorm"};
  return kNames[static_cast<int>(kind)];
}

/// miopenNormMode_t.
int mode_of(const Problem& p) {
  static constexpr int kFirst[] = {0, 2, 4, 0};
  return kFirst[static_cast<int>(p.kind)] + static_cast<int>(p.affine);
}

bool is_row_major(const TensorDesc& t) {
  std::int64_t stride = 1;
  for (auto d = static_cast<std::size_t>(t.rank); d-- > 0; stride *= t.lens[d])
    if (t.lens[d] != 1 && t.strides[d] != stride) return false;
  return true;
}

/// A tensor of one number for each element of a row, or for each row.
void require_dense(const TensorDesc& t, const char* name, std::int64_t count, const char* of) {
  require_float_tensor(t, name, kMaxRank, kUsers);
  require(t.count() == count, "{} has {} elements, sizes {}: {} are needed, one for each {}", name, t.count(),
          sizes_text(t), count, of);
  require(is_row_major(t), "{} has strides {} for sizes {}: only dense row-major ones are allowed", name,
          strides_text(t), sizes_text(t));
}

/// Checks those of the given tensors; returns their common type, or `otherwise` if there are none.
DataType common_type(std::initializer_list<std::pair<const TensorDesc*, const char*>> tensors, std::int64_t count,
                     const char* of, DataType otherwise) {
  const std::pair<const TensorDesc*, const char*>* first = nullptr;
  for (const auto& t : tensors) {
    if (!t.first) continue;
    require_dense(*t.first, t.second, count, of);
    if (!first) first = &t;
    require_same_type(*first->first, first->second, *t.first, t.second);
  }
  return first ? first->first->type : otherwise;
}

void require_type_near(DataType t, const Problem& p, const char* name) {
  require(t == p.x.type || (t == DataType::kFloat && p.x.type != DataType::kDouble),
          "{} are {}, x is {}: the type of x is allowed, and fp32 if x has 16 bits", name, polymio::name_of(t),
          polymio::name_of(p.x.type));
}

std::string type_flag(DataType t, const Problem& p, const char* flag) {
  return t == p.x.type ? "" : fmt::format(" {} {}", flag, polymio::name_of(t));
}

}  // namespace

int first_of_row(const Problem& p) { return p.kind == Kind::kGroup ? 2 : static_cast<int>(p.extent.first); }

TensorDesc split(const Problem& p, const TensorDesc& t) {
  if (p.kind != Kind::kGroup || t.rank == 0) return t;
  TensorDesc s = t;
  const std::int64_t channels = t.lens[1] / p.extent.groups;
  std::copy(t.lens.begin() + 2, t.lens.begin() + t.rank, s.lens.begin() + 3);
  std::copy(t.strides.begin() + 2, t.strides.begin() + t.rank, s.strides.begin() + 3);
  s.lens[1] = p.extent.groups;
  s.lens[2] = channels;
  s.strides[1] = t.strides[1] * channels;
  s.strides[2] = t.strides[1];
  ++s.rank;
  return s;
}

TensorDesc parameter_desc(const Problem& p) {
  TensorDesc t = split(p, p.x);
  t.type = t.cast = p.parameters;
  const auto first = static_cast<std::size_t>(p.kind == Kind::kGroup ? 1 : first_of_row(p));
  const auto end = static_cast<std::size_t>(p.kind == Kind::kGroup ? 3 : t.rank);
  std::int64_t stride = 1;
  for (auto d = static_cast<std::size_t>(t.rank); d-- > 0;) {
    if (d < first || d >= end) t.lens[d] = 1;
    t.strides[d] = stride;
    stride *= t.lens[d];
  }
  return t;
}

TensorDesc statistic_desc(const Problem& p) {
  TensorDesc t = split(p, p.x);
  t.type = t.cast = p.statistics;
  std::int64_t stride = 1;
  for (auto d = static_cast<std::size_t>(t.rank); d-- > 0;) {
    if (d >= static_cast<std::size_t>(first_of_row(p))) t.lens[d] = 1;
    t.strides[d] = stride;
    stride *= t.lens[d];
  }
  return t;
}

common::RowLoops rows_of(const Problem& p, std::span<const TensorDesc* const> operands) {
  const auto first = static_cast<std::size_t>(first_of_row(p));
  return common::row_loops(make_loop(operands), [&](std::size_t d) { return d >= first; });
}

double traffic_us(const DeviceInfo& d, const Problem& p, int passes, bool non_temporal) {
  const double tensor = static_cast<double>(p.x.count()) * static_cast<double>(size_of(p.x.type));
  const bool large = common::exceeds_caches(d, p.work());
  constexpr double kCaches = 4;  // assumed to be so many times as fast as memory
  const double bytes = p.work() + (large && !non_temporal ? tensor : 0);  // a plain store reads the line first
  const double again = tensor * passes;
  const double of_memory =
      bytes / (large || non_temporal ? 1 : kCaches) + again / (common::exceeds_caches(d, again) ? 1 : kCaches);
  return of_memory / std::max(d.bandwidth_gbs, 1.0) * 1e-3;
}

Problem make_problem(Kind kind, Direction direction, Affine affine, const Extent& extent, const Tensors& t) {
  Problem p;
  p.kind = kind;
  p.direction = direction;
  p.affine = affine;
  p.extent = extent;
  const bool lifted = t.x->rank == 1;  // becomes a tensor of one image
  if (kind == Kind::kRms) p.extent.first = t.x->rank - 1;
  if (kind == Kind::kGroup) {
    require(t.x->rank >= 3 && t.x->rank <= kMostRank, "x has rank {}: group normalization takes 3 to {}", t.x->rank,
            kMostRank);
    require(extent.groups >= 1 && t.x->lens[1] % extent.groups == 0,
            "num_groups is {}: it must be a divisor of the {} channels of x", extent.groups, t.x->lens[1]);
    p.extent.first = 1;
  } else {
    require(p.extent.first >= 0 && p.extent.first <= t.x->rank,
            "normalized_dim is {}: 0 to {}, the rank of x, are allowed", p.extent.first, t.x->rank);
  }
  const auto with_image = [&](const TensorDesc* d) { return d ? with_images(*d) : TensorDesc{}; };
  p.x = with_image(t.x);
  p.x2 = with_image(t.x2);
  p.y = with_image(t.y);
  p.dy = with_image(t.dy);
  p.dx = with_image(t.dx);
  if (lifted) ++p.extent.first;
  if (kind != Kind::kGroup) {
    std::array<TensorDesc*, 5> given{&p.x};
    std::size_t count = 1;
    for (TensorDesc* d : {&p.x2, &p.y, &p.dy, &p.dx})
      if (d->rank > 0) given[count++] = d;
    p.extent.first = merge_dimensions({given.data(), count}, kMostRank, static_cast<int>(p.extent.first));
  }
  require_merged(p.x, "x", kMostRank);
  const bool group = kind == Kind::kGroup;
  p.parameters = common_type({{t.weight, "weight"}, {t.bias, "bias"}, {t.dw, "dw"}, {t.db, "db"}},
                             group ? p.x.lens[1] : p.length(), group ? "channel" : "element of a row", p.x.type);
  p.statistics =
      common_type({{t.mean, "mean"}, {t.rstd, "rstd"}}, p.rows(), group ? "image and group" : "row", p.x.type);
  return p;
}

std::int64_t Problem::rows() const {
  if (kind == Kind::kGroup) return x.lens[0] * extent.groups;
  std::int64_t n = 1;
  for (std::int64_t d = 0; d < extent.first; ++d) n *= x.lens[static_cast<std::size_t>(d)];
  return n;
}

std::string Problem::key() const {
  std::string text = base_arg(name_of(kind), x.type, x.rank - 2) + size_flags(x);
  if (kind == Kind::kGroup)
    text += fmt::format(" -g {}", extent.groups);
  else if (kind != Kind::kRms)
    text += fmt::format(" -o {}", extent.first);
  text += fmt::format(" -m {} -F {}", mode_of(*this), forward() ? 1 : 2);
  text += type_flag(parameters, *this, "--param_type") + type_flag(statistics, *this, "--stat_type");
  text += layout_flags(x, "-I", "--in_strides");
  if (forward()) {
    text += layout_flags(y, "-O", "--out_strides");
    return x2.rank > 0 && !same_strides(x2, x) ? text + strides_flag(x2, "--in2_strides") : text;
  }
  text += layout_flags(dy, "-O", "--out_strides");
  return same_strides(dx, x) ? text : text + strides_flag(dx, "--din_strides");
}

std::string Problem::family() const {
  const TensorDesc* const operands[] = {&output(), &x};
  return fmt::format("{} {} {} {} {} {} {}", name_of(kind), forward() ? "fwd" : "bwd", polymio::name_of(x.type),
                     polymio::name_of(parameters), polymio::name_of(statistics), static_cast<int>(affine),
                     simplified_loop(operands).memory_class());
}

std::vector<float> Problem::log_sizes() const {
  return {std::log2(static_cast<float>(rows())), std::log2(static_cast<float>(length()))};
}

double Problem::work() const {
  const double tensors = forward() ? (kind == Kind::kAddLayer ? 3 : 2) : 3;
  return tensors * static_cast<double>(x.count()) * static_cast<double>(size_of(x.type));
}

void validate(const Problem& p) {
  const auto check = [&](const TensorDesc& t, const char* name) {
    require_float_tensor(t, name, kMostRank, kUsers);
    require_same_type(p.x, "x", t, name);
    require_same_sizes(p.x, "x", t, name);
  };
  require_float_tensor(p.x, "x", kMostRank, kUsers);
  if (p.kind == Kind::kAddLayer) check(p.x2, "x2");
  if (p.forward()) {
    check(p.y, "y");
  } else {
    check(p.dy, "dy");
    check(p.dx, "dx");
  }
  require_separate(p.output(), p.forward() ? "y" : "dx");
  require_type_near(p.parameters, p, "weight and bias");
  require_type_near(p.statistics, p, "mean and rstd");
}

}  // namespace polymio::norm
