// SPDX-License-Identifier: MIT
#include "primitives/convolution/gpu/patches.h"

#include "base/math.h"

namespace polymio::convolution::gpu {
namespace {

constexpr std::int64_t kThreads = 256, kPlanes = 4;  // of a block, as in patches.cl

bool channels_first(const Problem& p) { return p.x.is_channels_first() && p.w.is_channels_first(); }

/// One image. A single filter position has the whole image as its step.
kernels::PatchShape patch_shape(const Problem& p, std::int64_t pitch = 0) {
  const auto z = sizes_of(p);
  const auto t = steps_of(p);
  const bool first = channels_first(p);
  const auto step = [&](int axis) { return narrow(z.out[axis] == 1 ? z.in[axis] : t.stride[axis]); };
  const int channels = narrow(z.c), row_channels = first ? 1 : channels;
  kernels::PatchShape s{};
  s.channels = first ? channels : 1;
  s.in_d = narrow(z.in[0]);
  s.in_h = narrow(z.in[1]);
  s.row = narrow(z.in[2]) * row_channels;
  s.filter_d = narrow(z.filter[0]);
  s.filter_h = narrow(z.filter[1]);
  s.run = narrow(z.filter[2]) * row_channels;
  s.step_d = step(0);
  s.step_h = step(1);
  s.step = step(2) * row_channels;
  s.out_d = narrow(z.out[0]);
  s.out_h = narrow(z.out[1]);
  s.out_w = narrow(z.out[2]);
  s.pitch = narrow(pitch > 0 ? pitch : std::int64_t{s.channels} * s.filter_d * s.filter_h * s.run);
  return s;
}

/// The most elements of 16 or of 4 bytes that divide rows, steps and runs.
int unit_of(const kernels::PatchShape& s, DataType type) {
  const int size = static_cast<int>(size_of(type));
  for (const int bytes : {16, 4}) {
    const int unit = bytes / size;
    if (s.row % unit == 0 && s.step % unit == 0 && s.run % unit == 0 && s.pitch % unit == 0) return unit;
  }
  return 1;
}

}  // namespace

bool has_patches(const Problem& p) {
  constexpr std::int64_t kMostPlanes = 1 << 30, kMostElements = std::int64_t{1} << 31;  // of a plane
  const bool last = p.x.is_channels_last() && p.w.is_channels_last() && p.groups() == 1;
  const std::int64_t planes = p.n() * (last ? 1 : p.c()) * (p.spatial() > 2 ? p.in(0) : 1);
  if (planes > kMostPlanes || p.x.count() / planes >= kMostElements) return false;
  std::int64_t taps = 1;
  for (int i = 0; i < p.spatial(); ++i) {
    const auto axis = static_cast<std::size_t>(i);
    const std::int64_t filter = p.filter(i), extent = (filter - 1) * p.geometry.dilation[axis] + 1;
    if (p.geometry.pad[axis] != 0 || extent != filter) return false;
    if (p.out(i) != 1 && p.geometry.stride[axis] < filter) return false;
    if ((p.out(i) - 1) * p.geometry.stride[axis] + filter > p.in(i)) return false;  // taps outside of the image
    taps *= filter;
  }
  return taps > 1 && (channels_first(p) || last);
}

bool has_patches_in_place(const Problem& p) {
  if (!has_patches(p)) return false;
  const kernels::PatchShape s = patch_shape(p);
  const bool all_read = s.step_d == s.filter_d && s.in_d == s.out_d * s.step_d && s.step_h == s.filter_h &&
                        s.in_h == s.out_h * s.step_h && s.step == s.run && s.row == s.out_w * s.run;
  // Pixels are outside of taps, and of channels in NCHW.
  const int pixels_of_row = s.out_w, pixels_of_plane = s.out_h * pixels_of_row;
  return all_read && (s.filter_h == 1 || pixels_of_row == 1) && (s.filter_d == 1 || pixels_of_plane == 1) &&
         (s.channels == 1 || s.out_d * pixels_of_plane == 1);
}

Patches::Patches(const Problem& p, std::int64_t pitch)
    : shape_(patch_shape(p, pitch)), unit_(unit_of(shape_, p.x.type)) {}

kernels::PatchShape Patches::shape_of(const Call& c) const {
  kernels::PatchShape s = shape_;
  s.x_at = c.x_at;
  s.planes = narrow(c.images * s.channels * s.in_d);
  s.row /= c.unit;
  s.run /= c.unit;
  s.step /= c.unit;
  s.pitch /= c.unit;
  return s;
}

Launch Patches::launch_of(const kernels::PatchShape& s) {
  return launch_shape(kThreads,
                      ceil_div(std::int64_t{s.in_h} * s.row, kThreads) * ceil_div(std::int64_t{s.planes}, kPlanes));
}

void Patches::gather(Stream& stream, const Kernel& kernel, const Call& c) const {
  const kernels::PatchShape s = shape_of(c);
  launch(stream, kernel, launch_of(s), c.x, c.matrix, c.matrix_at, s);
}

void Patches::scatter(Stream& stream, const Kernel& kernel, const Call& c, float beta) const {
  const kernels::PatchShape s = shape_of(c);
  launch(stream, kernel, launch_of(s), c.matrix, c.x, c.matrix_at, s, beta);
}

}  // namespace polymio::convolution::gpu
