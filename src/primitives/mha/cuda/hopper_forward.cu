// Attention on sm90: a block has 64 queries of a head per consumer warpgroup. A producer thread loads the queries and
// then tiles of keys and values in turn into a ring of slots. Consumers compute the scores of a tile (wgmma) while
// values are still added to the result with the weights of the tile before; weights stay in registers.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/sm90/attention.cuh"

namespace sm90 {

/// kHead: the head size, rounded up to a multiple of 16. kPingPong: two consumers issue their products alternately, so
/// that one computes weights while the other multiplies.
template <class Element, int kHead, int kConsumers, int kKeys, int kSlots, bool kPingPong, bool kBias>
struct AttentionForward {
  static constexpr int kThreads = 128 * (1 + kConsumers), kResident = 1;

  struct Arguments {
    TensorMap q, k, v;
    AttentionShape shape;
    AttentionStrides of_o, of_bias;
    const Scalars* scalars;
    const float* bias;
    u16* o;
    float *m, *z_inv, *magnitudes;
  };

 private:
  static constexpr int kRows = 64 * kConsumers, kBoxes = kBoxesOf<kHead>;
  static constexpr u32 kQueryBox = kRows * kRowBytes, kKeyBox = kKeys * kRowBytes;
  static constexpr u32 kSlotBytes = kBoxes * kKeyBox;
  static_assert(kKeys % 64 == 0 && kHead % 16 == 0 && (!kPingPong || kConsumers == 2));
  enum Meeting { kTurn = 1, kEnd = 3 };  // numbers of barriers; the first has one per consumer

  // The queries, the ring, barriers, largest magnitudes of the warps.
  static constexpr u32 kRingAt = kBoxes * kQueryBox;
  static constexpr u32 kBarriersAt = kRingAt + kSlots * kSlotBytes;
  static constexpr u32 kPartsAt = kBarriersAt + (2 * kSlots + 1) * 8;

 public:
  static constexpr u32 kSharedBytes = kPartsAt + 4 * kConsumers * 8;

 private:
  static DEVICE unsigned char* shared() {
    extern __shared__ __align__(1024) unsigned char bytes[];
    return bytes;
  }
  static DEVICE Barrier& barrier(int i) { return reinterpret_cast<Barrier*>(shared() + kBarriersAt)[i]; }
  static DEVICE Barrier& full(int slot) { return barrier(slot); }
  static DEVICE Barrier& empty(int slot) { return barrier(kSlots + slot); }
  static DEVICE Barrier& queries() { return barrier(2 * kSlots); }
  static DEVICE u32 slot_address(int slot) { return shared_address(shared()) + kRingAt + slot * kSlotBytes; }

  using Place = QueryPlace<kRows, kKeys>;

  static DEVICE void produce(const Arguments& a, const Place& p) {
    queries().arrive_and_expect(kBoxes * kQueryBox);
    load_tokens<kHead>(shared_address(shared()), a.q, queries(), p.head, p.first, kRows);
    RingPosition<kSlots> at;
    const auto load = [&](const TensorMap& map, int tile) {
      empty(at.slot).wait(at.parity ^ 1);
      full(at.slot).arrive_and_expect(kSlotBytes);
      load_tokens<kHead>(slot_address(at.slot), map, full(at.slot), p.head, tile * kKeys, kKeys);
      at.advance();
    };
    load(a.k, 0);
    NO_UNROLL
    for (int i = 1; i < p.tiles; ++i) {
      load(a.k, i);
      load(a.v, i - 1);
    }
    load(a.v, p.tiles - 1);
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
        const float shift = most == minus_infinity() ? 0.0f : most * to_powers;
        rescale[half] = power_of_2(FMA(largest[half], to_powers, -shift));
        largest[half] = most;
        float total = 0;
        UNROLL
        for (int i = 0; i < kKeys / 4; ++i) {
          float& v = s[i / 2 * 4 + 2 * half + i % 2];
          v = power_of_2(FMA(v, to_powers, -shift));
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

  static DEVICE void release(int slot) {
    if (threadIdx.x % 32 == 0) empty(slot).arrive();
  }

  static DEVICE void consume(const Arguments& a, const Place& p, int consumer) {
    const u64 q = operand(shared_address(shared()) + consumer * 64 * kRowBytes),
              ring = operand(slot_address(0), kKeyBox);
    const auto of_slot = [&](int slot) { return ring + slot * (kSlotBytes / 16); };
    RingPosition<kSlots> at;
    Rows rows(a, p, consumer);
    float s[kKeys / 2], o[kHead / 2];
    u32 weights[kKeys / 16][4];
    queries().wait(0);
    full(0).wait(0);
    begin_products();
    multiply_tokens<kHead, kKeys>(s, q, kQueryBox, of_slot(0));
    commit_products();
    wait_for_products<0>();
    release(0);
    at.advance();
    rows.weigh(s, 0);
    rows.drop(s, 0);
    pack<Element, kKeys>(weights, s);
    NO_UNROLL
    for (int i = 1; i < p.tiles; ++i) {
      const int of_keys = at.slot;
      full(of_keys).wait(at.parity);
      at.advance();
      const int of_values = at.slot;
      if (kPingPong && i + consumer > 1) meet(kTurn + consumer, 256);
      begin_products();
      multiply_tokens<kHead, kKeys>(s, q, kQueryBox, of_slot(of_keys));
      commit_products();
      full(of_values).wait(at.parity);
      at.advance();
      begin_products();
      add_product<kHead, kKeys>(o, weights, of_slot(of_values), i > 1);
      commit_products();
      if (kPingPong && i + consumer < p.tiles) signal(kTurn + 1 - consumer, 256);
      wait_for_products<1>();
      release(of_keys);
      rows.weigh(s, i * kKeys);
      wait_for_products<0>();
      release(of_values);
      rows.drop(s, i * kKeys);
      UNROLL
      for (int n = 0; n < kHead / 2; ++n) o[n] *= rows.rescale[n / 2 % 2];
      pack<Element, kKeys>(weights, s);
    }
    full(at.slot).wait(at.parity);
    begin_products();
    add_product<kHead, kKeys>(o, weights, of_slot(at.slot), p.tiles > 1);
    commit_products();
    wait_for_products<0>();
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
    store_largest<kConsumers>(shared_address(shared()) + kPartsAt, kEnd, largest_s, largest_o, a.magnitudes);
  }

 public:
  static DEVICE void run(const Arguments& a) {
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);  // the same for all threads of a warp
    const Place p(a.shape);
    if (threadIdx.x == 0) {
      for (int i = 0; i < kSlots; ++i) {
        full(i).init(1);
        empty(i).init(4 * kConsumers);  // a warp each
      }
      queries().init(1);
      publish_barriers();
    }
    __syncthreads();
    if (warpgroup == 0) {
      give_registers<kConsumers == 2 ? 24 : 32>();
      if (threadIdx.x < 32 && elected()) produce(a, p);
    } else {
      take_registers<kConsumers == 2 ? 240 : 160>();
      consume(a, p, warpgroup - 1);
    }
  }
};

}  // namespace sm90
