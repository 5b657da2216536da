// The CTC loss in three kernels: the sums of each step's classes, and the part of the gradient that does not depend on
// labels; the rows of states, forward and of the reversed sequence, by a block each; the posteriors of each step.
// Logarithms of states are sums of an integer and a fraction in fp32, which keeps its accuracy over any number of
// steps. Options: IN = OUT (type), NUM (float).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/functions.h"
#include "kernels/gpu/portable/ctc_shape.h"

#define STEP_THREADS 64
#define PATH_THREADS 128
#define NONE (-(1 << 29))  // the logarithm of 0: sums of two of them are integers
#define DEAD (NONE / 2)

INLINE num load_x(GLOBAL const u8* x, i64 at) { return decode(IN_TYPE, load_bits(x, SIZE_OF(IN_TYPE), at)); }
INLINE void store_out(GLOBAL u8* p, i64 at, num v) { store_bits(p, SIZE_OF(OUT_TYPE), at, encode(OUT_TYPE, v)); }

INLINE i64 x_at(const CtcShape s, int t, int n) { return t * s.x_step + n * s.x_sequence; }
INLINE i64 gradient_at(const CtcShape s, int t, int n) { return t * s.gradient_step + n * s.gradient_sequence; }
INLINE i64 row_at(const CtcShape s, int n, int direction, int t) { return ((i64)n * 2 + direction) * s.steps + t; }

/// NaN stays.
INLINE num log_prob(num x, num log_sum) {
  const num v = x - log_sum, none = (num)NONE;
  return v < none ? none : v > -none ? -none : v;
}

/// log(1 + x) for 0 <= x <= 2, exact for 0.
INLINE num log1p_two(num x) { return x > 1 ? log1p_unit((x - 1) * 0.5f) + 0.69314718056f : log1p_unit(x); }

/// log x for x >= 1, NaN for NaN.
INLINE num log_from_one(num x) {
  int n = 0;
  while (x > 3.0e7f) {
    x *= 0x1p-24f;
    n += 24;
  }
  while (x > 2) {
    x *= 0.5f;
    ++n;
  }
  return (num)n * 0.69314718056f + log1p_unit(x - 1);
}

/// A logarithm: whole + part.
typedef struct {
  int whole;
  num part;
} Log;

INLINE Log none_log(void) {
  const Log none = {NONE, 0};
  return none;
}
INLINE Log log_at(GLOBAL const int* whole, GLOBAL const num* part, i64 i) {
  const Log v = {whole[i], part[i]};
  return v;
}
/// a - b, NaN for NaN.
INLINE num difference(Log a, Log b) { return (num)(a.whole - b.whole) + (a.part - b.part); }

/// Whether no path reaches the state; NaN is no such logarithm.
INLINE int is_dead(Log v) { return v.whole < DEAD && v.part == v.part; }

/// The logarithm of the sum of the three, plus `more`.
INLINE Log add_logs(Log a, Log b, Log c, num more) {
  const num b_over_a = difference(b, a);
  const Log high = b_over_a > 0 ? b : a;
  const num c_over_high = difference(c, high);
  const Log most = c_over_high > 0 ? c : high;
  const num first = -abs_of(c_over_high), second = -abs_of(b_over_a) - (c_over_high > 0 ? c_over_high : 0);
  const num part = (log1p_two(exp_of(first) + exp_of(second)) + most.part) + more;
  const int carried = (int)(part == part ? part : 0), whole = most.whole + carried;
  const Log sum = {whole < NONE ? NONE : whole > -NONE ? -NONE : whole, part - (num)carried};
  return sum;
}

/// The sum, or the largest, of all threads' values, for every thread; in a fixed order.
INLINE num combine_block(LOCAL num* values, num v, const int is_sum) {
  const int thread = THREAD(0);
  BARRIER();
  values[thread] = v;
  for (int other = STEP_THREADS / 2; other > 0; other /= 2) {
    BARRIER();
    if (thread < other) {
      const num a = values[thread], b = values[thread + other];
      values[thread] = is_sum ? a + b : a > b ? a : b;
    }
  }
  BARRIER();
  return values[0];
}

