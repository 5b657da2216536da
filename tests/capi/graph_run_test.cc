// Graphs that run: every kind of node and pointwise mode, chains, patterns, workspace, JSON. On any device.
// SPDX-License-Identifier: MIT
#include "graph_builder.h"
#include "heap.h"

namespace polymio::test {
namespace {

namespace ref = polymio::reference;
using ref::Pointwise;

constexpr double kFp32 = 3e-6, kFp16 = 2e-3, kBf16 = 1.5e-2;

double error_of(miopenDataType_t type) {
  return type == miopenHalf ? kFp16 : type == miopenBFloat16 ? kBf16 : type == miopenDouble ? 1e-12 : kFp32;
}

struct GraphRun : testing::Test {
  DeviceHandle handle;
  GraphBuilder g{handle};
};

/// Which operands a mode has.
int operands_of(int mode) {
  if (mode == MIOPEN_POINTWISE_BINARY_SELECT) return 3;
  const bool binary =
      mode <= MIOPEN_POINTWISE_SUB || (mode >= MIOPEN_POINTWISE_CMP_EQ && mode <= MIOPEN_POINTWISE_LOGICAL_OR);
  const bool backward = mode >= MIOPEN_POINTWISE_RELU_BWD && mode <= MIOPEN_POINTWISE_GELU_APPROX_TANH_BWD;
  return binary || backward ? 2 : 1;
}

class EveryMode : public testing::TestWithParam<int> {};

TEST_P(EveryMode, EqualsItsDefinition) {
  if (!sampled()) GTEST_SKIP();
  const DeviceHandle handle;
  const int mode = GetParam();
  GraphBuilder g(handle);
  const bool positive = mode == MIOPEN_POINTWISE_LOG || mode == MIOPEN_POINTWISE_SQRT ||
                        mode == MIOPEN_POINTWISE_RSQRT || mode == MIOPEN_POINTWISE_POW ||
                        mode == MIOPEN_POINTWISE_RECIPROCAL || mode == MIOPEN_POINTWISE_SOFTPLUS_BWD;
  const bool small = mode == MIOPEN_POINTWISE_TAN || mode == MIOPEN_POINTWISE_POW;
  const bool logical = mode >= MIOPEN_POINTWISE_CMP_EQ && mode <= MIOPEN_POINTWISE_LOGICAL_NOT;
  const Sizes sizes = {3, 5, 67};
  const double most = small ? 1.4 : 6, least = positive ? 0.25 : -most;
  Sizes in;
  std::vector<const Dense*> values;
  for (int i = 0; i < operands_of(mode); ++i)
    in.push_back(g.input(logical || i == 2 ? miopenInt8 : miopenFloat, sizes, least, most));
  if (mode == MIOPEN_POINTWISE_DIV || mode == MIOPEN_POINTWISE_MOD)
    for (double& v : g.dense(in[1]).values) v = std::copysign(std::fabs(v) + 0.5, v);
  for (const auto i : in) {
    for (double& v : g.dense(i).values) v = ref::round_to(g.tensors().at(i).layout.type, v);
    values.push_back(&g.dense(i));
  }
  Pointwise p{.mode = mode, .alpha1 = 0.5};
  if (mode == MIOPEN_POINTWISE_RELU_FWD || mode == MIOPEN_POINTWISE_RELU_BWD) {
    p.lower_clip = -1;
    p.lower_slope = 0.25;
  }
  p.upper_clip = mode == MIOPEN_POINTWISE_RELU_FWD ? 2 : p.upper_clip;
  p.elu_alpha = 0.75;
  p.softplus_beta = 1.5;
  p.swish_beta = 1.25;
  if (operands_of(mode) == 2 && values.size() == 2 && mode < MIOPEN_POINTWISE_ABS) p.alpha2 = 1.5;
  const int64_t y = g.tensor(miopenFloat, sizes);
  g.pointwise(p, in, y);
  // Quotients and remainders jump where a rounded quotient is whole: none of these values is that close.
  g.expect(y, ref::pointwise(p, values, sizes),
           mode == MIOPEN_POINTWISE_TAN || mode == MIOPEN_POINTWISE_POW ? 2e-5 : 6e-6);
}

TEST_P(EveryMode, EqualsItsDefinitionInDouble) {
  if (!sampled()) GTEST_SKIP();
  const DeviceHandle handle;
  const int mode = GetParam();
  GraphBuilder g(handle);
  const Sizes sizes = {2, 131};
  Sizes in;
  std::vector<const Dense*> values;
  for (int i = 0; i < operands_of(mode); ++i) in.push_back(g.input(miopenDouble, sizes, 0.3, 1.3));
  for (const auto i : in) values.push_back(&g.dense(i));
  const Pointwise p{.mode = mode};
  const int64_t y = g.tensor(miopenDouble, sizes);
  g.pointwise(p, in, y, miopenDouble);
  g.expect(y, ref::pointwise(p, values, sizes), 1e-13);
}

std::vector<int> elementwise_modes() {
  std::vector<int> modes;
  for (int m = 0; m < 50; ++m)
    if (m != MIOPEN_POINTWISE_GEN_INDEX) modes.push_back(m);
  return modes;
}
INSTANTIATE_TEST_SUITE_P(Modes, EveryMode, testing::ValuesIn(elementwise_modes()));

TEST_F(GraphRun, IndicesAlongAnAxis) {
  const Sizes sizes = {2, 3, 5, 7};
  for (const miopenDataType_t type : {miopenFloat, miopenHalf, miopenInt64, miopenInt8})
    for (const int64_t axis : {0, 1, 3}) {
      GraphBuilder h(handle);
      const int64_t x = h.input(miopenFloat, sizes), y = h.tensor(type, sizes, false, {105, 1, 21, 3});
      const Pointwise p{.mode = MIOPEN_POINTWISE_GEN_INDEX, .axis = axis};
      h.pointwise(p, {x}, y);
      h.expect(y, ref::pointwise(p, {&h.dense(x)}, sizes), 0);
    }
}

/// The scores of a causal mask: both indices are steps, and what follows a chain.
TEST_F(GraphRun, IndicesMaskScores) {
  const Sizes sizes = {2, 9, 13};
  const int64_t x = g.input(miopenFloat, sizes), low = g.input(miopenFloat, sizes, -1e9, -1e9),
                row = g.tensor(miopenInt32, sizes, true), column = g.tensor(miopenInt32, sizes, true),
                seen = g.tensor(miopenFloat, sizes, true), y = g.tensor(miopenFloat, sizes);
  g.pointwise({.mode = MIOPEN_POINTWISE_GEN_INDEX, .axis = 1}, {x}, row);
  g.pointwise({.mode = MIOPEN_POINTWISE_GEN_INDEX, .axis = 2}, {x}, column);
  g.pointwise(MIOPEN_POINTWISE_CMP_GE, {row, column}, seen);
  g.pointwise(MIOPEN_POINTWISE_BINARY_SELECT, {x, low, seen}, y);
  Dense want = g.dense(x);
  for (std::size_t i = 0; i < want.values.size(); ++i)
    if (i % 13 > i / 13 % 9) want.values[i] = g.dense(low).values[i];
  g.expect(y, want, 0);
}

TEST_F(GraphRun, SpecialValuesOfFunctions) {
  const double inf = HUGE_VAL, nan = std::nan("");
  const std::vector<double> special = {0, -0.0, 1, -1, inf, -inf, nan, 1e-40, 3e38, -3e38, 100, -100, 1e-8, 0.5};
  const int modes[] = {MIOPEN_POINTWISE_EXP,         MIOPEN_POINTWISE_LOG,  MIOPEN_POINTWISE_SQRT,
                       MIOPEN_POINTWISE_TANH_FWD,    MIOPEN_POINTWISE_ABS,  MIOPEN_POINTWISE_FLOOR,
                       MIOPEN_POINTWISE_SIGMOID_FWD, MIOPEN_POINTWISE_CEIL, MIOPEN_POINTWISE_RELU_FWD,
                       MIOPEN_POINTWISE_ELU_FWD};
  const int64_t x = g.input(miopenFloat, {14});
  std::vector<int64_t> y;
  for (std::size_t i = 0; i < special.size(); ++i)
    g.dense(x).values[i] = static_cast<double>(static_cast<float>(special[i]));
  for (const int mode : modes) {
    y.push_back(g.tensor(miopenFloat, {14}));
    g.pointwise(mode, {x}, y.back());
  }
  const auto results = g.run(*g.plan(0));
  for (std::size_t m = 0; m < std::size(modes); ++m) {
    const testing::ScopedTrace trace("mode", modes[m], "");
    Dense want = ref::pointwise({.mode = modes[m]}, {&g.dense(x)}, {14});
    for (double& v : want.values) v = ref::round_to(ref::Type::kFloat, v);
    GraphBuilder::expect_near(results.at(y[m]), want, 2e-6);
  }
}

TEST_F(GraphRun, NansOfExtremes) {
  const int64_t x = g.input(miopenFloat, {64}), b = g.input(miopenFloat, {64});
  for (std::size_t i = 0; i < 64; i += 3) g.dense(x).values[i] = std::nan("");
  for (std::size_t i = 0; i < 64; i += 5) g.dense(b).values[i] = std::nan("");
  for (const bool propagates : {false, true}) {
    GraphBuilder h(handle);
    const int64_t hx = h.input(miopenFloat, {64}), hb = h.input(miopenFloat, {64}), y = h.tensor(miopenFloat, {64});
    h.dense(hx) = g.dense(x);
    h.dense(hb) = g.dense(b);
    const Pointwise p{.mode = MIOPEN_POINTWISE_MAX, .propagates_nan = propagates};
    h.pointwise(p, {hx, hb}, y);
    h.expect(y, ref::pointwise(p, {&g.dense(x), &g.dense(b)}, {64}), 0);
  }
}

struct EveryType : testing::TestWithParam<miopenDataType_t> {};

TEST_P(EveryType, ChainsReadAndWrite) {
  const DeviceHandle handle;
  const miopenDataType_t type = GetParam();
  GraphBuilder g(handle);
  const Sizes sizes = {3, 4, 37};
  const int64_t x = g.input(type, sizes, -8, 8), b = g.input(miopenFloat, {1, 4, 1}, 0.5, 2);
  const int64_t sum = g.tensor(type == miopenDouble ? type : miopenFloat, sizes, true), y = g.tensor(type, sizes);
  g.pointwise(MIOPEN_POINTWISE_ADD, {x, b}, sum);
  g.pointwise(MIOPEN_POINTWISE_RELU_FWD, {sum}, y);
  Dense want = ref::pointwise({.mode = MIOPEN_POINTWISE_ADD}, {&g.dense(x), &g.dense(b)}, sizes);
  want = ref::pointwise({.mode = MIOPEN_POINTWISE_RELU_FWD}, {&want}, sizes);
  for (double& v : want.values) v = ref::round_to(static_cast<ref::Type>(type), v);
  g.expect(
      y, want,
      ref::is_integer(static_cast<ref::Type>(type)) ? 0 : 2 * ref::unit_roundoff(static_cast<ref::Type>(type)) + 1e-12);
}
INSTANTIATE_TEST_SUITE_P(Types, EveryType,
                         testing::Values(miopenFloat, miopenHalf, miopenBFloat16, miopenDouble, miopenInt8, miopenInt32,
                                         miopenInt64, miopenFloat8_fnuz, miopenBFloat8_fnuz));

TEST_F(GraphRun, ChainOfStridedAndBroadcastTensors) {
  const Sizes sizes = {2, 3, 5, 7}, nhwc = {105, 1, 21, 3};
  const int64_t x = g.input(miopenFloat, sizes, -2, 2, nhwc), r = g.input(miopenHalf, sizes),
                bias = g.input(miopenFloat, {1, 3, 1, 1}), scale = g.input(miopenFloat, {2, 1, 5, 1});
  const int64_t a = g.tensor(miopenFloat, sizes, true), b = g.tensor(miopenHalf, sizes, true),
                c = g.tensor(miopenFloat, sizes), y = g.tensor(miopenBFloat16, sizes, false, {210, 70, 14, 2});
  g.pointwise({.mode = MIOPEN_POINTWISE_ADD, .alpha1 = 0.5, .alpha2 = 2}, {x, bias}, a);
  g.pointwise(MIOPEN_POINTWISE_MUL, {a, scale}, b);
  g.pointwise(MIOPEN_POINTWISE_SUB, {b, r}, c);
  g.pointwise(MIOPEN_POINTWISE_GELU_FWD, {c}, y);
  Dense v =
      ref::pointwise({.mode = MIOPEN_POINTWISE_ADD, .alpha1 = 0.5, .alpha2 = 2}, {&g.dense(x), &g.dense(bias)}, sizes);
  v = ref::pointwise({.mode = MIOPEN_POINTWISE_MUL}, {&v, &g.dense(scale)}, sizes);
  v = ref::pointwise({.mode = MIOPEN_POINTWISE_SUB}, {&v, &g.dense(r)}, sizes);
  g.expect(c, v, kFp16);
  g.expect(y, ref::pointwise({.mode = MIOPEN_POINTWISE_GELU_FWD}, {&v}, sizes), kBf16);
  EXPECT_EQ(g.engines(), 2);  // one pass, or four
}

TEST_F(GraphRun, LongChainsAreCutAtTheirOperands) {
  const Sizes sizes = {9, 130};
  int64_t v = g.input(miopenFloat, sizes);
  Dense want = g.dense(v);
  for (int i = 0; i < 12; ++i) {
    const int64_t b = g.input(miopenFloat, i % 3 ? sizes : Sizes{1, 130}), next = g.tensor(miopenFloat, sizes, i < 11);
    g.pointwise(MIOPEN_POINTWISE_ADD_SQUARE, {v, b}, next);
    want = ref::pointwise({.mode = MIOPEN_POINTWISE_ADD_SQUARE}, {&want, &g.dense(b)}, sizes);
    v = next;
  }
  g.expect(v, want, kFp32);
}

TEST_F(GraphRun, Products) {
  for (const miopenDataType_t type : {miopenFloat, miopenHalf, miopenBFloat16, miopenDouble, miopenInt8}) {
    GraphBuilder p(handle);
    const miopenDataType_t out = type == miopenInt8 ? miopenInt32 : type;
    const int64_t a = p.input(type, {2, 3, 17, 11}), b = p.input(type, {1, 3, 11, 23}),
                  c = p.tensor(out, {2, 3, 17, 23});
    p.product(a, b, c);
    p.expect(c, ref::product(p.dense(a), p.dense(b), false, {2, 3, 17, 23}),
             type == miopenInt8 ? 0 : 4 * error_of(type));
  }
}

TEST_F(GraphRun, ProductOfTransposedAndOfLowerRank) {
  const int64_t a = g.input(miopenFloat, {4, 9, 6}), b = g.input(miopenFloat, {13, 6}),
                c = g.tensor(miopenFloat, {4, 9, 13});
  g.product(a, b, c);
  Dense right = g.dense(b);
  right.sizes = {1, 13, 6};
  g.expect(c, ref::product(g.dense(a), right, true, {4, 9, 13}), kFp32);
}

TEST_F(GraphRun, ProductBiasActivation) {
  for (const miopenDataType_t type : {miopenFloat, miopenHalf, miopenBFloat16})
    for (const Pointwise& f :
         {Pointwise{.mode = MIOPEN_POINTWISE_RELU_FWD}, Pointwise{.mode = MIOPEN_POINTWISE_SIGMOID_FWD},
          Pointwise{.mode = MIOPEN_POINTWISE_SWISH_FWD, .swish_beta = 0.5},
          Pointwise{.mode = MIOPEN_POINTWISE_RELU_FWD, .upper_clip = 1.5}}) {
      GraphBuilder p(handle);
      const Sizes size = {2, 17, 24};
      const int64_t a = p.input(type, {2, 17, 40}), b = p.input(type, {1, 40, 24}), bias = p.input(type, {1, 1, 24});
      const int64_t c = p.tensor(type, size, true), sum = p.tensor(type, size, true), y = p.tensor(type, size);
      p.product(a, b, c);
      p.pointwise({.mode = MIOPEN_POINTWISE_ADD}, {bias, c}, sum);
      p.pointwise(f, {sum}, y);
      Dense want = ref::product(p.dense(a), p.dense(b), false, size);
      want = ref::pointwise({.mode = MIOPEN_POINTWISE_ADD}, {&want, &p.dense(bias)}, size);
      p.expect(y, ref::pointwise(f, {&want}, size), 4 * error_of(type));
      EXPECT_EQ(p.engines(), 2);
    }
}

/// Sums that are no bias or residual of one product only: of two products, and of a product with itself.
TEST_F(GraphRun, SumsOfProducts) {
  const Sizes row = {1, 1, 24};
  for (const bool same : {false, true}) {
    GraphBuilder p(handle);
    const int64_t a = p.input(miopenFloat, {1, 1, 40}), b = p.input(miopenFloat, {1, 40, 24});
    const int64_t c = p.input(miopenFloat, {1, 1, 9}), d = p.input(miopenFloat, {1, 9, 24});
    const int64_t first = p.tensor(miopenFloat, row, true), y = p.tensor(miopenFloat, row);
    p.product(a, b, first);
    Dense left = ref::product(p.dense(a), p.dense(b), false, row), right = left;
    int64_t second = first;
    if (!same) {
      second = p.tensor(miopenFloat, row, true);
      p.product(c, d, second);
      right = ref::product(p.dense(c), p.dense(d), false, row);
    }
    p.pointwise({.mode = MIOPEN_POINTWISE_ADD}, {first, second}, y);
    p.expect(y, ref::pointwise({.mode = MIOPEN_POINTWISE_ADD}, {&left, &right}, row), kFp32);
  }
}

TEST_F(GraphRun, Reductions) {
  for (int op = 0; op < 8; ++op) {
    GraphBuilder r(handle);
    const Sizes sizes = {4, 6, 10}, to = op % 2 ? Sizes{4, 1, 10} : Sizes{2, 6, 1};
    const int64_t x = r.input(op == 3 ? miopenHalf : miopenFloat, sizes), y = r.tensor(miopenFloat, to);
    r.reduction(static_cast<miopenReduceTensorOp_t>(op), x, y);
    r.expect(y, ref::reduce(static_cast<ref::ReduceOp>(op), r.dense(x), to), 1e-5);
  }
}

TEST_F(GraphRun, ReductionOfOtherTypes) {
  const int64_t x = g.input(miopenInt64, {6, 35}, -50, 50), y = g.tensor(miopenInt64, {6, 1});
  g.reduction(MIOPEN_REDUCE_TENSOR_ADD, x, y);
  g.expect(y, ref::reduce(ref::ReduceOp::kAdd, g.dense(x), {6, 1}), 0);
}

TEST_F(GraphRun, Reshapes) {
  const int64_t x = g.input(miopenFloat, {3, 4, 10}),
                transposed = g.tensor(miopenFloat, {3, 10, 4}, false, {40, 1, 10}),
                flat = g.tensor(miopenFloat, {12, 10}), odd = g.tensor(miopenFloat, {5, 4, 6}, false, {1, 5, 20}),
                back = g.tensor(miopenFloat, {6, 20}, false, {1, 6});
  g.reshape(x, transposed);
  g.reshape(x, flat);
  g.reshape(x, odd);
  g.reshape(odd, back);
  Dense want = g.dense(x);
  g.expect(transposed, ref::exchange_last(want), 0);
  g.expect(flat, want, 0);
  g.expect(odd, want, 0);
  g.expect(back, want, 0);
}

TEST_F(GraphRun, RandomNumbers) {
  const Sizes sizes = {3, 7, 101}, strides = {1, 3, 21};
  const int64_t offset = g.tensor(miopenInt64, {1, 1, 1}, false, {1, 1, 1}),
                seed = g.tensor(miopenInt64, {1, 1, 1}, false, {1, 1, 1});
  g.dense(offset).values = {5};
  g.dense(seed).values = {123456789};
  const int64_t kept = g.tensor(miopenFloat, sizes), uniform = g.tensor(miopenHalf, sizes, false, strides),
                normal = g.tensor(miopenFloat, sizes);
  g.random(MIOPEN_RNG_DISTRIBUTION_BERNOULLI, 0.3, 0, -77, -1, offset, kept);
  g.random(MIOPEN_RNG_DISTRIBUTION_UNIFORM, -1, 3, 0, seed, offset, uniform);
  g.random(MIOPEN_RNG_DISTRIBUTION_NORMAL, 2, 0.5, 0, seed, offset, normal);
  const Dense bernoulli = ref::random_numbers(0, 0.3, 0, static_cast<std::uint64_t>(-77), 5, sizes);
  const double mean = ref::reduce(ref::ReduceOp::kAvg, bernoulli, {1, 1, 1}).values[0];
  EXPECT_NEAR(mean, 0.3, 0.03);
  g.expect(kept, bernoulli, 0);
  g.expect(uniform, ref::random_numbers(1, -1, 3, 123456789, 5, sizes), kFp16);
  g.expect(normal, ref::random_numbers(2, 2, 0.5, 123456789, 5, sizes), 1e-5);
}

/// The convolution by definition, in double. Pads before only; sizes of the result say the rest.
Dense convolution(ref::Direction direction, const Dense& first, const Dense& second, const Sizes& result,
                  const GraphBuilder::Window& w) {
  ref::Convolution c;
  c.direction = direction;
  const Sizes &x = direction == ref::Direction::kBackwardData ? result : first.sizes,
              &f = direction == ref::Direction::kForward        ? second.sizes
                   : direction == ref::Direction::kBackwardData ? first.sizes
                                                                : result,
              &y = direction == ref::Direction::kForward ? result : second.sizes;
  c.x = {ref::Type::kDouble, x};
  c.w = {ref::Type::kDouble, f};
  c.y = {ref::Type::kDouble, y};
  c.pad = w.pre;
  c.stride = w.stride;
  c.dilation = w.dilation;
  c.groups = x[1] / f[1];
  c.alpha = w.alpha;
  ref::Operands data;
  data.x = direction == ref::Direction::kBackwardData ? nullptr : first.values.data();
  data.w = direction == ref::Direction::kForward        ? second.values.data()
           : direction == ref::Direction::kBackwardData ? first.values.data()
                                                        : nullptr;
  data.y = direction == ref::Direction::kForward ? nullptr : second.values.data();
  return {result, ref::evaluate(c, data, 1).value};
}

TEST_F(GraphRun, ConvolutionsInThreeDirections) {
  const GraphBuilder::Window w{{1, 2}, {1, 2}, {2, 1}, {1, 2}, miopenConvolution, 0.5, 0};
  const Sizes x = {2, 4, 9, 8}, f = {6, 2, 3, 3}, y = {2, 6, 5, 8};
  const int64_t tx = g.input(miopenFloat, x), tf = g.input(miopenFloat, f), ty = g.input(miopenFloat, y);
  const int64_t ry = g.tensor(miopenFloat, y), rx = g.tensor(miopenFloat, x), rf = g.tensor(miopenFloat, f);
  g.convolution(ref::Direction::kForward, w, tx, tf, ry);
  g.convolution(ref::Direction::kBackwardData, w, tf, ty, rx);
  g.convolution(ref::Direction::kBackwardWeights, w, tx, ty, rf);
  const auto results = g.run(*g.plan(0));
  GraphBuilder::expect_near(results.at(ry), convolution(ref::Direction::kForward, g.dense(tx), g.dense(tf), y, w),
                            1e-5);
  GraphBuilder::expect_near(results.at(rx), convolution(ref::Direction::kBackwardData, g.dense(tf), g.dense(ty), x, w),
                            1e-5);
  GraphBuilder::expect_near(results.at(rf),
                            convolution(ref::Direction::kBackwardWeights, g.dense(tx), g.dense(ty), f, w), 1e-5);
}

/// Pads of the end that differ from those of the start: the definition on a padded copy of x without pads.
Dense padded(const Dense& x, const Sizes& pre, const Sizes& post) {
  Dense wide;
  wide.sizes = {x.sizes[0], x.sizes[1], x.sizes[2] + pre[0] + post[0], x.sizes[3] + pre[1] + post[1]};
  wide.values.assign(static_cast<std::size_t>(wide.count()), 0);
  for (int64_t i = 0; i < x.count(); ++i) {
    const int64_t column = i % x.sizes[3], row = i / x.sizes[3] % x.sizes[2], plane = i / (x.sizes[3] * x.sizes[2]);
    wide.values[static_cast<std::size_t>((plane * wide.sizes[2] + row + pre[0]) * wide.sizes[3] + column + pre[1])] =
        x.values[static_cast<std::size_t>(i)];
  }
  return wide;
}

TEST_F(GraphRun, ConvolutionsWithPadsThatDiffer) {
  const GraphBuilder::Window w{{0, 1}, {2, 3}, {1, 1}, {1, 1}};
  const GraphBuilder::Window none{{0, 0}, {0, 0}, {1, 1}, {1, 1}};
  const Sizes x = {2, 3, 6, 7}, f = {4, 3, 3, 3}, y = {2, 4, 6, 9};
  const int64_t tx = g.input(miopenFloat, x), tf = g.input(miopenFloat, f), ty = g.input(miopenFloat, y);
  const int64_t ry = g.tensor(miopenFloat, y), rx = g.tensor(miopenFloat, x), rf = g.tensor(miopenFloat, f);
  g.convolution(ref::Direction::kForward, w, tx, tf, ry);
  g.convolution(ref::Direction::kBackwardData, w, tf, ty, rx);
  g.convolution(ref::Direction::kBackwardWeights, w, tx, ty, rf);
  const auto results = g.run(*g.plan(0));
  const Dense wide = padded(g.dense(tx), w.pre, w.post);
  GraphBuilder::expect_near(results.at(ry), convolution(ref::Direction::kForward, wide, g.dense(tf), y, none), 1e-5);
  GraphBuilder::expect_near(results.at(rf), convolution(ref::Direction::kBackwardWeights, wide, g.dense(ty), f, none),
                            1e-5);
  const Dense dx = convolution(ref::Direction::kBackwardData, g.dense(tf), g.dense(ty), wide.sizes, none);
  Dense inside{x, {}};
  for (int64_t i = 0; i < inside.count(); ++i) {
    const int64_t column = i % x[3], row = i / x[3] % x[2], plane = i / (x[3] * x[2]);
    inside.values.push_back(dx.values[static_cast<std::size_t>(
        (plane * wide.sizes[2] + row + w.pre[0]) * wide.sizes[3] + column + w.pre[1])]);
  }
  GraphBuilder::expect_near(results.at(rx), inside, 1e-5);
}

TEST_F(GraphRun, TransposedConvolutionIsBackwardData) {
  const GraphBuilder::Window w{{1, 1}, {1, 1}, {2, 2}, {1, 1}, miopenTranspose};
  const Sizes x = {2, 6, 4, 4}, f = {6, 3, 3, 3}, y = {2, 3, 7, 7};
  const int64_t tx = g.input(miopenFloat, x), tf = g.input(miopenFloat, f), ty = g.tensor(miopenFloat, y);
  g.convolution(ref::Direction::kForward, w, tx, tf, ty);
  g.expect(ty, convolution(ref::Direction::kBackwardData, g.dense(tf), g.dense(tx), y, w), 1e-5);
}

TEST_F(GraphRun, ConvolutionOfMixedTypes) {
  const GraphBuilder::Window w{{1, 1}, {1, 1}, {1, 1}, {1, 1}};
  const Sizes x = {2, 3, 6, 7}, f = {4, 3, 3, 3}, y = {2, 4, 6, 7};
  const int64_t tx = g.input(miopenHalf, x), tf = g.input(miopenHalf, f), ty = g.tensor(miopenFloat, y);
  g.convolution(ref::Direction::kForward, w, tx, tf, ty);
  g.expect(ty, convolution(ref::Direction::kForward, g.dense(tx), g.dense(tf), y, w), 1e-5);
}

/// Convolution, residual, bias, activation in either order of the sums.
void convolution_chain(miopenHandle_t handle, miopenDataType_t type, bool bias_first, bool nhwc, const Pointwise& f) {
  GraphBuilder g(handle);
  const GraphBuilder::Window w{{1, 1}, {1, 1}, {1, 1}, {1, 1}, miopenConvolution, 0.5, 0};
  const Sizes x = {2, 8, 6, 7}, filter = {16, 8, 3, 3}, y = {2, 16, 6, 7};
  const auto strides = [&](const Sizes& s) { return nhwc ? Sizes{s[1] * s[2] * s[3], 1, s[3] * s[1], s[1]} : Sizes{}; };
  const int64_t tx = g.input(type, x, -1, 1, strides(x)), tf = g.input(type, filter, -1, 1, strides(filter)),
                z = g.input(type, y, -1, 1, strides(y)), b = g.input(type, {1, 16, 1, 1});
  const int64_t c = g.tensor(type, y, true, strides(y)), first = g.tensor(type, y, true, strides(y)),
                second = g.tensor(type, y, true, strides(y)), out = g.tensor(type, y, false, strides(y));
  const Pointwise with_z{.mode = MIOPEN_POINTWISE_ADD, .alpha2 = bias_first ? 1.0 : 0.25},
      with_b{.mode = MIOPEN_POINTWISE_ADD};
  g.convolution(ref::Direction::kForward, w, tx, tf, c);
  g.pointwise(bias_first ? with_b : with_z, {c, bias_first ? b : z}, first);
  g.pointwise(bias_first ? with_z : with_b, {first, bias_first ? z : b}, second);
  g.pointwise(f, {second}, out);
  Dense want = convolution(ref::Direction::kForward, g.dense(tx), g.dense(tf), y, w);
  want = ref::pointwise(with_z, {&want, &g.dense(z)}, y);
  want = ref::pointwise(with_b, {&want, &g.dense(b)}, y);
  g.expect(out, ref::pointwise(f, {&want}, y), 3 * error_of(type));
  EXPECT_EQ(g.engines(), 2);
}

TEST_F(GraphRun, ConvolutionBiasResidualActivation) {
  const Pointwise relu{.mode = MIOPEN_POINTWISE_RELU_FWD},
      swish{.mode = MIOPEN_POINTWISE_SWISH_FWD, .swish_beta = 1.25};
  convolution_chain(handle, miopenFloat, false, false, relu);
  convolution_chain(handle, miopenFloat, true, true, relu);
  convolution_chain(handle, miopenHalf, false, true, relu);
  convolution_chain(handle, miopenFloat, true, false, swish);
  convolution_chain(handle, miopenBFloat16, true, true, swish);
}

TEST_F(GraphRun, SumOfTwoConvolutions) {
  const GraphBuilder::Window w{{1, 1}, {1, 1}, {1, 1}, {1, 1}, miopenConvolution, 1, 0};
  const Sizes x = {2, 8, 6, 7}, f = {16, 8, 3, 3}, y = {2, 16, 6, 7};
  const int64_t tx = g.input(miopenFloat, x), f1 = g.input(miopenFloat, f), f2 = g.input(miopenFloat, f);
  const int64_t y1 = g.tensor(miopenFloat, y, true), y2 = g.tensor(miopenFloat, y, true),
                out = g.tensor(miopenFloat, y);
  g.convolution(ref::Direction::kForward, w, tx, f1, y1);
  g.convolution(ref::Direction::kForward, w, tx, f2, y2);
  g.pointwise({.mode = MIOPEN_POINTWISE_ADD}, {y1, y2}, out);
  const Dense one = convolution(ref::Direction::kForward, g.dense(tx), g.dense(f1), y, w),
              two = convolution(ref::Direction::kForward, g.dense(tx), g.dense(f2), y, w);
  g.expect(out, ref::pointwise({.mode = MIOPEN_POINTWISE_ADD}, {&one, &two}, y), 3 * kFp32);
}

/// softmax(scale * q k') v as nodes.
TEST_F(GraphRun, ProductSoftmaxProduct) {
  const Sizes q = {2, 3, 12, 8}, s = {2, 3, 12, 12}, row = {2, 3, 12, 1};
  for (const bool by_reciprocal : {false, true}) {
    GraphBuilder h(handle);
    const int64_t tq = h.input(miopenFloat, q), tk = h.input(miopenFloat, q), tv = h.input(miopenFloat, q);
    const auto score = [&] { return h.tensor(miopenFloat, s, true); };
    const auto per_row = [&] { return h.tensor(miopenFloat, row, true); };
    const int64_t raw = score(), p = score(), top = per_row(), d = score(), e = score(), sum = per_row(), y = score(),
                  o = h.tensor(miopenFloat, q);
    h.product(tq, tk, raw);
    h.pointwise({.mode = MIOPEN_POINTWISE_IDENTITY, .alpha1 = 0.25}, {raw}, p);
    h.reduction(MIOPEN_REDUCE_TENSOR_MAX, p, top);
    h.pointwise(MIOPEN_POINTWISE_SUB, {p, top}, d);
    h.pointwise(MIOPEN_POINTWISE_EXP, {d}, e);
    h.reduction(MIOPEN_REDUCE_TENSOR_ADD, e, sum);
    if (by_reciprocal) {
      const int64_t inverse = per_row();
      h.pointwise(MIOPEN_POINTWISE_RECIPROCAL, {sum}, inverse);
      h.pointwise(MIOPEN_POINTWISE_MUL, {e, inverse}, y);
    } else {
      h.pointwise(MIOPEN_POINTWISE_DIV, {e, sum}, y);
    }
    h.product(y, tv, o);
    Dense v = ref::product(h.dense(tq), h.dense(tk), true, s);
    v = ref::pointwise({.mode = MIOPEN_POINTWISE_EXP, .alpha1 = 0.25}, {&v}, s);
    const Dense total = ref::reduce(ref::ReduceOp::kAdd, v, row);
    v = ref::pointwise({.mode = MIOPEN_POINTWISE_DIV}, {&v, &total}, s);
    h.expect(o, ref::product(v, h.dense(tv), false, q), 1e-5);
  }
}

/// Layer normalization as nodes.
TEST_F(GraphRun, NormalizationOfNodes) {
  const Sizes x = {6, 96}, row = {6, 1};
  const int64_t tx = g.input(miopenFloat, x), gamma = g.input(miopenFloat, {1, 96}),
                beta = g.input(miopenFloat, {1, 96}), epsilon = g.input(miopenFloat, {1, 1}, 1e-5, 1e-5);
  const int64_t mean = g.tensor(miopenFloat, row), centred = g.tensor(miopenFloat, x, true),
                square = g.tensor(miopenFloat, x, true), variance = g.tensor(miopenFloat, row, true),
                shifted = g.tensor(miopenFloat, row, true), inverse = g.tensor(miopenFloat, row),
                normal = g.tensor(miopenFloat, x, true), scaled = g.tensor(miopenFloat, x, true),
                y = g.tensor(miopenFloat, x);
  g.reduction(MIOPEN_REDUCE_TENSOR_AVG, tx, mean);
  g.pointwise(MIOPEN_POINTWISE_SUB, {tx, mean}, centred);
  g.pointwise(MIOPEN_POINTWISE_MUL, {centred, centred}, square);
  g.reduction(MIOPEN_REDUCE_TENSOR_AVG, square, variance);
  g.pointwise(MIOPEN_POINTWISE_ADD, {variance, epsilon}, shifted);
  g.pointwise(MIOPEN_POINTWISE_RSQRT, {shifted}, inverse);
  g.pointwise(MIOPEN_POINTWISE_MUL, {centred, inverse}, normal);
  g.pointwise(MIOPEN_POINTWISE_MUL, {normal, gamma}, scaled);
  g.pointwise(MIOPEN_POINTWISE_ADD, {scaled, beta}, y);
  const Dense m = ref::reduce(ref::ReduceOp::kAvg, g.dense(tx), row);
  const Dense c = ref::pointwise({.mode = MIOPEN_POINTWISE_SUB}, {&g.dense(tx), &m}, x);
  Dense s = ref::pointwise({.mode = MIOPEN_POINTWISE_MUL}, {&c, &c}, x);
  s = ref::reduce(ref::ReduceOp::kAvg, s, row);
  s = ref::pointwise({.mode = MIOPEN_POINTWISE_ADD}, {&s, &g.dense(epsilon)}, row);
  s = ref::pointwise({.mode = MIOPEN_POINTWISE_RSQRT}, {&s}, row);
  Dense want = ref::pointwise({.mode = MIOPEN_POINTWISE_MUL}, {&c, &s}, x);
  want = ref::pointwise({.mode = MIOPEN_POINTWISE_MUL}, {&want, &g.dense(gamma)}, x);
  want = ref::pointwise({.mode = MIOPEN_POINTWISE_ADD}, {&want, &g.dense(beta)}, x);
  g.expect(y, want, 1e-5);
  g.expect(mean, m, 1e-6);
  g.expect(inverse, s, 1e-5);
}

TEST_F(GraphRun, PlansAreWrittenAsJsonAndReadBack) {
  const GraphBuilder::Window w{{1, 1}, {1, 1}, {1, 1}, {1, 1}};
  const int64_t x = g.input(miopenFloat, {1, 2, 5, 5}), f = g.input(miopenFloat, {3, 2, 3, 3}),
                c = g.tensor(miopenFloat, {1, 3, 5, 5}, true), y = g.tensor(miopenFloat, {1, 3, 5, 5}),
                offset = g.tensor(miopenInt64, {1, 1, 1, 1}, false, {1, 1, 1, 1}),
                r = g.tensor(miopenFloat, {1, 3, 5, 5}, true), top = g.tensor(miopenFloat, {1, 3, 1, 1}),
                flat = g.tensor(miopenFloat, {3, 25}, true), column = g.tensor(miopenHalf, {3, 25}, true),
                matrix = g.input(miopenFloat, {25, 4}), product = g.tensor(miopenFloat, {3, 4});
  g.convolution(ref::Direction::kForward, w, x, f, c);
  g.random(MIOPEN_RNG_DISTRIBUTION_NORMAL, 0, 1, 9, -1, offset, r);
  g.pointwise({.mode = MIOPEN_POINTWISE_RELU_FWD, .upper_clip = HUGE_VAL}, {c}, y);
  g.reduction(MIOPEN_REDUCE_TENSOR_MAX, r, top);
  g.reshape(y, flat);
  g.pointwise({.mode = MIOPEN_POINTWISE_GEN_INDEX, .axis = 1}, {flat}, column);
  g.product(column, matrix, product);
  for (int64_t e = 0; e < g.engines(); ++e) {
    const auto plan = g.plan(e);
    g.expect_same_from_json(*plan, g.run(*plan));
  }
}

TEST_F(GraphRun, HeuristicsListEnginesFastestFirst) {
  const int64_t x = g.input(miopenFloat, {64, 64}), a = g.tensor(miopenFloat, {64, 64}, true),
                y = g.tensor(miopenFloat, {64, 64});
  g.pointwise(MIOPEN_POINTWISE_EXP, {x}, a);
  g.pointwise(MIOPEN_POINTWISE_ABS, {a}, y);
  for (const int mode : {MIOPEN_HEUR_MODE_INSTANT, MIOPEN_HEUR_MODE_A, MIOPEN_HEUR_MODE_B, MIOPEN_HEUR_MODE_FALLBACK}) {
    Backend heuristic(MIOPEN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.set_child(MIOPEN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g.graph())
        .set<int>(MIOPEN_ATTR_ENGINEHEUR_MODE, MIOPEN_TYPE_HEUR_MODE, {mode})
        .finalize();
    int64_t count = -1;
    miopenBackendDescriptor_t none = nullptr;
    expect_ok(miopenBackendGetAttribute(heuristic, MIOPEN_ATTR_ENGINEHEUR_RESULTS, MIOPEN_TYPE_BACKEND_DESCRIPTOR, 0,
                                        &count, &none));
    EXPECT_EQ(count, 2);
    EXPECT_EQ(none, nullptr);
    const auto configs =
        heuristic.get<miopenBackendDescriptor_t>(MIOPEN_ATTR_ENGINEHEUR_RESULTS, MIOPEN_TYPE_BACKEND_DESCRIPTOR, 5);
    ASSERT_EQ(configs.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      miopenBackendDescriptor_t engine = nullptr;
      int64_t index = -1;
      expect_ok(miopenBackendGetAttribute(configs[i], MIOPEN_ATTR_ENGINECFG_ENGINE, MIOPEN_TYPE_BACKEND_DESCRIPTOR, 1,
                                          &count, &engine));
      expect_ok(
          miopenBackendGetAttribute(engine, MIOPEN_ATTR_ENGINE_GLOBAL_INDEX, MIOPEN_TYPE_INT64, 1, &count, &index));
      EXPECT_EQ(index, mode == MIOPEN_HEUR_MODE_FALLBACK ? 1 - static_cast<int64_t>(i) : static_cast<int64_t>(i));
      Backend plan(MIOPEN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set<miopenHandle_t>(MIOPEN_ATTR_EXECUTION_PLAN_HANDLE, MIOPEN_TYPE_HANDLE, {handle})
          .set_child(MIOPEN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[i])
          .finalize();
      // One pass keeps the virtual tensor in registers, two need memory for it.
      EXPECT_EQ(plan.one<int64_t>(MIOPEN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, MIOPEN_TYPE_INT64),
                index == 0 ? 0 : 64 * 64 * 4);
      expect_ok(miopenBackendDestroyDescriptor(configs[i]));  // does nothing: the heuristic owns it
    }
  }
}

TEST_F(GraphRun, WorkspaceIsSharedByTensorsThatAreNotNeededTogether) {
  int64_t v = g.input(miopenFloat, {16, 1024});
  for (int i = 0; i < 6; ++i) {
    const int64_t sum = g.tensor(miopenFloat, {16, 1}, true), next = g.tensor(miopenFloat, {16, 1024}, i < 5);
    g.reduction(MIOPEN_REDUCE_TENSOR_AVG, v, sum);
    g.pointwise(MIOPEN_POINTWISE_SUB, {v, sum}, next);
    v = next;
  }
  const auto plan = g.plan(0);
  const auto bytes = plan->one<int64_t>(MIOPEN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, MIOPEN_TYPE_INT64);
  EXPECT_GE(bytes, 2 * 16 * 1024 * 4);
  EXPECT_LE(bytes, 2 * 16 * 1024 * 4 + (on_cpu() ? 1024 : 1 << 20));
}

TEST(GraphWarmCalls, DoNotAllocate) {
  const Handle handle;
  GraphBuilder g(handle);
  const Sizes sizes = {2, 3, 8, 8};
  const int64_t a = g.input(miopenFloat, sizes), b = g.input(miopenFloat, sizes),
                sum = g.tensor(miopenFloat, sizes, true), y = g.tensor(miopenFloat, sizes),
                product = g.tensor(miopenFloat, sizes);
  g.pointwise({.mode = MIOPEN_POINTWISE_ADD}, {a, b}, sum);
  g.pointwise({.mode = MIOPEN_POINTWISE_TANH_FWD}, {sum}, y);
  g.product(y, b, product);
  const auto plan = g.plan(0);
  std::vector<float> memory[4];
  for (auto& m : memory) m.assign(2 * 3 * 8 * 8, 1);
  std::vector<char> workspace(
      static_cast<std::size_t>(plan->one<int64_t>(MIOPEN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, MIOPEN_TYPE_INT64) + 1));
  Backend pack(MIOPEN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(MIOPEN_ATTR_VARIANT_PACK_UNIQUE_IDS, MIOPEN_TYPE_INT64, Sizes{a, b, y, product})
      .set(MIOPEN_ATTR_VARIANT_PACK_DATA_POINTERS, MIOPEN_TYPE_VOID_PTR,
           std::vector<void*>{memory[0].data(), memory[1].data(), memory[2].data(), memory[3].data()})
      .set<void*>(MIOPEN_ATTR_VARIANT_PACK_WORKSPACE, MIOPEN_TYPE_VOID_PTR, {workspace.data()})
      .finalize();
  EXPECT_EQ(warm_allocations([&] { return miopenBackendExecute(handle, *plan, pack); }), 0u);
}

TEST_F(GraphRun, ExecuteRefusesWrongObjectsAndBuffers) {
  const int64_t x = g.input(miopenFloat, {8}), y = g.tensor(miopenFloat, {8});
  g.pointwise(MIOPEN_POINTWISE_EXP, {x}, y);
  const auto plan = g.plan(0);
  Backend pack(MIOPEN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  std::vector<float> memory(32);
  expect_bad(miopenBackendExecute(handle, *plan, pack), {"variant pack"});
  pack.set<int64_t>(MIOPEN_ATTR_VARIANT_PACK_UNIQUE_IDS, MIOPEN_TYPE_INT64, {x})
      .set<void*>(MIOPEN_ATTR_VARIANT_PACK_DATA_POINTERS, MIOPEN_TYPE_VOID_PTR, {memory.data()})
      .set<void*>(MIOPEN_ATTR_VARIANT_PACK_WORKSPACE, MIOPEN_TYPE_VOID_PTR, {nullptr})
      .finalize();
  expect_bad(miopenBackendExecute(handle, *plan, pack), {"no buffer", "tensor 101"});
  expect_bad(miopenBackendExecute(handle, pack, pack), {"execution plan"});
  expect_bad(miopenBackendExecute(handle, *plan, *plan), {"variant pack"});
  expect_bad(miopenBackendExecute(nullptr, *plan, pack), {"handle", "null"});
  Backend odd(MIOPEN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  odd.set<int64_t>(MIOPEN_ATTR_VARIANT_PACK_UNIQUE_IDS, MIOPEN_TYPE_INT64, {x, y})
      .set<void*>(MIOPEN_ATTR_VARIANT_PACK_DATA_POINTERS, MIOPEN_TYPE_VOID_PTR,
                  {memory.data(), reinterpret_cast<char*>(memory.data()) + 65})
      .set<void*>(MIOPEN_ATTR_VARIANT_PACK_WORKSPACE, MIOPEN_TYPE_VOID_PTR, {nullptr})
      .finalize();
  if (on_cpu()) expect_bad(miopenBackendExecute(handle, *plan, odd), {"tensor 101", "multiple of 4"});
}

/// What GPUs run in the suite: few programs that have everything.
struct GraphDevices : GraphRun {};

TEST_F(GraphDevices, EveryFunctionInOneChain) {
  const Sizes sizes = {5, 77};
  const int64_t x = g.input(miopenFloat, sizes, 0.3, 1.3), b = g.input(miopenHalf, {1, 77}, 0.4, 1.4);
  int64_t sum = x;
  Dense want = g.dense(x);
  for (const int mode : elementwise_modes()) {
    const int count = operands_of(mode);
    const int64_t f = g.tensor(miopenFloat, sizes, true),
                  next = g.tensor(miopenFloat, sizes, mode != MIOPEN_POINTWISE_RECIPROCAL);
    const Sizes in = count == 1 ? Sizes{x}
                     : count == 2
                         ? Sizes{x, mode >= MIOPEN_POINTWISE_RELU_BWD && mode < MIOPEN_POINTWISE_CMP_EQ ? x : b}
                         : Sizes{x, x, x};
    std::vector<const Dense*> values;
    for (const int64_t t : in) values.push_back(&g.dense(t));
    g.pointwise(mode, in, f);
    const Pointwise add{.mode = MIOPEN_POINTWISE_ADD, .alpha1 = 0.75};
    g.pointwise(add, {sum, f}, next);
    const Dense value = ref::pointwise({.mode = mode}, values, sizes);
    want = ref::pointwise(add, {&want, &value}, sizes);
    sum = next;
  }
  const auto results = g.run(*g.plan(0));
  GraphBuilder::expect_near(results.at(sum), want, 2e-5);
}

TEST_F(GraphDevices, RandomNumbersOfWideTypes) {
  const Sizes sizes = {11, 13};
  const int64_t offset = g.tensor(miopenInt64, {1, 1}, false, {1, 1}), wide = g.tensor(miopenDouble, sizes),
                whole = g.tensor(miopenInt32, sizes), bits = g.tensor(miopenInt64, sizes);
  g.random(MIOPEN_RNG_DISTRIBUTION_NORMAL, 1, 2, 4, -1, offset, wide);
  g.random(MIOPEN_RNG_DISTRIBUTION_UNIFORM, -9, 9, 5, -1, offset, whole);
  g.random(MIOPEN_RNG_DISTRIBUTION_BERNOULLI, 0.5, 0, 6, -1, offset, bits);
  const auto results = g.run(*g.plan(0));
  GraphBuilder::expect_near(results.at(wide), ref::random_numbers(2, 1, 2, 4, 0, sizes), 1e-5);
  GraphBuilder::expect_near(results.at(whole), ref::random_numbers(1, -9, 9, 5, 0, sizes), 0.51);
  GraphBuilder::expect_near(results.at(bits), ref::random_numbers(0, 0.5, 0, 6, 0, sizes), 0);
}

TEST_F(GraphDevices, EveryKindOfNode) {
  const GraphBuilder::Window w{{0, 1}, {1, 1}, {1, 1}, {1, 1}};
  const Sizes x = {2, 3, 6, 8}, f = {4, 3, 2, 3}, y = {2, 4, 6, 8}, square = {2, 4, 6, 6}, bias = {1, 4, 1, 1},
              one = {1, 1, 1, 1};
  const int64_t tx = g.input(miopenFloat, x), tf = g.input(miopenFloat, f), tb = g.input(miopenFloat, bias),
                offset = g.tensor(miopenInt64, one, false, one);
  const int64_t c = g.tensor(miopenFloat, y, true), a = g.tensor(miopenFloat, y, true),
                r = g.tensor(miopenFloat, y, true), m = g.tensor(miopenFloat, y),
                p = g.tensor(miopenFloat, square, true), t = g.tensor(miopenFloat, square, true, {144, 36, 1, 6}),
                top = g.tensor(miopenFloat, {2, 4, 6, 1});
  g.convolution(ref::Direction::kForward, w, tx, tf, c);
  g.pointwise(MIOPEN_POINTWISE_ADD, {c, tb}, a);
  g.random(MIOPEN_RNG_DISTRIBUTION_BERNOULLI, 0.5, 0, 3, -1, offset, r);
  g.pointwise(MIOPEN_POINTWISE_MUL, {a, r}, m);
  g.product(m, m, p);
  g.reshape(p, t);
  g.reduction(MIOPEN_REDUCE_TENSOR_MAX, t, top);
  const GraphBuilder::Window none{{0, 0}, {0, 0}, {1, 1}, {1, 1}};
  Dense v = convolution(ref::Direction::kForward, padded(g.dense(tx), w.pre, w.post), g.dense(tf), y, none);
  v = ref::pointwise({.mode = MIOPEN_POINTWISE_ADD}, {&v, &g.dense(tb)}, y);
  const Dense mask = ref::random_numbers(0, 0.5, 0, 3, 0, y);
  v = ref::pointwise({.mode = MIOPEN_POINTWISE_MUL}, {&v, &mask}, y);
  const auto results = g.run(*g.plan(0));
  GraphBuilder::expect_near(results.at(m), v, 1e-5);
  v = ref::exchange_last(ref::product(v, v, true, square));
  GraphBuilder::expect_near(results.at(top), ref::reduce(ref::ReduceOp::kMax, v, {2, 4, 6, 1}), 2e-5);
}

}  // namespace
}  // namespace polymio::test
