// Copies from global to local memory, 16 bytes at a time: where the device can, without passing through registers, so
// that many are under way while other blocks compute.
// SPDX-License-Identifier: MIT
#pragma once

#define CHUNK VECTOR  // elements

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && !defined(UNALIGNED)
/// CHUNK elements, or zeros. `from` need not be memory then.
INLINE void copy_chunk(LOCAL in_t* to, GLOBAL const in_t* from, int inside) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(to)),
               "l"(from), "r"(inside ? 16 : 0)
               : "memory");
}
INLINE void wait_for_copies(void) {
  asm volatile("cp.async.wait_all;" ::: "memory");
  BARRIER();
}
/// What was copied since the last such call is one part; waits for all parts but the last `n`, a constant.
INLINE void end_part_of_copies(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
#define WAIT_FOR_COPIES_BUT(n)                                   \
  do {                                                           \
    asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory"); \
    BARRIER();                                                   \
  } while (0)
#else
INLINE void copy_chunk(LOCAL in_t* to, GLOBAL const in_t* from, int inside) {
#ifdef UNALIGNED
  UNROLL
  for (int i = 0; i < CHUNK; ++i) to[i] = inside ? from[i] : 0;
#else
  u32x4 v;
  v.x = v.y = v.z = v.w = 0;
  if (inside) v = *(GLOBAL const u32x4*)from;
  *(LOCAL u32x4*)to = v;
#endif
}
INLINE void wait_for_copies(void) { BARRIER(); }
INLINE void end_part_of_copies(void) {}
#define WAIT_FOR_COPIES_BUT(n) BARRIER()
#endif

/// Four elements as sums, at an address that is a multiple of their bytes.
INLINE void local_load_4(LOCAL const in_t* p, sum_t* v) {
#if IN_KIND == KIND_fp32
  local_load4(p, v);
#else
  const u64 u = *(LOCAL const u64*)p;
  v[0] = NARROW(u), v[1] = NARROW(u >> 16), v[2] = NARROW(u >> 32), v[3] = NARROW(u >> 48);
#endif
}

/// A tile of `rows` x `cols` pixels of `width` channels from (h0, w0) on: `pitch` elements between pixels; zeros
/// outside of the plane and beyond `channels`. `plane` is at the first of these channels of the image, `all` of which
/// lie between pixels.
INLINE void copy_tile(LOCAL in_t* tile, GLOBAL const in_t* plane, int h0, int w0, int rows, int cols, int width,
                      int pitch, int height, int breadth, int channels, int all, int thread, int threads) {
  const int chunks = width / CHUNK;
  for (int i = thread; i < rows * cols * chunks; i += threads) {
    const int pixel = i / chunks, part = i - pixel * chunks, row = pixel / cols, col = pixel - row * cols;
    const int inside = (u32)(h0 + row) < (u32)height && (u32)(w0 + col) < (u32)breadth && part * CHUNK < channels;
    const int at = ((h0 + row) * breadth + w0 + col) * all + part * CHUNK;
    copy_chunk(tile + pixel * pitch + part * CHUNK, plane + (inside ? at : 0), inside);
  }
}

// A ring of rows in local memory, for kernels that walk down strips of pixels: CHANNELS of a block, STAGES rows; PITCH
// elements between pixels, if there is anything between them.
#ifdef STAGES
#ifdef PITCH
#define PIECE_AT(i) ((i) / (CHANNELS / CHUNK) * PITCH + (i) % (CHANNELS / CHUNK) * CHUNK)
#else
#define LANES (CHANNELS / 4)
#define SLOTS (TILE_W / COLS)
#define THREADS (LANES * SLOTS)
#define PIECE_AT(i) ((i)*CHUNK)
#endif

/// Where the thread's pieces of a row of `pixels` begin, -1 where these are outside.
INLINE void place_pieces(int* at, const int each, int pixels, int col0, int breadth, int channels, int all) {
  UNROLL
  for (int k = 0; k < each; ++k) {
    const int i = THREAD(0) + k * THREADS, col = col0 + i / (CHANNELS / CHUNK), part = i % (CHANNELS / CHUNK) * CHUNK;
    at[k] = (u32)col < (u32)breadth && part < channels ? col * all + part : -1;
  }
}

/// A row from `from` on, zeros where it is not `inside`.
INLINE void copy_row(LOCAL in_t* to, GLOBAL const in_t* from, int inside, const int* at, const int each,
                     const int pieces) {
  UNROLL
  for (int k = 0; k < each; ++k) {
    const int i = THREAD(0) + k * THREADS, in = inside && at[k] >= 0;
    if ((k + 1) * THREADS <= pieces || i < pieces) copy_chunk(to + PIECE_AT(i), from + (in ? at[k] : 0), in);
  }
}
#endif
