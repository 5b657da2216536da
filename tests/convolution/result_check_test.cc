// The result check of convolutions: correct results pass, planted errors fail, uninformative data are
// inconclusive, private cases stay within their memory limit. Families and sizes of problems.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "primitives/convolution/fused.h"
#include "sample_problem.h"

namespace polymio::search {

static void PrintTo(CheckResult o, std::ostream* out) {
  *out << (o == CheckResult::kRight ? "right" : o == CheckResult::kWrong ? "wrong" : "inconclusive");
}

}  // namespace polymio::search

namespace polymio::convolution {
namespace {

using search::CheckResult;

Handle& handle() {
  static Handle h("cpu", nullptr);
  return h;
}

struct Verdicts {
  CheckResult outcome;
  std::string text;
};

Verdicts check(const Problem& p, const Data& data, search::Tolerance error = ErrorClass::kAccurate) {
  Verdicts v;
  v.outcome = make_check(p)->check(handle().stream(), &data.args, error, v.text);
  return v;
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> kShapes = {
      {{2, 16, 14, 15}, {24, 16, 3, 3}, {1, 1}},
      {{1, 3, 33, 31}, {8, 3, 7, 7}, {3, 3}, {2, 2}},
      {{4, 32, 7, 7}, {16, 32, 1, 1}},
      {{2, 8, 12, 12}, {8, 8, 1, 1}, {}, {2, 2}},
      {{1, 6, 9, 9}, {6, 6, 1, 1}, {}, {4, 4}},
      {{2, 12, 11, 10}, {18, 4, 3, 3}, {1, 1}, {}, {}, 3},
      {{2, 16, 13, 9}, {16, 1, 3, 3}, {1, 1}, {}, {}, 16},
      {{1, 8, 9, 9}, {16, 1, 3, 3}, {1, 1}, {2, 2}, {}, 8},
      {{1, 5, 17, 17}, {7, 5, 3, 3}, {2, 2}, {}, {2, 2}},
      {{1, 4, 12, 12}, {4, 4, 3, 2}, {2, 1}, {3, 2}, {2, 1}},
      {{2, 4, 40}, {6, 4, 5}, {2}, {2}},
      {{3, 8, 19}, {8, 1, 3}, {1}, {}, {}, 8},
      {{1, 4, 6, 7, 8}, {5, 4, 3, 3, 3}, {1, 1, 1}},
      {{2, 6, 5, 5, 5}, {6, 3, 2, 2, 2}, {0, 1, 0}, {1, 2, 1}, {}, 2},
      {{2, 16, 9, 10}, {12, 16, 3, 3}, {1, 1}, {}, {}, 1, DataType::kFloat, DataType::kFloat, true},
      {{1, 10, 9, 8}, {10, 1, 3, 3}, {1, 1}, {}, {}, 10, DataType::kFloat, DataType::kFloat, true},
      {{2, 5, 8, 8}, {6, 5, 3, 3}, {1, 1}, {}, {}, 1, DataType::kFloat, DataType::kFloat, false, 2},
      {{1, 1, 1, 1}, {1, 1, 1, 1}},
      {{1, 2, 3, 3}, {3, 2, 5, 5}, {3, 3}},
      {{2, 16, 9, 9}, {16, 16, 3, 3}, {1, 1}, {}, {}, 1, DataType::kDouble},
      {{1, 8, 10, 6}, {14, 4, 3, 3}, {1, 0}, {2, 1}, {}, 2, DataType::kDouble},
      {{2, 32, 9, 9}, {32, 32, 3, 3}, {1, 1}, {}, {}, 1, DataType::kHalf},
      {{1, 64, 5, 5}, {8, 64, 1, 1}, {}, {}, {}, 1, DataType::kHalf, DataType::kHalf, true},
      {{2, 12, 9, 9}, {12, 1, 3, 3}, {1, 1}, {}, {}, 12, DataType::kHalf},
      {{2, 32, 9, 9}, {32, 32, 3, 3}, {1, 1}, {}, {}, 1, DataType::kBFloat16},
      {{1, 6, 30}, {6, 2, 5}, {2}, {2}, {}, 3, DataType::kBFloat16},
      {{2, 16, 9, 9}, {16, 16, 3, 3}, {1, 1}, {}, {}, 1, DataType::kInt8, DataType::kInt32},
      {{2, 16, 9, 9}, {16, 16, 3, 3}, {1, 1}, {}, {}, 1, DataType::kInt8, DataType::kInt8},
      {{1, 8, 7, 7}, {8, 4, 3, 3}, {1, 1}, {2, 2}, {}, 2, DataType::kInt8, DataType::kFloat},
      {{2, 8, 7, 7}, {8, 8, 3, 3}, {1, 1}, {}, {}, 1, DataType::kFloat8Fnuz},
      {{2, 8, 7, 7}, {8, 8, 3, 3}, {1, 1}, {}, {}, 1, DataType::kBFloat8Fnuz},
      {{2, 8, 7, 7}, {8, 8, 3, 3}, {1, 1}, {}, {}, 1, DataType::kFloat8E4m3fn},
      {{2, 8, 7, 7}, {8, 8, 3, 3}, {1, 1}, {}, {}, 1, DataType::kFloat8E5m2}};
  return kShapes;
}

TEST(ResultCheck, EverySolverIsRight) {
  std::map<std::string, int> served;
  for (const Shape& shape : shapes())
    for (const Direction d : kDirections) {
      const Problem p = problem(d, shape);
      SCOPED_TRACE(p.key());
      for (const SolverBase* solver : solvers(d)) {
        if (!solver->is_applicable(handle().device(), p)) continue;
        Data data(p);
        const auto check = make_check(p);
        check->poison(handle().stream(), &data.args);
        run_solver(handle(), *solver, p, data);
        std::string text;
        EXPECT_EQ(check->check(handle().stream(), &data.args, {*solver, p}, text), CheckResult::kRight)
            << solver->info().name << ": " << text;
        ++served[solver->info().name];
      }
    }
  std::size_t all = 0;
  for (const Direction d : kDirections) all += solvers(d).size();
  EXPECT_EQ(served.size(), all) << "every solver should have had a case";
}

TEST(ResultCheck, ScaledAndStochasticallyRoundedResultsAreRight) {
  for (const Direction d : kDirections)
    for (const DataType t : {DataType::kFloat, DataType::kFloat8Fnuz, DataType::kBFloat8Fnuz, DataType::kFloat8E4m3fn,
                             DataType::kFloat8E5m2}) {
      Shape shape{{2, 8, 7, 7}, {8, 8, 3, 3}, {1, 1}};
      shape.type = t;
      Problem p = problem(d, shape);
      p.scalars = Scalars::kScale;
      if (is_fp8(t)) p.rounding = Rounding::kStochastic;
      Data data(p);
      data.args.alpha = -0.3;
      data.args.seed = 99;
      run_solver(handle(), reference_solver(d), p, data);
      EXPECT_EQ(check(p, data, ErrorClass::kExact).text, "");
    }
}

/// Offsets of the elements that the check samples, which it poisons before the run.
std::vector<std::int64_t> samples(const Problem& p, Data& data) {
  auto& out = data.output(p);
  const auto before = out;
  make_check(p)->poison(handle().stream(), &data.args);
  std::vector<std::int64_t> offsets;
  const std::size_t size = size_of(p.output().type);
  for (std::size_t i = 0; i < out.size(); i += size)
    if (std::memcmp(&out[i], &before[i], size) != 0) offsets.push_back(static_cast<std::int64_t>(i / size));
  out = before;
  return offsets;
}

/// A problem with a correct result in y.
struct Solved {
  Problem p;
  Data data;
  Solved(Direction d, const Shape& shape) : p(problem(d, shape)), data(p) {
    run_solver(handle(), reference_solver(d), p, data);
    EXPECT_EQ(check(p, data).text, "");
  }
  double get(std::int64_t i) { return dtype::load(p.output().type, data.output(p).data(), i); }
  void set(std::int64_t i, double v) { dtype::store(p.output().type, data.output(p).data(), i, v); }
  CheckResult outcome(search::Tolerance error = ErrorClass::kAccurate) { return check(p, data, error).outcome; }
  std::string text(ErrorClass error = ErrorClass::kAccurate) { return check(p, data, error).text; }

