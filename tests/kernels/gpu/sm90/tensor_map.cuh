// Copies of boxes of tensors on the emulated multiprocessor. Tests find this header before the one in src/.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/barrier.cuh"

namespace sm90 {

using TensorMap = polymio::TensorMap;

inline void prefetch(const TensorMap&) {}

template <int kSpatial>
struct Pixel {
  int at[kSpatial], image;
};

template <int kSpatial>
polymio::emulated::Coordinates coordinates(int channel, const Pixel<kSpatial>& first) {
  polymio::emulated::Coordinates c{channel};
  for (int i = 0; i < kSpatial; ++i) c[i + 1] = first.at[i];
  c[kSpatial + 1] = first.image;
  return c;
}

template <int kSpatial>
void load_pixels(u32 shared, const TensorMap& map, const Barrier& full, int channel, const Pixel<kSpatial>& first,
                 const int (&offset)[kSpatial]) {
  full.receive(polymio::emulated::load_pixels(shared, map, coordinates(channel, first), offset));
}
template <int kSpatial>
void store_pixels(const TensorMap& map, u32 shared, int channel, const Pixel<kSpatial>& first) {
  polymio::emulated::store_pixels(map, shared, coordinates(channel, first));
}
inline void load_box(u32 shared, const TensorMap& map, const Barrier& full, int x, int y, int z) {
  full.receive(polymio::emulated::load_box(shared, map, 3, {x, y, z}));
}
inline void load_box(u32 shared, const TensorMap& map, const Barrier& full, int x, int y, int z, int w) {
  full.receive(polymio::emulated::load_box(shared, map, 4, {x, y, z, w}));
}
inline void load_box(u32 shared, const TensorMap& map, const Barrier& full, int x, int y, int z, int w, int v) {
  full.receive(polymio::emulated::load_box(shared, map, 5, {x, y, z, w, v}));
}
inline void store_box(const TensorMap& map, u32 shared, int x, int y, int z, int w, int v) {
  polymio::emulated::store_box(map, shared, 5, {x, y, z, w, v});
}

// Stores are complete when they return.
inline void commit_stores() {}
template <int kPending>
void wait_for_reads() {}
inline void wait_for_stores() {}
inline void publish_writes() {}

}  // namespace sm90
