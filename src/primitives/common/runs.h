// Elements of a loop nest as contiguous runs, which kernels take: in place where operands are contiguous or repeat,
// else through copies of a block of elements.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>

#include "core/loop.h"
#include "kernels/cpu/skeletons.h"

namespace polymio::common {

inline constexpr std::int64_t kBlock = 512;  // elements of a copy; those of all operands stay in the L1 cache

/// Operands of a loop: outputs first, then inputs. Elements are aligned to their size.
struct Operands {
  std::size_t outputs = 1, count = 0;
  std::array<void*, kMaxOperands> data{};
  std::array<std::size_t, kMaxOperands> size{};  // bytes of an element
  bool reads_outputs = false;

  void push(const void* address, std::size_t bytes) {
    data[count] = const_cast<void*>(address);
    size[count++] = bytes;
  }
};

/// Copies n elements of an operand of the loop from `at` on to dense memory. `data`: its element at offset 0.
void gather(const Loop& loop, std::size_t operand, std::size_t size, const void* data, const Cursor& at, std::int64_t n,
            void* dense);
/// The other way.
void scatter(const Loop& loop, std::size_t operand, std::size_t size, void* data, const Cursor& at, std::int64_t n,
             const void* dense);

/// Whether kernels take runs of several rows and with inputs that repeat.
enum class RunShape { kOneRow, kRows };

class Runs {
 public:
  /// Uses the operands [first, end) of those given, all by default.
  Runs(const Loop& loop, const Operands& operands, RunShape shape = RunShape::kOneRow, std::size_t first = 0,
       std::size_t end = kMaxOperands);

  using Body = FunctionRef<void(const kernels::Run&)>;
  /// Calls body for the elements [begin, end) of the loop, in order. `moved`: elements by which every operand is moved.
  void each(std::int64_t begin, std::int64_t end, Body body) const;
  void each(std::int64_t begin, std::int64_t end, const std::array<std::int64_t, kMaxOperands>& moved, Body body) const;

 private:
  struct Buffers;
  using Pointers = std::array<void*, kMaxOperands>;
  kernels::Run run_of(const Pointers& pointers, std::int64_t n) const;
  void* address(std::size_t operand, std::int64_t offset) const {
    return static_cast<char*>(operands_.data[operand]) + offset * static_cast<std::int64_t>(operands_.size[operand]);
  }
  /// In place: what is left of a row, then whole rows, then the beginning of one.
  void each_rows(std::int64_t begin, std::int64_t end, const std::array<std::int64_t, kMaxOperands>& moved,
                 Body body) const;
  void each_block(std::int64_t begin, std::int64_t end, const std::array<std::int64_t, kMaxOperands>& moved,
                  Body body) const;
  void* gathered(std::size_t operand, const Cursor& at, std::int64_t n, std::int64_t moved, Buffers&) const;
  /// Whether n elements of the operand from `at` on are contiguous.
  bool is_in_place(std::size_t operand, const Cursor& at, std::int64_t n) const;

  const Loop& loop_;
  const Operands& operands_;
  std::size_t first_, end_;
  bool all_in_place_ = true, in_rows_ = false;
  std::array<bool, kMaxOperands> in_place_{};
};

}  // namespace polymio::common
