// Every shape of the micro-kernel, for every kind of product the instruction set has.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/micro_kernel.h"

#include "kernels/cpu/isa/store_bf16.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif
#include <utility>

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

template <Dot kDot>
struct Kind;

template <class T>
struct Multiply {
  static constexpr bool kHasZeroPoint = false;
  using Sum = T;
  using Vector = Vec<T>;
  static Vector spread(const char* a) {
    T value;
    __builtin_memcpy(&value, a, sizeof value);
    return broadcast(value);
  }
  static Vector fetch(const char* b) { return load(reinterpret_cast<const T*>(b)); }
  static Vec<T> add(Vec<T> sum, Vector a, Vector b) { return sum + a * b; }
};
template <>
struct Kind<Dot::kFloat> : Multiply<float> {};
template <>
struct Kind<Dot::kDouble> : Multiply<double> {};

/// Products of groups: a lane is 32 bits of A or B.
struct Groups {
  static constexpr bool kHasZeroPoint = false;
  using Vector = Vec<std::int32_t>;
  static Vector spread(const char* a) {
    std::int32_t bits;
    __builtin_memcpy(&bits, a, sizeof bits);
    return broadcast(bits);
  }
  static Vector fetch(const char* b) { return load(reinterpret_cast<const std::int32_t*>(b)); }
};

#if defined(__AVX512BF16__)
template <>
struct Kind<Dot::kBf16> : Groups {
  using Sum = float;
  static Vec<float> add(Vec<float> sum, Vector a, Vector b) {
    return (Vec<float>)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
  }
};
#endif
#if defined(__AVX512VNNI__)
template <>
struct Kind<Dot::kInt8> : Groups {
  using Sum = std::int32_t;
  static constexpr bool kHasZeroPoint = true;
  static Vector add(Vector sum, Vector a, Vector b) {
    return (Vector)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
  }
};
template <>
struct Kind<Dot::kSigned8> : Kind<Dot::kInt8> {
  static Vector spread(const char* a) {
    Vector v = Groups::spread(a);
    hold(v);  // compilers would flip bits of a number and spread that: slower
    return v ^ broadcast(static_cast<std::int32_t>(0x80808080));
  }
};
#endif

template <>
struct Kind<Dot::kInt16> : Groups {
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

/// Hides how a number came about: otherwise compilers compute every row's address on its own, and run out of registers.
inline void keep(i64& v) { __asm__("" : "+r"(v)); }

/// Distances of seven rows from the first: each is a register, or one times 2 or 4, as addresses take it.
struct Steps {
  i64 one, three, five;
  explicit Steps(i64 row) : one(row), three(3 * row), five(5 * row) {
    keep(three);
    keep(five);
  }
  i64 to(int r) const { return r == 0 ? 0 : r == 3 ? three : r == 5 ? five : r == 6 ? 2 * three : r * one; }
};

enum class Put { kStore, kAdd, kNonTemporal };

/// Whether sums may be bf16 in memory.
template <class K>
inline constexpr bool kRounds = (kRoundsPairs && std::is_base_of_v<Groups, K> &&
                                 std::is_same_v<typename K::Sum, float>);

/// Sums to C. What to do is asked once a tile: asking for each vector cost a tenth with 64 steps of depth.
template <Put kPut, bool kWhole, class Sum, int kRows, int kVectors>
inline void put_rows(const Vec<Sum> (&sum)[kRows][kVectors], char* c, i64 c_row, int tail) {
  constexpr bool kAdd = kPut == Put::kAdd;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r, c += c_row) {
    Sum* const row = reinterpret_cast<Sum*>(c);
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      Sum* const p = row + j * kLanes<Sum>;
      if constexpr (kPut == Put::kNonTemporal) {
        stream(p, sum[r][j]);
      } else if (kWhole || j + 1 < kVectors) {
        store(p, kAdd ? load(p) + sum[r][j] : sum[r][j]);
      } else {
        store_lanes(p, kAdd ? load_lanes(p, 0, tail) + sum[r][j] : sum[r][j], tail);
      }
    }
  }
}

/// The same as bf16, two vectors at a time. Masked stores are for tails only.
template <Put kPut, bool kWhole, int kRows, int kVectors>
inline void round_rows(const Vec<float> (&sum)[kRows][kVectors], char* c, i64 c_row, int tail) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r, c += c_row) {
    Bfloat16* const row = reinterpret_cast<Bfloat16*>(c);
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; j += 2) {
      const bool both = j + 1 < kVectors;
      const int count = (both ? kLanes<float> : 0) + (kWhole || j + 2 < kVectors ? kLanes<float> : tail);
      round_to<kPut == Put::kNonTemporal>(sum[r][j], sum[r][both ? j + 1 : j], row + j * kLanes<float>, count);
    }
  }
}

template <Put kPut, class Sum, int kRows, int kVectors>
inline void put(const Vec<Sum> (&sum)[kRows][kVectors], char* c, i64 c_row, int tail) {
  if (!kMaskedStores && tail == kLanes<Sum>) {
    put_rows<kPut, true, Sum>(sum, c, c_row, tail);
  } else {
    put_rows<kPut, false, Sum>(sum, c, c_row, tail);
  }
}

