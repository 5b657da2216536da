// The times of runs on a handle.
// SPDX-License-Identifier: MIT
#include "core/handle.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace polymio {
namespace {

TEST(Handle, RunsTogetherCountAsOne) {
  Handle handle("cpu", nullptr);
  handle.enable_profiling(true);
  const auto wait = [&](int ms) {
    handle.run([&](Stream&) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); });
  };
  handle.run_together([&] {
    wait(50);
    wait(10);
  });
  EXPECT_GE(handle.kernel_ms(), 60);
  wait(1);
  EXPECT_LT(handle.kernel_ms(), 50) << "later runs are not added";
}

}  // namespace
}  // namespace polymio