  /// The check's tolerance, taken from its report of a planted error.
  double tolerance(std::int64_t i, ErrorClass error) {
    const double right = get(i);
    set(i, right + 1e4);
    const std::string report = text(error);
    set(i, right);
    const auto at = report.find("+- ");
    EXPECT_NE(at, std::string::npos) << report;
    return at == std::string::npos ? NAN : std::stod(report.substr(at + 3));
  }
};

const Shape kPlain{{2, 16, 14, 15}, {24, 16, 3, 3}, {1, 1}};

TEST(ResultCheck, OneSampleTenTimesTheToleranceOffIsWrong) {
  for (const Direction d : kDirections)
    for (const DataType t : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBFloat16})
      for (const ErrorClass error :
           {ErrorClass::kExact, ErrorClass::kAccurate, ErrorClass::kReduced, ErrorClass::kApproximate}) {
        Shape shape = kPlain;
        shape.type = t;
        Solved s(d, shape);
        const auto offsets = samples(s.p, s.data);
        for (const std::size_t pick : {std::size_t{0}, offsets.size() / 2, offsets.size() - 1}) {
          const std::int64_t i = offsets[pick];
          const double right = s.get(i), tolerance = s.tolerance(i, error);
          EXPECT_LT(tolerance, 1) << "results are about 4: this catches nothing";
          s.set(i, right + 10 * tolerance + 1e-15);
          if (s.get(i) == right) continue;  // exact: the tolerance is below the rounding error
          EXPECT_EQ(s.outcome(error), CheckResult::kWrong);
          s.set(i, right - 0.3 * tolerance);
          EXPECT_EQ(s.outcome(error), CheckResult::kRight);
          s.set(i, right);
        }
      }
}

TEST(ResultCheck, LooserClassesAllowMore) {
  Solved s(Direction::kForward, kPlain);
  const std::int64_t i = samples(s.p, s.data)[30];
  const double exact = s.tolerance(i, ErrorClass::kExact), accurate = s.tolerance(i, ErrorClass::kAccurate),
               reduced = s.tolerance(i, ErrorClass::kReduced), approximate = s.tolerance(i, ErrorClass::kApproximate);
  EXPECT_LT(exact, 1e-6);
  EXPECT_GT(accurate, 2 * exact);
  EXPECT_GT(approximate, 30 * accurate);
  EXPECT_GT(reduced, approximate);
  const auto right = static_cast<float>(s.get(i));
  s.set(i, std::nextafter(right, INFINITY));
  EXPECT_EQ(s.outcome(ErrorClass::kExact), CheckResult::kWrong);
  EXPECT_EQ(s.outcome(ErrorClass::kAccurate), CheckResult::kRight);
}

TEST(ResultCheck, IsThreadSafe) {
  const Solved s(Direction::kForward, kPlain);
  const auto shared = make_check(s.p);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      Data own(s.p);
      own.y = s.data.y;
      own.args.y = own.y.data();
      if (i % 2) shared->poison(handle().stream(), &own.args);
      std::string text;
      EXPECT_EQ(shared->check(handle().stream(), &own.args, ErrorClass::kAccurate, text),
                i % 2 ? CheckResult::kWrong : CheckResult::kRight);
    });
  for (auto& t : threads) t.join();
}

