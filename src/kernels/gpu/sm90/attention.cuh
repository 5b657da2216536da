// Attention on sm90: products of a warpgroup with 64 rows of a matrix of scores. A thread has rows lane / 4 and
// lane / 4 + 8 of its warp's 16, and pairs of columns 8 apart: element 4 * j + 2 * half + e of its sums is in column
// 8 * j + 2 * (lane % 4) + e. Algorithm: Dao, FlashAttention-2, 2023; Shah et al., FlashAttention-3, 2024.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/attention_shape.h"
#include "kernels/gpu/sm90/power.cuh"
#include "kernels/gpu/sm90/tensor_map.cuh"
#include "kernels/gpu/sm90/transpose.cuh"
#include "kernels/gpu/portable/attention_kept.h"

namespace sm90 {

constexpr float kLog2E = 1.4426950408889634f;

/// The thread's first row and column of the product of a warpgroup.
DEVICE int own_row() { return int(threadIdx.x) % 128 / 32 * 16 + int(threadIdx.x) % 32 / 4; }
DEVICE int own_column() { return 2 * int(threadIdx.x % 4); }

DEVICE float minus_infinity() { return FLOAT_OF_BITS(0xff800000u); }

/// Tiles of tokens are stored as boxes of 64 elements of the tokens' heads, 128 bytes each.
template <int kHead>
constexpr int kBoxesOf = (kHead + 63) / 64;

/// A head of all batches.
struct Head {
  int number, batch, head;  // number in all; head of the batch

  DEVICE Head(int n, int heads) : number(n), batch(n / heads), head(n % heads) {}
  DEVICE i64 start(const AttentionStrides& s) const { return batch * s.batch + head * s.head; }
};

/// Of a work: a head, its first query of kRows, and the number of tiles of keys. Works that see more keys come first.
template <int kRows, int kKeys>
struct QueryPlace {
  Head head;
  int first, tiles;

  DEVICE QueryPlace(const AttentionShape& s, int work) : head(0, 1) {
    const int works = (s.queries + kRows - 1) / kRows;
    head = Head(work / works, s.heads);
    first = (works - 1 - work % works) * kRows;
    const int end = s.causal ? min(s.keys, first + kRows) : s.keys;
    tiles = (end + kKeys - 1) / kKeys;
  }
};

template <int kHead>
DEVICE void load_tokens(u32 shared, const TensorMap& map, const Barrier& full, const Head& h, int token, int tokens) {
  UNROLL
  for (int b = 0; b < kBoxesOf<kHead>; ++b)
    load_box(shared + b * tokens * kRowBytes, map, full, 64 * b, token, h.head, h.batch);
}

DEVICE float of_lane(float v, int mask) { return FLOAT_OF_BITS(__shfl_xor_sync(~0u, BITS_OF_FLOAT(v), mask)); }
/// Of the four lanes that share rows.
DEVICE float quad_max(float v) {
  v = fmaxf(v, of_lane(v, 1));
  return fmaxf(v, of_lane(v, 2));
}
DEVICE float quad_sum(float v) {
  v += of_lane(v, 1);
  return v + of_lane(v, 2);
}

/// The shared memory of a persistent block, in which 64 rows of a consumer, tokens of kTensors tensors, are multiplied
/// with tiles of kTile tokens from a ring of slots. The producer takes works, each with other rows, from a counter.
template <int kHead, int kConsumers, int kTile, int kSlots, int kTensors, u32 kExtraBytes = 0>
struct AttentionBlock {
  static constexpr int kThreads = 128 * (1 + kConsumers), kRows = 64 * kConsumers, kBoxes = kBoxesOf<kHead>;
  static constexpr u32 kRowBox = kRows * kRowBytes, kTileBox = kTile * kRowBytes;
  static constexpr u32 kTensorBytes = kBoxes * kRowBox, kSlotBytes = kBoxes * kTileBox;
  static constexpr int kLastBarrier = 1;  // number; others are free for use
  static_assert(kTile % 64 == 0 && kHead % 16 == 0);

