// The convolution problem: its text, hash and validation.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

std::string cast_flag(const TensorDesc& t, const char* flag) {
  return t.has_cast() ? fmt::format(" {} {}", flag, name_of(t.cast)) : "";
}

/// The driver's name of a type.
const char* flag_value(DataType t) {
  switch (t) {
    case DataType::kHalf: return "half";
    case DataType::kFloat: return "float";
    case DataType::kBFloat16: return "bfloat16";
    case DataType::kDouble: return "double";
    default: return name_of(t);
  }
}

/// Flags for types that the base argument does not imply (int8 implies int32 results, other types their own).
std::string type_flags(const Problem& p) {
  const DataType base = p.first_input().type;
  const DataType out = base == DataType::kInt8 ? DataType::kInt32 : base;
  std::string text;
  if (p.second_input().type != base) text += fmt::format(" --second_type {}", flag_value(p.second_input().type));
  if (p.output().type != out) text += fmt::format(" --out_type {}", flag_value(p.output().type));
  return text;
}

std::string size_flags(const Problem& p) {
  struct Flag {
    const char* flag;
    std::int64_t value;
  };
  const auto& g = p.geometry;
  const int last = p.spatial() - 1;
  std::string text = fmt::format(" -n {} -c {} -k {}", p.n(), p.c(), p.k());
  const char* const kNames[3][6] = {
      {"-!", "-@", "-$", "-#", "-^", ""}, {"-H", "-y", "-p", "-u", "-l", ""}, {"-W", "-x", "-q", "-v", "-j", ""}};
  for (int i = 0; i <= last; ++i) {
    const auto& names = kNames[3 - p.spatial() + i];
    const auto d = static_cast<std::size_t>(i);
    for (const Flag& f : {Flag{names[0], p.in(i)}, Flag{names[1], p.filter(i)}, Flag{names[2], g.pad[d]},
                          Flag{names[3], g.stride[d]}, Flag{names[4], g.dilation[d]}})
      text += fmt::format(" {} {}", f.flag, f.value);
  }
  return text;
}

/// The letters of an epilogue's parts before the activation.
std::string parts_of(const Epilogue& e) {
  return fmt::format("{}{}{}{}", e.scale ? "s" : "", e.bias ? "b" : "", e.norm ? "n" : "", e.residual ? "z" : "");
}

const char* layout_class(const TensorDesc& t) {
  return t.is_channels_first() ? "first" : t.is_channels_last() ? "last" : "strided";
}

std::string type_class(const TensorDesc& t) {
  return t.has_cast() ? fmt::format("{}>{}", name_of(t.type), name_of(t.cast)) : name_of(t.type);
}

void check_types(const Problem& p) {
  const DataType a = p.first_input().type, b = p.second_input().type, out = p.output().type;
  if (a == DataType::kInt8 || b == DataType::kInt8) {
    require(a == b && (out == DataType::kInt8 || out == DataType::kInt32 || out == DataType::kFloat),
            "int8 convolution reads two int8 tensors and writes int8, int32 or fp32; given {} and {} to {}", name_of(a),
            name_of(b), name_of(out));
    return;
  }
  require(!is_integer(a) && !is_integer(b) && !is_integer(out),
          "convolution does not take these data types: {} and {} to {}", name_of(a), name_of(b), name_of(out));
  require(is_fp8(a) || is_fp8(b) || is_fp8(out) || (a == b && a == out),
          "x, w and y must have one data type (int8 and 8-bit floats may be mixed); given x {}, w {}, y {}",
          name_of(p.x.type), name_of(p.w.type), name_of(p.y.type));
}

void check_channels(const Problem& p) {
  const std::int64_t g = p.groups();
  require(g >= 1, "group count must be positive, {} was given", g);
  require(p.c() % g == 0 && p.k() % g == 0, "group count {} must divide the channels of x ({}) and of y ({})", g, p.c(),
          p.k());
  require(p.w.lens[1] == p.c() / g, "w has {} channels per filter, x has {} in {} group(s): {} are needed", p.w.lens[1],
          p.c(), g, p.c() / g);
  require(p.w.lens[0] == p.k(), "w has {} filters, y has {} channels: they must be equal", p.w.lens[0], p.k());
  require(p.x.lens[0] == p.y.lens[0], "x has batch {}, y has batch {}: they must be equal", p.x.lens[0], p.y.lens[0]);
}