TEST(ResultCheck, TheTextNamesTheElement) {
  Solved s(Direction::kBackwardWeights, {{1, 1, 4, 4}, {1, 1, 3, 3}, {1, 1}});
  s.set(5, s.get(5) + 100);  // row 1, column 2
  EXPECT_EQ(s.text().rfind("dw[0,0,1,2] is ", 0), 0u) << s.text();
  EXPECT_NE(s.text().find(", should be "), std::string::npos);
  Solved volume(Direction::kForward, {{1, 1, 2, 2, 2}, {1, 1, 1, 1, 1}});
  volume.set(6, 1e3);
  EXPECT_EQ(volume.text().rfind("y[0,0,1,1,0] is 1000, should be ", 0), 0u) << volume.text();
}

TEST(ResultCheck, UnwrittenOutputsAreWrong) {
  for (const Direction d : kDirections)
    for (const DataType t : {DataType::kFloat, DataType::kBFloat16, DataType::kInt8}) {
      Shape shape = kPlain;
      shape.type = t;
      shape.out = DataType::kInt32;
      Solved s(d, shape);
      const auto right = s.data.output(s.p);
      const TensorDesc& o = s.p.output();
      const std::size_t size = size_of(o.type);
      make_check(s.p)->poison(handle().stream(), &s.data.args);
      EXPECT_EQ(s.outcome(), CheckResult::kWrong) << "nothing is written";
      // All but the last column, the last channel, the last image or filter.
      for (const std::size_t dim : {std::size_t{3}, std::size_t{1}, std::size_t{0}}) {
        make_check(s.p)->poison(handle().stream(), &s.data.args);
        for (std::int64_t i = 0; i < o.count(); ++i)
          if (i / o.strides[dim] % o.lens[dim] != o.lens[dim] - 1)
            std::memcpy(&s.data.output(s.p)[static_cast<std::size_t>(i) * size],
                        &right[static_cast<std::size_t>(i) * size], size);
        EXPECT_EQ(s.outcome(), CheckResult::kWrong) << "the last of dimension " << dim << " is not written";
        s.data.output(s.p) = right;
      }
    }
}

