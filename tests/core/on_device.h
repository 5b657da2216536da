// The device that tests of internals run on, and host buffers there. POLYMIO_TEST_DEVICE names it, the CPU by default;
// with POLYMIO_TEST_EVERY=n tests that ask sampled() take only every n-th of their cases.
// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/handle.h"

namespace polymio::test {

inline std::string device_name() {
  const char* name = std::getenv("POLYMIO_TEST_DEVICE");
  return name ? name : "cpu";
}
inline bool on_cpu() { return device_name() == "cpu"; }

/// Whether this case's turn has come; always on the CPU.
inline bool sampled() {
  static const char* const text = std::getenv("POLYMIO_TEST_EVERY");
  static unsigned long cases = 0;
  const unsigned long every = text && !on_cpu() ? std::strtoul(text, nullptr, 10) : 1;
  return cases++ % std::max(every, 1ul) == 0;
}

/// A host buffer as the device sees it: on the CPU itself, else a copy, which is copied back at the end. It begins
/// `shift` bytes behind a multiple of 64.
class There {
 public:
  There(Handle& handle, std::vector<unsigned char>& host, std::size_t shift = 0)
      : handle_(handle), host_(host), shift_(shift), memory_(handle, on_cpu() ? 0 : host.size() + shift) {
    if (memory_.data() && !host_.empty()) handle_.stream().upload({memory_.data(), shift_}, host_.data(), host_.size());
  }
  There(const There&) = delete;
  There& operator=(const There&) = delete;
  ~There() {
    if (memory_.data() && !host_.empty())
      handle_.stream().download(host_.data(), {memory_.data(), shift_}, host_.size());
  }
  void* data() const {
    return on_cpu() ? static_cast<void*>(host_.data()) : static_cast<char*>(memory_.data()) + shift_;
  }

 private:
  Handle& handle_;
  std::vector<unsigned char>& host_;
  std::size_t shift_;
  const Memory memory_;
};

}  // namespace polymio::test