template <int kRows, int kVectors>
inline void round_off(const Vec<float> (&sum)[kRows][kVectors], char* c, i64 c_row, int tail, bool non_temporal) {
  if (non_temporal && kVectors % 2 == 0) {
    round_rows<Put::kNonTemporal, true>(sum, c, c_row, tail);
  } else if (tail == kLanes<float>) {
    round_rows<Put::kStore, true>(sum, c, c_row, tail);
  } else {
    round_rows<Put::kStore, false>(sum, c, c_row, tail);
  }
}

template <class Sum, int kRows, int kVectors>
inline void start_below(Vec<Sum> (&sum)[kRows][kVectors], const Sum* zero_point) {
#pragma GCC unroll 4
  for (int j = 0; j < kVectors; ++j) {
    const Vec<Sum> start = -load(zero_point + j * kLanes<Sum>);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sum[r][j] = start;
  }
}

/// Lines of C that are far away are wanted when the tile is done.
template <int kRows, int kVectors>
inline void fetch_rows(const char* c, i64 c_row) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r, c += c_row)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) __builtin_prefetch(c + j * kVectorBytes, 1, 3);
}

/// What is fetched with each step of depth: nothing, a line, or the same one for m.prefetch_every steps.
enum class Fetch { kNone, kEach, kEvery };

template <class K, int kRows, int kVectors>
struct Tile {
  using Sum = typename K::Sum;
  static constexpr int kNear = 7;

  const Micro& m;
  const i64 depth = m.depth, a_step = m.a_step;
  i64 b_step = m.b_step;
  const Steps steps{m.a_row};
  i64 far = kNear * m.a_row;

  /// Adds all blocks; with kCopies B is copied as well.
  template <bool kCopies, Fetch kFetch>
  __attribute__((always_inline)) void sum_up(Vec<Sum> (&sum)[kRows][kVectors], const char* a0, const char* b0,
                                             const char* prefetch, i64 prefetch_step) const {
    [[maybe_unused]] Sum* copy = static_cast<Sum*>(m.copy);
    [[maybe_unused]] const i64 every = m.prefetch_every;
    [[maybe_unused]] i64 wait = every - 1;
    // Volatile, or compilers keep these in vector registers, from where they come after the sums of the block before.
    const volatile struct {
      const i64 *a, *b;
      i64 count, far;
    } list{m.a_block, m.b_block, m.blocks, far};
    for (i64 i = 0; i < list.count; ++i) {
      const i64* const a_block = list.a;
      const char* a[3] = {a0 + (a_block ? a_block[i] : 0)};
      a[1] = a[0] + list.far;
      a[2] = a[1] + list.far;
      const i64* const b_block = list.b;
      const char* b = b0 + (b_block ? b_block[i] : 0);
      for (i64 k = 0; k < depth; ++k, b += b_step) {
        typename K::Vector bs[kVectors];
        if constexpr (kFetch != Fetch::kNone) __builtin_prefetch(prefetch, 0, 2);
        if constexpr (kFetch == Fetch::kEach) {
          prefetch += prefetch_step;
          __asm__("" : "+r"(prefetch));
        }
        if constexpr (kFetch == Fetch::kEvery) {
          i64 moves = --wait >> 63;  // all bits or none: a branch would be mispredicted once a line
          __asm__("" : "+r"(moves));
          prefetch += prefetch_step & moves;
          wait += every & moves;
        }
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) {
          bs[j] = K::fetch(b + j * kVectorBytes);
          hold(bs[j]);
          if constexpr (kCopies) store(copy + j * kLanes<Sum>, bs[j]);
        }
        if constexpr (kCopies) copy += kVectors * kLanes<Sum>;
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const typename K::Vector ar = K::spread(a[r / kNear] + steps.to(r % kNear));
#pragma GCC unroll 4
          for (int j = 0; j < kVectors; ++j) sum[r][j] = K::add(sum[r][j], ar, bs[j]);
        }
#pragma GCC unroll 3
        for (int r = 0; r <= (kRows - 1) / kNear; ++r) {
          a[r] += a_step;
          __asm__("" : "+r"(a[r]));
        }
      }
    }
  }
};

