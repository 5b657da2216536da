// The expected result of a convolution on a GPU, by the reference kernel there, and comparisons with it on the device.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/handle.h"
#include "primitives/convolution/convolution.h"

namespace polymio {

/// Compares results of one problem, whose inputs are uniform in [-1, 1).
class Expected {
 public:
  /// Runs the reference kernel, on some of the output's channels if all would need more than `most_flops` operations.
  /// `seed` chooses them.
  Expected(Handle&, const convolution::Problem&, const convolution::Problem::Args& inputs, double most_flops,
           std::uint64_t seed);

  /// The reference kernel's programs.
  static std::vector<KernelSpec> programs(const DeviceInfo&, const convolution::Problem&);

  /// Fills the output, gaps between its elements included, with NaN.
  void poison(void* output) const;

  struct Difference {
    bool wrong = false;
    double ratio = 0;  // the largest ratio of an element's error to its bound
    double norm = 0;   // of the error, relative to that of the result
    std::string text;  // what is wrong
  };
  /// Elements have the bound of the solver's error class for sums of this length (docs/safety.md); elements that the
  /// reference did not compute must be finite, and gaps untouched.
  Difference compare(const SolverBase&, const void* output) const;

  /// The share of the output's elements that the reference computed.
  double share() const { return share_; }

 private:
  double element_bound(ErrorClass) const;

  Handle& handle_;
  const convolution::Problem problem_;
  const Memory want_, floats_, places_;
  std::shared_ptr<const Kernel> kernel_;
  double share_ = 1;
};

}  // namespace polymio
