// Which versions of cuBLASLt work with which CUDA driver.
// SPDX-License-Identifier: MIT
#include "runtime/cuda/cublaslt.h"

#include <gtest/gtest.h>

namespace polymio::cuda {
namespace {

TEST(CublasLt, IsNoNewerThanTheDriver) {
  EXPECT_TRUE(serves_driver(12080, 12020));  // minor numbers may differ
  EXPECT_TRUE(serves_driver(12080, 13000));
  EXPECT_TRUE(serves_driver(13000, 13000));
  EXPECT_FALSE(serves_driver(13000, 12090));
  EXPECT_FALSE(serves_driver(12000, 11080));
}

}  // namespace
}  // namespace polymio::cuda
