// Depthwise convolution of int8 and of 16-bit types with channels first, and groups with channels last: a few planes at
// a time are widened or transposed into scratch, and what the float kernels make of them is turned back. Sums of int8
// products are exact while they are below 2^24.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/depthwise_nchw.h"
#include "kernels/cpu/isa/transpose.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

constexpr i64 kGroupBytes = 96 << 10;  // of widened planes
constexpr i64 kTransposedPlaneBytes =
    1 << 20;  // of transposed ones: the more channels, the fewer pages are visited again

i64 volume(const i64 (&size)[kSpatial]) { return size[0] * size[1] * size[2]; }

template <class S>
void widen_line(const S* from, i64 step, i64 count, float* to) {
  constexpr int kN = kLanes<float>;
  i64 i = 0;
  for (; step == 1 && i + kN <= count; i += kN) store(to + i, load_widened(from + i));
  for (; i < count; ++i) to[i] = widen(from[i * step]);
}

template <class R>
void narrow_line(const float* from, i64 count, Integer<R>* to, i64 step, float alpha, float beta) {
  constexpr i64 kN = kLanes<float>;
  if (step != 1) {
    for (i64 i = 0; i < count; ++i) write_scaled(to + i * step, Floats{from[i]}, 1, {alpha, beta});
    return;
  }
  for (i64 i = 0; i < count; i += kN) {
    write_scaled(to + i, load(from + i), static_cast<int>(min_of(kN, count - i)), {alpha, beta});
  }
}

template <class S>
void narrow_line(const float* from, i64 count, S* to, i64 step, float alpha, float beta) {
  constexpr int kN = kLanes<float>;
  i64 i = 0;
  for (; step == 1 && i + kN <= count; i += kN) {
    Vec<float> v = alpha * load(from + i);
    if (beta != 0) v += beta * load_widened(to + i);
    store_narrowed(to + i, v);
  }
  for (; i < count; ++i) {
    const float v = alpha * from[i];
    to[i * step] = narrow<S>(beta != 0 ? v + beta * widen(to[i * step]) : v);
  }
}

/// Calls line(source element, copy's element, count) for the lines of a plane, or once if they lie one behind the
/// other.
template <class Line>
void for_lines(const i64 (&size)[kSpatial], const i64 (&strides)[kSpatial], const Line& line) {
  const bool rows = size[1] == 1 || strides[1] == size[2] * strides[2];
  const bool slabs = size[0] == 1 || strides[0] == size[1] * size[2] * strides[2];
  if (rows && slabs) return line(0, 0, volume(size));
  for (i64 i0 = 0, at = 0; i0 < size[0]; ++i0) {
    for (i64 i1 = 0; i1 < size[1]; ++i1, at += size[2]) line(i0 * strides[0] + i1 * strides[1], at, size[2]);
  }
}

/// Fetches the channels of pixels that come after a vector more: the hardware does not foresee lines on other pages.
template <class S, int kWrite>
void prefetch(const S* line, i64 step, i64 at, i64 count, i64 channels) {
  constexpr i64 kLine = 64 / sizeof(S), kVector = kLanes<float>;
  const i64 end = min_of(at + 3 * kVector, count);
  for (i64 i = at + 2 * kVector; i < end; ++i) {
    for (i64 c = 0; c < channels; c += kLine) __builtin_prefetch(line + i * step + c, kWrite, 3);
  }
}

/// Planes of a tensor and their copies. Transposing writes whole vectors: copies have room for one behind them.
struct Stack {
  const i64 (&size)[kSpatial];
  const i64 (&strides)[kSpatial];
  i64 plane, copy_plane;
  bool packed;      // both lie one plane behind the other
  bool transposed;  // planes are innermost, and copies have room for whole vectors
};

template <class S>
void read_planes(const Stack& s, const S* from, i64 planes, float* to) {
  const i64 step = s.strides[2];
  if (s.packed) return widen_line(from, 1, planes * s.plane, to);
  for_lines(s.size, s.strides, [&](i64 a, i64 b, i64 count) {
    if (!s.transposed) {
      for (i64 p = 0; p < planes; ++p) widen_line(from + a + p * s.plane, step, count, to + b + p * s.copy_plane);
      return;
    }
    for (i64 i = 0; i < count; i += kLanes<float>) {
      const int some = static_cast<int>(min_of<i64>(kLanes<float>, count - i));
      prefetch<S, 0>(from + a, step, i, count, planes);
      transpose_in(from + a + i * step, step, some, planes, to + b + i, s.copy_plane);
    }
  });
}

