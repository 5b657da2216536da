// The micro-kernel in every shape, for every kind of product of the instruction set.
// Instruction sets: also those that add dot products.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/micro_kernel.h"

#include "kernels/cpu/isa/store_bf16.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif
#include <utility>

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

/// How a kind of product broadcasts dot operands of A, loads those of B, and adds their products to a vector of sums.
template <Dot kDot>
struct Kind;

template <class T>
struct Multiply {
  static constexpr bool kHasZeroPoint = false;  // whether the kind supports Micro::zero_point
  using Sum = T;
  using Vector = Vec<T>;
  static Vector broadcast_a(const char* a) {
    T value;
    __builtin_memcpy(&value, a, sizeof value);
    return broadcast(value);
  }
  static Vector load_b(const char* b) { return load(reinterpret_cast<const T*>(b)); }
  static Vec<T> add(Vec<T> sum, Vector a, Vector b) { return sum + a * b; }
};
template <>
struct Kind<Dot::kFloat> : Multiply<float> {};
template <>
struct Kind<Dot::kDouble> : Multiply<double> {};

/// Dot operands of bf16 pairs, int16 pairs or int8 quads: 32 bits per lane.
struct DotOperands {
  static constexpr bool kHasZeroPoint = false;
  using Vector = Vec<std::int32_t>;
  static Vector broadcast_a(const char* a) {
    std::int32_t bits;
    __builtin_memcpy(&bits, a, sizeof bits);
    return broadcast(bits);
  }
  static Vector load_b(const char* b) { return load(reinterpret_cast<const std::int32_t*>(b)); }
};

#if defined(__AVX512BF16__)
template <>
struct Kind<Dot::kBf16> : DotOperands {
  using Sum = float;
  static Vec<float> add(Vec<float> sum, Vector a, Vector b) {
    return (Vec<float>)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
  }
};
#endif
#if defined(__AVX512VNNI__)
template <>
struct Kind<Dot::kInt8> : DotOperands {
  using Sum = std::int32_t;
  static constexpr bool kHasZeroPoint = true;
  static Vector add(Vector sum, Vector a, Vector b) {
    return (Vector)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
  }
};
template <>
struct Kind<Dot::kSigned8> : Kind<Dot::kInt8> {
  static Vector broadcast_a(const char* a) {
    Vector v = DotOperands::broadcast_a(a);
    hold(v);  // otherwise compilers flip the bits of the scalar and broadcast the result, which is slower
    return v ^ broadcast(static_cast<std::int32_t>(0x80808080));
  }
};
#endif

template <>
struct Kind<Dot::kInt16> : DotOperands {
  using Sum = std::int32_t;
  static Vector add(Vector sum, Vector a, Vector b) {
#if defined(__AVX512VNNI__)
    return (Vector)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
#elif defined(__AVX512BW__)
    return sum + (Vector)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return sum + (Vector)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
    return sum + (Vector)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
    const Vector low = ((a << 16) >> 16) * ((b << 16) >> 16);
    return sum + low + (a >> 16) * (b >> 16);
#endif
  }
};

/// Hides how v was computed: otherwise compilers keep an address per row and run out of registers.
inline void optimization_barrier(i64& v) { __asm__("" : "+r"(v)); }

/// Offsets of seven rows from the first: a register each, or one scaled by 2 or 4 as address operands allow.
struct RowOffsets {
  i64 one, three, five;
  explicit RowOffsets(i64 row) : one(row), three(3 * row), five(5 * row) {
    optimization_barrier(three);
    optimization_barrier(five);
  }
  i64 at(int r) const { return r == 0 ? 0 : r == 3 ? three : r == 5 ? five : r == 6 ? 2 * three : r * one; }
};

enum class StoreMode { kStore, kAdd, kNonTemporal };

/// Whether the kernel can store its sums as bf16.
template <class K>
inline constexpr bool kStoresBf16 = (kHasBf16Rounding && std::is_base_of_v<DotOperands, K> &&
                                     std::is_same_v<typename K::Sum, float>);

/// Sums to C. The mode is tested once per tile: a test per vector took 10 % longer with 64 steps of depth.
template <StoreMode kMode, bool kWhole, class Sum, int kRows, int kVectors>
inline void store_rows(const Vec<Sum> (&sum)[kRows][kVectors], char* c, i64 c_row, int tail) {
  constexpr bool kAdd = kMode == StoreMode::kAdd;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r, c += c_row) {
    Sum* const row = reinterpret_cast<Sum*>(c);
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      Sum* const p = row + j * kLanes<Sum>;
      if constexpr (kMode == StoreMode::kNonTemporal) {
        stream(p, sum[r][j]);
      } else if (kWhole || j + 1 < kVectors) {
        store(p, kAdd ? load(p) + sum[r][j] : sum[r][j]);
      } else {
        store_lanes(p, kAdd ? load_lanes(p, 0, tail) + sum[r][j] : sum[r][j], tail);
      }
    }
  }
}

