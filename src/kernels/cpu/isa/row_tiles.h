// Products of any number of rows, in register tiles of the micro-kernel or of AMX.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/amx.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Multiplies `rows` rows by `vectors` vectors of columns, in register tiles of nearly equal height, with one call per
/// height. `m` describes the first tile. With AMX, without m.add all tiles have one shape and the last one overlaps the
/// tile before: a second tile configuration costs more than storing some rows twice.
static inline void multiply_rows(Amx& amx, Dot dot, i64 rows, i64 vectors, Micro& m) {
  if (rows <= 0) return;
  const bool is_amx = kHasAmx && (dot == Dot::kBf16 || dot == Dot::kInt8) && m.depth > 0;
  const AmxCut cut = amx.cut(is_amx ? m.depth : 0);
  const i64 max_rows = is_amx ? cut.rows(vectors) : kMicroRows[vectors];
  const bool is_one_tile = rows <= max_rows;
  const i64 count = is_one_tile ? 1 : (rows + max_rows - 1) / max_rows;
  const i64 tile_rows = is_one_tile ? rows : rows / count;
  const i64 higher_tiles = rows - tile_rows * count;  // which have a row more
  const char* const a = static_cast<const char*>(m.a);
  char* const c = static_cast<char*>(m.c);
  const auto tiles = [&](i64 first, i64 height, i64 number) {
    if (number == 0) return;
    m.a = a + first * m.a_row;
    m.c = c + first * m.c_row;
    m.a_next = height * m.a_row;
    m.c_next = height * m.c_row;
    m.tiles = number;
    if (is_amx) {
      amx.multiply(dot, height, vectors, cut, m);
    } else {
      micro_kernel(dot, static_cast<int>(height), static_cast<int>(vectors))(m);
    }
  };
  if (is_amx && higher_tiles > 0 && !m.add) {
    tiles(0, tile_rows + 1, count - 1);
    tiles(rows - tile_rows - 1, tile_rows + 1, 1);
  } else {
    tiles(0, tile_rows + 1, higher_tiles);
    tiles(higher_tiles * (tile_rows + 1), tile_rows, count - higher_tiles);
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
