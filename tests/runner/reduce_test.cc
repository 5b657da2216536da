// Search for reductions: keys, tuning, plans of stored records and within a workspace, detection of wrong results. On
// any device.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <filesystem>

#include "db/find_db.h"
#include "primitives/reduce/reduce.h"
#include "search/benchmark.h"
#include "tests/device.h"

namespace polymio::reduce {
namespace {

using search::CheckResult;
using Sizes = std::vector<std::int64_t>;

TensorDesc tensor(DataType type, const Sizes& lens, const Sizes& strides = {}) {
  return make_tensor(type, lens, strides);
}

Problem problem(Op op, DataType type, const Sizes& a, const Sizes& c) {
  Problem p;
  p.op = op;
  p.a = tensor(type, a);
  p.c = tensor(type, c);
  validate(p);
  return p;
}

/// The index of the least element, along dimension 1 of 2.
Problem argmin(const Sizes& a) {
  Problem p;
  p.kind = Kind::kPosition;
  p.op = Op::kMin;
  p.nan = Nan::kFirst;
  p.a = tensor(DataType::kFloat, a);
  p.c = p.positions = tensor(DataType::kInt32, {a[0], 1});
  validate(p);
  return p;
}

/// Rows, columns, one long row, and positions.
std::vector<Problem> problems() {
  std::vector<Problem> all{problem(Op::kAvg, DataType::kFloat, {300, 500}, {300, 1}),
                           problem(Op::kAdd, DataType::kFloat, {500, 300}, {1, 300}),
                           problem(Op::kNorm2, DataType::kFloat, {1, 150000}, {1, 1}),
                           problem(Op::kMax, DataType::kFloat, {40, 20, 60}, {40, 1, 60}), argmin({40, 3000})};
  all[3].positions = positions_of(all[3].c);
  return all;
}

/// A run of a solver on private data.
class Ran {
 public:
  Ran(Handle& handle, const Problem& p, const SolverBase& solver, const TunePoint& point)
      : stream_(handle.stream()),
        bytes_(solver.workspace_size(handle.device(), p, point)),
        workspace_(handle, bytes_),
        check_(make_check(p)),
        own_(check_->private_case(handle, SIZE_MAX)),
        args_(*static_cast<const Problem::Args*>(own_->args(workspace_.data(), bytes_))),
        result_(p.has_values() ? args_.c : args_.positions),
        tolerance_{solver, p} {
    check_->poison(stream_, &args_);
    solver.build(stream_, p, point)(stream_, &args_);
  }
  CheckResult check() { return check_->check(stream_, &args_, tolerance_, text); }
  float element(std::int64_t i) {
    float value;
    stream_.download(&value, {result_, static_cast<std::size_t>(i) * sizeof value}, sizeof value);
    stream_.synchronize();
    return value;
  }
  void put(std::int64_t i, float value) {
    stream_.upload({result_, static_cast<std::size_t>(i) * sizeof value}, &value, sizeof value);
    stream_.synchronize();
  }

  std::string text;  // of the check

