// Checks the result of a convolution: compares up to 64 elements with their evaluation in double, with the error bound
// of the solver's arithmetic.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "base/hash.h"
#include "primitives/activation/activation.h"
#include "primitives/convolution/definition.h"
#include "search/sampled_check.h"

namespace polymio::convolution {
namespace {

using search::Accepted;
using search::Operand;
using search::Tolerance;

constexpr std::int64_t kMostSamples = 64, kLeastSamples = 8;
constexpr double kMostPairs = 2e6;  // most multiply-adds per check, unless kLeastSamples need more

TensorDesc channels_of(const Problem& p, DataType type) { return make_tensor(type, std::array{p.k()}, {}); }

/// Of the bias that the caller gives: the primitive makes scales only of a batch norm.
TensorDesc bias_tensor(const Problem& p) { return channels_of(p, p.epilogue.scale ? p.parameter_type() : p.y.type); }
TensorDesc parameter_tensor(const Problem& p) { return channels_of(p, p.parameter_type()); }

Position position(const Points& points, std::int64_t element) {
  std::int64_t at[5];
  for (int d = 4; d >= 0; --d) {
    at[d] = element % points.sizes()[d];
    element /= points.sizes()[d];
  }
  return {{at[0], at[1]}, {at[2], at[3], at[4]}};
}

/// The exact value of an output element before the activation: `factor` times the sum of `pairs` products, and a bias.
/// `magnitude` is the sum of the absolute values of its terms, `bias_magnitude` that of the terms of the bias.
struct Sum {
  double value = 0, magnitude = 0, pairs = 0, bias = 0, bias_magnitude = 0, factor = 1;
};

/// The largest relative distance of adjacent values, and the smallest positive value.
struct Steps {
  double relative, smallest;
};

Steps steps_of(DataType t) {
  switch (t) {
    case DataType::kDouble: return {0x1p-52, DBL_TRUE_MIN};
    case DataType::kFloat: return {0x1p-23, FLT_TRUE_MIN};
    case DataType::kHalf: return {0x1p-10, 0x1p-24};
    case DataType::kBFloat16: return {0x1p-7, FLT_TRUE_MIN};
    case DataType::kFloat8Fnuz: return {0x1p-3, 0x1p-10};
    case DataType::kBFloat8Fnuz: return {0x1p-2, 0x1p-17};
    case DataType::kFloat8E4m3fn: return {0x1p-3, 0x1p-9};
    case DataType::kFloat8E5m2: return {0x1p-2, 0x1p-16};
    default: return {0, 1};
  }
}

/// Error bound of a solver of this class before rounding to the output's type. n u is the worst case of a sum of n
/// terms; independent errors exceed 8 sqrt(n) u once in 10^13.
double error_bound(const Problem& p, ErrorClass error, const Sum& e) {
  const bool wide = error == ErrorClass::kExact || p.all_types(DataType::kDouble);
  const double n = e.pairs + (p.epilogue.empty() ? 3 : 9);  // scaling, epilogue and the evaluation's own error
  const double sum = std::min(n, 8 * std::sqrt(n)) * (wide ? 0x1p-52 : 0x1p-24);
  double relative = error == ErrorClass::kApproximate ? 64 * sum : sum;
  if (error == ErrorClass::kReduced) relative += 0x1p-7;                   // both factors rounded to bf16
  double bound = relative * e.magnitude + n * (wide ? DBL_MIN : FLT_MIN);  // subnormals may be flushed to zero
  const DataType t = p.output().type;
  const Steps step = steps_of(t);
  if (is_fp8(t) && p.rounding == Rounding::kStochastic) bound += step.relative * std::fabs(e.value) + step.smallest;
  // An epilogue pass reads rounded results of the solver.
  if (!p.epilogue.empty() && error != ErrorClass::kExact)
    bound += step.relative / 2 * std::fabs(e.value - e.bias) + step.smallest;
  return bound;
}

/// Applies the activation to ranges; activations are monotone on either side of 0, swish also of its least value.
void activate(Stream& stream, const Problem& p, const Problem::Args& a, std::vector<Accepted>& ranges) {
  constexpr double kLeastOfSwish = -1.2784645427610738;  // times alpha
  const bool swish = p.epilogue.activation == static_cast<int>(activation::Mode::kSwish) && a.activation_alpha != 0;
  const double least = swish ? kLeastOfSwish / a.activation_alpha : 0;
  std::vector<double> values;
  for (const Accepted& r : ranges)
    for (const double v : {r.low, r.high, std::clamp(0.0, r.low, r.high), std::clamp(least, r.low, r.high), r.want})
      values.push_back(v);
  const std::int64_t lens[] = {static_cast<std::int64_t>(values.size())};
  activation::apply(stream, make_tensor(DataType::kDouble, lens, {}), values.data(),
                    static_cast<activation::Mode>(p.epilogue.activation),
                    {a.activation_alpha, a.activation_beta, a.activation_gamma});
  // The activation has an error of a few roundings.
  const double function_error = p.all_types(DataType::kDouble) ? 0x1p-44 : 0x1p-18;
  const double* v = values.data();
  for (Accepted& r : ranges) {
    const auto [low, high] = std::minmax({v[0], v[1], v[2], v[3]});
    r = {low - function_error * std::fabs(low), high + function_error * std::fabs(high), v[4]};
    v += 5;
  }
}

/// Transforms mix neighbouring elements: every element gets the error bound of the largest magnitude.
void distribute(std::vector<Sum>& expected) {
  double largest = 0;
  for (const Sum& e : expected) largest = std::max(largest, e.magnitude);
  for (Sum& e : expected) e.magnitude = std::max(e.magnitude, largest);
}

/// Why the inputs make the check inconclusive; "" if they do not.
const char* unclear(const Problem& p, ErrorClass error, const std::vector<Sum>& expected) {
  const double most = (p.all_types(DataType::kDouble) ? DBL_MAX : FLT_MAX) / 4;
  std::size_t sums = 0, telling = 0;
  for (const Sum& e : expected) {
    if (!(e.magnitude < most)) return "a result is not finite";
    sums += e.pairs > 0;
    telling += e.pairs > 0 && 4 * (error_bound(p, error, e) + steps_of(p.output().type).smallest) < e.magnitude;
  }
  return 10 * telling < sums ? "the inputs are zero or negligible nearly everywhere" : "";
}

class ConvolutionCheck final : public search::SampledCheck<Problem> {
 public:
  explicit ConvolutionCheck(const Problem& p) : SampledCheck(p), points_(p_) {}

