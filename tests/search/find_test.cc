// Ranking and find over fake solvers: what is run, what is stored, what a hit answers.
// SPDX-License-Identifier: MIT
#include "search/find.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

namespace polymio::search {
namespace {

struct FakeProblem final : ProblemBase {
  struct Args {};
  std::string name;
  explicit FakeProblem(std::string n) : name(std::move(n)) {}
  std::string key() const override { return name; }
  std::uint64_t hash() const override { return 1; }
  bool equals(const ProblemBase& o) const override { return name == static_cast<const FakeProblem&>(o).name; }
  std::unique_ptr<ProblemBase> clone() const override { return std::make_unique<FakeProblem>(*this); }
};

/// A solver that sleeps; counts its runs.
struct FakeSolver final : Solver<FakeProblem> {
  SolverInfo traits;
  int sleep_us;
  double predicted;
  std::size_t bytes = 0;
  ErrorClass error = ErrorClass::kAccurate;
  mutable int runs = 0;
  bool broken = false;

  FakeSolver(std::uint64_t id, const char* name, Algorithm a, int sleep, double prediction)
      : traits{id, name, a, 1, static_cast<unsigned>(DeviceKind::kCpu), true, true, true, false},
        sleep_us(sleep),
        predicted(prediction) {}
  SolverInfo info() const override { return traits; }
  Verdict check(const DeviceInfo&, const FakeProblem& p) const override {
    POLYMIO_REQUIRE(p.name != "unsupported", "cannot do unsupported problems");
    return {};
  }
  ErrorClass accuracy(const FakeProblem&) const override { return error; }
  std::size_t workspace(const DeviceInfo&, const FakeProblem&, const TunePoint&) const override { return bytes; }
  double predict(const DeviceInfo&, const FakeProblem&, const TunePoint&) const override { return predicted; }
  Invoker make(Stream&, const FakeProblem&, const TunePoint&) const override {
    if (broken) throw std::bad_alloc();
    return [this](Stream&, const Args&) {
      ++runs;
      std::this_thread::sleep_for(std::chrono::microseconds(sleep_us));
    };
  }
};

class FindTest : public testing::Test {
 protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("polymio_find_" + std::to_string(::getpid()) + "_" +
                                                       testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder);
    ::setenv("MIOPEN_USER_DB_PATH", folder.c_str(), 1);
    reference.traits.reference = true;
    hungry.bytes = 1000;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  Request request(const ProblemBase& p, Constraints c = {}) { return {handle, list, p, c}; }

