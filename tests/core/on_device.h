// Host buffers on the device that tests of internals run on.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "core/handle.h"
#include "tests/device.h"

namespace polymio::test {

/// A host buffer on the device: on the CPU itself, else a copy, which the destructor copies back. Its address is a
/// multiple of 64 plus `shift` bytes.
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
