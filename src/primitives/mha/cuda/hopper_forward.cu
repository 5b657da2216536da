// Attention on sm90: a work is 64 queries of a head per consumer warpgroup. A producer thread loads the queries and
// then tiles of keys and values in turn into a ring of slots. Consumers compute the scores of a tile (wgmma) while
// values are still added to the result with the weights of the tile before; weights stay in registers.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/sm90/attention.cuh"

namespace sm90 {

/// kHead: the head size, rounded up to a multiple of 16. kPingPong: two consumers issue their products alternately, so
/// that one computes weights while the other multiplies.
template <class Element, int kHead, int kConsumers, int kKeys, int kSlots, bool kPingPong, bool kBias>
struct AttentionForward : AttentionBlock<kHead, kConsumers, kKeys, kSlots, 1> {
  static constexpr int kResident = 1;

  struct Arguments {
    TensorMap q, k, v;
    AttentionShape shape;
    AttentionStrides of_o, of_bias;
    const Scalars* scalars;
    const float* bias;
    u16* o;
    float *m, *z_inv, *magnitudes;
    u32* taken;
    int works;
  };

 private:
  using Block = AttentionBlock<kHead, kConsumers, kKeys, kSlots, 1>;
  using Place = QueryPlace<Block::kRows, kKeys>;
  static_assert(!kPingPong || kConsumers > 1);
  static constexpr int kTurn = Block::kLastBarrier + 1;  // number of a barrier for each consumer

  static DEVICE void produce(const Arguments& a, int work, RingPosition<kSlots>& at) {
    const Place p(a.shape, work);
    Block::load_rows(0, a.q, p.head, p.first);
    Block::load_tile(at, a.k, p.head, 0);
    NO_UNROLL
    for (int i = 1; i < p.tiles; ++i) {
      Block::load_tile(at, a.k, p.head, i * kKeys);
      Block::load_tile(at, a.v, p.head, (i - 1) * kKeys);
    }
    Block::load_tile(at, a.v, p.head, (p.tiles - 1) * kKeys);
  }

  /// What a consumer knows of its rows.
  struct Rows {
    const Arguments& a;
    const Head& head;
    const int first, query;  // of the warpgroup and of the thread
    const Scaling<kBias> scaling;
    const bool drops;
    float largest[2], sum[2];  // of scores; of weights, of this lane
    float rescale[2];          // of sums of tiles before the last

    DEVICE Rows(const Arguments& arguments, const Place& p, int consumer)
        : a(arguments),
          head(p.head),
          first(p.first + 64 * consumer),
          query(first + own_row()),
          scaling(a.shape, *a.scalars),
          drops(a.scalars->drops),
          largest{minus_infinity(), minus_infinity()},
          sum{} {}

    /// Products of the keys from `key` on become weights.
    DEVICE void weigh(float (&s)[kKeys / 2], int key) {
      make_scores(s, a, scaling, head, first, query, key);
      const float to_powers = scaling.to_powers();
      UNROLL
      for (int half = 0; half < 2; ++half) {
        float most = largest[half];
        UNROLL
        for (int i = 0; i < kKeys / 4; ++i) most = fmaxf(most, s[i / 2 * 4 + 2 * half + i % 2]);
        most = quad_max(most);
        const float shift = most == minus_infinity() ? 0.0f : shift_of<kBias>(most, to_powers);
        rescale[half] = most == largest[half] ? 1.0f : weight_of<kBias>(largest[half], shift, to_powers);
        largest[half] = most;
        float total = 0;
        UNROLL
        for (int i = 0; i < kKeys / 4; ++i) {
          float& v = s[i / 2 * 4 + 2 * half + i % 2];
          v = weight_of<kBias>(v, shift, to_powers);
          total += v;
        }
        sum[half] = FMA(sum[half], rescale[half], total);
      }
    }

