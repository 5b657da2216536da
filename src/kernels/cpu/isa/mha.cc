// Attention: of a block of queries (mha_forward.h), or between matrix products, where the softmax of a row needs two
// passes over a block: the maximum, then the weights.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/mha.h"

#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/mha_forward.h"
#include "kernels/cpu/isa/skeletons/elements.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

constexpr int kN = kLanes<float>;
using Numbers = Vec<std::uint32_t>;
using Wide = VecType<std::uint64_t, kN>::type;

constexpr float kInfinity = __builtin_inff();

/// e^x for x <= 0; below the least normal number 0.
[[gnu::always_inline]] inline Floats weight_of(Floats x) { return x < -87 ? Floats{} : exp_of_term<float>(x); }
/// For loops that keep too much in registers to have it inlined.
[[gnu::noinline]] Floats weight_by_call(Floats x) { return weight_of(x); }

/// The factors of kN neighbouring scores from number `element` on: 0, or that of a score that is kept.
[[gnu::noinline]] Floats kept_factors(const AttentionDropout& dropout, std::uint64_t element) {
  Wide x;
  for (int i = 0; i < kN; ++i) x[i] = dropout.seed + element + static_cast<std::uint64_t>(i);
  x = HASH_STEP_1(x);
  x = HASH_STEP_2(x);
  x = HASH_STEP_3(x);
  const Numbers low = __builtin_convertvector(x, Numbers), high = __builtin_convertvector(x >> 32, Numbers);
  Numbers w[5], d, t0, t1, drawn;
  XORWOW_START(low, high, w[0], w[1], w[2], w[3], w[4], d, t0, t1);
  if (dropout.offset < ATTENTION_STEPS) {
    for (std::uint64_t i = 0; i <= dropout.offset; ++i) XORWOW_STEP(w[0], w[1], w[2], w[3], w[4], d, drawn);
  } else {
    drawn = d + 362437u * static_cast<std::uint32_t>(dropout.offset + 1);
    Numbers last{};
    for (int b = 0; b < XORWOW_BITS; ++b) last ^= (Numbers{} - (w[b / 32] >> (b % 32) & 1u)) & dropout.jump[b];
    drawn += last;
  }
  return drawn >= broadcast(dropout.least) ? broadcast(dropout.kept) : Floats{};
}

float largest_of(Floats v) {
  float m = v[0];
  for (int i = 1; i < kN; ++i) m = v[i] > m ? v[i] : m;
  return m;
}
float sum_of(Floats v) {
  float s = 0;
  for (int i = 0; i < kN; ++i) s += v[i];
  return s;
}

/// A row of a block.
struct Row {
  float* scores;
  const float* bias;
  i64 visible;
  std::uint64_t element;

  Row(const ScoreBlock& b, i64 r)
      : scores(b.scores + r * b.pitch),
        bias(b.bias == nullptr ? nullptr : b.bias + r * b.bias_pitch),
        visible(max_of<i64>(0, min_of(b.columns, b.visible + r))),
        element(b.element + static_cast<std::uint64_t>(r) * b.row_elements) {}
};

/// Calls body(column, number of columns) for vectors of columns; the rest of the last vector is in the row's pitch.
template <class Body>
void for_vectors(i64 columns, const Body& body) {
  i64 c = 0;
  for (; c + kN <= columns; c += kN) body(c, kN);
  if (c < columns) body(c, static_cast<int>(columns - c));
}

/// `v` in the first n lanes, `other` in the rest.
Floats first_lanes(Floats v, int n, Floats other) {
  if (n == kN) return v;
  Ints<float> lane;
  for (int i = 0; i < kN; ++i) lane[i] = i;
  return lane < n ? v : other;
}

