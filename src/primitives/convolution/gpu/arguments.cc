// SPDX-License-Identifier: MIT
#include "primitives/convolution/gpu/arguments.h"

#include <fmt/format.h>

#include <limits>

#include "primitives/activation/activation.h"
#include "primitives/convolution/cpu/epilogue.h"
#include "primitives/convolution/definition.h"

namespace polymio::convolution::gpu {
namespace {

/// Calls `set(i, s)` for each dimension i of [D], H, W with the problem's own dimension s, -1 if it is missing.
template <class Set>
void each_dimension(const Problem& p, const Set& set) {
  for (int i = 0; i < 3; ++i) set(i, i < 3 - p.spatial() ? -1 : i - (3 - p.spatial()));
}

}  // namespace

kernels::ConvSizes sizes_of(const Problem& p) {
  kernels::ConvSizes z{p.n(), p.c(), p.k(), p.groups(), {}, {}, {}};
  each_dimension(p, [&](int i, int s) {
    z.in[i] = s < 0 ? 1 : p.in(s);
    z.out[i] = s < 0 ? 1 : p.out(s);
    z.filter[i] = s < 0 ? 1 : p.filter(s);
  });
  return z;
}

kernels::ConvSteps steps_of(const Problem& p) {
  kernels::ConvSteps t{};
  each_dimension(p, [&](int i, int s) {
    const auto d = static_cast<std::size_t>(std::max(s, 0));
    t.pad[i] = s < 0 ? 0 : p.geometry.pad[d];
    t.stride[i] = s < 0 ? 1 : p.geometry.stride[d];
    t.dilation[i] = s < 0 ? 1 : p.geometry.dilation[d];
  });
  return t;
}

kernels::DepthwiseShape depthwise_shape(const Problem& p) {
  const auto z = sizes_of(p);
  const auto t = steps_of(p);
  const bool data = p.direction == Direction::kBackwardData;
  const auto &src = data ? z.out : z.in, &dst = data ? z.in : z.out;
  const bool flipped = data && t.stride[1] == 1 && t.stride[2] == 1 && t.dilation[1] == 1 && t.dilation[2] == 1;
  const auto pad = [&](int i) { return narrow(flipped ? z.filter[i] - 1 - t.pad[i] : t.pad[i]); };
  kernels::DepthwiseShape s{};
  s.images = narrow(z.n);
  s.channels = narrow(z.c);
  s.src_h = narrow(src[1]);
  s.src_w = narrow(src[2]);
  s.dst_h = narrow(dst[1]);
  s.dst_w = narrow(dst[2]);
  s.pad_h = pad(1);
  s.pad_w = pad(2);
  set_steps(s, t);
  s.by_width = divider(s.dst_w);
  return s;
}

kernels::ConvStrides strides_of(const Problem& p) {
  kernels::ConvStrides e{};
  const auto fill = [&](const TensorDesc& t, kernels::i64* strides) {
    // The stride of a dimension of size 1 is arbitrary: 0 keeps it out of index arithmetic.
    const auto stride = [&](std::size_t d) { return t.lens[d] == 1 ? 0 : t.strides[d]; };
    strides[0] = stride(0);
    strides[1] = stride(1);
    each_dimension(p, [&](int i, int s) { strides[i + 2] = s < 0 ? 0 : stride(static_cast<std::size_t>(s) + 2); });
  };
  fill(p.x, e.x);
  fill(p.w, e.w);
  fill(p.y, e.y);
  return e;
}

Verdict check_device(const DeviceInfo& d, const Problem& p, bool fuses) {
  POLYMIO_REQUIRE(d.kind != DeviceKind::kCpu, "does not run on this kind of device");
  POLYMIO_REQUIRE(fuses || p.epilogue.empty(), "does not fuse epilogues");
  const auto fp64 = [](DataType t) { return t == DataType::kDouble || t == DataType::kInt8; };
  POLYMIO_REQUIRE(d.gpu.fp64 || !(fp64(p.x.type) || fp64(p.w.type) || fp64(p.y.type)),
                  "the device has no double-precision arithmetic");
  return {};
}

Verdict check_types(const DeviceInfo& d, const Problem& p, bool fuses) {
  POLYMIO_REQUIRE(!is_fp8(p.x.type) && !is_fp8(p.w.type) && !is_fp8(p.y.type), "8-bit floats");
  POLYMIO_REQUIRE(!p.has_casts(), "cast types");
  return check_device(d, p, fuses);
}

std::optional<int> long_dimension(const Problem& p) {
  std::optional<int> found;
  for (int i = 0; i < p.spatial(); ++i) {
    if (p.in(i) == 1 && p.out(i) == 1 && p.filter(i) == 1 && p.geometry.pad[static_cast<std::size_t>(i)] == 0) continue;
    if (found) return {};
    found = i;
  }
  return found;
}

Verdict check_sizes(const Problem& p, int most_dimensions) {
  POLYMIO_REQUIRE(p.spatial() <= most_dimensions, "three spatial dimensions");
  constexpr std::int64_t kMax = 1 << 30, kMaxSmall = 1 << 20;
  POLYMIO_REQUIRE_MOST(p.x.space() / p.n(), kMax, "elements of an image of x");
  POLYMIO_REQUIRE_MOST(p.y.space() / p.n(), kMax, "elements of an image of y");
  POLYMIO_REQUIRE_MOST(p.w.space(), kMax, "elements of w");
  POLYMIO_REQUIRE_MOST(p.groups(), std::numeric_limits<std::uint16_t>::max(), "groups");
  std::int64_t in = p.n(), out = p.n();
  for (int i = 0; i < p.spatial(); ++i) {
    const auto d = static_cast<std::size_t>(i);
    in *= p.in(i);
    out *= p.out(i);
    POLYMIO_REQUIRE_MOST(p.geometry.pad[d], kMaxSmall, "padding");
    POLYMIO_REQUIRE_MOST(p.geometry.stride[d], kMaxSmall, "stride");
    POLYMIO_REQUIRE_MOST(p.geometry.dilation[d], kMax / p.filter(i), "reach of the filter");
  }
  POLYMIO_REQUIRE_MOST(in, kMax, "pixels of x");
  POLYMIO_REQUIRE_MOST(out, kMax, "pixels of y");
  return {};
}

Verdict check_planes(const DeviceInfo& d, const Problem& p, Direction direction, bool fuses, int most_dimensions) {
  POLYMIO_REQUIRE(p.direction == direction, "serves another direction");
  const DataType t = p.x.type;
  POLYMIO_REQUIRE(t == DataType::kFloat || t == DataType::kHalf || t == DataType::kBFloat16,
                  "not a float of 16 or 32 bits");
  POLYMIO_REQUIRE(p.all_types(t), "mixed types");
  if (const Verdict v = check_types(d, p, fuses); !v) return v;
  return check_sizes(p, most_dimensions);
}

std::vector<KernelSpec> kernel_variants(const std::string& source, const std::string& name,
                                        std::vector<std::string> options, bool weights, bool unaligned) {
  std::vector<KernelSpec> specs;
  for (int variant = 0; variant < (unaligned ? 2 : 1); ++variant) {
    if (variant == 1) options.emplace_back("-DUNALIGNED");
    specs.push_back({source, name, options});
    if (weights) specs.push_back({source, "add_partials", options});
  }
  return specs;
}

bool launches_early(const DeviceInfo& d) {
  constexpr int kOldest = 90;
  return d.gpu.compute_capability >= kOldest;
}

void add_partials(Stream& stream, const Kernel& kernel, const Partials& p, float alpha, float beta) {
  constexpr std::int64_t kThreads = 256, kMaxSide = 32, kMinParts = 8, kEnough = 1 << 18;
  std::int64_t side = 1;  // threads that add up one element
  while (side < kMaxSide && side * kMinParts < p.parts && side * p.count < kEnough) side *= 2;
  const std::int64_t lanes = kThreads / side;
  Launch shape = launch_shape(kThreads, (p.count + lanes - 1) / lanes);
  shape.programmatic = launches_early(stream.info());
  const auto add = [&](auto... seed) {
    launch(stream, kernel, shape, p.sums, p.result, p.sums_at, p.count, p.parts, static_cast<int>(side), p.result_at,
           alpha, beta, seed...);
  };
  p.seed ? add(*p.seed) : add();
}

kernels::Divider divider(std::int64_t divisor) { return kernels::make_divider(divisor); }

bool aligned(const Problem::Args& a) {
  const auto bits = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p); };
  return ((bits(a.x) | bits(a.w) | bits(a.y)) & 15) == 0;
}

