// Depthwise convolution of 16-bit types and int8 with channels first: a few planes at a time are widened into scratch,
// and what the float kernels make of them is narrowed. Sums of int8 products are exact while they are below 2^24.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/depthwise_rows.h"
#include "kernels/cpu/isa/emit.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

constexpr i64 kGroupBytes = 96 << 10;  // of widened planes

i64 volume(const i64 (&size)[kSpatial]) { return size[0] * size[1] * size[2]; }

float widen(std::int8_t v) { return v; }

Vec<float> load_widened(const std::int8_t* p) {
#if defined(__AVX512F__)
  const auto wide = (Vec<std::int32_t>)_mm512_maskz_cvtepi8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#elif defined(__AVX2__)
  const auto wide = (Vec<std::int32_t>)_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
#else
  const auto wide = load<std::int8_t, kLanes<float>>(p);
#endif
  return __builtin_convertvector(wide, Vec<float>);
}

template <class S>
void widen_line(const S* from, i64 step, i64 count, float* to) {
  constexpr int kN = kLanes<float>;
  i64 i = 0;
  for (; step == 1 && i + kN <= count; i += kN) store(to + i, load_widened(from + i));
  for (; i < count; ++i) to[i] = widen(from[i * step]);
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

/// Exact sums of int8 products.
template <class R>
void store_sums(const float* from, i64 count, R* to, double alpha, double beta) {
  constexpr int kN = kLanes<float>;
  const Emit<std::int32_t, R> emit{alpha, beta};
  for (i64 i = 0; i < count; i += kN) {
    const Vec<std::int32_t> sums = __builtin_convertvector(load(from + i), Vec<std::int32_t>);
    emit(to + i, sums, static_cast<int>(min_of<i64>(kN, count - i)));
  }
}

/// Calls line(source element, packed element, count) for the rows of planes that are `plane` elements apart, or once
/// if they lie one behind the other.
template <class Line>
void for_lines(const i64 (&size)[kSpatial], const i64 (&strides)[kSpatial], i64 plane, i64 planes, const Line& line) {
  const i64 each = volume(size);
  const bool rows_packed = strides[2] == 1 && (size[1] == 1 || strides[1] == size[2]);
  const bool packed = rows_packed && (size[0] == 1 || strides[0] == size[1] * size[2]);
  if (packed && (planes == 1 || plane == each)) return line(0, 0, each * planes);
  for (i64 p = 0, at = 0; p < planes; ++p) {
    for (i64 i0 = 0; i0 < size[0]; ++i0) {
      for (i64 i1 = 0; i1 < size[1]; ++i1, at += size[2]) {
        line(p * plane + i0 * strides[0] + i1 * strides[1], at, size[2]);
      }
    }
  }
}

template <class S>
class Widened {
 public:
  Widened(const Depthwise& job, void* scratch) : job_(job), s_(job.shape), inner_(job) {
    x_plane_ = volume(s_.in);
    y_plane_ = volume(s_.out);
    taps_ = volume(s_.taps);
    const i64 each = (s_.c * x_plane_ + s_.k * (y_plane_ + s_.c * taps_)) * static_cast<i64>(sizeof(float));
    group_ = max_of<i64>(min_of(kGroupBytes / each, s_.groups), 1);
    inner_.shape.dtype = DataType::kFloat;
    inner_.shape.n = 1;
    inner_.shape.groups = group_;
    set_packed_strides(inner_.shape, false);
    inner_.alpha = 1;
    inner_.beta = 0;
    float* next = static_cast<float*>(scratch);
    const auto take = [&](i64 count) {
      float* const p = next;
      next += (count + 15) / 16 * 16;
      return p;
    };
    x_ = take(group_ * s_.c * x_plane_ + kLanes<float>);
    y_ = take(group_ * s_.k * y_plane_ + kLanes<float>);
    w_ = take(group_ * s_.k * s_.c * taps_);
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
      const i64 g = piece % s_.groups, some = min_of(min_of(group_, end - piece), s_.groups - g);
      if constexpr (sizeof(S) > 1) {
        if (job_.direction == ConvDirection::kBackwardWeights) weights(g, some);
      }
      if (job_.direction != ConvDirection::kBackwardWeights) planes(piece / s_.groups, g, some);
      piece += some;
    }
  }

 private:
  void read_x(i64 n, i64 g, i64 some) const {
    const S* from = static_cast<const S*>(job_.x) + n * s_.x_n + g * s_.c * s_.x_c;
    for_lines(s_.in, s_.x_d, s_.x_c, some * s_.c,
              [&](i64 a, i64 b, i64 m) { widen_line(from + a, s_.x_d[2], m, x_ + b); });
  }
  void read_y(i64 n, i64 g, i64 some) const {
    const S* from = static_cast<const S*>(job_.y) + n * s_.y_n + g * s_.k * s_.y_k;
    for_lines(s_.out, s_.y_d, s_.y_k, some * s_.k,
              [&](i64 a, i64 b, i64 m) { widen_line(from + a, s_.y_d[2], m, y_ + b); });
  }
  void read_w(i64 g, i64 some) const {
    const S* from = static_cast<const S*>(job_.w) + g * s_.k * s_.w_k;
    for_lines(s_.taps, s_.w_d, s_.c == 1 ? s_.w_k : s_.w_c, some * s_.k * s_.c,
              [&](i64 a, i64 b, i64 m) { widen_line(from + a, s_.w_d[2], m, w_ + b); });
  }

  void planes(i64 n, i64 g, i64 some) {
    read_w(g, some);
    const bool forward = job_.direction == ConvDirection::kForward;
    forward ? read_x(n, g, some) : read_y(n, g, some);
    depthwise_rows(inner_, 0, some, behind_);
    const auto alpha = static_cast<float>(job_.alpha), beta = static_cast<float>(job_.beta);
    if constexpr (sizeof(S) == 1) {
      const i64 start = n * s_.y_n + g * s_.k * s_.y_k;
      for_lines(s_.out, s_.y_d, s_.y_k, some * s_.k, [&](i64 a, i64 b, i64 m) { store_integer(y_ + b, m, start + a); });
    } else if (forward) {
      S* to = static_cast<S*>(job_.result) + n * s_.y_n + g * s_.k * s_.y_k;
      for_lines(s_.out, s_.y_d, s_.y_k, some * s_.k,
                [&](i64 a, i64 b, i64 m) { narrow_line(y_ + b, m, to + a, s_.y_d[2], alpha, beta); });
    } else {
      S* to = static_cast<S*>(job_.result) + n * s_.x_n + g * s_.c * s_.x_c;
      for_lines(s_.in, s_.x_d, s_.x_c, some * s_.c,
                [&](i64 a, i64 b, i64 m) { narrow_line(x_ + b, m, to + a, s_.x_d[2], alpha, beta); });
    }
  }

  void store_integer(const float* sums, i64 count, i64 at) const {
    void* const y = job_.result;
    switch (job_.result_type) {
      case DataType::kInt8:
        return store_sums(sums, count, static_cast<std::int8_t*>(y) + at, job_.alpha, job_.beta);
      case DataType::kInt32:
        return store_sums(sums, count, static_cast<std::int32_t*>(y) + at, job_.alpha, job_.beta);
      default:
        return store_sums(sums, count, static_cast<float*>(y) + at, job_.alpha, job_.beta);
    }
  }

  void weights(i64 g, i64 some) {
    for (i64 n = 0; n < s_.n; ++n) {
      read_x(n, g, some);
      read_y(n, g, some);
      inner_.beta = n == 0 ? 0 : 1;
      depthwise_rows(inner_, 0, some, behind_);
    }
    const auto alpha = static_cast<float>(job_.alpha), beta = static_cast<float>(job_.beta);
    S* to = static_cast<S*>(job_.result) + g * s_.k * s_.w_k;
    for_lines(s_.taps, s_.w_d, s_.c == 1 ? s_.w_k : s_.w_c, some * s_.k * s_.c,
              [&](i64 a, i64 b, i64 m) { narrow_line(w_ + b, m, to + a, s_.w_d[2], alpha, beta); });
  }

  const Depthwise& job_;
  const ConvShape& s_;
  Depthwise inner_;  // of the float copies
  i64 x_plane_, y_plane_, taps_, group_;
  float *x_, *y_, *w_;
  void* behind_;
  std::size_t bytes_;
};

/// Calls `use` with a value of the storage type.
template <class Use>
auto with_storage(DataType type, const Use& use) {
  if (type == DataType::kHalf) return use(Half{});
  return type == DataType::kInt8 ? use(std::int8_t{}) : use(Bfloat16{});
}

}  // namespace

void depthwise_widened(const Depthwise& job, i64 first, i64 end, void* scratch) {
  with_storage(job.shape.dtype, [&](auto value) { Widened<decltype(value)>(job, scratch).run(first, end); });
}

std::size_t depthwise_widened_scratch(const Depthwise& job) {
  return with_storage(job.shape.dtype, [&](auto value) { return Widened<decltype(value)>(job, nullptr).bytes(); });
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