  // The rows, the ring, what else belongs to its slots, barriers, largest magnitudes of the warps, the work.
  static constexpr u32 kRingAt = kTensors * kTensorBytes;
  static constexpr u32 kExtraAt = kRingAt + kSlots * kSlotBytes;
  static constexpr u32 kBarriersAt = kExtraAt + kSlots * kExtraBytes;
  static constexpr u32 kPartsAt = kBarriersAt + (2 * kSlots + 2) * 8;
  static constexpr u32 kWorkAt = kPartsAt + 4 * kConsumers * 8;
  static constexpr u32 kSharedBytes = kWorkAt + 8;

  static DEVICE unsigned char* shared() {
    extern __shared__ __align__(1024) unsigned char bytes[];
    return bytes;
  }
  static DEVICE Barrier& barrier(int i) { return reinterpret_cast<Barrier*>(shared() + kBarriersAt)[i]; }
  static DEVICE Barrier& full(int slot) { return barrier(slot); }
  static DEVICE Barrier& empty(int slot) { return barrier(kSlots + slot); }
  static DEVICE Barrier& rows_full() { return barrier(2 * kSlots); }
  static DEVICE Barrier& rows_empty() { return barrier(2 * kSlots + 1); }
  static DEVICE int& work() { return *reinterpret_cast<int*>(shared() + kWorkAt); }
  static DEVICE u32 row_address() { return shared_address(shared()); }
  static DEVICE u32 slot_address(int slot) { return row_address() + kRingAt + slot * kSlotBytes; }
  static DEVICE unsigned char* extra(int slot) { return shared() + kExtraAt + slot * kExtraBytes; }

  /// Runs produce(work) in a thread, and consume(work, consumer) in the consumers' warpgroups, for works until none is
  /// left. Then stores what keep_largest() was given.
  template <class Produce, class Consume>
  static DEVICE void run(u32* taken, int works, float* magnitudes, const Produce& produce, const Consume& consume) {
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);  // the same for all threads of a warp
    if (threadIdx.x == 0) {
      for (int i = 0; i < kSlots; ++i) {
        full(i).init(1);
        empty(i).init(4 * kConsumers);  // a warp each
      }
      rows_full().init(1);
      rows_empty().init(4 * kConsumers);
      publish_barriers();
    }
    __syncthreads();
    if (warpgroup == 0) {
      give_registers<kConsumers == 2 ? 24 : 32>();
      if (threadIdx.x < 32 && elected()) give_works(taken, works, produce);
    } else {
      take_registers<kConsumers == 2 ? 240 : 160>();
      if (threadIdx.x % 32 == 0) store_shared(own_part(), make_float2(0, 0));
      __syncwarp();
      NO_UNROLL
      for (u32 parity = 0;; parity ^= 1) {
        rows_full().wait(parity);
        const int now = work();
        if (now < 0) break;
        consume(now, warpgroup - 1);
      }
      store_largest(magnitudes);
    }
  }

  /// Of the producer.
  static DEVICE void load_rows(int tensor, const TensorMap& map, const Head& head, int token) {
    load_tokens<kHead>(row_address() + tensor * kTensorBytes, map, rows_full(), head, token, kRows);
  }
  static DEVICE void load_tile(RingPosition<kSlots>& at, const TensorMap& map, const Head& head, int token,
                               u32 more_bytes = 0) {
    empty(at.slot).wait(at.parity ^ 1);
    full(at.slot).arrive_and_expect(kSlotBytes + more_bytes);
    load_tokens<kHead>(slot_address(at.slot), map, full(at.slot), head, token, kTile);
    at.advance();
  }

  /// Of consumers: no product reads the rows, or the slot, any more.
  static DEVICE void release_rows() {
    if (threadIdx.x % 32 == 0) rows_empty().arrive();
  }
  static DEVICE void release(int slot) {
    if (threadIdx.x % 32 == 0) empty(slot).arrive();
  }

  /// Two non-negative numbers of each thread, of which the largest of a block are stored at its end.
  static DEVICE void keep_largest(float first, float second) {
    UNROLL
    for (int mask = 16; mask > 0; mask /= 2) {
      first = fmaxf(first, of_lane(first, mask));
      second = fmaxf(second, of_lane(second, mask));
    }
    if (threadIdx.x % 32 > 0) return;
    const float2 before = load_shared<float2>(own_part());
    store_shared(own_part(), make_float2(fmaxf(first, before.x), fmaxf(second, before.y)));
  }

