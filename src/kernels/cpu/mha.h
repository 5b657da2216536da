// Attention: of a block of queries, or, between matrix products, softmax of blocks of scores; gradients.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "kernels/gpu/portable/attention_dropout.h"

namespace polymio::kernels {

/// Scores of a block of queries (rows) and keys (columns), fp32, which the weights replace: bf16 weights are at the
/// start of the memory of their row, fp32 weights in the places of their scores.
struct ScoreBlock {
  float* scores = nullptr;
  std::int64_t rows = 0, columns = 0, pitch = 0;  // pitch: elements, a multiple of 16
  const float* bias = nullptr;                    // added to the scores if not null
  std::int64_t bias_pitch = 0;
  std::int64_t visible = 0;  // row r has the columns below visible + r, at least one; the others have no weight
  DataType weights = DataType::kFloat;        // or kBFloat16
  const AttentionDropout* dropout = nullptr;  // null: none
  std::uint64_t element = 0;                  // the number of the block's first score
  std::uint64_t row_elements = 0;             // scores of a row of the whole matrix
};

/// What the gradient of a block needs besides, a number for each row, and what it gives.
struct GradientBlock {
  const float *largest, *inverse_sum, *delta;
  float* gradients;      // of the weights, of the scores' shape and pitch; those of the scores replace them. Null: none
  float scale_weights;   // of the weights that are stored
  float scale;           // d scores / d (q k')
  float scale_gradient;  // of the gradients that are stored
};

/// Queries of a head and all its keys, without dropout: rows of `pitch` elements of `type`, fp32, fp16 or bf16.
struct QueryBlock {
  DataType type = DataType::kFloat;
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* o = nullptr;
  std::int64_t q_pitch = 0, k_pitch = 0, v_pitch = 0, o_pitch = 0;
  const float* bias = nullptr;  // of the scores, or null
  std::int64_t bias_pitch = 0;
  std::int64_t queries = 0, keys = 0, head_size = 0;
  std::int64_t visible = 0;  // query r sees the keys below visible + r, at least one
  float scale = 1;           // of the scores
  float factor = 1;          // of the results
  float result_scale = 1;    // of what is stored
  float *largest = nullptr,
        *inverse_sum = nullptr;  // of each query: the largest score, 1 / sum of exp(score - largest)
};

struct MhaKernels {
  static constexpr bool kHasDotProducts = false;
  /// All products in fp32; null where blocks of matrix products serve. Returns the largest magnitude of the results
  /// before result_scale. The results of a query do not depend on how many there are.
  float (*attend)(const QueryBlock&, void* scratch);
  std::size_t (*attend_scratch)(const QueryBlock&);  // bytes, for these sizes
  /// Weights are exp(score - largest), 0 if dropped, else multiplied by 1 / (1 - probability), of the largest score so
  /// far. largest and sum, of the weights before dropout, are those of the blocks before, -infinity and 0 for the first
  /// one; factor is what results of these blocks are to be multiplied with.
  void (*weigh)(const ScoreBlock&, float* largest, float* sum, float* factor);
  /// Weights are exp(score - largest) * inverse_sum, dropped or multiplied as above, and by scale_weights. Gradients of
  /// the scores by the gradients of the weights. Returns the largest magnitude of these before scale_gradient.
  float (*differentiate)(const ScoreBlock&, const GradientBlock&);
  /// Multiplies the rows of a matrix of fp32 with a factor each.
  void (*multiply_rows)(float* matrix, std::int64_t rows, std::int64_t columns, const float* factor);
  /// out = rounded(scale * v), v = factor * row_factor * matrix; row_factor may be null. Returns the largest |v|. fp32,
  /// fp16 or bf16.
  float (*store)(const float* matrix, std::int64_t rows, std::int64_t columns, const float* row_factor, float factor,
                 float scale, DataType type, void* out, std::int64_t out_pitch);
  /// result[r] = factor * sum over columns of a b: fp32, fp16 or bf16.
  void (*dot_rows)(DataType type, const void* a, std::int64_t a_pitch, const void* b, std::int64_t b_pitch,
                   std::int64_t rows, std::int64_t columns, float factor, float* result);
};

}  // namespace polymio::kernels