kernels::EpilogueScalars epilogue_scalars(const Problem::Args& a) {
  return {static_cast<float>(a.alpha), static_cast<float>(a.beta), static_cast<float>(a.activation_alpha),
          static_cast<float>(a.activation_beta), static_cast<float>(a.activation_gamma)};
}

Verdict check_channel_epilogue(const Problem& p, bool takes_norm) {
  Problem folded = p;
  if (takes_norm && p.epilogue.scale) folded.epilogue.norm = false;
  if (const Verdict v = check_epilogue(folded); !v) return v;
  POLYMIO_REQUIRE(!p.epilogue.residual, "fuses scale, bias and activation only");
  constexpr int kPower = static_cast<int>(activation::Mode::kPower);  // computes in double
  POLYMIO_REQUIRE(p.epilogue.activation != kPower, "does not fuse this activation");
  return {};
}

void add_epilogue_options(const Epilogue& e, std::vector<std::string>* options) {
  options->push_back(fmt::format("-DHAS_BIAS={:d}", e.bias));
  options->push_back(fmt::format("-DHAS_SCALE={:d}", e.scale));
  if (e.norm) options->emplace_back("-DHAS_NORM=1");
  options->push_back(fmt::format("-DMODE={}", e.activation));
}

void add_fused_options(const Epilogue& e, std::vector<std::string>* options) {
  if (e.empty()) return;
  options->emplace_back("-DFUSES");
  add_epilogue_options(e, options);
}

