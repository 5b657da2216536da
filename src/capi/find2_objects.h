// Objects of find 2.0: options of a find, and solutions with their serialized form.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/find2.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "capi/translate.h"
#include "search/find.h"

namespace polymio::capi {

struct FindOptionsState {
  bool tune = false;
  miopenFindResultsOrder_t order = miopenFindResultsOrderByTime;
  std::size_t workspace_limit = SIZE_MAX;
  struct Workspace {
    void* data;
    std::size_t bytes;
  };
  std::optional<Workspace> workspace;  // the caller's
  std::map<miopenTensorArgumentId_t, void*> tensors;
};

struct FindOptionsObject : miopenFindOptions, InSlots<FindOptionsObject> {
  static constexpr const char* kKind = "find options object";
  Magic<0x706f6c796f707473> magic;
  FindOptionsState state;
};

/// A solver with a tune point for a problem. Immutable, so that several threads may run it.
struct SolutionState {
  ProblemState problem;
  search::Candidate candidate;
  ConvolutionCall call;  // of the problem
};

struct SolutionObject : miopenSolution, InSlots<SolutionObject> {
  static constexpr const char* kKind = "solution";
  Magic<0x706f6c79736f6c75> magic;
  const SolutionState state;
  explicit SolutionObject(SolutionState s) : state(std::move(s)) {}
};

inline FindOptionsState& deref(miopenFindOptions_t o) { return checked<FindOptionsObject>(o).state; }
inline const SolutionState& deref(miopenSolution_t s) { return checked<SolutionObject>(s).state; }

/// A solution as bytes: magic, format version, size, fields, checksum.
std::string save(const SolutionState&);

/// The inverse. InvalidValue for bytes that `save` did not write, VersionMismatch for those of another version.
SolutionState load(std::string_view bytes);

}  // namespace polymio::capi
