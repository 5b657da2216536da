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

/// What SolverInfo::devices says of solvers for the CPU, for CUDA alone, and for GPUs of every kind.
inline constexpr unsigned kCpu = static_cast<unsigned>(DeviceKind::kCpu);
inline constexpr unsigned kCuda = static_cast<unsigned>(DeviceKind::kCuda);
inline constexpr unsigned kGpus =
    kCuda | static_cast<unsigned>(DeviceKind::kOpenCl) | static_cast<unsigned>(DeviceKind::kHip);

/// The function that makes a solver, defined in the solver's own file.
template <class Direction>
using SolverMaker = std::unique_ptr<const SolverBase>(const SolverInfo&, Direction);

/// One row of a primitive's solvers.cc.
template <class Direction>
struct Registration {
  SolverInfo info;
  Direction direction;
  SolverMaker<Direction>* make;
};

/// The solvers of a table's rows, made once and kept for the life of the process.
template <class Direction>
class RegisteredSolvers {
 public:
  explicit RegisteredSolvers(std::span<const Registration<Direction>> rows) {
    for (const Registration<Direction>& row : rows) {
      const SolverBase* solver = row.make(row.info, row.direction).release();
      all_.push_back(solver);
      lists_[{row.direction, (row.info.devices & kCpu) != 0}].push_back(solver);
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

/// The solvers of a table, a constexpr array of Registration.
template <const auto& kRows>
const auto& registered() {
  using Direction = std::remove_cv_t<decltype(kRows[0].direction)>;
  static const auto& solvers = *new RegisteredSolvers<Direction>(kRows);
  return solvers;
}

/// The solvers of every primitive; primitives/registry.cc names the primitives.
std::span<const SolverList> registered_solvers();

/// The solver with this frozen id, or null: of these, or of any primitive.
const SolverBase* solver_by_id(std::uint64_t id, SolverList among);
const SolverBase* solver_by_id(std::uint64_t id);

/// The solver of any primitive with this frozen name, or with the id that the text is; or null.
const SolverBase* solver_by_name(std::string_view text);

}  // namespace polymio
