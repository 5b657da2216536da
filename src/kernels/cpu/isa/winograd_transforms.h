// One-dimensional Winograd transforms; loads and stores of pixels as vectors of channels. The transforms are those of
// Toom and Cook (Lavin & Gray, "Fast Algorithms for Convolutional Neural Networks", 2015; Winograd 1980), computed from
// the points 0, pairs +-p and infinity: a pair shares the even and the odd part of its polynomial.
// SPDX-License-Identifier: MIT
#pragma once
#include "base/math.h"
#include "kernels/cpu/conv_shape.h"
#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/transpose.h"
#include "kernels/cpu/vec.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// The positive point of each pair: dyadic, so that most coefficients are exact, and such that transforms grow
/// values little.
template <int kAlpha>
struct WinogradRoots;
template <>
struct WinogradRoots<4> {
  static constexpr double kRoot[] = {1};
};
template <>
struct WinogradRoots<6> {
  static constexpr double kRoot[] = {0.625, 1.5};
};
template <>
struct WinogradRoots<8> {
  static constexpr double kRoot[] = {0.5, 1, 2};
};

/// Coefficients for kAlpha points: tiles of m outputs of r taps with m + r - 1 = kAlpha.
template <int kAlpha>
struct WinogradPoints {
  static constexpr int kPairs = kAlpha / 2 - 1;
  float all[kPairs + 1] = {};          // product of (z - p^2), ascending powers of z
  float all_but[kPairs][kPairs] = {};  // the same without pair i
  float inverse[kPairs + 1] = {};      // 1 / product of the distances of pair i to the other points; last: of point 0
  float power[kPairs][kAlpha] = {};

  constexpr WinogradPoints() {
    constexpr const double(&kRoot)[kPairs] = WinogradRoots<kAlpha>::kRoot;
    double squares[kPairs] = {}, product[kPairs + 1] = {};
    for (int i = 0; i < kPairs; ++i) squares[i] = kRoot[i] * kRoot[i];
    expand(squares, kPairs, -1, product);
    for (int i = 0; i <= kPairs; ++i) all[i] = static_cast<float>(product[i]);
    inverse[kPairs] = static_cast<float>(1 / product[0]);
    for (int i = 0; i < kPairs; ++i) {
      expand(squares, kPairs, i, product);
      double distance = 2 * squares[i], p = 1;
      for (int j = 0; j < kPairs; ++j) {
        all_but[i][j] = static_cast<float>(product[j]);
        if (j != i) distance *= squares[i] - squares[j];
      }
      inverse[i] = static_cast<float>(1 / distance);
      for (int j = 0; j < kAlpha; ++j, p *= kRoot[i]) power[i][j] = static_cast<float>(p);
    }
  }

 private:
  static constexpr void expand(const double* squares, int count, int without, double* product) {
    for (int k = 0; k <= count; ++k) product[k] = k == 0;
    for (int i = 0; i < count; ++i) {
      if (i == without) continue;
      for (int k = count; k > 0; --k) product[k] = product[k - 1] - squares[i] * product[k];
      product[0] *= -squares[i];
    }
  }
};

template <int kAlpha>
inline constexpr WinogradPoints<kAlpha> kWinograd{};

/// Input transform (the transposed interpolation). Points are ordered 0, +p, -p, ..., infinity.
template <int kAlpha>
static inline void transform_input_tile(const Floats (&d)[kAlpha], Floats (&v)[kAlpha]) {
  constexpr const WinogradPoints<kAlpha>& kP = kWinograd<kAlpha>;
  constexpr int kPairs = kP.kPairs;
  Floats first = d[kAlpha - 2], last = d[kAlpha - 1];
#pragma GCC unroll 4
  for (int k = kPairs - 1; k >= 0; --k) {
    first += d[2 * k] * kP.all[k];
    last += d[2 * k + 1] * kP.all[k];
  }
  v[0] = first;
  v[kAlpha - 1] = last;
#pragma GCC unroll 4
  for (int i = 0; i < kPairs; ++i) {
    Floats even = d[kAlpha - 2], odd = d[kAlpha - 3];
#pragma GCC unroll 4
    for (int k = kPairs - 2; k >= 0; --k) {
      even += d[2 * k + 2] * kP.all_but[i][k];
      odd += d[2 * k + 1] * kP.all_but[i][k];
    }
    v[2 * i + 1] = even + odd * kP.power[i][1];
    v[2 * i + 2] = even - odd * kP.power[i][1];
  }
}

