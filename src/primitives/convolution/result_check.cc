// Checks the result of a convolution: compares up to 64 elements with their evaluation in double, with the error bound
// of the solver's arithmetic.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>

#include "base/hash.h"
#include "core/random.h"
#include "primitives/activation/activation.h"
#include "primitives/convolution/definition.h"

namespace polymio::convolution {
namespace {

using search::CheckResult;
using search::ResultCheck;
using search::Tolerance;

constexpr std::int64_t kMostSamples = 64, kLeastSamples = 8;
constexpr double kMostPairs = 2e6;  // most multiply-adds per check, unless kLeastSamples need more

/// A counter-based random number: a function of seed and counter.
std::uint64_t draw(std::uint64_t seed, std::uint64_t number) { return mix(mix(seed, number), 0x9fb21c651e98df25ull); }

TensorDesc bias_tensor(const Problem& p) { return make_tensor(p.y.type, std::array{p.k()}, {}); }

/// Synchronizes, then gives arguments with host addresses: the caller's on a CPU, copies on a GPU.
class OnHost {
 public:
  OnHost(Stream& stream, const Problem& p, const void* args) : args_(*static_cast<const Problem::Args*>(args)) {
    stream.synchronize();
    if (stream.info().kind == DeviceKind::kCpu) return;
    args_.x = fetch(stream, p.x, args_.x);
    args_.w = fetch(stream, p.w, args_.w);
    args_.y = fetch(stream, p.y, args_.y);
    if (p.epilogue.bias) args_.bias = fetch(stream, bias_tensor(p), args_.bias);
  }
  const Problem::Args& args() const { return args_; }

 private:
  void* fetch(Stream& stream, const TensorDesc& t, const void* data) {
    auto& copy = copies_.emplace_back(t.bytes());
    if (!copy.empty()) stream.download(copy.data(), data, copy.size());
    return copy.data();
  }

  Problem::Args args_;
  std::vector<std::vector<unsigned char>> copies_;
};

std::int64_t flat_size(const Points& points) {
  std::int64_t count = 1;
  for (const std::int64_t size : points.sizes()) count *= size;
  return count;
}

Position position(const std::int64_t (&at)[5]) { return {{at[0], at[1]}, {at[2], at[3], at[4]}}; }

Position position(const Points& points, std::int64_t index) {
  std::int64_t at[5];
  for (int d = 4; d >= 0; --d) {
    at[d] = index % points.sizes()[d];
    index /= points.sizes()[d];
  }
  return position(at);
}

/// Picks positions: two corners, then in alternation the end, the start and the inside of each dimension, where solvers
/// have bugs, with random other coordinates. Channels count per group.
class Sampler {
 public:
  Sampler(const Problem& p, const Points& points) : points_(points), seed_(p.hash()) {
    for (std::size_t d = 0; d < 5; ++d) block_[d] = points.sizes()[d];
    block_[p.direction == Direction::kBackwardWeights ? 0 : 1] /= p.groups();
  }

  std::vector<Position> pick(std::int64_t count) {
    const std::int64_t all = flat_size(points_);
    if (all <= count) {
      for (std::int64_t i = 0; i < all; ++i) add(position(points_, i));
      return std::move(picked_);
    }
    add(position(points_, 0));
    add(position(points_, all - 1));
    for (int turn = 0; static_cast<std::int64_t>(picked_.size()) < count && turn < 20 * kMostSamples; ++turn)
      add(random(turn % 5, turn / 5 % 3));
    return std::move(picked_);
  }

 private:
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(draw(seed_, ++draws_) % static_cast<std::uint64_t>(n));
  }

  /// A position with coordinate `d` at the end (place 0), the start (1) or anywhere (2) in its dimension. Tries to
  /// avoid elements without products, which test nothing.
  Position random(int d, int place) {
    std::int64_t at[5];
    for (int attempt = 0; attempt < 8; ++attempt) {
      for (int i = 0; i < 5; ++i) at[i] = below(points_.sizes()[i]);
      if (place < 2) at[d] = at[d] / block_[d] * block_[d] + (place == 0 ? block_[d] - 1 : 0);
      if (points_.walk(position(at)).pairs() > 0) break;
    }
    return position(at);
  }

  void add(const Position& p) {
    const std::int64_t offset = points_.offset(p);
    if (std::none_of(picked_.begin(), picked_.end(), [&](const auto& o) { return points_.offset(o) == offset; }))
      picked_.push_back(p);
  }

