// The pooling problem: its text, hash and validation.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "core/tensor_checks.h"
#include "primitives/pooling/solvers.h"

namespace polymio::pooling {
namespace {

constexpr const char* kModes[] = {"max", "avg", "avg_in"};
constexpr const char* kIndices[] = {"none", "miopenIndexUint8", "miopenIndexUint16", "miopenIndexUint32",
                                    "miopenIndexUint64"};

/// " -y 3 -x 3 -p 1 -q 1 -v 2 -u 2": the flags of the last dimensions.
std::string window_flags(const Window& w) {
  static constexpr const char *kLength[] = {"-Z", "-y", "-x"}, *kPad[] = {"-o", "-p", "-q"},
                              *kStride[] = {"--pool_stride_d", "-v", "-u"};
  std::string text;
  const auto add = [&](const char* const* flags, const auto& values) {
    for (std::size_t d = 0; d < static_cast<std::size_t>(w.rank); ++d)
      text += fmt::format(" {} {}", flags[d + kMostSpatial - static_cast<std::size_t>(w.rank)], values[d]);
  };
  add(kLength, w.length);
  add(kPad, w.pad);
  add(kStride, w.stride);
  return text;
}

/// " --out_h 5": the spatial sizes of y that differ from the formula's.
std::string output_flags(const Problem& p) {
  static constexpr const char* kOut[] = {"--out_d", "--out_h", "--out_w"};
  std::string text;
  for (std::size_t d = 0; d < static_cast<std::size_t>(p.window.rank); ++d)
    if (p.y.lens[d + 2] != p.window.outputs(d, p.x.lens[d + 2]))
      text += fmt::format(" {} {}", kOut[d + kMostSpatial - static_cast<std::size_t>(p.window.rank)], p.y.lens[d + 2]);
  return text;
}

void require_tensor(const Problem& p, const TensorDesc& t, const char* name) {
  if (t.rank < 3 || t.rank > 2 + kMostSpatial)
    fail(Status::kUnknownError, "{} has rank {}: pooling takes 3 to 5 dimensions, N, C, [D], [H], W", name, t.rank);
  if (!(t.type == DataType::kInt8 && p.forward())) require_float_tensor(t, name, 2 + kMostSpatial, "poolings");
  require(t.vector_length == 1 && !t.has_cast(),
          "{} has vectors of channels or a cast type, which pooling does not take", name);
  require(t.rank == p.window.rank + 2, "{} has rank {}, the pooling descriptor has {} spatial dimensions", name, t.rank,
          p.window.rank);
  require_same_type(p.x, "x", t, name);
  for (std::size_t d = 0; d < 2; ++d)
    require(t.lens[d] == p.x.lens[d], "{} has sizes {}, x has {}: N and C must be equal", name, sizes_text(t),
            sizes_text(p.x));
}

void require_indices(const Problem& p) {
  require(p.position == Position::kWindow || p.position == Position::kImage,
          "workspace index mode {} is unknown: allowed are 0 (mask) and 1 (image)", static_cast<int>(p.position));
  if (p.index == Index::kNone || p.index == Index::kUint64) return;
  const bool image = p.position == Position::kImage;
  const std::int64_t positions = image ? p.x.count() / (p.x.lens[0] * p.x.lens[1]) : p.window.volume();
  const int bits = 8 * static_cast<int>(size_of(p.index));
  if (positions > std::int64_t{1} << bits)
    fail(Status::kUnknownError, "index range not enough: {} positions in the {} do not fit an index of {} bits",
         positions, image ? "image" : "window", bits);
}

}  // namespace

std::uint64_t Window::hash(std::uint64_t seed) const {
  for (std::size_t d = 0; d < kMostSpatial; ++d)
    seed = mix(seed, static_cast<std::uint64_t>(length[d] ^ pad[d] << 20 ^ stride[d] << 40));
  return mix(seed, static_cast<std::uint64_t>(rank));
}

std::int64_t Window::volume() const {
  std::int64_t n = 1;
  for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d)
    if (__builtin_mul_overflow(n, length[d], &n)) return INT64_MAX;
  return n;
}

