// SPDX-License-Identifier: MIT
#include "reference/graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

namespace polymio::reference {
namespace {

// The numbers of miopenPointwiseMode_t.
enum Mode {
  kAdd,
  kAddSquare,
  kDiv,
  kMax,
  kMin,
  kMod,
  kMul,
  kPow,
  kSub,
  kAbs,
  kCeil,
  kCos,
  kExp,
  kFloor,
  kLog,
  kNeg,
  kRsqrt,
  kSin,
  kSqrt,
  kTan,
  kErf,
  kIdentity,
  kRelu,
  kTanh,
  kSigmoid,
  kElu,
  kGelu,
  kSoftplus,
  kSwish,
  kGeluTanh,
  kReluBackward,
  kTanhBackward,
  kSigmoidBackward,
  kEluBackward,
  kGeluBackward,
  kSoftplusBackward,
  kSwishBackward,
  kGeluTanhBackward,
  kEqual,
  kNotEqual,
  kGreater,
  kGreaterEqual,
  kLess,
  kLessEqual,
  kAnd,
  kOr,
  kNot,
  kIndex,
  kSelect,
  kReciprocal,
};

constexpr double kNoClip = Pointwise{}.upper_clip;  // this and larger ones do not clip
constexpr double kPi = 3.14159265358979323846;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double tanh_argument(double x) { return std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x); }

double relu(const Pointwise& n, double x) {
  if (std::isnan(x)) return n.propagates_nan || n.lower_slope != 0 ? x : n.lower_clip;
  const double most = n.upper_clip < kNoClip ? n.upper_clip : HUGE_VAL;
  if (x > n.lower_clip) return std::min(x, most);
  return n.lower_slope == 0 ? n.lower_clip : n.lower_clip + n.lower_slope * (x - n.lower_clip);
}

double extreme(const Pointwise& n, double x, double b, bool largest) {
  if (n.propagates_nan && (std::isnan(x) || std::isnan(b))) return std::nan("");
  return largest ? std::fmax(x, b) : std::fmin(x, b);
}

// f'(y) of the modes that are derivatives.
double slope(const Pointwise& n, double y) {
  switch (n.mode) {
    case kReluBackward: return y > n.lower_clip ? (y < n.upper_clip || n.upper_clip >= kNoClip ? 1 : 0) : n.lower_slope;
    case kTanhBackward: return 1 - y * y;
    case kSigmoidBackward: return y * (1 - y);
    case kEluBackward: return y > 0 ? 1 : y + n.elu_alpha;
    case kSoftplusBackward: return 1 - std::exp(-n.softplus_beta * y);
    case kGeluBackward: return normal_cdf(y) + y * std::exp(-y * y / 2) / std::sqrt(2 * kPi);
    case kSwishBackward: {
      const double s = sigmoid(n.swish_beta * y);
      return s + n.swish_beta * y * s * (1 - s);
    }
    default: {
      const double t = std::tanh(tanh_argument(y));
      return 0.5 * (1 + t) + 0.5 * y * (1 - t * t) * std::sqrt(2 / kPi) * (1 + 3 * 0.044715 * y * y);
    }
  }
}

std::vector<std::int64_t> strides_of(const Dense& t, const std::vector<std::int64_t>& sizes) {
  if (t.sizes.size() != sizes.size()) throw std::invalid_argument("ranks differ");
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t step = 1;
  for (std::size_t d = sizes.size(); d-- > 0; step *= t.sizes[d]) strides[d] = t.sizes[d] == 1 ? 0 : step;
  return strides;
}

// The number of an operand's element for an index of the result.
std::int64_t offset_of(std::int64_t index, const std::vector<std::int64_t>& sizes,
                       const std::vector<std::int64_t>& strides) {
  std::int64_t offset = 0;
  for (std::size_t d = sizes.size(); d-- > 0; index /= sizes[d]) offset += index % sizes[d] * strides[d];
  return offset;
}

Dense of_size(const std::vector<std::int64_t>& sizes) {
  Dense t{sizes, {}};
  t.values.resize(static_cast<std::size_t>(t.count()));
  return t;
}

// Philox 4x32 with 10 rounds.
std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t counter, std::uint64_t offset) {
  std::array<std::uint64_t, 2> key = {seed & 0xffffffffu, seed >> 32};
  std::array<std::uint64_t, 4> v = {counter & 0xffffffffu, counter >> 32, offset & 0xffffffffu, offset >> 32};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t left = 0xD2511F53u * v[0], right = 0xCD9E8D57u * v[2];
    v = {(right >> 32) ^ v[1] ^ key[0], right & 0xffffffffu, (left >> 32) ^ v[3] ^ key[1], left & 0xffffffffu};
    key = {(key[0] + 0x9E3779B9u) & 0xffffffffu, (key[1] + 0xBB67AE85u) & 0xffffffffu};
  }
  std::array<std::uint32_t, 4> words;
  for (std::size_t i = 0; i < 4; ++i) words[i] = static_cast<std::uint32_t>(v[i]);
  return words;
}

