// For programs that ctest runs in shards: their tests start the program again for a single test, which may be in any
// shard, so the processes that they start must not be sharded.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cstdlib>

namespace polymio {
namespace {

/// Set up after the tests of this process are chosen.
class UnshardedChildren final : public testing::Environment {
  void SetUp() override {
    unsetenv("GTEST_TOTAL_SHARDS");
    unsetenv("GTEST_SHARD_INDEX");
  }
};

const testing::Environment* const kEnvironment = testing::AddGlobalTestEnvironment(new UnshardedChildren);

}  // namespace
}  // namespace polymio