template <class S>
void write_planes(const Stack& s, const float* from, i64 planes, S* to, Scaling scaling) {
  const i64 step = s.strides[2];
  if (s.packed) return narrow_line(from, planes * s.plane, to, 1, scaling.alpha, scaling.beta);
  for_lines(s.size, s.strides, [&](i64 a, i64 b, i64 count) {
    if (!s.transposed) {
      for (i64 p = 0; p < planes; ++p) {
        narrow_line(from + b + p * s.copy_plane, count, to + a + p * s.plane, step, scaling.alpha, scaling.beta);
      }
      return;
    }
    for (i64 i = 0; i < count; i += kLanes<float>) {
      const int some = static_cast<int>(min_of<i64>(kLanes<float>, count - i));
      prefetch<S, 1>(to + a, step, i, count, planes);
      transpose_out(from + b + i, s.copy_plane, to + a + i * step, step, some, planes, scaling);
    }
  });
}

/// An odd number of lines of the cache, with a vector to spare.
i64 transform_input(i64 floats) {
  constexpr i64 kLine = 16;
  return ((floats + kLanes<float> + kLine - 1) / kLine | 1) * kLine;
}

template <class S>
class Copied {
 public:
  Copied(const Depthwise& job, void* scratch)
      : job_(job),
        s_(job.shape),
        inner_(job),
        unit_(job.together()),
        units_((s_.groups + unit_ - 1) / unit_),
        weights_(job.direction == ConvDirection::kBackwardWeights) {
    ConvShape& s = inner_.shape;
    inner_.channels_last = false;
    s.dtype = DataType::kFloat;
    set_packed_strides(s, false);
    if (job.mixed()) {
      s.x_c = transform_input(volume(s_.in));
      s.y_k = transform_input(volume(s_.out));
      s.w_c = transform_input(volume(s_.taps));
      s.w_k = s_.c * s.w_c;
    }
    const i64 each = (s_.c * s.x_c + s_.k * (s.y_k + s.w_k)) * static_cast<i64>(sizeof(float));
    const i64 most = job.mixed() ? kTransposedPlaneBytes : kGroupBytes;
    group_ = max_of<i64>(min_of(most / each, s_.groups) / unit_, 1) * unit_;
    images_ = weights_ && job.mixed() ? max_of<i64>(min_of(most / (each * group_), s_.n), 1) : 1;
    s.x_n = group_ * s_.c * s.x_c;
    s.y_n = group_ * s_.k * s.y_k;
    s.n = images_;
    s.groups = group_;
    inner_.alpha = 1;
    inner_.beta = 0;
    float* next = static_cast<float*>(scratch);
    const auto take = [&](i64 count) {
      float* const p = next;
      next += (count + 15) / 16 * 16;
      return p;
    };
    x_ = take(images_ * s.x_n + kLanes<float>);
    y_ = take(images_ * s.y_n + kLanes<float>);
    w_ = take(group_ * s_.k * s.w_k + kLanes<float>);
    bytes_ = static_cast<std::size_t>(next - static_cast<float*>(scratch)) * sizeof(float);
    inner_.x = x_;
    inner_.y = y_;
    inner_.w = w_;
    float* const results[] = {y_, x_, w_};
    inner_.result = results[static_cast<int>(job.direction)];
    behind_ = next;
  }

  std::size_t bytes() const { return bytes_ + depthwise_rows_scratch(inner_); }

  void run(i64 first, i64 end) {
    for (i64 piece = first; piece < end;) {
      const i64 unit = piece % units_, pieces = min_of(min_of(group_ / unit_, end - piece), units_ - unit);
      const i64 g = unit * unit_, some = min_of(pieces * unit_, s_.groups - g);
      if constexpr (sizeof(S) > 1) {
        if (weights_) weights(g, some);
      }
      if (!weights_) planes(piece / units_, g, some);
      piece += pieces;
    }
  }

 private:
  Stack x_stack() const { return stack(s_.in, s_.x_d, s_.x_c, inner_.shape.x_c); }
  Stack y_stack() const { return stack(s_.out, s_.y_d, s_.y_k, inner_.shape.y_k); }
  /// Of all filters of a group if they are evenly spaced, else of each.
  Stack w_stack() const { return stack(s_.taps, s_.w_d, s_.c == 1 ? s_.w_k : s_.w_c, inner_.shape.w_c); }
  bool even_filters() const { return s_.c == 1 || s_.w_k == s_.c * s_.w_c; }

