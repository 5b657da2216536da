// The stopwatch, on a fake clock.
// SPDX-License-Identifier: MIT
#include "search/measure.h"

#include <gtest/gtest.h>

namespace polymio::search {
namespace {

/// A clock that contestants advance.
struct FakeClock : Clock {
  double now = 0;
  double now_us() override { return now; }
};

/// Takes `times[i]` on its i-th run; the last value repeats.
struct Script {
  FakeClock& clock;
  std::vector<double> times;
  int runs = 0;
  std::function<void()> contestant() {
    return [this] {
      clock.now += times[std::min<std::size_t>(static_cast<std::size_t>(runs), times.size() - 1)];
      ++runs;
    };
  }
};

TEST(Measure, ConstantTimesAreReportedExactly) {
  for (const double us : {1000.0, 10e3, 100e3}) {
    FakeClock clock;
    Script a{clock, {us}};
    const auto t = measure(clock, {a.contestant()}, Budget{});
    EXPECT_DOUBLE_EQ(t[0].median_us, us);
    EXPECT_GE(t[0].samples, 1);
  }
}

TEST(Measure, WarmUpDoesNotCount) {
  FakeClock clock;
  Script a{clock, {50e3, 100}};
  EXPECT_DOUBLE_EQ(measure(clock, {a.contestant()}, Budget{})[0].median_us, 100);
}

TEST(Measure, OneOutlierDoesNotMoveTheMedian) {
  FakeClock clock;
  Script a{clock, {100, 100, 9000, 100, 100, 100}}, b{clock, {105}};
  const auto t = measure(clock, {a.contestant(), b.contestant()}, Budget{});
  EXPECT_DOUBLE_EQ(t[0].median_us, 100);
  EXPECT_DOUBLE_EQ(t[1].median_us, 105);
}

TEST(Measure, LosersLeaveEarly) {
  FakeClock clock;
  Script fast{clock, {100, 100, 101, 99, 100, 101}}, slow{clock, {5000}};
  measure(clock, {fast.contestant(), slow.contestant()}, Budget{});
  EXPECT_EQ(slow.runs, 2);  // the warm-up and one sample
}

TEST(Measure, StopsWhenSeparated) {
  FakeClock clock;
  Script a{clock, {100}}, b{clock, {150}};
  const auto t = measure(clock, {a.contestant(), b.contestant()}, Budget{});
  EXPECT_EQ(t[0].samples, 3);
  EXPECT_EQ(t[1].samples, 3);
}

TEST(Measure, OverlappingContestantsGetEveryRound) {
  FakeClock clock;
  Script a{clock, {100, 100, 130}}, b{clock, {120}};
  a.times = {100, 100, 130, 100, 130, 100, 130, 100, 130};
  const auto t = measure(clock, {a.contestant(), b.contestant()}, Budget{});
  EXPECT_EQ(t[0].samples, Budget{}.rounds);
}

TEST(Measure, TheBudgetBindsButEveryoneIsMeasured) {
  FakeClock clock;
  Script a{clock, {100e3}}, b{clock, {90e3}}, c{clock, {300e3}};
  const Budget budget{.total_us = 250e3};
  const auto t = measure(clock, {a.contestant(), b.contestant(), c.contestant()}, budget);
  for (const auto& timing : t) EXPECT_GE(timing.samples, 1);
  EXPECT_EQ(c.runs, 1) << "its warm-up took longer than half the budget and is its sample";
  EXPECT_LT(clock.now, 900e3);
}

TEST(Measure, ShortRunsAreRepeatedInsideASample) {
  FakeClock clock;
  Script a{clock, {0.5}};
  const auto t = measure(clock, {a.contestant()}, Budget{});
  EXPECT_DOUBLE_EQ(t[0].median_us, 0.5);
  EXPECT_GE(a.runs, 60);
}

}  // namespace
}  // namespace polymio::search
