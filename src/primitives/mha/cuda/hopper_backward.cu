// Gradients of attention on sm90, in two passes that compute the weights again: AttentionQueryGradient has 64 queries
// of a head per consumer warpgroup and stores dq and, for the other pass, what it needs of each query;
// AttentionKeyGradient has 64 keys per consumer and stores dk and dv. A producer thread loads tiles into a ring of
// slots. Weights and gradients of scores stay in registers. Results do not depend on the order of blocks.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/sm90/attention.cuh"
#include "kernels/gpu/sm90/bulk_copy.cuh"

namespace sm90 {

/// What the second pass needs of a query: a rounded weight is kWeight * weight_of(score, kShift), the rounded gradient
/// of the score weight_of(..) * (kFactor * dp + kMinus).
enum Term { kShift, kWeight, kFactor, kMinus, kTerms };

struct GradientArguments {
  TensorMap q, k, v, dout;
  AttentionShape shape;
  int term_rows;  // of each term of a head
  AttentionStrides of_o, of_dout, of_dq, of_dk, of_dv, of_bias;
  const Scalars* scalars;
  const float *bias, *m, *z_inv;
  const u16 *o, *dout_data;
  u16 *dq, *dk, *dv;
  float *terms, *magnitudes;
  u32* taken;
  int works;
};

DEVICE float* terms_of(const GradientArguments& a, const Head& head, int term) {
  return a.terms + (i64(head.number) * kTerms + term) * a.term_rows;
}

template <class Element, int kHead, int kConsumers, int kKeys, int kSlots, bool kBias>
struct AttentionQueryGradient : AttentionBlock<kHead, kConsumers, kKeys, kSlots, 2> {
  static constexpr int kResident = 1;
  using Arguments = GradientArguments;

 private:
  using Block = AttentionBlock<kHead, kConsumers, kKeys, kSlots, 2>;
  using Place = QueryPlace<Block::kRows, kKeys>;

  static DEVICE void produce(const Arguments& a, int work, RingPosition<kSlots>& at) {
    const Place p(a.shape, work);
    Block::load_rows(0, a.q, p.head, p.first);
    Block::load_rows(1, a.dout, p.head, p.first);
    NO_UNROLL
    for (int i = 0; i < 2 * p.tiles; ++i) Block::load_tile(at, i % 2 ? a.v : a.k, p.head, i / 2 * kKeys);
  }

  /// What a thread needs of its two rows: the gradient of a score is weight_of(score, shift) * (of_dp * dp + minus).
  struct Terms {
    float shift[2], of_dp[2], minus[2];
  };

  /// Makes the terms of the thread's rows, and those of the other pass. Four lanes share rows; the first stores them.
  static DEVICE void make_terms(const Arguments& a, const Head& head, int query, Terms& terms) {
    const float* const scalars = a.scalars->value;
    const float scale_ds = scalars[SCALE_DS], of_dp = a.shape.scale * scalars[DESCALE_DO] * scalars[DESCALE_V];
    const float of_weights = scalars[SCALE_S] * (a.scalars->drops ? a.scalars->dropout.kept : 1.0f);
    const AttentionShape& s = a.shape;
    const float of_delta = a.scalars->value[DESCALE_DO] * a.scalars->value[DESCALE_O];
    UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = query + 8 * half;
      const bool inside = row < s.queries;
      const u16* const o = a.o + head.start(a.of_o) + row * a.of_o.token;
      const u16* const dout = a.dout_data + head.start(a.of_dout) + row * a.of_dout.token;
      float sum = 0;
      UNROLL
      for (int e = 8 * (threadIdx.x % 4); e < kHead; e += 32) {
        if (!inside || e >= s.head_size) continue;
        const uint4 x = *reinterpret_cast<const uint4*>(o + e), y = *reinterpret_cast<const uint4*>(dout + e);
        const u32 of_o[4] = {x.x, x.y, x.z, x.w}, of_dout[4] = {y.x, y.y, y.z, y.w};
        UNROLL
        for (int i = 0; i < 4; ++i)
          sum += Element::low(of_o[i]) * Element::low(of_dout[i]) + Element::high(of_o[i]) * Element::high(of_dout[i]);
      }
      sum = quad_sum(sum);
      const i64 at = i64(head.number) * s.queries + row;
      const float m = inside ? a.m[at] : minus_infinity();
      // A query with this maximum sees nothing.
      const bool sees = m != minus_infinity();
      const float factor = sees ? a.z_inv[at] : 0.0f;
      terms.shift[half] = sees ? shift_of<kBias>(m, kLog2E) : m;
      terms.of_dp[half] = factor * of_dp;
      terms.minus[half] = sees ? -sum * of_delta * s.scale * factor : 0.0f;
      if (threadIdx.x % 4 > 0) continue;
      terms_of(a, head, kShift)[row] = terms.shift[half];
      terms_of(a, head, kWeight)[row] = factor * of_weights;
      terms_of(a, head, kFactor)[row] = terms.of_dp[half] * scale_ds;
      terms_of(a, head, kMinus)[row] = terms.minus[half] * scale_ds;
    }
  }