/// Stores integers of the host, which a graph then keeps.
KERNEL THREADS_PER_BLOCK(CTC_VALUES)
    ctc_store(GLOBAL int* workspace, const i64 at, const int count, const CtcValues values) {
  if (THREAD(0) < count) workspace[at + THREAD(0)] = values.value[THREAD(0)];
}

/// A block per step and sequence. `has_gradient` 0: only the sums.
KERNEL THREADS_PER_BLOCK(STEP_THREADS) ctc_steps(GLOBAL const u8* x, GLOBAL u8* gradients, GLOBAL int* workspace,
                                                 const CtcShape s, const CtcParts parts, const int has_gradient) {
  SHARED num values[STEP_THREADS];
  const int thread = THREAD(0), t = BLOCK(0) / s.batch, n = BLOCK(0) % s.batch;
  const int counts = t < ((GLOBAL const CtcSequence*)workspace)[n].steps;
  const i64 from = x_at(s, t, n);
  num log_sum = 0;
  if (s.softmax && counts) {
    num largest = -FLOAT_OF_BITS(0x7f800000u), sum = 0;
    for (int c = thread; c < s.classes; c += STEP_THREADS) {
      const num v = load_x(x, from + c * s.x_class);
      largest = v > largest ? v : largest;
    }
    largest = combine_block(values, largest, 0);
    for (int c = thread; c < s.classes; c += STEP_THREADS) sum += exp_of(load_x(x, from + c * s.x_class) - largest);
    log_sum = largest + log_from_one(combine_block(values, sum, 1));
  }
  if (thread == 0) ((GLOBAL num*)workspace)[parts.log_sums + BLOCK(0)] = log_sum;
  if (!has_gradient) return;
  const i64 to = gradient_at(s, t, n);
  for (int c = thread; c < s.classes; c += STEP_THREADS)
    store_out(gradients, to + c * s.gradient_class,
              s.softmax && counts ? exp_of(load_x(x, from + c * s.x_class) - log_sum) : 0);
}

/// A block per sequence and direction: forward, and backward as the reversed sequence.
KERNEL THREADS_PER_BLOCK(PATH_THREADS)
    ctc_paths(GLOBAL const u8* x, GLOBAL u8* losses, GLOBAL int* workspace, const CtcShape s, const CtcParts parts) {
  const int thread = THREAD(0), n = BLOCK(0), direction = BLOCK(1);
  const CtcSequence sequence = ((GLOBAL const CtcSequence*)workspace)[n];
  GLOBAL const int* labels = workspace + parts.list + sequence.labels;
  GLOBAL num* floats = (GLOBAL num*)workspace;
  const int states = 2 * sequence.count + 1;
  i64 row = 0, previous = 0;  // positions of rows
  for (int i = 0; i < sequence.steps; ++i) {
    const int t = direction ? sequence.steps - 1 - i : i;
    const i64 from = x_at(s, t, n);
    const num log_sum = floats[parts.log_sums + (i64)t * s.batch + n];
    GLOBAL const int* whole = workspace + parts.wholes + previous;
    GLOBAL const num* part = floats + parts.rows + previous;
    row = row_at(s, n, direction, t) * s.states;
    for (int state = thread; state < states; state += PATH_THREADS) {
      const int label = direction ? sequence.count - 1 - state / 2 : state / 2;
      const int before = direction ? label + 1 : label - 1;
      const int class_of = state % 2 ? labels[label] : s.blank;
      const int skips = state % 2 && state > 1 && class_of != s.blank && class_of != labels[before];
      Log a = none_log(), b = none_log(), c = none_log();
      if (i > 0) {
        a = log_at(whole, part, state);
        if (state > 0) b = log_at(whole, part, state - 1);
        if (skips) c = log_at(whole, part, state - 2);
      } else if (state <= 1) {
        a.whole = 0;
      }
      const Log v = add_logs(a, b, c, log_prob(load_x(x, from + class_of * s.x_class), log_sum));
      workspace[parts.wholes + row + state] = v.whole;
      floats[parts.rows + row + state] = v.part;
    }
    BARRIER_GLOBAL();
    previous = row;
  }
  if (direction != 0 || thread != 0) return;
  Log total = {0, 0};
  if (sequence.steps > 0) {
    GLOBAL const int* whole = workspace + parts.wholes + row;
    GLOBAL const num* part = floats + parts.rows + row;
    total = add_logs(log_at(whole, part, states - 1), states > 1 ? log_at(whole, part, states - 2) : none_log(),
                     none_log(), 0);
  }
  floats[parts.fractions + n] = total.part;
  workspace[parts.totals + n] = total.whole;
  store_out(losses, n, is_dead(total) ? FLOAT_OF_BITS(0x7f800000u) : 0 - ((num)total.whole + total.part));
}