  /// s = the consumer's rows of a tensor times a tile.
  static DEVICE void multiply_rows(float (&s)[kTile / 2], int consumer, int tensor, int slot) {
    const u64 a = operand(row_address() + tensor * kTensorBytes + consumer * 64 * kRowBytes),
              b = operand(slot_address(slot));
    begin_products();
    UNROLL
    for (int d = 0; d < kHead / 16; ++d)
      multiply(s, a + d / 4 * (kRowBox / 16) + 2 * (d % 4), b + d / 4 * (kTileBox / 16) + 2 * (d % 4), d);
    commit_products();
  }
  /// sums (64 x head) = p b, or + p b, for a tile b.
  static DEVICE void add_tile(float (&sums)[kHead / 2], const u32 (&p)[kTile / 16][4], int slot, int accumulate = 1) {
    const u64 b = operand(slot_address(slot), kTileBox);
    begin_products();
    UNROLL
    for (int i = 0; i < kTile / 16; ++i) multiply(sums, p[i], b + i * kRowBytes, accumulate | i);
    commit_products();
  }

 private:
  static DEVICE u32 part(int warp) { return row_address() + kPartsAt + warp * 8; }
  static DEVICE u32 own_part() { return part(threadIdx.x / 32 - 4); }

  static DEVICE void store_largest(float* magnitudes) {
    meet(kLastBarrier, 128 * kConsumers);
    if (threadIdx.x != 128) return;
    float2 largest = load_shared<float2>(part(0));
    NO_UNROLL
    for (int i = 1; i < 4 * kConsumers; ++i) {
      const float2 v = load_shared<float2>(part(i));
      largest = make_float2(fmaxf(largest.x, v.x), fmaxf(largest.y, v.y));
    }
    magnitudes[blockIdx.x] = largest.x;
    magnitudes[gridDim.x + blockIdx.x] = largest.y;
  }

  template <class Produce>
  static DEVICE void give_works(u32* taken, int works, const Produce& produce) {
    int now = blockIdx.x;
    NO_UNROLL
    for (u32 parity = 1;; parity ^= 1) {
      rows_empty().wait(parity);
      work() = now < works ? now : -1;
      if (now >= works) return rows_full().arrive();
      rows_full().arrive_and_expect(kTensors * kTensorBytes);
      const int next = int(gridDim.x + atomicAdd(taken, 1u));
      produce(now);
      now = next;
    }
  }
};

/// Sums as the first operand of a product.
template <class Element, int kColumns>
DEVICE void pack(u32 (&p)[kColumns / 16][4], const float (&s)[kColumns / 2]) {
  UNROLL
  for (int i = 0; i < kColumns / 4; ++i) p[i / 4][i % 4] = Element::pack(s[2 * i], s[2 * i + 1]);
}

/// How products become scores, which are powers of e. Scores without a bias and with a positive factor stay products.
template <bool kBias>
struct Scaling {
  float factor;
  bool multiplies;

  DEVICE Scaling(const AttentionShape& s, const Scalars& scalars)
      : factor(s.scale * scalars.value[DESCALE_Q] * scalars.value[DESCALE_K]), multiplies(kBias || !(factor > 0)) {}
  /// Of 2 for scores.
  DEVICE float to_powers() const { return multiplies ? kLog2E : factor * kLog2E; }

  template <int kColumns>
  DEVICE void apply(float (&s)[kColumns]) const {
    if (!multiplies) return;
    UNROLL
    for (int i = 0; i < kColumns; ++i) s[i] *= factor;
  }
};

/// exp(score - largest), of scores that to_powers makes powers of 2. Those with a bias may be as low as the least
/// float, and are subtracted before they are multiplied.
template <bool kBias>
DEVICE float shift_of(float largest, float to_powers) {
  return kBias ? -largest : -largest * to_powers;
}
template <bool kBias>
DEVICE float weight_of(float score, float shift, float to_powers) {
  return power_of_2(kBias ? (score + shift) * to_powers : FMA(score, to_powers, shift));
}

