// Convolution calls through the C API: results against the independent reference, find, solutions,
// workspace rules, attributes, plan identity, and the status of every wrong argument.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "api.h"
#include "reference/convolution.h"
#include "reference/tolerance.h"

namespace polymio::test {
namespace {

using Bytes = std::vector<unsigned char>;

/// The direction of the plain convolution that computes a call of a plain or transposed convolution.
reference::Direction plain_direction(Direction d, bool transposed) {
  if (d == Direction::kBackwardWeights) return reference::Direction::kBackwardWeights;
  return (d == Direction::kForward) != transposed ? reference::Direction::kForward
                                                  : reference::Direction::kBackwardData;
}

reference::Tensor describe(miopenTensorDescriptor_t t, miopenDataType_t cast) {
  int rank = 0;
  expect_ok(miopenGetTensorDescriptorSize(t, &rank));
  Ints lens(static_cast<std::size_t>(rank)), strides(lens);
  miopenDataType_t type = miopenFloat;
  expect_ok(miopenGetTensorDescriptor(t, &type, lens.data(), strides.data()));
  reference::Tensor r(static_cast<reference::Type>(type), {lens.begin(), lens.end()}, {strides.begin(), strides.end()});
  r.cast = static_cast<reference::Type>(cast);
  return r;
}

/// A convolution with random data that can be checked against the reference.
struct Checked : Convolution {
  explicit Checked(miopenHandle_t handle, const Shape& s, const Types& t = {}) : Convolution(handle, s, t) {
    x_cast = t.x;
    w_cast = t.w;
    y_cast = t.y;
    randomise(describe(x, t.x), x_data, 1);
    randomise(describe(w, t.w), w_data, 2);
    randomise(describe(y, t.y), y_data, 3);
  }

  static void randomise(const reference::Tensor& t, Bytes& data, unsigned seed) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<double> real(-1, 1);
    std::uniform_int_distribution<int> integer(-9, 9);
    for (std::int64_t i = 0; i < t.space(); ++i)
      reference::store(t.type, data.data(), i, reference::is_integer(t.type) ? integer(engine) : real(engine));
  }

  /// Runs `action`, which must succeed, compares the output of direction `d` with the reference and restores
  /// the old contents.
  template <class Action>
  void expect_right(Direction d, double alpha, double beta, Action action, int line = __builtin_LINE()) {
    const testing::ScopedTrace trace("checked at line", line, "");
    const bool swap = shape.mode == miopenTranspose;
    reference::Convolution math;
    math.direction = plain_direction(d, swap);
    math.x = describe(swap ? y : x, swap ? y_cast : x_cast);
    math.w = describe(w, w_cast);
    math.y = describe(swap ? x : y, swap ? x_cast : y_cast);
    const auto filled = [&](const Ints& v, int value) {
      return v.empty() ? std::vector<std::int64_t>(shape.x.size() - 2, value)
                       : std::vector<std::int64_t>(v.begin(), v.end());
    };
    math.pad = filled(shape.pad, 0);
    math.stride = filled(shape.stride, 1);
    math.dilation = filled(shape.dilation, 1);
    math.groups = shape.groups;
    math.alpha = alpha;
    math.beta = beta;
    const Bytes first = swap ? y_data : x_data, second = w_data, third = swap ? x_data : y_data;
    const auto expected = reference::evaluate(math, {first.data(), second.data(), third.data()});
    Bytes& out = output(d);
    const Bytes before = out;
    if (beta == 0) std::fill(out.begin(), out.end(), 0xff);  // NaN in every float type: must not be read
    expect_ok(action());
    const auto c = reference::compare(reference::arithmetic(math), math.output(), out.data(), expected);
    EXPECT_TRUE(c.ok()) << c.failures << " wrong; index " << c.index << " is " << c.got << ", should be " << c.want
                        << " +- " << c.tolerance;
    std::copy(before.begin(), before.end(), out.begin());
  }

  /// Finds, then runs the first result with find's workspace.
  void expect_find_and_run_right(Direction d) {
    provide_workspace(d);
    int count = 0;
    miopenConvAlgoPerf_t perf[5];
    expect_ok(call.find(d, 5, &count, perf));
    ASSERT_GE(count, 1);
    for (int i = 0; i < count; ++i) expect_right(d, 1, 0, [&] { return call.run(d, perf[i].fwd_algo); });
  }

  miopenDataType_t x_cast, w_cast, y_cast;
};

/// A copy of a buffer whose elements are at odd addresses.
class Odd {
 public:
  explicit Odd(Bytes& buffer) : buffer_(buffer), memory_(buffer.size() + 16) {}
  void* data() { return memory_.data() + 1; }
  void load() { std::memcpy(data(), buffer_.data(), buffer_.size()); }
  void save() { std::memcpy(buffer_.data(), data(), buffer_.size()); }

