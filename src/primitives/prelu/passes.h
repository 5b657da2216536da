// The passes of each kind of device, behind the functions of prelu.h. The caller has checked the tensors; elements are
// aligned. The gradient of the weight is computed first: dx may be x.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/loop.h"
#include "primitives/prelu/prelu.h"

namespace polymio::prelu {

void run_on_cpu(Stream&, const Backward&);
void run_on_gpu(Stream&, const Backward&, void* workspace, std::size_t workspace_bytes);

inline bool is_per_channel(const Backward& p) { return p.weight.desc.count() > 1; }

/// The loop of dx over the operands dx, x, weight, dy.
Loop input_loop(const Backward&);

}  // namespace polymio::prelu
