// The kernel templates of ConvHopper and ConvCudaLongFilters, compiled for the emulated multiprocessor.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace polymio::convolution {

struct HopperProgram {
  void (*run)(const void* arguments);  // a thread
  std::size_t argument_bytes;
  std::uint32_t threads;
};

/// By their instantiation. None with sanitizers, which take minutes to compile them.
const std::map<std::string, HopperProgram>& hopper_programs();

}  // namespace polymio::convolution
