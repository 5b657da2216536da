// The arguments of commands, and the partition of tune's work.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <set>

#include "driver/tune/plan.h"
#include "driver/base/flags.h"

namespace polymio::driver {
namespace {

constexpr TextFlag kFlags[] = {{"--kind", "KIND[,..]", "which"}, {"--json", "", "as JSON"}};
constexpr Command kCommand{"db list", "FILE...", "Lists.", kFlags, 1, 2};

std::string error_of(const std::vector<std::string>& arguments) {
  try {
    const Arguments parsed(kCommand, arguments);
  } catch (const ArgError& error) {
    return error.what();
  }
  return "";
}

TEST(Arguments, OperandsSwitchesAndValues) {
  const std::vector<std::string> given = {"a", "--kind", "x,y", "b", "--json", "--kind", "z"};
  const Arguments arguments(kCommand, given);
  EXPECT_EQ(arguments.operands(), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(arguments.has("--json"));
  EXPECT_FALSE(arguments.help());
  EXPECT_EQ(arguments.value("--kind"), "z");
  EXPECT_EQ(arguments.values("--kind"), (std::vector<std::string>{"x", "y", "z"}));
  EXPECT_EQ(arguments.value("--json"), "");
}

TEST(Arguments, ErrorsNameWhatIsAllowed) {
  EXPECT_EQ(error_of({"a", "--frob"}), "db list: unknown flag '--frob', allowed: --kind --json --help");
  EXPECT_EQ(error_of({"a", "--kind"}), "db list: --kind: its value (KIND[,..]) is missing");
  EXPECT_EQ(error_of({}), "db list: 0 of 1 arguments given; usage: MIOpenDriver db list FILE...");
  EXPECT_EQ(error_of({"a", "b", "c"}), "db list: 'c' is one argument too many; usage: MIOpenDriver db list FILE...");
  EXPECT_EQ(error_of({"--help"}), "");
}

TEST(TunePlan, Budgets) {
  EXPECT_DOUBLE_EQ(parse_budget("90s"), 90);
  EXPECT_DOUBLE_EQ(parse_budget("10m"), 600);
  EXPECT_DOUBLE_EQ(parse_budget("1.5h"), 5400);
  EXPECT_DOUBLE_EQ(parse_budget("250ms"), 0.25);
  for (const char* bad : {"", "10", "m", "-1s", "0s", "1d", "10 m", "1e999s", "nans", "infs"}) {
    EXPECT_THROW(parse_budget(bad), ArgError) << bad;
  }
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
