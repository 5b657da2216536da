// SPDX-License-Identifier: MIT
#include "core/tensor.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/hash.h"

namespace polymio {
namespace {

/// Whether the strides are those of a dense tensor, or of vectors. Size-1 dimensions may have any stride: no address
/// depends on it.
bool has_order(const TensorDesc& t, std::span<const int> order) {
  std::int64_t expected = t.vector_length;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const auto d = static_cast<std::size_t>(*it);
    if (t.lens[d] != 1 && t.strides[d] != expected) return false;
    expected *= t.lens[d];
  }
  return true;
}

bool is_dense(const TensorDesc& t, std::span<const int> order) { return t.vector_length == 1 && has_order(t, order); }

/// The dimensions of a layout from slowest to fastest.
std::span<const int> order_of(Layout layout) {
  static constexpr int kNchw[] = {0, 1, 2, 3}, kNhwc[] = {0, 2, 3, 1}, kChwn[] = {1, 2, 3, 0},
                       kNcdhw[] = {0, 1, 2, 3, 4}, kNdhwc[] = {0, 2, 3, 4, 1};
  switch (layout) {
    case Layout::kNCHW:
    case Layout::kNCHWc4:
    case Layout::kNCHWc8: return kNchw;
    case Layout::kNHWC: return kNhwc;
    case Layout::kCHWN:
    case Layout::kCHWNc4:
    case Layout::kCHWNc8: return kChwn;
    case Layout::kNCDHW: return kNcdhw;
    case Layout::kNDHWC: return kNdhwc;
  }
  return {};
}

int vector_length_of(Layout layout) {
  switch (layout) {
    case Layout::kNCHWc4:
    case Layout::kCHWNc4: return 4;
    case Layout::kNCHWc8:
    case Layout::kCHWNc8: return 8;
    default: return 1;
  }
}

std::array<int, kMaxRank> channels_last_order(int rank) {
  std::array<int, kMaxRank> order{};
  for (int i = 1; i + 1 < rank; ++i) order[static_cast<std::size_t>(i)] = i + 1;
  if (rank > 1) order[static_cast<std::size_t>(rank - 1)] = 1;
  return order;
}

void check_type(DataType type) {
  require(is_valid(type),
          "data type {} is unknown: allowed are half 0, float 1, int32 2, int8 3, bfloat16 5, double 6, float8 7, "
          "bfloat8 8, int64 9, e4m3fn 256, e5m2 257",
          static_cast<int>(type));
}

void check_lens(DataType type, std::span<const std::int64_t> lens) {
  if (lens.empty()) fail(Status::kInvalidValue, "a tensor needs at least one dimension, 0 were given");
  require(lens.size() <= kMaxRank, "{} dimensions were given, at most {} are supported", lens.size(), kMaxRank);
  auto bytes = static_cast<std::int64_t>(size_of(type));
  for (std::size_t i = 0; i < lens.size(); ++i) {
    require(lens[i] > 0, "lengths must be positive: length {} is {}", i, lens[i]);
    require(!__builtin_mul_overflow(bytes, lens[i], &bytes), "the tensor has more than 2^63 bytes");
  }
}

/// Dense strides with `order` listing dimensions from slowest to fastest.
void set_dense(TensorDesc& t, std::span<const int> order) {
  std::int64_t step = t.vector_length;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    t.strides[static_cast<std::size_t>(*it)] = step;
    step *= t.lens[static_cast<std::size_t>(*it)];
  }
}

TensorDesc base_tensor(DataType type, std::span<const std::int64_t> lens) {
  check_type(type);
  check_lens(type, lens);
  TensorDesc t;
  t.type = t.cast = type;
  t.rank = static_cast<int>(lens.size());
  std::copy(lens.begin(), lens.end(), t.lens.begin());
  return t;
}

constexpr Layout kLastLayout = Layout::kNDHWC;
constexpr std::array<int, kMaxRank> kIdentity = {0, 1, 2, 3, 4, 5, 6, 7};

}  // namespace

std::int64_t TensorDesc::count() const {
  std::int64_t n = vector_length;
  for (const auto l : sizes()) n *= l;
  return n;
}

std::int64_t TensorDesc::space() const {
  std::int64_t last = vector_length;
  for (std::size_t i = 0; i < static_cast<std::size_t>(rank); ++i) last += (lens[i] - 1) * strides[i];
  return last;
}

std::uint64_t TensorDesc::hash(std::uint64_t seed) const {
  seed = mix(seed, static_cast<std::uint64_t>(type) | static_cast<std::uint64_t>(cast) << 16 |
                       static_cast<std::uint64_t>(rank) << 32 | static_cast<std::uint64_t>(vector_length) << 40);
  // One stride is enough to separate the common layouts; equality compares all.
  for (const auto l : sizes()) seed = mix(seed, static_cast<std::uint64_t>(l));
  return mix(seed, static_cast<std::uint64_t>(strides[1]));
}

bool TensorDesc::is_channels_first() const {
  return is_dense(*this, std::span(kIdentity).first(static_cast<std::size_t>(rank)));
}

bool TensorDesc::is_channels_last() const {
  const auto order = channels_last_order(rank);
  return is_dense(*this, std::span(order).first(static_cast<std::size_t>(rank)));
}

