// The flags of attention.
// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cmath>

#include "driver/run/tensor_args.h"
#include "reference/mha.h"

namespace polymio::driver {

inline constexpr DataType kMhaTypes[] = {kFloat,       kHalf,         kBFloat16,  kFloat8Fnuz,
                                         kBFloat8Fnuz, kFloat8E4m3fn, kFloat8E5m2};
inline constexpr Choice kMhaDoutTypes[] = {
    {"fp8", kFloat8Fnuz}, {"bfp8", kBFloat8Fnuz}, {"fp8_e4m3fn", kFloat8E4m3fn}, {"fp8_e5m2", kFloat8E5m2}};
inline constexpr Choice kMhaMasks[] = {{"none", 0}, {"causal", 1}};
inline constexpr Choice kMhaBiases[] = {{"none", 0}, {"full", 1}, {"heads", 2}, {"batch", 3}, {"one", 4}};

struct MhaArgs {
  std::int64_t batch = 2, heads = 4, queries = 64, keys = 0, head_size = 16, directions = 0;
  std::int64_t seed = 0, offset = 0;
  int mask = 0, bias = 0, dout_type = kNoType;
  double scale = 0, probability = 0;
  bool scaled = false;
  std::vector<std::int64_t> q_strides, k_strides, v_strides, o_strides, dout_strides, dq_strides, dk_strides,
      dv_strides, bias_strides;

  Flags rows() {
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    constexpr auto kShape = Part::kShape, kOption = Part::kOption;
    return {
        {"n", "batchsize", Integer{&batch, 1, kMost}, "batch size", kShape},
        {"c", "heads", Integer{&heads, 1, kMost}, "heads", kShape},
        {"H", "queries", Integer{&queries, 1, kMost}, "tokens of q", kShape},
        {"", "keys", Integer{&keys, 0, kMost}, "tokens of k and v; 0: as many as of q", kOption},
        {"W", "head_size", Integer{&head_size, 1, 1 << 24}, "elements of a token of a head", kShape},
        {"F", "forw", Integer{&directions, 0, 3}, "1 forward, 2 backward, 0 both", kShape},
        {"", "q_strides", Integers{&q_strides}, "element strides of q", kOption},
        {"", "k_strides", Integers{&k_strides}, "element strides of k", kOption},
        {"", "v_strides", Integers{&v_strides}, "element strides of v", kOption},
        {"", "o_strides", Integers{&o_strides}, "element strides of o", kOption},
        {"", "dout_strides", Integers{&dout_strides}, "element strides of the gradient of o", kOption},
        {"", "dout_type", Name{&dout_type, kMhaDoutTypes}, "of the gradient of o, if 8-bit floats differ", kOption},
        {"", "dq_strides", Integers{&dq_strides}, "element strides of the gradient of q", kOption},
        {"", "dk_strides", Integers{&dk_strides}, "element strides of the gradient of k", kOption},
        {"", "dv_strides", Integers{&dv_strides}, "element strides of the gradient of v", kOption},
        {"", "bias", Name{&bias, kMhaBiases}, "of scores: one for each batch and head, for each head or batch, or one",
         kOption},
        {"", "bias_strides", Integers{&bias_strides}, "element strides of the bias", kOption},
        {"", "mask", Name{&mask, kMhaMasks}, "causal: a query sees no later key", kOption},
        {"", "scale", Real{&scale}, "of q k'; 0: 1 / sqrt(head size)", kOption},
        {"p", "dropout", Real{&probability}, "probability that a weight is dropped", kOption},
        {"", "seed", Integer{&seed, 0, kMost}, "of dropout", kOption},
        {"", "offset", Integer{&offset, 0, kMost}, "numbers that dropout skips", kOption},
        {"", "scaled", Switch{&scaled}, "scales and descales other than 1", kOption},
    };
  }

  // Throws ArgError.
  void check() {
    if (probability >= 0 && probability <= 1) return;
    const Flags all = rows();
    const Flag& flag = find_row(all, "dropout");
    refuse_value(flag, value_text(flag), "0 to 1");
  }

  // The problem of completed flags.
  reference::Mha problem(DataType of_type, bool backward) const {
    const auto type = static_cast<reference::Type>(of_type);
    const std::int64_t all_keys = keys == 0 ? queries : keys;
    const auto tensor = [&](std::int64_t tokens, const std::vector<std::int64_t>& strides) {
      return reference::Tensor(type, {batch, heads, tokens, head_size}, strides);
    };
    reference::Mha p;
    p.backward = backward;
    p.causal = mask != 0;
    p.rounds = reference::is_fp8(type);
    p.scale = static_cast<float>(scale == 0 ? 1 / std::sqrt(static_cast<double>(head_size)) : scale);
    p.q = tensor(queries, q_strides);
    p.k = tensor(all_keys, k_strides);
    p.v = tensor(all_keys, v_strides);
    p.o = tensor(queries, o_strides);
    p.dout = tensor(queries, dout_strides);
    if (dout_type != kNoType) p.dout.type = p.dout.cast = static_cast<reference::Type>(dout_type);
    p.dq = tensor(queries, dq_strides);
    p.dk = tensor(all_keys, dk_strides);
    p.dv = tensor(all_keys, dv_strides);
    if (bias != 0)
      p.bias = reference::Tensor(reference::Type::kFloat,
                                 {bias == 1 || bias == 3 ? batch : 1, bias <= 2 ? heads : 1, queries, all_keys},
                                 bias_strides);
    p.probability = static_cast<float>(probability);
    p.seed = static_cast<std::uint64_t>(seed);
    p.offset = static_cast<std::uint64_t>(offset);
    double value = 0.75;
    for (double* const factor : factors(p)) *factor = scaled ? value += 0.125 : 1;
    return p;
  }

  // The scalars of a problem, in the order of the library's mha::Scalar.
  static std::array<double*, 13> factors(reference::Mha& p) {
    return {&p.descale_q, &p.descale_k, &p.descale_v, &p.descale_s, &p.descale_o, &p.descale_dout, &p.descale_ds,
            &p.scale_s,   &p.scale_o,   &p.scale_ds,  &p.scale_dq,  &p.scale_dk,  &p.scale_dv};
  }
};

}  // namespace polymio::driver