  static DEVICE void consume(const Arguments& a, int work, int consumer, RingPosition<kSlots>& at) {
    const AttentionShape& shape = a.shape;
    const Place p(shape, work);
    const int first = p.first + 64 * consumer, query = first + own_row();
    const Scaling<kBias> scaling(shape, *a.scalars);
    const float to_powers = scaling.to_powers(), scale_ds = a.scalars->value[SCALE_DS];
    const bool drops = a.scalars->drops;
    Terms terms;
    make_terms(a, p.head, query, terms);
    float s[kKeys / 2], dp[kKeys / 2], dq[kHead / 2], largest = 0;
    u32 gradients[kKeys / 16][4];
    UNROLL
    for (int i = 0; i < kHead / 2; ++i) dq[i] = 0;
    int before = 0;  // the slot of the keys of the tile before
    NO_UNROLL
    for (int i = 0; i < p.tiles; ++i) {
      const int of_keys = at.slot, key = i * kKeys;
      Block::full(of_keys).wait(at.parity);
      Block::multiply_rows(s, consumer, 0, of_keys);
      at.advance();
      const int of_values = at.slot;
      Block::full(of_values).wait(at.parity);
      Block::multiply_rows(dp, consumer, 1, of_values);
      at.advance();
      wait_for_products<1>();
      if (i > 0) Block::release(before);
      before = of_keys;

      make_scores(s, a, scaling, p.head, first, query, key);
      UNROLL
      for (int n = 0; n < kKeys / 2; ++n) s[n] = weight_of<kBias>(s[n], terms.shift[n / 2 % 2], to_powers);
      wait_for_products<0>();
      Block::release(of_values);
      if (i + 1 == p.tiles) Block::release_rows();
      if (drops) {
        const u64 number = score_number(shape, p.head, query, key + own_column());
        UNROLL
        for (int part = 0; part < kKeys / 64; ++part) {
          const u32 kept = kept_scores(a.scalars, part, number, shape.keys, 1);
          UNROLL
          for (int n = 0; n < 32; ++n) dp[32 * part + n] *= (kept >> n & 1) ? a.scalars->dropout.kept : 0.0f;
        }
      }
      UNROLL
      for (int n = 0; n < kKeys / 2; ++n) {
        s[n] *= FMA(dp[n], terms.of_dp[n / 2 % 2], terms.minus[n / 2 % 2]);
        largest = fmaxf(largest, fabsf(s[n]));
        s[n] *= scale_ds;
      }
      pack<Element, kKeys>(gradients, s);
      Block::add_tile(dq, gradients, of_keys);
    }
    wait_for_products<0>();
    Block::release(before);

    const float factor = a.scalars->value[DESCALE_DS] * a.scalars->value[DESCALE_K], factors[2] = {factor, factor};
    u16* const to = a.dq + p.head.start(a.of_dq) + query * a.of_dq.token;
    const float largest_dq = store_sums<Element, kHead>(dq, to, a.of_dq.token, query, shape.queries, shape.head_size,
                                                        factors, a.scalars->value[SCALE_DQ]);
    Block::keep_largest(largest_dq, largest);
  }

