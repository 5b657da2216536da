// Partition of K into steps of tile registers.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "kernels/cpu/amx_steps.h"

namespace polymio::kernels {
namespace {

TEST(Amx, StepsCoverTheDepthWithOneRemainderAtMost) {
  for (std::int64_t depth = 1; depth <= 4000; ++depth) {
    const std::int64_t steps = amx_steps(depth), rest = depth % steps;
    ASSERT_GE(steps, 1);
    ASSERT_LE(steps, 16);
    if (depth <= 16) {
      EXPECT_EQ(steps, depth);
    } else {
      EXPECT_GE(steps, 8) << depth;
      EXPECT_TRUE(rest == 0 || steps == 16) << depth;
    }
  }
  EXPECT_EQ(amx_steps(24), 12);
  EXPECT_EQ(amx_steps(17), 16);
  EXPECT_EQ(amx_steps(0), 0);
}

}  // namespace
}  // namespace polymio::kernels
