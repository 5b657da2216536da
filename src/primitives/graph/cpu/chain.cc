// A chain on the CPU: one pass over memory, whose blocks stay in the L1 cache from instruction to instruction.
// SPDX-License-Identifier: MIT
#include "primitives/graph/chain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/cpu/kernels_of.h"
#include "primitives/common/map.h"

namespace polymio::graph {
namespace {

using kernels::ChainOp;
using kernels::ChainStep;
using kernels::kChainBlock;

template <class T, class F>
void unary(const ChainStep<T>& s, const F& f) {
  for (std::int64_t i = 0; i < kChainBlock; ++i) s.out[i] = static_cast<T>(f(static_cast<double>(s.a[i])));
}
template <class T, class F>
void binary(const ChainStep<T>& s, const F& f) {
  for (std::int64_t i = 0; i < kChainBlock; ++i)
    s.out[i] = static_cast<T>(f(static_cast<double>(s.a[i]), static_cast<double>(s.b[i])));
}

/// Operations without a vector kernel.
template <class T>
void apply_scalar(const ChainStep<T>& s) {
  switch (s.op) {
    case ChainOp::kSqrt: return unary(s, [](double a) { return std::sqrt(a); });
    case ChainOp::kFloor: return unary(s, [](double a) { return std::floor(a); });
    case ChainOp::kCeil: return unary(s, [](double a) { return std::ceil(a); });
    case ChainOp::kSin: return unary(s, [](double a) { return std::sin(a); });
    case ChainOp::kCos: return unary(s, [](double a) { return std::cos(a); });
    case ChainOp::kTan: return unary(s, [](double a) { return std::tan(a); });
    case ChainOp::kPow: return binary(s, [](double a, double b) { return std::pow(a, b); });
    default: return binary(s, [](double a, double b) { return std::fmod(a, b); });
  }
}

void apply(const kernels::ChainKernels& kernels, const ChainStep<float>& s) {
  if (s.op <= kernels::kLastVectorOp) return kernels.apply(s);
  apply_scalar(s);
}

void apply(const kernels::ChainKernels&, const ChainStep<double>& s) {
  const auto nan = [](double v) { return std::isnan(v); };
  switch (s.op) {
    case ChainOp::kConstant: std::fill_n(s.out, kChainBlock, s.shift); return;
    case ChainOp::kAffine: return unary(s, [&](double a) { return a * s.scale + s.shift; });
    case ChainOp::kAdd: return binary(s, [](double a, double b) { return a + b; });
    case ChainOp::kSub: return binary(s, [](double a, double b) { return a - b; });
    case ChainOp::kMul: return binary(s, [](double a, double b) { return a * b; });
    case ChainOp::kDiv: return binary(s, [](double a, double b) { return a / b; });
    case ChainOp::kMin: return binary(s, [&](double a, double b) { return a < b || nan(a) ? a : b; });
    case ChainOp::kMax: return binary(s, [&](double a, double b) { return a > b || nan(a) ? a : b; });
    case ChainOp::kMinNumber: return binary(s, [&](double a, double b) { return a < b || nan(b) ? a : b; });
    case ChainOp::kMaxNumber: return binary(s, [&](double a, double b) { return a > b || nan(b) ? a : b; });
    case ChainOp::kLess: return binary(s, [](double a, double b) { return a < b ? 1.0 : 0.0; });
    case ChainOp::kLessEqual: return binary(s, [](double a, double b) { return a <= b ? 1.0 : 0.0; });
    case ChainOp::kEqual: return binary(s, [](double a, double b) { return a == b ? 1.0 : 0.0; });
    case ChainOp::kSelect:
      for (std::int64_t i = 0; i < kChainBlock; ++i) s.out[i] = s.a[i] != 0 ? s.b[i] : s.c[i];
      return;
    case ChainOp::kAbs: return unary(s, [](double a) { return std::fabs(a); });
    case ChainOp::kExp: return unary(s, [](double a) { return std::exp(a); });
    case ChainOp::kExpm1: return unary(s, [](double a) { return std::expm1(a); });
    case ChainOp::kLog: return unary(s, [](double a) { return std::log(a); });
    case ChainOp::kLog1p: return unary(s, [](double a) { return std::log1p(a); });
    case ChainOp::kTanh: return unary(s, [](double a) { return std::tanh(a); });
    case ChainOp::kErf: return unary(s, [](double a) { return std::erf(a); });
    default: return apply_scalar(s);
  }
}

bool is_16_bits(DataType t) { return t == DataType::kHalf || t == DataType::kBFloat16; }

template <class T>
constexpr DataType kTypeOf = sizeof(T) == 4 ? DataType::kFloat : DataType::kDouble;

template <class T>
void load(const kernels::ChainKernels& kernels, DataType type, const void* from, std::int64_t at, T* to,
          std::int64_t n) {
  const auto* const first = static_cast<const char*>(from) + at * static_cast<std::int64_t>(size_of(type));
  if (type == kTypeOf<T>) {
    std::memcpy(to, first, static_cast<std::size_t>(n) * sizeof(T));
  } else if constexpr (sizeof(T) == 4) {
    if (is_16_bits(type)) return kernels.load(type, first, to, n);
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(dtype::load(type, first, i));
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i] = dtype::load(type, first, i);
  }
}

template <class T>
void store(const kernels::ChainKernels& kernels, DataType type, const T* from, void* to, std::int64_t at,
           std::int64_t n) {
  auto* const first = static_cast<char*>(to) + at * static_cast<std::int64_t>(size_of(type));
  if (type == kTypeOf<T>) {
    std::memcpy(first, from, static_cast<std::size_t>(n) * sizeof(T));
    return;
  }
  if constexpr (sizeof(T) == 4)
    if (is_16_bits(type)) return kernels.store(type, from, first, n);
  for (std::int64_t i = 0; i < n; ++i) dtype::store(type, first, i, static_cast<double>(from[i]));
}

/// The code with registers for values.
template <class T>
class Program {
 public:
  Program(const Chain& chain, const kernels::ChainKernels& kernels)
      : chain_(chain), registers_(assign_registers(chain)), kernels_(kernels) {}

