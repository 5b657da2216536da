// The pass over memory that each kind of device implements.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>

#include "core/loop.h"
#include "kernels/cpu/optimizer.h"
#include "primitives/optimizer/optimizer.h"

namespace polymio::optimizer {

/// The operands of the loop: outputs first, elements aligned.
struct Pass {
  const Adam& adam;
  Loop loop;
  std::size_t outputs = 0;
  std::array<void*, kMaxOperands> data{};
  std::array<std::size_t, kMaxOperands> size{};  // bytes of an element

  kernels::AdamTypes types() const {
    return {adam.param.desc->type, adam.gradient.desc->type, adam.amsgrad, static_cast<bool>(adam.copy)};
  }
};

/// The coefficients of step number `step` for a gradient that is divided by `scale`.
kernels::AdamStep coefficients(const Adam&, double step, double scale);

/// Whether the size of the step depends on its number.
bool depends_on_step(const Adam&);

void run_gpu(Stream&, const Pass&);

}  // namespace polymio::optimizer
