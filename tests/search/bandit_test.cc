// Online tuning on a fake device: the bound on the cost of a thousand calls.
// SPDX-License-Identifier: MIT
#include "search/bandit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace polymio::search {
namespace {

/// The time of `calls` calls of candidates that take `actual`, with a jitter of `noise`.
double total(const std::vector<double>& predicted, const std::vector<double>& actual, double noise, int calls = 1000) {
  Bandit explorer(predicted);
  std::mt19937 random(7);
  std::uniform_real_distribution<double> jitter(1, 1 + noise);
  double sum = 0;
  for (int i = 0; i < calls; ++i) {
    const std::size_t arm = explorer.next();
    const double us = actual[arm] * jitter(random);
    explorer.took(arm, us);
    sum += us;
  }
  return sum;
}

// Holds while a prediction is off by less than one candidate's cost of the whole allowance (15 best calls).
TEST(Bandit, AThousandCallsCostAtMostTwoPercentMore) {
  const std::vector<std::vector<double>> predicted = {
      {100, 110, 120, 130}, {100, 300, 500, 700}, {10, 20, 30, 60}, {10, 11, 12, 13, 14, 15}};
  for (const auto& p : predicted) {
    std::vector<double> actual = p;
    std::sort(actual.begin(), actual.end());
    do {  // for every true order of the candidates
      const double best = *std::min_element(actual.begin(), actual.end());
      // The first call runs the heuristic's choice, whose cost is not bounded.
      EXPECT_LE(total(p, actual, 0), 1.02 * 1000 * best + actual[0]) << testing::PrintToString(actual);
    } while (std::next_permutation(actual.begin(), actual.end()));
  }
}

TEST(Bandit, FindsTheBestThroughNoise) {
  Bandit explorer({100, 90, 80});
  std::mt19937 random(3);
  std::uniform_real_distribution<double> jitter(1, 1.1);
  const double actual[] = {120, 100, 80};
  for (int i = 0; i < 100; ++i) {
    const std::size_t arm = explorer.next();
    explorer.took(arm, actual[arm] * jitter(random));
  }
  EXPECT_TRUE(explorer.settled());
  EXPECT_EQ(explorer.best(), 2u);
}

TEST(Bandit, ACandidatePredictedFarSlowerIsNeverTried) {
  Bandit explorer({100, 5e6});
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(explorer.next(), 0u);
    explorer.took(0, 100);
  }
}

TEST(Bandit, WhatIsDiscardedIsNotTriedAgain) {
  Bandit explorer({100, 90, 80});
  explorer.took(0, 100);
  explorer.discard(1);
  for (int i = 0; i < 50; ++i) {
    const std::size_t arm = explorer.next();
    ASSERT_NE(arm, 1u);
    explorer.took(arm, arm == 0 ? 100 : 80);
  }
  EXPECT_EQ(explorer.best(), 2u);
}

TEST(Bandit, OneCandidateIsChosenAtOnce) {
  const Bandit explorer({100});
  EXPECT_TRUE(explorer.settled());
  EXPECT_EQ(explorer.next(), 0u);
}

}  // namespace
}  // namespace polymio::search
