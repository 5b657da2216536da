// The plan cache: identity of keys, single flight, failure, eviction.
// SPDX-License-Identifier: MIT
#include "core/plan_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

namespace polymio {
namespace {

struct NumberedProblem final : ProblemBase {
  int value;
  explicit NumberedProblem(int v) : value(v) {}
  std::string key() const override { return std::to_string(value); }
  std::uint64_t hash() const override { return 1; }  // all collide: equality must decide
  bool equals(const ProblemBase& o) const override { return value == static_cast<const NumberedProblem&>(o).value; }
  std::unique_ptr<ProblemBase> clone() const override { return std::make_unique<NumberedProblem>(*this); }
  std::string family() const override { return ""; }
  std::vector<float> log_sizes() const override { return {}; }
  double work() const override { return 1; }
};

Plan plan(std::size_t workspace) {
  return {[](Stream&, const void*) {}, nullptr, workspace};
}

TEST(PlanCache, ComparesInFull) {
  PlanCache cache;
  const NumberedProblem one(1), two(2);
  Constraints tight;
  tight.workspace_limit = 0;
  EXPECT_EQ(cache.get({&one, {}}, [] { return plan(10); })->workspace, 10u);
  EXPECT_EQ(cache.get({&two, {}}, [] { return plan(20); })->workspace, 20u);
  EXPECT_EQ(cache.get({&one, tight}, [] { return plan(30); })->workspace, 30u);
  EXPECT_EQ(cache.get({&one, {}, 7}, [] { return plan(40); })->workspace, 40u);
  EXPECT_EQ(cache.get({&one, {}, 0, 1}, [] { return plan(50); })->workspace, 50u);
  EXPECT_EQ(cache.get({&one, {}}, [] { return plan(99); })->workspace, 10u) << "made again";
  EXPECT_EQ(cache.size(), 5u);
}

TEST(PlanCache, KeepsNothingWhenMakingThrows) {
  PlanCache cache;
  const NumberedProblem p(1);
  EXPECT_THROW(cache.get({&p, {}}, []() -> Plan { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(cache.get({&p, {}}, [] { return plan(1); })->workspace, 1u);
}

TEST(PlanCache, AKeyBeingMadeSurvivesPutAndEviction) {
  PlanCache cache(4096);
  const NumberedProblem a(1), b(2), c(3);
  const auto made = cache.get({&a, {}}, [&] {
    cache.put({&a, {}}, plan(5));  // like another thread
    cache.put({&b, {}}, plan(6));
    cache.put({&c, {}}, plan(7));
    return plan(8);
  });
  EXPECT_EQ(made->workspace, 5u) << "what find has put goes before what was chosen earlier";
  EXPECT_EQ(cache.get({&a, {}}, [] { return plan(9); })->workspace, 5u);
}

TEST(PlanCache, CountsTheBytesThatPlansSay) {
  PlanCache cache(10'000);
  const NumberedProblem a(1), b(2), c(3);
  for (const NumberedProblem* p : {&a, &b, &c}) {
    Plan large = plan(1);
    large.bytes = 6000;
    cache.put({p, {}}, large);
  }
  EXPECT_EQ(cache.size(), 1u);
}

TEST(PlanCache, APlanPutWhileMakingFailsStays) {
  PlanCache cache;
  const NumberedProblem a(1);
  EXPECT_THROW(cache.get({&a, {}},
                         [&]() -> Plan {
                           cache.put({&a, {}}, plan(5));
                           throw std::runtime_error("no");
                         }),
               std::runtime_error);
  EXPECT_EQ(cache.get({&a, {}}, [] { return plan(9); })->workspace, 5u);
}

TEST(PlanCache, MakesOncePerKeyUnderContention) {
  PlanCache cache;
  const NumberedProblem p(1);
  std::atomic<int> made{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 100; ++j)
        cache.get({&p, {}}, [&] {
          ++made;
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          return plan(3);
        });
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(made, 1);
}

TEST(PlanCache, DropsTheLeastRecentlyUsed) {
  PlanCache cache(4096 * 3);
  const NumberedProblem a(1), b(2), c(3), d(4);
  for (const auto* p : {&a, &b, &c}) cache.get({p, {}}, [] { return plan(1); });
  cache.get({&a, {}}, [] { return plan(2); });  // makes a more recent than b
  cache.get({&d, {}}, [] { return plan(1); });
  EXPECT_EQ(cache.size(), 3u);
  EXPECT_EQ(cache.get({&a, {}}, [] { return plan(9); })->workspace, 1u);
  EXPECT_EQ(cache.get({&b, {}}, [] { return plan(9); })->workspace, 9u) << "b should have been dropped";
}

}  // namespace
}  // namespace polymio
