// The modes of pointwise nodes as code.
// SPDX-License-Identifier: MIT
#include "primitives/graph/chain.h"

#include <algorithm>
#include <cfloat>

namespace polymio::graph {
namespace {

using Op = kernels::ChainOp;

class Lowering {
 public:
  Lowering(Chain& c, const Pointwise& p) : c_(c), p_(p) {}

  int unary(int x) {
    switch (p_.mode) {
      case Mode::kAbs: return c_.add(Op::kAbs, x);
      case Mode::kCeil: return c_.add(Op::kCeil, x);
      case Mode::kCos: return c_.add(Op::kCos, x);
      case Mode::kExp: return c_.add(Op::kExp, x);
      case Mode::kFloor: return c_.add(Op::kFloor, x);
      case Mode::kLog: return c_.add(Op::kLog, x);
      case Mode::kNeg: return c_.affine(x, -1, 0);
      case Mode::kRsqrt: return reciprocal(c_.add(Op::kSqrt, x));
      case Mode::kSin: return c_.add(Op::kSin, x);
      case Mode::kSqrt: return c_.add(Op::kSqrt, x);
      case Mode::kTan: return c_.add(Op::kTan, x);
      case Mode::kErf: return c_.add(Op::kErf, x);
      case Mode::kRelu: return relu(x);
      case Mode::kTanh: return c_.add(Op::kTanh, x);
      case Mode::kSigmoid: return sigmoid(x, 1);
      case Mode::kElu: {
        const int zero = c_.constant(0), negative = c_.add(Op::kExpm1, c_.add(Op::kMin, x, zero));
        return c_.add(Op::kSelect, c_.add(Op::kLess, zero, x), x, c_.affine(negative, p_.elu_alpha, 0));
      }
      case Mode::kGelu: return c_.add(Op::kMul, x, normal_cdf(x));
      case Mode::kSoftplus: {
        const int z = c_.affine(x, p_.softplus_beta, 0), zero = c_.constant(0);
        const int small = c_.add(Op::kExp, c_.affine(c_.add(Op::kAbs, z), -1, 0));
        const int sum = c_.add(Op::kAdd, c_.add(Op::kMax, z, zero), c_.add(Op::kLog1p, small));
        return c_.affine(sum, 1 / p_.softplus_beta, 0);
      }
      case Mode::kSwish: return c_.add(Op::kMul, x, sigmoid(x, p_.swish_beta));
      case Mode::kGeluTanh: {
        const int t = c_.add(Op::kTanh, tanh_argument(x));
        return c_.add(Op::kMul, x, c_.affine(t, 0.5, 0.5));
      }
      case Mode::kNot: return c_.add(Op::kEqual, x, c_.constant(0));
      case Mode::kReciprocal: return reciprocal(x);
      default: return x;  // kIdentity
    }
  }

  int binary(int x, int b) {
    switch (p_.mode) {
      case Mode::kAdd: return c_.add(Op::kAdd, x, b);
      case Mode::kAddSquare: return c_.add(Op::kAdd, x, c_.add(Op::kMul, b, b));
      case Mode::kDiv: return c_.add(Op::kDiv, x, b);
      case Mode::kMax: return c_.add(p_.propagates_nan ? Op::kMax : Op::kMaxNumber, x, b);
      case Mode::kMin: return c_.add(p_.propagates_nan ? Op::kMin : Op::kMinNumber, x, b);
      case Mode::kMod: return c_.add(Op::kMod, x, b);
      case Mode::kPow: return c_.add(Op::kPow, x, b);
      case Mode::kSub: return c_.add(Op::kSub, x, b);
      case Mode::kEqual: return c_.add(Op::kEqual, x, b);
      case Mode::kNotEqual: return c_.affine(c_.add(Op::kEqual, x, b), -1, 1);
      case Mode::kGreater: return c_.add(Op::kLess, b, x);
      case Mode::kGreaterEqual: return c_.add(Op::kLessEqual, b, x);
      case Mode::kLess: return c_.add(Op::kLess, x, b);
      case Mode::kLessEqual: return c_.add(Op::kLessEqual, x, b);
      case Mode::kAnd: return c_.add(Op::kMul, is_set(x), is_set(b));
      case Mode::kOr: return c_.add(Op::kMax, is_set(x), is_set(b));
      default: return c_.add(Op::kMul, x, b);
    }
  }

