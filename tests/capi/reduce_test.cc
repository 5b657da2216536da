// The API of reductions: descriptors, sizes, contents, NaNs, errors with their texts. On any device.
// SPDX-License-Identifier: MIT
#include <miopen/reduce_calculation.h>
#include <miopen/reduce_extreme.h>
#include <miopen/reduce_tensor.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "on_device.h"

namespace polymio::test {
namespace {

using Reduction =
    Owned<miopenReduceTensorDescriptor_t, miopenCreateReduceTensorDescriptor, miopenDestroyReduceTensorDescriptor>;
using Floats = std::vector<float>;
using Positions = std::vector<std::int32_t>;

template <class Enum>
Enum enumerator(int number) {
  Enum value;
  std::memcpy(&value, &number, sizeof value);
  return value;
}

struct ReduceApi : testing::Test {
  void set(int op, int nan = 0, int indices = 0, miopenDataType_t computation = miopenFloat) {
    expect_ok(miopenSetReduceTensorDescriptor(reduction, static_cast<miopenReduceTensorOp_t>(op), computation,
                                              static_cast<miopenNanPropagation_t>(nan),
                                              static_cast<miopenReduceTensorIndices_t>(indices), MIOPEN_32BIT_INDICES));
  }
  std::size_t workspace_bytes(const Tensor& a, const Tensor& c) {
    std::size_t bytes = 0;
    expect_ok(miopenGetReductionWorkspaceSize(handle, reduction, a, c, &bytes));
    return bytes;
  }
  /// Reduces a to c with what the API says is needed.
  template <class A, class C>
  void reduce(const Tensor& a_desc, A& a, const Tensor& c_desc, C& c, Positions* positions = nullptr,
              const void* alpha = &kOne, const void* beta = &kZero) {
    std::vector<unsigned char> workspace(workspace_bytes(a_desc, c_desc));
    const There there(handle, workspace);
    Positions none;
    Positions& indices = positions ? *positions : none;
    expect_ok(miopenReduceTensor(handle, reduction, positions ? static_cast<void*>(There(handle, indices)) : nullptr,
                                 indices.size() * 4, workspace.empty() ? nullptr : static_cast<void*>(there),
                                 workspace.size(), alpha, a_desc, There(handle, a), beta, c_desc, There(handle, c)));
  }
  miopenStatus_t call(const Tensor& a_desc, const void* a, const Tensor& c_desc, void* c, void* indices = nullptr,
                      std::size_t indices_bytes = 0) {
    return miopenReduceTensor(handle, reduction, indices, indices_bytes, nullptr, 0, &kOne, a_desc, a, &kZero, c_desc,
                              c);
  }

