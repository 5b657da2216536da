// Products of bf16 and int8 by the tile registers of AMX. A tile register of A has 16 rows x 16 steps of depth, of B
// 16 steps x 16 lanes, in the layout of the dot operands of vdpbf16ps and vpdpbusd, so that all kernels pack operands
// alike.
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
inline constexpr i64 kAmxBlock = 2 * kAmxHeight;  // rows of 2 x 2 tile registers of sums

/// How tile registers cut a product of `depth` steps: into `parts` parts of `steps` steps each, and a rest. Sums are 2
/// x 2, 4 x 1 or 1 x 4 (rows x columns) tile registers; with a rest, which takes registers of its own, 1 x 4.
struct AmxCut {
  i64 depth, steps, parts, rest;
  explicit AmxCut(i64 d) : depth(d), steps(amx_steps(d)), parts(d > 0 ? d / steps : 0), rest(d - parts * steps) {}
  /// The maximal rows of a product with `vectors` vectors of columns.
  i64 rows(i64 vectors) const { return (rest > 0 || vectors > 2 ? 1 : vectors == 2 ? 2 : 4) * kAmxHeight; }
};

#if defined(__AMX_TILE__)

/// The memory operand of ldtilecfg.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start = 0, unused[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

// Instructions on tile registers; their numbers are constants.

template <int kTile, int kBytes = 0>
static inline void load_tile(const char* from, i64 row) {
  __asm__ volatile("tileloadd %c3(%1,%2,1), %%tmm%c0" : : "i"(kTile), "r"(from), "r"(row), "i"(kBytes) : "memory");
}

template <int kTile, int kBytes = 0>
static inline void store_tile(char* to, i64 row) {
  __asm__ volatile("tilestored %%tmm%c0, %c3(%1,%2,1)" : : "i"(kTile), "r"(to), "r"(row), "i"(kBytes) : "memory");
}

template <int kTile>
static inline void clear_tile() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(kTile));
}

template <Dot kDot, int kSum, int kLeft, int kRight>
static inline void add_product() {
  if constexpr (kDot == Dot::kBf16) {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kLeft), "i"(kRight));
  } else {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kLeft), "i"(kRight));
  }
}

// Always inlined, like the closures it calls: otherwise the captured variables are reloaded from the stack per tile.
template <int kTileRows, int kTileColumns, class Visit>
[[gnu::always_inline]] static inline void each_sum(const Visit& visit) {
  const auto row = [&]<int kRow>() __attribute__((always_inline)) {
    visit.template operator()<kRow, 0>();
    if constexpr (kTileColumns > 1) visit.template operator()<kRow, 1>();
    if constexpr (kTileColumns > 2) visit.template operator()<kRow, 2>();
    if constexpr (kTileColumns > 3) visit.template operator()<kRow, 3>();
  };
  row.template operator()<0>();
  if constexpr (kTileRows > 1) row.template operator()<1>();
  if constexpr (kTileRows > 2) row.template operator()<2>();
  if constexpr (kTileRows > 3) row.template operator()<3>();
}

/// The tile register of a sum: 2 * row + vector for up to 2 x 2.
template <int kTileRows>
static constexpr int sum_of(int row, int vector) {
  return kTileRows > 2 ? row : 2 * row + vector;
}

/// The tile registers of a thread. The destructor restores the tile configuration that it found: another library may
/// have set it for later calls.
class Amx {
 public:
  Amx() = default;
  Amx(const Amx&) = delete;
  Amx& operator=(const Amx&) = delete;
  ~Amx() {
    if (rows_ == 0) return;
    if (saved_config_.palette == 0) {
      __asm__ volatile("tilerelease");
    } else {
      __asm__ volatile("ldtilecfg %0" : : "m"(saved_config_));
    }
  }

  /// The cut of a depth; divides only if the depth differs from the last call's.
  const AmxCut& cut(i64 depth) {
    if (depth != cut_.depth) cut_ = AmxCut(depth);
    return cut_;
  }

  /// Computes what micro_kernel() does, without is_c_bf16, non_temporal and zero_point. Up to cut.rows(vectors) rows;
  /// steps of A are contiguous. With m.tail at most two vectors, or one if there is a rest, and stores exactly the
  /// tail.
  void multiply(Dot dot, i64 rows, i64 vectors, const AmxCut& cut, const Micro& m) {
    configure(rows, cut, m.tail > 0 ? m.tail : kLanes<float>, static_cast<int>(vectors - 1));
    dot == Dot::kBf16 ? dispatch_rows<Dot::kBf16>(rows, vectors, m) : dispatch_rows<Dot::kInt8>(rows, vectors, m);
  }

