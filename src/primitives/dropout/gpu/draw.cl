// y = x * scale where the number of the element's generator keeps it, else 0; stores the mask if there is one. PARTS
// threads share a generator: each takes every step, but loads and stores the elements of every PARTS-th run of RUN
// steps only, so that more loads are under way. Options: IN = OUT (type), NUM (arithmetic).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"
#include "kernels/gpu/portable/xorwow.h"

#define INPUTS 1
#define OUTPUTS 1
#include "kernels/gpu/portable/operands.h"

#define GENERATORS 128  // of a block
#define PARTS 2
#define RUN 8

typedef struct {
  scalar scale;
  u32 least;  // numbers from here on keep
  int any, stores, advances, slots;
  i64 count;
} Formula;

KERNEL THREADS_PER_BLOCK(GENERATORS* PARTS)
    draw(FIXED Walk w, OPERAND_PARAMETERS, GLOBAL u32* states, GLOBAL u8* mask, const Formula f) {
  const Operands p = OPERAND_VALUES;
  SHARED u32 start[GENERATORS * 6];
  const i64 first_state = (i64)BLOCK(0) * GENERATORS * 6;
  for (int i = THREAD(0); i < GENERATORS * 6; i += GENERATORS * PARTS) start[i] = states[first_state + i];
  BARRIER();
  const int mine = THREAD(0) % GENERATORS, slot = BLOCK(0) * GENERATORS + mine;
  u32 w0 = start[mine * 6], w1 = start[mine * 6 + 1], w2 = start[mine * 6 + 2], w3 = start[mine * 6 + 3];
  u32 w4 = start[mine * 6 + 4], d = start[mine * 6 + 5], v;
  int part = THREAD(0) / GENERATORS;  // runs until the next one of this thread
  for (i64 e = slot; e < f.count; e += (i64)RUN * f.slots, part = part == 0 ? PARTS - 1 : part - 1) {
    num x[RUN];
    i64 at[RUN][2];
    if (part == 0) {
      UNROLL
      for (int i = 0; i < RUN; ++i) {
        const i64 element = e + (i64)i * f.slots;
        if (element >= f.count) break;
        if (w.rank == 1) {
          at[i][0] = p.at[0]->first + element * p.at[0]->stride[0];
          at[i][1] = p.at[1]->first + element * p.at[1]->stride[0];
        } else {
          locate(&w, (int)element, p.at, 2, at[i]);
        }
        x[i] = decode(IN_TYPE, load_bits(p.in[0], SIZE_OF(IN_TYPE), at[i][0]));
      }
    }
    UNROLL
    for (int i = 0; i < RUN; ++i) {
      const i64 element = e + (i64)i * f.slots;
      if (element >= f.count) break;
      XORWOW_STEP(w0, w1, w2, w3, w4, d, v);
      if (part != 0) continue;
      const int keep = f.any && v >= f.least;
      if (f.stores) mask[element] = (u8)keep;
      store_bits(p.out[0], SIZE_OF(OUT_TYPE), at[i][1], encode(OUT_TYPE, keep ? x[i] * f.scale : 0));
    }
  }
  if (f.advances && THREAD(0) < GENERATORS) {
    GLOBAL u32* state = states + first_state + mine * 6;
    state[0] = w0;
    state[1] = w1;
    state[2] = w2;
    state[3] = w3;
    state[4] = w4;
    state[5] = d;
  }
}
