// Cells of recurrent networks. A vector of units of all samples before the next: biases stay in registers.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/rnn.h"

#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/skeletons/elements.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

using Floats = Vec<float>;

[[gnu::always_inline]] inline Floats logistic(Floats x) {
  const Floats u = exp_of_term<float>(-absolute<float>(x));
  return (x >= Floats{} ? broadcast(1.0f) : u) / (broadcast(1.0f) + u);
}
[[gnu::always_inline]] inline Floats tanh_of(Floats x) {
  const Floats u = expm1_down<float>(-2 * absolute<float>(x));
  return with_sign<float>(u / (u + 2), x);
}

// Parts of vectors and fp16 are not inlined, which would triple the code.
template <class S>
Floats load_part(const void* data, i64 at, i64 n) {
  alignas(64) S part[kLanes<float>] = {};
  __builtin_memcpy(part, static_cast<const S*>(data) + at, static_cast<std::size_t>(n) * sizeof(S));
  return Elements<S, float>::load(part, 0);
}
[[gnu::noinline]] Floats load_any(DataType type, const void* data, i64 at, i64 n) {
  if (type == DataType::kHalf) return load_part<Half>(data, at, n);
  if (type == DataType::kBFloat16) return load_part<Bfloat16>(data, at, n);
  return load_part<float>(data, at, n);
}
template <class S>
void store_part(void* data, i64 at, i64 n, Floats v) {
  alignas(64) S part[kLanes<float>];
  Elements<S, float>::store(part, 0, v);
  __builtin_memcpy(static_cast<S*>(data) + at, part, static_cast<std::size_t>(n) * sizeof(S));
}
[[gnu::noinline]] void store_any(DataType type, void* data, i64 at, i64 n, Floats v) {
  if (type == DataType::kHalf) return store_part<Half>(data, at, n, v);
  if (type == DataType::kBFloat16) return store_part<Bfloat16>(data, at, n, v);
  store_part<float>(data, at, n, v);
}

/// Units [first, first + n) of one sample: a vector of tensors of type S, or, void, n <= a vector of any type.
template <class S>
struct Units {
  DataType type;
  i64 first, n, sample = 0;

  template <class Data>
  Floats read(const RnnRows<Data>& rows, i64 gate = 0) const {
    using E = std::conditional_t<std::is_same_v<Data, float> && !std::is_void_v<S>, float, S>;
    const i64 at = sample * rows.pitch + gate * rows.gate + first;
    if constexpr (std::is_void_v<E>)
      return load_any(std::is_same_v<Data, float> ? DataType::kFloat : type, rows.data, at, n);
    else
      return Elements<E, float>::load(rows.data, at);
  }
  template <class Data>
  Floats read_or_zero(const RnnRows<Data>& rows, i64 gate = 0) const {
    return rows.data ? read(rows, gate) : Floats{};
  }
  /// Rows are often pages apart, where processors do not prefetch. Inlined early: GCC drops calls without an effect.
  template <int kGates, class Data>
  [[gnu::always_inline]] void prefetch(const RnnRows<Data>& rows) const {
    if (!rows.data) return;
    constexpr i64 kSamples = 4;
    const i64 size = std::is_same_v<Data, float> ? 4 : static_cast<i64>(size_of(type));
    const char* const at = reinterpret_cast<const char*>(rows.data) + ((sample + kSamples) * rows.pitch + first) * size;
#pragma GCC unroll 4
    for (int g = 0; g < kGates; ++g) __builtin_prefetch(at + g * rows.gate * size);
  }
  template <class Data>
  void write(const RnnRows<Data>& rows, Floats v, i64 gate = 0) const {
    using E = std::conditional_t<std::is_same_v<Data, float> && !std::is_void_v<S>, float, S>;
    if (!rows.data) return;
    const i64 at = sample * rows.pitch + gate * rows.gate + first;
    if constexpr (std::is_void_v<E>)
      store_any(std::is_same_v<Data, float> ? DataType::kFloat : type, rows.data, at, n, v);
    else
      Elements<E, float>::store(rows.data, at, v);
  }
};

