// Checks o or dq: compares elements, the first and last among them, with their evaluation in double.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "primitives/mha/solvers.h"
#include "search/sampled_check.h"

namespace polymio::mha {
namespace {

using search::Accepted;
using search::Operand;

constexpr std::int64_t kMostTerms = std::int64_t{1} << 23;  // of all products together

/// Not inlined: this file has no speed to gain.
[[gnu::noinline]] double load(DataType type, const void* data, std::int64_t i) { return dtype::load(type, data, i); }

/// The scalars of a call on the host.
struct Scalars {
  std::array<double, kScalars> values;
  kernels::AttentionDropout dropout{};
  bool drops = false;

  double operator[](Scalar s) const { return values[static_cast<std::size_t>(s)]; }
};

class MhaCheck final : public search::SampledCheck<Problem> {
 public:
  explicit MhaCheck(const Problem& p) : SampledCheck(p) {}

 private:
  std::vector<Operand> operands(Args& a) const override {
    using enum Operand::Use;
    std::vector<Operand> all{{kWhole, p_.q, a.q, 1}, {kWhole, p_.k, a.k, 2}, {kWhole, p_.v, a.v, 3}};
    if (p_.has_bias()) all.emplace_back(kWhole, p_.bias, a.bias, 4);
    if (p_.forward()) {
      all.emplace_back(kOutput, p_.o, a.o, 5);
      return all;
    }
    all.emplace_back(kWhole, p_.o, a.o, 5);
    all.emplace_back(kWhole, p_.statistics(), a.m, 6);
    all.emplace_back(kWhole, p_.statistics(), a.z_inv, 7);
    all.emplace_back(kWhole, p_.dout, a.dout, 8);
    all.emplace_back(kOutput, p_.dq, a.dq, 9);
    all.emplace_back(kElements, p_.dk, a.dk, 10);
    all.emplace_back(kElements, p_.dv, a.dv, 11);
    return all;
  }
  Args private_args() const override {
    Args a;
    a.scale = 1 / std::sqrt(static_cast<double>(p_.head_size()));
    return a;
  }

  std::vector<std::int64_t> pick() const override {
    std::vector<std::int64_t> all = SampledCheck::pick();
    const std::int64_t row = p_.keys() * p_.head_size() * (p_.forward() ? 1 : 3);
    const auto most = static_cast<std::size_t>(std::clamp<std::int64_t>(kMostTerms / row, 2, 256));
    if (all.size() > most) all.resize(most);
    return all;
  }
  std::string name(std::int64_t element) const override {
    return fmt::format("{} at offset {}", p_.forward() ? "o" : "dq", offset(element));
  }

  std::vector<Accepted> accepted(Stream& stream, const Args& a, search::Tolerance, std::string& why) const override {
    const Scalars scalars = read_scalars(stream, a);
    std::vector<Accepted> all;
    why = "no result is finite";
    for (const std::int64_t i : samples()) {
      Accepted& e = all.emplace_back(accepted(a, scalars, i));
      e.known = std::isfinite(e.bound) && std::isfinite(rounded(p_.output().type, e.want));
      if (e.known) why = "";
    }
    return all;
  }

  Scalars read_scalars(Stream& stream, const Args& a) const {
    const auto number = [&](const void* at, DataType type, double missing) {
      TensorDesc t;
      t.type = type;
      return at == nullptr ? missing : read_element(stream, t, at, 0);
    };
    Scalars s;
    for (std::size_t i = 0; i < kScalars; ++i) s.values[i] = number(a.scalars[i], DataType::kFloat, 1);
    const auto probability = static_cast<float>(number(a.probability, DataType::kFloat, 0));
    s.drops = probability > 0;
    std::int64_t seed = 0, jump = 0;
    if (s.drops) {
      stream.download(&seed, a.seed, sizeof seed);
      stream.download(&jump, a.offset, sizeof jump);
      s.dropout = make_dropout(probability, seed, jump);
    }
    return s;
  }

