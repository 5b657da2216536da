// The contract of backend descriptors: attributes with their types and counts, states, statuses, lifetimes.
// SPDX-License-Identifier: MIT
#include "graph_builder.h"

namespace polymio::test {
namespace {

using Name = miopenBackendAttributeName_t;
using Type = miopenBackendAttributeType_t;

/// A valid value of an attribute, and values, types and counts that are refused.
struct Sample {
  Name name;
  Type type;
  std::vector<unsigned char> value;
  int64_t count;
  int64_t wrong_count;                     // -1 for lists
  std::vector<unsigned char> wrong_value;  // of the right type and count; empty: none

  template <class T>
  static std::vector<unsigned char> bytes(const std::vector<T>& v) {
    const auto* const p = reinterpret_cast<const unsigned char*>(v.data());
    return {p, p + v.size() * sizeof(T)};
  }
  template <class T>
  static Sample of(Name name, Type type, const std::vector<T>& v, bool is_list = false,
                   const std::vector<T>& wrong = {}) {
    return {name, type, bytes(v), static_cast<int64_t>(v.size()), is_list ? -1 : 2, bytes(wrong)};
  }
};

miopenStatus_t set(miopenBackendDescriptor_t d, const Sample& s, std::vector<unsigned char> value) {
  value.resize(std::max<std::size_t>(value.size(), 64));  // readable for wrong counts, too
  return miopenBackendSetAttribute(d, s.name, s.type, s.count, value.data());
}

/// Every check of one descriptor type; `required`: how many of the first samples finalizing needs.
void check_contract(miopenBackendDescriptorType_t type, const std::vector<Sample>& samples, std::size_t required) {
  const testing::ScopedTrace trace("type", static_cast<int>(type), "");
  Backend d(type);
  EXPECT_NE(miopenBackendFinalize(d), miopenStatusSuccess);
  std::vector<unsigned char> buffer(512);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Sample& s = samples[i];
    const testing::ScopedTrace which("attribute", static_cast<int>(s.name), "");
    const Type other = s.type == MIOPEN_TYPE_LAYOUT_TYPE ? MIOPEN_TYPE_INT64 : MIOPEN_TYPE_LAYOUT_TYPE;
    expect_bad(miopenBackendSetAttribute(d, s.name, other, s.count, buffer.data()), {"attribute"});
    expect_bad(miopenBackendSetAttribute(d, s.name, s.type, s.wrong_count, buffer.data()), {"elements"});
    expect_bad(miopenBackendSetAttribute(d, s.name, s.type, s.count, nullptr), {"null"});
    int64_t count = 0;
    expect_error(miopenBackendGetAttribute(d, s.name, s.type, s.count, &count, buffer.data()),
                 miopenStatusNotInitialized, {"not finalized"});
    if (!s.wrong_value.empty()) expect_bad(set(d, s, s.wrong_value), {"attribute"});
    if (i + 1 == required) {
      EXPECT_NE(miopenBackendFinalize(d), miopenStatusSuccess) << "without the last";
    }
    expect_ok(set(d, s, s.value));
  }
  d.finalize();
  for (const Sample& s : samples) {
    const testing::ScopedTrace which("attribute", static_cast<int>(s.name), "");
    int64_t count = -1;
    expect_error(set(d, s, s.value), miopenStatusNotInitialized, {"finalized"});
    expect_bad(miopenBackendGetAttribute(d, s.name, MIOPEN_TYPE_LAYOUT_TYPE, s.count, &count, buffer.data()), {});
    expect_bad(miopenBackendGetAttribute(d, s.name, s.type, s.wrong_count, &count, buffer.data()), {"requested"});
    expect_bad(miopenBackendGetAttribute(d, s.name, s.type, s.count, nullptr, buffer.data()), {"null"});
    expect_bad(miopenBackendGetAttribute(d, s.name, s.type, s.count, &count, nullptr), {"null"});
    std::fill(buffer.begin(), buffer.end(), static_cast<unsigned char>(0xee));
    expect_ok(miopenBackendGetAttribute(d, s.name, s.type, s.count, &count, buffer.data()));
    EXPECT_EQ(count, s.count);
    EXPECT_EQ(std::vector<unsigned char>(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(s.value.size())),
              s.value);
    EXPECT_EQ(buffer[s.value.size()], 0xee) << "more was written than there is";
  }
  EXPECT_NE(miopenBackendFinalize(d), miopenStatusSuccess) << "finalized twice";
  int64_t count = 0;
  expect_bad(miopenBackendSetAttribute(Backend(type), static_cast<Name>(99), MIOPEN_TYPE_INT64, 1, buffer.data()),
             {"no attribute 99"});
  expect_bad(miopenBackendGetAttribute(d, static_cast<Name>(99), MIOPEN_TYPE_INT64, 1, &count, buffer.data()),
             {"no attribute 99"});
}

Sample integer(Name name, int64_t v, const std::vector<int64_t>& wrong = {}) {
  return Sample::of<int64_t>(name, MIOPEN_TYPE_INT64, {v}, false, wrong);
}
Sample integers(Name name, const std::vector<int64_t>& v, const std::vector<int64_t>& wrong = {}) {
  return Sample::of<int64_t>(name, MIOPEN_TYPE_INT64, v, true, wrong);
}
Sample choice(Name name, Type type, int v, const std::vector<int>& wrong = {}) {
  return Sample::of<int>(name, type, {v}, false, wrong);
}
Sample real(Name name, double v, const std::vector<double>& wrong = {}) {
  return Sample::of<double>(name, MIOPEN_TYPE_DOUBLE, {v}, false, wrong);
}
Sample child(Name name, miopenBackendDescriptor_t v, const std::vector<miopenBackendDescriptor_t>& wrong) {
  return Sample::of<miopenBackendDescriptor_t>(name, MIOPEN_TYPE_BACKEND_DESCRIPTOR, {v}, false, wrong);
}

TEST(GraphDescriptors, Tensor) {
  check_contract(
      MIOPEN_BACKEND_TENSOR_DESCRIPTOR,
      {integer(MIOPEN_ATTR_TENSOR_UNIQUE_ID, -5), integers(MIOPEN_ATTR_TENSOR_DIMENSIONS, {2, 3, 4}, {2, 0, 4}),
       integers(MIOPEN_ATTR_TENSOR_STRIDES, {12, 4, 1}, {12, -4, 1}),
       choice(MIOPEN_ATTR_TENSOR_DATA_TYPE, MIOPEN_TYPE_DATA_TYPE, miopenHalf, {44}),
       Sample::of<unsigned char>(MIOPEN_ATTR_TENSOR_IS_VIRTUAL, MIOPEN_TYPE_BOOLEAN, {1}),
       integer(MIOPEN_ATTR_TENSOR_BYTE_ALIGNMENT, 16, {0})},
      4);
  Backend t(MIOPEN_BACKEND_TENSOR_DESCRIPTOR);
  for (const Name name : {MIOPEN_ATTR_TENSOR_VECTOR_COUNT, MIOPEN_ATTR_TENSOR_VECTORIZED_DIMENSION,
                          MIOPEN_ATTR_TENSOR_RAGGED_OFFSET_DESC, MIOPEN_ATTR_TENSOR_REORDERING_MODE})
    expect_error(t.try_set<int64_t>(name, MIOPEN_TYPE_INT64, {1}), miopenStatusNotImplemented, {"not implemented"});
  t.set<int64_t>(MIOPEN_ATTR_TENSOR_UNIQUE_ID, MIOPEN_TYPE_INT64, {1})
      .set<int64_t>(MIOPEN_ATTR_TENSOR_DIMENSIONS, MIOPEN_TYPE_INT64, {2, 3})
      .set<int64_t>(MIOPEN_ATTR_TENSOR_STRIDES, MIOPEN_TYPE_INT64, {1})
      .set<int>(MIOPEN_ATTR_TENSOR_DATA_TYPE, MIOPEN_TYPE_DATA_TYPE, {miopenFloat});
  expect_bad(miopenBackendFinalize(t), {"2 sizes", "1 strides"});
  t.set<int64_t>(MIOPEN_ATTR_TENSOR_STRIDES, MIOPEN_TYPE_INT64, {3, 1}).finalize();
  EXPECT_EQ(t.one<char>(MIOPEN_ATTR_TENSOR_IS_VIRTUAL, MIOPEN_TYPE_BOOLEAN), 0);
}

TEST(GraphDescriptors, ConvolutionMatmulReduction) {
  check_contract(MIOPEN_BACKEND_CONVOLUTION_DESCRIPTOR,
                 {integer(MIOPEN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2, {0}),
                  choice(MIOPEN_ATTR_CONVOLUTION_COMP_TYPE, MIOPEN_TYPE_DATA_TYPE, miopenFloat, {4}),
                  choice(MIOPEN_ATTR_CONVOLUTION_CONV_MODE, MIOPEN_TYPE_CONVOLUTION_MODE, miopenTranspose, {7}),
                  integers(MIOPEN_ATTR_CONVOLUTION_DILATIONS, {1, 2}, {0, 1}),
                  integers(MIOPEN_ATTR_CONVOLUTION_FILTER_STRIDES, {2, 1}, {1, -1}),
                  integers(MIOPEN_ATTR_CONVOLUTION_PRE_PADDINGS, {0, 3}, {-1, 0}),
                  integers(MIOPEN_ATTR_CONVOLUTION_POST_PADDINGS, {4, 0}, {0, -2})},
                 7);
  check_contract(MIOPEN_BACKEND_MATMUL_DESCRIPTOR,
                 {choice(MIOPEN_ATTR_MATMUL_COMP_TYPE, MIOPEN_TYPE_DATA_TYPE, miopenFloat, {-1})}, 1);
  check_contract(
      MIOPEN_BACKEND_REDUCTION_DESCRIPTOR,
      {choice(MIOPEN_ATTR_REDUCTION_OPERATOR, MIOPEN_TYPE_REDUCTION_OPERATOR_TYPE, MIOPEN_REDUCE_TENSOR_AVG, {8}),
       choice(MIOPEN_ATTR_REDUCTION_COMP_TYPE, MIOPEN_TYPE_DATA_TYPE, miopenFloat, {99})},
      2);
}

TEST(GraphDescriptors, Pointwise) {
  check_contract(MIOPEN_BACKEND_POINTWISE_DESCRIPTOR,
                 {choice(MIOPEN_ATTR_POINTWISE_MODE, MIOPEN_TYPE_POINTWISE_MODE, MIOPEN_POINTWISE_MUL, {50}),
                  choice(MIOPEN_ATTR_POINTWISE_MATH_PREC, MIOPEN_TYPE_DATA_TYPE, miopenFloat, {10}),
                  choice(MIOPEN_ATTR_POINTWISE_NAN_PROPAGATION, MIOPEN_TYPE_NAN_PROPOGATION, 1, {2}),
                  real(MIOPEN_ATTR_POINTWISE_RELU_LOWER_CLIP, -1), real(MIOPEN_ATTR_POINTWISE_RELU_UPPER_CLIP, 6),
                  real(MIOPEN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, 0.1), real(MIOPEN_ATTR_POINTWISE_ELU_ALPHA, 2),
                  real(MIOPEN_ATTR_POINTWISE_SOFTPLUS_BETA, 3), real(MIOPEN_ATTR_POINTWISE_SWISH_BETA, 4),
                  integer(MIOPEN_ATTR_POINTWISE_AXIS, 1)},
                 2);
  Backend p(MIOPEN_BACKEND_POINTWISE_DESCRIPTOR);
  p.set<int>(MIOPEN_ATTR_POINTWISE_MODE, MIOPEN_TYPE_POINTWISE_MODE, {MIOPEN_POINTWISE_ELU_FWD})
      .set<int>(MIOPEN_ATTR_POINTWISE_MATH_PREC, MIOPEN_TYPE_DATA_TYPE, {miopenFloat})
      .set<float>(MIOPEN_ATTR_POINTWISE_ELU_ALPHA, MIOPEN_TYPE_FLOAT, {0.5f})
      .finalize();
  EXPECT_EQ(p.one<double>(MIOPEN_ATTR_POINTWISE_ELU_ALPHA, MIOPEN_TYPE_DOUBLE), 0.5);
  EXPECT_EQ(p.one<float>(MIOPEN_ATTR_POINTWISE_ELU_ALPHA, MIOPEN_TYPE_FLOAT), 0.5f);
  EXPECT_EQ(p.one<float>(MIOPEN_ATTR_POINTWISE_RELU_UPPER_CLIP, MIOPEN_TYPE_FLOAT), 3.4028234e38f);
  EXPECT_EQ(p.one<int64_t>(MIOPEN_ATTR_POINTWISE_AXIS, MIOPEN_TYPE_INT64), -1);
}

TEST(GraphDescriptors, RandomNumbers) {
  check_contract(
      MIOPEN_BACKEND_RNG_DESCRIPTOR,
      {choice(MIOPEN_ATTR_RNG_DISTRIBUTION, MIOPEN_TYPE_RNG_DISTRIBUTION, MIOPEN_RNG_DISTRIBUTION_NORMAL, {3}),
       real(MIOPEN_ATTR_RNG_NORMAL_DIST_MEAN, -0.5), real(MIOPEN_ATTR_RNG_NORMAL_DIST_STANDARD_DEVIATION, 0.5, {0}),
       real(MIOPEN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, 0.5, {1.5})},
      3);
  Backend r(MIOPEN_BACKEND_RNG_DESCRIPTOR);
  r.set<int>(MIOPEN_ATTR_RNG_DISTRIBUTION, MIOPEN_TYPE_RNG_DISTRIBUTION, {MIOPEN_RNG_DISTRIBUTION_UNIFORM})
      .set<double>(MIOPEN_ATTR_RNG_UNIFORM_DIST_MINIMUM, MIOPEN_TYPE_DOUBLE, {1})
      .set<double>(MIOPEN_ATTR_RNG_UNIFORM_DIST_MAXIMUM, MIOPEN_TYPE_DOUBLE, {0});
  expect_bad(miopenBackendFinalize(r), {"minimum 1", "maximum 0"});
  r.set<double>(MIOPEN_ATTR_RNG_UNIFORM_DIST_MAXIMUM, MIOPEN_TYPE_DOUBLE, {1}).finalize();
}

struct GraphOperations : testing::Test {
  GraphOperations() { pending.set<int64_t>(MIOPEN_ATTR_TENSOR_UNIQUE_ID, MIOPEN_TYPE_INT64, {1}); }
  DeviceHandle handle;
  GraphBuilder g{handle};
  Backend pending{MIOPEN_BACKEND_TENSOR_DESCRIPTOR};  // not finalized
  miopenBackendDescriptor_t tensor(const Sizes& sizes) { return g.desc(g.tensor(miopenFloat, sizes)); }