  std::filesystem::path folder;
  Handle handle{"cpu", nullptr};
  // Predictions are wrong on purpose: measuring must correct them.
  FakeSolver reference{1, "Reference", Algorithm::kDirect, 200, 1};
  FakeSolver slow{2, "Slow", Algorithm::kGemm, 3000, 10};
  FakeSolver fast{3, "Fast", Algorithm::kGemm, 500, 20};
  FakeSolver hungry{4, "Hungry", Algorithm::kImplicitGemm, 1500, 30};
  const SolverBase* const list[4] = {&reference, &slow, &fast, &hungry};
  const FakeProblem::Args args{};
};

std::vector<std::string> names(const std::vector<Candidate>& candidates) {
  std::vector<std::string> n;
  for (const auto& c : candidates) n.push_back(c.solver->info().name);
  return n;
}
using Names = std::vector<std::string>;

TEST_F(FindTest, RanksByEstimateWithTheReferenceLast) {
  const FakeProblem p("a");
  const auto r = rank(request(p));
  EXPECT_EQ(r.source, Source::kEstimate);
  EXPECT_EQ(names(r.candidates), (Names{"Slow", "Fast", "Hungry", "Reference"}));
}

TEST_F(FindTest, MeasuresStoresAndAnswersFromTheDatabase) {
  const FakeProblem p("a");
  const auto first = find(request(p), &args);
  EXPECT_EQ(first.source, Source::kMeasured);
  EXPECT_EQ(names(first.candidates), (Names{"Fast", "Hungry", "Slow", "Reference"}));
  EXPECT_EQ(reference.runs, 0) << "predicted, not run, where others apply";
  EXPECT_FALSE(first.candidates.back().measured);
  const int runs = fast.runs;
  const auto second = find(request(p), &args);
  EXPECT_EQ(second.source, Source::kDatabase);
  EXPECT_EQ(names(second.candidates), names(first.candidates));
  EXPECT_EQ(fast.runs, runs);
  EXPECT_DOUBLE_EQ(second.candidates[0].us, first.candidates[0].us);
  EXPECT_EQ(names(best_per_algorithm(second.candidates)), (Names{"Fast", "Hungry", "Reference"}));
}

TEST_F(FindTest, RunsTheReferenceWhenNothingElseIsAllowed) {
  const FakeProblem p("a");
  Constraints c;
  c.algorithms = 1u << static_cast<int>(Algorithm::kDirect);
  const auto r = find(request(p, c), &args);
  EXPECT_EQ(names(r.candidates), (Names{"Reference"}));
  EXPECT_GT(reference.runs, 0);
  EXPECT_TRUE(r.candidates[0].measured);
}

TEST_F(FindTest, APredictionOfTheReferenceIsNoAnswer) {
  const FakeProblem p("a");
  find(request(p), &args);  // stores the reference as predicted
  Constraints c;
  c.algorithms = 1u << static_cast<int>(Algorithm::kDirect);
  const auto r = find(request(p, c), &args);
  EXPECT_EQ(r.source, Source::kMeasured);
  EXPECT_TRUE(r.candidates[0].measured);
  EXPECT_GT(reference.runs, 0);
}

TEST_F(FindTest, ACandidateThatCannotBeBuiltLeavesTheSearch) {
  const FakeProblem p("a");
  fast.broken = true;
  EXPECT_EQ(names(find(request(p), &args).candidates), (Names{"Hungry", "Slow", "Reference"}));
}

TEST_F(FindTest, AVersionBumpMakesOneRecordStale) {
  const FakeProblem p("a");
  find(request(p), &args);
  fast.traits.version = 2;
  EXPECT_EQ(rank(request(p)).source, Source::kEstimate);
  Constraints without;
  without.algorithms = ~(1u << static_cast<int>(Algorithm::kGemm));
  EXPECT_EQ(rank(request(p, without)).source, Source::kDatabase) << "the other records are still good";
}

TEST_F(FindTest, ConstraintsFilterSolversAndRecords) {
  const FakeProblem p("a");
  find(request(p), &args);
  Constraints c;
  c.workspace_limit = 999;
  EXPECT_EQ(names(rank(request(p, c)).candidates), (Names{"Fast", "Slow", "Reference"}));
  EXPECT_EQ(rank(request(p, c)).source, Source::kDatabase);
  fast.traits.deterministic = false;
  c.deterministic = true;
  EXPECT_EQ(names(rank(request(p, c)).candidates), (Names{"Slow", "Reference"}));
  slow.error = ErrorClass::kApproximate;
  EXPECT_EQ(names(rank(request(p, c)).candidates), (Names{"Reference"}));
  c.math = MathMode::kAny;
  EXPECT_EQ(names(rank(request(p, c)).candidates), (Names{"Slow", "Reference"}));
}

TEST_F(FindTest, AnotherThreadCapHasItsOwnRecords) {
  const FakeProblem p("a");
  find(request(p), &args);
  handle.stream().set_threads(handle.stream().threads() + 1);
  EXPECT_EQ(rank(request(p)).source, Source::kEstimate);
}

TEST_F(FindTest, NothingAllowedIsAnEmptyAnswerWithReasons) {
  const FakeProblem p("unsupported");
  EXPECT_TRUE(find(request(p), &args).candidates.empty());
  EXPECT_NE(refusals(request(p)).find("Fast: cannot do unsupported problems"), std::string::npos);
}

TEST_F(FindTest, ExplainsEverySolver) {
  const FakeProblem p("a");
  find(request(p), &args);
  Constraints c;
  c.workspace_limit = 10;
  const auto j = nlohmann::json::parse(explain(request(p, c)));
  EXPECT_EQ(j["chosen"], "Fast");
  EXPECT_EQ(j["source"], "database");
  ASSERT_EQ(j["solvers"].size(), 4u);
  EXPECT_EQ(j["solvers"][3]["applicable"], false);
  EXPECT_EQ(j["solvers"][3]["reason"], "needs more workspace than is available (limit 10, given 1000)");
  EXPECT_TRUE(j["solvers"][0]["measured_us"].is_null());
  EXPECT_GT(j["solvers"][2]["measured_us"], 400.0);
}

}  // namespace
}  // namespace polymio::search