// The upper 24 bits as a number between 0 and 1.
double unit(std::uint32_t v) { return (static_cast<double>(v / 256) + 0.5) / 16777216.0; }

}  // namespace

std::int64_t Dense::count() const {
  std::int64_t n = 1;
  for (const std::int64_t s : sizes) n *= s;
  return n;
}

double pointwise_at(const Pointwise& n, double x, double b, double t) {
  if (n.mode >= kReluBackward && n.mode <= kGeluTanhBackward) return n.alpha1 * b * slope(n, x);
  x *= n.alpha1;
  b *= n.alpha2;
  switch (n.mode) {
    case kAdd: return x + b;
    case kAddSquare: return x + b * b;
    case kDiv: return x / b;
    case kMax: return extreme(n, x, b, true);
    case kMin: return extreme(n, x, b, false);
    case kMod: return std::fmod(x, b);
    case kMul: return x * b;
    case kPow: return std::pow(x, b);
    case kSub: return x - b;
    case kAbs: return std::fabs(x);
    case kCeil: return std::ceil(x);
    case kCos: return std::cos(x);
    case kExp: return std::exp(x);
    case kFloor: return std::floor(x);
    case kLog: return std::log(x);
    case kNeg: return -x;
    case kRsqrt: return 1 / std::sqrt(x);
    case kSin: return std::sin(x);
    case kSqrt: return std::sqrt(x);
    case kTan: return std::tan(x);
    case kErf: return std::erf(x);
    case kRelu: return relu(n, x);
    case kTanh: return std::tanh(x);
    case kSigmoid: return sigmoid(x);
    case kElu: return x > 0 ? x : n.elu_alpha * std::expm1(x);
    case kGelu: return x * normal_cdf(x);
    case kSoftplus:
      return (std::fmax(n.softplus_beta * x, 0) + std::log1p(std::exp(-std::fabs(n.softplus_beta * x)))) /
             n.softplus_beta;
    case kSwish: return x * sigmoid(n.swish_beta * x);
    case kGeluTanh: return 0.5 * x * (1 + std::tanh(tanh_argument(x)));
    case kEqual: return x == b;
    case kNotEqual: return x != b;
    case kGreater: return x > b;
    case kGreaterEqual: return x >= b;
    case kLess: return x < b;
    case kLessEqual: return x <= b;
    case kAnd: return x != 0 && b != 0;
    case kOr: return x != 0 || b != 0;
    case kNot: return x == 0;
    case kSelect: return t != 0 ? x : b;
    case kReciprocal: return 1 / x;
    default: return x;
  }
}

Dense pointwise(const Pointwise& node, const std::vector<const Dense*>& in, const std::vector<std::int64_t>& sizes) {
  Dense y = of_size(sizes);
  std::vector<std::vector<std::int64_t>> strides;
  for (const Dense* t : in) strides.push_back(strides_of(*t, sizes));
  for (std::int64_t i = 0; i < y.count(); ++i) {
    double v[3] = {};
    if (node.mode == kIndex) {
      std::vector<std::int64_t> along_axis(sizes.size());
      along_axis[static_cast<std::size_t>(node.axis)] = 1;
      y.values[static_cast<std::size_t>(i)] = static_cast<double>(offset_of(i, sizes, along_axis));
      continue;
    }
    for (std::size_t k = 0; k < in.size(); ++k)
      v[k] = in[k]->values[static_cast<std::size_t>(offset_of(i, sizes, strides[k]))];
    y.values[static_cast<std::size_t>(i)] = pointwise_at(node, v[0], v[1], v[2]);
  }
  return y;
}

