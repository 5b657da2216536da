// Verified tuning: before a candidate may win, samples of its output are compared with an own evaluation.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>

#include "core/handle.h"
#include "core/solver.h"

namespace polymio::search {

enum class CheckResult {
  kRight,
  kWrong,
  kInconclusive,  // the inputs make the reference infinite, NaN or meaningless: nothing can be said
};

/// How far results may be from exact ones.
struct Tolerance {
  ErrorClass error;
  bool transforms = false;  // which spread an element's error over its neighbours

  Tolerance(ErrorClass e) : error(e) {}
  Tolerance(const SolverBase& solver, const ProblemBase& p)
      : error(solver.error_class(p)), transforms(solver.info().transforms) {}
};

/// Judges the results of one problem; made by the primitive. Thread-safe.
class ResultCheck {
 public:
  virtual ~ResultCheck() = default;

  /// Writes a pattern that no result has over the samples of the output, so that what a solver leaves
  /// out is seen. Call it before the run to be judged.
  virtual void poison(Stream&, const void* args) const = 0;

  /// Compares the samples of the output with an evaluation in double.
  /// `text` says which element is wrong, what it is, and what it should be.
  virtual CheckResult check(Stream&, const void* args, Tolerance, std::string& text) const = 0;

  /// The same problem, or one of fewer images, on random inputs in memory of its own.
  class PrivateCase {
   public:
    virtual ~PrivateCase() = default;
    virtual const ProblemBase& problem() const = 0;
    virtual const ResultCheck& check() const = 0;
    /// Arguments with this workspace.
    virtual const void* args(void* workspace, std::size_t bytes) = 0;
  };

  /// Null when even the smallest does not fit `most_bytes`. Memory comes from the handle's allocator.
  virtual std::unique_ptr<PrivateCase> private_case(Handle&, std::size_t most_bytes) const = 0;
};

}  // namespace polymio::search