 public:
  static DEVICE void run(const Arguments& a) {
    RingPosition<kSlots> at;
    Block::run(
        a.taken, a.works, a.magnitudes, [&](int work) { produce(a, work, at); },
        [&](int work, int consumer) { consume(a, work, consumer, at); });
  }
};

/// Scores are transposed: rows are keys, columns queries.
template <class Element, int kHead, int kConsumers, int kQueries, int kSlots, bool kBias>
struct AttentionKeyGradient : AttentionBlock<kHead, kConsumers, kQueries, kSlots, 2, kTerms * kQueries * 4> {
  static constexpr int kResident = 1;
  using Arguments = GradientArguments;

 private:
  static constexpr u32 kTermBytes = kQueries * sizeof(float);  // a term of a tile
  using Block = AttentionBlock<kHead, kConsumers, kQueries, kSlots, 2, kTerms * kTermBytes>;
  static constexpr int kRows = Block::kRows;

  /// Of a work: a head, its first key, the first query that sees it, and the number of tiles of queries.
  struct Place {
    Head head;
    int first, first_query, tiles;

    DEVICE Place(const AttentionShape& s, int work) : head(0, 1) {
      const int works = (s.keys + kRows - 1) / kRows;
      head = Head(work / works, s.heads);
      first = work % works * kRows;
      first_query = s.causal ? first / kQueries * kQueries : 0;
      tiles = max(0, s.queries - first_query + kQueries - 1) / kQueries;
    }
  };

  static DEVICE void produce(const Arguments& a, int work, RingPosition<kSlots>& at) {
    const Place p(a.shape, work);
    Block::load_rows(0, a.k, p.head, p.first);
    Block::load_rows(1, a.v, p.head, p.first);
    NO_UNROLL
    for (int i = 0; i < p.tiles; ++i) {
      const int query = p.first_query + i * kQueries, slot = at.slot;
      Block::load_tile(at, a.q, p.head, query, kTerms * kTermBytes);
      UNROLL
      for (int t = 0; t < kTerms; ++t)
        load_bulk(Block::extra(slot) + t * kTermBytes, terms_of(a, p.head, t) + query, kTermBytes, Block::full(slot));
      Block::load_tile(at, a.dout, p.head, query);
    }
  }

