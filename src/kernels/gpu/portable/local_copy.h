// Copies src global dst local memory, 16 bytes at a time: by cp.async where the device has it, so that copies overlap
// with computation and need no registers. A chunk is 16 bytes.
// SPDX-License-Identifier: MIT
#pragma once

#define CHUNK VECTOR  // elements

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && !defined(UNALIGNED)
/// Copies a chunk, or zeros unless `inside`: then `src` is not dereferenced.
INLINE void copy_chunk(LOCAL in_t* dst, GLOBAL const in_t* src, int inside) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(dst)),
               "l"(src), "r"(inside ? 16 : 0)
               : "memory");
}
#define COPY_ASYNC(dst, src, bytes, inside)                                                                       \
  asm volatile("cp.async.ca.shared.global [%0], [%1], " #bytes ", %2;" ::"r"((u32)__cvta_generic_to_shared(dst)), \
               "l"(src), "r"((inside) ? (bytes) : 0)                                                              \
               : "memory")
/// The same for `bytes`, 4, 8 or 16, at multiples of them.
INLINE void copy_bytes(LOCAL in_t* dst, GLOBAL const in_t* src, const int bytes, int inside) {
  if (bytes == 16) return copy_chunk(dst, src, inside);
  if (bytes == 8)
    COPY_ASYNC(dst, src, 8, inside);
  else
    COPY_ASYNC(dst, src, 4, inside);
}
INLINE void wait_for_all_copies(void) {
  asm volatile("cp.async.wait_all;" ::: "memory");
  BARRIER();
}
/// Commits the copies since the last call as one group. WAIT_FOR_COPY_GROUPS waits for all but the `n` newest groups.
INLINE void commit_copies(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
#define WAIT_FOR_COPY_GROUPS(n)                                  \
  do {                                                           \
    asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory"); \
    BARRIER();                                                   \
  } while (0)
#else
INLINE void copy_chunk(LOCAL in_t* dst, GLOBAL const in_t* src, int inside) {
#ifdef UNALIGNED
  UNROLL
  for (int i = 0; i < CHUNK; ++i) dst[i] = inside ? src[i] : 0;
#else
  u32x4 v;
  v.x = v.y = v.z = v.w = 0;
  if (inside) v = *(GLOBAL const u32x4*)src;
  *(LOCAL u32x4*)dst = v;
#endif
}
INLINE void copy_bytes(LOCAL in_t* dst, GLOBAL const in_t* src, const int bytes, int inside) {
  UNROLL
  for (int i = 0; i < bytes * CHUNK / 16; ++i) dst[i] = inside ? src[i] : 0;
}
INLINE void wait_for_all_copies(void) { BARRIER(); }
INLINE void commit_copies(void) {}
#define WAIT_FOR_COPY_GROUPS(n) BARRIER()
#endif

/// Four elements as sums; the address is a multiple of their bytes.
INLINE void local_load_4(LOCAL const in_t* p, sum_t* v) {
#if IN_KIND == KIND_fp32
  local_load4(p, v);
#elif IN_KIND == KIND_int8
  UNROLL
  for (int i = 0; i < 4; ++i) v[i] = p[i];
#else
  const u64 u = *(LOCAL const u64*)p;
  v[0] = NARROW(u);
  v[1] = NARROW(u >> 16);
  v[2] = NARROW(u >> 32);
  v[3] = NARROW(u >> 48);
#endif
}

/// Copies rows x cols pixels from (h0, w0) with `width` channels into a tile of `pitch` elements per pixel; zeros
/// outside of the plane_h x plane_w plane and from `channels` on. `plane` is at the tile's first channel of pixel (0,
/// 0); its pixels are `pixel_stride` elements apart.
INLINE void copy_tile(LOCAL in_t* tile, GLOBAL const in_t* plane, int h0, int w0, int rows, int cols, int width,
                      int pitch, int plane_h, int plane_w, int channels, int pixel_stride, int thread, int threads) {
  const int chunks = width / CHUNK;
  for (int i = thread; i < rows * cols * chunks; i += threads) {
    const int pixel = i / chunks, chunk = i - pixel * chunks, row = pixel / cols, col = pixel - row * cols;
    const int inside = (u32)(h0 + row) < (u32)plane_h && (u32)(w0 + col) < (u32)plane_w && chunk * CHUNK < channels;
    const int offset = ((h0 + row) * plane_w + w0 + col) * pixel_stride + chunk * CHUNK;
    copy_chunk(tile + pixel * pitch + chunk * CHUNK, plane + (inside ? offset : 0), inside);
  }
}

// A ring buffer of STAGES rows in local memory, for kernels that process column tiles row by row: CHANNELS channels per
// block, PITCH elements per pixel if pixels are padded.
#ifdef STAGES
#ifdef PITCH
#define CHUNK_AT(i) ((i) / (CHANNELS / CHUNK) * PITCH + (i) % (CHANNELS / CHUNK) * CHUNK)
#else
#define LANES (CHANNELS / 4)
#define SLOTS (TILE_W / COLS)
#define THREADS (LANES * SLOTS)
#define CHUNK_AT(i) ((i)*CHUNK)
#endif

INLINE int next_slot(int slot) { return slot == STAGES - 1 ? 0 : slot + 1; }

/// Offsets of the thread's chunks within a row of src, -1 outside of the plane or the channels.
INLINE void locate_chunks(int* offsets, const int chunks_per_thread, int col0, int plane_w, int channels,
                          int pixel_stride) {
  UNROLL
  for (int k = 0; k < chunks_per_thread; ++k) {
    const int i = THREAD(0) + k * THREADS, col = col0 + i / (CHANNELS / CHUNK), chunk = i % (CHANNELS / CHUNK) * CHUNK;
    offsets[k] = (u32)col < (u32)plane_w && chunk < channels ? col * pixel_stride + chunk : -1;
  }
}

/// Copies a row of `chunks` chunks, zeros unless `inside`.
INLINE void copy_row(LOCAL in_t* dst, GLOBAL const in_t* src, int inside, const int* offsets,
                     const int chunks_per_thread, const int chunks) {
  UNROLL
  for (int k = 0; k < chunks_per_thread; ++k) {
    const int i = THREAD(0) + k * THREADS, in = inside && offsets[k] >= 0;
    if ((k + 1) * THREADS <= chunks || i < chunks) copy_chunk(dst + CHUNK_AT(i), src + (in ? offsets[k] : 0), in);
  }
}
#endif