 private:
  std::vector<Operand> operands(Args& a) const override {
    const auto use = [&](Direction d) { return p_.direction == d ? Operand::Use::kOutput : Operand::Use::kWhole; };
    std::vector<Operand> all{{use(Direction::kBackwardData), p_.x, a.x, 1},
                             {use(Direction::kBackwardWeights), p_.w, a.w, 2},
                             {use(Direction::kForward), p_.y, a.y, 3}};
    const Epilogue& e = p_.epilogue;
    const auto add = [&](bool used, const TensorDesc& desc, const void*& data) {
      if (used) all.emplace_back(Operand::Use::kElements, desc, data, all.size() + 1);
    };
    add(e.bias, bias_tensor(p_), a.bias);
    add(e.scale, parameter_tensor(p_), a.scale);
    for (const void** data : {&a.norm_scale, &a.norm_bias, &a.norm_mean, &a.norm_variance})
      add(e.norm, parameter_tensor(p_), *data);
    add(e.residual, p_.y, a.residual);
    return all;
  }
  const char* obstacle(const Args& a) const override {
    return a.beta != 0 ? "the output's earlier values are not known" : "";
  }
  std::vector<Accepted> accepted(Stream&, const Args&, Tolerance, std::string& why) const override;
  std::vector<Sum> evaluate(Stream&, const Args&) const;
  /// The factor and the bias of an element: its channel, its offset in y.
  Sum epilogue_of(Stream&, const Args&, std::int64_t channel, std::int64_t at) const;

  std::vector<std::int64_t> pick() const override;
  std::string name(std::int64_t element) const override {
    static constexpr const char* kNames[] = {"y", "dx", "dw"};
    const Position at = position(points_, element);
    return fmt::format("{}[{},{},{}]", kNames[static_cast<int>(p_.direction)], at.i[0], at.i[1],
                       fmt::join(std::end(at.s) - p_.spatial(), std::end(at.s), ","));
  }

  Args private_args() const override {
    // Bounds of a clamp that let about half of the sums pass.
    const bool clamp = p_.epilogue.activation == static_cast<int>(activation::Mode::kClamp);
    return {.alpha = p_.scalars == Scalars::kDefault ? 1 : 0.75,
            .norm_epsilon = 2,  // variances are as random as all tensors
            .activation_alpha = clamp ? -1.0 : 0.5,
            .activation_beta = clamp ? 64.0 : 1.0,
            .activation_gamma = 1};
  }
  std::unique_ptr<SampledCheck> make(const Problem& p) const override { return std::make_unique<ConvolutionCheck>(p); }
  std::vector<TensorDesc*> with_images(Problem& p) const override { return {&p.x, &p.y}; }

