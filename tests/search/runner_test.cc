// Which plan a call gets whose tensors are less aligned than a solver needs.
// SPDX-License-Identifier: MIT
#include "search/runner.h"

#include "fake.h"

namespace polymio::search {
namespace {

struct AlignmentTest : SearchTest {
  const FakeProblem p{"a"};
  const FakePrimitive primitive{list};
  AlignmentTest() {
    hungry.predicted = 1;  // the best by prediction
    hungry.traits.alignment = 16;
    hungry.space = {{"knob", {1, 2}}};
  }
  Call call(int alignment) { return {handle, primitive, p, {.alignment = alignment}}; }
  std::string name(const Plan& plan) const { return plan.solver->info().name; }
};

TEST_F(AlignmentTest, IsAmongTheConstraints) {
  EXPECT_EQ(names(rank(request(p, {.alignment = 16}))), (Names{"Hungry", "Slow", "Fast", "Reference"}));
  const Request rq = request(p, {.alignment = 8});
  EXPECT_EQ(names(rank(rq)), (Names{"Slow", "Fast", "Reference"}));
  EXPECT_EQ(refusals(rq), "Hungry: the tensors in memory are not aligned as it needs (limit 16, here 8)");
}

TEST_F(AlignmentTest, SolutionsGiveWayWhenItIsTooSmall) {
  const auto id = hungry.traits.id;
  EXPECT_EQ(name(call(16).plan(id)), "Hungry");
  EXPECT_EQ(name(call(16).plan(id, {2})), "Hungry");
  EXPECT_EQ(name(call(16).plan_within(id, {.workspace_limit = 1000, .alignment = 16})), "Hungry");
  EXPECT_EQ(name(call(2).plan(id)), "Slow");
  EXPECT_EQ(name(call(2).plan(id, {2})), "Slow");
  EXPECT_EQ(name(call(16).plan_within(id, {.workspace_limit = 1000, .alignment = 2})), "Slow");
}

}  // namespace
}  // namespace polymio::search
