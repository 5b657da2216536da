// NCHW depthwise convolution of int8 and 16-bit types, and NHWC groups. Few planes at a time are widened or
// transposed to fp32 NCHW copies in scratch, computed by the fp32 NCHW kernel, and narrowed or transposed back. Sums of
// int8 products are exact below 2^24.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/depthwise_paths.h"
#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/transpose.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

constexpr i64 kWidenedBytes = 96 << 10;    // widened planes per call
constexpr i64 kTransposedBytes = 1 << 20;  // transposed planes per call: more channels revisit fewer pages

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

/// Calls line(offset in the tensor, offset in the copy, count) for the lines of a plane, or once if they are
/// contiguous.
template <class Line>
void for_lines(const i64 (&size)[kSpatial], const i64 (&strides)[kSpatial], const Line& line) {
  const bool rows = size[1] == 1 || strides[1] == size[2] * strides[2];
  const bool slabs = size[0] == 1 || strides[0] == size[1] * size[2] * strides[2];
  if (rows && slabs) return line(0, 0, volume(size));
  for (i64 i0 = 0, copy_offset = 0; i0 < size[0]; ++i0) {
    for (i64 i1 = 0; i1 < size[1]; ++i1, copy_offset += size[2])
      line(i0 * strides[0] + i1 * strides[1], copy_offset, size[2]);
  }
}

/// Prefetches the channels of the vector of pixels two vectors further: hardware does not prefetch on other pages.
template <class S, int kWrite>
void prefetch(const S* line, i64 step, i64 pixel, i64 count, i64 channels) {
  constexpr i64 kLine = 64 / sizeof(S), kVector = kLanes<float>;
  const i64 end = min_of(pixel + 3 * kVector, count);
  for (i64 i = pixel + 2 * kVector; i < end; ++i) {
    for (i64 c = 0; c < channels; c += kLine) __builtin_prefetch(line + i * step + c, kWrite, 3);
  }
}

/// Planes of a tensor and their fp32 copies, which have room for one more vector: the transpose stores whole vectors.
struct Stack {
  const i64 (&size)[kSpatial];
  const i64 (&strides)[kSpatial];
  i64 plane, copy_plane;  // elements between planes
  bool packed;            // planes are contiguous in both
  bool transposed;        // NHWC tensor: the transpose may store whole vectors
};

template <class S>
void read_planes(const Stack& s, const S* from, i64 planes, float* to) {
  const i64 step = s.strides[2];
  if (s.packed) return widen_line(from, 1, planes * s.plane, to);
  for_lines(s.size, s.strides, [&](i64 offset, i64 copy_offset, i64 count) {
    if (!s.transposed) {
      for (i64 p = 0; p < planes; ++p)
        widen_line(from + offset + p * s.plane, step, count, to + copy_offset + p * s.copy_plane);
      return;
    }
    for (i64 i = 0; i < count; i += kLanes<float>) {
      const int lanes = static_cast<int>(min_of<i64>(kLanes<float>, count - i));
      prefetch<S, 0>(from + offset, step, i, count, planes);
      transpose_in(from + offset + i * step, step, lanes, planes, to + copy_offset + i, s.copy_plane);
    }
  });
}

template <class S>
void write_planes(const Stack& s, const float* from, i64 planes, S* to, Scaling scaling) {
  const i64 step = s.strides[2];
  if (s.packed) return narrow_line(from, planes * s.plane, to, 1, scaling.alpha, scaling.beta);
  for_lines(s.size, s.strides, [&](i64 offset, i64 copy_offset, i64 count) {
    if (!s.transposed) {
      for (i64 p = 0; p < planes; ++p) {
        narrow_line(from + copy_offset + p * s.copy_plane, count, to + offset + p * s.plane, step, scaling.alpha,
                    scaling.beta);
      }
      return;
    }
    for (i64 i = 0; i < count; i += kLanes<float>) {
      const int lanes = static_cast<int>(min_of<i64>(kLanes<float>, count - i));
      prefetch<S, 1>(to + offset, step, i, count, planes);
      transpose_out(from + copy_offset + i, s.copy_plane, to + offset + i * step, step, lanes, planes, scaling);
    }
  });
}

/// Rounds a plane of floats up to an odd number of cache lines, with room for one more vector.
i64 pad_to_odd_lines(i64 floats) {
  constexpr i64 kLine = 16;
  return ((floats + kLanes<float> + kLine - 1) / kLine | 1) * kLine;
}

