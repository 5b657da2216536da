// Weights packed once for many runs of a convolution.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/aligned_buffer.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {

/// Runs one problem with fixed weights, alpha 1, beta 0 and no workspace. The constructor measures the applicable
/// solvers, with packed weights where they support that, and keeps the fastest. Tied to its handle.
class PackedWeights {
 public:
  /// Forward and backward data only. `w` must live as long as this does.
  PackedWeights(Handle&, const Problem&, const Constraints&, void* w);
  /// Thread-safe.
  void run(Handle&, void* input, void* output) const;
  const SolverBase& solver() const { return *solver_; }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Choice;
  static std::vector<Choice> choices(const search::Request&);
  void choose(const search::Request&, std::vector<Choice>&);

  const Handle* const owner_;
  Problem problem_;
  const AlignedBuffer w_;
  const SolverBase* solver_ = nullptr;
  std::size_t bytes_ = 0;
  std::unique_ptr<Memory> memory_;
  AnyInvoker run_;
};

}  // namespace polymio::convolution
