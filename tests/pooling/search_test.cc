// Search for the pooling primitive: keys, tuning on private data with indices and without, detection of wrong results.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "db/find_db.h"
#include "primitives/pooling/pooling.h"

namespace polymio::pooling {
namespace {

using search::CheckResult;

/// 3x3 windows with stride 2 and pad 1.
Problem problem(Direction direction, Mode mode, Index index) {
  const std::int64_t in[] = {64, 16, 28, 30}, out[] = {64, 16, 14, 15};
  Problem p;
  p.direction = direction;
  p.mode = mode;
  p.index = index;
  p.window = {2, {3, 3, 1}, {1, 1, 0}, {2, 2, 1}};
  p.x = make_tensor(DataType::kFloat, in, {});
  p.y = make_tensor(DataType::kFloat, out, {});
  if (!p.forward()) {
    p.dx = p.x;
    p.dy = p.y;
  }
  validate(p);
  return p;
}

std::vector<Problem> problems() {
  std::vector<Problem> all;
  for (const auto direction : {Direction::kForward, Direction::kBackward}) {
    all.push_back(problem(direction, Mode::kAverage, Index::kNone));
    for (const auto index : {Index::kNone, Index::kUint8, Index::kUint32})
      all.push_back(problem(direction, Mode::kMax, index));
  }
  return all;
}

class PoolingSearch : public testing::Test {
 protected:
  PoolingSearch() {
    std::string name = (std::filesystem::temp_directory_path() / "polymio-pool-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    setenv("MIOPEN_USER_DB_PATH", folder_.c_str(), 1);
  }
  ~PoolingSearch() override { std::filesystem::remove_all(folder_); }

  Handle handle_{"cpu", nullptr};
  std::filesystem::path folder_;
};

TEST(PoolingProblem, KeysAreDriverLines) {
  Problem p = problem(Direction::kForward, Mode::kMax, Index::kUint8);
  EXPECT_EQ(p.key(), "pool -n 64 -c 16 -H 28 -W 30 -y 3 -x 3 -p 1 -q 1 -v 2 -u 2 -m max -M 0 -F 1");
  p.position = Position::kImage;
  p.index = Index::kUint64;
  p.y.lens[2] = 15;
  EXPECT_EQ(p.key(),
            "pool -n 64 -c 16 -H 28 -W 30 -y 3 -x 3 -p 1 -q 1 -v 2 -u 2 --out_h 15 -m max "
            "--index_type miopenIndexUint64 -M 1 -F 1 --out_strides 3360,210,15,1");
  p = problem(Direction::kBackward, Mode::kAverage, Index::kNone);
  EXPECT_EQ(p.key(), "pool -n 64 -c 16 -H 28 -W 30 -y 3 -x 3 -p 1 -q 1 -v 2 -u 2 -m avg -F 2");
  p = problem(Direction::kBackward, Mode::kMax, Index::kNone);
  EXPECT_EQ(p.key(), "pool -n 64 -c 16 -H 28 -W 30 -y 3 -x 3 -p 1 -q 1 -v 2 -u 2 -m max --index_type none -F 2");
}

TEST_F(PoolingSearch, TuningMeasuresTheWindowSolver) {
  for (const Problem& p : problems()) {
    SCOPED_TRACE(p.key());
    const auto check = make_check(p);
    const auto own = check->private_case(handle_, SIZE_MAX);
    ASSERT_TRUE(own && own->problem().equals(p));
    const search::Request rq{handle_, solvers(p.direction, handle_.device().kind), p, {}, check.get()};
    search::FindOptions options;
    options.mode = search::FindMode::kNormal;
    options.tune = true;
    const auto found = search::find(rq, options, own->args(nullptr, 0));
    ASSERT_FALSE(found.empty());
    EXPECT_TRUE(std::ranges::any_of(found, [&](const search::Candidate& c) {
      return std::string_view(c.solver->info().name) == (p.forward() ? "PoolCpuWindowFwd" : "PoolCpuWindowBwd");
    }));
    const auto records = find_db(handle_.device().architecture).lookup(p.key());
    EXPECT_TRUE(std::ranges::any_of(records, [](const auto& r) { return r.kind == RecordKind::kTuned; }));
  }
}

/// The check accepts the result and refuses one that differs in the first and the last element.
TEST_F(PoolingSearch, TheCheckDetectsWrongResults) {
  for (const Problem& p : problems()) {
    SCOPED_TRACE(p.key());
    const auto check = make_check(p);
    const auto own = check->private_case(handle_, SIZE_MAX);
    const auto* args = static_cast<const Problem::Args*>(own->args(nullptr, 0));
    const SolverBase& solver = *solvers(p.direction)[0];
    solver.build(handle_.stream(), p, solver.default_point(handle_.device(), p))(handle_.stream(), args);
    std::string text;
    EXPECT_EQ(check->check(handle_.stream(), args, {solver, p}, text), CheckResult::kRight) << text;
    auto* const result = static_cast<float*>(args->result);
    for (const std::int64_t at : {std::int64_t{0}, p.output().count() - 1}) {
      const float right = result[at];
      result[at] += 0.001f;
      EXPECT_EQ(check->check(handle_.stream(), args, {solver, p}, text), CheckResult::kWrong);
      EXPECT_NE(text.find(p.forward() ? "y at offset" : "dx at offset"), std::string::npos) << text;
      result[at] = right;
    }
  }
}

}  // namespace
}  // namespace polymio::pooling
