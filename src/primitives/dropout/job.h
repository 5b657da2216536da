// What the devices of dropout implement, behind dropout.h.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/loop.h"
#include "kernels/cpu/dropout.h"
#include "primitives/dropout/dropout.h"

namespace polymio::dropout {

/// Checked. Operands of the loops: y, x, mask.
struct Job {
  const Choice& choice;
  DataType type;
  kernels::Draws draws;
  double scale;
  Loop ordered;  // in the order of the numbers
  Loop all;      // simplified
  const void* x;
  void* y;
  std::int64_t count() const { return all.count(); }
};

void run_on_cpu(Stream&, const Job&);
void run_on_gpu(Stream&, const Job&);

}  // namespace polymio::dropout