 private:
  Bytes& buffer_;
  Bytes memory_;
};

nlohmann::json explain(const Call& call, Direction d) {
  miopenProblem_t problem = nullptr;
  expect_ok(miopenCreateConvProblem(&problem, call.conv, static_cast<miopenProblemDirection_t>(d)));
  expect_ok(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionX, call.x_desc));
  expect_ok(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionW, call.w_desc));
  expect_ok(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionY, call.y_desc));
  std::size_t size = 0;
  expect_ok(polymioExplain(call.handle, problem, nullptr, &size));
  std::string text(size, '\0');
  expect_ok(polymioExplain(call.handle, problem, text.data(), &size));
  expect_ok(miopenDestroyProblem(problem));
  return nlohmann::json::parse(text.c_str());
}

const Shape kShapes[] = {
    {{2, 6, 9, 8}, {8, 6, 3, 3}, {1, 1}},
    {{2, 6, 9, 8}, {8, 6, 1, 1}},
    {{1, 4, 11, 10}, {6, 2, 3, 2}, {1, 0}, {2, 3}, {2, 1}, 2},
    {{2, 5, 7, 7}, {10, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 5},
    {{2, 3, 20}, {4, 3, 5}, {2}, {2}},
    {{1, 2, 5, 6, 7}, {3, 2, 2, 3, 3}, {1, 1, 0}, {1, 2, 1}},
    {{1, 1, 2, 2}, {1, 1, 5, 5}},  // a filter larger than the input: sizes are clamped to 1
};

TEST(ConvolutionRun, FindAndRunAreRightInEveryDirection) {
  const Handle handle;
  for (const Shape& s : kShapes)
    for (const auto d : kDirections) Checked(handle, s).expect_find_and_run_right(d);
}

TEST(ConvolutionRun, NoFindIsNeeded) {
  for (const auto d : kDirections) {
    const Handle handle;
    Checked c(handle, kShapes[0]);
    for (const auto& s : c.solutions(d))
      c.expect_right(d, 1, 0, [&] {
        c.provide_workspace(d);
        return c.call.run(d, s.algorithm);
      });
  }
}

TEST(ConvolutionRun, AlphaAndBeta) {
  const Handle handle;
  const float alpha = -0.5f, beta = 0.25f, zero = 0;
  for (const Shape& s : {kShapes[0], kShapes[4], kShapes[5]})
    for (const auto d : kDirections) {
      Checked c(handle, s);
      const int algorithm = c.solutions(d).back().algorithm;
      c.provide_workspace(d);
      c.call.alpha = &alpha;
      c.expect_right(d, alpha, 0, [&] { return c.call.run(d, algorithm); });
      c.call.beta = &beta;
      c.expect_right(d, alpha, beta, [&] { return c.call.run(d, algorithm); });
      c.call.alpha = &zero;
      c.expect_right(d, 0, beta, [&] { return c.call.run(d, algorithm); });
    }
}

TEST(ConvolutionRun, ScalarsOfDoubleTensorsAreDoubles) {
  const Handle handle;
  const double alpha = 1.0 / 3, beta = 1e-9 + 1;
  for (const auto d : kDirections) {
    Checked c(handle, kShapes[0], {miopenDouble, miopenDouble, miopenDouble});
    c.call.alpha = &alpha;
    c.call.beta = &beta;
    const int algorithm = c.solutions(d).back().algorithm;
    c.expect_right(d, alpha, beta, [&] { return c.call.run(d, algorithm); });
  }
}

TEST(ConvolutionRun, EveryDataType) {
  const Handle handle;
  const Shape& s = kShapes[2];
  for (const auto t : {miopenFloat, miopenHalf, miopenBFloat16, miopenDouble, miopenFloat8_fnuz, miopenBFloat8_fnuz,
                       POLYMIO_FLOAT8_E4M3FN, POLYMIO_FLOAT8_E5M2})
    for (const auto d : kDirections) {
      SCOPED_TRACE(testing::Message() << "type " << t << " direction " << static_cast<int>(d));
      Checked c(handle, s, {t, t, t});
      expect_ok(miopenSetConvolutionAttribute(c.conv, MIOPEN_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE,
                                              miopenF8RoundingModeStandard));
      c.expect_find_and_run_right(d);
    }
  for (const auto out : {miopenInt8, miopenInt32, miopenFloat}) {
    SCOPED_TRACE(testing::Message() << "int8 to type " << out);
    Checked(handle, s, {miopenInt8, miopenInt8, out}).expect_find_and_run_right(Direction::kForward);
    Checked(handle, s, {out, miopenInt8, miopenInt8}).expect_find_and_run_right(Direction::kBackwardData);
    Checked(handle, s, {miopenInt8, out, miopenInt8}).expect_find_and_run_right(Direction::kBackwardWeights);
  }
}

TEST(ConvolutionRun, LayoutsAndStrides) {
  const Handle handle;
  const Shape s{{2, 4, 5, 6}, {6, 4, 3, 3}, {1, 1}};
  const Ints x_last = {120, 1, 24, 4}, w_last = {36, 1, 12, 4}, y_last = {180, 1, 36, 6};
  const Ints x_gaps = {600, 97, 13, 2}, w_gaps = {80, 19, 6, 2}, y_gaps = {400, 61, 11, 1};
  for (const Types& t : {Types{.x_strides = x_last, .w_strides = w_last, .y_strides = y_last},
                         Types{.x_strides = x_last}, Types{.w_strides = w_last, .y_strides = y_last},
                         Types{.x_strides = x_gaps, .w_strides = w_gaps, .y_strides = y_gaps}})
    for (const auto d : kDirections) Checked(handle, s, t).expect_find_and_run_right(d);
}

TEST(ConvolutionRun, ElementsMayBeAtAnyAddress) {
  const Handle handle;
  for (const miopenDataType_t type : {miopenFloat, miopenHalf, miopenBFloat16, miopenDouble})
    for (const auto d : kDirections)
      for (const double beta : {0.0, -0.5}) {
        Checked c(handle, kShapes[0], {type, type, type});
        const auto solutions = c.solutions(d);
        c.provide_workspace(d);
        Odd x(c.x_data), w(c.w_data), y(c.y_data);
        Call odd = c.call;
        odd.x = x.data();
        odd.w = w.data();
        odd.y = y.data();
        const double wide[] = {1, beta};
        const float narrow[] = {1, static_cast<float>(beta)};
        odd.alpha = type == miopenDouble ? static_cast<const void*>(&wide[0]) : &narrow[0];
        odd.beta = type == miopenDouble ? static_cast<const void*>(&wide[1]) : &narrow[1];
        const auto on_odd = [&](const std::function<miopenStatus_t()>& call) {
          for (Odd* o : {&x, &w, &y}) o->load();
          const miopenStatus_t status = call();
          for (Odd* o : {&x, &w, &y}) o->save();
          return status;
        };
        c.expect_right(d, 1, beta, [&] { return on_odd([&] { return odd.run(d, solutions[0].algorithm); }); });
        if (beta != 0) continue;  // immediate mode has neither alpha nor beta
        for (const auto& s : solutions)
          c.expect_right(d, 1, 0, [&] { return on_odd([&] { return odd.immediate(d, s.solution_id); }); });
        int count = 0;
        miopenConvAlgoPerf_t perf[5];
        expect_ok(odd.find(d, 5, &count, perf));
      }
}

TEST(ConvolutionRun, TransposedModeSwapsTheOperands) {
  const Handle handle;
  const Shape shapes[] = {
      {{2, 6, 5, 4}, {6, 4, 3, 3}, {1, 1}, {2, 2}, {}, 1, miopenTranspose, {1, 0}},
      {{1, 6, 4, 4}, {6, 2, 2, 3}, {0, 1}, {3, 1}, {1, 2}, 3, miopenTranspose},
      {{2, 3, 9}, {3, 5, 4}, {1}, {2}, {}, 1, miopenTranspose},
  };
  for (const Shape& s : shapes)
    for (const auto d : kDirections) {
      Checked(handle, s).expect_find_and_run_right(d);
      Checked c(handle, s);
      for (const auto& solution : c.solutions(d)) {
        c.provide_workspace(d);
        c.expect_right(d, 1, 0, [&] { return c.call.immediate(d, solution.solution_id); });
      }
    }
}

TEST(ConvolutionRun, TransposedForwardWithScalars) {
  const Handle handle;
  const float alpha = 2, beta = -1;
  Checked c(handle, {{1, 6, 4, 4}, {6, 2, 2, 3}, {}, {2, 1}, {}, 1, miopenTranspose});
  c.call.alpha = &alpha;
  c.call.beta = &beta;
  const int algorithm = c.solutions(Direction::kForward).back().algorithm;
  c.expect_right(Direction::kForward, alpha, beta, [&] { return c.call.run(Direction::kForward, algorithm); });
}

TEST(ConvolutionRun, DeprecatedModesWork) {
  const Handle handle;
  for (const auto mode : {miopenGroupConv, miopenDepthwise}) {
    Checked c(handle, {{1, 4, 6, 6}, {8, 1, 3, 3}, {}, {}, {}, 4, mode});
    c.expect_find_and_run_right(Direction::kForward);
  }
}

TEST(ConvolutionRun, CastTypesRoundTheInputs) {
  const Handle handle;
  for (const auto d : kDirections) {
    Checked c(handle, kShapes[0]);
    expect_ok(miopenSetConvolutionAttribute(c.conv, MIOPEN_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE,
                                            miopenF8RoundingModeStandard));
    c.x_cast = miopenFloat8_fnuz;
    c.w_cast = miopenBFloat8_fnuz;
    c.y_cast = POLYMIO_FLOAT8_E4M3FN;
    expect_ok(miopenSetTensorCastType(c.x, c.x_cast));
    expect_ok(miopenSetTensorCastType(c.w, c.w_cast));
    expect_ok(miopenSetTensorCastType(c.y, c.y_cast));
    c.expect_find_and_run_right(d);
  }
}

TEST(ConvolutionImmediate, EverySolutionIsRightCompiledOrNot) {
  for (const Shape& s : kShapes)
    for (const auto d : kDirections) {
      const Handle handle;
      Checked c(handle, s);
      for (const auto& solution : c.solutions(d)) {
        std::size_t bytes = 99;
        expect_ok(c.call.solution_workspace(d, solution.solution_id, &bytes));
        EXPECT_EQ(bytes, solution.workspace_size);
        Bytes workspace(bytes);
        c.call.workspace = bytes ? workspace.data() : nullptr;
        c.call.workspace_bytes = bytes;
        c.expect_right(d, 1, 0, [&] { return c.call.immediate(d, solution.solution_id); });
        expect_ok(c.call.compile(d, solution.solution_id));
        c.expect_right(d, 1, 0, [&] { return c.call.immediate(d, solution.solution_id); });
      }
    }
}

bool is_reference(std::uint64_t id) {
  const char* name = "";
  expect_ok(polymioGetSolutionName(id, &name));
  return std::string(name).find("Reference") != std::string::npos;
}

TEST(ConvolutionSolutions, AtMostTenFastestFirstAndTruncated) {
  const Handle handle;
  for (const auto d : kDirections) {
    const Checked c(handle, kShapes[0]);
    std::size_t count = 0;
    expect_ok(c.call.solution_count(d, &count));
    ASSERT_GE(count, 1u);
    ASSERT_LE(count, 10u);
    const auto all = c.solutions(d);
    EXPECT_EQ(all.size(), count);
    std::set<std::uint64_t> ids;
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_GT(all[i].solution_id, 0u);
      EXPECT_GT(all[i].time, 0);
      EXPECT_TRUE(ids.insert(all[i].solution_id).second);
      EXPECT_TRUE(i == 0 || all[i - 1].time <= all[i].time || is_reference(all[i].solution_id));
      EXPECT_TRUE(i + 1 == all.size() || !is_reference(all[i].solution_id)) << "the reference solver is the last";
    }
    std::vector<miopenConvSolution_t> few(count + 1);
    few[1].solution_id = 12345;
    std::size_t got = 99;
    expect_ok(c.call.solutions(d, 1, &got, few.data()));
    EXPECT_EQ(got, 1u);
    EXPECT_EQ(few[0].solution_id, all[0].solution_id);
    EXPECT_EQ(few[1].solution_id, 12345u) << "wrote more than was asked for";
    expect_ok(c.call.solutions(d, 0, &got, few.data()));
    EXPECT_EQ(got, 0u);
    expect_ok(c.call.solutions(d, 10, nullptr, nullptr));
    expect_ok(c.call.solutions(d, 10, &got, nullptr));
    EXPECT_EQ(got, count);
    expect_ok(c.call.solutions(d, 10, nullptr, few.data()));
  }
}

