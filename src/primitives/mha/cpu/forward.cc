// A task is a block of queries of a head; the blocks of keys follow each other, each with a running maximum and sum.
// Where weights are 8-bit floats, they are rounded relative to the final sum: the scores are computed twice.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>

#include "primitives/mha/cpu/blocks.h"

namespace polymio::mha {
namespace {

struct Memory {
  char* gemm;
  float *scores, *sums, *largest, *sum, *factor;
  std::uint16_t *q, *k;

  Memory(const Blocks& b, Scratch& s) {
    gemm = s.take<char>(static_cast<std::int64_t>(b.gemm_bytes));
    scores = s.take<float>(b.queries * b.score_pitch());
    sums = s.take<float>(b.queries * b.p.head_size());
    for (float** row : {&largest, &sum, &factor}) *row = s.take<float>(b.queries);
    q = s.take<std::uint16_t>(b.is_fp8() ? b.queries * b.p.head_size() : 0);
    k = s.take<std::uint16_t>(b.is_fp8() ? b.keys * b.p.head_size() : 0);
  }
};

class Task {
 public:
  Task(const Call& call, std::int64_t head, std::int64_t query, void* scratch)
      : call_(call), p_(call.b.p), head_(head), query_(query), rows_(std::min(call.b.queries, p_.queries() - query)) {
    Scratch s(scratch);
    Memory m(call.b, s);
    run(m);
  }

  float largest_s() const { return largest_s_; }
  float largest_o() const { return largest_o_; }

 private:
  void run(Memory& m) {
    const Matrix q = call_.rows(p_.q, call_.a.q, head_, query_, rows_, m.q);
    std::fill_n(m.largest, rows_, -std::numeric_limits<float>::infinity());
    std::fill_n(m.sum, rows_, 0.0f);
    const bool rounds = call_.b.is_fp8();
    for_keys([&](std::int64_t key, std::int64_t columns) {
      kernels::ScoreBlock block = scores(m, q, key, columns);
      if (rounds) block.dropout = nullptr;
      call_.b.kernels.weigh(block, m.largest, m.sum, m.factor);
      if (rounds) return;
      if (key > 0) call_.b.kernels.multiply_rows(m.sums, rows_, p_.head_size(), m.factor);
      add_values(m, key, columns);
    });
    finish_statistics(m);
    float factor = call_.value(Scalar::kDescaleS) * call_.value(Scalar::kDescaleV);
    if (rounds)
      add_rounded(m, q);
    else
      factor *= call_.value(Scalar::kScaleS);
    largest_o_ = call_.store(m.sums, rounds ? nullptr : m.sum, factor, call_.value(Scalar::kScaleO), p_.o, call_.a.o,
                             head_, query_, rows_);
  }

  template <class Body>
  void for_keys(const Body& body) const {
    for (std::int64_t key = 0; key < p_.keys() && call_.sees(query_, rows_, key); key += call_.b.keys)
      body(key, std::min(call_.b.keys, p_.keys() - key));
  }

  kernels::ScoreBlock scores(Memory& m, const Matrix& q, std::int64_t key, std::int64_t columns) const {
    const Matrix k = call_.rows(p_.k, call_.a.k, head_, key, columns, m.k);
    return call_.scores(q, k, m.scores, head_, query_, rows_, key, columns, m.gemm);
  }

  void add_values(Memory& m, std::int64_t key, std::int64_t columns) const {
    const DataType type = call_.b.weights();
    const Matrix v = call_.rows(p_.v, call_.a.v, head_, key, columns, m.k);
    const Matrix weights{type, m.scores, call_.b.score_pitch() * (type == DataType::kBFloat16 ? 2 : 1)};
    call_.multiply(Call::Form::kPlain, weights, v, m.sums, p_.head_size(), rows_, p_.head_size(), columns, 1,
                   key > 0 ? 1 : 0, m.gemm);
  }

  /// The inverse sums replace the sums.
  void finish_statistics(Memory& m) {
    const std::int64_t first = head_ * p_.queries() + query_;
    for (std::int64_t r = 0; r < rows_; ++r) {
      m.sum[r] = 1 / m.sum[r];
      largest_s_ = std::max(largest_s_, m.sum[r]);
      if (call_.a.m) static_cast<float*>(call_.a.m)[first + r] = m.largest[r];
      if (call_.a.z_inv) static_cast<float*>(call_.a.z_inv)[first + r] = m.sum[r];
    }
  }

  void add_rounded(Memory& m, const Matrix& q) const {
    const kernels::GradientBlock how{m.largest, m.sum, nullptr, nullptr, call_.value(Scalar::kScaleS), 1, 1};
    for_keys([&](std::int64_t key, std::int64_t columns) {
      const kernels::ScoreBlock block = scores(m, q, key, columns);
      call_.b.kernels.differentiate(block, how);
      call_.quantise(block, block.scores);
      add_values(m, key, columns);
    });
  }

  const Call& call_;
  const Problem& p_;
  const std::int64_t head_, query_, rows_;
  float largest_s_ = 0, largest_o_ = 0;
};

}  // namespace

std::size_t forward_scratch(const Blocks& b) {
  Scratch s(nullptr);
  Memory(b, s);
  return s.bytes();
}

void run_forward(Stream& stream, const Call& call) {
  const Blocks& b = call.b;
  const std::int64_t blocks = b.query_blocks(), heads = b.p.batch() * b.p.heads();
  SharedLargest s, o;
  // Blocks with more visible keys first.
  stream.parallel_for(static_cast<std::size_t>(heads * blocks), forward_scratch(b), [&](std::size_t i, void* scratch) {
    const auto task = static_cast<std::int64_t>(i);
    const Task done(call, task % heads, (blocks - 1 - task / heads) * b.queries, scratch);
    s.add(done.largest_s());
    o.add(done.largest_o());
  });
  if (void* const at = call.a.largest(Amax::kS)) dtype::write(at, 0, s.get());
  if (void* const at = call.a.largest(Amax::kO)) dtype::write(at, 0, o.get());
}

}  // namespace polymio::mha
