// Cells of recurrent networks. A vector of units of all samples before the next: biases stay in registers.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/rnn.h"

#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/skeletons/elements.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

using Floats = Vec<float>;

[[gnu::always_inline]] inline Floats logistic(Floats x) {
  const Floats u = exp_of<float>(-absolute<float>(x));
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

/// Units [first, first + n) of one sample, n <= a vector.
struct Units {
  DataType type;
  i64 first, n, sample = 0;

  template <class Data>
  Floats read(const RnnRows<Data>& rows, i64 gate = 0) const {
    const DataType t = std::is_same_v<Data, float> ? DataType::kFloat : type;
    const i64 at = sample * rows.pitch + gate * rows.gate + first;
    if (t == DataType::kFloat && n == kLanes<float>) return load(static_cast<const float*>(rows.data) + at);
    if (t == DataType::kBFloat16 && n == kLanes<float>) return Elements<Bfloat16, float>::load(rows.data, at);
    return load_any(t, rows.data, at, n);
  }
  template <class Data>
  Floats read_or_zero(const RnnRows<Data>& rows, i64 gate = 0) const {
    return rows.data ? read(rows, gate) : Floats{};
  }
  /// Rows are often pages apart, where processors do not prefetch.
  template <class Data>
  void prefetch(const RnnRows<Data>& rows, int gates = 1) const {
    if (!rows.data) return;
    constexpr i64 kSamples = 4;
    const i64 size = std::is_same_v<Data, float> ? 4 : static_cast<i64>(size_of(type));
    const char* const at = reinterpret_cast<const char*>(rows.data) + ((sample + kSamples) * rows.pitch + first) * size;
    for (int g = 0; g < gates; ++g) __builtin_prefetch(at + g * rows.gate * size);
  }
  template <class Data>
  void write(const RnnRows<Data>& rows, Floats v, i64 gate = 0) const {
    if (!rows.data) return;
    const DataType t = std::is_same_v<Data, float> ? DataType::kFloat : type;
    const i64 at = sample * rows.pitch + gate * rows.gate + first;
    if (t == DataType::kFloat && n == kLanes<float>) return store(static_cast<float*>(rows.data) + at, v);
    if (t == DataType::kBFloat16 && n == kLanes<float>) return Elements<Bfloat16, float>::store(rows.data, at, v);
    store_any(t, rows.data, at, n, v);
  }
};

constexpr int gates_of(RnnCell cell) { return cell == RnnCell::kLstm ? 4 : cell == RnnCell::kGru ? 3 : 1; }

/// A vector of units of one layer: biases, and the step of one sample.
template <RnnCell kCell>
struct Forward {
  static constexpr int kGates = gates_of(kCell);
  const RnnForward& f;
  Floats input_bias[kGates], recurrent_bias[kGates];

  Forward(const RnnForward& step, const Units& u) : f(step) {
    for (int g = 0; g < kGates; ++g) {
      input_bias[g] = u.read_or_zero(f.input_bias, g);
      recurrent_bias[g] = u.read_or_zero(f.recurrent_bias, g);
    }
  }

  void step(const Units& u) const {
    u.prefetch(f.x, kGates);
    u.prefetch(f.y);
    u.prefetch(f.previous_h);
    if constexpr (kCell == RnnCell::kLstm) u.prefetch(f.previous_c);
    const bool begins = u.sample >= f.begun;
    const Floats before = u.read(f.h_before);
    Floats in[kGates], state[kGates], gates[kGates], h;
    for (int g = 0; g < kGates; ++g) {
      in[g] = u.read(f.x, g) + input_bias[g];
      state[g] = u.read(f.recurrent, g);
      if (!begins || f.bias_of_first) state[g] = state[g] + recurrent_bias[g];
    }
    if constexpr (kCell == RnnCell::kLstm) {
      for (int g = 0; g < 4; ++g) gates[g] = g == 3 ? tanh_of(in[g] + state[g]) : logistic(in[g] + state[g]);
      const Floats c_before = begins ? u.read_or_zero(f.cx) : u.read(f.c);
      const Floats c = gates[1] * c_before + gates[0] * gates[3];
      h = gates[2] * tanh_of(c);
      u.write(f.c, c);
      u.write(f.previous_c, c_before);
      if (u.sample >= f.continued) u.write(f.cy, c);
    } else if constexpr (kCell == RnnCell::kGru) {
      gates[0] = logistic(in[0] + state[0]);
      gates[1] = logistic(in[1] + state[1]);
      gates[2] = tanh_of(in[2] + gates[1] * state[2]);
      h = gates[2] + gates[0] * (before - gates[2]);
      u.write(f.recurrent_n, state[2]);
    } else {
      const Floats sum = in[0] + state[0];
      if (f.cell == RnnCell::kTanh)
        h = tanh_of(sum);
      else
        h = sum <= Floats{} ? Floats{} : sum;
      gates[0] = h;
    }
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

  Backward(const RnnBackward& step, const Units&) : b(step) {}

  void step(const Units& u) const {
    const Floats one = broadcast(1.0f);
    u.prefetch(b.gates, gates_of(kCell));
    u.prefetch(b.dy);
    u.prefetch(b.input_gradient, gates_of(kCell));
    if constexpr (kCell == RnnCell::kLstm) u.prefetch(b.previous_c);
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

template <class Cell, class Step>
void each_unit(const Step& step) {
  for (i64 i = 0; i < step.units; i += kLanes<float>) {
    Units u{step.type, i, min_of<i64>(kLanes<float>, step.units - i)};
    const Cell cell(step, u);
    for (; u.sample < step.samples; ++u.sample) cell.step(u);
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