TEST(ConvolutionFind, ResultsAreSortedDistinctAndTruncated) {
  const Handle handle;
  for (const auto d : kDirections) {
    Checked c(handle, {{2, 8, 12, 12}, {8, 8, 3, 3}, {1, 1}});
    c.provide_workspace(d);
    miopenConvAlgoPerf_t perf[8] = {};
    int count = 0;
    expect_ok(c.call.find(d, 7, &count, perf));
    ASSERT_GE(count, 1);
    ASSERT_LE(count, 5) << "one for each family";
    std::set<int> algorithms;
    for (int i = 0; i < count; ++i) {
      EXPECT_GT(perf[i].time, 0);
      EXPECT_LE(perf[i].memory, c.call.workspace_bytes);
      EXPECT_TRUE(algorithms.insert(perf[i].fwd_algo).second);
      EXPECT_TRUE(i == 0 || i + 1 == count || perf[i - 1].time <= perf[i].time);
    }
    miopenConvAlgoPerf_t one[2] = {};
    one[1].memory = 77;
    expect_ok(c.call.find(d, 1, &count, one));
    EXPECT_EQ(count, 1);
    EXPECT_EQ(one[0].fwd_algo, perf[0].fwd_algo);
    EXPECT_EQ(one[1].memory, 77u) << "wrote more than was asked for";
    for (const int wrong : {0, -1}) {
      const std::string number = std::to_string(wrong);
      expect_bad(c.call.find(d, wrong, &count, perf), {"requestAlgoCount", number.c_str(), "at least 1"});
    }
  }
}