  const Points& points_;
  std::uint64_t seed_, draws_ = 0;
  std::int64_t block_[5]{};
  std::vector<Position> picked_;
};

/// The exact value of an output element before the activation: the sum of a bias and `pairs` products. `magnitude` is
/// the sum of their absolute values.
struct Expected {
  double value = 0, magnitude = 0, pairs = 0, bias = 0;
};

double rounded(DataType t, double v) {
  std::int64_t memory = 0;
  dtype::store(t, &memory, 0, v);
  return dtype::load(t, &memory, 0);
}

/// Smallest positive value.
double smallest(DataType t) {
  switch (t) {
    case DataType::kDouble: return DBL_TRUE_MIN;
    case DataType::kFloat:
    case DataType::kBFloat16: return FLT_TRUE_MIN;
    case DataType::kHalf: return 0x1p-24;
    case DataType::kFloat8: return 0x1p-9;
    case DataType::kBFloat8: return 0x1p-16;
    default: return 1;
  }
}

/// Largest relative distance of adjacent values.
double relative_step(DataType t) {
  switch (t) {
    case DataType::kDouble: return 0x1p-52;
    case DataType::kFloat: return 0x1p-23;
    case DataType::kHalf: return 0x1p-10;
    case DataType::kBFloat16: return 0x1p-7;
    case DataType::kFloat8: return 0x1p-3;
    case DataType::kBFloat8: return 0x1p-2;
    default: return 0;
  }
}

/// Error bound of a solver of this class before rounding to the output's type. n u is the worst case of a sum of n
/// terms; independent errors exceed 8 sqrt(n) u once in 10^13.
double error_bound(const Problem& p, ErrorClass error, const Expected& e) {
  const bool wide = error == ErrorClass::kExact || p.all_types(DataType::kDouble);
  const double n = e.pairs + 3;  // scaling, bias and the evaluation's own error
  const double sum = std::min(n, 8 * std::sqrt(n)) * (wide ? 0x1p-52 : 0x1p-24);
  double relative = error == ErrorClass::kApproximate ? 64 * sum : sum;
  if (error == ErrorClass::kReduced) relative += 0x1p-7;                   // both factors rounded to bf16
  double bound = relative * e.magnitude + n * (wide ? DBL_MIN : FLT_MIN);  // subnormals may be flushed to zero
  const DataType t = p.output().type;
  if (is_fp8(t) && p.rounding == Rounding::kStochastic) bound += relative_step(t) * std::fabs(e.value) + smallest(t);
  // An epilogue pass reads rounded results of the solver.
  if (!p.epilogue.empty() && error != ErrorClass::kExact)
    bound += relative_step(t) / 2 * std::fabs(e.value - e.bias) + smallest(t);
  return bound;
}

/// The range of right results, and the exact one, all rounded to the output's type.
struct Accepted {
  double low, high, want;
};

/// Applies the activation to ranges; activations are monotone on either side of 0.
void activate(Stream& stream, const Problem& p, const Problem::Args& a, std::vector<Accepted>& ranges) {
  std::vector<double> values;
  for (const Accepted& r : ranges)
    for (const double v : {r.low, r.high, std::clamp(0.0, r.low, r.high), r.want}) values.push_back(v);
  const std::int64_t lens[] = {static_cast<std::int64_t>(values.size())};
  activation::apply(stream, make_tensor(DataType::kDouble, lens, {}), values.data(),
                    static_cast<activation::Mode>(p.epilogue.activation),
                    {a.activation_alpha, a.activation_beta, a.activation_gamma});
  // The activation has an error of a few roundings.
  const double function_error = p.all_types(DataType::kDouble) ? 0x1p-44 : 0x1p-18;
  const double* v = values.data();
  for (Accepted& r : ranges) {
    const auto [low, high] = std::minmax({v[0], v[1], v[2]});
    r = {low - function_error * std::fabs(low), high + function_error * std::fabs(high), v[3]};
    v += 4;
  }
}

/// Transforms mix neighbouring elements: every element gets the error bound of the largest magnitude.
void distribute(std::vector<Expected>& expected) {
  double largest = 0;
  for (const Expected& e : expected) largest = std::max(largest, e.magnitude);
  for (Expected& e : expected) e.magnitude = std::max(e.magnitude, largest);
}

bool all_finite(const Reader& r) {
  if (is_integer(r.desc.type)) return true;
  for (std::int64_t i = 0; i < r.desc.space(); ++i)
    if (!std::isfinite(dtype::load(r.desc.type, r.data, i))) return false;
  return true;
}

class ConvolutionCheck final : public ResultCheck {
 public:
  explicit ConvolutionCheck(const Problem& p) : p_(p), points_(p_) {}