  Backend& mode(int m) {
    Backend& p = g.part(MIOPEN_BACKEND_POINTWISE_DESCRIPTOR);
    p.set<int>(MIOPEN_ATTR_POINTWISE_MODE, MIOPEN_TYPE_POINTWISE_MODE, {m})
        .set<int>(MIOPEN_ATTR_POINTWISE_MATH_PREC, MIOPEN_TYPE_DATA_TYPE, {miopenFloat})
        .finalize();
    return p;
  }
  /// Finalizes an operation with these tensors set.
  miopenStatus_t pointwise(int m, const std::vector<std::pair<Name, Sizes>>& slots) {
    Backend op(MIOPEN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    op.set_child(MIOPEN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode(m));
    for (const auto& [slot, sizes] : slots) op.set_child(slot, tensor(sizes));
    return miopenBackendFinalize(op);
  }
};

TEST_F(GraphOperations, Attributes) {
  Backend matmul(MIOPEN_BACKEND_MATMUL_DESCRIPTOR), conv(MIOPEN_BACKEND_CONVOLUTION_DESCRIPTOR),
      rng(MIOPEN_BACKEND_RNG_DESCRIPTOR);
  matmul.set<int>(MIOPEN_ATTR_MATMUL_COMP_TYPE, MIOPEN_TYPE_DATA_TYPE, {miopenFloat}).finalize();
  rng.set<int>(MIOPEN_ATTR_RNG_DISTRIBUTION, MIOPEN_TYPE_RNG_DISTRIBUTION, {MIOPEN_RNG_DISTRIBUTION_BERNOULLI})
      .set<double>(MIOPEN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, MIOPEN_TYPE_DOUBLE, {0.5})
      .finalize();
  conv.set<int>(MIOPEN_ATTR_CONVOLUTION_COMP_TYPE, MIOPEN_TYPE_DATA_TYPE, {miopenFloat})
      .set<int>(MIOPEN_ATTR_CONVOLUTION_CONV_MODE, MIOPEN_TYPE_CONVOLUTION_MODE, {miopenConvolution})
      .set<int64_t>(MIOPEN_ATTR_CONVOLUTION_SPATIAL_DIMS, MIOPEN_TYPE_INT64, {1});
  for (const Name name : {MIOPEN_ATTR_CONVOLUTION_DILATIONS, MIOPEN_ATTR_CONVOLUTION_FILTER_STRIDES,
                          MIOPEN_ATTR_CONVOLUTION_PRE_PADDINGS, MIOPEN_ATTR_CONVOLUTION_POST_PADDINGS})
    conv.set<int64_t>(name, MIOPEN_TYPE_INT64, {1});
  conv.finalize();
  const auto a = tensor({2, 3, 4}), b = tensor({2, 4, 5}), c = tensor({2, 3, 5}),
             one = g.desc(g.tensor(miopenInt64, {1}));
  const std::vector<miopenBackendDescriptor_t> wrong = {pending}, kind = {matmul};
  check_contract(
      MIOPEN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
      {child(MIOPEN_ATTR_OPERATION_MATMUL_DESC, matmul, {a}), child(MIOPEN_ATTR_OPERATION_MATMUL_ADESC, a, wrong),
       child(MIOPEN_ATTR_OPERATION_MATMUL_BDESC, b, kind), child(MIOPEN_ATTR_OPERATION_MATMUL_CDESC, c, kind),
       integer(MIOPEN_ATTR_OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT, 1, {0}),
       child(MIOPEN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, one, wrong)},
      4);
  check_contract(MIOPEN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                 {child(MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, conv, kind),
                  child(MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, a, wrong),
                  child(MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, b, wrong),
                  child(MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, c, wrong),
                  real(MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 0.5),
                  real(MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 2)},
                 4);
  check_contract(
      MIOPEN_BACKEND_OPERATION_RNG_DESCRIPTOR,
      {child(MIOPEN_ATTR_OPERATION_RNG_DESC, rng, kind), child(MIOPEN_ATTR_OPERATION_RNG_YDESC, a, wrong),
       child(MIOPEN_ATTR_OPERATION_RNG_OFFSET_DESC, one, wrong), integer(MIOPEN_ATTR_OPERATION_RNG_SEED, 42)},
      3);
  check_contract(MIOPEN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
                 {child(MIOPEN_ATTR_OPERATION_RESHAPE_XDESC, a, kind),
                  child(MIOPEN_ATTR_OPERATION_RESHAPE_YDESC, tensor({6, 4}), kind)},
                 2);
  // A convolution answers a second finalize with another status than all others.
  Backend op(MIOPEN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  op.set_child(MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, conv)
      .set_child(MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, a)
      .set_child(MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, b)
      .set_child(MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, c)
      .finalize();
  expect_bad(miopenBackendFinalize(op), {"already finalized"});
  expect_error(miopenBackendFinalize(matmul), miopenStatusNotInitialized, {"already finalized"});
}

TEST_F(GraphOperations, SlotsOfPointwiseModes) {
  constexpr Name kX = MIOPEN_ATTR_OPERATION_POINTWISE_XDESC, kB = MIOPEN_ATTR_OPERATION_POINTWISE_BDESC,
                 kY = MIOPEN_ATTR_OPERATION_POINTWISE_YDESC, kT = MIOPEN_ATTR_OPERATION_POINTWISE_TDESC,
                 kDx = MIOPEN_ATTR_OPERATION_POINTWISE_DXDESC, kDy = MIOPEN_ATTR_OPERATION_POINTWISE_DYDESC;
  const Sizes s = {4, 3}, row = {1, 3};
  expect_ok(pointwise(MIOPEN_POINTWISE_ADD, {{kX, s}, {kB, row}, {kY, s}}));
  expect_ok(pointwise(MIOPEN_POINTWISE_ADD, {{kX, row}, {kB, s}, {kY, s}}));
  expect_ok(pointwise(MIOPEN_POINTWISE_EXP, {{kX, s}, {kY, s}}));
  expect_ok(pointwise(MIOPEN_POINTWISE_BINARY_SELECT, {{kX, s}, {kB, s}, {kT, s}, {kY, s}}));
  expect_ok(pointwise(MIOPEN_POINTWISE_RELU_BWD, {{kY, row}, {kDy, s}, {kDx, s}}));
  expect_bad(pointwise(MIOPEN_POINTWISE_ADD, {{kX, s}, {kY, s}}), {"needs tensor 752"});
  expect_bad(pointwise(MIOPEN_POINTWISE_ADD, {{kX, s}, {kB, {2, 3}}, {kY, s}}), {"2x3", "4x3"});
  expect_bad(pointwise(MIOPEN_POINTWISE_ADD, {{kX, row}, {kB, row}, {kY, s}}), {"dimension 0"});
  expect_bad(pointwise(MIOPEN_POINTWISE_EXP, {{kX, s}, {kB, s}, {kY, s}}), {"does not use tensor 752"});
  expect_bad(pointwise(MIOPEN_POINTWISE_EXP, {{kX, row}, {kY, s}}), {"1x3", "equal"});
  expect_bad(pointwise(MIOPEN_POINTWISE_BINARY_SELECT, {{kX, s}, {kB, row}, {kT, s}, {kY, s}}), {"equal"});
  expect_bad(pointwise(MIOPEN_POINTWISE_RELU_BWD, {{kX, s}, {kY, s}, {kDy, s}, {kDx, s}}), {"does not use tensor 751"});
  expect_bad(pointwise(MIOPEN_POINTWISE_GEN_INDEX, {{kX, s}, {kY, s}}), {"axis", "-1", "0 to 1"});
  Backend op(MIOPEN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set_child(MIOPEN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode(MIOPEN_POINTWISE_EXP))
      .set_child(kX, tensor(s))
      .set_child(kY, tensor(s))
      .set<float>(MIOPEN_ATTR_OPERATION_POINTWISE_ALPHA2, MIOPEN_TYPE_FLOAT, {1});
  expect_bad(miopenBackendFinalize(op), {"ALPHA2"});
}

TEST_F(GraphOperations, SizesMustFit) {
  Backend matmul(MIOPEN_BACKEND_MATMUL_DESCRIPTOR);
  matmul.set<int>(MIOPEN_ATTR_MATMUL_COMP_TYPE, MIOPEN_TYPE_DATA_TYPE, {miopenFloat}).finalize();
  const auto product = [&](const Sizes& a, const Sizes& b, const Sizes& c) {
    Backend op(MIOPEN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    op.set_child(MIOPEN_ATTR_OPERATION_MATMUL_DESC, matmul)
        .set_child(MIOPEN_ATTR_OPERATION_MATMUL_ADESC, tensor(a))
        .set_child(MIOPEN_ATTR_OPERATION_MATMUL_BDESC, tensor(b))
        .set_child(MIOPEN_ATTR_OPERATION_MATMUL_CDESC, tensor(c));
    return miopenBackendFinalize(op);
  };
  expect_ok(product({5, 2, 3}, {3, 4}, {5, 2, 4}));
  expect_ok(product({2, 3}, {4, 3}, {2, 4}));
  expect_bad(product({2, 3}, {5, 4}, {2, 4}), {"do not fit"});
  expect_bad(product({2}, {2, 2}, {2, 2}), {"ranks of at least 2"});
  expect_bad(product({5, 2, 3}, {4, 3, 4}, {5, 2, 4}), {"batch sizes"});
  Backend sum(MIOPEN_BACKEND_REDUCTION_DESCRIPTOR);
  sum.set<int>(MIOPEN_ATTR_REDUCTION_OPERATOR, MIOPEN_TYPE_REDUCTION_OPERATOR_TYPE, {0})
      .set<int>(MIOPEN_ATTR_REDUCTION_COMP_TYPE, MIOPEN_TYPE_DATA_TYPE, {miopenFloat})
      .finalize();
  const auto reduction = [&](const Sizes& x, const Sizes& y) {
    Backend op(MIOPEN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    op.set_child(MIOPEN_ATTR_OPERATION_REDUCTION_DESC, sum)
        .set_child(MIOPEN_ATTR_OPERATION_REDUCTION_XDESC, tensor(x))
        .set_child(MIOPEN_ATTR_OPERATION_REDUCTION_YDESC, tensor(y));
    return miopenBackendFinalize(op);
  };
  expect_ok(reduction({6, 4}, {2, 1}));
  expect_bad(reduction({6, 4}, {4, 1}), {"divide"});
  Backend reshape(MIOPEN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  reshape.set_child(MIOPEN_ATTR_OPERATION_RESHAPE_XDESC, tensor({2, 3}))
      .set_child(MIOPEN_ATTR_OPERATION_RESHAPE_YDESC, tensor({5}));
  expect_bad(miopenBackendFinalize(reshape), {"numbers of elements"});
}

TEST_F(GraphOperations, Graphs) {
  const int64_t x = g.tensor(miopenFloat, {4}), y = g.tensor(miopenFloat, {4}), lone = g.tensor(miopenFloat, {4}, true);
  g.pointwise(MIOPEN_POINTWISE_EXP, {x}, y);
  Backend same(MIOPEN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR), lost(MIOPEN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR),
      back(MIOPEN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  const auto fill = [&](Backend& op, int64_t from, int64_t to) {
    op.set_child(MIOPEN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode(MIOPEN_POINTWISE_EXP))
        .set_child(MIOPEN_ATTR_OPERATION_POINTWISE_XDESC, g.desc(from))
        .set_child(MIOPEN_ATTR_OPERATION_POINTWISE_YDESC, g.desc(to))
        .finalize();
  };
  fill(same, x, y);
  fill(lost, lone, y);
  fill(back, y, x);
  Backend forth(MIOPEN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  fill(forth, x, y);
  const auto graph = [&](const std::vector<miopenBackendDescriptor_t>& ops) {
    Backend made(MIOPEN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    made.set<miopenHandle_t>(MIOPEN_ATTR_OPERATIONGRAPH_HANDLE, MIOPEN_TYPE_HANDLE, {handle});
    const auto status = made.try_set(MIOPEN_ATTR_OPERATIONGRAPH_OPS, MIOPEN_TYPE_BACKEND_DESCRIPTOR, ops);
    return status == miopenStatusSuccess ? miopenBackendFinalize(made) : status;
  };
  expect_ok(graph({same}));
  expect_bad(graph({}), {"elements"});
  expect_bad(graph({same, same}), {"repeats"});
  expect_bad(graph({same, forth}), {"two operations write"});
  expect_bad(graph({lost}), {"no operation writes"});
  expect_bad(graph({forth, back}), {"cycle"});
  expect_bad(graph({g.desc(x)}), {"an operation"});
  Backend none(MIOPEN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  expect_bad(none.try_set<miopenHandle_t>(MIOPEN_ATTR_OPERATIONGRAPH_HANDLE, MIOPEN_TYPE_HANDLE, {nullptr}), {"null"});
}

TEST_F(GraphOperations, EnginesAndPlans) {
  const int64_t x = g.tensor(miopenFloat, {4}), y = g.tensor(miopenFloat, {4});
  g.pointwise(MIOPEN_POINTWISE_EXP, {x}, y);
  Backend& graph = g.graph();
  EXPECT_EQ(g.engines(), 1);
  check_contract(
      MIOPEN_BACKEND_ENGINE_DESCRIPTOR,
      {child(MIOPEN_ATTR_ENGINE_OPERATION_GRAPH, graph, {g.desc(x)}), integer(MIOPEN_ATTR_ENGINE_GLOBAL_INDEX, 0, {-1}),
       Sample::of<int32_t>(MIOPEN_ATTR_ENGINE_SM_COUNT_TARGET, MIOPEN_TYPE_INT32, {4}, false, {0})},
      2);
  Backend engine(MIOPEN_BACKEND_ENGINE_DESCRIPTOR);
  expect_error(miopenBackendFinalize(engine), miopenStatusNotInitialized, {"lacks"});
  engine.set_child(MIOPEN_ATTR_ENGINE_OPERATION_GRAPH, graph)
      .set<int64_t>(MIOPEN_ATTR_ENGINE_GLOBAL_INDEX, MIOPEN_TYPE_INT64, {1});
  expect_bad(miopenBackendFinalize(engine), {"no engine 1"});
  engine.set<int64_t>(MIOPEN_ATTR_ENGINE_GLOBAL_INDEX, MIOPEN_TYPE_INT64, {0}).finalize();
  EXPECT_TRUE(engine.get<int64_t>(MIOPEN_ATTR_ENGINE_KNOB_INFO, MIOPEN_TYPE_BACKEND_DESCRIPTOR, 4).empty());
  EXPECT_TRUE(engine.get<int>(MIOPEN_ATTR_ENGINE_NUMERICAL_NOTE, MIOPEN_TYPE_NUMERICAL_NOTE, 4).empty());
  check_contract(MIOPEN_BACKEND_ENGINECFG_DESCRIPTOR, {child(MIOPEN_ATTR_ENGINECFG_ENGINE, engine, {graph})}, 1);
  Backend config(MIOPEN_BACKEND_ENGINECFG_DESCRIPTOR);
  expect_error(config.try_set<int64_t>(MIOPEN_ATTR_ENGINECFG_INTERMEDIATE_INFO, MIOPEN_TYPE_BACKEND_DESCRIPTOR, {1}),
               miopenStatusUnsupportedOp, {"not supported"});
  config.set_child(MIOPEN_ATTR_ENGINECFG_ENGINE, engine).finalize();
  EXPECT_TRUE(config.get<int64_t>(MIOPEN_ATTR_ENGINECFG_KNOB_CHOICES, MIOPEN_TYPE_BACKEND_DESCRIPTOR, 4).empty());
  check_contract(MIOPEN_BACKEND_ENGINEHEUR_DESCRIPTOR,
                 {child(MIOPEN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph, {engine}),
                  choice(MIOPEN_ATTR_ENGINEHEUR_MODE, MIOPEN_TYPE_HEUR_MODE, MIOPEN_HEUR_MODE_A, {4}),
                  Sample::of<int32_t>(MIOPEN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, MIOPEN_TYPE_INT32, {4}, false, {-1})},
                 2);
  check_contract(
      MIOPEN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
      {Sample::of<miopenHandle_t>(MIOPEN_ATTR_EXECUTION_PLAN_HANDLE, MIOPEN_TYPE_HANDLE, {handle}, false, {nullptr}),
       child(MIOPEN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config, {engine}),
       integers(MIOPEN_ATTR_EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS, {1, 2})},
      2);
}

TEST_F(GraphOperations, GraphsWithoutEngines) {
  // A convolution whose result has the wrong size is found when engines are sought: the graph has none.
  const GraphBuilder::Window w{{0}, {0}, {1}, {1}};
  const int64_t x = g.tensor(miopenFloat, {1, 2, 9}), f = g.tensor(miopenFloat, {3, 2, 2}),
                y = g.tensor(miopenFloat, {1, 3, 5});
  g.convolution(reference::Direction::kForward, w, x, f, y);
  EXPECT_EQ(g.engines(), 0);
  Backend engine(MIOPEN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set_child(MIOPEN_ATTR_ENGINE_OPERATION_GRAPH, g.graph())
      .set<int64_t>(MIOPEN_ATTR_ENGINE_GLOBAL_INDEX, MIOPEN_TYPE_INT64, {0});
  expect_bad(miopenBackendFinalize(engine), {"no engine", "y has size 5"});
}

TEST(GraphDescriptors, VariantPack) {
  char memory[6] = {};
  const std::vector<void*> pointers = {memory, memory + 1, memory + 2};
  check_contract(MIOPEN_BACKEND_VARIANT_PACK_DESCRIPTOR,
                 {integers(MIOPEN_ATTR_VARIANT_PACK_UNIQUE_IDS, {1, 2, 3}, {1, 2, 1}),
                  Sample::of<void*>(MIOPEN_ATTR_VARIANT_PACK_DATA_POINTERS, MIOPEN_TYPE_VOID_PTR, pointers, true,
                                    {memory, nullptr, memory + 2}),
                  Sample::of<void*>(MIOPEN_ATTR_VARIANT_PACK_WORKSPACE, MIOPEN_TYPE_VOID_PTR, {memory + 5})},
                 3);
  const auto pack = [&](const std::vector<int64_t>& ids, const std::vector<void*>& data, void* workspace) {
    Backend p(MIOPEN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    p.set<void*>(MIOPEN_ATTR_VARIANT_PACK_WORKSPACE, MIOPEN_TYPE_VOID_PTR, {workspace});
    // Empty lists need an address, too.
    int64_t nothing = 0;
    const auto set_list = [&](Name name, Type type, std::size_t count, const void* list) {
      expect_ok(miopenBackendSetAttribute(p, name, type, static_cast<int64_t>(count),
                                          count > 0 ? const_cast<void*>(list) : &nothing));
    };
    set_list(MIOPEN_ATTR_VARIANT_PACK_UNIQUE_IDS, MIOPEN_TYPE_INT64, ids.size(), ids.data());
    set_list(MIOPEN_ATTR_VARIANT_PACK_DATA_POINTERS, MIOPEN_TYPE_VOID_PTR, data.size(), data.data());
    return miopenBackendFinalize(p);
  };
  expect_ok(pack({}, {}, nullptr));
  expect_ok(pack({1, 2, 3}, pointers, nullptr));
  expect_bad(pack({1, 2}, pointers, nullptr), {"2 unique ids", "3 pointers"});
  expect_bad(pack({1, 2, 3}, pointers, memory + 1), {"workspace", "tensor 2"});
  Backend p(MIOPEN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  expect_bad(p.try_set<void*>(MIOPEN_ATTR_VARIANT_PACK_DATA_POINTERS, MIOPEN_TYPE_VOID_PTR, {memory, memory}),
             {"repeats"});
  expect_error(p.try_set<void*>(MIOPEN_ATTR_VARIANT_PACK_INTERMEDIATES, MIOPEN_TYPE_VOID_PTR, {memory}),
               miopenStatusNotImplemented, {});
}

TEST(GraphDescriptors, TypesThatCannotBeCreated) {
  for (const int type : {5, 6, 7, 8, 10, 14, 20, 21, 24, 28, 32, -1}) {
    miopenBackendDescriptor_t d = nullptr;
    expect_error(miopenBackendCreateDescriptor(static_cast<miopenBackendDescriptorType_t>(type), &d),
                 miopenStatusUnsupportedOp, {"not supported"});
    EXPECT_EQ(d, nullptr);
  }
  expect_bad(miopenBackendCreateDescriptor(MIOPEN_BACKEND_TENSOR_DESCRIPTOR, nullptr), {"null"});
}

TEST(GraphDescriptors, InMemoryOfTheCaller) {
  alignas(16) unsigned char memory[128];
  auto* const there = reinterpret_cast<miopenBackendDescriptor_t>(memory);
  expect_bad(miopenBackendInitialize(nullptr, MIOPEN_BACKEND_MATMUL_DESCRIPTOR, sizeof memory), {"null"});
  expect_bad(miopenBackendInitialize(there, MIOPEN_BACKEND_MATMUL_DESCRIPTOR, 8), {"8 bytes"});
  expect_bad(miopenBackendInitialize(reinterpret_cast<miopenBackendDescriptor_t>(memory + 1),
                                     MIOPEN_BACKEND_MATMUL_DESCRIPTOR, 100),
             {"aligned"});
  expect_error(miopenBackendInitialize(there, MIOPEN_BACKEND_RESAMPLE_DESCRIPTOR, sizeof memory),
               miopenStatusUnsupportedOp, {});
  expect_ok(miopenBackendInitialize(there, MIOPEN_BACKEND_MATMUL_DESCRIPTOR, sizeof memory));
  miopenDataType_t type = miopenFloat;
  expect_ok(miopenBackendSetAttribute(there, MIOPEN_ATTR_MATMUL_COMP_TYPE, MIOPEN_TYPE_DATA_TYPE, 1, &type));
  expect_ok(miopenBackendFinalize(there));
  expect_ok(miopenBackendDestroyDescriptor(there));
  expect_bad(miopenBackendDestroyDescriptor(there), {"not a live"});
  expect_bad(miopenBackendDestroyDescriptor(nullptr), {"null"});
}

TEST(GraphDescriptors, ParentsKeepWhatTheyUse) {
  const DeviceHandle handle;
  auto g = std::make_unique<GraphBuilder>(handle);
  const int64_t x = g->input(miopenFloat, {16}), y = g->tensor(miopenFloat, {16});
  g->pointwise(MIOPEN_POINTWISE_ABS, {x}, y);
  const auto plan = g->plan(0);
  std::vector<float> from(16, -2), to(16);
  g.reset();
  {
    const There in(handle, from), out(handle, to);
    Backend pack(MIOPEN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set<int64_t>(MIOPEN_ATTR_VARIANT_PACK_UNIQUE_IDS, MIOPEN_TYPE_INT64, {y, x})
        .set<void*>(MIOPEN_ATTR_VARIANT_PACK_DATA_POINTERS, MIOPEN_TYPE_VOID_PTR, {out, in})
        .set<void*>(MIOPEN_ATTR_VARIANT_PACK_WORKSPACE, MIOPEN_TYPE_VOID_PTR, {nullptr})
        .finalize();
    expect_ok(miopenBackendExecute(handle, *plan, pack));
  }
  EXPECT_EQ(to, std::vector<float>(16, 2));
}

TEST(GraphDescriptors, JsonOfAPlanIsChecked) {
  const DeviceHandle handle;
  const auto finalize = [&](const std::string& json) {
    Backend plan(MIOPEN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set<miopenHandle_t>(MIOPEN_ATTR_EXECUTION_PLAN_HANDLE, MIOPEN_TYPE_HANDLE, {handle})
        .set<char>(MIOPEN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, MIOPEN_TYPE_CHAR, {json.begin(), json.end()});
    return miopenBackendFinalize(plan);
  };
  const std::string good =
      R"({"format":"polymio-graph","version":1,"engine":0,"tensors":[{"id":1,"virtual":false,"type":1,"sizes":[4],)"
      R"("strides":[1]},{"id":2,"virtual":false,"type":1,"sizes":[4],"strides":[1]}],"nodes":[{"kind":4,"in":[0],"out":1}]})";
  expect_ok(finalize(good));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  expect_bad(finalize("{"), {"JSON of a plan", "byte 2"});
  expect_bad(finalize("[1]"), {"object was expected"});
  expect_bad(finalize(with("polymio-graph", "other")), {"format"});
  expect_error(finalize(with("\"version\":1", "\"version\":9")), miopenStatusVersionMismatch, {"version 9"});
  expect_bad(finalize(with("\"engine\":0", "\"engine\":7")), {"engine"});
  expect_bad(finalize(with("\"kind\":4", "\"kind\":44")), {"kind"});
  expect_bad(finalize(with("\"in\":[0]", "\"in\":[5]")), {"no tensor 5"});
  expect_bad(finalize(with("\"in\":[0]", "\"in\":[]")), {"0 inputs"});
  expect_bad(finalize(with("\"sizes\":[4]", "\"sizes\":[0]")), {"lengths must be positive"});
  expect_bad(finalize(with("\"sizes\":[4]", "\"sizes\":[8]")), {"numbers of elements"});
  std::string wide = with("\"kind\":4", R"("kind":2,"mode":12,"precision":1,"propagates_nan":false,"lower_clip":0,)"
                                        R"("upper_clip":"inf","lower_slope":0,"elu_alpha":1,"softplus_beta":1,)"
                                        R"("swish_beta":1,"alpha1":1,"alpha2":1)");
  expect_ok(finalize(wide));
  expect_bad(finalize(wide.replace(wide.find("\"sizes\":[4]"), 11, "\"sizes\":[8]")), {"sizes 8", "writes 4"});
  expect_bad(finalize(with("\"strides\":[1]", "\"strides\":[\"1\"]")), {"strides", "integer"});
  expect_bad(finalize(with("\"id\":2", "\"id\":1")), {"unique id 1"});
  expect_bad(finalize(std::string(1000, '[')), {"nested more than 64"});
}

}  // namespace
}  // namespace polymio::test