/// The share of paths that are in a state, from those before and those after it: forward and backward have the
/// positions of the rows.
INLINE num posterior(const CtcShape s, const CtcParts parts, GLOBAL const int* workspace, i64 forward, i64 backward,
                     Log total, num log_prob_of_class) {
  GLOBAL const num* floats = (GLOBAL const num*)workspace;
  const Log a = log_at(workspace + parts.wholes, floats + parts.rows, forward);
  const Log b = log_at(workspace + parts.wholes, floats + parts.rows, backward);
  const num passes = s.softmax ? 1 : 2;
  const num part = (a.part + b.part - total.part) - passes * log_prob_of_class;
  return log_prob_of_class <= (num)NONE ? 0 : exp_of((num)(a.whole + b.whole - total.whole) + part);
}

/// A block per step and sequence: subtracts the posteriors of the classes of labels, then that of the blank.
KERNEL THREADS_PER_BLOCK(STEP_THREADS)
    ctc_gradients(GLOBAL const u8* x, GLOBAL u8* gradients, GLOBAL const int* workspace, const CtcShape s,
                  const CtcParts parts) {
  SHARED num values[STEP_THREADS];
  const int thread = THREAD(0), t = BLOCK(0) / s.batch, n = BLOCK(0) % s.batch;
  const CtcSequence sequence = ((GLOBAL const CtcSequence*)workspace)[n];
  GLOBAL const num* floats = (GLOBAL const num*)workspace;
  const Log total = log_at(workspace + parts.totals, floats + parts.fractions, n);
  const num log_sum = floats[parts.log_sums + BLOCK(0)];
  if (t >= sequence.steps || is_dead(total)) return;
  GLOBAL const int* list = workspace + parts.list;
  const i64 from = x_at(s, t, n), to = gradient_at(s, t, n);
  const i64 forward = row_at(s, n, 0, t) * s.states, last = row_at(s, n, 1, t) * s.states + 2 * sequence.count;
  for (int i = thread; i < sequence.classes; i += STEP_THREADS) {
    const int first = list[sequence.starts + i], end = list[sequence.starts + i + 1];
    const int class_of = list[sequence.labels + list[sequence.order + first]];
    const num value = load_x(x, from + class_of * s.x_class), log_prob_of_class = log_prob(value, log_sum);
    num sum = 0;
    for (int j = first; j < end; ++j) {
      const int state = 2 * list[sequence.order + j] + 1;
      sum += posterior(s, parts, workspace, forward + state, last - state, total, log_prob_of_class);
    }
    store_out(gradients, to + class_of * s.gradient_class, (s.softmax ? exp_of(value - log_sum) : 0) - sum);
  }
  const num value = load_x(x, from + s.blank * s.x_class), log_prob_of_blank = log_prob(value, log_sum);
  num sum = 0;
  for (int state = thread; state <= 2 * sequence.count; state += STEP_THREADS)
    if (state % 2 == 0 || list[sequence.labels + state / 2] == s.blank)
      sum += posterior(s, parts, workspace, forward + state, last - state, total, log_prob_of_blank);
  sum = combine_block(values, sum, 1);
  if (thread == 0)
    store_out(gradients, to + s.blank * s.gradient_class, (s.softmax ? exp_of(value - log_sum) : 0) - sum);
}
