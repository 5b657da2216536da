// The parts of each kind of device, behind the functions of ctc.h. The problem and the arguments have been checked.
// SPDX-License-Identifier: MIT
#pragma once
#include "primitives/ctc/ctc.h"

namespace polymio::ctc {

struct Extent {
  std::int64_t most_labels = 0, all_labels = 0;  // of a sequence, of all
  /// Paths advance through states: the labels, with a blank before, between and after them.
  std::int64_t most_states() const { return 2 * most_labels + 1; }
};
Extent extent_of(const Problem&, const Sequences&);

std::size_t cpu_workspace_size(const Problem&, const Extent&);
void run_on_cpu(Stream&, const Problem&, const Sequences&, const Args&);

std::size_t gpu_workspace_size(const Problem&, const Extent&);
void run_on_gpu(Stream&, const Problem&, const Sequences&, const Args&);

}  // namespace polymio::ctc