    /// The factor of kept weights is left to the results.
    DEVICE void drop(float (&s)[kKeys / 2], int key) const {
      if (!drops) return;
      const u64 number = score_number(a.shape, head, query, key + own_column());
      UNROLL
      for (int part = 0; part < kKeys / 64; ++part) {
        const u32 kept = kept_scores(a.scalars, part, number, a.shape.keys, 1);
        UNROLL
        for (int i = 0; i < 32; ++i)
          if ((kept >> i & 1) == 0) s[32 * part + i] = 0;
      }
    }
  };

  static DEVICE void consume(const Arguments& a, int work, int consumer, RingPosition<kSlots>& at) {
    const Place p(a.shape, work);
    Rows rows(a, p, consumer);
    float s[kKeys / 2], o[kHead / 2];
    u32 weights[kKeys / 16][4];
    Block::full(at.slot).wait(at.parity);
    Block::multiply_rows(s, consumer, 0, at.slot);
    wait_for_products<0>();
    Block::release(at.slot);
    if (p.tiles == 1) Block::release_rows();
    at.advance();
    rows.weigh(s, 0);
    rows.drop(s, 0);
    pack<Element, kKeys>(weights, s);
    NO_UNROLL
    for (int i = 1; i < p.tiles; ++i) {
      const int of_keys = at.slot;
      Block::full(of_keys).wait(at.parity);
      at.advance();
      const int of_values = at.slot;
      if (kPingPong && i + consumer > 1) meet(kTurn + consumer, 256);
      Block::multiply_rows(s, consumer, 0, of_keys);
      Block::full(of_values).wait(at.parity);
      at.advance();
      Block::add_tile(o, weights, of_values, i > 1);
      if (kPingPong && (consumer + 1 < kConsumers || i + 1 < p.tiles)) signal(kTurn + (consumer + 1) % kConsumers, 256);
      wait_for_products<1>();
      Block::release(of_keys);
      if (i + 1 == p.tiles) Block::release_rows();
      rows.weigh(s, i * kKeys);
      wait_for_products<0>();
      Block::release(of_values);
      rows.drop(s, i * kKeys);
      UNROLL
      for (int n = 0; n < kHead / 2; ++n) o[n] *= rows.rescale[n / 2 % 2];
      pack<Element, kKeys>(weights, s);
    }
    Block::full(at.slot).wait(at.parity);
    Block::add_tile(o, weights, at.slot, p.tiles > 1);
    wait_for_products<0>();
    Block::release(at.slot);
    at.advance();
    store(a, p, rows, o);
  }

  static DEVICE void store(const Arguments& a, const Place& p, const Rows& rows, const float (&o)[kHead / 2]) {
    const Scalars& scalars = *a.scalars;
    const float of_values = scalars.value[DESCALE_S] * scalars.value[DESCALE_V] * scalars.value[SCALE_S] *
                            (rows.drops ? scalars.dropout.kept : 1.0f);
    float largest_s = 0, factor[2];
    UNROLL
    for (int half = 0; half < 2; ++half) {
      const int query = rows.query + 8 * half;
      const float inverse = 1 / quad_sum(rows.sum[half]);
      factor[half] = of_values * inverse;
      if (query >= a.shape.queries) continue;
      largest_s = fmaxf(largest_s, inverse);
      if (a.shape.has_statistics && threadIdx.x % 4 == 0) {
        const i64 row = i64(p.head.number) * a.shape.queries + query;
        a.m[row] = rows.scaling.multiplies ? rows.largest[half] : rows.largest[half] * rows.scaling.factor;
        a.z_inv[row] = inverse;
      }
    }
    u16* const to = a.o + p.head.start(a.of_o) + rows.query * a.of_o.token;
    const float largest_o = store_sums<Element, kHead>(o, to, a.of_o.token, rows.query, a.shape.queries,
                                                       a.shape.head_size, factor, scalars.value[SCALE_O]);
    Block::keep_largest(largest_s, largest_o);
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