  static Stack stack(const i64 (&size)[kSpatial], const i64 (&strides)[kSpatial], i64 plane, i64 copy_plane) {
    const i64 each = volume(size);
    const bool rows = strides[2] == 1 && (size[1] == 1 || strides[1] == size[2]);
    const bool whole = rows && (size[0] == 1 || strides[0] == size[1] * size[2]);
    const bool transposed = plane == 1 && copy_plane >= each + kLanes<float>;
    return {size, strides, plane, copy_plane, whole && plane == each && copy_plane == each, transposed};
  }

  void read_x(i64 n, i64 g, i64 some, i64 image) const {
    read_planes(x_stack(), static_cast<const S*>(job_.x) + n * s_.x_n + g * s_.c * s_.x_c, some * s_.c,
                x_ + image * inner_.shape.x_n);
  }
  void read_y(i64 n, i64 g, i64 some, i64 image) const {
    read_planes(y_stack(), static_cast<const S*>(job_.y) + n * s_.y_n + g * s_.k * s_.y_k, some * s_.k,
                y_ + image * inner_.shape.y_n);
  }
  void read_w(i64 g, i64 some) const {
    const S* from = static_cast<const S*>(job_.w) + g * s_.k * s_.w_k;
    const i64 filters = some * s_.k;
    if (even_filters()) return read_planes(w_stack(), from, filters * s_.c, w_);
    for (i64 k = 0; k < filters; ++k) read_planes(w_stack(), from + k * s_.w_k, s_.c, w_ + k * inner_.shape.w_k);
  }
  void write_w(i64 g, i64 some, Scaling scaling) const {
    S* to = static_cast<S*>(job_.result) + g * s_.k * s_.w_k;
    const i64 filters = some * s_.k;
    if (even_filters()) return write_planes(w_stack(), w_, filters * s_.c, to, scaling);
    for (i64 k = 0; k < filters; ++k) {
      write_planes(w_stack(), w_ + k * inner_.shape.w_k, s_.c, to + k * s_.w_k, scaling);
    }
  }
  Scaling scaling() const { return {static_cast<float>(job_.alpha), static_cast<float>(job_.beta)}; }

  void planes(i64 n, i64 g, i64 some) {
    read_w(g, some);
    if (job_.direction == ConvDirection::kForward) {
      read_x(n, g, some, 0);
      depthwise_rows(inner_, 0, some, behind_);
      write_y(n * s_.y_n + g * s_.k * s_.y_k, some * s_.k);
    } else if constexpr (sizeof(S) > 1) {
      read_y(n, g, some, 0);
      depthwise_rows(inner_, 0, some, behind_);
      write_planes(x_stack(), x_, some * s_.c, static_cast<S*>(job_.result) + n * s_.x_n + g * s_.c * s_.x_c,
                   scaling());
    }
  }

  void write_y(i64 at, i64 planes) const {
    const auto write = [&](auto* y) { write_planes(y_stack(), y_, planes, y + at, scaling()); };
    if constexpr (sizeof(S) > 1) {
      write(static_cast<S*>(job_.result));
    } else {
      with_integers(job_.result_type, job_.result, write);
    }
  }

  void weights(i64 g, i64 some) {
    for (i64 n = 0; n < s_.n; n += images_) {
      inner_.shape.n = min_of(images_, s_.n - n);
      for (i64 i = 0; i < inner_.shape.n; ++i) {
        read_x(n + i, g, some, i);
        read_y(n + i, g, some, i);
      }
      inner_.beta = n == 0 ? 0 : 1;
      depthwise_rows(inner_, 0, some, behind_);
    }
    write_w(g, some, scaling());
  }

  const Depthwise& job_;
  const ConvShape& s_;
  Depthwise inner_;                    // of the float copies
  i64 unit_, units_, group_, images_;  // groups of a piece; pieces of an image; groups and images copied at once
  bool weights_;
  float *x_, *y_, *w_;
  void* behind_;
  std::size_t bytes_;
};

/// Calls `use` with a value of the storage type.
template <class Use>
auto with_storage(DataType type, const Use& use) {
  switch (type) {
    case DataType::kHalf: return use(Half{});
    case DataType::kBFloat16: return use(Bfloat16{});
    case DataType::kInt8: return use(std::int8_t{});
    default: return use(float{});
  }
}

}  // namespace

void depthwise_copied(const Depthwise& job, i64 first, i64 end, void* scratch) {
  with_storage(job.shape.dtype, [&](auto value) { Copied<decltype(value)>(job, scratch).run(first, end); });
}

std::size_t depthwise_copied_scratch(const Depthwise& job) {
  return with_storage(job.shape.dtype, [&](auto value) { return Copied<decltype(value)>(job, nullptr).bytes(); });
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
