// A case of each primitive: a random problem, run by every solver at several tune points and compared with the
// evaluation in double.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/handle.h"
#include "fuzz.h"

namespace polymio::fuzz {

/// What the cases so far were, for the report; and where findings are described.
struct Tally {
  std::map<std::string, std::uint64_t> runs;  // by solver or operation
  std::uint64_t problems = 0, refused = 0;
};

/// The problem that is about to run, printed if the process dies.
void set_current(const std::string& what);

/// Prints what is wrong with the current problem; returns false.
bool report(const std::string& why);

// Each gives false if a result was wrong, or if something outside an output was written.
bool convolution_case(Handle&, Random&, Tally&);
bool activation_case(Handle&, Random&, Tally&);
bool tensor_ops_case(Handle&, Random&, Tally&);

/// Sizes of a tensor of a few thousand elements at most, some of them 1.
std::vector<std::int64_t> random_lens(Random&, std::int64_t rank);

/// Strides of positive sizes: dense in a random order, or with gaps, those of size-1 dimensions anything; if `overlaps`
/// also such that elements share addresses.
std::vector<std::int64_t> random_strides(Random&, const std::vector<std::int64_t>& lens, bool overlaps);

/// The alignment of a buffer of such elements: theirs or more. (Solvers never see less, see core/aligned_buffer.h.)
std::size_t random_alignment(Random&, std::size_t element);

}  // namespace polymio::fuzz