TEST(ResultCheck, SwappedChannelsAreWrong) {
  for (const Direction d : kDirections)
    for (const std::size_t dim : {std::size_t{0}, std::size_t{1}}) {
      Solved s(d, kPlain);
      const auto right = s.data.output(s.p);
      const TensorDesc& o = s.p.output();
      for (std::int64_t i = 0; i < o.count(); ++i) {
        const std::int64_t at = i / o.strides[dim] % o.lens[dim];
        s.set(i, dtype::load(o.type, right.data(), i + ((at ^ 1) - at) * o.strides[dim]));
      }
      EXPECT_EQ(s.outcome(), CheckResult::kWrong) << "dimension " << dim;
    }
}

/// Evaluates another problem on the same memory.
void expect_wrong_when(Direction d, const Shape& shape, const char* what, const std::function<void(Problem&)>& change) {
  Solved s(d, shape);
  Problem other = s.p;
  change(other);
  run_solver(handle(), reference_solver(d), other, s.data);
  EXPECT_EQ(s.outcome(), CheckResult::kWrong) << what << ": " << s.p.key();
}

TEST(ResultCheck, MistakesOfWholeSolversAreWrong) {
  for (const Direction d : kDirections)
    for (const DataType t : {DataType::kFloat, DataType::kHalf, DataType::kInt8})
      for (const std::int64_t groups : {1, 4}) {
        Shape shape{{2, 16, 14, 15}, {24, 16 / groups, 3, 3}, {1, 1}};
        shape.type = t;
        shape.groups = groups;
        shape.out = DataType::kInt32;
        expect_wrong_when(d, shape, "no padding", [](Problem& p) { p.geometry.pad = {}; });
        expect_wrong_when(d, shape, "dilated", [](Problem& p) { p.geometry.dilation = {2, 2, 1}; });
        expect_wrong_when(d, shape, "a row of the filter is left out", [&](Problem& p) {
          if (d != Direction::kBackwardWeights)
            --p.w.lens[2];
          else
            --p.y.lens[2];
        });
        expect_wrong_when(d, shape, "a term of the sum is left out", [&](Problem& p) {
          if (d == Direction::kForward) p.x.lens[1] -= groups;
          if (d == Direction::kBackwardData) p.y.lens[1] -= groups;
          if (d == Direction::kBackwardWeights) --p.x.lens[0];
        });
        if (groups > 1)
          expect_wrong_when(d, shape, "every group reads the first",
                            [&](Problem& p) { (d == Direction::kBackwardData ? p.y : p.x).strides[1] = 0; });
      }
}

TEST(ResultCheck, MostlyEmptySumsAreStillChecked) {
  Solved s(Direction::kBackwardData, {{1, 6, 33, 33}, {6, 6, 1, 1}, {}, {8, 8}});
  EXPECT_EQ(s.outcome(), CheckResult::kRight);
  const auto full = [&](std::int64_t i) { return i % 33 % 8 == 0 && i / 33 % 33 % 8 == 0; };
  const auto offsets = samples(s.p, s.data);
  EXPECT_GT(std::count_if(offsets.begin(), offsets.end(), full), 10) << "of 64, where one in 40 is not empty";
  Data::fill(s.p.x, s.data.x, 5);
  EXPECT_EQ(s.outcome(), CheckResult::kWrong);
}