template <class S>
class Fp32Copy {
 public:
  Fp32Copy(const Depthwise& job, void* scratch)
      : job_(job),
        s_(job.shape),
        fp32_job_(job),
        groups_per_piece_(job.groups_per_piece()),
        pieces_per_image_((s_.groups + groups_per_piece_ - 1) / groups_per_piece_),
        backward_weights_(job.direction == ConvDirection::kBackwardWeights) {
    ConvShape& s = fp32_job_.shape;
    fp32_job_.channels_last = false;
    s.dtype = DataType::kFloat;
    set_packed_strides(s, false);
    if (job.copies_nhwc_to_fp32()) {
      s.x_c = pad_to_odd_lines(volume(s_.in));
      s.y_k = pad_to_odd_lines(volume(s_.out));
      s.w_c = pad_to_odd_lines(volume(s_.taps));
      s.w_k = s_.c * s.w_c;
    }
    const i64 bytes_per_group = (s_.c * s.x_c + s_.k * (s.y_k + s.w_k)) * static_cast<i64>(sizeof(float));
    const i64 max_bytes = job.copies_nhwc_to_fp32() ? kTransposedBytes : kWidenedBytes;
    groups_at_once_ =
        max_of<i64>(min_of(max_bytes / bytes_per_group, s_.groups) / groups_per_piece_, 1) * groups_per_piece_;
    images_at_once_ = backward_weights_ && job.copies_nhwc_to_fp32()
                          ? max_of<i64>(min_of(max_bytes / (bytes_per_group * groups_at_once_), s_.n), 1)
                          : 1;
    s.x_n = groups_at_once_ * s_.c * s.x_c;
    s.y_n = groups_at_once_ * s_.k * s.y_k;
    s.n = images_at_once_;
    s.groups = groups_at_once_;
    fp32_job_.path = nchw_path(fp32_job_, kLanes<float>);
    fp32_job_.copy_path = DepthwisePath::kNhwc;
    fp32_job_.alpha = job.epilogue == nullptr ? 1 : job.alpha;
    fp32_job_.beta = 0;
    float* next = static_cast<float*>(scratch);
    const auto reserve = [&](i64 count) {
      float* const p = next;
      next += (count + 15) / 16 * 16;
      return p;
    };
    x_ = reserve(images_at_once_ * s.x_n + kLanes<float>);
    y_ = reserve(images_at_once_ * s.y_n + kLanes<float>);
    w_ = reserve(groups_at_once_ * s_.k * s.w_k + kLanes<float>);
    bytes_ = static_cast<std::size_t>(next - static_cast<float*>(scratch)) * sizeof(float);
    fp32_job_.x = x_;
    fp32_job_.y = y_;
    fp32_job_.w = w_;
    float* const results[] = {y_, x_, w_};
    fp32_job_.result = results[static_cast<int>(job.direction)];
    scratch_tail_ = next;
  }

  std::size_t bytes() const { return bytes_ + entry_points<DepthwiseKernels>().scratch(fp32_job_); }

  void run(i64 first, i64 end) {
    for (i64 piece = first; piece < end;) {
      const i64 piece_of_image = piece % pieces_per_image_,
                pieces = min_of(min_of(groups_at_once_ / groups_per_piece_, end - piece),
                                pieces_per_image_ - piece_of_image);
      const i64 g = piece_of_image * groups_per_piece_, groups = min_of(pieces * groups_per_piece_, s_.groups - g);
      if constexpr (sizeof(S) > 1) {
        if (backward_weights_) weights(g, groups);
      }
      if (!backward_weights_) planes(piece / pieces_per_image_, g, groups);
      piece += pieces;
    }
  }

 private:
  Stack x_stack() const { return stack(s_.in, s_.x_d, s_.x_c, fp32_job_.shape.x_c); }
  Stack y_stack() const { return stack(s_.out, s_.y_d, s_.y_k, fp32_job_.shape.y_k); }
  /// All filters of the groups if they are evenly spaced, else one filter.
  Stack w_stack() const { return stack(s_.taps, s_.w_d, s_.c == 1 ? s_.w_k : s_.w_c, fp32_job_.shape.w_c); }
  bool has_evenly_spaced_filters() const { return s_.c == 1 || s_.w_k == s_.c * s_.w_c; }

  static Stack stack(const i64 (&size)[kSpatial], const i64 (&strides)[kSpatial], i64 plane, i64 copy_plane) {
    const i64 pixels = volume(size);
    const bool rows = strides[2] == 1 && (size[1] == 1 || strides[1] == size[2]);
    const bool whole = rows && (size[0] == 1 || strides[0] == size[1] * size[2]);
    const bool transposed = plane == 1 && copy_plane >= pixels + kLanes<float>;
    return {size, strides, plane, copy_plane, whole && plane == pixels && copy_plane == pixels, transposed};
  }