  static DEVICE void consume(const Arguments& a, int work, int consumer, RingPosition<kSlots>& at) {
    const AttentionShape& shape = a.shape;
    const Place p(shape, work);
    const int first = p.first + 64 * consumer, key = first + own_row();
    const Scaling<kBias> scaling(shape, *a.scalars);
    const bool drops = a.scalars->drops;
    const float to_powers = scaling.to_powers();
    float s[kQueries / 2], dp[kQueries / 2], dk[kHead / 2], dv[kHead / 2];
    u32 weights[kQueries / 16][4], gradients[kQueries / 16][4];
    UNROLL
    for (int i = 0; i < kHead / 2; ++i) dk[i] = dv[i] = 0;
    if (p.tiles == 0) Block::release_rows();
    NO_UNROLL
    for (int i = 0; i < p.tiles; ++i) {
      const int of_queries = at.slot, query = p.first_query + i * kQueries, own_query = query + own_column();
      u32 kept[kQueries / 64];
      if (drops) {
        UNROLL
        for (int part = 0; part < kQueries / 64; ++part)
          kept[part] = kept_scores(a.scalars, part, score_number(shape, p.head, own_query, key), 1, shape.keys);
      }
      Block::full(of_queries).wait(at.parity);
      Block::multiply_rows(s, consumer, 0, of_queries);
      at.advance();
      if constexpr (kBias) {  // before the next product needs registers
        wait_for_products<0>();
        Scaling<true>(shape, *a.scalars).apply(s);
        add_bias(s, a.bias + p.head.start(a.of_bias) + own_query * a.of_bias.token + key, 1, a.of_bias.token,
                 shape.keys - key, shape.queries - own_query);
      }
      const int of_douts = at.slot;
      Block::full(of_douts).wait(at.parity);
      Block::multiply_rows(dp, consumer, 1, of_douts);
      at.advance();
      wait_for_products<1>();

      if constexpr (!kBias) scaling.apply(s);
      if (shape.causal && query < first + 63) {
        UNROLL
        for (int half = 0; half < 2; ++half) hide_columns_before(s, half, key + 8 * half - own_query);
      }
      // Of the n-th two queries of the thread.
      const auto term = [&, at = shared_address(Block::extra(of_queries)) + own_column() * 4](int t, int n) {
        return load_shared<float2>(at + t * kTermBytes + n * 32);
      };
      UNROLL
      for (int n = 0; n < kQueries / 8; ++n) {
        const float2 shift = term(kShift, n);
        UNROLL
        for (int h = 0; h < 2; ++h) {
          float &low = s[4 * n + 2 * h], &high = s[4 * n + 2 * h + 1];
          low = weight_of<kBias>(low, shift.x, to_powers);
          high = weight_of<kBias>(high, shift.y, to_powers);
        }
      }
      UNROLL
      for (int n = 0; n < kQueries / 8; ++n) {
        const float2 weight = term(kWeight, n);
        UNROLL
        for (int h = 0; h < 2; ++h)
          weights[n / 2][n % 2 * 2 + h] = Element::pack(s[4 * n + 2 * h] * weight.x, s[4 * n + 2 * h + 1] * weight.y);
      }
      if (drops) {
        UNROLL
        for (int n = 0; n < kQueries / 4; ++n) {
          const u32 bits = kept[n / 16] >> n % 16 * 2;
          weights[n / 4][n % 4] &= (bits & 1 ? 0xffffu : 0u) | (bits & 2 ? 0xffff0000u : 0u);
        }
      }
      Block::add_tile(dv, weights, of_douts);
      wait_for_products<1>();
      if (i + 1 == p.tiles) Block::release_rows();
      if (drops) {
        UNROLL
        for (int n = 0; n < kQueries / 2; ++n) dp[n] *= kept[n / 32] >> n % 32 & 1 ? a.scalars->dropout.kept : 0.0f;
      }
      UNROLL
      for (int n = 0; n < kQueries / 8; ++n) {
        const float2 factor = term(kFactor, n), minus = term(kMinus, n);
        UNROLL
        for (int h = 0; h < 2; ++h) {
          const int low = 4 * n + 2 * h, high = low + 1;
          s[low] *= FMA(dp[low], factor.x, minus.x);
          s[high] *= FMA(dp[high], factor.y, minus.y);
        }
      }
      pack<Element, kQueries>(gradients, s);
      Block::add_tile(dk, gradients, of_queries);
      wait_for_products<0>();
      Block::release(of_queries);
      Block::release(of_douts);
    }

    const Scalars& scalars = *a.scalars;
    const float of_k = scalars.value[DESCALE_DS] * scalars.value[DESCALE_Q];
    const float of_v = scalars.value[DESCALE_S] * scalars.value[DESCALE_DO];
    const float k_factors[2] = {of_k, of_k}, v_factors[2] = {of_v, of_v};
    const float largest_dk =
        store_sums<Element, kHead>(dk, a.dk + p.head.start(a.of_dk) + key * a.of_dk.token, a.of_dk.token, key,
                                   shape.keys, shape.head_size, k_factors, scalars.value[SCALE_DK]);
    const float largest_dv =
        store_sums<Element, kHead>(dv, a.dv + p.head.start(a.of_dv) + key * a.of_dv.token, a.of_dv.token, key,
                                   shape.keys, shape.head_size, v_factors, scalars.value[SCALE_DV]);
    Block::keep_largest(largest_dk, largest_dv);
  }

  /// The first columns of a row, `hidden` from the thread's own first one on, are not seen.
  static DEVICE void hide_columns_before(float (&s)[kQueries / 2], int half, int hidden) {
    UNROLL
    for (int i = 0; i < kQueries / 4; ++i)
      if (i / 2 * 8 + i % 2 < hidden) s[i / 2 * 4 + 2 * half + i % 2] = minus_infinity();
  }

 public:
  static DEVICE void run(const Arguments& a) {
    RingPosition<kSlots> at;
    Block::run(
        a.taken, a.works, a.magnitudes, [&](int work) { produce(a, work, at); },
        [&](int work, int consumer) { consume(a, work, consumer, at); });
  }
};

}  // namespace sm90
