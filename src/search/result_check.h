// Result checks: samples of a candidate's output are compared with the definition before the candidate may be chosen.
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
  kInconclusive,  // the inputs make the exact result infinite, NaN or negligible
};

/// How far results may be from exact ones.
struct Tolerance {
  ErrorClass error;
  bool transforms = false;  // Winograd or FFT: an element's error depends on its neighbours, too

  Tolerance(ErrorClass e) : error(e) {}
  Tolerance(const SolverBase& solver, const ProblemBase& p)
      : error(solver.error_class(p)), transforms(solver.info().transforms) {}
};

/// Checks the results of one problem; made by the primitive. Thread-safe.
class ResultCheck {
 public:
  virtual ~ResultCheck() = default;

  /// Overwrites the sampled elements of the output with a pattern that no result has, so that elements which a solver
  /// does not write are found. Call it before the checked run.
  virtual void poison(Stream&, const void* args) const = 0;

  /// Compares the sampled elements of the output with an evaluation in double. `text` names the first wrong element,
  /// its value and the expected one.
  virtual CheckResult check(Stream&, const void* args, Tolerance, std::string& text) const = 0;

  /// The problem, possibly with fewer images, on random inputs in its own memory.
  class PrivateCase {
   public:
    virtual ~PrivateCase() = default;
    virtual const ProblemBase& problem() const = 0;
    virtual const ResultCheck& check() const = 0;
    /// Arguments with this workspace.
    virtual const void* args(void* workspace, std::size_t bytes) = 0;
  };

  /// Null when even one image does not fit `most_bytes`. Memory comes from the handle's allocator.
  virtual std::unique_ptr<PrivateCase> private_case(Handle&, std::size_t most_bytes) const = 0;
};

}  // namespace polymio::search