/// Filter transform: values of the polynomial with kTaps coefficients g at the points, divided by the points'
/// distances.
template <int kAlpha, int kTaps>
static inline void evaluate(const Floats (&g)[kTaps], Floats (&u)[kAlpha]) {
  constexpr const WinogradPoints<kAlpha>& kP = kWinograd<kAlpha>;
  u[0] = g[0] * kP.inverse[kP.kPairs];
  u[kAlpha - 1] = g[kTaps - 1];
#pragma GCC unroll 4
  for (int i = 0; i < kP.kPairs; ++i) {
    Floats even = g[0] * kP.inverse[i], odd = g[1] * (kP.power[i][1] * kP.inverse[i]);
#pragma GCC unroll 8
    for (int k = 2; k < kTaps; ++k) (k % 2 == 0 ? even : odd) += g[k] * (kP.power[i][k] * kP.inverse[i]);
    u[2 * i + 1] = even + odd;
    u[2 * i + 2] = even - odd;
  }
}

/// Output transform: kOuts results from the products at the points (the transposed evaluation).
template <int kAlpha, int kOuts>
static inline void collect(const Floats (&m)[kAlpha], Floats (&y)[kOuts]) {
  constexpr const WinogradPoints<kAlpha>& kP = kWinograd<kAlpha>;
  constexpr int kPairs = kP.kPairs;
  Floats sum[kPairs], difference[kPairs];
#pragma GCC unroll 4
  for (int i = 0; i < kPairs; ++i) {
    sum[i] = m[2 * i + 1] + m[2 * i + 2];
    difference[i] = m[2 * i + 1] - m[2 * i + 2];
  }
#pragma GCC unroll 8
  for (int k = 0; k < kOuts; ++k) {
    const Floats(&part)[kPairs] = k % 2 == 0 ? sum : difference;
    y[k] = part[0] * kP.power[0][k];
#pragma GCC unroll 4
    for (int i = 1; i < kPairs; ++i) y[k] += part[i] * kP.power[i][k];
    if (k == 0) y[k] += m[0];
    if (k == kOuts - 1) y[k] += m[kAlpha - 1];
  }
}

/// Filter transform in two dimensions: kTaps x kTaps vectors, loaded by get(row, column), to kAlpha x kAlpha points
/// that are `step` floats apart.
template <int kAlpha, int kTaps, class Get>
static inline void evaluate_square(const Get& get, float* points, i64 step) {
  Floats half[kAlpha][kTaps];
#pragma GCC unroll 8
  for (int j = 0; j < kTaps; ++j) {
    Floats in[kTaps], out[kAlpha];
#pragma GCC unroll 8
    for (int i = 0; i < kTaps; ++i) in[i] = get(i, j);
    evaluate<kAlpha, kTaps>(in, out);
#pragma GCC unroll 8
    for (int i = 0; i < kAlpha; ++i) half[i][j] = out[i];
  }
#pragma GCC unroll 8
  for (int i = 0; i < kAlpha; ++i) {
    Floats out[kAlpha];
    evaluate<kAlpha, kTaps>(half[i], out);
#pragma GCC unroll 8
    for (int j = 0; j < kAlpha; ++j) store(points + (i * kAlpha + j) * step, out[j]);
  }
}