  /// A row of the matrix of scores.
  struct Row {
    std::int64_t n, h, i;
    std::int64_t of(const TensorDesc& t, std::int64_t token) const {
      return n * t.strides[0] + h * t.strides[1] + token * t.strides[2];
    }
  };
  double dot(const TensorDesc& s, const void* a, std::int64_t at, const TensorDesc& t, const void* b, std::int64_t b_at,
             double& magnitude) const {
    double sum = 0;
    for (std::int64_t d = 0; d < p_.head_size(); ++d) {
      const double term = load(s.type, a, at + d) * load(t.type, b, b_at + d);
      sum += term;
      magnitude += std::fabs(term);
    }
    return sum;
  }

  Accepted accepted(const Args& a, const Scalars& s, std::int64_t element) const {
    const std::int64_t d = element % p_.head_size(), row = element / p_.head_size();
    const Row at{row / p_.queries() / p_.heads(), row / p_.queries() % p_.heads(), row % p_.queries()};
    const std::int64_t keys = a.mask == Mask::kCausal ? std::min(p_.keys(), at.i + 1) : p_.keys();
    std::vector<double> score(static_cast<std::size_t>(keys)), error(score.size());
    for (std::int64_t j = 0; j < keys; ++j) set_score(a, s, at, j, score, error);
    const Value v = p_.forward() ? forward(a, s, at, d, score, error) : backward(a, s, at, d, row, score, error);
    const double bound = v.bound + FLT_MIN;
    return {v.value - bound, v.value + bound, v.value, bound};
  }

  /// A score, and the error of one in fp32.
  void set_score(const Args& a, const Scalars& s, const Row& row, std::int64_t j, std::vector<double>& score,
                 std::vector<double>& error) const {
    double magnitude = 0;
    const double product = dot(p_.q, a.q, row.of(p_.q, row.i), p_.k, a.k, row.of(p_.k, j), magnitude);
    const double factor = a.scale * s[Scalar::kDescaleQ] * s[Scalar::kDescaleK];
    double v = factor * product, m = std::fabs(factor) * magnitude;
    if (p_.has_bias()) {
      const std::int64_t at = (p_.bias.lens[0] == 1 ? 0 : row.n) * p_.bias.strides[0] +
                              (p_.bias.lens[1] == 1 ? 0 : row.h) * p_.bias.strides[1] + row.i * p_.bias.strides[2] + j;
      const double bias = load(DataType::kFloat, a.bias, at);
      v += bias;
      m += std::isinf(bias) ? 0 : std::fabs(bias);
    }
    score[static_cast<std::size_t>(j)] = v;
    error[static_cast<std::size_t>(j)] = m * kFloatSum;
  }

  double kept(const Scalars& s, const Row& row, std::int64_t j) const {
    if (!s.drops) return 1;
    const std::int64_t number = ((row.n * p_.heads() + row.h) * p_.queries() + row.i) * p_.keys() + j;
    return kept_factor(s.dropout, static_cast<std::uint64_t>(number));
  }

  /// The relative error of a weight that is rounded to the type of q.
  double weight_error() const {
    if (is_fp8(p_.q.type))
      return p_.q.type == DataType::kFloat8Fnuz || p_.q.type == DataType::kFloat8E4m3fn ? 0x1p-3 : 0x1p-2;
    return p_.q.type == DataType::kBFloat16 ? 0x1p-8 : p_.q.type == DataType::kHalf ? 0x1p-10 : 0;
  }
  /// What a stored weight may be off besides: the smallest 8-bit float.
  double weight_step() const { return is_fp8(p_.q.type) ? 0x1p-9 : p_.q.type == DataType::kHalf ? 0x1p-24 : 0; }

  struct Value {
    double value, bound;
  };

