// The device that tests run on: POLYMIO_TEST_DEVICE names it, the CPU by default. With POLYMIO_TEST_EVERY=n tests that
// ask sampled() take only every n-th of their cases.
// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdlib>
#include <string>

namespace polymio::test {

inline std::string device_name() {
  const char* name = std::getenv("POLYMIO_TEST_DEVICE");
  return name ? name : "cpu";
}

inline bool on_cpu() { return device_name() == "cpu"; }

/// True for every n-th call with POLYMIO_TEST_EVERY=n; always true on the CPU.
inline bool sampled() {
  static const char* const text = std::getenv("POLYMIO_TEST_EVERY");
  static unsigned long cases = 0;
  const unsigned long every = text && !on_cpu() ? std::strtoul(text, nullptr, 10) : 1;
  return cases++ % std::max(every, 1ul) == 0;
}

}  // namespace polymio::test
