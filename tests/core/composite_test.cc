// Composites of fake solvers: order, arguments, workspace, tune points, refusals, sums.
// SPDX-License-Identifier: MIT
#include "core/composite.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/handle.h"
#include "core/problem_text.h"

namespace polymio {
namespace {

/// The problem of steps and composites: the steps write down what they did.
struct FakeProblem final : ProblemOf<FakeProblem> {
  struct Args {
    std::string* log = nullptr;
    void* workspace = nullptr;
    void* result = nullptr;
  };
  enum class Answer : int { kTaken, kRefused };
  std::size_t scratch = 0;
  Answer answer = Answer::kTaken;

  auto fields() const { return std::tie(answer); }
  std::string key() const override { return "fake"; }
  std::string family() const override { return key(); }
  std::vector<float> log_sizes() const override { return {}; }
  double work() const override { return 1; }
};
using Args = FakeProblem::Args;

/// Writes its name and point to the log, and a mark to the result.
class FakeSolver final : public Solver<FakeProblem> {
 public:
  FakeSolver(const char* name, double us, ErrorClass error, int knobs)
      : Solver({.name = name}), us_(us), error_(error), knobs_(knobs) {}
  Verdict is_applicable(const DeviceInfo&, const FakeProblem& p) const override {
    POLYMIO_REQUIRE(p.answer == FakeProblem::Answer::kTaken, "the step refuses");
    return {};
  }
  ErrorClass error_class(const FakeProblem&) const override { return error_; }
  std::size_t workspace_size(const DeviceInfo&, const FakeProblem& p, const TunePoint& t) const override {
    return p.scratch * (t.empty() ? 1 : static_cast<std::size_t>(t[0]));
  }
  double estimate(const DeviceInfo&, const FakeProblem&, const TunePoint&) const override { return us_; }
  TuneSpace tune_space(const DeviceInfo&, const FakeProblem&) const override {
    return TuneSpace(static_cast<std::size_t>(knobs_), Knob{info().name, {1, 2, 3}});
  }
  bool is_valid(const DeviceInfo&, const FakeProblem&, const TunePoint& t) const override {
    return t.size() == static_cast<std::size_t>(knobs_) && (t.empty() || t[0] != 3);
  }
  TunePoint default_point(const DeviceInfo&, const FakeProblem&) const override {
    return TunePoint(static_cast<std::size_t>(knobs_), 1);
  }
  std::vector<KernelSpec> kernel_specs(const DeviceInfo&, const FakeProblem&, const TunePoint& t) const override {
    return {{info().name, to_text(t), {}}};
  }
  Invoker build(Stream&, const FakeProblem&, const TunePoint& t) const override {
    return [name = std::string(info().name), t](Stream&, const Args& a) {
      *a.log += name + "(" + to_text(t) + ") ";
      if (a.result) *static_cast<char*>(a.result) = name[0];
    };
  }

 private:
  double us_;
  ErrorClass error_;
  int knobs_;
};

const FakeSolver kFirst("first", 1, ErrorClass::kExact, 1), kSecond("second", 2, ErrorClass::kReduced, 0),
    kThird("third", 4, ErrorClass::kAccurate, 2);

/// Three steps: the first writes to a buffer, the second to another one, the third to the result.
class Chain final : public Composite {
 public:
  Chain() : Composite({.name = "chain"}) {}
  bool second_refuses = false, has_steps = true;