/// Tiles in a row or a column of a panel.
template <class K, int kRows, int kVectors, bool kCopies>
__attribute__((always_inline)) inline void tiles_from(const Micro& m, Tile<K, kRows, kVectors> work, i64 panel) {
  using Sum = typename K::Sum;
  constexpr Fetch kFetch = !std::is_same_v<K, Kind<Dot::kFloat>> ? Fetch::kNone
                           : kCopies                             ? Fetch::kEvery
                                                                 : Fetch::kEach;
  const i64 across = panel * kVectors * kVectorBytes;
  const char* a = static_cast<const char*>(m.a);
  const char* b = static_cast<const char*>(m.b) + across;
  [[maybe_unused]] const char* run = static_cast<const char*>(m.prefetch) + panel * m.prefetch_panel;
  const char* wanted = run;
  [[maybe_unused]] i64 of_run = 0;
  char* c = static_cast<char*>(m.c) + across;
  const i64 c_row = m.c_row, tiles = m.tiles;
  const int tail = m.tail > 0 ? m.tail : kLanes<Sum>;
  for (i64 t = 0; t < tiles; ++t, a += m.a_next, b += m.b_next, c += m.c_next) {
    Vec<Sum> sum[kRows][kVectors] = {};
    if constexpr (K::kHasZeroPoint) {
      if (m.zero_point) start_below(sum, static_cast<const Sum*>(m.zero_point));
    }
    const bool fetches = t < m.prefetch_tiles;
    const char* const prefetch = fetches ? wanted : a;
    const i64 prefetch_step = fetches ? m.prefetch_step : 0;
    if (fetches) {
      wanted += m.prefetch_next;
      if (kCopies && m.prefetch_every > 1 && ++of_run == m.prefetch_every) {
        wanted = run += m.prefetch_wrap;
        of_run = 0;
      }
    }
    if (m.fetches_c) fetch_rows<kRows, kVectors>(c, c_row);
    const bool copies = kCopies && t == 0;
    if (!copies) {
      // Of one vector, every step's loads take as long as its sums: one more only where it is wanted.
      if (kFetch == Fetch::kNone || (kVectors == 1 && !fetches)) {
        work.template sum_up<false, Fetch::kNone>(sum, a, b, prefetch, prefetch_step);
      } else if (kCopies && fetches && m.prefetch_every > 1) {
        work.template sum_up<false, kFetch>(sum, a, b, prefetch, prefetch_step);
      } else {
        work.template sum_up<false, Fetch::kEach>(sum, a, b, prefetch, prefetch_step);
      }
    }
    if constexpr (kCopies) {
      if (copies) {
        work.template sum_up<true, kFetch>(sum, a, b, prefetch, prefetch_step);
        b = static_cast<const char*>(m.copy);
        work.b_step = kVectors * kVectorBytes;
      }
    }
    char* to = c;
    __asm__("" : "+r"(to));  // or all addresses would be computed before the sums, and held on the stack
    if constexpr (kRounds<K>) {
      if (m.rounds) {
        round_off(sum, to, c_row, tail, m.non_temporal);
        continue;
      }
    }
    if (m.add) {
      put<Put::kAdd, Sum>(sum, to, c_row, tail);
    } else if (kStreams && m.non_temporal) {
      put<Put::kNonTemporal, Sum>(sum, to, c_row, tail);
    } else {
      put<Put::kStore, Sum>(sum, to, c_row, tail);
    }
  }
}

template <class K, int kRows, int kVectors, bool kCopies>
void tile(const Micro& m) {
  Tile<K, kRows, kVectors> work{m};
  keep(work.far);
  const i64 panels = kCopies ? m.panels : 1;
  for (i64 p = 0; p < panels; ++p) tiles_from<K, kRows, kVectors, kCopies>(m, work, p);
}

template <class K, int kVectors, bool kCopies, std::size_t... kRow>
MicroKernel of_rows(int rows, std::index_sequence<kRow...>) {
  static constexpr MicroKernel kAll[] = {tile<K, static_cast<int>(kRow) + 1, kVectors, kCopies>...};
  return kAll[rows - 1];
}

template <class K, bool kCopies = false>
MicroKernel of_shape(int rows, int vectors) {
  switch (vectors) {
    case 1: return of_rows<K, 1, kCopies>(rows, std::make_index_sequence<kMicroRows[1]>{});
    case 2: return of_rows<K, 2, kCopies>(rows, std::make_index_sequence<kMicroRows[2]>{});
    case 3: return of_rows<K, 3, kCopies>(rows, std::make_index_sequence<kMicroRows[3]>{});
    default: return of_rows<K, 4, kCopies>(rows, std::make_index_sequence<kMicroRows[4]>{});
  }
}

#if defined(__AVX512BF16__)
/// Cycles of the fastest of some short runs.
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
    tile<Kind<kDot>, kRows, 2, false>(m);
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
  if (dot == Dot::kBf16) return of_shape<Kind<Dot::kBf16>>(rows, vectors);
#endif
#if defined(__AVX512VNNI__)
  if (dot == Dot::kInt8) return of_shape<Kind<Dot::kInt8>>(rows, vectors);
  if (dot == Dot::kSigned8) return of_shape<Kind<Dot::kSigned8>>(rows, vectors);
#endif
  if constexpr (kAddsProducts) {
    return nullptr;
  } else if (dot == Dot::kInt16) {
    return of_shape<Kind<Dot::kInt16>>(rows, vectors);
  } else if (dot == Dot::kDouble) {
    return of_shape<Kind<Dot::kDouble>>(rows, vectors);
  } else {
    return of_shape<Kind<Dot::kFloat>>(rows, vectors);
  }
}

MicroKernel copying_kernel(Dot dot, int rows, int vectors) {
  if constexpr (kAddsProducts) {
    return nullptr;
  } else if (dot == Dot::kDouble) {
    return of_shape<Kind<Dot::kDouble>, true>(rows, vectors);
  } else {
    return of_shape<Kind<Dot::kFloat>, true>(rows, vectors);
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