  void poison(Stream& stream, const void* args) const override {
    const auto& a = *static_cast<const Problem::Args*>(args);
    if (a.beta != 0) return;
    const DataType t = p_.output().type;
    unsigned char pattern[sizeof(double)];
    std::memset(pattern, is_integer(t) ? 0x5a : 0xff, sizeof pattern);
    for (const Position& at : samples())
      stream.upload({output_of(p_, a), static_cast<std::size_t>(points_.offset(at)) * size_of(t)}, pattern, size_of(t));
  }

  CheckResult check(Stream& stream, const void* args, Tolerance tolerance, std::string& text) const override;

  std::unique_ptr<PrivateCase> private_case(Handle&, std::size_t most_bytes) const override;

 private:
  std::vector<Expected> evaluate(Stream&, const Problem::Args&) const;
  Expected evaluate(const Problem::Args&, const Position&) const;
  std::vector<Accepted> accepted(Stream&, const Problem::Args&, ErrorClass, const std::vector<Expected>&) const;
  std::string describe(const Position&, double got, const Accepted&) const;

  /// Picked on first use: on a database hit most checks are never used.
  const std::vector<Position>& samples() const;

  const Problem p_;
  const Points points_;
  mutable std::once_flag picked_;
  mutable std::vector<Position> samples_;
};

const std::vector<Position>& ConvolutionCheck::samples() const {
  std::call_once(picked_, [this] {
    const double pairs = p_.flops() / 2 / static_cast<double>(p_.output().count());
    const auto affordable = static_cast<std::int64_t>(kMostPairs / std::max(pairs, 1.0));
    samples_ = Sampler(p_, points_).pick(std::clamp(affordable, kLeastSamples, kMostSamples));
  });
  return samples_;
}

/// Sums in double, which is exact for products of 8-bit integers.
template <class First, class Second>
Expected sum_products(const Walk& walk, const First& first, const Second& second) {
  double sum = 0, magnitude = 0;
  walk.each([&](std::int64_t i, std::int64_t j) {
    const double product = first(i) * second(j);
    sum += product;
    magnitude += std::fabs(product);
  });
  return {sum, magnitude, static_cast<double>(walk.pairs())};
}

Expected ConvolutionCheck::evaluate(const Problem::Args& a, const Position& at) const {
  const Reader first = first_reader(p_, a), second = second_reader(p_, a);
  const auto floats = [](const Reader& r) {
    return [data = static_cast<const float*>(r.data)](std::int64_t i) { return static_cast<double>(data[i]); };
  };
  const bool plain = p_.all_types(DataType::kFloat) && !p_.has_casts();  // the usual case, with a faster loop
  const Walk walk = points_.walk(at);
  Expected e = plain ? sum_products(walk, floats(first), floats(second)) : sum_products(walk, first, second);
  e.bias = p_.epilogue.bias ? dtype::load(p_.y.type, a.bias, at.i[1]) : 0;
  e.value = a.alpha * e.value + e.bias;
  e.magnitude = std::fabs(a.alpha) * e.magnitude + std::fabs(e.bias);
  return e;
}

std::vector<Expected> ConvolutionCheck::evaluate(Stream& stream, const Problem::Args& a) const {
  const auto& at = samples();
  std::vector<Expected> expected(at.size());
  double pairs = 0;
  for (const Position& position : at) pairs += static_cast<double>(points_.walk(position).pairs());
  // One task per 20000 products: starting a task costs microseconds.
  const auto tasks = static_cast<std::size_t>(std::clamp(pairs / 20000, 1.0, static_cast<double>(at.size())));
  stream.parallel_for(tasks, 0, [&](std::size_t t, void*) {
    for (std::size_t i = t; i < at.size(); i += tasks) expected[i] = evaluate(a, at[i]);
  });
  return expected;
}

std::vector<Accepted> ConvolutionCheck::accepted(Stream& stream, const Problem::Args& a, ErrorClass error,
                                                 const std::vector<Expected>& expected) const {
  std::vector<Accepted> ranges;
  for (const Expected& e : expected) {
    const double bound = error_bound(p_, error, e);
    ranges.push_back({e.value - bound, e.value + bound, e.value});
  }
  if (p_.epilogue.activation != 0) activate(stream, p_, a, ranges);
  const DataType t = p_.output().type;
  for (Accepted& r : ranges) r = {rounded(t, r.low), rounded(t, r.high), rounded(t, r.want)};
  return ranges;
}

std::string ConvolutionCheck::describe(const Position& at, double got, const Accepted& right) const {
  static constexpr const char* kNames[] = {"y", "dx", "dw"};
  const auto spatial = static_cast<std::size_t>(p_.spatial());
  return fmt::format("{}[{},{},{}] is {:.9g}, should be {:.9g} +- {:.3g}", kNames[static_cast<int>(p_.direction)],
                     at.i[0], at.i[1], fmt::join(std::end(at.s) - spatial, std::end(at.s), ","), got, right.want,
                     std::max(right.high - right.want, right.want - right.low));
}

/// Why the inputs make the check inconclusive; "" if they do not.
const char* unclear(const Problem& p, ErrorClass error, const std::vector<Expected>& expected) {
  const double most = (p.all_types(DataType::kDouble) ? DBL_MAX : FLT_MAX) / 4;
  std::size_t sums = 0, telling = 0;
  for (const Expected& e : expected) {
    if (!(e.magnitude < most)) return "a result is not finite";
    sums += e.pairs > 0;
    telling += e.pairs > 0 && 4 * (error_bound(p, error, e) + smallest(p.output().type)) < e.magnitude;
  }
  return 10 * telling < sums ? "the inputs are zero or negligible nearly everywhere" : "";
}

CheckResult ConvolutionCheck::check(Stream& stream, const void* args, Tolerance tolerance, std::string& text) const {
  const ErrorClass error = tolerance.error;
  const OnHost host(stream, p_, args);
  const Problem::Args& a = host.args();
  auto expected = evaluate(stream, a);
  if (tolerance.transforms || error == ErrorClass::kApproximate) distribute(expected);
  text = a.beta != 0 ? "the output's earlier values are not known" : unclear(p_, error, expected);
  if (!text.empty()) return CheckResult::kInconclusive;

  const auto ranges = accepted(stream, a, error, expected);
  for (std::size_t i = 0; i < ranges.size() && text.empty(); ++i) {
    const double got = dtype::load(p_.output().type, output_of(p_, a), points_.offset(samples()[i]));
    if (!(ranges[i].low <= got && got <= ranges[i].high)) text = describe(samples()[i], got, ranges[i]);
  }
  if (text.empty()) return CheckResult::kRight;
  // NaN or infinity in an input may reach results that do not depend on it, for instance through multiplied padding.
  if (all_finite(first_reader(p_, a)) && all_finite(second_reader(p_, a))) return CheckResult::kWrong;
  text = "an input has elements that are not finite";
  return CheckResult::kInconclusive;
}

class ConvolutionCase final : public ResultCheck::PrivateCase {
 public:
  ConvolutionCase(Handle& handle, const Problem& p)
      : problem_(p), check_(p), x_(handle, p.x, 1), w_(handle, p.w, 2), y_(handle, p.y, 3) {
    if (p.epilogue.bias) bias_.emplace(handle, bias_tensor(p), 4);
    args_.x = x_.data();
    args_.w = w_.data();
    args_.y = y_.data();
    args_.bias = bias_ ? bias_->data() : nullptr;
    args_.alpha = p.scalars == Scalars::kDefault ? 1 : 0.75;
    args_.activation_alpha = 0.5;
    args_.activation_beta = args_.activation_gamma = 1;
  }