  void read_x(i64 n, i64 g, i64 groups, i64 image) const {
    read_planes(x_stack(), static_cast<const S*>(job_.x) + n * s_.x_n + g * s_.c * s_.x_c, groups * s_.c,
                x_ + image * fp32_job_.shape.x_n);
  }
  void read_y(i64 n, i64 g, i64 groups, i64 image) const {
    read_planes(y_stack(), static_cast<const S*>(job_.y) + n * s_.y_n + g * s_.k * s_.y_k, groups * s_.k,
                y_ + image * fp32_job_.shape.y_n);
  }
  void read_w(i64 g, i64 groups) const {
    const S* from = static_cast<const S*>(job_.w) + g * s_.k * s_.w_k;
    const i64 filters = groups * s_.k;
    if (has_evenly_spaced_filters()) return read_planes(w_stack(), from, filters * s_.c, w_);
    for (i64 k = 0; k < filters; ++k) read_planes(w_stack(), from + k * s_.w_k, s_.c, w_ + k * fp32_job_.shape.w_k);
  }
  void write_w(i64 g, i64 groups, Scaling scaling) const {
    S* to = static_cast<S*>(job_.result) + g * s_.k * s_.w_k;
    const i64 filters = groups * s_.k;
    if (has_evenly_spaced_filters()) return write_planes(w_stack(), w_, filters * s_.c, to, scaling);
    for (i64 k = 0; k < filters; ++k) {
      write_planes(w_stack(), w_ + k * fp32_job_.shape.w_k, s_.c, to + k * s_.w_k, scaling);
    }
  }
  Scaling scaling() const {
    return {job_.epilogue == nullptr ? static_cast<float>(job_.alpha) : 1.f, static_cast<float>(job_.beta)};
  }

  void planes(i64 n, i64 g, i64 groups) {
    read_w(g, groups);
    if (job_.direction == ConvDirection::kForward) {
      read_x(n, g, groups, 0);
      fp32_job_.epilogue_channel = job_.epilogue_channel + g * s_.k;
      entry_points<DepthwiseKernels>().run(fp32_job_, 0, groups, scratch_tail_);
      write_y(n * s_.y_n + g * s_.k * s_.y_k, groups * s_.k);
    } else if constexpr (sizeof(S) > 1) {
      read_y(n, g, groups, 0);
      entry_points<DepthwiseKernels>().run(fp32_job_, 0, groups, scratch_tail_);
      write_planes(x_stack(), x_, groups * s_.c, static_cast<S*>(job_.result) + n * s_.x_n + g * s_.c * s_.x_c,
                   scaling());
    }
  }

  void write_y(i64 offset, i64 planes) const {
    const auto write = [&](auto* y) { write_planes(y_stack(), y_, planes, y + offset, scaling()); };
    if constexpr (sizeof(S) > 1) {
      write(static_cast<S*>(job_.result));
    } else {
      with_integers(job_.result_type, job_.result, write);
    }
  }

  void weights(i64 g, i64 groups) {
    for (i64 n = 0; n < s_.n; n += images_at_once_) {
      fp32_job_.shape.n = min_of(images_at_once_, s_.n - n);
      for (i64 i = 0; i < fp32_job_.shape.n; ++i) {
        read_x(n + i, g, groups, i);
        read_y(n + i, g, groups, i);
      }
      fp32_job_.beta = n == 0 ? 0 : 1;
      entry_points<DepthwiseKernels>().run(fp32_job_, 0, groups, scratch_tail_);
    }
    write_w(g, groups, scaling());
  }

  const Depthwise& job_;
  const ConvShape& s_;
  Depthwise fp32_job_;  // on the copies
  i64 groups_per_piece_, pieces_per_image_;
  i64 groups_at_once_, images_at_once_;  // per call of the fp32 kernel
  bool backward_weights_;
  float *x_, *y_, *w_;
  void* scratch_tail_;
  std::size_t bytes_;
};

}  // namespace

void depthwise_via_fp32(const Depthwise& job, i64 first, i64 end, void* scratch) {
  if (job.shape.dtype == DataType::kInt8) return Fp32Copy<std::int8_t>(job, scratch).run(first, end);
  with_storage<float>(job.shape.dtype, [&]<class S>(S*) { Fp32Copy<S>(job, scratch).run(first, end); });
}

std::size_t depthwise_via_fp32_scratch(const Depthwise& job) {
  if (job.shape.dtype == DataType::kInt8) return Fp32Copy<std::int8_t>(job, nullptr).bytes();
  return with_storage<float>(job.shape.dtype, [&]<class S>(S*) { return Fp32Copy<S>(job, nullptr).bytes(); });
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