/// Output transform in two dimensions: points that are `step` floats apart to kOuts x kOuts vectors, stored by
/// put(row, column, vector).
template <int kAlpha, int kOuts, class Put>
static inline void collect_square(const float* points, i64 step, const Put& put) {
  Floats half[kOuts][kAlpha];
#pragma GCC unroll 8
  for (int j = 0; j < kAlpha; ++j) {
    Floats in[kAlpha], out[kOuts];
#pragma GCC unroll 8
    for (int i = 0; i < kAlpha; ++i) in[i] = load(points + (i * kAlpha + j) * step);
    collect<kAlpha, kOuts>(in, out);
#pragma GCC unroll 8
    for (int i = 0; i < kOuts; ++i) half[i][j] = out[i];
  }
#pragma GCC unroll 8
  for (int i = 0; i < kOuts; ++i) {
    Floats out[kOuts];
    collect<kAlpha, kOuts>(half[i], out);
#pragma GCC unroll 8
    for (int j = 0; j < kOuts; ++j) put(i, j, out[j]);
  }
}

/// Calls use.operator()<points, tile, taps>() for the form of a job; these forms are compiled.
template <class Use>
static inline auto with_form(int tile, int taps, const Use& use) {
  if (taps == 4) return tile == 3 ? use.template operator()<6, 3, 4>() : use.template operator()<8, 5, 4>();
  if (taps == 5) return tile == 2 ? use.template operator()<6, 2, 5>() : use.template operator()<8, 4, 5>();
  if (tile == 2) return use.template operator()<4, 2, 3>();
  return tile == 4 ? use.template operator()<6, 4, 3>() : use.template operator()<8, 6, 3>();
}

/// Two spatial dimensions of a tensor, for up to kLanes channels.
template <class T>
struct Image {
  T* data;
  i64 size[2], stride[2];
  i64 channel;  // stride
  int channels;
};

/// The range [low, high) of i in [0, count) for which offset + i is in [0, size).
struct Inside {
  i64 low, high;
  Inside(i64 offset, i64 count, i64 size)
      : low(min_of(max_of<i64>(-offset, 0), count)), high(max_of(min_of(size - offset, count), low)) {}
};

/// Rows first + i * step, i < count, of an image.
struct Rows {
  i64 first, step, count;
};

/// Loads `columns` pixels of each row from `column` on as vectors of channels; zero outside the image.
template <class T>
static inline void read_pixels(const Image<const T>& x, Rows rows, i64 column, i64 columns, float* dst) {
  constexpr int kN = kLanes<float>;
  const Inside inside(column, columns, x.size[1]);
  for (i64 r = 0, row = rows.first; r < rows.count; ++r, row += rows.step, dst += columns * kN) {
    const bool outside = row < 0 || row >= x.size[0];
    const i64 low = outside ? columns : inside.low, high = outside ? columns : inside.high;
    for (i64 i = 0; i < low; ++i) store(dst + i * kN, Floats{});
    for (i64 i = high; i < columns; ++i) store(dst + i * kN, Floats{});
    const T* src = x.data + row * x.stride[0] + (column + low) * x.stride[1];
    if (low == high) continue;
    if (x.channel != 1) {
      transpose_in(src, x.channel, x.channels, high - low, dst + low * kN, kN);
    } else if (x.channels == kN) {
      for (i64 i = low; i < high; ++i, src += x.stride[1]) store(dst + i * kN, load_widened(src));
    } else {
      for (i64 i = low; i < high; ++i, src += x.stride[1]) store(dst + i * kN, load_widened(src, x.channels));
    }
  }
}

/// Writes `columns` pixels of each row from `column` on, scaled; pixels outside the image are skipped.
template <class T>
static inline void write_pixels(const Image<T>& y, Rows rows, i64 column, i64 columns, const float* src, Scaling s) {
  constexpr int kN = kLanes<float>;
  const i64 count = min_of(columns, y.size[1] - column);
  for (i64 r = 0, row = rows.first; r < rows.count && row < y.size[0]; ++r, row += rows.step, src += columns * kN) {
    T* dst = y.data + row * y.stride[0] + column * y.stride[1];
    if (y.channel != 1) {
      transpose_out(src, kN, dst, y.channel, y.channels, count, s);
    } else {
      for (i64 i = 0; i < count; ++i) write_scaled(dst + i * y.stride[1], load(src + i * kN), y.channels, s);
    }
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