TEST(ResultCheck, TransformsDistributeErrors) {
  // One input channel is 0, so a group of outputs is exactly 0 unless rounding errors of its neighbours reach it.
  Solved s(Direction::kForward, {{1, 2, 12, 12}, {2, 1, 3, 3}, {1, 1}, {}, {}, 2});
  std::fill_n(s.data.x.begin(), s.data.x.size() / 2, static_cast<unsigned char>(0));
  run_solver(handle(), reference_solver(Direction::kForward), s.p, s.data);
  EXPECT_EQ(s.outcome(), CheckResult::kRight);
  for (std::int64_t i = 0; i < s.p.y.count() / 2; ++i) s.set(i, 1e-6);
  EXPECT_EQ(s.outcome(), CheckResult::kWrong);
  EXPECT_EQ(s.outcome(ErrorClass::kApproximate), CheckResult::kRight);
  for (const SolverBase* solver : solvers(Direction::kForward)) {
    if (solver->error_class(s.p) != ErrorClass::kAccurate) continue;
    const bool transforms = solver->info().transforms;
    EXPECT_EQ(s.outcome({*solver, s.p}), transforms ? CheckResult::kRight : CheckResult::kWrong) << solver->info().name;
  }
}

TEST(ResultCheck, SamplesAreFewWhereSumsAreLong) {
  const Problem small = problem(Direction::kForward, {{1, 2, 3, 3}, {2, 2, 1, 1}});
  Data few(small);
  EXPECT_EQ(samples(small, few).size(), 18u) << "all there are";
  const Problem usual = problem(Direction::kForward, kPlain);
  Data data(usual);
  EXPECT_EQ(samples(usual, data).size(), 64u);
  EXPECT_EQ(samples(usual, data), samples(usual, data));
  const Problem lengthy = problem(Direction::kBackwardWeights, {{2, 4, 700, 700}, {4, 4, 3, 3}, {1, 1}});
  Data much(lengthy);
  EXPECT_EQ(samples(lengthy, much).size(), 8u);
}

TEST(ResultCheck, SamplesFavourTheEndsOfEveryDimension) {
  for (const Direction d : kDirections) {
    const Problem p = problem(d, {{9, 64, 40, 50}, {96, 32, 9, 9}, {1, 1}, {}, {}, 2});
    Data data(p);
    const auto offsets = samples(p, data);
    ASSERT_EQ(offsets.size(), 64u);
    const TensorDesc& o = p.output();
    for (std::size_t dim = 0; dim < 4; ++dim)
      for (const std::int64_t end : {std::int64_t{0}, o.lens[dim] - 1}) {
        const auto at_end = [&](std::int64_t i) { return i / o.strides[dim] % o.lens[dim] == end; };
        EXPECT_GE(std::count_if(offsets.begin(), offsets.end(), at_end), 2) << "dimension " << dim << ", " << end;
      }
    const std::size_t channels = d == Direction::kBackwardWeights ? 0 : 1;
    const std::int64_t half = o.lens[channels] / 2;
    for (const std::int64_t border : {half - 1, half}) {
      const auto at_border = [&](std::int64_t i) { return i / o.strides[channels] % o.lens[channels] == border; };
      EXPECT_GE(std::count_if(offsets.begin(), offsets.end(), at_border), 1) << "group border " << border;
    }
  }
}

TEST(ResultCheck, AccumulatedOutputsAreNotPoisoned) {
  const Problem p = problem(Direction::kForward, kPlain);
  Data data(p);
  data.args.beta = 1;
  EXPECT_TRUE(samples(p, data).empty());
  EXPECT_EQ(check(p, data).outcome, CheckResult::kInconclusive);
}

TEST(ResultCheck, UninformativeDataAreInconclusive) {
  for (const Direction d : kDirections)
    for (const DataType t : {DataType::kFloat, DataType::kHalf, DataType::kBFloat16, DataType::kDouble})
      for (const double value : {static_cast<double>(NAN), static_cast<double>(INFINITY), 0.0}) {
        Shape shape = kPlain;
        shape.type = t;
        Solved s(d, shape);
        const TensorDesc& first = s.p.first_input();
        void* input = d == Direction::kBackwardData ? s.data.y.data() : s.data.x.data();
        for (std::int64_t i = 0; i < first.count(); ++i) dtype::store(t, input, i, value);
        EXPECT_EQ(s.outcome(), CheckResult::kInconclusive) << value << " whatever the result is";
        run_solver(handle(), reference_solver(d), s.p, s.data);
        EXPECT_EQ(s.outcome(), CheckResult::kInconclusive) << value;
        EXPECT_NE(s.text(), "");
      }
}

