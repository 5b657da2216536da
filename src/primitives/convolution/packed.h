// Weights packed once for many runs of a convolution.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/aligned_buffer.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {

/// Runs one problem, alpha 1 and beta 0, without workspace, with the weights it was made with. Chosen by timing what
/// applies, packed where it gains; where nothing packs, the weights are read at each run. Belongs to its handle.
class PackedWeights {
 public:
  /// Forward and backward data only. `w` must live as long as this does.
  PackedWeights(Handle&, const Problem&, const Constraints&, void* w);
  /// Runs do not disturb each other.
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
