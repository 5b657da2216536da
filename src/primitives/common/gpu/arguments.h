// The arguments of a skeleton's kernel: the walk, each operand's buffer and strides (OPERAND_PARAMETERS of operands.h),
// then what the skeleton and its functor add.
// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <span>

#include "kernels/gpu/nest.h"
#include "runtime/device.h"

namespace polymio::gpu_skeletons {

class Arguments {
 public:
  Arguments(const kernels::Nest& part, const kernels::Sides& sides, std::span<const Argument> added)
      : walk_(part.walk()) {
    const void* const last_output = sides[static_cast<std::size_t>(part.operands) - 1].data;
    push({Argument::Kind::kValue, &walk_, sizeof(walk_)});
    for (int o = 0; o < part.operands; ++o) {
      Slot& slot = slots_[static_cast<std::size_t>(o)];
      const void* const data = sides[static_cast<std::size_t>(o)].data;
      slot.buffer = Buffer(data ? data : last_output);  // not every driver accepts null
      slot.strides = part.strides(o);
      push({Argument::Kind::kBuffer, &slot.buffer, sizeof(slot.buffer)});
      push({Argument::Kind::kValue, &slot.strides, sizeof(slot.strides)});
    }
    for (const Argument& a : added) push(a);
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  std::int64_t units() const { return walk_.count; }
  std::span<const Argument> list() const { return {list_.data(), count_}; }

 private:
  struct Slot {
    Buffer buffer{nullptr};
    kernels::Strides strides{};
  };
  static constexpr std::size_t kMaxAdded = 5;

  void push(const Argument& argument) { list_[count_++] = argument; }

  kernels::Walk walk_;
  std::array<Slot, kernels::kMaxOperands> slots_;
  std::array<Argument, 1 + 2 * kernels::kMaxOperands + kMaxAdded> list_;
  std::size_t count_ = 0;
};

}  // namespace polymio::gpu_skeletons