/// Two elements of the output at one address would be written by two tasks.
void check_separate(const TensorDesc& t) {
  std::vector<std::size_t> order(static_cast<std::size_t>(t.rank));
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return t.strides[a] < t.strides[b]; });
  std::int64_t reach = 0;  // of the dimensions with smaller strides
  for (const std::size_t d : order) {
    if (t.lens[d] == 1) continue;
    require(t.strides[d] > reach,
            "the output overlaps itself: stride {} of dimension {} is within the {} elements of "
            "the dimensions inside it",
            t.strides[d], d, reach + 1);
    reach += (t.lens[d] - 1) * t.strides[d];
  }
}

void check_extents(const Problem& p) {
  for (int i = 0; i < p.spatial(); ++i) {
    const auto d = static_cast<std::size_t>(i);
    std::int64_t reach = 0;
    require(!__builtin_mul_overflow(p.geometry.dilation[d], p.filter(i) - 1, &reach) && reach < (INT64_MAX >> 2),
            "filter {} with dilation {} reaches too far in spatial dimension {}", p.filter(i), p.geometry.dilation[d],
            i);
  }
}

// Limits that keep sizes below 2^63: every size that a solver computes is one of these times at most two factors of up
// to 2^6, for rounding up and the bytes of an element. No process has 2^47 bytes of memory, and 2^56 products take
// days.
constexpr double kMostBytes = 0x1p47, kMostPadded = 0x1p50, kMostProducts = 0x1p56, kMostSteps = 0x1p56;

void check_magnitude(const Problem& p) {
  for (const TensorDesc* t : {&p.x, &p.w, &p.y}) {
    double bytes = 1;
    const auto strides = meaningful_strides(*t);
    for (std::size_t i = 0; i < static_cast<std::size_t>(t->rank); ++i)
      bytes = std::max(bytes, static_cast<double>(t->lens[i]) * static_cast<double>(strides[i]));
    bytes *= static_cast<double>(size_of(t->type));
    if (bytes > kMostBytes)
      fail(Status::kBadParm, "the tensor of sizes {} with strides {} spans more than 2^47 bytes", sizes_text(*t),
           strides_text(*t));
  }
  const auto x = meaningful_strides(p.x), w = meaningful_strides(p.w), y = meaningful_strides(p.y);
  double padded = static_cast<double>(p.n()) * static_cast<double>(p.c()), steps = 0;
  for (int i = 0; i < p.spatial(); ++i) {
    const auto d = static_cast<std::size_t>(i);
    const auto& g = p.geometry;
    const double pad = static_cast<double>(g.pad[d]), stride = static_cast<double>(g.stride[d]),
                 reach = static_cast<double>(g.dilation[d]) * static_cast<double>(p.filter(i));
    padded *= static_cast<double>(p.in(i)) + 2 * pad + reach;
    const auto step = static_cast<double>(std::max({x[d + 2], w[d + 2], y[d + 2]}));
    steps = std::max(steps, (pad + stride + reach) * step);
  }
  require(padded <= kMostPadded, "x padded and with what the filter reaches has more than 2^50 elements");
  require(steps <= kMostSteps, "a pad, stride or dilation steps over more than 2^56 elements of memory");
  require(p.flops() / 2 <= kMostProducts, "the convolution has more than 2^56 products");
}

}  // namespace

std::uint64_t Geometry::hash(std::uint64_t seed) const {
  seed = mix(seed, static_cast<std::uint64_t>(groups));  // the tensors' ranks tell the number of spatial dimensions
  for (std::size_t i = 0; i < 3; ++i)
    seed = mix(seed, static_cast<std::uint64_t>(pad[i]) << 40 ^ static_cast<std::uint64_t>(stride[i]) << 20 ^
                         static_cast<std::uint64_t>(dilation[i]));
  return seed;
}

std::uint64_t Epilogue::hash(std::uint64_t seed) const {
  std::uint64_t bits = static_cast<std::uint64_t>(activation);
  for (const bool flag : {scale, residual, norm, bias}) bits = bits << 1 | static_cast<std::uint64_t>(flag);
  return mix(seed, bits);
}

