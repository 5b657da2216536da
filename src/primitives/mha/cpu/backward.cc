// The weights of every block are computed again from the statistics of the forward pass. Heads that keep all threads
// busy are tasks: five products per block. Else two passes, over blocks of queries for dq and blocks of keys for dk and
// dv, with seven. The order of sums is the same, and so are the results.
// SPDX-License-Identifier: MIT
#include <algorithm>

#include "primitives/mha/cpu/blocks.h"
#include "primitives/mha/solvers.h"

namespace polymio::mha {
namespace {

constexpr std::int64_t kMostSums = std::int64_t{1} << 21;  // elements of dq per thread

struct Largest {
  float dq = 0, dk = 0, dv = 0, ds = 0;
};

struct Memory {
  char* gemm;
  float *scores, *gradients, *dq, *dk, *dv, *delta;
  std::uint16_t *q, *k, *v, *dout;

  Memory(const Blocks& b, std::int64_t queries, Scratch& s) {
    const std::int64_t d = b.p.head_size(), copied = b.is_fp8() ? d : 0;
    gemm = s.take<char>(static_cast<std::int64_t>(b.gemm_bytes));
    scores = s.take<float>(b.queries * b.score_pitch());
    gradients = s.take<float>(b.queries * b.score_pitch());
    dq = s.take<float>(queries * d);
    dk = s.take<float>(b.keys * d);
    dv = s.take<float>(b.keys * d);
    delta = s.take<float>(b.p.queries());
    q = s.take<std::uint16_t>(b.queries * copied);
    dout = s.take<std::uint16_t>(b.queries * copied);
    k = s.take<std::uint16_t>(b.keys * copied);
    v = s.take<std::uint16_t>(b.keys * copied);
  }
};

struct Range {
  std::int64_t first, end;
};

/// The gradients of a range of queries (dq) and keys (dk, dv) of a head, of which all or one kind is wanted.
class Task {
 public:
  Task(const Call& call, std::int64_t head, Range queries, Range keys, bool wants_q, bool wants_kv, Memory& m)
      : call_(call), b_(call.b), p_(call.b.p), a_(call.a), head_(head), queries_(queries), m_(m) {
    set_delta();
    for (std::int64_t key = keys.first; key < keys.end; key += b_.keys) add(key, wants_q, wants_kv);
    if (!wants_q) return;
    const float factor = call.value(Scalar::kDescaleDS) * call.value(Scalar::kDescaleK);
    largest_.dq = call.store(m.dq, nullptr, factor, call.value(Scalar::kScaleDQ), p_.dq, a_.dq, head, queries.first,
                             queries.end - queries.first);
  }
  const Largest& largest() const { return largest_; }

 private:
  std::int64_t rows_of(std::int64_t query) const { return std::min(b_.queries, queries_.end - query); }

  void set_delta() {
    const float factor = call_.value(Scalar::kDescaleDO) * call_.value(Scalar::kDescaleO);
    for (std::int64_t query = queries_.first; query < queries_.end; query += b_.queries) {
      const Matrix o = call_.rows(p_.o, a_.o, head_, query, rows_of(query), m_.q);
      const Matrix dout = call_.rows(p_.dout, a_.dout, head_, query, rows_of(query), m_.dout);
      b_.kernels.dot_rows(o.type, o.data, o.pitch, dout.data, dout.pitch, rows_of(query), p_.head_size(), factor,
                          m_.delta + query - queries_.first);
    }
  }

  void add(std::int64_t key, bool wants_q, bool wants_kv) {
    const std::int64_t columns = std::min(b_.keys, p_.keys() - key), d = p_.head_size();
    const Matrix k = call_.rows(p_.k, a_.k, head_, key, columns, m_.k);
    const Matrix v = call_.rows(p_.v, a_.v, head_, key, columns, m_.v);
    bool is_first = true;
    for (std::int64_t query = queries_.first; query < queries_.end; query += b_.queries) {
      if (!call_.sees(query, rows_of(query), key)) continue;
      const std::int64_t rows = rows_of(query);
      const Matrix q = call_.rows(p_.q, a_.q, head_, query, rows, m_.q);
      const Matrix dout = call_.rows(p_.dout, a_.dout, head_, query, rows, m_.dout);
      weigh(q, k, v, dout, query, rows, key, columns);
      const DataType type = b_.weights();
      const std::int64_t pitch = b_.score_pitch() * (type == DataType::kBFloat16 ? 2 : 1);
      const Matrix weights{type, m_.scores, pitch}, gradients{type, m_.gradients, pitch};
      if (wants_kv) {
        using enum Call::Form;
        call_.multiply(kTransposedA, weights, dout, m_.dv, d, columns, d, rows, 1, is_first ? 0 : 1, m_.gemm);
        call_.multiply(kTransposedA, gradients, q, m_.dk, d, columns, d, rows, 1, is_first ? 0 : 1, m_.gemm);
      }
      if (wants_q)
        call_.multiply(Call::Form::kPlain, gradients, k, m_.dq + (query - queries_.first) * d, d, rows, d, columns, 1,
                       key > 0 ? 1 : 0, m_.gemm);
      is_first = false;
    }
    if (wants_kv) store_keys(key, columns, is_first);
  }