  Value forward(const Args& a, const Scalars& s, const Row& row, std::int64_t d, const std::vector<double>& score,
                const std::vector<double>& error) const {
    const double largest = *std::max_element(score.begin(), score.end());
    double total = 0, score_error = 0;
    for (std::size_t j = 0; j < score.size(); ++j) {
      const double term = std::exp(score[j] - largest);
      total += term;
      score_error = std::max(score_error, term > 0 ? error[j] : 0);
    }
    const double factor = s[Scalar::kDescaleS] * s[Scalar::kDescaleV] * s[Scalar::kScaleO];
    double sum = 0, magnitude = 0, steps = 0;
    for (std::size_t j = 0; j < score.size(); ++j) {
      const auto key = static_cast<std::int64_t>(j);
      const double v = load(p_.v.type, a.v, row.of(p_.v, key) + d);
      double weight = std::exp(score[j] - largest) / total * kept(s, row, key) * s[Scalar::kScaleS];
      const double exact = weight;
      if (is_fp8(p_.q.type)) weight = rounded(p_.q.type, weight);
      sum += weight * v;
      const double relative = weight_error() + 2 * score_error + kFloatSum * (2 + std::fabs(score[j] - largest));
      if (exact != 0 && std::isfinite(score[j])) magnitude += std::fabs(exact * v) * relative;
      steps += std::fabs(v) * weight_step();
    }
    return {factor * sum, std::fabs(factor) * (magnitude + steps)};
  }

  Value backward(const Args& a, const Scalars& s, const Row& row, std::int64_t d, std::int64_t number,
                 const std::vector<double>& score, const std::vector<double>& error) const {
    const double m = load(DataType::kFloat, a.m, number), z = load(DataType::kFloat, a.z_inv, number);
    double delta_magnitude = 0;
    const double of_o = s[Scalar::kDescaleDO] * s[Scalar::kDescaleO],
                 of_v = s[Scalar::kDescaleDO] * s[Scalar::kDescaleV];
    const double delta =
        of_o * dot(p_.o, a.o, row.of(p_.o, row.i), p_.dout, a.dout, row.of(p_.dout, row.i), delta_magnitude);
    const double factor = s[Scalar::kDescaleDS] * s[Scalar::kDescaleK] * s[Scalar::kScaleDQ];
    double sum = 0, magnitude = 0, steps = 0;
    for (std::size_t j = 0; j < score.size(); ++j) {
      const auto key = static_cast<std::int64_t>(j);
      double dp_magnitude = 0;
      const double dp = of_v * dot(p_.dout, a.dout, row.of(p_.dout, row.i), p_.v, a.v, row.of(p_.v, key), dp_magnitude);
      const double keep = kept(s, row, key), k = load(p_.k.type, a.k, row.of(p_.k, key) + d);
      const double weight = a.scale * std::exp(score[j] - m) * z * s[Scalar::kScaleDS];
      double gradient = weight * (keep * dp - delta);
      const double terms = keep * std::fabs(of_v) * dp_magnitude + std::fabs(of_o) * delta_magnitude;
      const double relative = error[j] + kFloatSum * (4 + std::fabs(score[j] - m));
      magnitude +=
          std::fabs(k) * (std::fabs(gradient) * (weight_error() + relative) + std::fabs(weight) * terms * kFloatSum);
      steps += std::fabs(k) * weight_step();
      if (is_fp8(p_.q.type)) gradient = rounded(p_.q.type, gradient);
      sum += gradient * k;
    }
    return {factor * sum, std::fabs(factor) * (magnitude + steps)};
  }

  std::unique_ptr<SampledCheck> make(const Problem& p) const override { return std::make_unique<MhaCheck>(p); }
  std::vector<TensorDesc*> with_images(Problem& p) const override {
    std::vector<TensorDesc*> all{&p.q, &p.k, &p.v, &p.o};
    if (!p.forward()) all.insert(all.end(), {&p.dout, &p.dq, &p.dk, &p.dv});
    if (p.has_bias() && p.bias.lens[0] > 1) all.push_back(&p.bias);
    return all;
  }

  static constexpr double kFloatSum = 32 * 0x1p-24;  // relative to the magnitudes of the terms of a sum in fp32
};

}  // namespace

std::unique_ptr<const search::ResultCheck> make_check(const Problem& p) { return std::make_unique<MhaCheck>(p); }

}  // namespace polymio::mha