std::string Problem::key() const {
  std::string text = base_arg("conv", first_input().type, spatial());
  text += size_flags(*this);
  text += fmt::format(" -g {} -m conv -F {}", groups(), 1 << static_cast<int>(direction));
  text += type_flags(*this);
  text += layout_flags(x, "-I", "--in_strides") + layout_flags(w, "-f", "--wei_strides") +
          layout_flags(y, "-O", "--out_strides");
  text += cast_flag(x, "-U") + cast_flag(w, "-R") + cast_flag(y, "-T");
  if (is_fp8(output().type) || has_casts())
    text += rounding == Rounding::kStochastic ? " --fp8_rounding stochastic" : " --fp8_rounding standard";
  if (!epilogue.empty()) text += fmt::format(" --fuse {}{}", parts_of(epilogue), epilogue.activation);
  return text;
}

std::string Problem::family() const {
  static constexpr const char* kDirections[] = {"fwd", "bwd", "wrw"};
  const auto d = static_cast<std::size_t>(spatial());
  const auto by = [d](const std::int64_t* v) { return fmt::format("{}", fmt::join(v, v + d, "x")); };
  const auto& g = geometry;
  const bool padded = std::any_of(g.pad.begin(), g.pad.begin() + spatial(), [](auto pad) { return pad != 0; });
  const char* kind = groups() == 1 ? "plain" : depthwise() ? "depthwise" : "grouped";
  std::string text =
      fmt::format("conv {} {} {} {} {},{},{} {} s{} d{} {} {}", kDirections[static_cast<int>(direction)], type_class(x),
                  type_class(w), type_class(y), layout_class(x), layout_class(w), layout_class(y), by(&w.lens[2]),
                  by(g.stride.data()), by(g.dilation.data()), padded ? "p" : "p0", kind);
  if (rounding == Rounding::kStochastic) text += " stochastic";
  if (!epilogue.empty()) text += fmt::format(" {}a{}", parts_of(epilogue), epilogue.activation);
  return text;
}

std::vector<float> Problem::log_sizes() const {
  std::vector<float> sizes;
  const auto add = [&](std::int64_t size) { sizes.push_back(std::log2(static_cast<float>(size))); };
  for (const std::int64_t size : {n(), c(), k(), groups()}) add(size);
  for (int i = 0; i < spatial(); ++i) add(in(i));  // the output's follow from these and the family
  return sizes;
}

double Problem::flops() const {
  double f = 2.0 * static_cast<double>(y.count()) * static_cast<double>(w.lens[1]);
  for (int i = 0; i < spatial(); ++i) f *= static_cast<double>(filter(i));
  return f;
}

std::int64_t forward_size(std::int64_t in, std::int64_t filter, std::int64_t pad, std::int64_t stride,
                          std::int64_t dilation) {
  // Any of these may be near 2^63; the result is not.
  __extension__ using Wide = __int128;
  const Wide room = Wide{in} + Wide{2} * pad - (Wide{1} + Wide{dilation} * (filter - 1));
  return static_cast<std::int64_t>(std::max(Wide{1}, room / stride + 1));
}

void validate(const Problem& p) {
  const int rank = p.spatial() + 2;
  require(p.spatial() >= 1 && p.spatial() <= 3, "convolution has 1 to 3 spatial dimensions, {} were given",
          p.spatial());
  for (const TensorDesc* t : {&p.x, &p.w, &p.y}) {
    require(t->rank == rank, "a {}-D convolution needs tensors of rank {}: x has {}, w has {}, y has {}", p.spatial(),
            rank, p.x.rank, p.w.rank, p.y.rank);
    if (t->vector_length != 1)
      fail(Status::kNotImplemented, "convolution does not support the vectorised layouts (NCHWc, CHWNc)");
  }
  check_types(p);
  check_channels(p);
  check_extents(p);
  check_magnitude(p);
  check_separate(p.output());
  for (int i = 0; i < p.spatial(); ++i) {
    const auto d = static_cast<std::size_t>(i);
    const auto& g = p.geometry;
    const std::int64_t want = forward_size(p.in(i), p.filter(i), g.pad[d], g.stride[d], g.dilation[d]);
    require(p.out(i) == want,
            "y has size {} in spatial dimension {}, but x size {}, filter {}, pad {}, stride {}, dilation {} give {}",
            p.out(i), i, p.in(i), p.filter(i), g.pad[d], g.stride[d], g.dilation[d], want);
  }
}

}  // namespace polymio::convolution