  const ProblemBase& problem() const override { return problem_; }
  const ResultCheck& check() const override { return check_; }
  const void* args(void* workspace, std::size_t bytes) override {
    args_.workspace = workspace;
    args_.workspace_bytes = bytes;
    return &args_;
  }

 private:
  const Problem problem_;
  const ConvolutionCheck check_;
  const RandomTensor x_, w_, y_;
  std::optional<RandomTensor> bias_;
  Problem::Args args_;
};

bool fits(const Problem& p, std::size_t most_bytes) {
  double bytes = p.epilogue.bias ? static_cast<double>(bias_tensor(p).bytes()) : 0;
  for (const TensorDesc* t : {&p.x, &p.w, &p.y}) bytes += static_cast<double>(t->bytes());
  return bytes <= static_cast<double>(most_bytes);
}

std::unique_ptr<ResultCheck::PrivateCase> ConvolutionCheck::private_case(Handle& handle, std::size_t most_bytes) const {
  Problem p = p_;
  while (!fits(p, most_bytes)) {
    if (p.n() == 1) return nullptr;
    p.x.lens[0] /= 2;
    p.y.lens[0] = p.x.lens[0];
  }
  return std::make_unique<ConvolutionCase>(handle, p);
}

}  // namespace

std::unique_ptr<const ResultCheck> make_check(const Problem& p) { return std::make_unique<ConvolutionCheck>(p); }

}  // namespace polymio::convolution
