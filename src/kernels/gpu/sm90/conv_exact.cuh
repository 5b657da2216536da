// Tiles of a convolution and of its gradient of the weights in fp32 arithmetic without matrix units: for operands that
// cannot be split into parts. Threads multiply tiles of pixels and weights in shared memory; taps in the padding are
// left out, so that infinite weights do not meet its zeros.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/conv_epilogue.cuh"
#include "kernels/gpu/sm90/conv_pixel.cuh"

namespace sm90 {

/// What a kernel's arguments have more if its operands have parts.
template <int kParts>
struct ConvExactOperands : ConvUnsplit {};
template <>
struct ConvExactOperands<1> {};

/// Four channels.
DEVICE float4 load_quad(const ConvFloats& t, long long at) {
  const float* const from = t.data + at;
  if (t.channel == 1) return *reinterpret_cast<const float4*>(from);
  return make_float4(from[0], from[t.channel], from[2 * t.channel], from[3 * t.channel]);
}

/// kTransposed: the weights' channels are the outputs.
template <class Element, int kSpatial, bool kTransposed, int kTileRows, int kTileColumns, Addend kAddend, bool kBias,
          bool kScale, int kActivation>
class ConvExact {
  static constexpr int kThreads = 256, kDepth = 16, kColumns = 64;  // channels of a step, columns at a time
  // Of a thread; neighbours have neighbouring rows.
  static constexpr int kRows = 4, kRowThreads = kTileRows / kRows, kOwnColumns = kColumns / (kThreads / kRowThreads);
  static constexpr int kRowPitch = kTileRows + 4, kColumnPitch = kColumns + 4;
  static constexpr int kQuads = kDepth / 4, kRowsPerLoad = kThreads / kQuads, kLoads = kTileRows / kRowsPerLoad;

  /// The operands of a step, on their way from global to shared memory.
  struct Loaded {
    float4 pixels[kLoads], weights;
    bool inside[kLoads];
  };

  static DEVICE void put(float* to, int pitch, float4 v) {
    to[0] = v.x;
    to[pitch] = v.y;
    to[2 * pitch] = v.z;
    to[3 * pitch] = v.w;
  }

  template <class Arguments>
  static DEVICE Loaded load(const Arguments& a, const ConvPhase& p, const Pixel<kSpatial> (&pixel)[kLoads], int column,
                            int step) {
    const int thread = threadIdx.x, reduced = a.shape.reduced, outputs = a.shape.outputs;
    const int blocks = (reduced + kDepth - 1) / kDepth, first = step % blocks * kDepth;
    int taps = step / blocks, tap = p.tap, offset[kSpatial];
    UNROLL
    for (int i = 0; i < kSpatial; ++i) {
      const int n = taps % p.taps[i];
      taps /= p.taps[i];
      tap += n * p.tap_step[i];
      offset[i] = p.base[i] + p.offset[i] + n * p.offset_step[i];
    }
    Loaded v;
    const int channel = first + thread % kQuads * 4;
    UNROLL
    for (int l = 0; l < kLoads; ++l) {
      v.inside[l] = pixel[l].image < a.shape.images;
      long long at = pixel[l].image * a.first.outer + channel * a.first.channel;
      UNROLL
      for (int i = 0; i < kSpatial; ++i) {
        const int from = pixel[l].at[i] * p.step[i] + offset[i];
        v.inside[l] = v.inside[l] && from >= 0 && from < a.size[i];
        at += from * a.first.step[i];
      }
      v.pixels[l] = v.inside[l] && channel < reduced ? load_quad(a.first, at) : make_float4(0, 0, 0, 0);
    }
    const int k = kTransposed ? first + thread / (kColumns / 4) : channel,
              output = column + (kTransposed ? thread % (kColumns / 4) * 4 : thread / kQuads);
    const long long at = (kTransposed ? k : output) * a.second.outer + tap * a.second.step[0] +
                         (kTransposed ? output : k) * a.second.channel;
    v.weights = k < reduced && output < outputs ? load_quad(a.second, at) : make_float4(0, 0, 0, 0);
    return v;
  }