TensorDesc make_tensor(DataType type, std::span<const std::int64_t> lens, std::span<const std::int64_t> strides) {
  TensorDesc t = base_tensor(type, lens);
  if (strides.empty()) {
    set_dense(t, std::span(kIdentity).first(lens.size()));
    return t;
  }
  require(strides.size() == lens.size(), "{} strides were given for {} lengths", strides.size(), lens.size());
  std::int64_t last = 1;
  for (std::size_t i = 0; i < lens.size(); ++i) {
    require(strides[i] > 0, "strides must be positive: stride {} is {}", i, strides[i]);
    t.strides[i] = strides[i];
    std::int64_t step = 0;
    require(!__builtin_mul_overflow(lens[i] - 1, strides[i], &step) && !__builtin_add_overflow(last, step, &last),
            "the tensor spans more than 2^63 elements");
  }
  std::int64_t bytes = 0;
  require(!__builtin_mul_overflow(last, static_cast<std::int64_t>(size_of(type)), &bytes),
          "the tensor spans more than 2^63 bytes");
  return t;
}

TensorDesc make_tensor(DataType type, Layout layout, std::span<const std::int64_t> lens) {
  TensorDesc t = base_tensor(type, lens);
  require(layout >= Layout::kNCHW && layout <= kLastLayout, "layout {} is unknown: allowed are 0 to {}",
          static_cast<int>(layout), static_cast<int>(kLastLayout));
  const auto order = order_of(layout);
  require(t.sizes().size() == order.size(), "layout {} needs {} lengths, {} were given", static_cast<int>(layout),
          order.size(), t.rank);
  t.vector_length = vector_length_of(layout);
  require(t.lens[1] % t.vector_length == 0, "layout {} needs a channel count divisible by {}, {} was given",
          static_cast<int>(layout), t.vector_length, t.lens[1]);
  t.lens[1] /= t.vector_length;
  set_dense(t, order);
  return t;
}

std::array<std::int64_t, kMaxRank> meaningful_strides(const TensorDesc& t) {
  const auto rank = static_cast<std::size_t>(t.rank);
  std::int64_t nearest = INT64_MAX;  // stride of a spatial dimension
  for (std::size_t d = 2; d < rank; ++d)
    if (t.lens[d] > 1) nearest = std::min(nearest, t.strides[d]);
  // If the sizes allow several layouts, the given strides decide.
  const bool open = rank < 3 || t.lens[1] == 1 || nearest == INT64_MAX;
  const bool last = rank > 2 && (open ? t.strides[1] < t.strides[rank - 1] || (t.lens[1] == 1 && t.strides[1] == 1)
                                      : t.strides[1] < nearest);
  const auto order = last ? channels_last_order(t.rank) : kIdentity;
  auto strides = t.strides;
  auto dense = static_cast<std::uint64_t>(t.vector_length);  // unsigned: it may wrap for strides near 2^63
  for (std::size_t i = rank; i-- > 0;) {
    const auto d = static_cast<std::size_t>(order[i]);
    if (t.lens[d] == 1) strides[d] = static_cast<std::int64_t>(dense);
    dense = static_cast<std::uint64_t>(strides[d]) * static_cast<std::uint64_t>(t.lens[d]);
  }
  return strides;
}

std::optional<Layout> layout_of(const TensorDesc& t) {
  for (int i = 0; i <= static_cast<int>(kLastLayout); ++i) {
    const auto layout = static_cast<Layout>(i);
    const auto order = order_of(layout);
    if (t.sizes().size() == order.size() && t.vector_length == vector_length_of(layout) && has_order(t, order))
      return layout;
  }
  return std::nullopt;
}

std::string layout_name(const TensorDesc& t) {
  static constexpr const char* kFirst[] = {"NC", "NCW", "NCHW", "NCDHW"};
  static constexpr const char* kLast[] = {"NC", "NWC", "NHWC", "NDHWC"};
  if (t.rank < 2 || t.rank > 5) return "";
  const auto i = static_cast<std::size_t>(t.rank - 2);
  if (t.is_channels_first()) return kFirst[i];
  if (t.is_channels_last()) return kLast[i];
  return "";
}

int merge_dimensions(std::span<TensorDesc* const> tensors, int most, int first, int end) {
  const TensorDesc& model = *tensors.front();
  const auto differs = [&](const TensorDesc* t) { return t->rank != model.rank || t->lens != model.lens; };
  if (model.rank <= most || std::ranges::any_of(tensors, differs)) return first;
  for (int d = model.rank - 2; d >= 0 && model.rank > most; --d) {
    const auto left = static_cast<std::size_t>(d), right = left + 1;
    const auto are_contiguous = [&](const TensorDesc* t) {
      return t->lens[left] == 1 || t->lens[right] == 1 || t->strides[left] == t->lens[right] * t->strides[right];
    };
    if (d + 1 == first || d + 1 == end || !std::ranges::all_of(tensors, are_contiguous)) continue;
    for (TensorDesc* t : tensors) {
      if (t->lens[right] == 1) t->strides[right] = t->strides[left];
      t->lens[right] *= t->lens[left];
      std::shift_left(t->lens.begin() + d, t->lens.end(), 1);
      std::shift_left(t->strides.begin() + d, t->strides.end(), 1);
      --t->rank;
      t->lens[static_cast<std::size_t>(t->rank)] = t->strides[static_cast<std::size_t>(t->rank)] = 0;
    }
    first -= d < first ? 1 : 0;
  }
  return first;
}

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

}  // namespace polymio