  void run(const kernels::Run& run) const {
    alignas(64) T memory[kChainRegisters][kChainBlock];
    const auto place = [&](int value) { return memory[registers_.of[static_cast<std::size_t>(value)]]; };
    for (std::int64_t at = 0; at < run.n; at += kChainBlock) {
      const std::int64_t n = std::min(kChainBlock, run.n - at);
      for (std::size_t i = 0; i < chain_.in.size(); ++i) {
        T* const to = place(static_cast<int>(i));
        load(kernels_, chain_.in[i].type, run.in[i], at, to, n);
        std::fill(to + n, to + kChainBlock, T{});
      }
      for (std::size_t i = 0; i < chain_.code.size(); ++i) {
        const Instruction& code = chain_.code[i];
        ChainStep<T> step{.op = code.op,
                          .out = place(static_cast<int>(chain_.in.size() + i)),
                          .scale = static_cast<T>(code.scale),
                          .shift = static_cast<T>(code.shift)};
        if (code.a >= 0) step.a = place(code.a);
        if (code.b >= 0) step.b = place(code.b);
        if (code.c >= 0) step.c = place(code.c);
        apply(kernels_, step);
      }
      for (std::size_t o = 0; o < chain_.out.size(); ++o)
        store(kernels_, chain_.out[o].type, place(chain_.results[o]), run.out[o], at, n);
    }
  }

  const Chain& chain() const { return chain_; }

 private:
  Chain chain_;
  Registers registers_;
  const kernels::ChainKernels& kernels_;
};

/// Fewer elements per task for longer code.
std::int64_t task_elements(const Chain& chain) {
  return std::max<std::int64_t>(common::kTaskElements / (1 + static_cast<std::int64_t>(chain.code.size()) / 4), 2048);
}

template <class T>
ChainRun build(Stream& stream, const Chain& chain) {
  std::vector<const TensorDesc*> tensors;
  for (const TensorDesc& t : chain.out) tensors.push_back(&t);
  for (const TensorDesc& t : chain.in) tensors.push_back(&t);
  return [program = Program<T>(chain, kernels::kernels_of<kernels::ChainKernels>(stream.info().isa)),
          tiles = Tiles(simplified_loop(tensors)),
          part = task_elements(chain)](Stream& on, void* const* out, const void* const* in) {
    common::Operands operands;
    operands.outputs = program.chain().out.size();
    for (std::size_t o = 0; o < program.chain().out.size(); ++o)
      operands.push(out[o], size_of(program.chain().out[o].type));
    for (std::size_t i = 0; i < program.chain().in.size(); ++i)
      operands.push(in[i], size_of(program.chain().in[i].type));
    common::map(
        on, tiles, operands, [&](const kernels::Run& run) { program.run(run); }, part, common::RunShape::kOneRow);
  };
}

}  // namespace

ChainRun build_on_cpu(Stream& stream, const Chain& chain) {
  return chain.in_double ? build<double>(stream, chain) : build<float>(stream, chain);
}

}  // namespace polymio::graph