  /// Configures the tile registers for multiply_block().
  void begin_blocks(const AmxCut& cut) { configure(kAmxBlock, cut, kLanes<float>, 1); }

  /// sums[kAmxBlock][16 * kTileColumns] of bf16 products, in rows of 2 * kVectorBytes bytes; cut.rest must be 0. Calls
  /// interleaved() between products, 2 * cut.parts times, for other work: sums that are read back right after their
  /// store stall.
  template <int kTileColumns, class Interleaved>
  [[gnu::always_inline]] void multiply_block(const char* a, i64 a_row, const char* b, char* sums,
                                             const Interleaved& interleaved) const {
    constexpr i64 kRow = 2 * kVectorBytes, kLowerTile = kAmxHeight * kRow, b_step = kTileColumns * kVectorBytes;
    const i64 a_part = 4 * steps_, b_part = steps_ * b_step, a_lower_tile = kAmxHeight * a_row;
    clear_tile<0>();
    clear_tile<2>();
    if constexpr (kTileColumns > 1) {
      clear_tile<1>();
      clear_tile<3>();
    }
    for (i64 part = parts_; part > 0; --part, a += a_part, b += b_part) {
      load_tile<kA>(a, a_row);
      load_tile<kB>(b, b_step);
      add_product<Dot::kBf16, 0, kA, kB>();
      load_tile<kA + 1>(a + a_lower_tile, a_row);
      add_product<Dot::kBf16, 2, kA + 1, kB>();
      interleaved();
      if constexpr (kTileColumns > 1) {
        load_tile<kB + 1, kVectorBytes>(b, b_step);
        add_product<Dot::kBf16, 1, kA, kB + 1>();
        add_product<Dot::kBf16, 3, kA + 1, kB + 1>();
      }
      interleaved();
    }
    store_tile<0>(sums, kRow);
    store_tile<2>(sums + kLowerTile, kRow);
    if constexpr (kTileColumns > 1) {
      store_tile<1, kVectorBytes>(sums, kRow);
      store_tile<3, kVectorBytes>(sums + kLowerTile, kRow);
    }
  }

 private:
  // Tile registers: 0 to 3 sums, then two of A and two of B; the second of each has the rest of the depth if there is
  // one.
  static constexpr int kA = 4, kB = 6;

  static constexpr i64 parts_of(i64 rows) { return rows > 2 * kAmxHeight ? 4 : rows > kAmxHeight ? 2 : 1; }

  /// `lanes` lanes in the last column of tiles, column number `last`; kLanes<float> in the others.
  void configure(i64 rows, const AmxCut& cut, int lanes, int last) {
    parts_ = cut.parts;
    const bool is_same_shape = rows == rows_ && cut.steps == steps_ && cut.rest == rest_ && lanes == lanes_;
    if (is_same_shape && (lanes == kLanes<float> || last == last_tile_column_)) return;
    if (rows_ == 0) __asm__ volatile("sttilecfg %0" : "=m"(saved_config_));
    rows_ = rows;
    steps_ = cut.steps;
    rest_ = cut.rest;
    lanes_ = lanes;
    last_tile_column_ = last;
    TileConfig shape;
    const auto set = [&](int tile, i64 high, i64 operands) {
      shape.rows[tile] = static_cast<std::uint8_t>(high);
      shape.row_bytes[tile] = static_cast<std::uint16_t>(4 * operands);
    };
    // Rows in equal parts; the last may overlap the one before. A product takes a cycle per row, at least nine.
    const i64 parts = parts_of(rows);
    tile_rows_ = (rows + parts - 1) / parts;
    const i64 second = rest_ > 0 ? rest_ : steps_;
    for (int i = 0; i < kA; ++i) set(i, tile_rows_, (parts > 2 ? 0 : i % 2) == last ? lanes : kLanes<float>);
    set(kA, tile_rows_, steps_);
    set(kA + 1, tile_rows_, second);
    set(kB, steps_, last == 0 ? lanes : kLanes<float>);
    set(kB + 1, second, last == (rest_ > 0 ? 0 : 1) ? lanes : kLanes<float>);
    __asm__ volatile("ldtilecfg %0" : : "m"(shape));
  }

