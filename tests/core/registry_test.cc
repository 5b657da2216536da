// The process-wide table of solvers.
// SPDX-License-Identifier: MIT
#include "core/registry.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace polymio {
namespace {

TEST(Registry, IdsAndNamesAreUniqueOverAllPrimitives) {
  std::set<std::uint64_t> ids;
  std::set<std::string> names;
  std::size_t count = 0;
  for (const SolverList& solvers : registered_solvers()) {
    for (const SolverBase* solver : solvers) {
      const SolverInfo info = solver->info();
      EXPECT_NE(info.id, 0u) << info.name;
      EXPECT_TRUE(ids.insert(info.id).second) << info.id;
      EXPECT_TRUE(names.insert(info.name).second) << info.name;
      EXPECT_NE(info.devices, 0u) << info.name;
      EXPECT_STRNE(info.method, "") << info.name;
      ++count;
    }
  }
  EXPECT_GE(count, 58u);
}

TEST(Registry, FindsSolversByIdAndByName) {
  for (const SolverList& solvers : registered_solvers()) {
    for (const SolverBase* solver : solvers) {
      const SolverInfo info = solver->info();
      EXPECT_EQ(solver_by_id(info.id), solver);
      EXPECT_EQ(solver_by_id(info.id, solvers), solver);
      EXPECT_EQ(solver_by_name(info.name), solver);
      EXPECT_EQ(solver_by_name(std::to_string(info.id)), solver);
    }
  }
  EXPECT_EQ(solver_by_id(999'999), nullptr);
  EXPECT_EQ(solver_by_name("ConvCpuNobody"), nullptr);
  EXPECT_EQ(solver_by_id(1001, registered_solvers()[0]), nullptr);  // of activations, not of convolutions
}

}  // namespace
}  // namespace polymio