/// Sums to C as bf16, two vectors at a time. Only tails take masked stores.
template <StoreMode kMode, bool kWhole, int kRows, int kVectors>
inline void store_bf16_rows(const Vec<float> (&sum)[kRows][kVectors], char* c, i64 c_row, int tail) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r, c += c_row) {
    Bfloat16* const row = reinterpret_cast<Bfloat16*>(c);
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; j += 2) {
      const bool both = j + 1 < kVectors;
      const int count = (both ? kLanes<float> : 0) + (kWhole || j + 2 < kVectors ? kLanes<float> : tail);
      store_bf16<kMode == StoreMode::kNonTemporal>(sum[r][j], sum[r][both ? j + 1 : j], row + j * kLanes<float>, count);
    }
  }
}

template <StoreMode kMode, class Sum, int kRows, int kVectors>
inline void store_tile(const Vec<Sum> (&sum)[kRows][kVectors], char* c, i64 c_row, int tail) {
  if (!kMaskedStores && tail == kLanes<Sum>) {
    store_rows<kMode, true, Sum>(sum, c, c_row, tail);
  } else {
    store_rows<kMode, false, Sum>(sum, c, c_row, tail);
  }
}

template <int kRows, int kVectors>
inline void store_bf16_tile(const Vec<float> (&sum)[kRows][kVectors], char* c, i64 c_row, int tail, bool non_temporal) {
  if (non_temporal && kVectors % 2 == 0) {
    store_bf16_rows<StoreMode::kNonTemporal, true>(sum, c, c_row, tail);
  } else if (tail == kLanes<float>) {
    store_bf16_rows<StoreMode::kStore, true>(sum, c, c_row, tail);
  } else {
    store_bf16_rows<StoreMode::kStore, false>(sum, c, c_row, tail);
  }
}

/// Zero points are subtracted by starting the sums at minus them.
template <class Sum, int kRows, int kVectors>
inline void start_at_minus_zero_point(Vec<Sum> (&sum)[kRows][kVectors], const Sum* zero_point) {
#pragma GCC unroll 4
  for (int j = 0; j < kVectors; ++j) {
    const Vec<Sum> start = -load(zero_point + j * kLanes<Sum>);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sum[r][j] = start;
  }
}

/// Prefetches C for the stores at the end of the tile.
template <int kRows, int kVectors>
inline void prefetch_c_rows(const char* c, i64 c_row) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r, c += c_row)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) __builtin_prefetch(c + j * kVectorBytes, 1, 3);
}

/// What a step of depth prefetches: nothing, a new line, or a new line every m.steps_per_prefetch steps.
enum class Prefetch { kNone, kEachStep, kEveryFewSteps };

/// The loop over blocks and steps of a register tile.
template <class K, int kRows, int kVectors>
struct Tile {
  using Sum = typename K::Sum;
  static constexpr int kRowsPerPointer = 7;  // that RowOffsets reaches

  const Micro& m;
  const i64 depth = m.depth, a_step = m.a_step;
  i64 b_step = m.b_step;
  const RowOffsets row_offsets{m.a_row};
  i64 pointer_stride = kRowsPerPointer * m.a_row;

