// Attention and its gradients by definition, in double.
// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "reference/convolution.h"
#include "reference/tensor.h"
#include "reference/tolerance.h"

namespace polymio::reference {

struct Mha {
  bool backward = false, causal = false;
  bool rounds = false;  // weights and gradients of scores are rounded to the type of q, as 8-bit floats are
  double scale = 1;
  Tensor q, k, v, o;        // [batch, heads, tokens, head size]
  Tensor dout, dq, dk, dv;  // backward only
  Tensor bias;              // no sizes: none
  // Factors: of what is read (descale), of what is stored (scale).
  double descale_q = 1, descale_k = 1, descale_v = 1, descale_s = 1, descale_o = 1, descale_dout = 1, descale_ds = 1;
  double scale_s = 1, scale_o = 1, scale_ds = 1, scale_dq = 1, scale_dk = 1, scale_dv = 1;
  float probability = 0;  // of being dropped
  std::uint64_t seed = 0, offset = 0;

  std::int64_t batch() const { return q.lens[0]; }
  std::int64_t heads() const { return q.lens[1]; }
  std::int64_t queries() const { return q.lens[2]; }
  std::int64_t keys() const { return k.lens[2]; }
  std::int64_t head_size() const { return q.lens[3]; }
  Tensor statistics() const { return {Type::kFloat, {batch(), heads(), queries(), 1}}; }
};

struct MhaData {
  const void *q, *k, *v, *bias = nullptr;
  // Of the gradient: results of the forward pass, m and z_inv in fp32.
  const void *o = nullptr, *m = nullptr, *z_inv = nullptr, *dout = nullptr;
};

enum MhaResult { kMhaO, kMhaM, kMhaZInv, kMhaAmaxS, kMhaAmaxO };
enum MhaGradient { kMhaDq, kMhaDk, kMhaDv, kMhaAmaxDq, kMhaAmaxDk, kMhaAmaxDv, kMhaAmaxDs };

// By MhaResult, in dense order. Magnitudes count the roundings of scores and weights.
std::array<Result, 5> mha_forward(const Mha& problem, const MhaData& data);
// By MhaGradient.
std::array<Result, 7> mha_backward(const Mha& problem, const MhaData& data);

// The error bound of an implementation in float for an output of this type.
Arithmetic mha_arithmetic(const Mha& problem, Type output);

}  // namespace polymio::reference