/// Adds the bias at `from`, of the thread's first row and column; so many rows and columns exist from there on.
template <int kSums>
DEVICE void add_bias(float (&s)[kSums], const float* from, i64 row_step, i64 column_step, int rows, int columns) {
  UNROLL
  for (int i = 0; i < kSums; ++i) {
    const int n = i / 4 * 8 + i % 2, row = i / 2 % 2 * 8;
    if (row < rows && n < columns) s[i] += from[row * row_step + i % 2 * column_step];
    if (i % 4 == 3) from += 8 * column_step;
  }
}

/// Only the first `visible` columns of a row of the thread are seen, from its own first column on.
template <int kSums>
DEVICE void hide_columns(float (&s)[kSums], int half, int visible) {
  UNROLL
  for (int i = 0; i < kSums / 2; ++i)
    if (i / 2 * 8 + i % 2 >= visible) s[i / 2 * 4 + 2 * half + i % 2] = minus_infinity();
}

/// Products of a warpgroup's queries from `first` on, the thread's own from `query` on, and of keys become scores.
template <bool kBias, int kSums, class Arguments>
DEVICE void make_scores(float (&s)[kSums], const Arguments& a, const Scaling<kBias>& scaling, const Head& head,
                        int first, int query, int key) {
  const AttentionShape& shape = a.shape;
  const int own_key = key + own_column();
  scaling.apply(s);
  if constexpr (kBias)
    add_bias(s, a.bias + head.start(a.of_bias) + query * a.of_bias.token + own_key, a.of_bias.token, 1,
             shape.queries - query, shape.keys - own_key);
  if (key + 2 * kSums <= shape.keys && !(shape.causal && key + 2 * kSums - 1 > first)) return;
  UNROLL
  for (int half = 0; half < 2; ++half)
    hide_columns(s, half, (shape.causal ? min(shape.keys, query + 8 * half + 1) : shape.keys) - own_key);
}

/// The number of a score in the matrices of all heads.
DEVICE u64 score_number(const AttentionShape& s, const Head& head, int query, int key) {
  return (u64(head.number) * s.queries + query) * s.keys + key;
}

/// Bit i: whether dropout keeps score 32 * part + i of the thread. `first` is the number of the score in its first row
/// and column.
DEVICE u32 kept_scores(const Scalars* scalars, int part, u64 first, u64 row_step, u64 column_step) {
  u32 bits = 0;
  NO_UNROLL
  for (int i = 0; i < 32; ++i) {
    const int n = 32 * part + i;
    const u64 number = first + (n / 2 % 2 * 8) * row_step + (n / 4 * 8 + n % 2) * column_step;
    bits |= (kept_factor(scalars, number) != 0 ? 1u : 0u) << i;
  }
  return bits;
}

/// Stores 64 rows of sums * factor * scale, of which those before `tokens` exist; returns the largest magnitude before
/// `scale`. `to` is the thread's first row, `token` its number. Head sizes are multiples of 8.
template <class Element, int kHead>
DEVICE float store_sums(const float (&sums)[kHead / 2], u16* to, i64 token_step, int token, int tokens, int head_size,
                        const float (&factor)[2], float scale) {
  float largest = 0;
  UNROLL
  for (int half = 0; half < 2; ++half) {
    const bool inside = token + 8 * half < tokens;
    UNROLL
    for (int c = 0; c < kHead / 8; c += 4) {
      u32 pairs[4] = {};
      UNROLL
      for (int i = 0; i < 4; ++i) {
        if (c + i >= kHead / 8) continue;
        const float low = sums[4 * (c + i) + 2 * half] * factor[half],
                    high = sums[4 * (c + i) + 2 * half + 1] * factor[half];
        if (inside) largest = fmaxf(largest, fmaxf(fabsf(low), fabsf(high)));
        pairs[i] = Element::pack(low * scale, high * scale);
      }
      transpose_four(pairs);
      const int column = 8 * (c + threadIdx.x % 4);
      if (inside && column < head_size)
        *reinterpret_cast<uint4*>(to + 8 * half * token_step + column) =
            make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    }
  }
  return largest;
}

}  // namespace sm90
