// Products of bf16 and int8 by the tile registers of AMX: 16 rows of A by 16 steps, 16 steps by 16 lanes of B, in the
// order that the other products of groups take them, so that operands are packed alike.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/direct.h"
#include "kernels/cpu/isa/micro_kernel.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

#if defined(__AMX_TILE__)
inline constexpr bool kHasAmx = true;
#else
inline constexpr bool kHasAmx = false;
#endif

inline constexpr i64 kAmxHeight = 16;             // rows of a tile register
inline constexpr i64 kAmxBlock = 2 * kAmxHeight;  // of two by two

/// How a product is cut: two by two tile registers of sums, four by one or one by four; with a rest of the depth, which
/// takes registers of its own, one by four.
struct AmxCut {
  i64 depth, steps, parts, rest;
  explicit AmxCut(i64 of) : depth(of), steps(amx_steps(of)), parts(of > 0 ? of / steps : 0), rest(of - parts * steps) {}
  /// The most rows of so many vectors.
  i64 rows(i64 vectors) const { return (rest > 0 || vectors > 2 ? 1 : vectors == 2 ? 2 : 4) * kAmxHeight; }
};

#if defined(__AMX_TILE__)

/// The tile registers of a thread. At the end of its life they have the shapes that they had before, which another
/// library may have given them for calls to come.
class Amx {
 public:
  Amx() = default;
  Amx(const Amx&) = delete;
  Amx& operator=(const Amx&) = delete;
  ~Amx() {
    if (rows_ == 0) return;
    if (before_.palette == 0) {
      __asm__ volatile("tilerelease");
    } else {
      __asm__ volatile("ldtilecfg %0" : : "m"(before_));
    }
  }

  /// Divisions are made where another depth comes only.
  const AmxCut& cut(i64 depth) {
    if (depth != cut_.depth) cut_ = AmxCut(depth);
    return cut_;
  }

  /// What micro_kernel computes, not rounded, past the caches or less an excess: up to cut.rows(vectors) rows, where
  /// steps of A lie next to each other. With m.tail there are up to two vectors, or one if there is a rest, of the
  /// lanes asked for.
  void multiply(Dot dot, i64 rows, i64 vectors, const AmxCut& cut, const Micro& m) {
    configure(rows, cut, m.tail > 0 ? m.tail : kLanes<float>, static_cast<int>(vectors - 1));
    dot == Dot::kBf16 ? of_rows<Dot::kBf16>(rows, vectors, m) : of_rows<Dot::kInt8>(rows, vectors, m);
  }

  /// Shapes of registers for multiply_block.
  void begin_blocks(const AmxCut& cut) { configure(kAmxBlock, cut, kLanes<float>, 1); }

  /// sums[kAmxBlock][16 * kWide] of bf16, a row of which takes 2 * kVectorBytes, without a rest of the depth. What else
  /// is to be done is called between products, 2 * cut.parts times, because sums that were stored are read back late.
  template <int kWide, class Meanwhile>
  [[gnu::always_inline]] void multiply_block(const char* a, i64 a_row, const char* b, char* sums,
                                             const Meanwhile& meanwhile) const {
    constexpr i64 kRow = 2 * kVectorBytes, kLow = kAmxHeight * kRow, b_step = kWide * kVectorBytes;
    const i64 a_part = 4 * steps_, b_part = steps_ * b_step, low = kAmxHeight * a_row;
    clear_tile<0>();
    clear_tile<2>();
    if constexpr (kWide > 1) clear_tile<1>(), clear_tile<3>();
    for (i64 part = parts_; part > 0; --part, a += a_part, b += b_part) {
      load_tile<kA>(a, a_row);
      load_tile<kB>(b, b_step);
      add_product<Dot::kBf16, 0, kA, kB>();
      load_tile<kA + 1>(a + low, a_row);
      add_product<Dot::kBf16, 2, kA + 1, kB>();
      meanwhile();
      if constexpr (kWide > 1) {
        load_tile<kB + 1, kVectorBytes>(b, b_step);
        add_product<Dot::kBf16, 1, kA, kB + 1>();
        add_product<Dot::kBf16, 3, kA + 1, kB + 1>();
      }
      meanwhile();
    }
    store_tile<0>(sums, kRow);
    store_tile<2>(sums + kLow, kRow);
    if constexpr (kWide > 1) store_tile<1, kVectorBytes>(sums, kRow), store_tile<3, kVectorBytes>(sums + kLow, kRow);
  }

 private:
  // Registers: sums, then two of A, then two of B. The second of each is for the rest of the depth if there is one.
  static constexpr int kA = 4, kB = 6;

  struct alignas(64) Shape {
    std::uint8_t palette = 1, start = 0, unused[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  };

  static constexpr i64 parts_of(i64 rows) { return rows > 2 * kAmxHeight ? 4 : rows > kAmxHeight ? 2 : 1; }