EpilogueOperands epilogue_operands(const Epilogue& e, const Problem::Args& a) {
  return {Buffer(e.bias ? a.bias : a.w), Buffer(e.scale ? a.scale : a.w)};
}

double tensor_bytes(const Problem& p) {
  const auto bytes = [](const TensorDesc& t) {
    return static_cast<double>(t.count()) * static_cast<double>(size_of(t.type));
  };
  return bytes(p.x) + bytes(p.w) + bytes(p.y);
}

std::vector<std::string> type_options(const DeviceInfo& d, const Problem& p) {
  const TensorDesc &first = p.first_input(), &second = p.second_input();
  const DataType out = p.output().type;
  const bool casts = first.has_cast() || second.has_cast();
  std::vector<std::string> options;
  const auto add = [&](const char* option, DataType t) {
    options.push_back(fmt::format("-D{}={}", option, name_of(t)));
  };
  add("IN", first.type);
  add("OUT", out);
  if (second.type != first.type) add("SECOND", second.type);
  if (first.has_cast()) add("FIRST_CAST", first.cast);
  if (second.has_cast()) add("SECOND_CAST", second.cast);
  if (p.rounding == Rounding::kStochastic && casts) options.emplace_back("-DDITHERS");
  if (p.rounding == Rounding::kStochastic && is_fp8(out)) options.emplace_back("-DDITHERS_OUT");
  if (d.gpu.fp64) options.emplace_back("-DFP64");
  return options;
}

Operands operands_of(const Problem& p, const Problem::Args& a) {
  const bool data = p.direction == Direction::kBackwardData, weights = p.direction == Direction::kBackwardWeights;
  return {data ? a.y : a.x, weights ? a.y : a.w, output_of(p, a)};
}

}  // namespace polymio::convolution::gpu
