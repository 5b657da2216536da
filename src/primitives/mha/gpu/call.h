// What the kernels of a call on a GPU share in its workspace: the scalars at its start, and what solvers put behind
// them; and the largest magnitudes of blocks, which become those of the call.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <vector>

#include "core/kernel_builder.h"
#include "primitives/mha/mha.h"

namespace polymio::mha::gpu {

/// The first two kernels of a solver: they collect the scalars, and finish the largest magnitudes.
std::vector<KernelSpec> call_specs();

/// The number of blocks of so many queries or keys, of all heads.
std::int64_t blocks_of(std::int64_t tokens, std::int64_t rows, const Problem&);

/// Blocks of MhaGpu share the elements of a head, so many each.
inline constexpr std::int64_t kPartOfHead = 256;
std::int64_t parts_of_head(const Problem&);

/// The number of queries of all heads, each head's rounded up to a multiple of 128.
std::int64_t padded_rows(const Problem&);

/// Of the workspace: the scalars, backward four numbers for each query, of padded_rows(); two for each block of
/// 64 queries and a part of a head and, backward, of 64 keys. Equal for all solvers, so that any of them can take the
/// place of another.
std::size_t workspace_size(const Problem&);

class Call {
 public:
  Call(Stream& stream, const Kernels& kernels, const Problem::Args& a) : stream_(stream), kernels_(kernels), a_(a) {}

  /// From the first address of the workspace on that is a multiple of 16.
  Buffer scalars() const;
  /// The counter of works of the first or second kernel, 0 behind collect().
  Buffer taken(int kernel) const;
  /// Behind so many floats.
  Buffer part(std::int64_t floats) const;
  /// The workspace instead of null, which not every driver accepts.
  Buffer given(const void* data) const { return {data ? data : a_.workspace}; }

  void collect() const;
  /// `magnitudes` are two numbers of each block, the first ones of all blocks before the second ones.
  void finish(const Buffer& magnitudes, std::int64_t blocks, std::array<Amax, 2> results) const;

 private:
  Stream& stream_;
  const Kernels& kernels_;
  const Problem::Args& a_;
};

}  // namespace polymio::mha::gpu
