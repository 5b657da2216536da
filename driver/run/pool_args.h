// The flags of poolings.
// SPDX-License-Identifier: MIT
#pragma once

#include "driver/run/tensor_args.h"
#include "reference/pooling.h"

namespace polymio::driver {

inline constexpr DataType kPoolTypes[] = {kFloat, kHalf, kBFloat16, kDouble, kInt8};
inline constexpr Choice kPoolModes[] = {{"max", 0}, {"avg", 1}, {"avg_in", 2}};
inline constexpr Choice kIndexTypes[] = {{"none", -1},
                                         {"miopenIndexUint8", 0},
                                         {"miopenIndexUint16", 1},
                                         {"miopenIndexUint32", 2},
                                         {"miopenIndexUint64", 3}};

struct PoolArgs {
  std::int64_t window[3] = {3, 3, 3}, pad[3] = {}, stride[3] = {1, 1, 1}, out[3] = {};
  int mode = 0, index_type = 0;
  std::int64_t position = 0;

  Flags rows() {
    constexpr auto kShape = Part::kShape;
    constexpr auto kOption = Part::kOption;
    return {
        {"Z", "win_d", Integer{&window[0], 1, kMaxInt}, "window depth", kShape, 0},
        {"y", "win_h", Integer{&window[1], 1, kMaxInt}, "window height", kShape, 1},
        {"x", "win_w", Integer{&window[2], 1, kMaxInt}, "window width", kShape, 2},
        {"o", "pad_d", Integer{&pad[0], 0, kMaxInt}, "padding, depth", kShape, 0},
        {"p", "pad_h", Integer{&pad[1], 0, kMaxInt}, "padding, height", kShape, 1},
        {"q", "pad_w", Integer{&pad[2], 0, kMaxInt}, "padding, width", kShape, 2},
        {"", "pool_stride_d", Integer{&stride[0], 1, kMaxInt}, "stride, depth", kShape, 0},
        {"v", "pool_stride_h", Integer{&stride[1], 1, kMaxInt}, "stride, height", kShape, 1},
        {"u", "pool_stride_w", Integer{&stride[2], 1, kMaxInt}, "stride, width", kShape, 2},
        {"", "out_d", Integer{&out[0], 0, kMaxInt}, "depth of y; 0: (in + 2 * pad - window) / stride + 1", kOption, 0},
        {"", "out_h", Integer{&out[1], 0, kMaxInt}, "height of y", kOption, 1},
        {"", "out_w", Integer{&out[2], 0, kMaxInt}, "width of y", kOption, 2},
        {"m", "mode", Name{&mode, kPoolModes}, "avg: of the elements inside the image; avg_in: padding counts", kShape},
        {"", "index_type", Name{&index_type, kIndexTypes},
         "of the maxima that forward keeps for backward; none: backward finds them in x", kOption},
        {"M", "index_position", Integer{&position, 0, 1}, "an index is a position in the window (0) or the image (1)",
         kOption},
    };
  }

  // The pooling of all tensors, without scalars.
  reference::Pooling problem(const TensorArgs& in) const {
    const auto last = [&](const std::int64_t(&all)[3]) { return last_axes(in.spatial_dim, all[0], all[1], all[2]); };
    reference::Pooling p;
    p.mode = static_cast<reference::PoolingMode>(mode);
    p.window = last(window);
    p.pad = last(pad);
    p.stride = last(stride);
    const auto type = static_cast<reference::Type>(in.type);
    p.x = {type, in.lens(), in.x_strides()};
    p.dx = {type, in.lens(), in.dx_strides()};
    auto sizes = in.lens();
    const auto given = last(out);
    for (std::size_t d = 0; d < given.size(); ++d) sizes[d + 2] = given[d] > 0 ? given[d] : p.outputs(d, sizes[d + 2]);
    p.y = {type, sizes, tensor_strides(sizes, in.out_layout, in.out_strides)};
    p.dy = {type, sizes, in.dout_strides.empty() ? p.y.strides : in.dout_strides};
    return p;
  }

  // Whether forward writes indices and backward reads them.
  bool has_indices() const { return mode == 0 && index_type >= 0; }
};

}  // namespace polymio::driver
