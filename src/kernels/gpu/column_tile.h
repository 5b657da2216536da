// A plane in strips of TILE_W columns and some rows, which blocks walk down one behind the other. Told by -D: TILE_W.
// SPDX-License-Identifier: MIT
#pragma once

typedef struct {
  int image, row0, most, col0;  // `most`: rows that it has
} Strip;

/// Of planes of h rows and w columns, in bands of `band` rows.
INLINE Strip strip_at(int index, int h, int w, int band) {
  const int strips = CEIL_DIV(w, TILE_W), bands = CEIL_DIV(h, band);
  Strip s;
  s.image = index / (bands * strips), s.col0 = index % strips * TILE_W;
  s.row0 = index / strips % bands * band, s.most = MIN(band, h - s.row0);
  return s;
}
