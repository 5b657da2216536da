// Optimizers, concatenation and the gradient of indexing through the driver.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "tests/driver/drive.h"

namespace polymio::test {
namespace {

TEST(Driver, SmallOperatorsVerify) {
  for (const std::string line :
       {"adam -n 3 -c 5 -H 4 -W 6 --amsgrad 1", "adamfp64 -n 3 -c 5 -H 4 -W 6 -I NHWC --in_place 1",
        "adamwbfp16 -n 3 -c 5 -H 4 -W 6 --weight_decay 0.1", "ampadam -n 2 --found_inf 1", "ampadamw -n 2 --step 7",
        "transformersadamwfp16 -n 2 --step_tensor 1", "transformersampadamw -n 2 --scale 4",
        "cat -1 2x3x4 -2 2x5x4 -d -2", "catint8 -1 7@3 -2 9 -d 0 --output_strides 2", "getitem -I 9x6 -N 4x5 -D 1",
        "getitemfp16 -I 9x6 -N 50 -D 0,1 --slices 0,1,9,2 --offset 6 --outside 1"}) {
    const Outcome outcome = drive(line + " -i 2 -t 1");
    EXPECT_EQ(outcome.status, 0) << line << '\n' << outcome.text;
    EXPECT_EQ(count(outcome.text, "Verifies OK"), 1u) << outcome.text;
  }
}

TEST(Driver, SmallOperatorsNameWrongFlags) {
  EXPECT_TRUE(has(drive("adam -F 2"), "no gradient: use -F 1"));
  EXPECT_TRUE(has(drive("cat -1 2x3 -2 3x3 -d 1"), "may differ in --dim only"));
  EXPECT_TRUE(has(drive("cat -1 2xx3"), "bad value '2xx3', allowed: numbers such as 2x32x128"));
  EXPECT_TRUE(has(drive("cat -1 2x3@3"), "as many strides as sizes"));
  EXPECT_TRUE(has(drive("cat -1 2x3 -2 2x3 -d 2"), "no dimension of the inputs"));
  EXPECT_TRUE(has(drive("getitem -I 9x6 -D 2"), "dimensions of dx"));
  EXPECT_TRUE(has(drive("getitem -I 9x6 --slices 0,1,9"), "four numbers per slice"));
}

}  // namespace
}  // namespace polymio::test