constexpr int gates_of(RnnCell cell) { return cell == RnnCell::kLstm ? 4 : cell == RnnCell::kGru ? 3 : 1; }

/// A vector of units of one layer: biases, and the step of one sample, in two parts.
template <RnnCell kCell>
struct Forward {
  static constexpr int kGates = gates_of(kCell);
  const RnnForward& f;
  Floats input_bias[kGates], recurrent_bias[kGates];

  template <class S>
  Forward(const RnnForward& step, const Units<S>& u) : f(step) {
#pragma GCC unroll 4
    for (int g = 0; g < kGates; ++g) {
      input_bias[g] = u.read_or_zero(f.input_bias, g);
      recurrent_bias[g] = u.read_or_zero(f.recurrent_bias, g);
    }
  }

  /// Gates that need no other replace the products: a loop over samples of its own, whose steps overlap.
  template <class S>
  void begin(const Units<S>& u) const {
    u.template prefetch<kGates>(f.x);
    Floats sum[kGates];
#pragma GCC unroll 4
    for (int g = 0; g < kGates; ++g) {
      const Floats state = u.read(f.recurrent, g);
      const bool has_bias = u.sample < f.begun || f.bias_of_first;
      const Floats biased = has_bias ? state + recurrent_bias[g] : state;
      sum[g] = kCell == RnnCell::kGru && g == 2 ? biased : u.read(f.x, g) + input_bias[g] + biased;
    }
    if constexpr (kCell == RnnCell::kLstm) {
#pragma GCC unroll 4
      for (int g = 0; g < 3; ++g) sum[g] = logistic(sum[g]);
      sum[3] = tanh_of(sum[3]);
    } else if constexpr (kCell == RnnCell::kGru) {
#pragma GCC unroll 4
      for (int g = 0; g < 2; ++g) sum[g] = logistic(sum[g]);
    } else {
      sum[0] = f.cell == RnnCell::kTanh ? tanh_of(sum[0]) : sum[0] <= Floats{} ? Floats{} : sum[0];
    }
#pragma GCC unroll 4
    for (int g = 0; g < kGates; ++g) u.write(f.recurrent, sum[g], g);
  }

  template <class S>
  void finish(const Units<S>& u) const {
    u.template prefetch<1>(f.y);
    u.template prefetch<1>(f.previous_h);
    if constexpr (kCell == RnnCell::kLstm) u.template prefetch<1>(f.previous_c);
    const Floats before = u.read(f.h_before);
    Floats gates[kGates], h;
#pragma GCC unroll 4
    for (int g = 0; g < kGates; ++g) gates[g] = u.read(f.recurrent, g);
    if constexpr (kCell == RnnCell::kLstm) {
      const Floats c_before = u.sample >= f.begun ? u.read_or_zero(f.cx) : u.read(f.c);
      const Floats c = gates[1] * c_before + gates[0] * gates[3];
      h = gates[2] * tanh_of(c);
      u.write(f.c, c);
      u.write(f.previous_c, c_before);
      if (u.sample >= f.continued) u.write(f.cy, c);
    } else if constexpr (kCell == RnnCell::kGru) {
      u.write(f.recurrent_n, gates[2]);
      gates[2] = tanh_of(u.read(f.x, 2) + input_bias[2] + gates[1] * gates[2]);
      h = gates[2] + gates[0] * (before - gates[2]);
    } else {
      h = gates[0];
    }
#pragma GCC unroll 4
    for (int g = 0; g < kGates; ++g) u.write(f.gates, gates[g], g);
    u.write(f.previous_h, before);
    u.write(f.h_after, h);
    u.write(f.y, h);
    if (u.sample >= f.continued) u.write(f.hy, h);
  }
};

template <RnnCell kCell>
struct Backward {
  const RnnBackward& b;

  template <class S>
  Backward(const RnnBackward& step, const Units<S>&) : b(step) {}

  template <class S>
  void begin(const Units<S>&) const {}

