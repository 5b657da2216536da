// SPDX-License-Identifier: MIT
#include "primitives/mha/cpu/blocks.h"

#include <algorithm>
#include <numeric>

#include "kernels/cpu/kernels_of.h"
#include "primitives/mha/solvers.h"

namespace polymio::mha {
namespace {

kernels::Axis axis(std::int64_t size, std::int64_t stride) {
  kernels::Axis a;
  a.level[kernels::kLevels - 1] = {size, stride};
  return a;
}

kernels::Gemm product(Call::Form form, const Matrix& a, const Matrix& b, float* c, std::int64_t c_pitch, std::int64_t m,
                      std::int64_t n, std::int64_t k) {
  const bool is_a = form == Call::Form::kTransposedA, is_b = form == Call::Form::kTransposedB;
  kernels::Gemm g;
  g.m = m;
  g.n = n;
  g.k = k;
  g.a = {a.type, a.data, 0, axis(m, is_a ? 1 : a.pitch), axis(k, is_a ? a.pitch : 1)};
  g.b = {b.type, b.data, 0, axis(n, is_b ? b.pitch : 1), axis(k, is_b ? 1 : b.pitch)};
  g.c = {DataType::kFloat, c, 0, axis(m, c_pitch), axis(n, 1)};
  return g;
}

std::int64_t offset_of_head(const Problem& p, const TensorDesc& t, std::int64_t head) {
  return head / p.heads() * t.strides[0] + head % p.heads() * t.strides[1];
}

void* at(const TensorDesc& t, const void* data, std::int64_t offset) {
  return static_cast<char*>(const_cast<void*>(data)) + offset * static_cast<std::int64_t>(size_of(t.type));
}

void set_codes(DataType type, std::array<std::uint16_t, 256>& codes) {
  if (!is_fp8(type)) return;
  std::array<std::uint8_t, 256> all;
  std::iota(all.begin(), all.end(), std::uint8_t{0});
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = dtype::to_bfloat16(static_cast<float>(dtype::load(type, all.data(), static_cast<std::int64_t>(i)))).bits;
}

}  // namespace

void SharedLargest::add(float magnitude) {
  const auto bits = std::bit_cast<std::uint32_t>(magnitude);
  std::uint32_t now = bits_.load();
  while (now < bits && !bits_.compare_exchange_weak(now, bits)) {
  }
}

Blocks::Blocks(const Problem& problem, CpuIsa isa, std::int64_t block_queries, std::int64_t block_keys)
    : p(problem),
      gemm(kernels::kernels_of<kernels::GemmKernels>(isa)),
      kernels(kernels::kernels_of<kernels::MhaKernels>(isa)),
      queries(std::min(block_queries, problem.queries())),
      keys(std::min(block_keys, problem.keys())) {
  set_codes(p.q.type, q_codes);
  set_codes(p.dout.type, dout_codes);
  attends = p.forward() && !is_fp8() && kernels.attend != nullptr;
  const DataType type = product_type(p.q.type);
  const std::int64_t d = p.head_size(), pitch = score_pitch() * (weights() == DataType::kBFloat16 ? 2 : 1);
  const Matrix operand{type, nullptr, d}, weight{weights(), nullptr, pitch};
  const auto measure = [&](Call::Form form, const Matrix& a, std::int64_t m, std::int64_t n, std::int64_t k) {
    const kernels::Gemm g = product(form, a, operand, nullptr, n, m, n, k);
    gemm_bytes = std::max(gemm_bytes, gemm.scratch(g, m, n));
  };
  for (const std::int64_t rows : {queries, (p.queries() - 1) % queries + 1})
    for (const std::int64_t columns : {keys, (p.keys() - 1) % keys + 1}) {
      measure(Call::Form::kTransposedB, operand, rows, columns, d);
      measure(Call::Form::kPlain, weight, rows, d, columns);
      measure(Call::Form::kTransposedA, weight, columns, d, rows);
    }
}

Matrix Call::rows(const TensorDesc& t, const void* data, std::int64_t head, std::int64_t first, std::int64_t count,
                  std::uint16_t* copy) const {
  const void* const start = at(t, data, offset_of_head(b.p, t, head) + first * t.strides[2]);
  if (!polymio::is_fp8(t.type)) return {t.type, const_cast<void*>(start), t.strides[2]};
  const auto& codes = t.type == b.p.q.type ? b.q_codes : b.dout_codes;
  const std::int64_t d = b.p.head_size();
  for (std::int64_t r = 0; r < count; ++r) {
    const auto* const from = static_cast<const std::uint8_t*>(start) + r * t.strides[2];
    for (std::int64_t i = 0; i < d; ++i) copy[r * d + i] = codes[from[i]];
  }
  return {DataType::kBFloat16, copy, d};
}

const float* Call::bias(std::int64_t head, std::int64_t query) const {
  const Problem& p = b.p;
  const std::int64_t n = head / p.heads(), h = head % p.heads();
  return static_cast<const float*>(a.bias) + (p.bias.lens[0] == 1 ? 0 : n * p.bias.strides[0]) +
         (p.bias.lens[1] == 1 ? 0 : h * p.bias.strides[1]) + query * p.bias.strides[2];
}

void Call::multiply(Form form, const Matrix& left, const Matrix& right, float* c, std::int64_t c_pitch, std::int64_t m,
                    std::int64_t n, std::int64_t k, double alpha, double beta, void* scratch) const {
  kernels::Gemm g = product(form, left, right, c, c_pitch, m, n, k);
  g.alpha = alpha;
  g.beta = beta;
  b.gemm.run(g, 0, m, 0, n, scratch);
}

kernels::ScoreBlock Call::scores(const Matrix& q, const Matrix& k, float* memory, std::int64_t head, std::int64_t query,
                                 std::int64_t rows, std::int64_t key, std::int64_t columns, void* scratch) const {
  const Problem& p = b.p;
  multiply(Form::kTransposedB, q, k, memory, b.score_pitch(), rows, columns, p.head_size(), score_scale(), 0, scratch);
  kernels::ScoreBlock block;
  block.scores = memory;
  block.rows = rows;
  block.columns = columns;
  block.pitch = b.score_pitch();
  if (p.has_bias()) {
    block.bias = bias(head, query) + key;
    block.bias_pitch = p.bias.strides[2];
  }
  block.visible = a.mask == Mask::kCausal ? query - key + 1 : columns;
  block.weights = b.is_fp8() ? DataType::kFloat : b.weights();
  block.dropout = dropout;
  block.row_elements = static_cast<std::uint64_t>(p.keys());
  block.element = static_cast<std::uint64_t>((head * p.queries() + query) * p.keys() + key);
  return block;
}

void Call::quantise(const kernels::ScoreBlock& block, float* weights) const {
  for (std::int64_t r = 0; r < block.rows; ++r) {
    float* const row = weights + r * block.pitch;
    for (std::int64_t c = 0; c < block.columns; ++c) {
      std::uint8_t code[8] = {};  // as large as an element of any type
      dtype::store(b.p.q.type, code, 0, row[c]);
      dtype::write<std::uint16_t>(row, c, b.q_codes[code[0]]);
    }
  }
}

float Call::store(float* matrix, const float* row_factor, float factor, float scale, const TensorDesc& t, void* out,
                  std::int64_t head, std::int64_t first, std::int64_t rows) const {
  const std::int64_t d = b.p.head_size(), pitch = t.strides[2];
  void* const start = at(t, out, offset_of_head(b.p, t, head) + first * pitch);
  if (!polymio::is_fp8(t.type))
    return b.kernels.store(matrix, rows, d, row_factor, factor, scale, t.type, start, pitch);
  const float largest = b.kernels.store(matrix, rows, d, row_factor, factor, scale, DataType::kFloat, matrix, d);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < d; ++i) dtype::store(t.type, start, r * pitch + i, matrix[r * d + i]);
  return largest;
}

}  // namespace polymio::mha