template <class S>
void store_weights(Row& row, i64 column, int n, Floats v) {
  store_narrowed(reinterpret_cast<S*>(row.scores) + column, first_lanes(v, n, Floats{}));
}
/// Zeros from the vector of `column` on.
template <class S>
void clear(Row& row, i64 column, i64 columns) {
  for (i64 c = (column + kN - 1) / kN * kN; c < columns; c += kN)
    store_narrowed(reinterpret_cast<S*>(row.scores) + c, Floats{});
}

template <class S>
void weigh_as(const ScoreBlock& b, float* largest, float* sum, float* factor) {
  for (i64 r = 0; r < b.rows; ++r) {
    Row row(b, r);
    const float before = largest[r];
    Floats most = broadcast(before);
    const auto raise = [&](i64 c, int n) __attribute__((always_inline)) {
      Floats v = load(row.scores + c);
      if (row.bias != nullptr) {
        v += load_widened(row.bias + c, n);
        store(row.scores + c, v);
      }
      v = first_lanes(v, n, most);
      most = v > most ? v : most;
    };
    for_vectors(row.visible, raise);
    const float now = largest_of(most);
    // Where no key has a weight so far.
    const Floats shift = broadcast(now == -kInfinity ? 0 : now);
    Floats total{}, odd{};
    i64 pairs = 0;  // columns of pairs of vectors, whose exponentials overlap
    for (; b.dropout == nullptr && pairs + 2 * kN <= row.visible; pairs += 2 * kN) {
      const float* const scores = row.scores + pairs;
      const Floats low = weight_of(load(scores) - shift), high = weight_of(load(scores + kN) - shift);
      total += low;
      odd += high;
      Elements<S, float>::store(row.scores, pairs, low, high);
    }
    total += odd;
    for_vectors(row.visible - pairs, [&](i64 rest, int n) {
      const i64 c = pairs + rest;
      const Floats v = first_lanes(weight_of(load(row.scores + c) - shift), n, Floats{});
      total += v;
      const bool drops = b.dropout != nullptr;
      store_weights<S>(row, c, n,
                       drops ? v * kept_factors(*b.dropout, row.element + static_cast<std::uint64_t>(c)) : v);
    });
    clear<S>(row, row.visible, b.columns);
    factor[r] = now == before || before == -kInfinity ? 1 : weight_of(broadcast(before) - shift)[0];
    sum[r] = sum[r] * factor[r] + sum_of(total);
    largest[r] = now;
  }
}

void weigh(const ScoreBlock& b, float* largest, float* sum, float* factor) {
  b.weights == DataType::kBFloat16 ? weigh_as<Bfloat16>(b, largest, sum, factor)
                                   : weigh_as<float>(b, largest, sum, factor);
}

template <class S>
float differentiate_as(const ScoreBlock& b, const GradientBlock& g) {
  Floats most{};
  for (i64 r = 0; r < b.rows; ++r) {
    Row row(b, r);
    Row gradients = row;
    gradients.scores = g.gradients == nullptr ? nullptr : g.gradients + r * b.pitch;
    const Floats largest = broadcast(g.largest[r]), inverse = broadcast(g.inverse_sum[r]);
    const Floats delta = broadcast(gradients.scores == nullptr ? 0 : g.delta[r]);
    for_vectors(row.visible, [&](i64 c, int n) {
      Floats v = load(row.scores + c);
      if (row.bias != nullptr) v += load_widened(row.bias + c, n);
      const Floats softmax = weight_by_call(v - largest) * inverse;
      const Floats kept = b.dropout == nullptr ? broadcast(1.0f)
                                               : kept_factors(*b.dropout, row.element + static_cast<std::uint64_t>(c));
      store_weights<S>(row, c, n, softmax * kept * g.scale_weights);
      if (gradients.scores == nullptr) return;
      const Floats gradient = first_lanes(softmax * g.scale * (kept * load(gradients.scores + c) - delta), n, Floats{});
      const Floats magnitude = absolute<float>(gradient);
      most = magnitude > most ? magnitude : most;
      store_weights<S>(gradients, c, n, gradient * g.scale_gradient);
    });
    clear<S>(row, row.visible, b.columns);
    if (gradients.scores != nullptr) clear<S>(gradients, row.visible, b.columns);
  }
  return largest_of(most);
}