  static DEVICE void store(const Loaded& v, float* pixels, float* weights, int* inside) {
    const int thread = threadIdx.x, quad = thread % kQuads * 4, row = thread / kQuads;
    UNROLL
    for (int l = 0; l < kLoads; ++l) {
      put(pixels + quad * kRowPitch + row + l * kRowsPerLoad, kRowPitch, v.pixels[l]);
      if (quad == 0) inside[row + l * kRowsPerLoad] = v.inside[l];
    }
    if constexpr (kTransposed)
      put(weights + thread / (kColumns / 4) * kColumnPitch + thread % (kColumns / 4) * 4, 1, v.weights);
    else
      put(weights + quad * kColumnPitch + row, kColumnPitch, v.weights);
  }

  template <class Arguments>
  static DEVICE void finish_tile(const Arguments& a, const ConvPhase& p, int row, int column,
                                 const float (&sums)[kRows][kOwnColumns]) {
    UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Pixel<kSpatial> pixel = pixel_at<kSpatial>(p, row + r);
      if (pixel.image >= a.shape.images) continue;
      const i64 place = place_of(a.shape, p, pixel);
      UNROLL
      for (int c = 0; c < kOwnColumns; ++c) {
        const int channel = column + c;
        if (channel >= a.shape.outputs) continue;
        const ScaleAndBias of = scale_and_bias<Element, kBias, kScale>(a.parameters, channel);
        float added = 0;
        const long long at = place + channel * a.shape.dst_channel;
        if constexpr (kAddend != kNone) added = (kAddend == kOld ? a.dst_data : a.residual_data)[at];
        a.dst_data[at] =
            finish<kAddend, kBias, kScale, kActivation>(a.shape.scalars, sums[r][c], of.scale, of.bias, added);
      }
    }
  }

  template <class Arguments>
  static DEVICE void run_columns(const Arguments& a, const ConvPhase& p, int row0, int column0, float* shared) {
    const int thread = threadIdx.x;
    float *const pixels = shared, *const weights = pixels + kDepth * kRowPitch;
    int* const inside = reinterpret_cast<int*>(weights + kDepth * kColumnPitch);
    Pixel<kSpatial> pixel[kLoads];
    UNROLL
    for (int l = 0; l < kLoads; ++l) pixel[l] = pixel_at<kSpatial>(p, row0 + thread / kQuads + l * kRowsPerLoad);
    int steps = (a.shape.reduced + kDepth - 1) / kDepth;
    UNROLL
    for (int i = 0; i < kSpatial; ++i) steps *= p.taps[i];
    const int row = thread % kRowThreads * kRows, column = thread / kRowThreads * kOwnColumns;
    float sums[kRows][kOwnColumns] = {};
    Loaded next;
    if (steps > 0) next = load(a, p, pixel, column0, 0);
    NO_UNROLL
    for (int step = 0; step < steps; ++step) {
      meet(1, kThreads);  // all have read the last step's
      store(next, pixels, weights, inside);
      meet(1, kThreads);
      if (step + 1 < steps) next = load(a, p, pixel, column0, step + 1);
      bool used[kRows];
      UNROLL
      for (int r = 0; r < kRows; ++r) used[r] = inside[row + r] != 0;
      UNROLL
      for (int k = 0; k < kDepth; ++k) {
        float x[kRows], w[kOwnColumns];
        UNROLL
        for (int r = 0; r < kRows; ++r) x[r] = pixels[k * kRowPitch + row + r];
        UNROLL
        for (int c = 0; c < kOwnColumns; ++c) w[c] = weights[k * kColumnPitch + column + c];
        UNROLL
        for (int r = 0; r < kRows; ++r) {
          if (!used[r]) continue;
          UNROLL
          for (int c = 0; c < kOwnColumns; ++c) sums[r][c] = FMA(x[r], w[c], sums[r][c]);
        }
      }
    }
    meet(1, kThreads);
    finish_tile(a, p, row0 + row, column0 + column, sums);
  }

