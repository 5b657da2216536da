// Matrix products as other primitives run them: through run(), with offsets, addresses between elements and little
// workspace; shapes with fewer batches; what is refused.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "primitives/matmul/solvers.h"
#include "tests/device.h"
#include "tests/runner/runner.h"

namespace polymio::test {
namespace {

using matmul::Problem;

constexpr DataType kF = DataType::kFloat;

TensorDesc dense(DataType type, std::initializer_list<std::int64_t> lens) {
  return make_tensor(type, std::span(lens.begin(), lens.size()), {});
}

Problem problem(const TensorDesc& a, const TensorDesc& b, const TensorDesc& c) {
  Problem p;
  p.a = a;
  p.b = b;
  p.c = c;
  return p;
}

std::string refusal(const Problem& p) {
  try {
    matmul::validate(p);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Matmul, BatchesBecomeRowsWhereOneOperandIsShared) {
  const Problem linear = problem(dense(kF, {4, 5, 6}), dense(kF, {1, 6, 7}), dense(kF, {4, 5, 7}));
  const matmul::Shape s = matmul::shape_of(linear);
  EXPECT_EQ(s.m, 20);
  EXPECT_EQ(s.batch.count(), 1);
  const Problem left = problem(dense(kF, {1, 5, 6}), dense(kF, {4, 6, 1}), dense(kF, {4, 5, 1}));
  EXPECT_EQ(matmul::shape_of(left).n, 4) << "a column each";
  const Problem both = problem(dense(kF, {2, 3, 5, 6}), dense(kF, {2, 3, 6, 7}), dense(kF, {2, 3, 5, 7}));
  EXPECT_EQ(matmul::shape_of(both).batch.rank, 1u);
  EXPECT_EQ(matmul::shape_of(both).batch.count(), 6);
}

TEST(Matmul, RunTakesOffsetsAndAnyAddress) {
  Handle handle("cpu", nullptr);
  const Problem p = problem(dense(kF, {2, 3}), dense(kF, {3, 2}), dense(kF, {2, 2}));
  const float a[] = {9, 1, 2, 3, 4, 5, 6}, b[] = {9, 9, 1, 0, 0, 1, 1, 1};
  float c[6] = {};
  Problem::Args args;
  args.a = a;
  args.b = b;
  args.c = c;
  args.a_at = 1;
  args.b_at = 2;
  args.c_at = 1;
  args.alpha = 2;
  matmul::run(handle, p, args);
  const float want[] = {0, 8, 10, 20, 22, 0};
  EXPECT_EQ(std::memcmp(c, want, sizeof c), 0) << c[1] << ' ' << c[2] << ' ' << c[3] << ' ' << c[4];
  alignas(16) char moved[sizeof c + 1] = {};
  args.c = moved + 1;
  matmul::run(handle, p, args);
  EXPECT_EQ(std::memcmp(moved + 1, want, sizeof c), 0);
}

TEST(Matmul, StrideZeroRepeatsARow) {
  Handle handle("cpu", nullptr);
  const Problem p = problem(matmul::matrices(kF, 20, 3, 0, 1), dense(kF, {3, 1}), dense(kF, {20, 1}));
  const float a[] = {1, 2, 3}, b[] = {4, 5, 6};
  std::vector<float> c(20);
  Problem::Args args;
  args.a = a;
  args.b = b;
  args.c = c.data();
  matmul::run(handle, p, args);
  EXPECT_EQ(c, std::vector<float>(20, 32));
}

TEST(Matmul, NoDepthMakesZerosAtAnyAddress) {
  Handle handle("cpu", nullptr);
  const Problem p = problem(matmul::matrices(kF, 2, 0, 1, 1), matmul::matrices(kF, 0, 2, 2, 1), dense(kF, {2, 2}));
  alignas(16) char c[4 * sizeof(float) + 1];
  std::memset(c, 1, sizeof c);
  Problem::Args args;
  args.a = c + 1;
  args.b = c + 1;
  args.c = c + 1;
  matmul::run(handle, p, args);
  const char zeros[4 * sizeof(float)] = {};
  EXPECT_EQ(std::memcmp(c + 1, zeros, sizeof zeros), 0);
  EXPECT_EQ(c[0], 1);
}

TEST(Matmul, FindChecksResults) {
  Handle handle("cpu", nullptr);
  const Problem p = problem(dense(kF, {3, 30, 40}), dense(kF, {1, 40, 50}), dense(kF, {3, 30, 50}));
  const std::vector<float> a(3 * 30 * 40, 2), b(40 * 50, 0.5f);
  std::vector<float> c(3 * 30 * 50);
  Problem::Args args;
  args.a = a.data();
  args.b = b.data();
  args.c = c.data();
  const auto check = matmul::make_check(p);
  const search::Call call = matmul::search_call(handle, p, {});
  call.plan(9001).invoke(handle.stream(), &args);
  std::string text;
  EXPECT_EQ(check->check(handle.stream(), &args, ErrorClass::kAccurate, text), search::CheckResult::kRight) << text;
  c[0] += 1;
  EXPECT_EQ(check->check(handle.stream(), &args, ErrorClass::kAccurate, text), search::CheckResult::kWrong);
  EXPECT_NE(text.find("c at offset 0"), std::string::npos) << text;
}

TEST(Matmul, BestSolversOfDevices) {
  const Problem p = problem(dense(kF, {64, 64}), dense(kF, {64, 64}), dense(kF, {64, 64}));
  EXPECT_STREQ(matmul::best_solver(Handle("cpu", nullptr).device(), p).info().name, "MatmulCpuGemm");
  DeviceInfo opencl = usual_device("cuda-sm90");
  opencl.kind = DeviceKind::kOpenCl;
  opencl.gpu.fp64 = false;
  EXPECT_STREQ(matmul::best_solver(opencl, p).info().name, "MatmulGpuTiles");
  Problem wide = p;
  for (TensorDesc* t : {&wide.a, &wide.b, &wide.c}) *t = dense(DataType::kDouble, {64, 64});
  try {
    matmul::best_solver(opencl, wide);
    ADD_FAILURE() << "not refused";
  } catch (const Error& e) {
    EXPECT_EQ(e.status, Status::kNotImplemented);
    EXPECT_NE(std::string(e.what()).find("double-precision"), std::string::npos) << e.what();
  }
}

TEST(Matmul, ErrorsSayWhatIsWrong) {
  const Problem good = problem(dense(kF, {2, 3, 4}), dense(kF, {2, 4, 5}), dense(kF, {2, 3, 5}));
  EXPECT_EQ(refusal(good), "");
  const auto expect_text = [&](auto change, const char* part) {
    Problem p = good;
    change(p);
    EXPECT_NE(refusal(p).find(part), std::string::npos) << refusal(p);
  };
  expect_text([](Problem& p) { p.a = dense(kF, {2, 3, 6}); }, "m x k, k x n and m x n");
  expect_text([](Problem& p) { p.b = dense(kF, {3, 4, 5}); }, "a batch size must be 1 or that of c, 2");
  expect_text([](Problem& p) { p.b = dense(kF, {4, 5}); }, "b has rank 2, c has 3");
  expect_text([](Problem& p) { p.b = dense(DataType::kHalf, {2, 4, 5}); }, "a is fp32, b is fp16");
  expect_text([](Problem& p) { p.c = dense(DataType::kHalf, {2, 3, 5}); }, "c is fp16, a and b are fp32");
  expect_text([](Problem& p) { p.c.strides[1] = 1; }, "overlaps itself");
  expect_text([](Problem& p) { p.a.type = DataType::kInt8; }, "a is int8");
}

}  // namespace
}  // namespace polymio::test