TEST(ConvolutionFind, TheDatabaseAnswersTheSecondTime) {
  const Shape s{{1, 7, 13, 12}, {9, 7, 3, 3}};
  miopenConvAlgoPerf_t first[5], second[5];
  int first_count = 0, second_count = 0;
  for (const auto d : kDirections) {
    const Handle a, b;
    Checked c(a, s), other(b, s);
    c.provide_workspace(d);
    other.provide_workspace(d);
    expect_ok(miopenSetConvolutionFindMode(c.conv, miopenConvolutionFindModeHybrid));
    expect_ok(miopenSetConvolutionFindMode(other.conv, miopenConvolutionFindModeHybrid));
    expect_ok(c.call.find(d, 5, &first_count, first));
    EXPECT_EQ(explain(other.call, d)["source"], "database");
    const Bytes before = other.output(d);
    expect_ok(other.call.find(d, 5, &second_count, second));
    EXPECT_EQ(before, other.output(d)) << "nothing needs to run";
    ASSERT_EQ(second_count, 1) << "a hit answers with the best one";
    EXPECT_EQ(first[0].fwd_algo, second[0].fwd_algo);
    EXPECT_NEAR(first[0].time, second[0].time, 1e-3f * first[0].time);
    std::size_t bytes = 0;
    expect_ok(other.call.workspace_size(d, &bytes));
    EXPECT_EQ(bytes, second[0].memory) << "and its workspace is the query's answer";
  }
}