  void configure(i64 rows, const AmxCut& cut, int lanes, int last) {
    parts_ = cut.parts;
    const bool same = rows == rows_ && cut.steps == steps_ && cut.rest == rest_ && lanes == lanes_;
    if (same && (lanes == kLanes<float> || last == last_)) return;
    if (rows_ == 0) __asm__ volatile("sttilecfg %0" : "=m"(before_));
    rows_ = rows;
    steps_ = cut.steps;
    rest_ = cut.rest;
    lanes_ = lanes;
    last_ = last;
    Shape shape;
    const auto set = [&](int tile, i64 high, i64 operands) {
      shape.rows[tile] = static_cast<std::uint8_t>(high);
      shape.row_bytes[tile] = static_cast<std::uint16_t>(4 * operands);
    };
    // Equal parts, the last of which may begin in the one before. Products take a cycle a row, nine at least.
    const i64 parts = parts_of(rows);
    high_ = (rows + parts - 1) / parts;
    const i64 second = rest_ > 0 ? rest_ : steps_;
    for (int i = 0; i < kA; ++i) set(i, high_, (parts > 2 ? 0 : i % 2) == last ? lanes : kLanes<float>);
    set(kA, high_, steps_);
    set(kA + 1, high_, second);
    set(kB, steps_, last == 0 ? lanes : kLanes<float>);
    set(kB + 1, second, last == (rest_ > 0 ? 0 : 1) ? lanes : kLanes<float>);
    __asm__ volatile("ldtilecfg %0" : : "m"(shape));
  }

  template <int kTile, int kBytes = 0>
  static void load_tile(const char* from, i64 row) {
    __asm__ volatile("tileloadd %c3(%1,%2,1), %%tmm%c0" : : "i"(kTile), "r"(from), "r"(row), "i"(kBytes) : "memory");
  }
  template <int kTile, int kBytes = 0>
  static void store_tile(char* to, i64 row) {
    __asm__ volatile("tilestored %%tmm%c0, %c3(%1,%2,1)" : : "i"(kTile), "r"(to), "r"(row), "i"(kBytes) : "memory");
  }
  template <int kTile>
  static void clear_tile() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <Dot kDot, int kSum, int kLeft, int kRight>
  static void add_product() {
    if constexpr (kDot == Dot::kBf16) {
      __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kLeft), "i"(kRight));
    } else {
      __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kLeft), "i"(kRight));
    }
  }

  template <Dot kDot>
  void of_rows(i64 rows, i64 vectors, const Micro& m) const {
    if (rest_ > 0) return of_vectors<kDot, true>(vectors, m);
    if (rows <= kAmxHeight) return of_vectors<kDot, false>(vectors, m);
    if (rows > 2 * kAmxHeight) return tiles<kDot, 4, 1, false>(m);
    vectors == 1 ? tiles<kDot, 2, 1, false>(m) : tiles<kDot, 2, 2, false>(m);
  }
  template <Dot kDot, bool kRest>
  void of_vectors(i64 vectors, const Micro& m) const {
    switch (vectors) {
      case 1: return tiles<kDot, 1, 1, kRest>(m);
      case 2: return tiles<kDot, 1, 2, kRest>(m);
      case 3: return tiles<kDot, 1, 3, kRest>(m);
      default: return tiles<kDot, 1, 4, kRest>(m);
    }
  }

  // Inlined early, as what it calls: else what closures refer to is read from the stack for every tile.
  template <int kHigh, int kWide, class Visit>
  [[gnu::always_inline]] static void each_sum(const Visit& visit) {
    const auto row = [&]<int kRow>() __attribute__((always_inline)) {
      visit.template operator()<kRow, 0>();
      if constexpr (kWide > 1) visit.template operator()<kRow, 1>();
      if constexpr (kWide > 2) visit.template operator()<kRow, 2>();
      if constexpr (kWide > 3) visit.template operator()<kRow, 3>();
    };
    row.template operator()<0>();
    if constexpr (kHigh > 1) row.template operator()<1>();
    if constexpr (kHigh > 2) row.template operator()<2>();
    if constexpr (kHigh > 3) row.template operator()<3>();
  }

  /// The register of a sum: of up to two by two, 2 * row + vector.
  template <int kHigh>
  static constexpr int sum_of(int row, int vector) {
    return kHigh > 2 ? row : 2 * row + vector;
  }

  template <Dot kDot, int kHigh, int kWide, bool kRest>
  void tiles(const Micro& m) const {
    const char *a0 = static_cast<const char*>(m.a), *b0 = static_cast<const char*>(m.b);
    char* c = static_cast<char*>(m.c);
    const i64 a_row = m.a_row, b_step = m.b_step, c_row = m.c_row, blocks = m.blocks, parts = parts_;
    const i64 a_part = 4 * steps_, b_part = steps_ * b_step;
    i64 a_down[kHigh], c_down[kHigh];  // to the first row of each part
    const auto first = [&](int i) { return min_of(i * high_, rows_ - high_); };
    for (int i = 0; i < kHigh; ++i) a_down[i] = first(i) * a_row, c_down[i] = first(i) * c_row;
    const i64 *const a_block = m.a_block, *const b_block = m.b_block;
    for (i64 t = 0; t < m.tiles; ++t, a0 += m.a_next, b0 += m.b_next, c += m.c_next) {
      each_sum<kHigh, kWide>([&]<int kRow, int kVector>() __attribute__((always_inline)) {
        if (m.add) {
          load_tile<sum_of<kHigh>(kRow, kVector), kVector * kVectorBytes>(c + c_down[kRow], c_row);
        } else {
          clear_tile<sum_of<kHigh>(kRow, kVector)>();
        }
      });
      for (i64 i = 0; i < blocks; ++i) {
        const char* a = a0 + (a_block ? a_block[i] : 0);
        const char* b = b0 + (b_block ? b_block[i] : 0);
        for (i64 part = 0; part < parts; ++part, a += a_part, b += b_part) {
          if constexpr (kHigh > 2) {
            load_tile<kB>(b, b_step);
            each_sum<kHigh, 1>([&]<int kRow, int kVector>() __attribute__((always_inline)) {
              load_tile<kA + kRow % 2>(a + a_down[kRow], a_row);
              add_product<kDot, kRow, kA + kRow % 2, kB>();
            });
          } else {
            load_tile<kA>(a, a_row);
            if constexpr (kHigh > 1) load_tile<kA + 1>(a + a_down[1], a_row);
            each_sum<1, kWide>([&]<int kRow, int kVector>() __attribute__((always_inline)) {
              constexpr int kRight = kB + (kRest ? 0 : kVector % 2);
              load_tile<kRight, kVector * kVectorBytes>(b, b_step);
              add_product<kDot, kVector, kA, kRight>();
              if constexpr (kHigh > 1) add_product<kDot, 2 + kVector, kA + 1, kRight>();
            });
          }
        }
        if constexpr (kRest) {
          load_tile<kA + 1>(a, a_row);
          each_sum<1, kWide>([&]<int kRow, int kVector>() __attribute__((always_inline)) {
            load_tile<kB + 1, kVector * kVectorBytes>(b, b_step);
            add_product<kDot, kVector, kA + 1, kB + 1>();
          });
        }
      }
      each_sum<kHigh, kWide>([&]<int kRow, int kVector>() __attribute__((always_inline)) {
        store_tile<sum_of<kHigh>(kRow, kVector), kVector * kVectorBytes>(c + c_down[kRow], c_row);
      });
    }
  }

  Shape before_;
  i64 rows_ = 0, high_ = 0, steps_ = 0, parts_ = 0, rest_ = 0;
  AmxCut cut_{0};
  int lanes_ = 0, last_ = 0;
};

