// Every valid tune point of every CPU convolution solver computes the result of the default point within the
// workspace that it requests, and its prediction is a positive time.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "core/handle.h"
#include "primitives/convolution/convolution.h"
#include "tests/random.h"

namespace polymio::convolution {
namespace {

struct Shape {
  std::vector<std::int64_t> x, w;  // N C [D] H W, K C/groups ...
  std::int64_t pad = 0, stride = 1, dilation = 1, groups = 1;
  bool channels_last = false;
};

std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& lens, bool channels_last) {
  std::vector<std::int64_t> strides(lens.size());
  std::int64_t next = channels_last ? lens[1] : 1;
  for (std::size_t i = lens.size(); i-- > 2; next *= lens[i]) strides[i] = next;
  strides[1] = channels_last ? 1 : next;
  strides[0] = channels_last ? next : next * lens[1];
  return strides;
}

Problem make_problem(const Shape& s, Direction direction, DataType type) {
  Problem p;
  p.direction = direction;
  p.geometry.spatial = static_cast<int>(s.x.size()) - 2;
  p.geometry.groups = s.groups;
  std::vector<std::int64_t> y{s.x[0], s.w[0]};
  for (std::size_t i = 2; i < s.x.size(); ++i) {
    p.geometry.pad[i - 2] = s.pad;
    p.geometry.stride[i - 2] = s.stride;
    p.geometry.dilation[i - 2] = s.dilation;
    y.push_back(forward_size(s.x[i], s.w[i], s.pad, s.stride, s.dilation));
  }
  const auto tensor = [&](const std::vector<std::int64_t>& lens) {
    return make_tensor(type, lens, strides_of(lens, s.channels_last));
  };
  p.x = tensor(s.x);
  p.w = tensor(s.w);
  p.y = tensor(y);
  validate(p);
  return p;
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all{
      {.x = {5, 12, 14, 14}, .w = {70, 12, 3, 3}, .pad = 1},
      {.x = {3, 40, 30, 34}, .w = {16, 40, 3, 3}, .pad = 1, .stride = 2},
      {.x = {2, 300, 9, 9}, .w = {136, 300, 1, 1}},
      {.x = {7, 12, 11, 10}, .w = {18, 4, 3, 2}, .pad = 1, .dilation = 2, .groups = 3},
      {.x = {2, 24, 13, 13}, .w = {24, 1, 3, 3}, .pad = 1, .stride = 2, .groups = 24},
      {.x = {3, 32, 12, 12}, .w = {72, 32, 3, 3}, .pad = 1, .channels_last = true},
      {.x = {4, 300, 50}, .w = {260, 300, 1}, .stride = 2},
      {.x = {2, 6, 5, 6, 7}, .w = {9, 6, 2, 3, 3}, .pad = 1},
      {.x = {1, 1, 1, 1}, .w = {1, 1, 1, 1}},
  };
  return all;
}

class Data {
 public:
  explicit Data(const Problem& p) : p_(p), x_(fill(p.x, 1)), w_(fill(p.w, 2)), y_(fill(p.y, 3)) {}

  /// The output at a point, with exactly its workspace.
  std::vector<char> run(Handle& handle, const SolverBase& solver, const TunePoint& point) const {
    std::vector<char> x = x_, w = w_, y = y_;
    constexpr std::size_t kGuard = 64;
    const std::size_t bytes = solver.workspace_size(handle.device(), p_, point);
    std::vector<char> workspace(bytes + kGuard, 0x55);
    Problem::Args args;
    args.x = x.data();
    args.w = w.data();
    args.y = y.data();
    args.workspace = workspace.data();
    args.workspace_bytes = bytes;
    solver.build(handle.stream(), p_, point)(handle.stream(), &args);
    EXPECT_TRUE(std::all_of(workspace.end() - kGuard, workspace.end(), [](char c) { return c == 0x55; }))
        << "wrote beyond its workspace";
    const TensorDesc& o = p_.output();
    return &o == &p_.x ? x : &o == &p_.w ? w : y;
  }

