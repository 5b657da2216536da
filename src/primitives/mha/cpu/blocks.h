// Attention on CPUs, block by block: operands of matrix products, and one block of scores. Private to this folder.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <atomic>

#include "base/math.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/mha.h"
#include "primitives/mha/mha.h"

namespace polymio::mha {

/// Rows of `pitch` elements.
struct Matrix {
  DataType type = DataType::kFloat;
  void* data = nullptr;
  std::int64_t pitch = 0;
};

/// The largest magnitude that any thread has seen; the order of threads does not matter.
class SharedLargest {
 public:
  void add(float magnitude);
  float get() const { return std::bit_cast<float>(bits_.load()); }

 private:
  std::atomic<std::uint32_t> bits_{0};
};

/// Memory of a task, taken piece by piece; null memory measures.
class Scratch {
 public:
  explicit Scratch(void* memory) : memory_(static_cast<char*>(memory)) {}
  template <class T>
  T* take(std::int64_t count) {
    char* const at = memory_ + bytes_;
    bytes_ += (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T*>(at);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  char* memory_;
  std::size_t bytes_ = 0;
};

/// Sizes of blocks, kernels, and what is fixed when a plan is built.
struct Blocks {
  const Problem p;
  const kernels::GemmKernels& gemm;
  const kernels::MhaKernels& kernels;
  std::int64_t queries, keys;                // of a block
  std::array<std::uint16_t, 256> q_codes{};  // 8-bit floats as bf16
  std::array<std::uint16_t, 256> dout_codes{};
  std::size_t gemm_bytes = 0;
  bool attends = false;  // forward by MhaKernels::attend, without dropout

  Blocks(const Problem&, CpuIsa, std::int64_t block_queries, std::int64_t block_keys);

  bool is_fp8() const { return polymio::is_fp8(p.q.type); }
  DataType weights() const {
    return p.q.type == DataType::kBFloat16 || is_fp8() ? DataType::kBFloat16 : DataType::kFloat;
  }
  std::int64_t query_blocks() const { return ceil_div(p.queries(), queries); }
  std::int64_t key_blocks() const { return ceil_div(p.keys(), keys); }
  std::int64_t score_pitch() const { return (keys + 15) / 16 * 16; }
};

/// What one call of a plan works with.
struct Call {
  const Blocks& b;
  const Problem::Args& a;
  const kernels::AttentionDropout* dropout;

  float value(Scalar s) const {
    const void* const at = a.scalar(s);
    return at == nullptr ? 1 : dtype::read<float>(at, 0);
  }
  /// Tokens [first, first + count) of a head; 8-bit floats are converted to `copy`.
  Matrix rows(const TensorDesc&, const void* data, std::int64_t head, std::int64_t first, std::int64_t count,
              std::uint16_t* copy) const;
  /// Of a query and key 0, if the problem has a bias.
  const float* bias(std::int64_t head, std::int64_t query) const;
  /// Of q k'.
  double score_scale() const { return a.scale * value(Scalar::kDescaleQ) * value(Scalar::kDescaleK); }
  /// c = alpha * a b' + beta * c, or a b, or a' b: fp32, m x n.
  enum class Form { kTransposedB, kPlain, kTransposedA };
  void multiply(Form, const Matrix& a, const Matrix& b, float* c, std::int64_t c_pitch, std::int64_t m, std::int64_t n,
                std::int64_t k, double alpha, double beta, void* scratch) const;
  /// The scores of a block of a head, and what its weights need.
  kernels::ScoreBlock scores(const Matrix& q, const Matrix& k, float* memory, std::int64_t head, std::int64_t query,
                             std::int64_t rows, std::int64_t key, std::int64_t columns, void* scratch) const;
  /// Whether a query of the block sees its first key.
  bool sees(std::int64_t query, std::int64_t rows, std::int64_t key) const {
    return a.mask == Mask::kNone || key < query + rows;
  }
  /// Rounds fp32 weights to the type of q, in place as bf16.
  void quantise(const kernels::ScoreBlock&, float* weights) const;
  /// Stores rows of a head; `row_factor` may be null. Returns the largest magnitude before `scale`.
  float store(float* matrix, const float* row_factor, float factor, float scale, const TensorDesc&, void* out,
              std::int64_t head, std::int64_t first, std::int64_t rows) const;
};

void run_forward(Stream&, const Call&);
void run_backward(Stream&, const Call&);

/// Bytes of scratch per thread.
std::size_t forward_scratch(const Blocks&, int threads);
std::size_t backward_scratch(const Blocks&, int threads);

}  // namespace polymio::mha