TEST(ResultCheck, HugeAndTinyDataAreInconclusive) {
  for (const double value : {1e38, 1e-30}) {
    Solved s(Direction::kForward, kPlain);
    for (std::int64_t i = 0; i < s.p.x.count(); ++i) dtype::store(DataType::kFloat, s.data.x.data(), i, value);
    for (std::int64_t i = 0; i < s.p.w.count(); ++i) dtype::store(DataType::kFloat, s.data.w.data(), i, value);
    EXPECT_EQ(s.outcome(), CheckResult::kInconclusive) << value;
  }
}

TEST(ResultCheck, OneInfinityNeverMakesAResultWrong) {
  // No output depends on the odd rows of x; a solver may multiply them by zero.
  Solved s(Direction::kForward, {{1, 8, 12, 12}, {8, 8, 1, 1}, {}, {2, 2}});
  s.data.output(s.p).assign(s.data.output(s.p).size(), 0);
  EXPECT_EQ(s.outcome(), CheckResult::kWrong);
  dtype::store(DataType::kFloat, s.data.x.data(), 12, INFINITY);
  EXPECT_EQ(s.outcome(), CheckResult::kInconclusive);
  run_solver(handle(), reference_solver(Direction::kForward), s.p, s.data);
  EXPECT_EQ(s.outcome(), CheckResult::kRight);
}

Problem with_epilogue(DataType t, bool bias, int activation) {
  Shape shape{{2, 16, 8, 9}, {24, 16, 3, 3}, {1, 1}};
  shape.type = t;
  Problem p = problem(Direction::kForward, shape);
  p.epilogue = {bias, activation};
  return p;
}

TEST(ResultCheck, ChecksBiasAndActivation) {
  for (const DataType t : {DataType::kFloat, DataType::kHalf, DataType::kBFloat16, DataType::kDouble})
    for (const bool bias : {false, true})
      for (int activation = bias ? 0 : 1; activation < 11; ++activation) {
        const Problem p = with_epilogue(t, bias, activation);
        SCOPED_TRACE(p.key());
        const auto trial = make_check(p)->private_case(handle(), SIZE_MAX);
        int served = 0;
        for (const SolverBase* solver : solvers(p)) {
          if (!solver->is_applicable(handle().device(), p)) continue;
          const auto point = solver->default_point(handle().device(), p);
          std::vector<unsigned char> workspace(solver->workspace_size(handle().device(), p, point));
          const void* args = trial->args(workspace.data(), workspace.size());
          trial->check().poison(handle().stream(), args);
          solver->build(handle().stream(), p, point)(handle().stream(), args);
          std::string text;
          EXPECT_EQ(trial->check().check(handle().stream(), args, {*solver, p}, text), CheckResult::kRight)
              << solver->info().name << ": " << text;
          ++served;
        }
        EXPECT_GE(served, 2);
      }
}

TEST(ResultCheck, RangesAcrossTheKinkOfAnActivationReachIt) {
  // Sums that cancel: 0 and its rounding errors are correct, but nothing negative after |.|.
  Problem p = problem(Direction::kForward, {{1, 2, 6, 6}, {1, 2, 1, 1}});
  p.epilogue.activation = 5;
  Data data(p);
  const float weights[] = {0.7f, -0.7f};
  std::memcpy(data.w.data(), weights, sizeof weights);
  for (std::size_t i = 0; i < 36; ++i) std::memcpy(&data.x[4 * (i + 36)], &data.x[4 * i], 4);
  const auto all = [&](float v) {
    for (std::int64_t i = 0; i < p.y.count(); ++i) dtype::store(DataType::kFloat, data.y.data(), i, v);
    return check(p, data).outcome;
  };
  EXPECT_EQ(all(0), CheckResult::kRight);
  EXPECT_EQ(all(1e-10f), CheckResult::kRight);
  EXPECT_EQ(all(-1e-10f), CheckResult::kWrong);
  EXPECT_EQ(all(1e-3f), CheckResult::kWrong);
}

TEST(ResultCheck, AnotherEpilogueIsWrong) {
  const Problem p = with_epilogue(DataType::kFloat, true, 3);
  const auto trial = make_check(p)->private_case(handle(), SIZE_MAX);
  for (const Epilogue other : {Epilogue{}, Epilogue{true, 0}, Epilogue{false, 3}, Epilogue{true, 1}}) {
    Problem changed = p;
    changed.epilogue = other;
    const SolverBase* reference = nullptr;
    for (const SolverBase* s : solvers(changed))
      if (s->info().reference) reference = s;
    const void* args = trial->args(nullptr, 0);
    reference->build(handle().stream(), changed, {})(handle().stream(), args);
    std::string text;
    EXPECT_EQ(trial->check().check(handle().stream(), args, ErrorClass::kAccurate, text), CheckResult::kWrong)
        << changed.family();
  }
}

