// SPDX-License-Identifier: MIT
#include "reference/mha.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/dropout.h"

namespace polymio::reference {
namespace {

// Whether dropout keeps element `number` of [batch, heads, queries, keys].
bool keeps(const Mha& p, std::uint64_t number) {
  std::uint64_t x = p.seed + number;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  x ^= x >> 31;
  const std::uint32_t t0 = (static_cast<std::uint32_t>(x) ^ 0x2c7f967f) * 1228688033;
  const std::uint32_t t1 = (static_cast<std::uint32_t>(x >> 32) ^ 0xa03697cb) * 2073658381;
  Xorwow state{123456789 + t0, 362436069 ^ t0, 521288629 + t1, 88675123 ^ t1, 5783321 + t0, 6615241 + t0 + t1};
  for (int bit = 0; bit < 64; ++bit)
    if ((p.offset >> bit & 1) != 0) state = jump(state, bit);
  return 2.3283064e-10f + 2.3283064e-10f * static_cast<float>(draw(state)) >= p.probability;
}

// A value, and what its rounding errors are relative to.
struct Value {
  double value = 0, magnitude = 0;
};

// What error_bound multiplies magnitudes with.
double bound_of_1(const Mha& p) {
  const auto n = static_cast<double>(mha_arithmetic(p, Type::kFloat).reduction_length + 3);
  return std::min(n, 8 * std::sqrt(n)) * unit_roundoff(Type::kFloat);
}
// The magnitude that stands for the rounding of a weight of 1 to the type of q. Where the exact weights are rounded,
// those of an implementation may be the next 8-bit float.
double weight_roundings(const Mha& p) {
  const bool is_narrow = p.q.type == Type::kHalf || p.q.type == Type::kBFloat16;
  const double steps = p.rounds || is_narrow ? 2 * unit_roundoff(p.q.type) : 0;
  return 1 + steps / bound_of_1(p);
}
// The same of a weight near 0.
double weight_step(const Mha& p) {
  return p.rounds || p.q.type == Type::kHalf ? smallest_positive(p.q.type) / bound_of_1(p) : 0;
}

// The rows of scores of a head.
class Head {
 public:
  Head(const Mha& p, const MhaData& data, std::int64_t n, std::int64_t h) : p_(p), data_(data), n_(n), h_(h) {}

  std::int64_t row(std::int64_t i) const { return (n_ * p_.heads() + h_) * p_.queries() + i; }
  double at(const Tensor& t, const void* data, std::int64_t token, std::int64_t d) const {
    return load(t.type, data, n_ * t.strides[0] + h_ * t.strides[1] + token * t.strides[2] + d * t.strides[3]);
  }
  Value dot(const Tensor& s, const void* a, std::int64_t i, const Tensor& t, const void* b, std::int64_t j) const {
    Value sum;
    for (std::int64_t d = 0; d < p_.head_size(); ++d) {
      const double term = at(s, a, i, d) * at(t, b, j, d);
      sum.value += term;
      sum.magnitude += std::fabs(term);
    }
    return sum;
  }
  bool sees(std::int64_t i, std::int64_t j) const { return !p_.causal || j <= i; }
  Value score(std::int64_t i, std::int64_t j) const {
    const Value product = dot(p_.q, data_.q, i, p_.k, data_.k, j);
    const double factor = p_.scale * p_.descale_q * p_.descale_k;
    Value v{factor * product.value, std::fabs(factor) * product.magnitude};
    if (!p_.bias.lens.empty()) {
      const Tensor& b = p_.bias;
      const double bias = load(b.type, data_.bias,
                               (b.lens[0] == 1 ? 0 : n_) * b.strides[0] + (b.lens[1] == 1 ? 0 : h_) * b.strides[1] +
                                   i * b.strides[2] + j * b.strides[3]);
      v.value += bias;
      v.magnitude += std::isinf(bias) ? 0 : std::fabs(bias);
    }
    return v;
  }
  // 1 / (1 - probability), or 0 if the score is dropped.
  double kept(std::int64_t i, std::int64_t j) const {
    if (p_.probability <= 0) return 1;
    const bool keep = p_.probability < 1 && keeps(p_, static_cast<std::uint64_t>(row(i) * p_.keys() + j));
    return keep ? 1 / (1 - static_cast<double>(p_.probability)) : 0;
  }
  double rounded(double weight) const { return p_.rounds ? round_to(p_.q.type, weight) : weight; }

