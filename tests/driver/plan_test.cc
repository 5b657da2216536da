// The partition of tune's work.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <set>

#include "driver/base/flags.h"
#include "driver/tune/plan.h"

namespace polymio::driver {
namespace {

TEST(TunePlan, DurationTexts) {
  EXPECT_EQ(duration_text(4.25), "4.2s");
  EXPECT_EQ(duration_text(185), "3m05s");
  EXPECT_EQ(duration_text(3720), "1h02m");
}

TEST(TunePlan, Shares) {
  EXPECT_EQ(parse_share("3/4").index, 3u);
  EXPECT_EQ(parse_share("0/1").count, 1u);
  for (const char* bad : {"", "1", "4/4", "-1/4", "1/0", "a/b", "1/4x"}) {
    EXPECT_THROW(parse_share(bad), ArgError) << bad;
  }
}

class Environment : public ::testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name :
         {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "SLURM_PROCID", "SLURM_NTASKS"}) {
      unsetenv(name);
    }
  }
};

TEST_F(Environment, RankAndSize) {
  EXPECT_EQ(share_from_environment().count, 1u);
  setenv("SLURM_PROCID", "5", 1);
  EXPECT_EQ(share_from_environment().count, 1u) << "a rank without a size says nothing";
  setenv("SLURM_NTASKS", "8", 1);
  EXPECT_EQ(share_from_environment().index, 5u);
  EXPECT_EQ(share_from_environment().count, 8u);
  setenv("PMI_RANK", "1", 1);
  setenv("PMI_SIZE", "2", 1);
  EXPECT_EQ(share_from_environment().count, 2u) << "the launcher nearest to the process counts";
  setenv("OMPI_COMM_WORLD_RANK", "7", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "7", 1);
  EXPECT_THROW(share_from_environment(), ArgError);
}

TEST(TunePlan, DealGivesEachProblemOnceAndBalances) {
  std::vector<double> costs(101);
  std::iota(costs.begin(), costs.end(), 1.0);
  const double total = std::accumulate(costs.begin(), costs.end(), 0.0);
  std::set<std::size_t> seen;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    double load = 0;
    for (const std::size_t i : deal(costs, {rank, 4})) {
      EXPECT_TRUE(seen.insert(i).second) << i;
      load += costs[i];
    }
    EXPECT_NEAR(load, total / 4, 10);
  }
  EXPECT_EQ(seen.size(), costs.size());
  EXPECT_TRUE(deal({}, {0, 2}).empty());
  EXPECT_EQ(deal(std::vector<double>{1}, {0, 3}).size() + deal(std::vector<double>{1}, {1, 3}).size(), 1u);
}

}  // namespace
}  // namespace polymio::driver
