// A task is a block of queries of a head; the blocks of keys follow each other, each with a running maximum and sum. It
// is one call of MhaKernels::attend where that serves, else blocks of matrix products. Where weights are 8-bit floats,
// they are rounded relative to the final sum: the scores are computed twice.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>

#include "base/math.h"
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

/// Of the weights times v; weights that are rounded have the scale of s already.
float result_factor(const Call& call, bool scales) {
  return call.value(Scalar::kDescaleS) * call.value(Scalar::kDescaleV) * (scales ? call.value(Scalar::kScaleS) : 1);
}

/// Of queries of a head. Returns the largest s.
float store_statistics(const Call& call, std::int64_t head, std::int64_t query, std::int64_t rows, const float* largest,
                       const float* inverse_sum) {
  const std::int64_t first = head * call.b.p.queries() + query;
  if (call.a.m) std::copy_n(largest, rows, static_cast<float*>(call.a.m) + first);
  if (call.a.z_inv) std::copy_n(inverse_sum, rows, static_cast<float*>(call.a.z_inv) + first);
  float largest_sum = 0;
  for (std::int64_t r = 0; r < rows; ++r) largest_sum = std::max(largest_sum, inverse_sum[r]);  // without NaN
  return largest_sum;
}

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
    for (std::int64_t r = 0; r < rows_; ++r) m.sum[r] = 1 / m.sum[r];
    largest_s_ = store_statistics(call_, head_, query_, rows_, m.largest, m.sum);
    if (rounds) add_rounded(m, q);
    largest_o_ = call_.store(m.sums, rounds ? nullptr : m.sum, result_factor(call_, !rounds),
                             call_.value(Scalar::kScaleO), p_.o, call_.a.o, head_, query_, rows_);
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

/// Queries of a task that is one call of a kernel: many, because each task packs the keys and values, but no fewer
/// tasks than keep all threads busy.
std::int64_t attended_queries(const Blocks& b, int threads) {
  constexpr std::int64_t kLeast = 128, kMostElements = 1 << 17, kTasksPerThread = 4;
  std::int64_t queries = kLeast;
  while (2 * queries * b.p.head_size() <= kMostElements) queries *= 2;
  const auto tasks = [&] { return b.p.batch() * b.p.heads() * ceil_div(b.p.queries(), queries); };
  while (queries >= 2 * kLeast && tasks() < kTasksPerThread * threads) queries /= 2;
  return std::min(queries, b.p.queries());
}

struct AttendMemory {
  float *largest, *inverse_sum;
  char* kernel;

  AttendMemory(const Blocks& b, const kernels::QueryBlock& sizes, Scratch& s) {
    largest = s.take<float>(sizes.queries);
    inverse_sum = s.take<float>(sizes.queries);
    kernel = s.take<char>(static_cast<std::int64_t>(b.kernels.attend_scratch(sizes)));
  }
};

kernels::QueryBlock sizes_of(const Blocks& b, std::int64_t queries) {
  kernels::QueryBlock block;
  block.type = b.p.q.type;
  block.queries = queries;
  block.keys = b.p.keys();
  block.head_size = b.p.head_size();
  return block;
}

std::size_t attend_scratch(const Blocks& b, std::int64_t queries) {
  Scratch s(nullptr);
  AttendMemory(b, sizes_of(b, queries), s);
  return s.bytes();
}

void attend(const Call& call, std::int64_t head, std::int64_t query, std::int64_t queries, void* scratch,
            SharedLargest& s, SharedLargest& o) {
  const Problem& p = call.b.p;
  kernels::QueryBlock block = sizes_of(call.b, std::min(queries, p.queries() - query));
  Scratch memory(scratch);
  const AttendMemory m(call.b, block, memory);
  const auto set = [&](const TensorDesc& t, const void* data, std::int64_t first, auto& start, std::int64_t& pitch) {
    const Matrix rows = call.rows(t, data, head, first, 0, nullptr);
    start = rows.data;
    pitch = rows.pitch;
  };
  set(p.q, call.a.q, query, block.q, block.q_pitch);
  set(p.k, call.a.k, 0, block.k, block.k_pitch);
  set(p.v, call.a.v, 0, block.v, block.v_pitch);
  set(p.o, call.a.o, query, block.o, block.o_pitch);
  if (p.has_bias()) {
    block.bias = call.bias(head, query);
    block.bias_pitch = p.bias.strides[2];
  }
  block.visible = call.a.mask == Mask::kCausal ? query + 1 : p.keys();
  block.scale = static_cast<float>(call.score_scale());
  block.factor = result_factor(call, true);
  block.result_scale = call.value(Scalar::kScaleO);
  block.largest = m.largest;
  block.inverse_sum = m.inverse_sum;
  o.add(call.b.kernels.attend(block, m.kernel));
  s.add(store_statistics(call, head, query, block.queries, m.largest, m.inverse_sum));
}

}  // namespace

std::size_t forward_scratch(const Blocks& b, int threads) {
  Scratch s(nullptr);
  Memory(b, s);
  return b.attends ? std::max(s.bytes(), attend_scratch(b, attended_queries(b, threads))) : s.bytes();
}

void run_forward(Stream& stream, const Call& call) {
  const Blocks& b = call.b;
  const bool attends = b.attends && call.dropout == nullptr;
  const std::int64_t queries = attends ? attended_queries(b, stream.threads()) : b.queries;
  const std::int64_t blocks = ceil_div(b.p.queries(), queries), heads = b.p.batch() * b.p.heads();
  const auto tasks = static_cast<std::size_t>(heads * blocks);
  SharedLargest s, o;
  stream.parallel_for(tasks, forward_scratch(b, stream.threads()), [&](std::size_t i, void* scratch) {
    const auto task = static_cast<std::int64_t>(i);
    const std::int64_t head = task % heads, query = (blocks - 1 - task / heads) * queries;  // first the longest ones
    if (attends) return attend(call, head, query, queries, scratch, s, o);
    const Task done(call, head, query, scratch);
    s.add(done.largest_s());
    o.add(done.largest_o());
  });
  if (void* const at = call.a.largest(Amax::kS)) dtype::write(at, 0, s.get());
  if (void* const at = call.a.largest(Amax::kO)) dtype::write(at, 0, o.get());
}

}  // namespace polymio::mha