TEST(ConvolutionWorkspace, TooLittleIsBadWithBothNumbers) {
  const Handle handle;
  int with_workspace = 0;
  for (const Shape& s : kShapes)
    for (const auto d : kDirections) {
      Checked c(handle, s);
      std::size_t most = 0, bytes = 0;
      expect_ok(c.call.workspace_size(d, &bytes));
      bool free = false;
      for (const auto& solution : c.solutions(d)) {
        most = std::max(most, solution.workspace_size);
        free = free || solution.workspace_size == 0;
        if (solution.workspace_size == 0) continue;
        ++with_workspace;
        Bytes workspace(solution.workspace_size);
        c.call.workspace = workspace.data();
        c.call.workspace_bytes = solution.workspace_size - 1;
        const std::string need = std::to_string(solution.workspace_size), have = std::to_string(c.call.workspace_bytes);
        expect_bad(c.call.immediate(d, solution.solution_id), {"workspace", need.c_str(), have.c_str()});
        c.call.workspace = nullptr;
        c.call.workspace_bytes = solution.workspace_size;
        expect_bad(c.call.immediate(d, solution.solution_id), {"workspace", need.c_str()});
      }
      EXPECT_LE(bytes, most);
      expect_ok(miopenSetConvolutionFindMode(c.conv, miopenConvolutionFindModeNormal));
      expect_ok(c.call.workspace_size(d, &bytes));
      EXPECT_EQ(bytes, most) << "enough for every solver that NORMAL measures";
      EXPECT_TRUE(free) << "a solver without workspace always exists";
    }
  EXPECT_GT(with_workspace, 0) << "no solver needs workspace: the rule goes untested";
}

TEST(ConvolutionWorkspace, AFamilyThatNeedsMoreIsBadWithBothNumbers) {
  const Handle handle;
  int tried = 0;
  for (const Shape& s : kShapes)
    for (const auto d : kDirections) {
      Checked c(handle, s);
      std::map<int, std::size_t> least;
      for (const auto& solution : c.solutions(d)) {
        const auto at = least.emplace(solution.algorithm, solution.workspace_size).first;
        at->second = std::min(at->second, solution.workspace_size);
      }
      for (const auto& [algorithm, best] : least) {
        if (best == 0) continue;
        ++tried;
        expect_bad(c.call.run(d, algorithm), {"workspace", "0 bytes were given, at least "});
        // An algorithm may run with less than the workspace of its best point; the text gives the minimum.
        const std::string text = polymioGetLastError();
        const std::size_t need = std::stoull(text.substr(text.find("at least ") + 9));
        ASSERT_GT(need, 0u);
        EXPECT_LE(need, best);
        const std::string number = std::to_string(need), have = std::to_string(need - 1) + " bytes";
        Bytes workspace(need);
        c.call.workspace = workspace.data();
        c.call.workspace_bytes = need - 1;
        expect_bad(c.call.run(d, algorithm), {"workspace", have.c_str(), number.c_str()});
        c.call.workspace_bytes = need;
        c.expect_right(d, 1, 0, [&, family = algorithm] { return c.call.run(d, family); });
        c.call.workspace = nullptr;
        c.call.workspace_bytes = 0;
      }
    }
  EXPECT_GT(tried, 0) << "no family needs workspace: the rule goes untested";
}

TEST(ConvolutionWorkspace, NoneIsEnoughForFindAndRun) {
  const Handle handle;
  for (const Shape& s : kShapes)
    for (const auto d : kDirections) {
      Checked c(handle, s);
      int count = 0;
      miopenConvAlgoPerf_t perf[5];
      expect_ok(c.call.find(d, 5, &count, perf));
      ASSERT_GE(count, 1);
      for (int i = 0; i < count; ++i) EXPECT_EQ(perf[i].memory, 0u);
      c.expect_right(d, 1, 0, [&] { return c.call.run(d, perf[0].fwd_algo); });
    }
}

TEST(ConvolutionPlans, StridesArePartOfTheIdentity) {
  const Handle handle;
  const Shape s{{2, 4, 6, 6}, {4, 4, 3, 3}};
  // Equal sizes and outer strides: only inner strides differ.
  Checked packed(handle, s), padded(handle, s, {.x_strides = {144, 36, 6, 1}, .y_strides = {64, 16, 4, 1}}),
      wide(handle, s, {.x_strides = {200, 36, 6, 1}}), mixed(handle, s, {.x_strides = {144, 36, 1, 6}});
  for (int round = 0; round < 3; ++round)
    for (Checked* c : {&packed, &padded, &wide, &mixed})
      for (const auto d : kDirections) {
        const auto solution = c->solutions(d)[0];
        c->provide_workspace(d);
        c->expect_right(d, 1, 0, [&] { return c->call.immediate(d, solution.solution_id); });
        c->expect_right(d, 1, 0, [&] { return c->call.run(d, solution.algorithm); });
      }
}

