// A tensor's description: element type, sizes and strides in N, C, [D], H, W order.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/dtype.h"

namespace polymio {

inline constexpr int kMaxRank = 8;

/// Numbers equal miopenTensorLayout_t.
enum class Layout : int {
  kNCHW = 0,
  kNHWC = 1,
  kCHWN = 2,
  kNCHWc4 = 3,
  kNCHWc8 = 4,
  kCHWNc4 = 5,
  kCHWNc8 = 6,
  kNCDHW = 7,
  kNDHWC = 8,
};

struct TensorDesc {
  DataType type = DataType::kFloat;
  DataType cast = DataType::kFloat;  // elements are rounded to this type when read; = type if none
  int rank = 0;
  int vector_length = 1;                                 // 4 or 8 in the NCHWc and CHWNc layouts, else 1
  std::array<std::int64_t, kMaxRank> lens{}, strides{};  // strides in elements; unused entries 0

  bool operator==(const TensorDesc&) const = default;
  std::span<const std::int64_t> sizes() const { return {lens.data(), static_cast<std::size_t>(rank)}; }

  std::int64_t count() const;  // elements
  std::int64_t space() const;  // elements from the first to the last, gaps included
  std::size_t bytes() const { return static_cast<std::size_t>(space()) * size_of(type); }
  bool packed() const { return count() == space(); }
  bool has_cast() const { return cast != type; }
  std::uint64_t hash(std::uint64_t seed) const;

  /// Dense in N, C, [D], H, W order.
  bool is_channels_first() const;
  /// Dense in N, [D], H, W, C order.
  bool is_channels_last() const;
};

/// Validates and builds. Null `strides` (empty span) means dense in the order of `lens`. Throws
/// BadParm naming the wrong value, InvalidValue when there are no dimensions.
TensorDesc make_tensor(DataType type, std::span<const std::int64_t> lens, std::span<const std::int64_t> strides);

/// Dense in `layout`; `lens` in N, C, [D], H, W order.
TensorDesc make_tensor(DataType type, Layout layout, std::span<const std::int64_t> lens);

/// The strides, with those of size-1 dimensions, which have no effect, replaced by those of a dense tensor of the same
/// layout: kernels compare strides and must not depend on arbitrary values.
std::array<std::int64_t, kMaxRank> meaningful_strides(const TensorDesc&);

/// A tensor of rank 1 as one of a single image; others as they are.
TensorDesc with_images(const TensorDesc&);

/// Merges neighbouring dimensions that are contiguous in all tensors, the last ones first, until `most` remain or no
/// more can be merged; nothing if the sizes of the tensors differ. Dimensions `first` and `end` are not merged with
/// those before them. Returns the number of `first` then.
int merge_dimensions(std::span<TensorDesc* const> tensors, int most, int first = 0, int end = kMaxRank);

/// The first layout in which a tensor of these sizes is dense with these strides.
std::optional<Layout> layout_of(const TensorDesc&);

/// "NCHW", "NHWC", ... if dense in that order (the first that fits), else "".
std::string layout_name(const TensorDesc&);

}  // namespace polymio