  template <class S>
  void finish(const Units<S>& u) const {
    const Floats one = broadcast(1.0f);
    u.template prefetch<gates_of(kCell)>(b.gates);
    u.template prefetch<1>(b.dy);
    u.template prefetch<gates_of(kCell)>(b.input_gradient);
    if constexpr (kCell == RnnCell::kLstm) u.template prefetch<1>(b.previous_c);
    const bool continues = u.sample < b.continued, begins = u.sample >= b.begun;
    Floats dh = u.read(b.dy) + (continues ? u.read(b.product) : u.read_or_zero(b.dhy));
    if constexpr (kCell == RnnCell::kLstm) {
      const Floats i = u.read(b.gates, 0), f = u.read(b.gates, 1), o = u.read(b.gates, 2), g = u.read(b.gates, 3);
      const Floats before = u.read(b.previous_c), t = tanh_of(f * before + i * g);
      const Floats dc = (continues ? u.read(b.dc) : u.read_or_zero(b.dcy)) + dh * o * (one - t * t);
      u.write(b.input_gradient, dc * g * i * (one - i), 0);
      u.write(b.input_gradient, dc * before * f * (one - f), 1);
      u.write(b.input_gradient, dh * t * o * (one - o), 2);
      u.write(b.input_gradient, dc * i * (one - g * g), 3);
      u.write(b.dc, dc * f);
      if (begins) u.write(b.dcx, dc * f);
    } else if constexpr (kCell == RnnCell::kGru) {
      if (continues) dh = dh + u.read(b.direct);
      const Floats z = u.read(b.gates, 0), r = u.read(b.gates, 1), n = u.read(b.gates, 2);
      const Floats dz = dh * (u.read(b.previous_h) - n) * z * (one - z), dn = dh * (one - z) * (one - n * n);
      const Floats dr = dn * u.read(b.recurrent_n) * r * (one - r);
      const Floats gradients[3] = {dz, dr, dn};
#pragma GCC unroll 4
      for (int g = 0; g < 3; ++g) {
        u.write(b.input_gradient, gradients[g], g);
        u.write(b.recurrent_gradient, g == 2 ? dn * r : gradients[g], g);
      }
      u.write(b.direct, dh * z);
      if (begins) u.write(b.dhx, dh * z);
    } else {
      const Floats h = u.read(b.gates);
      const Floats of_relu = h > Floats{} ? dh : Floats{};
      u.write(b.input_gradient, b.cell == RnnCell::kTanh ? dh * (one - h * h) : of_relu);
    }
  }
};

template <class Cell, class S, class Step>
[[gnu::noinline]] void each_sample(const Step& step, i64 first, i64 n) {
  Units<S> u{step.type, first, n};
  const Cell cell(step, u);
  for (; u.sample < step.samples; ++u.sample) cell.begin(u);
  for (u.sample = 0; u.sample < step.samples; ++u.sample) cell.finish(u);
}

template <class Cell, class Step>
void each_unit(const Step& step) {
  for (i64 i = 0; i < step.units; i += kLanes<float>) {
    const i64 n = min_of<i64>(kLanes<float>, step.units - i);
    if (n == kLanes<float> && step.type == DataType::kFloat)
      each_sample<Cell, float>(step, i, n);
    else if (n == kLanes<float> && step.type == DataType::kBFloat16)
      each_sample<Cell, Bfloat16>(step, i, n);
    else
      each_sample<Cell, void>(step, i, n);
  }
}

template <template <RnnCell> class Cell, class Step>
void run(const Step& step) {
  switch (step.cell) {
    case RnnCell::kRelu:
    case RnnCell::kTanh: return each_unit<Cell<RnnCell::kTanh>>(step);
    case RnnCell::kLstm: return each_unit<Cell<RnnCell::kLstm>>(step);
    case RnnCell::kGru: return each_unit<Cell<RnnCell::kGru>>(step);
  }
}

}  // namespace

template <>
const RnnKernels& entry_points<RnnKernels>() {
  static constexpr RnnKernels kKernels{.forward = run<Forward, RnnForward>, .backward = run<Backward, RnnBackward>};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