  /// Adds the products of all blocks to sum; with kCopies also copies B to m.b_copy.
  template <bool kCopies, Prefetch kPrefetch>
  __attribute__((always_inline)) void accumulate(Vec<Sum> (&sum)[kRows][kVectors], const char* a0, const char* b0,
                                                 const char* prefetch, i64 prefetch_step_bytes) const {
    [[maybe_unused]] Sum* copy = static_cast<Sum*>(m.b_copy);
    [[maybe_unused]] const i64 steps_per_prefetch = m.steps_per_prefetch;
    [[maybe_unused]] i64 steps_left = steps_per_prefetch - 1;
    // Volatile: compilers would keep these in vector registers and read them only after the sums of the block before,
    // 28 cycles late (Xeon model 207, docs/kernels/overview.md).
    const volatile struct {
      const i64 *a, *b;
      i64 count, pointer_stride;
    } list{m.a_block, m.b_block, m.blocks, pointer_stride};
    for (i64 i = 0; i < list.count; ++i) {
      const i64* const a_block = list.a;
      const char* a[3] = {a0 + (a_block ? a_block[i] : 0)};
      a[1] = a[0] + list.pointer_stride;
      a[2] = a[1] + list.pointer_stride;
      const i64* const b_block = list.b;
      const char* b = b0 + (b_block ? b_block[i] : 0);
      for (i64 k = 0; k < depth; ++k, b += b_step) {
        typename K::Vector bs[kVectors];
        if constexpr (kPrefetch != Prefetch::kNone) __builtin_prefetch(prefetch, 0, 2);
        if constexpr (kPrefetch == Prefetch::kEachStep) {
          prefetch += prefetch_step_bytes;
          __asm__("" : "+r"(prefetch));
        }
        if constexpr (kPrefetch == Prefetch::kEveryFewSteps) {
          i64 moves = --steps_left >> 63;  // all bits or none: a branch would be mispredicted once per line
          __asm__("" : "+r"(moves));
          prefetch += prefetch_step_bytes & moves;
          steps_left += steps_per_prefetch & moves;
        }
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) {
          bs[j] = K::load_b(b + j * kVectorBytes);
          hold(bs[j]);
          if constexpr (kCopies) store(copy + j * kLanes<Sum>, bs[j]);
        }
        if constexpr (kCopies) copy += kVectors * kLanes<Sum>;
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const typename K::Vector ar = K::broadcast_a(a[r / kRowsPerPointer] + row_offsets.at(r % kRowsPerPointer));
#pragma GCC unroll 4
          for (int j = 0; j < kVectors; ++j) sum[r][j] = K::add(sum[r][j], ar, bs[j]);
        }
#pragma GCC unroll 3
        for (int r = 0; r <= (kRows - 1) / kRowsPerPointer; ++r) {
          a[r] += a_step;
          __asm__("" : "+r"(a[r]));
        }
      }
    }
  }
};

/// All tiles of panel number `panel`.
template <class K, int kRows, int kVectors, bool kCopies>
__attribute__((always_inline)) inline void compute_panel(const Micro& m, Tile<K, kRows, kVectors> work, i64 panel) {
  using Sum = typename K::Sum;
  constexpr Prefetch kPrefetch = !std::is_same_v<K, Kind<Dot::kFloat>> ? Prefetch::kNone
                                 : kCopies                             ? Prefetch::kEveryFewSteps
                                                                       : Prefetch::kEachStep;
  const i64 panel_offset = panel * kVectors * kVectorBytes;
  const char* a = static_cast<const char*>(m.a);
  const char* b = static_cast<const char*>(m.b) + panel_offset;
  [[maybe_unused]] const char* group_prefetch = static_cast<const char*>(m.prefetch) + panel * m.prefetch_panel_bytes;
  const char* tile_prefetch = group_prefetch;
  [[maybe_unused]] i64 group_tiles = 0;
  char* c = static_cast<char*>(m.c) + panel_offset;
  const i64 c_row = m.c_row, tiles = m.tiles;
  const int tail = m.tail > 0 ? m.tail : kLanes<Sum>;
  for (i64 t = 0; t < tiles; ++t, a += m.a_next, b += m.b_next, c += m.c_next) {
    Vec<Sum> sum[kRows][kVectors] = {};
    if constexpr (K::kHasZeroPoint) {
      if (m.zero_point) start_at_minus_zero_point(sum, static_cast<const Sum*>(m.zero_point));
    }
    const bool has_prefetch = t < m.prefetch_tiles;
    const char* const prefetch = has_prefetch ? tile_prefetch : a;
    const i64 prefetch_step_bytes = has_prefetch ? m.prefetch_step_bytes : 0;
    if (has_prefetch) {
      tile_prefetch += m.prefetch_tile_bytes;
      if (kCopies && m.steps_per_prefetch > 1 && ++group_tiles == m.steps_per_prefetch) {
        group_prefetch += m.prefetch_group_bytes;
        tile_prefetch = group_prefetch;
        group_tiles = 0;
      }
    }
    if (m.prefetch_c) prefetch_c_rows<kRows, kVectors>(c, c_row);
    const bool is_copying = kCopies && t == 0;
    if (!is_copying) {
      // With one vector a step's loads take as long as its sums: no prefetch instruction without a line to prefetch.
      if (kPrefetch == Prefetch::kNone || (kVectors == 1 && !has_prefetch)) {
        work.template accumulate<false, Prefetch::kNone>(sum, a, b, prefetch, prefetch_step_bytes);
      } else if (kCopies && has_prefetch && m.steps_per_prefetch > 1) {
        work.template accumulate<false, kPrefetch>(sum, a, b, prefetch, prefetch_step_bytes);
      } else {
        work.template accumulate<false, Prefetch::kEachStep>(sum, a, b, prefetch, prefetch_step_bytes);
      }
    }
    if constexpr (kCopies) {
      if (is_copying) {
        work.template accumulate<true, kPrefetch>(sum, a, b, prefetch, prefetch_step_bytes);
        b = static_cast<const char*>(m.b_copy);
        work.b_step = kVectors * kVectorBytes;
      }
    }
    char* result = c;
    __asm__("" : "+r"(result));  // otherwise compilers compute all addresses before the sums and spill them
    if constexpr (kStoresBf16<K>) {
      if (m.is_c_bf16) {
        store_bf16_tile(sum, result, c_row, tail, m.non_temporal);
        continue;
      }
    }
    if (m.add) {
      store_tile<StoreMode::kAdd, Sum>(sum, result, c_row, tail);
    } else if (kStreams && m.non_temporal) {
      store_tile<StoreMode::kNonTemporal, Sum>(sum, result, c_row, tail);
    } else {
      store_tile<StoreMode::kStore, Sum>(sum, result, c_row, tail);
    }
  }
}

