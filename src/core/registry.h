// Solvers as rows: each primitive lists its solvers in a table, and everybody finds a solver by id or name here.
// SPDX-License-Identifier: MIT
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/solver.h"

namespace polymio {

/// One row of a primitive's solvers.cc. `make` is defined in the solver's own file.
template <class Direction>
struct Registration {
  SolverInfo info;
  Direction direction;
  std::unique_ptr<const SolverBase> (*make)(const SolverInfo&, Direction);
};

/// The solvers of a table's rows, made once and kept for the life of the process.
template <class Direction>
class RegisteredSolvers {
 public:
  explicit RegisteredSolvers(std::span<const Registration<Direction>> rows) {
    for (const Registration<Direction>& row : rows) {
      const SolverBase* solver = row.make(row.info, row.direction).release();
      all_.push_back(solver);
      for (const bool on_cpu : {false, true}) {
        const bool runs = on_cpu == ((row.info.devices & static_cast<unsigned>(DeviceKind::kCpu)) != 0);
        if (runs) lists_[{row.direction, on_cpu}].push_back(solver);
      }
    }
  }

  /// Those of a direction for the CPU, or for GPUs of every kind, in the order of the rows.
  SolverList list(Direction direction, DeviceKind kind) const {
    const auto found = lists_.find({direction, kind == DeviceKind::kCpu});
    return found == lists_.end() ? SolverList() : found->second;
  }
  SolverList all() const { return all_; }

 private:
  std::vector<const SolverBase*> all_;
  std::map<std::pair<Direction, bool>, std::vector<const SolverBase*>> lists_;
};

/// The solvers of every primitive; primitives/registry.cc names the primitives.
std::span<const SolverList> registered_solvers();

/// The solver with this frozen id, or null: of these, or of any primitive.
const SolverBase* solver_by_id(std::uint64_t id, SolverList among);
const SolverBase* solver_by_id(std::uint64_t id);

/// The solver of any primitive with this frozen name, or with the id that the text is; or null.
const SolverBase* solver_by_name(std::string_view text);

}  // namespace polymio