  /// The derivative: from the forward result, or, for GELU and Swish, from the forward input.
  int derivative(int y) {
    switch (p_.mode) {
      case Mode::kReluBackward: {
        const int one = c_.constant(1), slope = c_.constant(p_.lower_slope), lower = c_.constant(p_.lower_clip);
        const int above = c_.add(Op::kLess, lower, y);
        if (p_.upper_clip >= FLT_MAX) return c_.add(Op::kSelect, above, one, slope);
        const int below = c_.add(Op::kLess, y, c_.constant(p_.upper_clip));
        return c_.add(Op::kSelect, above, below, slope);
      }
      case Mode::kTanhBackward: return c_.affine(c_.add(Op::kMul, y, y), -1, 1);
      case Mode::kSigmoidBackward: return c_.add(Op::kMul, y, c_.affine(y, -1, 1));
      case Mode::kEluBackward: {
        const int positive = c_.add(Op::kLess, c_.constant(0), y);
        return c_.add(Op::kSelect, positive, c_.constant(1), c_.affine(y, 1, p_.elu_alpha));
      }
      case Mode::kSoftplusBackward: {
        const int z = c_.add(Op::kMin, c_.affine(y, -p_.softplus_beta, 0), c_.constant(0));
        return c_.affine(c_.add(Op::kExpm1, z), -1, 0);
      }
      case Mode::kGeluBackward: {
        const int density = c_.affine(c_.add(Op::kExp, c_.affine(c_.add(Op::kMul, y, y), -0.5, 0)), kInverseSqrt2Pi, 0);
        return c_.add(Op::kAdd, normal_cdf(y), c_.add(Op::kMul, y, density));
      }
      case Mode::kSwishBackward: {
        const int s = sigmoid(y, p_.swish_beta), rest = c_.affine(s, -1, 1);
        const int change = c_.add(Op::kMul, c_.affine(y, p_.swish_beta, 0), c_.add(Op::kMul, s, rest));
        return c_.add(Op::kAdd, s, change);
      }
      default: {  // kGeluTanhBackward
        const int t = c_.add(Op::kTanh, tanh_argument(y));
        const int slope = c_.affine(c_.add(Op::kMul, y, y), 3 * kCubic * kSqrt2OverPi, kSqrt2OverPi);
        const int of_tanh = c_.affine(c_.add(Op::kMul, t, t), -0.5, 0.5);
        const int change = c_.add(Op::kMul, y, c_.add(Op::kMul, of_tanh, slope));
        return c_.add(Op::kAdd, c_.affine(t, 0.5, 0.5), change);
      }
    }
  }

  int scaled(int v, double factor) { return factor == 1 ? v : c_.affine(v, factor, 0); }

 private:
  static constexpr double kSqrt2OverPi = 0.79788456080286535588, kCubic = 0.044715;
  static constexpr double kInverseSqrt2 = 0.70710678118654752440, kInverseSqrt2Pi = 0.39894228040143267794;

  int reciprocal(int x) { return c_.add(Op::kDiv, c_.constant(1), x); }
  int is_set(int x) { return c_.affine(c_.add(Op::kEqual, x, c_.constant(0)), -1, 1); }
  int sigmoid(int x, double beta) { return reciprocal(c_.affine(c_.add(Op::kExp, c_.affine(x, -beta, 0)), 1, 1)); }
  int normal_cdf(int x) { return c_.affine(c_.add(Op::kErf, c_.affine(x, kInverseSqrt2, 0)), 0.5, 0.5); }
  int tanh_argument(int x) {
    return c_.add(Op::kMul, x, c_.affine(c_.add(Op::kMul, x, x), kCubic * kSqrt2OverPi, kSqrt2OverPi));
  }

  int relu(int x) {
    const int lower = c_.constant(p_.lower_clip);
    const bool clips = p_.upper_clip < FLT_MAX;
    const Op max = p_.propagates_nan ? Op::kMax : Op::kMaxNumber, min = p_.propagates_nan ? Op::kMin : Op::kMinNumber;
    if (p_.lower_slope == 0) {
      const int v = c_.add(max, x, lower);
      return clips ? c_.add(min, v, c_.constant(p_.upper_clip)) : v;
    }
    const int above = c_.add(Op::kLess, lower, x);
    const int below = c_.affine(x, p_.lower_slope, p_.lower_clip - p_.lower_slope * p_.lower_clip);
    return c_.add(Op::kSelect, above, clips ? c_.add(min, x, c_.constant(p_.upper_clip)) : x, below);
  }

  Chain& c_;
  const Pointwise& p_;
};

}  // namespace

int lower(Chain& chain, const Pointwise& p, const std::vector<int>& operands) {
  Lowering to(chain, p);
  switch (slots_of(p.mode)) {
    case Slots::kUnary: return to.unary(to.scaled(operands[0], p.alpha1));
    case Slots::kBinary: return to.binary(to.scaled(operands[0], p.alpha1), to.scaled(operands[1], p.alpha2));
    case Slots::kSelect:
      return chain.add(Op::kSelect, operands[2], to.scaled(operands[0], p.alpha1), to.scaled(operands[1], p.alpha2));
    case Slots::kBackward: {
      const int slope = to.derivative(operands[0]);
      return to.scaled(chain.add(Op::kMul, operands[1], slope), p.alpha1);
    }
  }
  return -1;
}

Registers assign_registers(const Chain& chain) {
  const std::size_t inputs = chain.in.size(), values = inputs + chain.code.size();
  std::vector<std::size_t> last(values);  // the number of the instruction that reads a value last
  for (std::size_t i = 0; i < chain.code.size(); ++i) {
    last[inputs + i] = i;
    for (const int v : {chain.code[i].a, chain.code[i].b, chain.code[i].c})
      if (v >= 0) last[static_cast<std::size_t>(v)] = i;
  }
  for (const int v : chain.results) last[static_cast<std::size_t>(v)] = chain.code.size();
  Registers r;
  r.of.resize(values);
  std::vector<int> free;
  const auto take = [&](std::size_t value) {
    if (free.empty()) free.push_back(r.count++);
    r.of[value] = free.back();
    free.pop_back();
  };
  for (std::size_t v = 0; v < inputs; ++v) take(v);
  for (std::size_t i = 0; i < chain.code.size(); ++i) {
    std::vector<int> read;
    for (const int v : {chain.code[i].a, chain.code[i].b, chain.code[i].c})
      if (v >= 0 && last[static_cast<std::size_t>(v)] == i && std::ranges::find(read, v) == read.end())
        read.push_back(v);
    for (const int v : read) free.push_back(r.of[static_cast<std::size_t>(v)]);
    take(inputs + i);
  }
  return r;
}

}  // namespace polymio::graph