template <class K, int kRows, int kVectors, bool kCopies>
void compute_tiles(const Micro& m) {
  Tile<K, kRows, kVectors> work{m};
  optimization_barrier(work.pointer_stride);
  const i64 panels = kCopies ? m.panels : 1;
  for (i64 p = 0; p < panels; ++p) compute_panel<K, kRows, kVectors, kCopies>(m, work, p);
}

template <class K, int kVectors, bool kCopies, std::size_t... kRow>
MicroKernel kernel_of_rows(int rows, std::index_sequence<kRow...>) {
  static constexpr MicroKernel kKernels[] = {compute_tiles<K, static_cast<int>(kRow) + 1, kVectors, kCopies>...};
  return kKernels[rows - 1];
}

template <class K, bool kCopies = false>
MicroKernel kernel_of_shape(int rows, int vectors) {
  switch (vectors) {
    case 1: return kernel_of_rows<K, 1, kCopies>(rows, std::make_index_sequence<kMicroRows[1]>{});
    case 2: return kernel_of_rows<K, 2, kCopies>(rows, std::make_index_sequence<kMicroRows[2]>{});
    case 3: return kernel_of_rows<K, 3, kCopies>(rows, std::make_index_sequence<kMicroRows[3]>{});
    default: return kernel_of_rows<K, 4, kCopies>(rows, std::make_index_sequence<kMicroRows[4]>{});
  }
}

#if defined(__AVX512BF16__)
/// Cycles of the fastest of 20 runs of a small tile.
template <Dot kDot>
std::uint64_t cycles_of() {
  constexpr int kRows = kMicroRows[2], kDepth = 64;
  alignas(64) static const char kZeros[2 * kVectorBytes * kDepth] = {};
  alignas(64) char sums[kRows * 2 * kVectorBytes];
  const Micro m{.a = kZeros,
                .b = kZeros,
                .depth = kDepth,
                .a_row = 64,
                .a_step = 4,
                .b_step = 2 * kVectorBytes,
                .c = sums,
                .c_row = 2 * kVectorBytes};
  std::uint64_t best = ~std::uint64_t{0};
  for (int i = 0; i < 20; ++i) {
    const std::uint64_t start = __builtin_ia32_rdtsc();
    compute_tiles<Kind<kDot>, kRows, 2, false>(m);
    best = min_of<std::uint64_t>(best, __builtin_ia32_rdtsc() - start);
  }
  return best;
}
#endif

}  // namespace

bool prefers_bf16_dot() {
#if defined(__AVX512BF16__)
  static const bool kFaster = cycles_of<Dot::kBf16>() < 2 * cycles_of<Dot::kFloat>();
  return kFaster;
#else
  return false;
#endif
}

MicroKernel micro_kernel(Dot dot, int rows, int vectors) {
#if defined(__AVX512BF16__)
  if (dot == Dot::kBf16) return kernel_of_shape<Kind<Dot::kBf16>>(rows, vectors);
#endif
#if defined(__AVX512VNNI__)
  if (dot == Dot::kInt8) return kernel_of_shape<Kind<Dot::kInt8>>(rows, vectors);
  if (dot == Dot::kSigned8) return kernel_of_shape<Kind<Dot::kSigned8>>(rows, vectors);
#endif
  if constexpr (kAddsProducts) {
    return nullptr;
  } else if (dot == Dot::kInt16) {
    return kernel_of_shape<Kind<Dot::kInt16>>(rows, vectors);
  } else if (dot == Dot::kDouble) {
    return kernel_of_shape<Kind<Dot::kDouble>>(rows, vectors);
  } else {
    return kernel_of_shape<Kind<Dot::kFloat>>(rows, vectors);
  }
}

MicroKernel copying_kernel(Dot dot, int rows, int vectors) {
  if constexpr (kAddsProducts) {
    return nullptr;  // micro_kernel.cc of the shared instruction set has them
  } else if (dot == Dot::kDouble) {
    return kernel_of_shape<Kind<Dot::kDouble>, true>(rows, vectors);
  } else {
    return kernel_of_shape<Kind<Dot::kFloat>, true>(rows, vectors);
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
