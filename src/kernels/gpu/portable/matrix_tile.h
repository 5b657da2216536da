// The inner loop of a tiled product on NVIDIA's matrix units: two operand tiles in local memory, of TILE_P and TILE_Q
// rows and TILE_K columns, WARPS_P x WARPS_Q warps. A tile is stored by rows (K_MAJOR) or, for 16-bit elements also, by
// columns, in chunks of 16 bytes whose place is permuted so that the eight rows of a block are in different banks.
// For OpenCL the units are emulated: the same functions locate the rows of blocks, so a test on a CPU proves them.
// The includer defines TILE_P, TILE_Q, WARPS_P, WARPS_Q, P_K_MAJOR and Q_K_MAJOR.
// SPDX-License-Identifier: MIT
#pragma once

#define ROW_CHUNKS 4  // of TILE_K
#define TILE_K (ROW_CHUNKS * VECTOR)
#define STEPS (ROW_CHUNKS / 2)
#define STEP_K (2 * VECTOR)  // columns that multiply_blocks takes
#define WARP_P (TILE_P / WARPS_P)
#define WARP_Q (TILE_Q / WARPS_Q)
#define BLOCKS_P (WARP_P / 16)
#define BLOCKS_Q (WARP_Q / 8)

/// The place of a chunk in lines of `chunks`.
INLINE int chunk_at(int line, int chunk, const int chunks) {
  const int permutation = chunks >= 8 ? line & 7 : chunks == 4 ? line >> 1 & 3 : line >> 2 & 1;
  return line * chunks + (chunk ^ permutation);
}

/// Offsets of elements in the tiles.
INLINE int p_at(int p, int k) {
#if P_K_MAJOR
  return chunk_at(p, k / VECTOR, ROW_CHUNKS) * VECTOR + k % VECTOR;
#else
  return chunk_at(k, p / VECTOR, TILE_P / VECTOR) * VECTOR + p % VECTOR;
#endif
}
INLINE int q_at(int q, int k) {
#if Q_K_MAJOR
  return chunk_at(q, k / VECTOR, ROW_CHUNKS) * VECTOR + k % VECTOR;
#else
  return chunk_at(k, q / VECTOR, TILE_Q / VECTOR) * VECTOR + q % VECTOR;
#endif
}

/// Where row `lane` % 8 of block `lane` / 8 of four begins: rows p to p + 15 and the columns of a step; or rows q to q
/// + 15, left block first. Blocks of a tile stored by columns are transposed when they are loaded.
INLINE int p_block_row(int lane, int p, int step) {
#if P_K_MAJOR
  return p_at(p + lane / 8 % 2 * 8 + lane % 8, step * STEP_K + lane / 16 * VECTOR);
#else
  return p_at(p + lane / 8 % 2 * 8, step * STEP_K + lane / 16 * 8 + lane % 8);
#endif
}
INLINE int q_block_row(int lane, int q, int step) {
#if Q_K_MAJOR
  return q_at(q + lane / 16 * 8 + lane % 8, step * STEP_K + lane / 8 % 2 * VECTOR);
#else
  return q_at(q + lane / 16 * 8, step * STEP_K + lane / 8 % 2 * 8 + lane % 8);
#endif
}

// Row and column of sum `i` of a lane within 16 x 8.
#define SUM_ROW(lane, i) ((lane) / 4 + (i) / 2 * 8)
#define SUM_COLUMN(lane, i) ((lane) % 4 * 2 + (i) % 2)

#ifdef __OPENCL_VERSION__

#if IN_KIND == KIND_fp32
#define OPERAND_OF(v) FLOAT_OF_BITS((BITS_OF_FLOAT(v) + 0x1000u) & ~0x1fffu)
#elif IN_KIND == KIND_int8
#define OPERAND_OF(v) (v)
#else
#define OPERAND_OF(v) NARROW(v)
#endif
#if IS_FLOAT8(IN_KIND)
#define SECOND_OPERAND_OF(v) PASTE(number_, SECOND)(v)
#else
#define SECOND_OPERAND_OF(v) OPERAND_OF(v)
#endif

INLINE sum_t p_element(LOCAL const in_t* tile, int p, int row, int step, int k) {
#if P_K_MAJOR
  return OPERAND_OF(tile[p_block_row((row / 8 + k / VECTOR * 2) * 8 + row % 8, p, step) + k % VECTOR]);
#else
  return OPERAND_OF(tile[p_block_row((row / 8 + k / 8 * 2) * 8 + k % 8, p, step) + row % 8]);
#endif
}
INLINE sum_t q_element(LOCAL const in_t* tile, int q, int column, int step, int k) {
#if Q_K_MAJOR
  return SECOND_OPERAND_OF(tile[q_block_row((column / 8 * 2 + k / VECTOR) * 8 + column % 8, q, step) + k % VECTOR]);
#else
  return SECOND_OPERAND_OF(tile[q_block_row((column / 8 * 2 + k / 8) * 8 + k % 8, q, step) + column % 8]);
#endif
}

/// sums += the product of the tiles' rows from p0 and q0 on.
INLINE void multiply_tiles(LOCAL const in_t* p_tile, LOCAL const in_t* q_tile, int p0, int q0, int lane,
                           sum_t (*sums)[BLOCKS_Q][4]) {
  for (int step = 0; step < STEPS; ++step)
    for (int i = 0; i < BLOCKS_P; ++i)
      for (int j = 0; j < BLOCKS_Q; ++j)
        for (int s = 0; s < 4; ++s)
          for (int k = 0; k < STEP_K; ++k)
            sums[i][j][s] += p_element(p_tile, p0 + i * 16, SUM_ROW(lane, s), step, k) *
                             q_element(q_tile, q0 + j / 2 * 16, j % 2 * 8 + SUM_COLUMN(lane, s), step, k);
}

#else

INLINE void multiply_tiles(LOCAL const in_t* p_tile, LOCAL const in_t* q_tile, int p0, int q0, int lane,
                           sum_t (*sums)[BLOCKS_Q][4]) {
  UNROLL
  for (int step = 0; step < STEPS; ++step) {
    u32 p[BLOCKS_P][4], q[BLOCKS_Q][2];
    UNROLL
    for (int j = 0; j < BLOCKS_Q; j += 2) {
      const u32 address = local_address(q_tile + q_block_row(lane, q0 + j * 8, step));
#if Q_K_MAJOR
      load_4_blocks(address, q[j]);
#else
      load_4_transposed(address, q[j]);
#endif
    }
    UNROLL
    for (int i = 0; i < BLOCKS_P; ++i) {
      const u32 address = local_address(p_tile + p_block_row(lane, p0 + i * 16, step));
#if P_K_MAJOR
      load_4_blocks(address, p[i]);
#else
      load_4_transposed(address, p[i]);
#endif
    }
    UNROLL
    for (int i = 0; i < BLOCKS_P; ++i) {
      UNROLL
      for (int j = 0; j < BLOCKS_Q; ++j) multiply_blocks(p[i], q[j], sums[i][j]);
    }
  }
}

#endif