/// Counts allocations through the handle.
struct Accounts {
  std::map<void*, std::size_t> live{};
  std::size_t most = 0;
  std::size_t bytes() const {
    return std::accumulate(live.begin(), live.end(), std::size_t{0}, [](auto sum, auto& m) { return sum + m.second; });
  }
  static void* allocate(void* self, std::size_t bytes) {
    void* p = std::malloc(bytes);
    auto& a = *static_cast<Accounts*>(self);
    a.live[p] = bytes;
    a.most = std::max(a.most, a.bytes());
    return p;
  }
  static void deallocate(void* self, void* p) {
    static_cast<Accounts*>(self)->live.erase(p);
    std::free(p);
  }
};

TEST(PrivateCase, StaysWithinItsByteLimit) {
  for (const Direction d : kDirections)
    for (const bool last : {false, true}) {
      Shape shape{{11, 8, 12, 12}, {8, 8, 3, 3}, {1, 1}};
      shape.channels_last = last;
      const Problem p = problem(d, shape);
      const std::size_t all = p.x.bytes() + p.w.bytes() + p.y.bytes(), image = (p.x.bytes() + p.y.bytes()) / 11;
      const std::map<std::size_t, std::int64_t> limits = {
          {SIZE_MAX, 11}, {all, 11}, {all - 1, 5}, {p.w.bytes() + 2 * image, 2}, {p.w.bytes() + 2 * image - 1, 1}};
      for (const auto& [limit, images] : limits) {
        Handle own("cpu", nullptr);
        Accounts accounts;
        own.set_allocator(Accounts::allocate, Accounts::deallocate, &accounts);
        {
          const auto trial = make_check(p)->private_case(own, limit);
          ASSERT_TRUE(trial) << limit;
          EXPECT_EQ(static_cast<const Problem&>(trial->problem()).n(), images);
          EXPECT_EQ(static_cast<const Problem&>(trial->problem()).y.lens[0], images);
          EXPECT_LE(accounts.most, limit);
          EXPECT_EQ(accounts.bytes(), p.w.bytes() + static_cast<std::size_t>(images) * image);
        }
        EXPECT_TRUE(accounts.live.empty());
      }
      EXPECT_FALSE(make_check(p)->private_case(handle(), p.w.bytes() + image - 1));
      EXPECT_FALSE(make_check(p)->private_case(handle(), 0));
    }
}

TEST(PrivateCase, MemoryIsFreedWhenThereIsNotEnough) {
  struct Meagre : Accounts {
    static void* allocate_two(void* self, std::size_t bytes) {
      return static_cast<Meagre*>(self)->live.size() < 2 ? Accounts::allocate(self, bytes) : nullptr;
    }
  } accounts;
  Handle own("cpu", nullptr);
  own.set_allocator(Meagre::allocate_two, Accounts::deallocate, &accounts);
  EXPECT_ANY_THROW(make_check(problem(Direction::kForward, kPlain))->private_case(own, SIZE_MAX));
  EXPECT_TRUE(accounts.live.empty());
}

TEST(PrivateCase, ChecksASolverOnItsOwnData) {
  for (const Shape& shape : shapes())
    for (const Direction d : kDirections) {
      const Problem p = problem(d, shape);
      SCOPED_TRACE(p.key());
      const auto trial = make_check(p)->private_case(handle(), SIZE_MAX);
      ASSERT_TRUE(trial);
      const void* args = trial->args(nullptr, 0);
      std::string text;
      trial->check().poison(handle().stream(), args);
      EXPECT_EQ(trial->check().check(handle().stream(), args, ErrorClass::kExact, text), CheckResult::kWrong);
      reference_solver(d).build(handle().stream(), trial->problem(), {})(handle().stream(), args);
      EXPECT_EQ(trial->check().check(handle().stream(), args, ErrorClass::kExact, text), CheckResult::kRight) << text;
    }
}