 private:
  Stream& stream_;
  const std::size_t bytes_;
  const Memory workspace_;
  const std::unique_ptr<const search::ResultCheck> check_;
  const std::unique_ptr<search::ResultCheck::PrivateCase> own_;
  const Problem::Args& args_;
  void* const result_;
  const search::Tolerance tolerance_;
};

class ReduceSearch : public testing::Test {
 protected:
  ReduceSearch() {
    std::string name = (std::filesystem::temp_directory_path() / "polymio-reduce-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    setenv("MIOPEN_USER_DB_PATH", folder_.c_str(), 1);
  }
  ~ReduceSearch() override { std::filesystem::remove_all(folder_); }

  search::Candidate best(const Problem& p) { return search_call(handle_, p, {}).solutions().at(0); }

  Handle handle_{test::device_name(), nullptr};
  std::filesystem::path folder_;
};

TEST(ReduceProblem, KeysAreDriverLines) {
  Problem p = problem(Op::kAvg, DataType::kHalf, {2, 3, 4, 5}, {1, 3, 1, 5});
  EXPECT_EQ(p.key(), "reducefp16 -D 2,3,4,5 -R 0,2 -O 5");
  p = problem(Op::kAmax, DataType::kInt32, {2, 3}, {2, 3});
  p.nan = Nan::kPropagate;
  p.positions = positions_of(p.c);
  p.a = tensor(DataType::kInt32, {2, 3}, {1, 2});
  p.c = tensor(DataType::kDouble, {2, 3}, {4, 1});
  EXPECT_EQ(p.key(), "reduceint32 -D 2,3 -R none -O 4 -N 1 -I 1 --in_strides 1,2 --out_strides 4,1 --out_type fp64");
  p = problem(Op::kAdd, DataType::kBFloat16, {2, 1, 3}, {2, 1, 3});
  p.kind = Kind::kCalculation;
  p.nan = Nan::kZero;
  EXPECT_EQ(p.key(), "reducecalculationbfp16 -D 2,1,3 -R 1 -O 2 -N 1");
  p = argmin({4, 5});
  EXPECT_EQ(p.key(), "reduceextreme -D 4,5 -R 1 -O 1");
  p.c = p.positions = tensor(DataType::kInt32, {4, 1}, {3, 1});
  EXPECT_EQ(p.key(), "reduceextreme -D 4,5 -R 1 -O 1 --indices_strides 3,1");
}

TEST_F(ReduceSearch, TuningStoresAPointThatCallsTake) {
  handle_.set_tuning_policy(Enforce::kSearch);
  for (const Problem& p : problems()) {
    SCOPED_TRACE(p.key());
    const Plan tuned = search_call(handle_, p, {}).first_plan();
    const auto records = find_db(handle_.device().architecture).lookup(p.key());
    EXPECT_TRUE(std::ranges::any_of(records, [](const auto& r) { return r.kind == RecordKind::kTuned; }));
    const search::Candidate c = best(p);
    EXPECT_EQ(c.source, search::Source::kMeasured);
    EXPECT_EQ(c.solver, tuned.solver);
    EXPECT_EQ(c.workspace, tuned.workspace);
    const std::string text = search::explain({handle_, solvers(handle_.device().kind), p, {}});
    for (const SolverBase* solver : solvers(handle_.device().kind))
      EXPECT_NE(text.find(solver->info().name), std::string::npos) << text;
    EXPECT_NE(text.find("measured"), std::string::npos) << text;
  }
}

TEST_F(ReduceSearch, CallsTakeTheStoredPointWithinTheirWorkspace) {
  double us = 1;  // each record is faster than those before
  for (const Problem& p : problems()) {
    SCOPED_TRACE(p.key());
    for (const SolverBase* solver : solvers(handle_.device().kind)) {
      if (!solver->is_applicable(handle_.device(), p)) continue;
      SCOPED_TRACE(solver->info().name);
      for (const TunePoint& point : valid_points(*solver, handle_.device(), p)) {
        const std::size_t bytes = solver->workspace_size(handle_.device(), p, point);
        const search::Request rq{handle_, solvers(handle_.device().kind), p, {}};
        const search::Candidate c{solver, point, us *= 0.9, bytes, search::Source::kMeasured, true};
        search::store(rq, {c});
        EXPECT_EQ(best(p).solver, solver);
        EXPECT_EQ(best(p).point, point) << to_text(point);
        if (bytes == 0) continue;
        Constraints none;
        none.workspace_limit = 0;
        EXPECT_EQ(search_call(handle_, p, none).first_plan().workspace, 0u) << to_text(point);
      }
    }
  }
}

/// The check accepts the result of every solver at every point.
TEST_F(ReduceSearch, EveryPointIsRight) {
  for (const Problem& p : problems())
    for (const SolverBase* solver : solvers(handle_.device().kind)) {
      if (!solver->is_applicable(handle_.device(), p)) continue;
      for (const TunePoint& point : valid_points(*solver, handle_.device(), p)) {
        SCOPED_TRACE(p.key() + " " + solver->info().name + " " + to_text(point));
        Ran ran(handle_, p, *solver, point);
        EXPECT_EQ(ran.check(), CheckResult::kRight) << ran.text;
      }
    }
}

TEST_F(ReduceSearch, TheCheckDetectsWrongResults) {
  for (const Problem& p : problems()) {
    SCOPED_TRACE(p.key());
    const SolverBase& solver = *solvers(handle_.device().kind)[0];
    Ran ran(handle_, p, solver, solver.default_point(handle_.device(), p));
    for (const std::int64_t at : {std::int64_t{0}, p.c.count() - 1}) {
      const float right = ran.element(at);
      ran.put(at, p.has_values() ? right * 1.001f + 0.001f : std::bit_cast<float>(std::bit_cast<int>(right) + 1));
      EXPECT_EQ(ran.check(), CheckResult::kWrong);
      EXPECT_NE(ran.text.find(p.has_values() ? "c at offset" : "the index at offset"), std::string::npos) << ran.text;
      ran.put(at, right);
    }
  }
}

}  // namespace
}  // namespace polymio::reduce