std::int64_t Window::outputs(std::size_t dim, std::int64_t size) const {
  const std::int64_t room = size + 2 * pad[dim] - length[dim];
  return room < 0 ? 1 : room / stride[dim] + 1;
}

std::string Problem::key() const {
  std::string text = base_arg("pool", x.type, x.rank - 2) + size_flags(x) + window_flags(window) + output_flags(*this);
  text += fmt::format(" -m {}", kModes[static_cast<int>(mode)]);
  if (mode == Mode::kMax && index != Index::kUint8)
    text += fmt::format(" --index_type {}", kIndices[static_cast<int>(index)]);
  if (index != Index::kNone) text += fmt::format(" -M {}", static_cast<int>(position));
  text += fmt::format(" -F {}", forward() ? 1 : 2);
  text += layout_flags(x, "-I", "--in_strides") + layout_flags(y, "-O", "--out_strides");
  if (forward()) return text;
  if (!same_strides(dx, x)) text += strides_flag(dx, "--din_strides");
  if (!same_strides(dy, y)) text += strides_flag(dy, "--dout_strides");
  return text;
}

std::string Problem::family() const {
  return fmt::format("pool {} {} {} {}{} {} {}{}", forward() ? "fwd" : "bwd", name_of(x.type),
                     kModes[static_cast<int>(mode)], kIndices[static_cast<int>(index)],
                     position == Position::kImage ? " image" : "", window_flags(window).substr(1),
                     layout_name(forward() ? x : dx), layout_name(forward() ? y : dy));
}

std::vector<float> Problem::log_sizes() const {
  const auto log = [](std::int64_t n) { return std::log2(static_cast<float>(n)); };
  return {log(x.lens[0]), log(x.lens[1]), log(x.count() / (x.lens[0] * x.lens[1])),
          log(y.count() / (y.lens[0] * y.lens[1]))};
}

double Problem::work() const {
  const auto bytes = [](const TensorDesc& t) {
    return static_cast<double>(t.count() * static_cast<std::int64_t>(polymio::size_of(t.type)));
  };
  return bytes(x) * (searches_x() ? 2 : 1) + bytes(y) + static_cast<double>(index_bytes(*this));
}

void validate(Mode mode, const Window& w) {
  const int number = static_cast<int>(mode);
  require(number >= 0 && number <= 2,
          "pooling mode {} is unknown: allowed are 0 (max), 1 (average) and 2 (average, inclusive)", number);
  require(w.rank >= 1 && w.rank <= kMostSpatial, "the pooling descriptor has {} spatial dimensions: 1 to 3 are allowed",
          w.rank);
  for (std::size_t d = 0; d < static_cast<std::size_t>(w.rank); ++d)
    require(
        w.length[d] >= 1 && w.stride[d] >= 1 && w.pad[d] >= 0,
        "dimension {} of the pooling descriptor has window {}, stride {} and pad {}: allowed are windows and strides "
        "of at least 1 and pads of at least 0",
        d, w.length[d], w.stride[d], w.pad[d]);
}

void validate(const Problem& p) {
  validate(p.mode, p.window);
  require_tensor(p, p.x, "x");
  require_tensor(p, p.y, "y");
  if (!p.forward()) {
    require_tensor(p, p.dy, "dy");
    require_tensor(p, p.dx, "dx");
    require_same_sizes(p.y, "y", p.dy, "dy");
    require_same_sizes(p.x, "x", p.dx, "dx");
  }
  require_separate(p.output(), p.forward() ? "y" : "dx");
  require_indices(p);
}

TensorDesc index_tensor(const TensorDesc& y) {
  TensorDesc t = y;
  const auto strides = meaningful_strides(y);
  const auto rank = static_cast<std::size_t>(y.rank);
  for (std::size_t d = 0; d < rank; ++d) {
    t.strides[d] = 1;
    for (std::size_t e = 0; e < rank; ++e)
      if (strides[e] < strides[d] || (strides[e] == strides[d] && e > d)) t.strides[d] *= y.lens[e];
  }
  return t;
}

std::size_t index_bytes(const Problem& p) { return static_cast<std::size_t>(p.y.count()) * size_of(p.index); }

}  // namespace polymio::pooling