TEST(ConvolutionPlans, OneDescriptorMayChangeBetweenCalls) {
  const Handle handle;
  for (const int pad : {0, 1, 0, 2, 1}) {
    Checked c(handle, {{1, 3, 6, 6}, {3, 3, 3, 3}, {pad, pad}});
    const auto solution = c.solutions(Direction::kForward)[0];
    c.provide_workspace(Direction::kForward);
    c.expect_right(Direction::kForward, 1, 0,
                   [&] { return c.call.immediate(Direction::kForward, solution.solution_id); });
  }
}

TEST(ConvolutionAttributes, DeterministicRestrictsEveryAnswer) {
  const Handle handle;
  for (const auto d : kDirections) {
    Checked c(handle, {{2, 8, 10, 10}, {8, 8, 3, 3}});
    expect_ok(miopenSetConvolutionAttribute(c.conv, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 1));
    const auto explained = explain(c.call, d);
    for (const auto& s : explained["solvers"]) {
      EXPECT_TRUE(!s["applicable"] || s["deterministic"]) << s;
      EXPECT_TRUE(s["deterministic"] || !s["reason"].get<std::string>().empty()) << s;
    }
    c.provide_workspace(d);
    for (const auto& s : c.solutions(d)) {
      expect_ok(c.call.immediate(d, s.solution_id));
      const Bytes once = c.output(d);
      for (int i = 0; i < 5; ++i) {
        expect_ok(c.call.immediate(d, s.solution_id));
        ASSERT_EQ(once, c.output(d));
      }
    }
  }
}

TEST(ConvolutionAttributes, MathModesAdmitMoreAndMore) {
  const Handle handle;
  const Checked c(handle, {{2, 16, 12, 12}, {16, 16, 3, 3}, {1, 1}});
  const std::vector<std::string> classes = {"exact", "accurate", "reduced", "approximate"};
  for (const auto d : kDirections) {
    std::set<std::string> before;
    for (int mode = polymioMathStrict; mode <= polymioMathAny; ++mode) {
      expect_ok(polymioSetConvolutionMathMode(c.conv, static_cast<polymioMathMode_t>(mode)));
      std::set<std::string> now;
      const auto explained = explain(c.call, d);
      for (const auto& s : explained["solvers"]) {
        if (!s["applicable"]) continue;
        now.insert(s["name"]);
        const auto at = std::find(classes.begin(), classes.end(), s["error_class"].get<std::string>());
        EXPECT_LE(at - classes.begin(), mode) << s;
      }
      EXPECT_FALSE(now.empty());
      EXPECT_TRUE(std::includes(now.begin(), now.end(), before.begin(), before.end()));
      before = now;
      EXPECT_EQ(c.solutions(d).size(), std::min<std::size_t>(now.size(), 10));
    }
  }
}

TEST(ConvolutionStatus, UnknownAndForeignSolutionIdsAreBad) {
  const Handle handle;
  Checked c(handle, kShapes[0]);
  for (const auto d : kDirections)
    for (const auto other : kDirections) {
      if (d == other) continue;
      const std::uint64_t foreign = c.solutions(other)[0].solution_id;
      for (const std::uint64_t id : {std::uint64_t{0}, std::uint64_t{999999}, UINT64_MAX, foreign}) {
        const std::string number = std::to_string(id);
        const char* why = id == foreign ? "does not apply" : "unknown";
        std::size_t bytes = 0;
        expect_bad(c.call.solution_workspace(d, id, &bytes), {number.c_str(), why});
        expect_bad(c.call.compile(d, id), {number.c_str(), why});
        expect_bad(c.call.immediate(d, id), {number.c_str(), why});
      }
    }
}

TEST(ConvolutionStatus, UnknownAlgorithmsAreBadAndAbsentOnesNotImplemented) {
  const Handle handle;
  Checked c(handle, kShapes[0]);
  for (const auto d : kDirections) {
    std::set<int> available;
    for (const auto& s : c.solutions(d)) available.insert(s.algorithm);
    for (const int bad : {6, 7}) {
      const std::string number = "algorithm " + std::to_string(bad);
      expect_bad(c.call.run(d, bad), {number.c_str(), "GEMM", "Winograd"});
    }
    for (const int algorithm : {0, 1, 2, 3, 5}) {
      if (available.count(algorithm)) continue;
      expect_error(c.call.run(d, algorithm), miopenStatusNotImplemented, {"no solver"});
    }
    EXPECT_LT(available.size(), 5u) << "no family is absent: the status above goes untested";
  }
  const Direction d = Direction::kBackwardData;
  c.provide_workspace(d);
  std::fill(c.x_data.begin(), c.x_data.end(), 0xff);
  const auto wanted = c.call.run(d, miopenConvolutionBwdDataAlgoGEMM);
  const Bytes by_gemm = c.x_data;
  std::fill(c.x_data.begin(), c.x_data.end(), 0xff);
  EXPECT_EQ(c.call.run(d, miopenTransposeBwdDataAlgoGEMM), wanted) << "the deprecated name of GEMM";
  EXPECT_EQ(c.x_data, by_gemm);
}

