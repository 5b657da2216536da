// What matrix products of all types share: scratch memory, blocks of depth, runs of C.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/gemm_block_sizes.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Carves scratch memory into arrays that are aligned to cache lines; with a null base it only counts bytes.
class Arena {
 public:
  explicit Arena(char* base) : base_(base) {}
  std::size_t bytes() const { return bytes_; }

  template <class T>
  T* take(i64 count) {
    char* const place = base_ == nullptr ? nullptr : base_ + bytes_;
    bytes_ += static_cast<std::size_t>(round_up(count * static_cast<i64>(sizeof(T)), 64));
    return reinterpret_cast<T*>(place);
  }

 private:
  char* base_;
  std::size_t bytes_ = 0;
};

/// A block of the summed dimension.
struct DepthBlock {
  i64 first, depth;
  bool is_first, is_last;
};

/// Calls use(block) for blocks of at most max_depth depths, once if k is 0. A block ends where a run of both operands
/// (depth_run) does.
template <class Use>
static inline void for_depth_blocks(const Gemm& g, i64 max_depth, const Use& use) {
  const i64 run = depth_run(g);
  i64 first = 0;
  do {
    i64 depth = min_of(max_depth, g.k - first);
    if (run > 0) depth = min_of(depth, run - first % run);
    use(DepthBlock{first, depth, first == 0, first + depth >= g.k});
    first += depth;
  } while (first < g.k);
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