  template <Dot kDot>
  void dispatch_rows(i64 rows, i64 vectors, const Micro& m) const {
    if (rest_ > 0) return dispatch_vectors<kDot, true>(vectors, m);
    if (rows <= kAmxHeight) return dispatch_vectors<kDot, false>(vectors, m);
    if (rows > 2 * kAmxHeight) return tiles<kDot, 4, 1, false>(m);
    vectors == 1 ? tiles<kDot, 2, 1, false>(m) : tiles<kDot, 2, 2, false>(m);
  }
  template <Dot kDot, bool kHasRest>
  void dispatch_vectors(i64 vectors, const Micro& m) const {
    switch (vectors) {
      case 1: return tiles<kDot, 1, 1, kHasRest>(m);
      case 2: return tiles<kDot, 1, 2, kHasRest>(m);
      case 3: return tiles<kDot, 1, 3, kHasRest>(m);
      default: return tiles<kDot, 1, 4, kHasRest>(m);
    }
  }

  template <Dot kDot, int kTileRows, int kTileColumns, bool kHasRest>
  void tiles(const Micro& m) const {
    const char *a0 = static_cast<const char*>(m.a), *b0 = static_cast<const char*>(m.b);
    char* c = static_cast<char*>(m.c);
    const i64 a_row = m.a_row, b_step = m.b_step, c_row = m.c_row, blocks = m.blocks, parts = parts_;
    const i64 a_part = 4 * steps_, b_part = steps_ * b_step;
    i64 a_offset[kTileRows], c_offset[kTileRows];  // bytes to the first row of each part
    const auto first = [&](int i) { return min_of(i * tile_rows_, rows_ - tile_rows_); };
    for (int i = 0; i < kTileRows; ++i) {
      a_offset[i] = first(i) * a_row;
      c_offset[i] = first(i) * c_row;
    }
    const i64 *const a_block = m.a_block, *const b_block = m.b_block;
    for (i64 t = 0; t < m.tiles; ++t, a0 += m.a_next, b0 += m.b_next, c += m.c_next) {
      each_sum<kTileRows, kTileColumns>([&]<int kRow, int kVector>() __attribute__((always_inline)) {
        if (m.add) {
          load_tile<sum_of<kTileRows>(kRow, kVector), kVector * kVectorBytes>(c + c_offset[kRow], c_row);
        } else {
          clear_tile<sum_of<kTileRows>(kRow, kVector)>();
        }
      });
      for (i64 i = 0; i < blocks; ++i) {
        const char* a = a0 + (a_block ? a_block[i] : 0);
        const char* b = b0 + (b_block ? b_block[i] : 0);
        for (i64 part = 0; part < parts; ++part, a += a_part, b += b_part) {
          if constexpr (kTileRows > 2) {
            load_tile<kB>(b, b_step);
            each_sum<kTileRows, 1>([&]<int kRow, int kVector>() __attribute__((always_inline)) {
              load_tile<kA + kRow % 2>(a + a_offset[kRow], a_row);
              add_product<kDot, kRow, kA + kRow % 2, kB>();
            });
          } else {
            load_tile<kA>(a, a_row);
            if constexpr (kTileRows > 1) load_tile<kA + 1>(a + a_offset[1], a_row);
            each_sum<1, kTileColumns>([&]<int kRow, int kVector>() __attribute__((always_inline)) {
              constexpr int kRight = kB + (kHasRest ? 0 : kVector % 2);
              load_tile<kRight, kVector * kVectorBytes>(b, b_step);
              add_product<kDot, kVector, kA, kRight>();
              if constexpr (kTileRows > 1) add_product<kDot, 2 + kVector, kA + 1, kRight>();
            });
          }
        }
        if constexpr (kHasRest) {
          load_tile<kA + 1>(a, a_row);
          each_sum<1, kTileColumns>([&]<int kRow, int kVector>() __attribute__((always_inline)) {
            load_tile<kB + 1, kVector * kVectorBytes>(b, b_step);
            add_product<kDot, kVector, kA + 1, kB + 1>();
          });
        }
      }
      each_sum<kTileRows, kTileColumns>([&]<int kRow, int kVector>() __attribute__((always_inline)) {
        store_tile<sum_of<kTileRows>(kRow, kVector), kVector * kVectorBytes>(c + c_offset[kRow], c_row);
      });
    }
  }

  TileConfig saved_config_;
  i64 rows_ = 0, tile_rows_ = 0, steps_ = 0, parts_ = 0, rest_ = 0;
  AmxCut cut_{0};
  int lanes_ = 0, last_tile_column_ = 0;
};

#else

class Amx {
 public:
  AmxCut cut(i64 depth) const { return AmxCut(depth); }
  void multiply(Dot, i64, i64, const AmxCut&, const Micro&) {}
  void begin_blocks(const AmxCut&) {}
  template <int kTileColumns, class Interleaved>
  void multiply_block(const char*, i64, const char*, char*, const Interleaved&) const {}
};

#endif

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
