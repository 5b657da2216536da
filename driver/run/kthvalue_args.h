// The flags of kthvalue.
// SPDX-License-Identifier: MIT
#pragma once

#include "driver/run/reduce_args.h"
#include "reference/kthvalue.h"

namespace polymio::driver {

struct KthvalueArgs {
  explicit KthvalueArgs(DataType of_x) : type(of_x) {}

  DataType type;
  std::string lengths = "256x4x2";
  std::int64_t k = 1, dim = -1, keep_dim = 0, contiguous = 1;
  std::vector<std::int64_t> in_strides, out_strides, indices_strides;

  Flags rows() {
    return {
        {"D", "dim-lengths", Text{&lengths, "N[,..]"}, "sizes of the input, separated by commas or x", Part::kShape},
        {"k", "k", Integer{&k, 1, kMaxInt}, "which of the smallest, from 1", Part::kShape},
        {"d", "dim", Integer{&dim, -8, 7}, "dimension; negative: from the end", Part::kShape},
        {"K", "keep-dim", Integer{&keep_dim, 0, 1}, "1: the outputs have the dimension, with size 1", Part::kOption},
        {"c", "is-contiguous", Integer{&contiguous, 0, 1}, "0: as if the first and last dimension were swapped",
         Part::kOption},
        {"", "in_strides", Integers{&in_strides}, "element strides of the input", Part::kOption},
        {"", "out_strides", Integers{&out_strides}, "of the values, a number for each size of the input",
         Part::kOption},
        {"", "indices_strides", Integers{&indices_strides}, "the same of the indices", Part::kOption}};
  }

  // Throws ArgError.
  reference::Kthvalue problem() const {
    reference::Kthvalue p;
    std::vector<std::int64_t> lens = ReduceArgs::numbers("dim-lengths", lengths, 1);
    const auto rank = static_cast<std::int64_t>(lens.size());
    p.dim = dim < 0 ? dim + rank : dim;
    if (p.dim < 0 || p.dim >= rank)
      throw ArgError(fmt::format("-d: bad value '{}', allowed: {} to {}", dim, -rank, rank - 1));
    std::vector<std::int64_t> strides = ReduceArgs::strides("in_strides", in_strides, lens.size());
    if (contiguous == 0 && strides.empty()) {
      std::swap(lens.front(), lens.back());
      strides = reference::packed_strides(lens);
      std::swap(lens.front(), lens.back());
      std::swap(strides.front(), strides.back());
    }
    p.x = {static_cast<reference::Type>(type), lens, strides};
    std::int64_t& size = lens[static_cast<std::size_t>(p.dim)];
    if (k > size) throw ArgError(fmt::format("-k: bad value '{}', allowed: 1 to {}", k, size));
    size = 1;
    p.y = {p.x.type, lens, ReduceArgs::strides("out_strides", out_strides, lens.size())};
    p.k = k;
    return p;
  }
  reference::Tensor indices(const reference::Kthvalue& p) const {
    return {reference::Type::kInt64, p.y.lens,
            ReduceArgs::strides("indices_strides", indices_strides, p.y.lens.size())};
  }
};

}  // namespace polymio::driver
