// Graphs of attention, node by node as MIOpen's callers build them, against the definition in double. On any device.
// SPDX-License-Identifier: MIT
#include "graph_builder.h"
#include "reference/mha.h"

namespace polymio::test {
namespace {

namespace ref = polymio::reference;

constexpr double kScale = 0.375;
const Sizes kHeads = {2, 2, 16, 8}, kScores = {2, 2, 16, 16}, kRows = {2, 2, 16, 1}, kTransposed = {2, 2, 8, 16};

/// Nodes of attention with tensors of a size each.
struct Attention {
  explicit Attention(miopenHandle_t handle, double dropout) : g(handle) {
    probability = scalar(dropout);
    seed = integer(12345);
    offset = integer(7);
  }

  int64_t scalar(double v) {
    const int64_t t = g.tensor(miopenFloat, {1, 1, 1, 1}, false, {1, 1, 1, 1});
    g.dense(t).values = {v};
    return t;
  }
  int64_t integer(double v) {
    const int64_t t = g.tensor(miopenInt64, {1, 1, 1, 1}, false, {1, 1, 1, 1});
    g.dense(t).values = {v};
    return t;
  }
  int64_t heads() { return g.input(miopenFloat, kHeads, -1, 1); }
  int64_t times(int64_t x, int64_t b, const Sizes& sizes) {
    const int64_t y = g.tensor(miopenFloat, sizes, true);
    g.pointwise(MIOPEN_POINTWISE_MUL, {x, b}, y);
    return y;
  }
  int64_t unary(const ref::Pointwise& p, int64_t x, const Sizes& sizes) {
    const int64_t y = g.tensor(miopenFloat, sizes, true);
    g.pointwise(p, {x}, y);
    return y;
  }
  int64_t product(int64_t a, int64_t b, const Sizes& sizes) {
    const int64_t c = g.tensor(miopenFloat, sizes, true);
    g.product(a, b, c);
    return c;
  }
  int64_t transposed(int64_t x, const Sizes& sizes) {
    Sizes strides = packed(sizes);
    std::swap(strides[2], strides[3]);
    strides[2] = 1;
    strides[3] = sizes[2];
    const int64_t y = g.tensor(miopenFloat, sizes, true, strides);
    g.reshape(x, y);
    return y;
  }
  /// Largest magnitude and scaled result.
  int64_t finish(int64_t x, int64_t scale, int64_t amax, const Sizes& sizes, bool is_virtual = false) {
    g.reduction(MIOPEN_REDUCE_TENSOR_MAX, x, amax);
    const int64_t y = g.tensor(miopenFloat, sizes, is_virtual);
    g.pointwise(MIOPEN_POINTWISE_MUL, {x, scale}, y);
    return y;
  }
  int64_t kept() {
    const int64_t r = g.tensor(miopenFloat, kScores, true);
    g.random(MIOPEN_RNG_DISTRIBUTION_BERNOULLI, 0.5, 0, 0, seed, offset, r);
    return r;
  }

