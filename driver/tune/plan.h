// Partition of the work of 'tune' over ranks and jobs. Depends on the standard library and fmt only.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace polymio::driver {

// "1h02m", "3m05s", "42s"
std::string duration_text(double seconds);

// Part `index` of `count`, counted from 0.
struct Share {
  std::size_t index = 0, count = 1;
};

// "0/4". Throws ArgError.
Share parse_share(std::string_view text);

// Rank and size as set by Open MPI, PMI (MPICH, Intel MPI) or Slurm; {0, 1} when none is set. Throws ArgError.
Share share_from_environment();

// The problems of one share, as ascending indices. Greedy: in order of falling cost, each problem goes to the share
// with the least total cost. Every rank computes the same partition independently.
std::vector<std::size_t> deal(std::span<const double> costs, Share share);

}  // namespace polymio::driver