float differentiate(const ScoreBlock& b, const GradientBlock& g) {
  return b.weights == DataType::kBFloat16 ? differentiate_as<Bfloat16>(b, g) : differentiate_as<float>(b, g);
}

void multiply_rows(float* matrix, i64 rows, i64 columns, const float* factor) {
  for (i64 r = 0; r < rows; ++r) {
    if (factor[r] == 1) continue;
    float* const row = matrix + r * columns;
    for_vectors(columns, [&](i64 c, int n) { store_narrowed(row + c, load_widened(row + c, n) * factor[r], n); });
  }
}

template <class S>
float store_as(const float* matrix, i64 rows, i64 columns, const float* row_factor, float factor, float scale, S* out,
               i64 out_pitch) {
  Floats most{};
  for (i64 r = 0; r < rows; ++r) {
    const float of_row = row_factor == nullptr ? factor : factor * row_factor[r];
    for_vectors(columns, [&](i64 c, int n) {
      const Floats v = load_widened(matrix + r * columns + c, n) * of_row, magnitude = absolute<float>(v);
      most = magnitude > most ? magnitude : most;
      store_narrowed(out + r * out_pitch + c, v * scale, n);
    });
  }
  return largest_of(most);
}

float store_matrix(const float* matrix, i64 rows, i64 columns, const float* row_factor, float factor, float scale,
                   DataType type, void* out, i64 out_pitch) {
  const auto as = [&](auto* p) { return store_as(matrix, rows, columns, row_factor, factor, scale, p, out_pitch); };
  switch (type) {
    case DataType::kHalf: return as(static_cast<Half*>(out));
    case DataType::kBFloat16: return as(static_cast<Bfloat16*>(out));
    default: return as(static_cast<float*>(out));
  }
}

template <class S>
void dot_rows_of(const S* a, i64 a_pitch, const S* b, i64 b_pitch, i64 rows, i64 columns, float factor, float* result) {
  for (i64 r = 0; r < rows; ++r) {
    Floats sum{};
    for_vectors(columns, [&](i64 c, int n) {
      sum += load_widened(a + r * a_pitch + c, n) * load_widened(b + r * b_pitch + c, n);
    });
    result[r] = factor * sum_of(sum);
  }
}

void dot_rows(DataType type, const void* a, i64 a_pitch, const void* b, i64 b_pitch, i64 rows, i64 columns,
              float factor, float* result) {
  const auto as = [&](const auto* p) {
    dot_rows_of(p, a_pitch, static_cast<decltype(p)>(b), b_pitch, rows, columns, factor, result);
  };
  switch (type) {
    case DataType::kHalf: return as(static_cast<const Half*>(a));
    case DataType::kBFloat16: return as(static_cast<const Bfloat16*>(a));
    default: return as(static_cast<const float*>(a));
  }
}

float attend(const QueryBlock& b, void* scratch) {
  Arena arena(static_cast<char*>(scratch));
  return with_storage<float>(
      b.type, [&](auto* s) { return QueryBlockTask<std::remove_pointer_t<decltype(s)>>(b, arena).run(); });
}

std::size_t attend_scratch(const QueryBlock& b) {
  Arena arena(nullptr);
  QueryBlockTask<float>(b, arena);
  return arena.bytes();
}

}  // namespace

template <>
const MhaKernels& entry_points<MhaKernels>() {
  constexpr bool kAttends = kVectorBytes != 64;  // not measured with AVX-512
  static constexpr MhaKernels kKernels{.attend = kAttends ? attend : nullptr,
                                       .attend_scratch = kAttends ? attend_scratch : nullptr,
                                       .weigh = weigh,
                                       .differentiate = differentiate,
                                       .multiply_rows = multiply_rows,
                                       .store = store_matrix,
                                       .dot_rows = dot_rows};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