  GraphBuilder g;
  int64_t probability, seed, offset;
};

/// Tensors in fp32 as the reference reads them.
std::vector<float> floats(const Dense& d) { return {d.values.begin(), d.values.end()}; }

ref::Mha problem() {
  ref::Mha p;
  p.scale = kScale;
  p.q = p.k = p.v = p.o = p.dout = p.dq = p.dk = p.dv = {ref::Type::kFloat, kHeads};
  return p;
}

void expect_results(const Dense& got, const ref::Result& want, double error) {
  GraphBuilder::expect_near(got, {got.sizes, want.value}, error);
}

void forward(miopenHandle_t handle, float dropout) {
  Attention a(handle, static_cast<double>(dropout));
  GraphBuilder& g = a.g;
  const int64_t q = a.heads(), k = a.heads(), v = a.heads();
  const int64_t descale_q = a.scalar(0.5), descale_k = a.scalar(2), descale_v = a.scalar(0.75),
                descale_s = a.scalar(0.5), scale_s = a.scalar(1.5), scale_o = a.scalar(1.25);
  const int64_t amax_s = a.scalar(0), amax_o = a.scalar(0), m = g.tensor(miopenFloat, kRows),
                z_inv = g.tensor(miopenFloat, kRows), o = g.tensor(miopenFloat, kHeads);
  int64_t t = a.product(q, k, kScores);
  t = a.unary({.mode = MIOPEN_POINTWISE_IDENTITY, .alpha1 = kScale}, t, kScores);
  const int64_t scores = a.times(a.times(t, descale_q, kScores), descale_k, kScores);
  g.reduction(MIOPEN_REDUCE_TENSOR_MAX, scores, m);
  const int64_t difference = g.tensor(miopenFloat, kScores, true), total = g.tensor(miopenFloat, kRows, true);
  g.pointwise(MIOPEN_POINTWISE_SUB, {scores, m}, difference);
  const int64_t power = a.unary({.mode = MIOPEN_POINTWISE_EXP}, difference, kScores);
  g.reduction(MIOPEN_REDUCE_TENSOR_ADD, power, total);
  g.pointwise(MIOPEN_POINTWISE_RECIPROCAL, {total}, z_inv);
  const int64_t softmax = a.times(power, z_inv, kScores);
  g.reduction(MIOPEN_REDUCE_TENSOR_MAX, softmax, amax_s);
  t = a.times(a.times(softmax, a.kept(), kScores), a.probability, kScores);
  t = a.product(a.times(t, scale_s, kScores), v, kHeads);
  t = a.times(a.times(t, descale_s, kHeads), descale_v, kHeads);
  g.reduction(MIOPEN_REDUCE_TENSOR_MAX, t, amax_o);
  g.pointwise(MIOPEN_POINTWISE_MUL, {t, scale_o}, o);

  ref::Mha p = problem();
  p.descale_q = 0.5;
  p.descale_k = 2;
  p.descale_v = 0.75;
  p.descale_s = 0.5;
  p.scale_s = 1.5;
  p.scale_o = 1.25;
  p.probability = dropout;
  p.seed = 12345;
  p.offset = 7;
  const auto fq = floats(g.dense(q)), fk = floats(g.dense(k)), fv = floats(g.dense(v));
  const auto want = ref::mha_forward(p, {fq.data(), fk.data(), fv.data()});
  ASSERT_EQ(g.engines(), 1) << "attention is one step";
  const auto plan = g.plan(0);
  const auto got = g.run(*plan);
  g.expect_same_from_json(*plan, got);
  expect_results(got.at(o), want[ref::kMhaO], 5e-6);
  expect_results(got.at(m), want[ref::kMhaM], 5e-6);
  expect_results(got.at(z_inv), want[ref::kMhaZInv], 5e-6);
  expect_results(got.at(amax_s), want[ref::kMhaAmaxS], 5e-6);
  expect_results(got.at(amax_o), want[ref::kMhaAmaxO], 5e-6);
}

TEST(GraphAttention, Forward) {
  const DeviceHandle handle;
  forward(handle, 0);
  forward(handle, 0.5f);
}

TEST(GraphAttention, Backward) {
  const DeviceHandle handle;
  Attention a(handle, 0);
  GraphBuilder& g = a.g;
  const int64_t q = a.heads(), k = a.heads(), v = a.heads(), o = a.heads(), dout = a.heads();
  const int64_t m = g.tensor(miopenFloat, kRows), z_inv = g.tensor(miopenFloat, kRows);
  ref::Mha p = problem();
  const auto fq = floats(g.dense(q)), fk = floats(g.dense(k)), fv = floats(g.dense(v)), fdo = floats(g.dense(dout));
  const auto before = ref::mha_forward(p, {fq.data(), fk.data(), fv.data()});
  const auto store = [&](int64_t t, const ref::Result& r) {
    g.dense(t).values.assign(r.value.begin(), r.value.end());
    for (double& value : g.dense(t).values) value = ref::round_to(ref::Type::kFloat, value);
  };
  store(o, before[ref::kMhaO]);
  store(m, before[ref::kMhaM]);
  store(z_inv, before[ref::kMhaZInv]);
  const int64_t one = a.scalar(1);
  const auto ones = [&] { return a.scalar(1); };
  const int64_t descale_q = ones(), descale_k = ones(), descale_v = ones(), descale_s = ones(), descale_o = ones(),
                descale_do = ones(), descale_ds = ones(), scale_s = ones(), scale_ds = a.scalar(0.5), scale_dq = ones(),
                scale_dk = a.scalar(2), scale_dv = one;
  g.dense(descale_ds).values = {2};
  const int64_t amax_dq = a.scalar(0), amax_dk = a.scalar(0), amax_dv = a.scalar(0), amax_ds = a.scalar(0);

  int64_t t = a.product(q, a.transposed(k, kTransposed), kScores);
  t = a.unary({.mode = MIOPEN_POINTWISE_IDENTITY, .alpha1 = kScale}, t, kScores);
  t = a.times(a.times(t, descale_q, kScores), descale_k, kScores);
  const int64_t difference = g.tensor(miopenFloat, kScores, true);
  g.pointwise(MIOPEN_POINTWISE_SUB, {t, m}, difference);
  t = a.times(a.unary({.mode = MIOPEN_POINTWISE_EXP}, difference, kScores), z_inv, kScores);
  const int64_t kept = a.kept(), s = a.times(a.times(t, kept, kScores), a.probability, kScores);
  t = a.product(a.transposed(a.times(s, scale_s, kScores), kScores), dout, kHeads);
  t = a.times(a.times(t, descale_s, kHeads), descale_do, kHeads);
  const int64_t dv = a.finish(t, scale_dv, amax_dv, kHeads);
  t = a.product(dout, a.transposed(v, kTransposed), kScores);
  t = a.times(a.times(t, descale_do, kScores), descale_v, kScores);
  const int64_t u = a.times(a.times(t, kept, kScores), a.probability, kScores);
  t = a.times(a.times(dout, descale_do, kHeads), a.times(o, descale_o, kHeads), kHeads);
  const int64_t delta = g.tensor(miopenFloat, kRows, true), change = g.tensor(miopenFloat, kScores, true);
  g.reduction(MIOPEN_REDUCE_TENSOR_ADD, a.times(t, a.probability, kHeads), delta);
  g.pointwise(MIOPEN_POINTWISE_SUB, {u, delta}, change);
  t = a.times(a.unary({.mode = MIOPEN_POINTWISE_IDENTITY, .alpha1 = kScale}, change, kScores), s, kScores);
  const int64_t ds = a.finish(t, scale_ds, amax_ds, kScores, true);
  t = a.times(a.times(a.product(ds, k, kHeads), descale_ds, kHeads), descale_k, kHeads);
  const int64_t dq = a.finish(t, scale_dq, amax_dq, kHeads);
  t = a.product(a.transposed(ds, kScores), q, kHeads);
  t = a.times(a.times(t, descale_ds, kHeads), descale_q, kHeads);
  const int64_t dk = a.finish(t, scale_dk, amax_dk, kHeads);

  p.backward = true;
  p.descale_ds = 2;
  p.scale_ds = 0.5;
  p.scale_dk = 2;
  const auto fo = floats(g.dense(o)), fm = floats(g.dense(m)), fz = floats(g.dense(z_inv));
  const auto want =
      ref::mha_backward(p, {fq.data(), fk.data(), fv.data(), nullptr, fo.data(), fm.data(), fz.data(), fdo.data()});
  ASSERT_EQ(g.engines(), 1) << "attention is one step";
  const auto plan = g.plan(0);
  const auto got = g.run(*plan);
  g.expect_same_from_json(*plan, got);
  expect_results(got.at(dq), want[ref::kMhaDq], 5e-5);
  expect_results(got.at(dk), want[ref::kMhaDk], 5e-5);
  expect_results(got.at(dv), want[ref::kMhaDv], 5e-5);
  expect_results(got.at(amax_dq), want[ref::kMhaAmaxDq], 5e-5);
  expect_results(got.at(amax_dk), want[ref::kMhaAmaxDk], 5e-5);
  expect_results(got.at(amax_dv), want[ref::kMhaAmaxDv], 5e-5);
  expect_results(got.at(amax_ds), want[ref::kMhaAmaxDs], 5e-5);
}

}  // namespace
}  // namespace polymio::test
