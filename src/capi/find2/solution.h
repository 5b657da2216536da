// Solutions of find 2.0 and their serialized form.
// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <string_view>
#include <utility>

#include "capi/find2/problem.h"

namespace polymio::capi {

/// A solver with a tune point for a problem. Immutable, so that several threads may run it.
struct SolutionState {
  ProblemState problem;
  search::Candidate candidate;
  ProblemCall call;  // of the problem
};

struct SolutionObject : miopenSolution, InSlots<SolutionObject> {
  static constexpr const char* kKind = "solution";
  Magic<0x706f6c79736f6c75> magic;
  const SolutionState state;
  explicit SolutionObject(SolutionState s) : state(std::move(s)) {}
};

inline const SolutionState& deref(miopenSolution_t s) { return checked<SolutionObject>(s).state; }

/// A solution as bytes: magic, format version, size, fields, checksum.
std::string save(const SolutionState&);

/// The inverse. InvalidValue for bytes that `save` did not write, VersionMismatch for those of another version.
SolutionState load(std::string_view bytes);

}  // namespace polymio::capi