  DeviceHandle handle;
  Reduction reduction;
};

TEST_F(ReduceApi, DescriptorKeepsItsValues) {
  miopenReduceTensorOp_t op;
  miopenDataType_t type;
  miopenNanPropagation_t nan;
  miopenReduceTensorIndices_t indices;
  miopenIndicesType_t bits;
  const auto get = [&] { return miopenGetReduceTensorDescriptor(reduction, &op, &type, &nan, &indices, &bits); };
  const auto all = [&] { return std::tuple(op, type, nan, indices, bits); };
  set(MIOPEN_REDUCE_TENSOR_AMAX, 1, 1, miopenDouble);
  expect_ok(get());
  const auto wanted = std::tuple(MIOPEN_REDUCE_TENSOR_AMAX, miopenDouble, MIOPEN_PROPAGATE_NAN,
                                 MIOPEN_REDUCE_TENSOR_FLATTENED_INDICES, MIOPEN_32BIT_INDICES);
  EXPECT_EQ(all(), wanted);
  const auto refused = [&](int o, int t, int n, int i, int b) {
    return miopenSetReduceTensorDescriptor(reduction, enumerator<miopenReduceTensorOp_t>(o),
                                           enumerator<miopenDataType_t>(t), enumerator<miopenNanPropagation_t>(n),
                                           enumerator<miopenReduceTensorIndices_t>(i),
                                           enumerator<miopenIndicesType_t>(b));
  };
  expect_bad(refused(8, 1, 0, 0, 0), {"operation 8", "0 (add) to 7 (norm2)"});
  expect_bad(refused(-1, 1, 0, 0, 0), {"operation -1"});
  expect_bad(refused(0, 77, 0, 0, 0), {"computation type 77"});
  expect_bad(refused(0, 1, 2, 0, 0), {"NaN propagation 2"});
  expect_bad(refused(0, 1, 0, 2, 0), {"indices option 2"});
  expect_bad(refused(0, 1, 0, 0, 4), {"indices type 4"});
  expect_error(refused(3, 1, 0, 1, 1), miopenStatusUnknownError, {"indices type 1", "0 (32 bits)"});
  expect_ok(get());
  EXPECT_EQ(all(), wanted) << "a refused value changes nothing";
  expect_ok(refused(3, 1, 0, 0, 1));
  expect_bad(miopenGetReduceTensorDescriptor(reduction, nullptr, &type, &nan, &indices, &bits), {"reduceTensorOp"});
  expect_bad(miopenGetReduceTensorDescriptor(reduction, &op, &type, &nan, &indices, nullptr), {"IndicesType"});
  expect_bad(miopenGetReduceTensorDescriptor(nullptr, &op, &type, &nan, &indices, &bits), {"reduction descriptor"});
  expect_bad(miopenCreateReduceTensorDescriptor(nullptr), {"reduceTensorDesc"});
  expect_bad(miopenDestroyReduceTensorDescriptor(nullptr), {"reduction descriptor", "null"});
}

TEST_F(ReduceApi, IndicesTakeFourBytesForEachResultOfAnExtreme) {
  const Tensor a(miopenHalf, {2, 3, 4, 5}), c(miopenHalf, {2, 1, 4, 1});
  std::size_t bytes = 77;
  for (int op = 0; op < 8; ++op) {
    set(op, 0, 1);
    expect_ok(miopenGetReductionIndicesSize(handle, reduction, a, c, &bytes));
    EXPECT_EQ(bytes, op >= 2 && op <= 4 ? 32u : 0u) << op;
  }
  set(MIOPEN_REDUCE_TENSOR_MAX);
  expect_ok(miopenGetReductionIndicesSize(handle, reduction, a, c, &bytes));
  EXPECT_EQ(bytes, 0u);
  expect_bad(miopenGetReductionIndicesSize(handle, reduction, a, c, nullptr), {"sizeInBytes"});
  expect_bad(miopenGetReductionIndicesSize(nullptr, reduction, a, c, &bytes), {"handle"});
}

TEST_F(ReduceApi, AnyWorkspaceSuffices) {
  const Tensor a(miopenFloat, {70000}), c(miopenFloat, {1});
  Floats x(70000, 0.5f), y(1, kNan);
  set(MIOPEN_REDUCE_TENSOR_ADD);
  const std::size_t bytes = workspace_bytes(a, c);
  reduce(a, x, c, y);
  EXPECT_EQ(y[0], 35000);
  expect_bad(miopenGetReductionWorkspaceSize(handle, reduction, a, c, nullptr), {"sizeInBytes"});
  std::vector<unsigned char> small(std::max<std::size_t>(bytes, 1) - 1);
  const There workspace(handle, small), there(handle, x);
  for (void* const given : {static_cast<void*>(workspace), static_cast<void*>(nullptr)}) {
    y[0] = kNan;
    expect_ok(miopenReduceTensor(handle, reduction, nullptr, 0, given, small.size(), &kOne, a, there, &kZero, c,
                                 There(handle, y)));
    EXPECT_EQ(y[0], 35000);
  }
}

TEST_F(ReduceApi, EveryOperation) {
  const Tensor a(miopenFloat, {2, 4}), c(miopenFloat, {2, 1});
  Floats x{1, -4, 2, 3, 0.5f, 2, -8, 1};
  const Floats wanted[] = {{2, -4.5f}, {-24, -8},         {-4, -8},    {3, 2},
                           {4, 8},     {0.5f, -4.5f / 4}, {10, 11.5f}, {std::sqrt(30.0f), std::sqrt(69.25f)}};
  for (int op = 0; op < 8; ++op) {
    Floats y(2, kNan);
    set(op);
    reduce(a, x, c, y);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_FLOAT_EQ(y[i], wanted[op][i]) << "operation " << op;
  }
  Floats y{1, 2};
  const float alpha = 2, beta = 10;
  set(MIOPEN_REDUCE_TENSOR_MAX);
  reduce(a, x, c, y, nullptr, &alpha, &beta);
  EXPECT_EQ(y, (Floats{16, 24}));
}

TEST_F(ReduceApi, DoubleTensorsTakeDoubleScalars) {
  const Tensor a(miopenDouble, {3}), c(miopenDouble, {1});
  std::vector<double> x{1, 1e-12, 1}, y{5};
  const double alpha = 0.1, beta = -1;
  set(MIOPEN_REDUCE_TENSOR_ADD, 0, 0, miopenDouble);
  reduce(a, x, c, y, nullptr, &alpha, &beta);
  EXPECT_DOUBLE_EQ(y[0], 0.1 * (2 + 1e-12) - 5);
}

/// The last NaN if NaNs propagate; else none. Of equal elements the first, over the reduced dimensions only.
TEST_F(ReduceApi, PositionsOfExtremesAndNaNs) {
  const Tensor a(miopenFloat, {2, 2, 3}), c(miopenFloat, {1, 2, 1});
  // The rows are elements 0, 1, 2, 6, 7, 8 and 3, 4, 5, 9, 10, 11.
  Floats x{1, 5, 2, 7, kNan, -7, 5, 0, 5, 7, kNan, 0};
  Floats y(2);
  Positions at(2);
  set(MIOPEN_REDUCE_TENSOR_MAX, 0, 1);
  reduce(a, x, c, y, &at);
  EXPECT_EQ(y, (Floats{5, 7}));
  EXPECT_EQ(at, (Positions{1, 0}));
  set(MIOPEN_REDUCE_TENSOR_AMAX, 0, 1);
  reduce(a, x, c, y, &at);
  EXPECT_EQ(y, (Floats{5, 7}));
  EXPECT_EQ(at, (Positions{1, 0}));
  set(MIOPEN_REDUCE_TENSOR_MIN, 1, 1);
  reduce(a, x, c, y, &at);
  EXPECT_EQ(y[0], 0);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(at, (Positions{4, 4}));
}

TEST_F(ReduceApi, ErrorsOfReduceTensor) {
  const Tensor a(miopenFloat, {2, 3}), c(miopenFloat, {2, 1}), other(miopenFloat, {2, 2}), flat(miopenFloat, {2});
  const Tensor wide(miopenInt64, {2, 3}), overlapping(miopenFloat, {2, 3}, {1, 1});
  Floats x(6, 1), y(2, 42);
  Positions at(2, 42);
  set(MIOPEN_REDUCE_TENSOR_MAX, 0, 1);
  expect_error(call(a, x.data(), other, y.data()), miopenStatusUnknownError, {"2x2", "2x3", "1 or that of a"});
  expect_error(call(a, x.data(), flat, y.data()), miopenStatusUnknownError, {"c has sizes 2", "2x3"});
  expect_bad(call(wide, x.data(), c, y.data()), {"a has type int64", "fp32"});
  expect_bad(call(a, x.data(), overlapping, y.data(), at.data(), 8), {"overlaps itself"});
  expect_bad(call(a, nullptr, c, y.data(), at.data(), 8), {"buffer of A"});
  expect_bad(call(a, x.data(), c, nullptr, at.data(), 8), {"buffer of C"});
  expect_bad(call(a, x.data(), c, y.data(), nullptr, 8), {"buffer of indices"});
  expect_error(call(a, x.data(), c, y.data(), at.data(), 7), miopenStatusUnknownError, {"7 bytes", "8", "not enough"});
  expect_bad(call(a, x.data(), c, x.data() + 1, at.data(), 8), {"c overlaps a", "4 bytes"});
  expect_bad(call(a, x.data(), c, y.data(), x.data(), 8), {"indices overlaps a"});
  const auto with = [&](miopenHandle_t h, miopenReduceTensorDescriptor_t r, miopenTensorDescriptor_t of_a,
                        miopenTensorDescriptor_t of_c, const void* alpha, const void* beta) {
    return miopenReduceTensor(h, r, at.data(), 8, nullptr, 0, alpha, of_a, x.data(), beta, of_c, y.data());
  };
  expect_bad(with(nullptr, reduction, a, c, &kOne, &kZero), {"handle", "null"});
  expect_bad(with(handle, nullptr, a, c, &kOne, &kZero), {"reduction descriptor", "null"});
  expect_bad(with(handle, reduction, nullptr, c, &kOne, &kZero), {"descriptor of A"});
  expect_bad(with(handle, reduction, a, nullptr, &kOne, &kZero), {"descriptor of C"});
  expect_bad(with(handle, reduction, a, c, nullptr, &kZero), {"alpha"});
  expect_bad(with(handle, reduction, a, c, &kOne, nullptr), {"beta"});
  EXPECT_EQ(y, (Floats{42, 42}));
  EXPECT_EQ(at, (Positions{42, 42}));
}

/// MIOpen's product is always 0.
TEST_F(ReduceApi, CalculationSumsAndMultiplies) {
  const Tensor x_desc(miopenFloat, {2, 3, 2}), y_desc(miopenFloat, {2, 2});
  Floats x{1, 2, 3, kNan, 5, 6, -1, 2, 2, 2, 3, 0.5f}, y(4);
  const auto forward = [&](int nan, int op) {
    std::size_t bytes = 77;
    const auto what = static_cast<miopenReduceCalculationOp_t>(op);
    expect_ok(miopenGetReduceCalculationWorkspaceSize(handle, x_desc, 1, what, y_desc, &bytes));
    std::vector<unsigned char> workspace(bytes + 1);
    expect_ok(miopenReduceCalculationForward(handle, static_cast<miopenReduceCalculationNanPropagation_t>(nan),
                                             There(handle, workspace), bytes, x_desc, There(handle, x), 1, what, y_desc,
                                             There(handle, y)));
  };
  forward(0, MIOPEN_REDUCE_CALCULATION_SUM);
  EXPECT_TRUE(std::isnan(y[1]));
  forward(1, MIOPEN_REDUCE_CALCULATION_SUM);
  EXPECT_EQ(y, (Floats{9, 8, 4, 4.5f}));
  forward(1, MIOPEN_REDUCE_CALCULATION_PROD);
  EXPECT_EQ(y, (Floats{15, 0, -6, 2}));
}

TEST_F(ReduceApi, ErrorsOfCalculation) {
  const Tensor x_desc(miopenFloat, {2, 3}), y_desc(miopenFloat, {2}), wrong(miopenFloat, {3});
  Floats x(6, 1), y(2, 42);
  const auto call_with = [&](int nan, miopenTensorDescriptor_t of_x, int dim, int op, miopenTensorDescriptor_t of_y) {
    return miopenReduceCalculationForward(handle, enumerator<miopenReduceCalculationNanPropagation_t>(nan), nullptr, 0,
                                          of_x, x.data(), dim, enumerator<miopenReduceCalculationOp_t>(op), of_y,
                                          y.data());
  };
  expect_bad(call_with(0, x_desc, 2, 2, y_desc), {"dimension 2", "2 of x"});
  expect_bad(call_with(0, x_desc, -1, 2, y_desc), {"dimension -1"});
  expect_bad(call_with(0, x_desc, 1, 2, wrong), {"y has sizes 3", "x has 2x3"});
  expect_bad(call_with(0, x_desc, 1, 0, y_desc), {"operation 0", "1 (product)"});
  expect_bad(call_with(2, x_desc, 1, 1, y_desc), {"NaN propagation 2"});
  expect_bad(call_with(0, nullptr, 1, 1, y_desc), {"descriptor of x"});
  expect_bad(call_with(0, x_desc, 1, 1, nullptr), {"descriptor of y"});
  expect_bad(miopenReduceCalculationForward(handle, MIOPEN_REDUCE_CALCULATION_PROPAGATE_NAN, nullptr, 0, x_desc,
                                            nullptr, 1, MIOPEN_REDUCE_CALCULATION_SUM, y_desc, y.data()),
             {"buffer of x"});
  expect_bad(miopenGetReduceCalculationWorkspaceSize(handle, x_desc, 1, MIOPEN_REDUCE_CALCULATION_SUM, y_desc, nullptr),
             {"sizeInBytes"});
  EXPECT_EQ(y, (Floats{42, 42}));
}

/// A NaN wins only as the first element.
TEST_F(ReduceApi, ExtremeWritesValuesAndPositions) {
  const Tensor x_desc(miopenFloat, {3, 4}), y_desc(miopenFloat, {4}), at_desc(miopenInt32, {4});
  Floats x{1, kNan, 3, 4, kNan, 2, 3, 9, 0, 7, 8, -4}, y(4, 42);
  Positions at(4);
  const auto forward = [&](int op, miopenTensorDescriptor_t of_y, void* values) {
    expect_ok(miopenReduceExtremeForward(handle, x_desc, There(handle, x), 0, static_cast<miopenReduceExtremeOp_t>(op),
                                         of_y, values, at_desc, There(handle, at)));
  };
  forward(MIOPEN_REDUCE_EXTREME_ARGMIN, nullptr, nullptr);
  EXPECT_EQ(at, (Positions{2, 0, 0, 2}));
  forward(MIOPEN_REDUCE_EXTREME_ARGMAX, nullptr, nullptr);
  EXPECT_EQ(at, (Positions{0, 0, 2, 1}));
  forward(MIOPEN_REDUCE_EXTREME_MAX, y_desc, There(handle, y));
  EXPECT_EQ(at, (Positions{0, 0, 2, 1}));
  EXPECT_EQ(y[0], 1);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(y[2], 8);
  EXPECT_EQ(y[3], 9);
  forward(MIOPEN_REDUCE_EXTREME_MIN, y_desc, There(handle, y));
  EXPECT_EQ(at, (Positions{2, 0, 0, 2}));
  EXPECT_EQ(y[3], -4);
}

TEST_F(ReduceApi, ErrorsOfExtreme) {
  const Tensor x_desc(miopenFloat, {2, 3}), y_desc(miopenFloat, {2}), at_desc(miopenInt32, {2});
  const Tensor wide(miopenInt64, {2}), wrong(miopenFloat, {3});
  Floats x(6, 1), y(2, 42);
  Positions at(2, 42);
  const auto call_with = [&](int dim, int op, miopenTensorDescriptor_t of_y, void* values,
                             miopenTensorDescriptor_t of_at, void* positions) {
    return miopenReduceExtremeForward(handle, x_desc, x.data(), dim, enumerator<miopenReduceExtremeOp_t>(op), of_y,
                                      values, of_at, positions);
  };
  expect_bad(call_with(2, 3, y_desc, y.data(), at_desc, at.data()), {"dimension 2"});
  expect_bad(call_with(1, 5, y_desc, y.data(), at_desc, at.data()), {"operation 5", "1 (argmin)"});
  expect_bad(call_with(1, 3, wrong, y.data(), at_desc, at.data()), {"y has sizes 3"});
  expect_bad(call_with(1, 3, nullptr, y.data(), at_desc, at.data()), {"descriptor of y"});
  expect_bad(call_with(1, 3, y_desc, nullptr, at_desc, at.data()), {"buffer of y"});
  expect_bad(call_with(1, 1, nullptr, nullptr, wide, at.data()), {"int64", "int32"});
  expect_bad(call_with(1, 1, nullptr, nullptr, nullptr, at.data()), {"descriptor of indice"});
  expect_bad(call_with(1, 1, nullptr, nullptr, at_desc, nullptr), {"buffer of indice"});
  EXPECT_EQ(y, (Floats{42, 42}));
  EXPECT_EQ(at, (Positions{42, 42}));
}

}  // namespace
}  // namespace polymio::test