/// Makes every call of a direction and expects each to fail with BadParm and a text that contains `part`.
void expect_all_bad(const Call& call, Direction d, const char* part, bool buffers_matter = true) {
  SCOPED_TRACE(testing::Message() << "direction " << static_cast<int>(d) << ", " << part);
  std::size_t size = 0;
  int count = 0;
  miopenConvAlgoPerf_t perf[1];
  miopenConvSolution_t solution[1];
  const std::uint64_t id = static_cast<std::uint64_t>(d) + 1;
  if (!buffers_matter) {
    expect_bad(call.find(d, 1, &count, perf), {part});
    expect_bad(call.run(d, 1), {part});
    expect_bad(call.immediate(d, id), {part});
    return;
  }
  expect_bad(call.workspace_size(d, &size), {part});
  expect_bad(call.find(d, 1, &count, perf), {part});
  expect_bad(call.run(d, 1), {part});
  expect_bad(call.solution_count(d, &size), {part});
  expect_bad(call.solutions(d, 1, &size, solution), {part});
  expect_bad(call.solution_workspace(d, id, &size), {part});
  expect_bad(call.compile(d, id), {part});
  expect_bad(call.immediate(d, id), {part});
}

TEST(ConvolutionStatus, NullArgumentsAreNamed) {
  const Handle handle;
  Checked c(handle, kShapes[0]);
  const TensorDescriptor object;
  const miopenTensorDescriptor_t unset = object;
  for (const auto d : kDirections) {
    const auto with = [&](auto member, auto value) {
      Call call = c.call;
      call.*member = value;
      return call;
    };
    expect_all_bad(with(&Call::handle, nullptr), d, "handle is null");
    expect_all_bad(with(&Call::conv, nullptr), d, "convolution descriptor is null");
    expect_all_bad(with(&Call::x_desc, nullptr), d, "descriptor of x is null");
    expect_all_bad(with(&Call::w_desc, nullptr), d, "descriptor of w is null");
    expect_all_bad(with(&Call::y_desc, nullptr), d, "descriptor of y is null");
    expect_all_bad(with(&Call::x_desc, unset), d, "descriptor of x has not been set");
    expect_all_bad(with(&Call::w_desc, unset), d, "descriptor of w has not been set");
    expect_all_bad(with(&Call::y_desc, unset), d, "descriptor of y has not been set");
    expect_all_bad(with(&Call::x, nullptr), d, "buffer of x is null", false);
    expect_all_bad(with(&Call::w, nullptr), d, "buffer of w is null", false);
    expect_all_bad(with(&Call::y, nullptr), d, "buffer of y is null", false);
    expect_bad(with(&Call::alpha, nullptr).run(d, 1), {"alpha is null", "float"});
    expect_bad(with(&Call::beta, nullptr).run(d, 1), {"beta is null", "float"});
    int count = 0;
    miopenConvAlgoPerf_t perf[1];
    expect_bad(c.call.find(d, 1, nullptr, perf), {"returnedAlgoCount is null"});
    expect_bad(c.call.find(d, 1, &count, nullptr), {"perfResults is null"});
    expect_bad(c.call.workspace_size(d, nullptr), {"workSpaceSize is null"});
    expect_bad(c.call.solution_count(d, nullptr), {"solutionCount is null"});
    expect_bad(c.call.solution_workspace(d, c.solutions(d)[0].solution_id, nullptr), {"workSpaceSize is null"});
  }
}

TEST(ConvolutionStatus, ForeignObjectsAreNamed) {
  const Handle handle;
  Checked c(handle, kShapes[0]);
  const auto d = Direction::kForward;
  Call call = c.call;
  call.handle = reinterpret_cast<miopenHandle_t>(c.call.conv);
  expect_all_bad(call, d, "not a live handle");
  call = c.call;
  call.conv = reinterpret_cast<miopenConvolutionDescriptor_t>(c.call.x_desc);
  expect_all_bad(call, d, "not a live convolution descriptor");
  call = c.call;
  call.x_desc = reinterpret_cast<miopenTensorDescriptor_t>(c.call.conv);
  expect_all_bad(call, d, "not a live tensor descriptor");
}

