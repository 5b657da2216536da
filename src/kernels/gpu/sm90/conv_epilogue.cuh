// What the convolution kernels for sm90 do with sums before they store them.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/conv_shape.h"
#include "kernels/gpu/sm90/warpgroup.cuh"
#include "kernels/gpu/portable/portable.h"
typedef float num;
#define NUMBERS_double 2
#define NUMBERS 1
#define NO_SPARE_REGISTERS
#include "kernels/gpu/portable/functions.h"
#include "kernels/gpu/portable/modes.h"

namespace sm90 {

/// What is added to alpha * convolution: nothing, beta * the old output, residual_alpha * another tensor.
enum Addend { kNone, kOld, kResidual };

/// activation((alpha * sum + beta * old) * scale + bias + residual_alpha * residual); kActivation:
/// activation::Mode, 0 for none.
template <Addend kAddend, bool kBias, bool kScale, int kActivation>
DEVICE float finish(const ConvScalars& s, float sum, float scale, float bias, float added) {
  float v = sum * s.alpha;
  if constexpr (kAddend == kOld) v = FMA(s.beta, added, v);
  if constexpr (kScale) v *= scale;
  if constexpr (kBias) v += bias;
  if constexpr (kAddend == kResidual) v = FMA(s.residual_alpha, added, v);
  if constexpr (kActivation != 0) v = activate(kActivation, v, s.act_alpha, s.act_beta, s.act_gamma);
  return v;
}

/// alpha * sum + beta * old, of integers.
template <Addend kAddend, class Value>
DEVICE double scaled(const ConvScalars& s, int sum, Value old) {
  const double v = s.exact_alpha * sum;
  return kAddend == kOld ? v + s.exact_beta * old : v;
}

template <class Element>
DEVICE float bias_of(const void* bias, int channel) {
  return Element::of(static_cast<const typename Element::Stored*>(bias)[channel]);
}

struct ScaleAndBias {
  float scale, bias;
};
template <class Element, bool kBias, bool kScale>
DEVICE ScaleAndBias scale_and_bias(const ConvChannelParameters& c, int channel) {
  ScaleAndBias v = {1, 0};
  if ((kBias || kScale) && channel >= c.channels) return v;
  if constexpr (!kScale) {
    if constexpr (kBias) v.bias = bias_of<Element>(c.bias, channel);
    return v;
  }
  v.scale = c.scale[channel];
  if (!c.mean) {
    if constexpr (kBias) v.bias = static_cast<const float*>(c.bias)[channel];
    return v;
  }
  v.scale /= sqrt_of(c.variance[channel] + c.epsilon);
  const float before = c.bias ? bias_of<Element>(c.bias, channel) : 0.0f;
  v.bias = (before - c.mean[channel]) * v.scale + c.shift[channel];
  return v;
}

/// The address of a 16-byte piece of a row of kBytes, swizzled as a map with a swizzle of as many bytes.
template <int kBytes = kRowBytes>
DEVICE u32 swizzled(u32 tile, int row, int piece) {
  constexpr int kPieces = kBytes / 16, kRowsPerLine = kRowBytes / kBytes;
  return tile + row * kBytes + ((piece ^ (row / kRowsPerLine % kPieces)) << 4);
}

/// The address of an element of a row of kBytes, swizzled likewise.
template <class Element, int kBytes>
DEVICE u32 element_at(u32 tile, int row, u32 column) {
  const u32 at = column * sizeof(typename Element::Stored);
  return swizzled<kBytes>(tile, row, at / 16) + at % 16;
}

}  // namespace sm90