  const Points points_;
};

/// Two corners, then in alternation the end, the start and the inside of each dimension, where solvers have bugs, with
/// random other coordinates. Channels count per group. Tries to avoid elements without products, which test nothing.
std::vector<std::int64_t> ConvolutionCheck::pick() const {
  const std::int64_t all = p_.output().count();
  const double pairs = p_.flops() / 2 / static_cast<double>(all);
  const auto affordable = static_cast<std::int64_t>(kMostPairs / std::max(pairs, 1.0));
  const auto count = static_cast<std::size_t>(std::clamp(affordable, kLeastSamples, kMostSamples));
  if (all <= static_cast<std::int64_t>(count)) return SampledCheck::pick();
  const auto& sizes = points_.sizes();
  std::int64_t block[5];
  std::copy_n(sizes, 5, block);
  block[p_.direction == Direction::kBackwardWeights ? 0 : 1] /= p_.groups();
  const std::uint64_t seed = p_.hash();
  std::uint64_t draws = 0;
  std::vector<std::int64_t> picked{0, all - 1};
  for (int turn = 0; picked.size() < count && turn < 20 * kMostSamples; ++turn) {
    const int d = turn % 5, place = turn / 5 % 3;  // 0: the end of dimension d, 1: its start, 2: anywhere
    std::int64_t element = 0;
    for (int attempt = 0; attempt < 8; ++attempt) {
      std::int64_t at[5];
      for (int i = 0; i < 5; ++i) {
        const std::uint64_t bits = mix(mix(seed, ++draws), 0x9fb21c651e98df25ull);
        at[i] = static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(sizes[i]));
      }
      if (place < 2) at[d] = at[d] / block[d] * block[d] + (place == 0 ? block[d] - 1 : 0);
      element = 0;
      for (int i = 0; i < 5; ++i) element = element * sizes[i] + at[i];
      if (points_.walk(position(points_, element)).pairs() > 0) break;
    }
    if (std::find(picked.begin(), picked.end(), element) == picked.end()) picked.push_back(element);
  }
  return picked;
}

/// Sums in double, which is exact for products of 8-bit integers.
template <class First, class Second>
void sum_products(const Walk& walk, const First& first, const Second& second, double alpha, Sum& s) {
  double sum = 0, magnitude = 0;
  walk.each([&](std::int64_t i, std::int64_t j) {
    const double product = first(i) * second(j);
    sum += product;
    magnitude += std::fabs(product);
  });
  s.value = s.factor * alpha * sum + s.bias;
  s.magnitude = std::fabs(s.factor * alpha) * magnitude + s.bias_magnitude;
}

Sum ConvolutionCheck::epilogue_of(Stream& stream, const Args& a, std::int64_t channel, std::int64_t at) const {
  const Epilogue& e = p_.epilogue;
  const auto read = [&](bool used, const TensorDesc& desc, const void* data, std::int64_t place) {
    return used ? read_element(stream, desc, data, place) : 0;
  };
  const TensorDesc parameters = parameter_tensor(p_);
  Sum sum;
  if (e.scale) sum.factor = read(true, parameters, a.scale, channel);
  const auto add = [&](double term) {
    sum.bias += term;
    sum.bias_magnitude += std::fabs(term);
  };
  add(read(e.bias, bias_tensor(p_), a.bias, channel));
  if (e.norm) {
    const double variance = read(true, parameters, a.norm_variance, channel);
    add(-read(true, parameters, a.norm_mean, channel));
    sum.factor = read(true, parameters, a.norm_scale, channel) / std::sqrt(variance + a.norm_epsilon);
    sum.bias *= sum.factor;
    sum.bias_magnitude *= std::fabs(sum.factor);
    add(read(true, parameters, a.norm_bias, channel));
  }
  add(a.residual_alpha * read(e.residual, p_.y, a.residual, at));
  return sum;
}

std::vector<Sum> ConvolutionCheck::evaluate(Stream& stream, const Args& a) const {
  std::vector<Sum> sums;
  std::vector<Walk> walks;
  double pairs = 0;
  for (const std::int64_t element : samples()) {
    const Position at = position(points_, element);
    const Walk& walk = walks.emplace_back(points_.walk(at));
    Sum& sum = sums.emplace_back(epilogue_of(stream, a, at.i[1], offset(element)));
    sum.pairs = static_cast<double>(walk.pairs());
    pairs += sums.back().pairs;
  }
  const Reader first = first_reader(p_, a), second = second_reader(p_, a);
  const auto floats = [](const Reader& r) {
    return [data = static_cast<const float*>(r.data)](std::int64_t i) { return static_cast<double>(data[i]); };
  };
  const bool plain = p_.all_types(DataType::kFloat) && !p_.has_casts();  // the usual case, with a faster loop
  // One task per 20000 products: starting a task costs microseconds.
  const auto tasks = static_cast<std::size_t>(std::clamp(pairs / 20000, 1.0, static_cast<double>(sums.size())));
  stream.parallel_for(tasks, 0, [&](std::size_t t, void*) {
    for (std::size_t i = t; i < sums.size(); i += tasks)
      plain ? sum_products(walks[i], floats(first), floats(second), a.alpha, sums[i])
            : sum_products(walks[i], first, second, a.alpha, sums[i]);
  });
  return sums;
}

std::vector<Accepted> ConvolutionCheck::accepted(Stream& stream, const Args& a, Tolerance tolerance,
                                                 std::string& why) const {
  auto sums = evaluate(stream, a);
  if (tolerance.transforms || tolerance.error == ErrorClass::kApproximate) distribute(sums);
  why = unclear(p_, tolerance.error, sums);
  if (!why.empty()) return {};
  std::vector<Accepted> ranges;
  for (const Sum& s : sums) {
    const double bound = error_bound(p_, tolerance.error, s);
    ranges.push_back({s.value - bound, s.value + bound, s.value});
  }
  if (p_.epilogue.activation != 0) activate(stream, p_, a, ranges);
  return ranges;
}

}  // namespace

std::unique_ptr<const search::ResultCheck> make_check(const Problem& p) {
  return std::make_unique<ConvolutionCheck>(p);
}

}  // namespace polymio::convolution
