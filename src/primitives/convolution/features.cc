// Inputs of the learned model for a convolution, in the order of tools/learn/features.py: logarithms of sizes, flags,
// the loss by rounding sizes up to whole vectors and tiles, and the sizes of the direction's GEMM.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

float log2_of(std::int64_t size) { return static_cast<float>(std::log2(static_cast<double>(size))); }

float waste(std::int64_t size, std::int64_t step) { return log2_of((size + step - 1) / step * step) - log2_of(size); }

/// Sizes of [D], H, W, with 1 for missing dimensions.
struct Sizes {
  std::int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, filter[3] = {1, 1, 1};
  std::int64_t stride = 1, dilation = 1, pad = 0;

  explicit Sizes(const Problem& p) {
    for (int i = 0; i < p.spatial(); ++i) {
      const int at = 3 - p.spatial() + i;
      const auto d = static_cast<std::size_t>(i);
      in[at] = p.in(i);
      out[at] = p.out(i);
      filter[at] = p.filter(i);
      stride = std::max(stride, p.geometry.stride[d]);
      dilation = std::max(dilation, p.geometry.dilation[d]);
      pad = std::max(pad, p.geometry.pad[d]);
    }
  }
};

/// Whether the features can express the types, and all tensors have the same layout; `last`: that is NHWC.
bool describable(const Problem& p, bool& last) {
  const DataType type = p.x.type;
  const bool types = type == DataType::kFloat || type == DataType::kHalf || type == DataType::kBFloat16;
  if (p.has_casts()) return false;
  if (type == DataType::kInt8 ? p.w.type != type || p.y.type != DataType::kInt32 : !types || !p.all_types(type))
    return false;
  bool first = true, channels_last = true;
  for (const TensorDesc* t : {&p.x, &p.w, &p.y}) {
    first = first && t->is_channels_first();
    channels_last = channels_last && t->is_channels_last();
  }
  last = !first;
  return first || channels_last;
}

/// The GEMM of one group: rows and columns of the result, and the summed dimension.
struct Product {
  std::int64_t rows, columns, depth;

  Product(const Problem& p, const Sizes& s) {
    const auto product = [](const std::int64_t(&v)[3]) { return v[0] * v[1] * v[2]; };
    const std::int64_t c = p.c() / p.groups(), k = p.k() / p.groups(), taps = product(s.filter);
    const std::int64_t places = p.n() * product(s.out);
    const auto set = [this](std::int64_t m, std::int64_t n, std::int64_t summed) {
      rows = m;
      columns = n;
      depth = summed;
    };
    if (p.direction == Direction::kForward)
      set(k, places, c * taps);
    else if (p.direction == Direction::kBackwardData)
      set(c, p.n() * product(s.in), k * taps);
    else
      set(k, c * taps, places);
  }
};

}  // namespace

std::vector<float> Problem::features() const {
  bool last = false;
  if (!describable(*this, last)) return {};
  const Sizes s(*this);
  const std::int64_t g = groups(), in_channels = c() / g, out_channels = k() / g;
  std::vector<float> f{log2_of(n()), log2_of(in_channels), log2_of(out_channels), log2_of(g)};
  for (const auto& sizes : {s.in, s.out, s.filter})
    for (int i = 0; i < 3; ++i) f.push_back(log2_of(sizes[i]));
  const std::int64_t taps = s.filter[0] * s.filter[1] * s.filter[2];
  const auto bytes = [](const TensorDesc& t) { return t.count() * static_cast<std::int64_t>(size_of(t.type)); };
  const std::int64_t x_bytes = bytes(x), w_bytes = bytes(w);
  // For int8, y counts with one byte per element, too.
  const std::int64_t y_bytes = y.count() * static_cast<std::int64_t>(size_of(x.type));
  const auto operations = static_cast<float>(std::log2(flops()));
  f.insert(f.end(), {log2_of(s.stride), log2_of(s.dilation), operations, log2_of(x_bytes), log2_of(w_bytes),
                     log2_of(y_bytes), operations - log2_of(x_bytes + w_bytes + y_bytes)});
  for (const Direction d : {Direction::kForward, Direction::kBackwardData, Direction::kBackwardWeights})
    f.push_back(direction == d);
  for (const DataType t : {DataType::kHalf, DataType::kBFloat16, DataType::kInt8}) f.push_back(x.type == t);
  f.insert(f.end(), {static_cast<float>(last), static_cast<float>(s.pad > 0),
                     static_cast<float>(taps == 1 && s.stride == 1 && s.pad == 0),
                     static_cast<float>(g > 1 && in_channels == 1)});
  f.insert(f.end(), {waste(in_channels, 16), waste(out_channels, 16), waste(out_channels, 8), waste(s.in[2], 16),
                     waste(s.out[2], 16), waste(s.out[1] * s.out[2], 16)});
  for (const std::int64_t tile : {2, 4}) {
    f.push_back(waste(s.in[1], tile) + waste(s.in[2], tile));
    f.push_back(waste(s.out[1], tile) + waste(s.out[2], tile));
  }
  const Product m(*this, s);
  f.insert(f.end(), {log2_of(m.rows), log2_of(m.columns), log2_of(m.depth), waste(m.rows, 8), waste(m.columns, 48)});
  return f;
}

}  // namespace polymio::convolution