Dense product(const Dense& a, const Dense& b, bool transposed, const std::vector<std::int64_t>& sizes) {
  const Dense right = transposed ? exchange_last(b) : b;
  const std::size_t rank = sizes.size();
  const std::int64_t k = a.sizes[rank - 1];
  auto a_strides = strides_of(a, sizes), b_strides = strides_of(right, sizes);
  const std::int64_t a_step = k == 1 ? 0 : 1, b_step = k == 1 ? 0 : right.sizes[rank - 1];
  a_strides[rank - 1] = b_strides[rank - 2] = 0;
  Dense c = of_size(sizes);
  for (std::int64_t i = 0; i < c.count(); ++i) {
    const std::int64_t at_a = offset_of(i, sizes, a_strides), at_b = offset_of(i, sizes, b_strides);
    double sum = 0;
    for (std::int64_t j = 0; j < k; ++j)
      sum += a.values[static_cast<std::size_t>(at_a + j * a_step)] *
             right.values[static_cast<std::size_t>(at_b + j * b_step)];
    c.values[static_cast<std::size_t>(i)] = sum;
  }
  return c;
}

Dense reduce(ReduceOp op, const Dense& x, const std::vector<std::int64_t>& sizes) {
  Dense y = of_size(sizes);
  const bool product = op == ReduceOp::kMul, extreme = op == ReduceOp::kMin || op == ReduceOp::kMax;
  std::vector<bool> seen(y.values.size());
  std::fill(y.values.begin(), y.values.end(), product ? 1.0 : 0.0);
  for (std::int64_t i = 0; i < x.count(); ++i) {
    std::int64_t at = 0, step = 1, rest = i;
    for (std::size_t d = sizes.size(); d-- > 0;) {
      at += rest % x.sizes[d] / (x.sizes[d] / sizes[d]) * step;
      step *= sizes[d];
      rest /= x.sizes[d];
    }
    double& to = y.values[static_cast<std::size_t>(at)];
    const double v = x.values[static_cast<std::size_t>(i)];
    if (extreme && !seen[static_cast<std::size_t>(at)]) to = v;
    seen[static_cast<std::size_t>(at)] = true;
    switch (op) {
      case ReduceOp::kMul: to *= v; break;
      case ReduceOp::kMin: to = std::min(to, v); break;
      case ReduceOp::kMax: to = std::max(to, v); break;
      case ReduceOp::kAmax: to = std::max(to, std::fabs(v)); break;
      case ReduceOp::kNorm1: to += std::fabs(v); break;
      case ReduceOp::kNorm2: to += v * v; break;
      default: to += v;
    }
  }
  const double length = static_cast<double>(x.count()) / static_cast<double>(y.count());
  for (double& v : y.values) v = op == ReduceOp::kAvg ? v / length : op == ReduceOp::kNorm2 ? std::sqrt(v) : v;
  return y;
}

Dense exchange_last(const Dense& x) {
  std::vector<std::int64_t> sizes = x.sizes;
  const std::size_t rank = sizes.size();
  std::swap(sizes[rank - 1], sizes[rank - 2]);
  Dense y = of_size(sizes);
  const std::int64_t rows = sizes[rank - 2], columns = sizes[rank - 1];
  for (std::int64_t i = 0; i < y.count(); ++i) {
    const std::int64_t batch = i / (rows * columns), row = i / columns % rows, column = i % columns;
    y.values[static_cast<std::size_t>(i)] = x.values[static_cast<std::size_t>((batch * columns + column) * rows + row)];
  }
  return y;
}

Dense random_numbers(int distribution, double first, double second, std::uint64_t seed, std::uint64_t offset,
                     const std::vector<std::int64_t>& sizes) {
  Dense y = of_size(sizes);
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    if (distribution == 2) {
      const auto v = philox(seed, i, offset);
      y.values[i] = first + second * std::sqrt(-2 * std::log(unit(v[0]))) * std::cos(2 * kPi * unit(v[1]));
      continue;
    }
    const double u = unit(philox(seed, i / 4, offset)[i % 4]);
    y.values[i] = distribution == 0 ? u < static_cast<double>(static_cast<float>(first)) : first + (second - first) * u;
  }
  return y;
}

}  // namespace polymio::reference
