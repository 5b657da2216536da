// The measurement of candidates, on a fake clock.
// SPDX-License-Identifier: MIT
#include "search/measure.h"

#include <gtest/gtest.h>

#include "fake.h"

namespace polymio::search {
namespace {

/// Takes `times[i]` on its i-th run, the first of which is the warm-up; the last value repeats. Stops when
/// told to.
struct Script {
  FakeClock& clock;
  std::vector<double> times;
  double predicted = 0;
  Run ends = Run::kDone;
  int runs = 0;

  Run once(double most_us) {
    const double us = times[std::min<std::size_t>(static_cast<std::size_t>(runs), times.size() - 1)];
    ++runs;
    clock.now += std::min(us, most_us);
    return us > most_us ? Run::kStopped : ends;
  }
  Trial trial() {
    return {[this](double most_us, double& warm_us) {
              const double before = clock.now;
              const Run ended = once(most_us);
              warm_us = clock.now - before;
              return ended;
            },
            [this](double most_us) { return once(most_us); }, predicted};
  }
};

TEST(Measure, ConstantTimesAreReportedExactly) {
  for (const double us : {1000.0, 10e3, 100e3}) {
    FakeClock clock;
    Script a{clock, {us}};
    const auto t = measure(clock, {a.trial()}, Budget{});
    EXPECT_DOUBLE_EQ(t[0].us, us);
    EXPECT_EQ(t[0].state, Timing::State::kMeasured);
    EXPECT_GE(t[0].samples, 1);
  }
}

TEST(Measure, WarmUpDoesNotCount) {
  FakeClock clock;
  Script a{clock, {50e3, 100}};
  EXPECT_DOUBLE_EQ(measure(clock, {a.trial()}, Budget{})[0].us, 100);
}

TEST(Measure, OneOutlierDoesNotMoveTheMedian) {
  FakeClock clock;
  Script a{clock, {100, 100, 150, 100, 100, 100}}, b{clock, {105}};
  const auto t = measure(clock, {a.trial(), b.trial()}, Budget{});
  EXPECT_DOUBLE_EQ(t[0].us, 100);
  EXPECT_DOUBLE_EQ(t[1].us, 105);
}

TEST(Measure, SlowCandidatesLeaveEarly) {
  FakeClock clock;
  Script fast{clock, {10e3, 10e3, 10.1e3, 9.9e3, 10e3, 10.1e3}}, slow{clock, {30e3}};
  const auto t = measure(clock, {fast.trial(), slow.trial()}, Budget{});
  EXPECT_EQ(slow.runs, 2) << "the warm-up and one sample";
  EXPECT_DOUBLE_EQ(t[1].us, 30e3);
}

TEST(Measure, AnInterruptedShortRunDoesNotExcludeACandidate) {
  FakeClock clock;
  Script fast{clock, {100, 1900, 60}}, other{clock, {80}};
  const auto t = measure(clock, {other.trial(), fast.trial()}, Budget{});
  EXPECT_DOUBLE_EQ(t[1].us, 60);
}

TEST(Measure, AMuchSlowerRunIsStopped) {
  FakeClock clock;
  Script fast{clock, {100}}, slow{clock, {1e6}};
  const auto t = measure(clock, {fast.trial(), slow.trial()}, Budget{});
  EXPECT_EQ(t[1].state, Timing::State::kStopped);
  EXPECT_EQ(slow.runs, 1);
  EXPECT_LT(clock.now, 30e3) << "not at full cost";
  EXPECT_GE(t[1].us, 1000) << "the time it certainly takes";
}

TEST(Measure, AKnownFasterTimeStopsASlowRun) {
  FakeClock clock;
  Script a{clock, {10e3}};
  const auto t = measure(clock, {a.trial()}, {.best_known_us = 5000, .give_up_ratio = 1.2});
  EXPECT_EQ(a.runs, 2);
  EXPECT_EQ(t[0].samples, 1);
}

TEST(Measure, AnExcludedCandidateIsNotRunAgain) {
  FakeClock clock;
  Script a{clock, {100}}, b{clock, {50}, 0, Run::kOut};
  const auto t = measure(clock, {a.trial(), b.trial()}, Budget{});
  EXPECT_EQ(t[1].state, Timing::State::kOut);
  EXPECT_EQ(b.runs, 1);
  EXPECT_DOUBLE_EQ(t[0].us, 100);
}

TEST(Measure, StopsWhenSeparated) {
  FakeClock clock;
  Script a{clock, {100}}, b{clock, {150}};
  const auto t = measure(clock, {a.trial(), b.trial()}, Budget{});
  EXPECT_EQ(t[0].samples, 3);
  EXPECT_EQ(t[1].samples, 3);
}

TEST(Measure, OverlappingCandidatesGetEveryRound) {
  FakeClock clock;
  Script a{clock, {100, 100, 130, 100, 130, 100, 130, 100, 130}}, b{clock, {120}};
  const auto t = measure(clock, {a.trial(), b.trial()}, Budget{});
  EXPECT_EQ(t[0].samples, Budget{}.rounds);
}

TEST(Measure, TheBudgetHoldsButEveryCandidateIsMeasured) {
  FakeClock clock;
  Script a{clock, {100e3}}, b{clock, {90e3}}, c{clock, {300e3}};
  const auto t = measure(clock, {a.trial(), b.trial(), c.trial()}, {.total_us = 250e3});
  for (const auto& timing : t) EXPECT_EQ(timing.samples, 1);
  EXPECT_LE(clock.now, 2 * (100e3 + 90e3 + 300e3));
}

TEST(Measure, AStrictBudgetStartsNothingThatMayNotFit) {
  FakeClock clock;
  Script a{clock, {1000}, 900}, b{clock, {1000}, 9600};
  const auto t = measure(clock, {a.trial(), b.trial()}, {.total_us = 20e3, .strict = true});
  EXPECT_EQ(t[0].state, Timing::State::kMeasured);
  EXPECT_EQ(t[1].state, Timing::State::kSkipped) << "twice 9.6 ms are more than is left";
  EXPECT_EQ(b.runs, 0);
  EXPECT_LE(clock.now, 20e3);
}

TEST(Measure, AStrictBudgetStopsCandidatesSlowerThanPredicted) {
  FakeClock clock;
  Script a{clock, {1e6}, 5e3}, b{clock, {100}, 100};
  const auto t = measure(clock, {a.trial(), b.trial()}, {.total_us = 20e3, .strict = true});
  EXPECT_EQ(t[0].state, Timing::State::kStopped);
  EXPECT_EQ(t[1].state, Timing::State::kSkipped);
  EXPECT_LE(clock.now, 20e3);
}

TEST(Measure, NoTimeIsNegativeWhenABudgetEndsBetweenTwoReadsOfTheClock) {
  for (int last = 1; last <= 8; ++last) {
    struct : FakeClock {
      double now_us() override {
        if (--looks == 0) now += 50e3;  // the process was preempted
        return now;
      }
      int looks = 0;
    } clock;
    clock.looks = last;
    Script a{clock, {100}, 100};
    EXPECT_GE(measure(clock, {a.trial()}, {.total_us = 20e3, .strict = true})[0].us, 0) << last;
  }
}

TEST(Measure, AWarmUpIsASampleWhenThereIsNoTimeForAnother) {
  FakeClock clock;
  Script a{clock, {8e3}, 8e3};
  const auto t = measure(clock, {a.trial()}, {.total_us = 20e3, .strict = true});
  EXPECT_EQ(t[0].state, Timing::State::kMeasured);
  EXPECT_DOUBLE_EQ(t[0].us, 8e3);
  EXPECT_EQ(a.runs, 1);
}

TEST(Measure, AFirstRunThatWaitedForCompilationDoesNotCount) {
  struct : FakeClock {
    bool first_run_counts() const override { return false; }
  } clock;
  Script slow_to_load{clock, {18e3, 100}, 100}, late{clock, {19.9e3, 100}, 100};
  const Budget budget = {.total_us = 20e3, .strict = true};
  EXPECT_DOUBLE_EQ(measure(clock, {slow_to_load.trial()}, budget)[0].us, 100) << "there was time for a second run";
  EXPECT_EQ(measure(clock, {late.trial()}, budget)[0].state, Timing::State::kSkipped);
}

TEST(Measure, CompilationAndChecksLeaveTimeForSamplesOnADevice) {
  struct : FakeClock {
    bool first_run_counts() const override { return false; }
    double sample_us() const override { return 300; }
  } clock;
  Script slow{clock, {250e3, 5e3, 400}}, fast{clock, {60e3, 1e3, 350}};
  const auto t = measure(clock, {slow.trial(), fast.trial()}, Budget{});
  EXPECT_DOUBLE_EQ(t[0].us, 400);
  EXPECT_DOUBLE_EQ(t[1].us, 350) << "the first sample is not the only one";
}

/// A device: a run takes 100 us more where nothing was queued before it.
struct IdlingClock final : FakeClock {
  bool idle = true;
  double from = 0;
  double now_us() override {
    idle = true;
    return now;
  }
  void start_sample() override { from = now; }
  double end_sample() override { return now_us() - from; }
  bool leads_in() const override { return true; }
  Run run(double us) {
    now += us + (std::exchange(idle, false) ? 100 : 0);
    return Run::kDone;
  }
};

TEST(Measure, SamplesOfADeviceStartWhileItWorks) {
  IdlingClock clock;
  const Trial trial{[&](double, double& warm_us) {
                      warm_us = 140;
                      return clock.run(40);
                    },
                    [&](double) { return clock.run(40); }};
  EXPECT_DOUBLE_EQ(measure(clock, {trial}, Budget{})[0].us, 40);
}

TEST(Measure, ShortRunsAreRepeatedInsideASample) {
  FakeClock clock;
  Script a{clock, {0.5}};
  const auto t = measure(clock, {a.trial()}, Budget{});
  EXPECT_DOUBLE_EQ(t[0].us, 0.5);
  EXPECT_GE(a.runs, 60);
}

}  // namespace
}  // namespace polymio::search
