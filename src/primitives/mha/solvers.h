// What the solvers share.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/attention_dropout.h"
#include "primitives/mha/mha.h"

namespace polymio::mha {

/// The type that products take elements of `t` as: 8-bit floats are bf16 numbers.
constexpr DataType product_type(DataType t) { return is_fp8(t) ? DataType::kBFloat16 : t; }

/// Sets the masks of a jump of `offset` steps of the generators.
void set_jump(kernels::AttentionDropout&);

/// The generators of a probability, a seed and an offset.
kernels::AttentionDropout make_dropout(float probability, std::int64_t seed, std::int64_t offset);

/// The factor of score number `element` of [batch, heads, queries, keys]: 0 if it is dropped.
double kept_factor(const kernels::AttentionDropout&, std::uint64_t element);

}  // namespace polymio::mha