TEST(ConvolutionStatus, TensorsThatDoNotFitAreNamedWithNumbers) {
  const Handle handle;
  Checked c(handle, kShapes[0]);  // x 2 6 9 8, w 8 6 3 3, y 2 8 9 8
  const struct {
    miopenTensorDescriptor_t Call::*tensor;
    miopenDataType_t type;
    Ints lens;
    const char* part;
  } cases[] = {
      {&Call::y_desc, miopenFloat, {3, 8, 9, 8}, "batch 3"},
      {&Call::y_desc, miopenFloat, {2, 7, 9, 8}, "y has 7 channels"},
      {&Call::y_desc, miopenFloat, {2, 8, 10, 8}, "y has size 10 in spatial dimension 0"},
      {&Call::y_desc, miopenFloat, {2, 8, 9, 1}, "y has size 1 in spatial dimension 1"},
      {&Call::x_desc, miopenFloat, {2, 5, 9, 8}, "x has 5"},
      {&Call::w_desc, miopenFloat, {8, 5, 3, 3}, "w has 5 channels"},
      {&Call::w_desc, miopenFloat, {9, 6, 3, 3}, "w has 9 filters"},
      {&Call::w_desc, miopenFloat, {8, 6, 3}, "w has 3"},
      {&Call::x_desc, miopenFloat, {2, 6, 9}, "rank 3"},
      {&Call::x_desc, miopenHalf, {2, 6, 9, 8}, "x fp16"},
      {&Call::w_desc, miopenInt8, {8, 6, 3, 3}, "int8"},
      {&Call::y_desc, miopenInt32, {2, 8, 9, 8}, "int32"},
      {&Call::x_desc, miopenInt64, {2, 6, 9, 8}, "int64"},
  };
  for (const auto& bad : cases)
    for (const auto d : kDirections) {
      Call call = c.call;
      const Tensor replacement(bad.type, bad.lens);
      call.*bad.tensor = replacement;
      expect_all_bad(call, d, bad.part);
    }
}

TEST(ConvolutionStatus, GroupsAndDimensionsThatDoNotFit) {
  const Handle handle;
  Checked c(handle, kShapes[0]);
  for (const auto d : kDirections) {
    for (const auto& [groups, part] : {std::pair{0, "0 was given"}, {-1, "-1 was given"}, {4, "group count 4"}}) {
      expect_ok(miopenSetConvolutionGroupCount(c.conv, groups));
      expect_all_bad(c.call, d, part);
    }
    expect_ok(miopenSetConvolutionGroupCount(c.conv, 2));
    expect_all_bad(c.call, d, "3 are needed");
    const ConvolutionDescriptor other;
    Call call = c.call;
    call.conv = other;
    const Ints zero(4, 0), one(4, 1);
    for (const int dims : {0, 4}) {
      expect_ok(miopenInitConvolutionNdDescriptor(other, dims, zero.data(), one.data(), one.data(), miopenConvolution));
      expect_all_bad(call, d, "1 to 3");
    }
    expect_ok(miopenInitConvolutionNdDescriptor(other, 3, zero.data(), one.data(), one.data(), miopenConvolution));
    expect_all_bad(call, d, "rank 5");
  }
}

TEST(ConvolutionStatus, VectorisedLayoutsAreNotImplemented) {
  const Handle handle;
  Checked c(handle, {{1, 8, 4, 4}, {8, 8, 1, 1}}, {miopenInt8, miopenInt8, miopenInt32});
  const TensorDescriptor x;
  const int lens[] = {1, 32, 4, 4};
  expect_ok(miopenSetNdTensorDescriptorWithLayout(x, miopenInt8, miopenTensorNCHWc4, lens, 4));
  c.call.x_desc = x;
  std::size_t bytes = 0;
  for (const auto d : kDirections)
    expect_error(c.call.workspace_size(d, &bytes), miopenStatusNotImplemented, {"vectorised"});
}

TEST(ConvolutionStatus, AHandleStaysUsableAfterErrors) {
  const Handle handle;
  Checked c(handle, kShapes[0]);
  for (int i = 0; i < 3; ++i) {
    expect_bad(c.call.immediate(Direction::kForward, 999999), {"999999"});
    expect_bad(c.call.run(Direction::kForward, 7), {"algorithm 7"});
    c.expect_find_and_run_right(Direction::kForward);
  }
}

TEST(ConvolutionApi, AnOutputThatOverlapsItselfIsRefused) {
  Handle handle;
  TensorDescriptor x, w, y;
  ConvolutionDescriptor conv;
  expect_ok(miopenSet4dTensorDescriptor(x, miopenFloat, 2, 3, 4, 4));
  expect_ok(miopenSet4dTensorDescriptor(w, miopenFloat, 5, 3, 1, 1));
  expect_ok(miopenSet4dTensorDescriptorEx(y, miopenFloat, 2, 5, 4, 4, 1, 1, 1, 1));
  size_t bytes = 0;
  expect_bad(miopenConvolutionForwardGetWorkSpaceSize(handle, w, x, conv, y, &bytes), {"overlaps itself", "stride 1"});
}

TEST(ConvolutionApi, AnAlgorithmWithoutSolverNamesThoseThereAre) {
  Handle handle;
  TensorDescriptor t;
  ConvolutionDescriptor conv;
  expect_ok(miopenSet4dTensorDescriptor(t, miopenFloat, 1, 1, 1, 1));
  const float one = 1, zero = 0, x = 2, dy = 3;
  float dw = 0;
  const auto fft = static_cast<miopenConvBwdWeightsAlgorithm_t>(miopenConvolutionFwdAlgoFFT);
  expect_error(miopenConvolutionBackwardWeights(handle, &one, t, &dy, t, &x, conv, fft, &zero, t, &dw, nullptr, 0),
               miopenStatusNotImplemented, {"no solver has the algorithm FFT", "Available: ", "GEMM"});
}

}  // namespace
}  // namespace polymio::test
