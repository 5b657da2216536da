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

/// Counts of the cases so far, for the report.
struct Tally {
  std::map<std::string, std::uint64_t> runs;  // by solver or operation
  std::uint64_t problems = 0, refused = 0;
};

/// The next problem to run, printed if the process dies.
void set_current(const std::string& what);

/// Prints the finding on the current problem; returns false.
bool report(const std::string& why);

// Each returns false if a result was wrong, or if memory outside an output was written.
bool convolution_case(Handle&, Random&, Tally&);
bool activation_case(Handle&, Random&, Tally&);
bool tensor_ops_case(Handle&, Random&, Tally&);

/// Sizes of a tensor of a few thousand elements at most, some of them 1.
std::vector<std::int64_t> random_lens(Random&, std::int64_t rank);

/// Positive strides: dense in a random order or with gaps, arbitrary for size-1 dimensions; if `overlaps` also such
/// that elements share addresses.
std::vector<std::int64_t> random_strides(Random&, const std::vector<std::int64_t>& lens, bool overlaps);

/// The alignment of a buffer of such elements: at least that of an element, as core/aligned_buffer.h guarantees.
std::size_t random_alignment(Random&, std::size_t element);

}  // namespace polymio::fuzz
