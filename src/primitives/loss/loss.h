// Loss functions: soft margin and its gradient, multi margin. Passes over memory, without find. Results do not depend
// on threads.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "core/solver.h"
#include "core/tensor.h"
#include "runtime/device.h"

namespace polymio::loss {

/// Numbers equal miopenLossReductionMode_t.
enum class Reduction : int { kNone = 0, kSum = 1, kMean = 2 };

struct Input {
  TensorDesc desc{};
  const void* data = nullptr;
};
struct Output {
  TensorDesc desc{};
  void* data = nullptr;
};
struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// Tensors of one of fp32, fp16, bf16 and fp64, of any strides. `x` and `target` have equal sizes.
struct SoftMargin {
  Input x, target;
  Reduction reduction = Reduction::kNone;
};

/// y = log(1 + e^(-target x)), of the sizes of x, or one element if reduced. y may be x or the target unless reduced.
void soft_margin(Stream&, const SoftMargin&, const Output& y, const Workspace&);

/// dx = -target / (e^(target x) + 1) * dy, divided by the number of elements for the mean. dy has the sizes of x or, if
/// reduced, one element. dx may be any input.
void soft_margin_backward(Stream&, const SoftMargin&, const Input& dy, const Output& dx);

/// For each row of x, of sizes (N, C), with class t = target[row], int64: 1 / C times the sum over the other classes c
/// of weight[t] * max(0, margin - x[t] + x[c])^power; 0 if t is not from 0 to C - 1. The power is 1 or 2.
struct MultiMargin {
  Input x, target, weight;
  Reduction reduction = Reduction::kNone;
  std::int64_t power = 1;
  double margin = 1;
};

/// y has N elements, or one if reduced.
void multi_margin(Stream&, const MultiMargin&, const Output& y, const Workspace&);

/// Bytes of workspace, whatever the strides. None on a CPU. Throw BadParm as the functions above do.
std::size_t workspace_size(const DeviceInfo&, const SoftMargin&, const TensorDesc& y);
std::size_t workspace_size(const DeviceInfo&, const MultiMargin&, const TensorDesc& y);

/// The GPU kernels for tensors of a type.
std::vector<KernelSpec> programs(const DeviceInfo&, DataType);

}  // namespace polymio::loss