 public:
  /// All threads of a block call this; `shared` has room for the operands of a step.
  template <class Arguments>
  static DEVICE void run(const Arguments& a, const ConvPhase& p, int row, int column, float* shared) {
    if (threadIdx.x >= kThreads) return;
    NO_UNROLL
    for (int c = column; c < column + kTileColumns && c < a.shape.outputs; c += kColumns)
      run_columns(a, p, row, c, shared);
  }
};

/// 64 output channels x 64 input channels of a tap of the gradient of the weights.
template <int kSpatial>
class ConvExactWeights {
  static constexpr int kThreads = 256, kDepth = 16, kSize = 64;  // pixels of a step; output and input channels
  static constexpr int kOwn = 4, kAcross = kSize / kOwn;         // of a thread, in both directions

  /// The operands of a step, on their way from global to shared memory.
  struct Loaded {
    float4 dy, x;
    bool inside;
  };

  template <class Arguments>
  static DEVICE Loaded load(const Arguments& a, int output, int channel, const int (&offset)[kSpatial], int index) {
    const ConvWeightsShape& s = a.shape;
    Loaded v = {make_float4(0, 0, 0, 0), make_float4(0, 0, 0, 0), false};
    int rest = index;
    long long x = channel * a.first.channel, dy = output * a.second.channel;
    v.inside = true;
    UNROLL
    for (int i = 0; i < kSpatial; ++i) {
      const int pixel = rest % s.size[i], from = pixel * s.step[i] + s.base[i] + offset[i];
      rest /= s.size[i];
      v.inside = v.inside && from >= 0 && from < a.size[i];
      x += from * a.first.step[i];
      dy += pixel * a.second.step[i];
    }
    v.inside = v.inside && rest < s.images;
    if (!v.inside) return v;
    if (output < s.outputs) v.dy = load_quad(a.second, dy + rest * a.second.outer);
    if (channel < s.channels) v.x = load_quad(a.first, x + rest * a.first.outer);
    return v;
  }

 public:
  /// Sums over the pixels [first, last), to `partials` or, without, to dw: from `column` of each row, rows `pitch`
  /// apart.
  template <class Arguments>
  static DEVICE void run(const Arguments& a, int output, int channel, const int (&offset)[kSpatial], int first,
                         int last, float* partials, int column, int pitch, float* shared) {
    const int thread = threadIdx.x, mine = thread % kAcross * kOwn, row = thread / kAcross;
    if (thread >= kThreads) return;
    float *const dy = shared, *const x = dy + kDepth * kSize;
    int* const inside = reinterpret_cast<int*>(x + kDepth * kSize);
    float sums[kOwn][kOwn] = {};
    Loaded next = load(a, output + mine, channel + mine, offset, first + row);
    NO_UNROLL
    for (int pixel = first; pixel < last; pixel += kDepth) {
      meet(1, kThreads);  // all have read the last step's
      *reinterpret_cast<float4*>(dy + row * kSize + mine) = next.dy;
      *reinterpret_cast<float4*>(x + row * kSize + mine) = next.x;
      if (mine == 0) inside[row] = next.inside;
      meet(1, kThreads);
      if (pixel + kDepth < last) next = load(a, output + mine, channel + mine, offset, pixel + kDepth + row);
      UNROLL
      for (int k = 0; k < kDepth; ++k) {
        if (inside[k] == 0) continue;
        UNROLL
        for (int r = 0; r < kOwn; ++r) {
          UNROLL
          for (int c = 0; c < kOwn; ++c)
            sums[r][c] = FMA(dy[k * kSize + row * kOwn + r], x[k * kSize + mine + c], sums[r][c]);
        }
      }
    }
    meet(1, kThreads);
    UNROLL
    for (int r = 0; r < kOwn; ++r) {
      const int k = output + row * kOwn + r;
      if (k >= a.shape.outputs) continue;
      UNROLL
      for (int c = 0; c < kOwn; ++c) {
        if (channel + mine + c >= a.shape.channels) continue;
        const long long at = (long long)k * pitch + column + mine + c;
        if (partials != nullptr)
          partials[at] = sums[r][c];
        else
          a.dw[at] = a.shape.alpha * sums[r][c] + (a.shape.beta != 0 ? a.shape.beta * a.dw[at] : 0);
      }
    }
  }
};

}  // namespace sm90
