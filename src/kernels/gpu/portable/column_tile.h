// Planes cut into column tiles of TILE_W columns and at most `band` rows. Kernels process lists of column tiles row by
// row. Option: TILE_W.
// SPDX-License-Identifier: MIT
#pragma once

typedef struct {
  int image, row0, rows, col0;
} ColumnTile;

/// Tile `index` of planes of h rows and w columns in bands of `band` rows; ordered by image, band, column.
INLINE ColumnTile column_tile_at(int index, int h, int w, int band) {
  const int column_tiles = CEIL_DIV(w, TILE_W), bands = CEIL_DIV(h, band);
  ColumnTile tile;
  tile.image = index / (bands * column_tiles);
  tile.col0 = index % column_tiles * TILE_W;
  tile.row0 = index / column_tiles % bands * band;
  tile.rows = MIN(band, h - tile.row0);
  return tile;
}
