// How the work of 'tune' is cut: the budget over problems, the problems over ranks and jobs. Depends on the
// standard library and fmt only.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace polymio::driver {

// "90s", "10m", "2h", "500ms" as seconds. Throws ArgError.
double parse_budget(std::string_view text);

// "1h02m", "3m05s", "42s"
std::string duration_text(double seconds);

// Part `index` of `count`, from 0.
struct Share {
  std::size_t index = 0, count = 1;
};

// "0/4". Throws ArgError.
Share parse_share(std::string_view text);

// Rank and size as Open MPI, PMI (MPICH, Intel MPI) or Slurm set them; {0, 1} without any.
Share share_from_environment();

// The problems of one share, as ascending indices: the costliest first, each to the share with the least so far, so
// that every rank comes to the same answer on its own.
std::vector<std::size_t> deal(std::span<const double> costs, Share share);

}  // namespace polymio::driver