 private:
  Verdict steps(const DeviceInfo&, const ProblemBase&, Steps& to) const override {
    POLYMIO_REQUIRE(has_steps, "nothing to do");
    FakeProblem small, large;
    small.scratch = 100;
    large.scratch = 1000;
    if (second_refuses) large.answer = FakeProblem::Answer::kRefused;
    const WorkspaceBuffer a = to.buffer(10), b = to.buffer(300);
    to.add<Args>(
        kFirst, small,
        [a](const Args& all) {
          return Args{all.log, all.workspace, a.in(all.workspace)};
        },
        1);
    to.add<Args>(kSecond, large, [b](const Args& all) { return Args{all.log, all.workspace, b.in(all.workspace)}; });
    to.add(kThird, small, 2);
    return {};
  }
};

const DeviceInfo& cpu() { return devices()[0]; }

TEST(Composite, StepsRunInOrderOnBuffersBehindTheScratch) {
  Handle handle("cpu", nullptr);
  const Chain chain;
  const FakeProblem p;
  // The scratch of the largest step, then buffers at multiples of 256.
  ASSERT_EQ(chain.workspace_size(cpu(), p, {2, 1, 1}), 1024u + 256 + 300);
  ASSERT_EQ(chain.workspace_size(cpu(), p, {13, 1, 1}), 1536u + 256 + 300) << "a step's scratch depends on its point";
  const AnyInvoker invoke = chain.build(handle.stream(), p, {2, 1, 3});
  std::vector<char> workspace(1024 + 256 + 300, '-');
  std::string log;
  char result = '-';
  const Args args{&log, workspace.data(), &result};
  invoke(handle.stream(), &args);
  EXPECT_EQ(log, "first(2) second() third(1,3) ");
  EXPECT_EQ(workspace[1024], 'f');
  EXPECT_EQ(workspace[1024 + 256], 's');
  EXPECT_EQ(std::count(workspace.begin(), workspace.end(), '-'), 1024 + 256 + 300 - 2);
  EXPECT_EQ(result, 't');
}

TEST(Composite, TheFirstRefusalOfAStepRefuses) {
  Chain chain;
  EXPECT_TRUE(chain.is_applicable(cpu(), FakeProblem()));
  chain.second_refuses = true;
  EXPECT_EQ(chain.is_applicable(cpu(), FakeProblem()).text(), "the step refuses");
  chain.has_steps = false;
  EXPECT_EQ(chain.is_applicable(cpu(), FakeProblem()).text(), "nothing to do");
}

TEST(Composite, AnswersForAllOfItsSteps) {
  const Chain chain;
  const FakeProblem p;
  EXPECT_STREQ(chain.info().name, "chain");
  EXPECT_EQ(chain.error_class(p), ErrorClass::kReduced);
  EXPECT_EQ(chain.estimate(cpu(), p, {1, 1, 1}), 7);
  const auto specs = chain.kernel_specs(cpu(), p, {2, 1, 3});
  ASSERT_EQ(specs.size(), 3u);
  EXPECT_EQ(specs[0].source + specs[0].entry, "first2");
  EXPECT_EQ(specs[1].source + specs[1].entry, "second");
  EXPECT_EQ(specs[2].source + specs[2].entry, "third1,3");
}

TEST(Composite, KnobsAreThoseOfItsStepsInOrder) {
  const Chain chain;
  const FakeProblem p;
  const TuneSpace space = chain.tune_space(cpu(), p);
  ASSERT_EQ(space.size(), 3u);
  EXPECT_STREQ(space[0].name, "first");
  EXPECT_STREQ(space[2].name, "third");
  EXPECT_EQ(chain.default_point(cpu(), p), TunePoint({1, 1, 1}));
  EXPECT_TRUE(chain.is_valid(cpu(), p, {2, 1, 3}));
  EXPECT_FALSE(chain.is_valid(cpu(), p, {3, 1, 1})) << "the first step refuses its value";
  EXPECT_FALSE(chain.is_valid(cpu(), p, {2, 3, 1})) << "the third step refuses its values";
  EXPECT_FALSE(chain.is_valid(cpu(), p, {2, 1}));
  EXPECT_FALSE(chain.is_valid(cpu(), p, {2, 1, 1, 1}));
  EXPECT_EQ(valid_points(chain, cpu(), p).size(), 2u * 6);
}

/// One step that takes all knobs, whatever the point is.
TEST(Composite, OfOneStepIsThatStep) {
  struct Single final : Composite {
    Single() : Composite({.name = "single"}) {}
    Verdict steps(const DeviceInfo&, const ProblemBase& p, Steps& to) const override {
      to.add(kThird, p, kAllKnobs);
      return {};
    }
  };
  Handle handle("cpu", nullptr);
  const Single single;
  FakeProblem p;
  p.scratch = 77;
  EXPECT_EQ(single.workspace_size(cpu(), p, {2, 3}), 154u);
  EXPECT_TRUE(single.is_valid(cpu(), p, {1, 2}));
  EXPECT_FALSE(single.is_valid(cpu(), p, {1}));
  std::string log;
  const Args args{&log};
  single.build(handle.stream(), p, {2, 3})(handle.stream(), &args);
  EXPECT_EQ(log, "third(2,3) ");
}

}  // namespace
}  // namespace polymio
