// A plane in strips of TILE_W columns and some rows, which blocks walk down one behind the other. Told by -D: TILE_W.
// SPDX-License-Identifier: MIT
#pragma once

typedef struct {
  int image, row0, most, col0;  // `most`: rows that it has
} ColumnTile;

/// Of planes of h rows and w columns, in bands of `band` rows.
INLINE ColumnTile column_tile_at(int index, int h, int w, int band) {
  const int column_tiles = CEIL_DIV(w, TILE_W), bands = CEIL_DIV(h, band);
  ColumnTile s;
  s.image = index / (bands * column_tiles), s.col0 = index % column_tiles * TILE_W;
  s.row0 = index / column_tiles % bands * band, s.most = MIN(band, h - s.row0);
  return s;
}