  /// Weights and gradients of the scores of a block.
  void weigh(const Matrix& q, const Matrix& k, const Matrix& v, const Matrix& dout, std::int64_t query,
             std::int64_t rows, std::int64_t key, std::int64_t columns) {
    const kernels::ScoreBlock block = call_.scores(q, k, m_.scores, head_, query, rows, key, columns, m_.gemm);
    const double alpha = call_.value(Scalar::kDescaleDO) * call_.value(Scalar::kDescaleV);
    call_.multiply(Call::Form::kTransposedB, dout, v, m_.gradients, b_.score_pitch(), rows, columns, p_.head_size(),
                   alpha, 0, m_.gemm);
    const std::int64_t row = head_ * p_.queries() + query;
    const kernels::GradientBlock how{static_cast<const float*>(a_.m) + row, static_cast<const float*>(a_.z_inv) + row,
                                     m_.delta + query - queries_.first,     m_.gradients,
                                     call_.value(Scalar::kScaleS),          static_cast<float>(a_.scale),
                                     call_.value(Scalar::kScaleDS)};
    largest_.ds = std::max(largest_.ds, b_.kernels.differentiate(block, how));
    if (!b_.is_fp8()) return;
    call_.quantise(block, m_.scores);
    call_.quantise(block, m_.gradients);
  }

  void store_keys(std::int64_t key, std::int64_t columns, bool is_empty) {
    const std::int64_t d = p_.head_size();
    if (is_empty) {
      std::fill_n(m_.dk, columns * d, 0.0f);
      std::fill_n(m_.dv, columns * d, 0.0f);
    }
    const float k_factor = call_.value(Scalar::kDescaleDS) * call_.value(Scalar::kDescaleQ);
    const float v_factor = call_.value(Scalar::kDescaleS) * call_.value(Scalar::kDescaleDO);
    const float dk =
        call_.store(m_.dk, nullptr, k_factor, call_.value(Scalar::kScaleDK), p_.dk, a_.dk, head_, key, columns);
    const float dv =
        call_.store(m_.dv, nullptr, v_factor, call_.value(Scalar::kScaleDV), p_.dv, a_.dv, head_, key, columns);
    largest_.dk = std::max(largest_.dk, dk);
    largest_.dv = std::max(largest_.dv, dv);
  }

  const Call& call_;
  const Blocks& b_;
  const Problem& p_;
  const Problem::Args& a_;
  const std::int64_t head_;
  const Range queries_;
  Memory& m_;
  Largest largest_;
};

bool has_head_tasks(const Blocks& b, int threads) {
  const std::int64_t heads = b.p.batch() * b.p.heads();
  const bool is_balanced = heads % threads == 0 || heads >= 4 * threads;
  return is_balanced && b.p.queries() * b.p.head_size() <= kMostSums;
}

std::size_t scratch_of(const Blocks& b, std::int64_t queries) {
  Scratch s(nullptr);
  Memory(b, queries, s);
  return s.bytes();
}

}  // namespace

std::size_t backward_scratch(const Blocks& b, int threads) {
  return scratch_of(b, has_head_tasks(b, threads) ? b.p.queries() : b.queries);
}

void run_backward(Stream& stream, const Call& call) {
  const Blocks& b = call.b;
  const Problem& p = b.p;
  const std::int64_t heads = p.batch() * p.heads();
  SharedLargest dq, dk, dv, ds;
  const auto run = [&](std::int64_t head, Range queries, Range keys, bool wants_q, bool wants_kv, std::int64_t rows,
                       void* scratch) {
    Scratch s(scratch);
    Memory m(b, rows, s);
    const Largest seen = Task(call, head, queries, keys, wants_q, wants_kv, m).largest();
    dq.add(seen.dq);
    dk.add(seen.dk);
    dv.add(seen.dv);
    ds.add(seen.ds);
  };
  const Range all_queries{0, p.queries()}, all_keys{0, p.keys()};
  const auto count = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  if (has_head_tasks(b, stream.threads())) {
    stream.parallel_for(count(heads), scratch_of(b, p.queries()), [&](std::size_t head, void* scratch) {
      run(static_cast<std::int64_t>(head), all_queries, all_keys, true, true, p.queries(), scratch);
    });
  } else {
    const std::int64_t query_blocks = b.query_blocks(), key_blocks = b.key_blocks();
    const std::size_t bytes = scratch_of(b, b.queries);
    stream.parallel_for(count(heads * query_blocks), bytes, [&](std::size_t i, void* scratch) {
      const auto task = static_cast<std::int64_t>(i);
      const std::int64_t first = (query_blocks - 1 - task / heads) * b.queries;
      run(task % heads, {first, std::min(first + b.queries, p.queries())}, all_keys, true, false, b.queries, scratch);
    });
    stream.parallel_for(count(heads * key_blocks), bytes, [&](std::size_t i, void* scratch) {
      const auto task = static_cast<std::int64_t>(i);
      const std::int64_t first = task / heads * b.keys;
      run(task % heads, all_queries, {first, std::min(first + b.keys, p.keys())}, false, true, b.queries, scratch);
    });
  }
  const std::pair<Amax, const SharedLargest&> results[] = {
      {Amax::kDQ, dq}, {Amax::kDK, dk}, {Amax::kDV, dv}, {Amax::kDS, ds}};
  for (const auto& [which, largest] : results)
    if (void* const at = call.a.largest(which)) dtype::write(at, 0, largest.get());
}

}  // namespace polymio::mha
