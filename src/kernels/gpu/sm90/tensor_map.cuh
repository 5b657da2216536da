// Copies of boxes of tensors between global and shared memory by the copy engine (TMA). Coordinates are those of the
// maps: W, H, D; a map's channels come first, its images last. Boxes are clipped: what is outside of a tensor is loaded
// as zeros and not stored. One thread calls these functions.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/barrier.cuh"

namespace sm90 {

/// Encoded by the host (Stream::tensor_map).
struct alignas(64) TensorMap {
  u64 encoded[16];
};

DEVICE void prefetch(const TensorMap& map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }

/// A pixel of a tensor with kSpatial spatial dimensions.
template <int kSpatial>
struct Pixel {
  int at[kSpatial], image;
};

/// Loads a box of pixels x channels: the pixels from `first` on, in the map's order, each `offset` away.
template <int kSpatial>
DEVICE void load_pixels(u32 shared, const TensorMap& map, const Barrier& full, int channel,
                        const Pixel<kSpatial>& first, const int (&offset)[kSpatial]) {
  const u32 bar = full.address();
  if constexpr (kSpatial == 1)
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
        "[%2], {%6};" ::"r"(shared),
        "l"(&map), "r"(bar), "r"(channel), "r"(first.at[0]), "r"(first.image), "h"((short)offset[0])
        : "memory");
  else if constexpr (kSpatial == 2)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
        "%6}], [%2], {%7, %8};" ::"r"(shared),
        "l"(&map), "r"(bar), "r"(channel), "r"(first.at[0]), "r"(first.at[1]), "r"(first.image), "h"((short)offset[0]),
        "h"((short)offset[1])
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
        "%6, %7}], [%2], {%8, %9, %10};" ::"r"(shared),
        "l"(&map), "r"(bar), "r"(channel), "r"(first.at[0]), "r"(first.at[1]), "r"(first.at[2]), "r"(first.image),
        "h"((short)offset[0]), "h"((short)offset[1]), "h"((short)offset[2])
        : "memory");
}

/// Stores a box of pixels x channels. commit_stores() follows.
template <int kSpatial>
DEVICE void store_pixels(const TensorMap& map, u32 shared, int channel, const Pixel<kSpatial>& first) {
  if constexpr (kSpatial == 1)
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map),
        "r"(shared), "r"(channel), "r"(first.at[0]), "r"(first.image)
        : "memory");
  else if constexpr (kSpatial == 2)
    asm volatile(
        "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(
            &map),
        "r"(shared), "r"(channel), "r"(first.at[0]), "r"(first.at[1]), "r"(first.image)
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.5d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(
            &map),
        "r"(shared), "r"(channel), "r"(first.at[0]), "r"(first.at[1]), "r"(first.at[2]), "r"(first.image)
        : "memory");
}

/// Loads a box of a tiled map with three dimensions.
DEVICE void load_box(u32 shared, const TensorMap& map, const Barrier& full, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(shared),
      "l"(&map), "r"(full.address()), "r"(x), "r"(y), "r"(z)
      : "memory");
}

/// With four dimensions.
DEVICE void load_box(u32 shared, const TensorMap& map, const Barrier& full, int x, int y, int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(shared),
      "l"(&map), "r"(full.address()), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

/// With five dimensions.
DEVICE void load_box(u32 shared, const TensorMap& map, const Barrier& full, int x, int y, int z, int w, int v) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, "
      "%7}], [%2];" ::"r"(shared),
      "l"(&map), "r"(full.address()), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v)
      : "memory");
}

/// Stores a box of a tiled map with five dimensions. commit_stores() follows.
DEVICE void store_box(const TensorMap& map, u32 shared, int x, int y, int z, int w, int v) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(&map),
      "r"(shared), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v)
      : "memory");
}

DEVICE void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

/// Until at most kPending groups of this thread's stores still read shared memory.
template <int kPending>
DEVICE void wait_for_reads() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

/// Until all of this thread's stores are complete.
DEVICE void wait_for_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

/// Makes this thread's writes to shared memory visible to the copy engine and the matrix units.
DEVICE void publish_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace sm90
