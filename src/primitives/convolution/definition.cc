// SPDX-License-Identifier: MIT
#include "primitives/convolution/definition.h"

#include <algorithm>

#include "base/hash.h"

namespace polymio::convolution {
namespace {

std::int64_t ceil_of_ratio(std::int64_t a, std::int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

Reader reader(const Problem& p, const Problem::Args& args, const TensorDesc& t, std::uint64_t salt) {
  const void* data = &t == &p.x ? args.x : &t == &p.w ? args.w : args.y;
  return {t, data, p.rounding == Rounding::kStochastic, args.seed + salt};
}

}  // namespace

std::int64_t dither(std::uint64_t seed, std::uint64_t i) {
  // A counter-based generator: two rounds of the mixer.
  return static_cast<std::int64_t>(mix(mix(seed, i), 0x94d049bb133111ebull) & 0x7fffff);
}

double Reader::rounded(double v, std::int64_t offset) const {
  double memory = 0;
  dtype::store(desc.cast, &memory, 0, v, stochastic ? dither(seed, static_cast<std::uint64_t>(offset)) : -1);
  return dtype::load(desc.cast, &memory, 0);
}

Points::Points(const Problem& p) : p_(p) {
  const TensorDesc& o = p.output();
  for (std::size_t i = 0; i < 2; ++i) {
    sizes_[i] = o.lens[i];
    output_strides_[i] = o.strides[i];
  }
  const int missing = 3 - p.spatial();
  for (int i = 0; i < 3; ++i) {
    const int s = i - missing;
    const auto d = static_cast<std::size_t>(std::max(s, 0));
    const bool real = s >= 0;
    in_[i] = real ? p.in(s) : 1;
    out_[i] = real ? p.out(s) : 1;
    filter_[i] = real ? p.filter(s) : 1;
    pad_[i] = real ? p.geometry.pad[d] : 0;
    stride_[i] = real ? p.geometry.stride[d] : 1;
    dilation_[i] = real ? p.geometry.dilation[d] : 1;
    sx_[i] = real ? p.x.strides[d + 2] : 0;
    sw_[i] = real ? p.w.strides[d + 2] : 0;
    sy_[i] = real ? p.y.strides[d + 2] : 0;
    sizes_[i + 2] = real ? o.lens[d + 2] : 1;
    output_strides_[i + 2] = real ? o.strides[d + 2] : 0;
  }
}

std::int64_t Points::offset(const Position& at) const {
  const auto& s = output_strides_;
  return at.i[0] * s[0] + at.i[1] * s[1] + at.s[0] * s[2] + at.s[1] * s[3] + at.s[2] * s[4];
}

/// Output position o: the taps r with 0 <= o*stride + r*dilation - pad < in.
void Points::forward_taps(int i, std::int64_t o, Walk& walk) const {
  const std::int64_t base = o * stride_[i] - pad_[i];
  const std::int64_t first = base < 0 ? ceil_of_ratio(-base, dilation_[i]) : 0;
  const std::int64_t end = std::min(filter_[i], base >= in_[i] ? 0 : (in_[i] - 1 - base) / dilation_[i] + 1);
  walk.count[i + 1] = std::max<std::int64_t>(0, end - first);
  walk.a0 += (base + first * dilation_[i]) * sx_[i];
  walk.b0 += first * sw_[i];
  walk.da[i + 1] = dilation_[i] * sx_[i];
  walk.db[i + 1] = sw_[i];
}

/// Input position h: the taps r for which h + pad - r*dilation is divisible by stride and gives a valid output
/// position. These taps are an arithmetic sequence with step stride / gcd(stride, dilation).
void Points::backward_taps(int i, std::int64_t h, Walk& walk) const {
  std::int64_t count = 0, first_r = 0, first_o = 0, step_r = 0, step_o = 0;
  for (std::int64_t r = 0; r < filter_[i]; ++r) {
    const std::int64_t t = h + pad_[i] - r * dilation_[i];
    if (t < 0 || t % stride_[i] != 0 || t / stride_[i] >= out_[i]) continue;
    const std::int64_t o = t / stride_[i];
    if (count == 0) {
      first_r = r;
      first_o = o;
    }
    if (count == 1) {
      step_r = r - first_r;
      step_o = o - first_o;
    }
    ++count;
  }
  walk.count[i + 1] = count;
  walk.a0 += first_o * sy_[i];
  walk.b0 += first_r * sw_[i];
  walk.da[i + 1] = step_o * sy_[i];
  walk.db[i + 1] = step_r * sw_[i];
}

/// Filter tap r: the outputs o with 0 <= o*stride + r*dilation - pad < in.
void Points::weight_taps(int i, std::int64_t r, Walk& walk) const {
  const std::int64_t base = r * dilation_[i] - pad_[i];
  const std::int64_t first = base < 0 ? ceil_of_ratio(-base, stride_[i]) : 0;
  const std::int64_t end = std::min(out_[i], base >= in_[i] ? 0 : (in_[i] - 1 - base) / stride_[i] + 1);
  walk.count[i + 1] = std::max<std::int64_t>(0, end - first);
  walk.a0 += (base + first * stride_[i]) * sx_[i];
  walk.b0 += first * sy_[i];
  walk.da[i + 1] = stride_[i] * sx_[i];
  walk.db[i + 1] = sy_[i];
}

Walk Points::walk(const Position& at) const {
  const std::int64_t g = p_.groups(), cg = p_.c() / g, kg = p_.k() / g;
  const auto &x = p_.x.strides, &w = p_.w.strides, &y = p_.y.strides;
  const auto& i = at.i;
  Walk walk{};
  if (p_.direction == Direction::kForward) {
    for (int t = 0; t < 3; ++t) forward_taps(t, at.s[t], walk);
    walk.a0 += i[0] * x[0] + i[1] / kg * cg * x[1];
    walk.b0 += i[1] * w[0];
    walk.count[0] = cg;
    walk.da[0] = x[1];
    walk.db[0] = w[1];
  } else if (p_.direction == Direction::kBackwardData) {
    for (int t = 0; t < 3; ++t) backward_taps(t, at.s[t], walk);
    walk.a0 += i[0] * y[0] + i[1] / cg * kg * y[1];
    walk.b0 += i[1] / cg * kg * w[0] + i[1] % cg * w[1];
    walk.count[0] = kg;
    walk.da[0] = y[1];
    walk.db[0] = w[0];
  } else {
    for (int t = 0; t < 3; ++t) weight_taps(t, at.s[t], walk);
    walk.a0 += (i[0] / kg * cg + i[1]) * x[1];
    walk.b0 += i[0] * y[1];
    walk.count[0] = p_.n();
    walk.da[0] = x[0];
    walk.db[0] = y[0];
  }
  return walk;
}

Reader first_reader(const Problem& p, const Problem::Args& args) { return reader(p, args, p.first_input(), 1); }
Reader second_reader(const Problem& p, const Problem::Args& args) { return reader(p, args, p.second_input(), 2); }

void* output_of(const Problem& p, const Problem::Args& args) {
  void* const outputs[] = {args.y, args.x, args.w};
  return outputs[static_cast<int>(p.direction)];
}

}  // namespace polymio::convolution