  std::vector<double> numbers(const std::vector<char>& output) const {
    const TensorDesc& o = p_.output();
    std::vector<double> values(static_cast<std::size_t>(o.count()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = dtype::load(o.type, output.data(), static_cast<std::int64_t>(i));
    return values;
  }

 private:
  static std::vector<char> fill(const TensorDesc& t, unsigned seed) {
    std::mt19937_64 engine(seed);
    std::vector<char> bytes(t.bytes());
    const std::int64_t count = t.space();
    for (std::int64_t i = 0; i < count; ++i) dtype::store(t.type, bytes.data(), i, test::random_unit(engine));
    return bytes;
  }

  const Problem& p_;
  std::vector<char> x_, w_, y_;
};

/// Checks one solver on one problem; returns the number of its tune points.
std::size_t compare_points(Handle& handle, const SolverBase& solver, const Problem& p, const Data& data) {
  const DeviceInfo& device = handle.device();
  auto points = valid_points(solver, device, p);
  if (points.empty()) points.emplace_back();  // of a solver without knobs
  const TunePoint start = solver.default_point(device, p);
  EXPECT_TRUE(std::find(points.begin(), points.end(), start) != points.end()) << to_text(start);
  EXPECT_EQ(solver.workspace_size(device, p, {}), solver.workspace_size(device, p, start));
  const auto output = data.run(handle, solver, start);
  const auto expected = data.numbers(output);
  EXPECT_TRUE(std::all_of(expected.begin(), expected.end(), [](double v) { return std::isfinite(v); }));
  double largest = 0;
  for (const double v : expected) largest = std::max(largest, std::abs(v));
  const double tolerance = largest * (p.x.type == DataType::kFloat ? 1e-5 : 1e-2);
  for (const TunePoint& point : points) {
    SCOPED_TRACE(to_text(point));
    const double us = solver.estimate(device, p, point);
    EXPECT_TRUE(us > 0 && us < 1e9) << us;
    const auto other = data.run(handle, solver, point);
    if (other == output) continue;
    const auto values = data.numbers(other);
    double worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double difference = std::abs(values[i] - expected[i]);
      worst = difference <= worst ? worst : difference;  // NaN counts as worst
    }
    EXPECT_LE(worst, tolerance);
  }
  return points.size();
}

class TunePoints : public testing::TestWithParam<std::tuple<DataType, Direction>> {};

TEST_P(TunePoints, AgreeWithTheDefault) {
  const auto [type, direction] = GetParam();
  Handle handle("cpu", nullptr);
  handle.stream().set_threads(3);
  std::size_t most = 0;
  for (const Shape& s : shapes()) {
    const Problem p = make_problem(s, direction, type);
    const Data data(p);
    SCOPED_TRACE(p.key());
    for (const SolverBase* solver : solvers(direction)) {
      if (!solver->is_applicable(handle.device(), p) || solver->info().reference) continue;
      SCOPED_TRACE(solver->info().name);
      const std::size_t count = compare_points(handle, *solver, p, data);
      EXPECT_LE(count, 200u);
      most = std::max(most, count);
    }
  }
  EXPECT_GE(most, 20u);
}

INSTANTIATE_TEST_SUITE_P(All, TunePoints,
                         testing::Combine(testing::Values(DataType::kFloat, DataType::kBFloat16),
                                          testing::Values(Direction::kForward, Direction::kBackwardData,
                                                          Direction::kBackwardWeights)));

TEST(TunePointsOfMatrixProducts, AreDistinctAndRefuseForeignOnes) {
  Handle handle("cpu", nullptr);
  const Problem p = make_problem(shapes()[0], Direction::kForward, DataType::kFloat);
  std::size_t tunable = 0;
  for (const SolverBase* solver : solvers(Direction::kForward)) {
    if (!solver->is_applicable(handle.device(), p) || solver->tune_space(handle.device(), p).empty()) continue;
    SCOPED_TRACE(solver->info().name);
    ++tunable;
    const auto points = valid_points(*solver, handle.device(), p);
    EXPECT_EQ(std::set<TunePoint>(points.begin(), points.end()).size(), points.size());
    const TunePoint start = solver->default_point(handle.device(), p);
    for (std::size_t i = 0; i < start.size(); ++i) {
      TunePoint odd = start;
      odd[i] = 1234567;
      EXPECT_FALSE(solver->is_valid(handle.device(), p, odd)) << to_text(odd);
      odd[i] = -1;
      EXPECT_FALSE(solver->is_valid(handle.device(), p, odd)) << to_text(odd);
    }
    TunePoint longer = start;
    longer.push_back(0);
    EXPECT_FALSE(solver->is_valid(handle.device(), p, longer));
    EXPECT_FALSE(solver->is_valid(handle.device(), p, {}));
  }
  EXPECT_GE(tunable, 2u);
}

TEST(TunePointsOfGemm, TradeWorkspaceForImages) {
  Handle handle("cpu", nullptr);
  const Problem p =
      make_problem({.x = {40, 8, 14, 14}, .w = {8, 8, 3, 3}, .pad = 1}, Direction::kForward, DataType::kFloat);
  std::set<std::size_t> sizes;
  for (const SolverBase* solver : solvers(Direction::kForward))
    if (solver->info().algorithm == static_cast<int>(Algorithm::kGemm))
      for (const TunePoint& point : valid_points(*solver, handle.device(), p))
        sizes.insert(solver->workspace_size(handle.device(), p, point));
  const std::size_t image = 8 * 9 * 14 * 14 * sizeof(float);
  EXPECT_EQ(sizes, (std::set<std::size_t>{image, 6 * image, 24 * image, 40 * image}));
}

}  // namespace
}  // namespace polymio::convolution
