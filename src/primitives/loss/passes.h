// The passes of each kind of device, behind the functions of loss.h. The caller has checked the tensors; elements are
// aligned.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/loop.h"
#include "primitives/loss/loss.h"

namespace polymio::loss {

struct Passes {
  void (*soft_margin)(Stream&, const SoftMargin&, const Output& y, const Workspace&);
  void (*soft_margin_backward)(Stream&, const SoftMargin&, const Input& dy, const Output& dx);
  void (*multi_margin)(Stream&, const MultiMargin&, const Output& y, const Workspace&);
};
extern const Passes kCpuPasses, kGpuPasses;

// What kGpuPasses needs.
std::size_t gpu_workspace_size(const DeviceInfo&, const SoftMargin&);
std::size_t gpu_workspace_size(const DeviceInfo&, const MultiMargin&);

/// The factor of a sum over n elements.
inline double factor_of(Reduction reduction, std::int64_t n) {
  return reduction == Reduction::kMean ? 1 / static_cast<double>(n) : 1;
}

/// dy broadcast over dx if it is one element for all.
inline TensorDesc broadcast_gradient(const TensorDesc& dy, const TensorDesc& dx) {
  if (dy.count() > 1 || dx.count() == 1) return dy;
  TensorDesc one = dx;
  one.lens.fill(1);
  return one;
}

}  // namespace polymio::loss
