// Estimates of direct convolutions as the learned model in src/search/models knows them: it was trained to correct
// these. They go when it is trained anew.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/gradient.h"
#include "primitives/convolution/cpu/cost.h"

namespace polymio::convolution {

Work former_direct_work(const kernels::Direct&, const Problem&, const Machine&);
Work former_gradient_work(const kernels::DirectGradient&, const Problem&);

}  // namespace polymio::convolution