 private:
  const Mha& p_;
  const MhaData& data_;
  std::int64_t n_, h_;
};

void resize(Result& r, std::int64_t count) {
  r.value.assign(static_cast<std::size_t>(count), 0);
  r.magnitude.assign(static_cast<std::size_t>(count), 0);
}

void add(Result& r, std::int64_t at, double value, double magnitude) {
  r.value[static_cast<std::size_t>(at)] += value;
  r.magnitude[static_cast<std::size_t>(at)] += magnitude;
}

void raise(Result& largest, double value, double magnitude) {
  largest.value[0] = std::max(largest.value[0], std::fabs(value));
  largest.magnitude[0] = std::max(largest.magnitude[0], magnitude);
}

// Multiplies with `factor`, takes the largest, multiplies with `scale`.
void finish(Result& r, double factor, double scale, Result& largest) {
  for (std::size_t i = 0; i < r.value.size(); ++i) {
    r.value[i] *= factor;
    r.magnitude[i] *= std::fabs(factor);
    raise(largest, r.value[i], r.magnitude[i]);
    r.value[i] *= scale;
    r.magnitude[i] *= std::fabs(scale);
  }
}

template <class Body>
void for_heads(const Mha& p, const MhaData& data, const Body& body) {
  for (std::int64_t n = 0; n < p.batch(); ++n)
    for (std::int64_t h = 0; h < p.heads(); ++h) body(Head(p, data, n, h));
}

}  // namespace

std::array<Result, 5> mha_forward(const Mha& p, const MhaData& data) {
  std::array<Result, 5> all;
  const std::int64_t rows = p.batch() * p.heads() * p.queries(), size = p.head_size();
  resize(all[kMhaO], rows * size);
  resize(all[kMhaM], rows);
  resize(all[kMhaZInv], rows);
  resize(all[kMhaAmaxS], 1);
  resize(all[kMhaAmaxO], 1);
  for_heads(p, data, [&](const Head& head) {
    for (std::int64_t i = 0; i < p.queries(); ++i) {
      std::vector<Value> scores;
      Value largest{-std::numeric_limits<double>::infinity(), 0};
      for (std::int64_t j = 0; j < p.keys() && head.sees(i, j); ++j) {
        scores.push_back(head.score(i, j));
        largest = {std::fmax(largest.value, scores.back().value), std::max(largest.magnitude, scores.back().magnitude)};
      }
      double sum = 0;
      for (const Value& score : scores) sum += std::exp(score.value - largest.value);
      const double relative = 1 + largest.magnitude;
      add(all[kMhaM], head.row(i), largest.value, largest.magnitude);
      add(all[kMhaZInv], head.row(i), 1 / sum, relative / sum);
      raise(all[kMhaAmaxS], 1 / sum, relative / sum);
      for (std::size_t s = 0; s < scores.size(); ++s) {
        const auto j = static_cast<std::int64_t>(s);
        const double below = scores[s].value - largest.value;
        const double weight = std::exp(below) / sum * head.kept(i, j) * p.scale_s;
        const double roundings = weight == 0 ? 0 : relative - below + weight_roundings(p);
        for (std::int64_t d = 0; d < size; ++d) {
          const double v = head.at(p.v, data.v, j, d);
          add(all[kMhaO], head.row(i) * size + d, head.rounded(weight) * v,
              std::fabs(v) * (std::fabs(weight) * roundings + weight_step(p)));
        }
      }
    }
  });
  finish(all[kMhaO], p.descale_s * p.descale_v, p.scale_o, all[kMhaAmaxO]);
  return all;
}

std::array<Result, 7> mha_backward(const Mha& p, const MhaData& data) {
  std::array<Result, 7> all;
  const std::int64_t heads = p.batch() * p.heads(), size = p.head_size();
  resize(all[kMhaDq], heads * p.queries() * size);
  resize(all[kMhaDk], heads * p.keys() * size);
  resize(all[kMhaDv], heads * p.keys() * size);
  for (const auto amax : {kMhaAmaxDq, kMhaAmaxDk, kMhaAmaxDv, kMhaAmaxDs}) resize(all[amax], 1);
  for_heads(p, data, [&](const Head& head) {
    const std::int64_t first_key = head.row(0) / p.queries() * p.keys();
    for (std::int64_t i = 0; i < p.queries(); ++i) {
      const double m = load(Type::kFloat, data.m, head.row(i)), z = load(Type::kFloat, data.z_inv, head.row(i));
      const Value delta = head.dot(p.o, data.o, i, p.dout, data.dout, i);
      const double of_delta = p.descale_dout * p.descale_o, of_dp = p.descale_dout * p.descale_v;
      for (std::int64_t j = 0; j < p.keys() && head.sees(i, j); ++j) {
        const Value score = head.score(i, j), dp = head.dot(p.dout, data.dout, i, p.v, data.v, j);
        const double softmax = std::exp(score.value - m) * z, kept = head.kept(i, j);
        const double weight = softmax * kept * p.scale_s;
        const double ds = p.scale * softmax * (kept * of_dp * dp.value - of_delta * delta.value);
        const double terms = std::fabs(p.scale * softmax) *
                             (kept * std::fabs(of_dp) * dp.magnitude + std::fabs(of_delta) * delta.magnitude);
        const double relative = 1 + score.magnitude + std::fabs(score.value - m);
        const double ds_error = std::fabs(ds) * relative + terms;
        raise(all[kMhaAmaxDs], ds, ds_error);
        const double stored = head.rounded(ds * p.scale_ds), roundings = weight_roundings(p);
        const double stored_error = std::fabs(p.scale_ds) * (ds_error + std::fabs(ds) * roundings) + weight_step(p);
        const double weight_error = std::fabs(weight) * (relative + roundings) + weight_step(p);
        for (std::int64_t d = 0; d < size; ++d) {
          const double k = head.at(p.k, data.k, j, d), q = head.at(p.q, data.q, i, d);
          const double dout = head.at(p.dout, data.dout, i, d);
          add(all[kMhaDq], head.row(i) * size + d, stored * k, stored_error * std::fabs(k));
          add(all[kMhaDk], (first_key + j) * size + d, stored * q, stored_error * std::fabs(q));
          add(all[kMhaDv], (first_key + j) * size + d, head.rounded(weight) * dout, weight_error * std::fabs(dout));
        }
      }
    }
  });
  finish(all[kMhaDq], p.descale_ds * p.descale_k, p.scale_dq, all[kMhaAmaxDq]);
  finish(all[kMhaDk], p.descale_ds * p.descale_q, p.scale_dk, all[kMhaAmaxDk]);
  finish(all[kMhaDv], p.descale_s * p.descale_dout, p.scale_dv, all[kMhaAmaxDv]);
  return all;
}

Arithmetic mha_arithmetic(const Mha& p, Type output) {
  Arithmetic how;
  how.output = output;
  how.reduction_length = std::max(p.keys(), p.queries()) + p.head_size() + 8;
  return how;
}

}  // namespace polymio::reference