TEST(PrivateCase, ItsDataResembleRealData) {
  Shape shape{{4, 16, 64, 64}, {16, 16, 3, 3}, {1, 1}};
  for (const DataType t : {DataType::kFloat, DataType::kHalf, DataType::kInt8}) {
    shape.type = t;
    const Problem p = problem(Direction::kForward, shape);
    const auto trial = make_check(p)->private_case(handle(), SIZE_MAX);
    unsigned char workspace[16];
    const auto& args = *static_cast<const Problem::Args*>(trial->args(workspace, sizeof workspace));
    EXPECT_EQ(args.workspace, workspace);
    EXPECT_EQ(args.workspace_bytes, sizeof workspace);
    const double scale = t == DataType::kInt8 ? 16 : 1;
    double sum = 0, squares = 0, lowest = 0, highest = 0;
    std::set<double> distinct;
    for (std::int64_t i = 0; i < p.x.count(); ++i) {
      const double v = dtype::load(t, args.x, i) / scale;
      sum += v;
      squares += v * v;
      lowest = std::min(lowest, v);
      highest = std::max(highest, v);
      distinct.insert(v);
    }
    const auto n = static_cast<double>(p.x.count());
    EXPECT_NEAR(sum / n, 0, 0.04);
    EXPECT_NEAR(squares / n, 1.0 / 3, 0.02);
    EXPECT_GE(lowest, -1);
    EXPECT_LE(highest, 1);
    EXPECT_GE(distinct.size(), t == DataType::kInt8 ? 32u : 5000u);
    EXPECT_NE(std::memcmp(args.x, args.w, p.w.bytes()), 0);
  }
}

TEST(Family, IsThatOfProblemsThatDifferInSizesOnly) {
  const Problem p = problem(Direction::kForward, kPlain);
  EXPECT_EQ(p.family(), "conv fwd fp32 fp32 fp32 first,first,first 3x3 s1x1 d1x1 p plain");
  EXPECT_EQ(problem(Direction::kForward, {{7, 3, 20, 21}, {5, 3, 3, 3}, {2, 1}}).family(), p.family());
  std::set<std::string> families = {p.family()};
  const auto differs = [&](const Problem& q) {
    EXPECT_TRUE(families.insert(q.family()).second) << q.family();
    EXPECT_NE(q.hash(), p.hash());
  };
  for (const Direction d : {Direction::kBackwardData, Direction::kBackwardWeights}) differs(problem(d, kPlain));
  differs(problem(Direction::kForward, {kPlain.x, kPlain.w}));
  differs(problem(Direction::kForward, {kPlain.x, {24, 16, 3, 1}, {1, 1}}));
  differs(problem(Direction::kForward, {kPlain.x, kPlain.w, {1, 1}, {1, 2}}));
  differs(problem(Direction::kForward, {kPlain.x, kPlain.w, {1, 1}, {}, {2, 1}}));
  differs(problem(Direction::kForward, {kPlain.x, {24, 4, 3, 3}, {1, 1}, {}, {}, 4}));
  differs(problem(Direction::kForward, {kPlain.x, {32, 1, 3, 3}, {1, 1}, {}, {}, 16}));
  differs(problem(Direction::kForward, {{2, 16, 15}, {24, 16, 3}, {1}}));
  for (const DataType t : {DataType::kHalf, DataType::kInt8}) {
    Shape shape = kPlain;
    shape.type = t;
    differs(problem(Direction::kForward, shape));
  }
  Shape shape = kPlain;
  shape.channels_last = true;
  differs(problem(Direction::kForward, shape));
  shape.gap = 3;
  differs(problem(Direction::kForward, shape));
  Problem q = p;
  q.x.cast = DataType::kFloat8Fnuz;
  differs(q);
  q.rounding = Rounding::kStochastic;
  differs(q);
  q = p;
  q.epilogue.bias = true;
  differs(q);
  q.epilogue.activation = 3;
  differs(q);
  q.epilogue.bias = false;
  differs(q);
}

TEST(Family, SizesAreLogarithmsInOneOrder) {
  const Problem p = problem(Direction::kBackwardData, {{4, 8, 16, 32}, {64, 4, 1, 1}, {}, {2, 4}, {}, 2});
  EXPECT_EQ(p.log_sizes(), (std::vector<float>{2, 3, 6, 1, 4, 5}));
  EXPECT_EQ(problem(Direction::kForward, {{1, 2, 8}, {4, 2, 1}}).log_sizes(), (std::vector<float>{0, 1, 2, 0, 3}));
}

}  // namespace
}  // namespace polymio::convolution