#else

class Amx {
 public:
  AmxCut cut(i64 depth) const { return AmxCut(depth); }
  void multiply(Dot, i64, i64, const AmxCut&, const Micro&) {}
  void begin_blocks(const AmxCut&) {}
  template <int kWide, class Meanwhile>
  void multiply_block(const char*, i64, const char*, char*, const Meanwhile&) const {}
};

#endif

/// Rows in register tiles of nearly equal height, those that are equal in one call. `m` says where the first one is.
/// Where nothing is added, tile registers get one shape only: another one costs more than writing some rows of the last
/// tile a second time.
static inline void multiply_rows(Amx& amx, Dot dot, i64 rows, i64 vectors, Micro& m) {
  if (rows <= 0) return;
  const bool by_amx = kHasAmx && (dot == Dot::kBf16 || dot == Dot::kInt8) && m.depth > 0;
  const AmxCut cut = amx.cut(by_amx ? m.depth : 0);
  const i64 most = by_amx ? cut.rows(vectors) : kMicroRows[vectors];
  const bool one = rows <= most;
  const i64 count = one ? 1 : (rows + most - 1) / most, low = one ? rows : rows / count, higher = rows - low * count;
  const char* const a = static_cast<const char*>(m.a);
  char* const c = static_cast<char*>(m.c);
  const auto tiles = [&](i64 first, i64 height, i64 number) {
    if (number == 0) return;
    m.a = a + first * m.a_row;
    m.c = c + first * m.c_row;
    m.a_next = height * m.a_row;
    m.c_next = height * m.c_row;
    m.tiles = number;
    if (by_amx) {
      amx.multiply(dot, height, vectors, cut, m);
    } else {
      micro_kernel(dot, static_cast<int>(height), static_cast<int>(vectors))(m);
    }
  };
  if (by_amx && higher > 0 && !m.add) {
    tiles(0, low + 1, count - 1);
    tiles(rows - low - 1, low + 1, 1);
  } else {
    tiles(0, low + 1, higher);
    tiles(higher * (low + 1), low, count - higher);
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
