// Ranking and find over fake solvers: the runs, records and answers of each mode, on a hit and on a miss.
// SPDX-License-Identifier: MIT
#include "search/find.h"

#include <sys/wait.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "fake.h"
#include "search/model.h"

namespace polymio::search {
namespace {

struct FindTest : SearchTest {
  FindOptions options(FindMode mode, bool tune = false, Enforce forced = Enforce::kNone) {
    return {mode, tune, forced, {}};
  }
  int runs() const { return reference.runs + slow.runs + fast.runs + hungry.runs; }
  std::vector<Candidate> search(const ProblemBase& p, FindMode mode = FindMode::kDynamicHybrid, Constraints c = {}) {
    return find(request(p, c), options(mode), &args);
  }
};

TEST_F(FindTest, RanksByEstimateWithTheReferenceLast) {
  const FakeProblem p("a");
  const auto r = rank(request(p));
  EXPECT_EQ(names(r), (Names{"Slow", "Fast", "Hungry", "Reference"}));
  for (const auto& c : r) EXPECT_EQ(c.source, Source::kEstimate);
  EXPECT_FALSE(is_hit(r, FindMode::kHybrid));
}

/// NORMAL measures everything unless this handle has done so; FAST measures nothing; the other modes take a hit, and
/// measure on a miss.
TEST_F(FindTest, EveryModeOnAMissAndOnAHit) {
  for (const FindMode mode :
       {FindMode::kNormal, FindMode::kFast, FindMode::kHybrid, FindMode::kReserved, FindMode::kDynamicHybrid}) {
    SCOPED_TRACE(static_cast<int>(mode));
    FakeProblem p("mode " + std::to_string(static_cast<int>(mode)));
    p.kin = p.name;  // no neighbours
    const bool fast_mode = mode == FindMode::kFast;
    const bool normal = mode == FindMode::kNormal || mode == FindMode::kReserved;
    int before = runs();
    const auto miss = find(request(p), options(mode), &args);
    EXPECT_EQ(runs() > before, !fast_mode);
    if (fast_mode) {
      EXPECT_EQ(names(miss), (Names{"Slow"})) << "the best prediction alone";
      EXPECT_TRUE(db().lookup(p.key()).empty()) << "a prediction is not stored";
      find(request(p), options(FindMode::kNormal), &args);
    } else {
      EXPECT_EQ(names(miss), (Names{"Fast", "Hungry", "Slow", "Reference"}));
    }
    Handle other("cpu", nullptr);
    const Request again{other, list, p, {}, &check, &clock};
    before = runs();
    const auto hit = find(again, options(mode), &args);
    EXPECT_EQ(runs() > before, normal);
    EXPECT_EQ(hit[0].solver, &fast);
    EXPECT_EQ(hit.size(), normal ? 4u : 1u) << "a hit gives exactly one result";
    before = runs();
    find(again, options(mode), &args);
    EXPECT_EQ(runs(), before) << "the handle has searched it";
  }
}

TEST_F(FindTest, DynamicHybridSearchesDynamicSolversOnly) {
  const FakeProblem p("a");
  fast.traits.dynamic = false;
  EXPECT_EQ(names(search(p)), (Names{"Hungry", "Slow", "Reference"}));
  EXPECT_EQ(fast.runs, 0);
  const int before = runs();
  EXPECT_EQ(names(search(p)), (Names{"Hungry"}));
  EXPECT_EQ(runs(), before) << "complete as far as this mode goes";
  EXPECT_EQ(search(p, FindMode::kHybrid)[0].solver, &fast) << "HYBRID misses the other one";
}

TEST_F(FindTest, TheReferenceIsPredictedNotRun) {
  const FakeProblem p("a");
  const auto first = search(p);
  EXPECT_EQ(reference.runs, 0);
  EXPECT_EQ(first.back().source, Source::kEstimate);
  EXPECT_EQ(db().lookup(p.key()).size(), 4u);
}

TEST_F(FindTest, RunsTheReferenceWhenNothingElseIsAllowed) {
  const FakeProblem p("a");
  search(p);  // stores the reference as predicted
  Constraints c;
  c.algorithms = 1u << static_cast<int>(Algorithm::kDirect);
  const auto r = search(p, FindMode::kHybrid, c);
  EXPECT_EQ(names(r), (Names{"Reference"}));
  EXPECT_GT(reference.runs, 0);
  EXPECT_EQ(r[0].source, Source::kMeasured);
}

TEST_F(FindTest, OnlyTheNamedSolvers) {
  const FakeProblem p("a");
  FindOptions o = options(FindMode::kHybrid);
  o.only = {&slow, &hungry};
  EXPECT_EQ(names(find(request(p), o, &args)), (Names{"Hungry", "Slow"}));
  EXPECT_EQ(fast.runs, 0);
}

TEST_F(FindTest, ACandidateThatCannotBeBuiltLeavesTheSearch) {
  const FakeProblem p("a");
  fast.broken = true;
  EXPECT_EQ(names(search(p)), (Names{"Hungry", "Slow", "Reference"}));
  EXPECT_NE(last_report().find("Fast is out: std::bad_alloc"), std::string::npos) << last_report();
}

TEST_F(FindTest, AWrongSolverIsNeverSelectedNorRunAgain) {
  const FakeProblem p("a"), q("b");
  fast.answer = 41;
  EXPECT_EQ(names(search(p)), (Names{"Hungry", "Slow", "Reference"}));
  const int seen = fast.runs;
  EXPECT_EQ(seen, 1) << "one run was enough";
  const auto quarantined = db().quarantined("fake");
  ASSERT_EQ(quarantined.size(), 1u);
  EXPECT_EQ(quarantined[0].solver, "Fast");
  Handle other("cpu", nullptr);
  EXPECT_EQ(names(rank({other, list, q, {}, &check, &clock})), (Names{"Hungry", "Slow", "Reference"}))
      << "the whole family is affected";
  fast.traits.version = 2;
  EXPECT_EQ(rank(request(q)).size(), 4u) << "a new version gets a new chance";
}

TEST_F(FindTest, AVersionBumpDropsOneRecordAndKeepsItsTimeAsPrior) {
  const FakeProblem p("a");
  search(p);
  fast.traits.version = 2;
  const auto r = rank(request(p));
  EXPECT_FALSE(is_hit(r, FindMode::kHybrid));
  EXPECT_EQ(r[0].solver, &fast) << "by its old time, not by its wrong prediction";
  EXPECT_EQ(r[0].source, Source::kNeighbour);
  Constraints without;
  without.algorithms = ~(1u << static_cast<int>(Algorithm::kGemm));
  EXPECT_TRUE(is_hit(rank(request(p, without)), FindMode::kHybrid)) << "the other records are still good";
}

TEST_F(FindTest, ConstraintsFilterSolversAndRecords) {
  const FakeProblem p("a");
  search(p);
  Constraints c;
  c.workspace_limit = 999;
  EXPECT_EQ(names(rank(request(p, c))), (Names{"Fast", "Slow", "Reference"}));
  EXPECT_TRUE(is_hit(rank(request(p, c)), FindMode::kHybrid));
  fast.traits.deterministic = false;
  c.deterministic = true;
  EXPECT_EQ(names(rank(request(p, c))), (Names{"Slow", "Reference"}));
  slow.error = ErrorClass::kApproximate;
  EXPECT_EQ(names(rank(request(p, c))), (Names{"Reference"}));
  c.math = MathMode::kAny;
  EXPECT_EQ(names(rank(request(p, c))), (Names{"Slow", "Reference"}));
}

TEST_F(FindTest, RecordsOfOtherCoresAreAPrior) {
  const FakeProblem p("a");
  search(p);
  handle.stream().set_threads(handle.stream().threads() + 1);
  const auto r = rank(request(p));
  EXPECT_FALSE(is_hit(r, FindMode::kHybrid));
  EXPECT_EQ(r[0].solver, &fast);
  EXPECT_EQ(r[0].source, Source::kNeighbour);
}

TEST_F(FindTest, AnUnseenSizeBorrowsFromTheNearestTunedOne) {
  fast.space = {{"knob", {1, 2, 3}}};
  fast.factor = [](const TunePoint& t) { return t[0] == 3 ? 0.5 : 1.0; };
  const FakeProblem small("small", 1), twice("twice", 2), far("far", 64);
  find(request(small), options(FindMode::kNormal, true), &args);
  const auto r = rank(request(twice));
  EXPECT_EQ(r[0].solver, &fast);
  EXPECT_EQ(r[0].source, Source::kNeighbour);
  EXPECT_EQ(r[0].point, (TunePoint{3})) << "the tuned point too";
  EXPECT_NEAR(r[0].us, 2 * 0.5 * fast.run_us, fast.run_us) << "scaled by the work";
  EXPECT_EQ(rank(request(far))[0].source, Source::kEstimate) << "64 times the size is no neighbour";
}

TEST_F(FindTest, ALearnedModelOverridesEstimates) {
  struct Fixed final : Model {
    std::shared_ptr<const Prediction> predict(const DeviceInfo&, const ProblemBase& p, SolverList) const override {
      auto prediction = std::make_shared<Prediction>();
      if (p.key() == "foreign")
        prediction->declined = "foreign";
      else
        prediction->us = {0.5, 100, 1, NAN};  // the reference, slow, fast, hungry
      return prediction;
    }
    std::optional<TunePoint> point(const DeviceInfo&, const ProblemBase&, const SolverBase&,
                                   std::size_t) const override {
      return std::nullopt;
    }
  } model;
  const FakeProblem p("a"), foreign("foreign");
  set_learned_model(&model);
  const bool built_in = learned_model(handle.device());
  const auto learned = rank(request(p)), declined = rank(request(foreign));
  ::setenv("MIOPEN_DEBUG_ENABLE_AI_IMMED_MODE_FALLBACK", "0", 1);
  const auto off = rank(request(p));
  ::unsetenv("MIOPEN_DEBUG_ENABLE_AI_IMMED_MODE_FALLBACK");
  set_learned_model(nullptr);
  EXPECT_EQ(learned[0].source, built_in ? Source::kModel : Source::kEstimate);
  EXPECT_EQ(learned[0].solver == &fast, built_in);
  EXPECT_EQ(learned.back().solver, &reference) << "no model can choose the reference";
  EXPECT_EQ(declined[0].source, Source::kEstimate);
  EXPECT_EQ(off[0].source, Source::kEstimate);
}

TEST_F(FindTest, WithALearnedModelOnlyACloseRelativeCounts) {
  struct Fixed final : Model {
    std::shared_ptr<const Prediction> predict(const DeviceInfo&, const ProblemBase&, SolverList) const override {
      auto prediction = std::make_shared<Prediction>();
      prediction->us = {NAN, 1e6, 1e4, 1e7};  // the fast solver first, all far from the measured times
      return prediction;
    }
    std::optional<TunePoint> point(const DeviceInfo&, const ProblemBase&, const SolverBase&,
                                   std::size_t) const override {
      return std::nullopt;
    }
  } model;
  fast.space = {{"knob", {1, 2, 3}}};
  fast.factor = [](const TunePoint& t) { return t[0] == 3 ? 0.5 : 1.0; };
  find(request(FakeProblem("known")), options(FindMode::kNormal, true), &args);
  set_learned_model(&model);
  const bool built_in = learned_model(handle.device());
  const auto near = rank(request(FakeProblem("near", 1.25))), far = rank(request(FakeProblem("far", 2)));
  set_learned_model(nullptr);
  if (!built_in) GTEST_SKIP() << "a build without learned models";
  for (const auto& r : {near, far}) {
    EXPECT_EQ(r[0].solver, &fast);
    EXPECT_EQ(r[0].source, Source::kModel);
    EXPECT_EQ(r[0].point, (TunePoint{3})) << "the relative's";
  }
  EXPECT_LT(near[0].us, 5e3) << "between the model's and the relative's";
  EXPECT_GT(near[0].us, 1.25 * fast.run_us);
  EXPECT_EQ(far[0].us, 1e4);
}

TEST_F(FindTest, BeginsWithTheTunePointOfTheLearnedModel) {
  struct Pointing final : Model {
    std::shared_ptr<const Prediction> predict(const DeviceInfo&, const ProblemBase&, SolverList) const override {
      return std::make_shared<Prediction>();
    }
    std::optional<TunePoint> point(const DeviceInfo&, const ProblemBase&, const SolverBase& s,
                                   std::size_t) const override {
      return s.info().id == 3 ? std::optional(TunePoint{2}) : std::nullopt;
    }
  } model;
  fast.space = {{"knob", {1, 2, 3}}};
  fast.factor = [](const TunePoint& t) { return t[0] == 2 ? 0.5 : 1.0; };
  const FakeProblem p("a");
  set_learned_model(&model);
  const bool built_in = learned_model(handle.device());
  const auto found = search(p);
  set_learned_model(nullptr);
  EXPECT_EQ(found[0].solver, &fast);
  EXPECT_EQ(found[0].point, (TunePoint{built_in ? 2 : 1}));
  const auto again = rank(request(p));
  EXPECT_EQ(again[0].point, found[0].point) << "the record keeps it";
  EXPECT_TRUE(is_hit(again, FindMode::kHybrid));
}

TEST_F(FindTest, ABudgetSkipsWhatDoesNotFitAndSaysSo) {
  const FakeProblem p("a");
  slow.predicted = 100e3;
  handle.set_find_budget_us(20e3);
  const auto r = search(p);
  EXPECT_LT(clock.now, 20e3);
  EXPECT_EQ(r[0].solver, &fast) << last_report();
  EXPECT_EQ(slow.runs, 0);
  EXPECT_NE(last_report().find("skipped Slow: twice its prediction"), std::string::npos) << last_report();
  EXPECT_EQ(db().lookup(p.key()).size(), 3u) << "what was skipped has no record";
  handle.set_find_budget_us(0);
  search(p);
  EXPECT_GT(slow.runs, 0) << "a find without a budget completes it";
}

TEST_F(FindTest, ABudgetOfAlmostNothingStillAnswers) {
  const FakeProblem p("a");
  handle.set_find_budget_us(1);
  EXPECT_EQ(names(search(p))[0], "Slow");
  EXPECT_EQ(runs(), 0);
}

TEST_F(FindTest, TheReferenceAnswersWhenAllOthersAreExcluded) {
  const FakeProblem p("a");
  slow.broken = fast.broken = true;
  hungry.answer = 41;
  const auto r = search(p);
  EXPECT_EQ(names(r), (Names{"Reference"}));
  EXPECT_GT(reference.runs, 0);
  reference.broken = true;
  const FakeProblem q("b");
  EXPECT_THROW(search(q), Error);
}

TEST_F(FindTest, ARecordWithinLessWorkspaceIsNoHitLater) {
  fast.space = {{"passes", {1, 4}}};
  fast.workspace_of = [](const TunePoint& t) { return t.empty() ? 0u : 4000u / static_cast<unsigned>(t[0]); };
  const FakeProblem p("a");
  Constraints narrow;
  narrow.workspace_limit = 1500;
  search(p, FindMode::kHybrid, narrow);
  EXPECT_TRUE(is_hit(rank(request(p, narrow)), FindMode::kHybrid));
  EXPECT_FALSE(is_hit(rank(request(p)), FindMode::kHybrid));
}

TEST_F(FindTest, QuarantineHoldsWithoutADatabase) {
  FakeProblem p("a");
  p.kin = "without a database";
  fast.answer = 41;
  ::setenv("MIOPEN_DEBUG_DISABLE_FIND_DB", "1", 1);
  search(p);
  const auto after = names(rank(request(p)));
  ::unsetenv("MIOPEN_DEBUG_DISABLE_FIND_DB");
  EXPECT_EQ(std::count(after.begin(), after.end(), "Fast"), 0);
}

TEST_F(FindTest, ManyProcessesSearchOnce) {
  const FakeProblem p("a");
  fast.on_run = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  handle.device();  // the library starts no threads before the fork
  std::vector<pid_t> children;
  for (int i = 0; i < 6; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      search(p);
      ::_exit(fast.runs > 0 ? 1 : 0);
    }
    children.push_back(child);
  }
  int searched = 0;
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    searched += WEXITSTATUS(status);
  }
  EXPECT_EQ(searched, 1) << "the others waited for its result";
}

TEST_F(FindTest, AWorkspaceLimitPicksAPointThatFits) {
  fast.space = {{"passes", {1, 2, 4}}};
  fast.workspace_of = [](const TunePoint& t) { return t.empty() ? 0u : 4000u / static_cast<unsigned>(t[0]); };
  const FakeProblem p("a");
  Constraints c;
  c.workspace_limit = 2500;
  const auto r = rank(request(p, c));
  const auto it = std::find_if(r.begin(), r.end(), [&](const Candidate& k) { return k.solver == &fast; });
  ASSERT_NE(it, r.end());
  EXPECT_EQ(it->workspace, 2000u);
  c.workspace_limit = 999;
  EXPECT_EQ(names(rank(request(p, c))), (Names{"Slow", "Reference"})) << "no point fits";
}

TEST_F(FindTest, NothingAllowedIsAnEmptyAnswerWithReasons) {
  const FakeProblem p("unsupported");
  EXPECT_TRUE(search(p).empty());
  EXPECT_NE(refusals(request(p)).find("Fast: cannot do unsupported problems"), std::string::npos);
}

TEST_F(FindTest, ExplainsEverySolver) {
  const FakeProblem p("a");
  hungry.answer = 0;
  search(p);
  Constraints c;
  c.workspace_limit = 10;
  auto j = nlohmann::json::parse(explain(request(p, c)));
  EXPECT_EQ(j["chosen"], "Fast");
  EXPECT_EQ(j["source"], "database");
  ASSERT_EQ(j["solvers"].size(), 4u);
  EXPECT_EQ(j["solvers"][3]["applicable"], false);
  EXPECT_EQ(j["solvers"][3]["reason"], "needs more workspace than is available (limit 10, here 1000)");
  EXPECT_TRUE(j["solvers"][0]["measured_us"].is_null());
  EXPECT_GT(j["solvers"][2]["measured_us"], 400.0);
  j = nlohmann::json::parse(explain(request(p)));
  EXPECT_EQ(j["solvers"][3]["applicable"], false);
  EXPECT_NE(j["solvers"][3]["reason"].get<std::string>().find("quarantined"), std::string::npos);
}

TEST_F(FindTest, TheReferenceIsNeverQuarantined) {
  const FakeProblem p("a");
  for (const char* name : {"Reference", "Slow", "Fast", "Hungry"}) {
    const FindRecord r{"a", name, 1, 0, 0, "", 1, 1, RecordKind::kQuarantined, "fake", {0}, 1};
    db().store({&r, 1});
  }
  EXPECT_EQ(names(rank(request(p))), (Names{"Reference"}));
  EXPECT_EQ(names(search(p, FindMode::kNormal)), (Names{"Reference"}));
  EXPECT_EQ(refusals(request(p)), fmt::format("Slow: {0}; Fast: {0}; Hungry: {0}", kQuarantined));
  EXPECT_EQ(nlohmann::json::parse(explain(request(p)))["solvers"][1]["reason"], kQuarantined);
  const Request rq = request(p);
  EXPECT_EQ(nlohmann::json::parse(diagnose(handle, &rq))["problem"]["quarantined"],
            (std::vector<std::string>{"Slow", "Fast", "Hungry"}));
}

/// Invalid tune points in a record, in a relative's record or in a record of another number of cores.
TEST_F(FindTest, RecordsOfPointsOutsideTheSpaceAreIgnored) {
  fast.space = {{"size", {1, 2, 4}}, {"mode", {0, 1}}};
  const auto inside = [](const TunePoint& t) {
    EXPECT_TRUE(t.size() == 2 && (t[0] == 1 || t[0] == 2 || t[0] == 4) && (t[1] == 0 || t[1] == 1)) << to_text(t);
    return t.size() == 2 && t[0] > 0;
  };
  fast.factor = [&](const TunePoint& t) { return inside(t) ? 1.0 / t[0] : 1; };
  fast.workspace_of = [&](const TunePoint& t) { return inside(t) ? 0u : SIZE_MAX; };
  const auto point_after = [&](const FakeProblem& p, const std::string& key, const std::string& point, int units) {
    const FindRecord r{key, "Fast", 1, 5, 0, point, units, handle.device().threads, RecordKind::kTuned, p.kin, {0}, 1};
    db().store({&r, 1});
    for (const Candidate& c : rank(request(p)))
      if (c.solver == &fast) return to_text(c.point);
    return std::string("none");
  };
  int n = 0;
  const int here = handle.device().units;
  fast.space = {{"size", {1, 2, 4}}, {"mode", {0, 1}}};
  for (const char* bad : {"0,0", "-1,0", "3,0", "2", "2,0,0", "", "2,1,", "x", "2147483648,0", "2;1", "-2147483648,-1"})
    for (const int units : {here, here + 1})
      for (const bool relative : {false, true}) {
        SCOPED_TRACE(fmt::format("'{}' units {} relative {}", bad, units, relative));
        FakeProblem p("point " + std::to_string(n++));
        p.kin = p.name;
        const std::string taken = point_after(p, relative ? "other" + p.name : p.name, bad, units);
        EXPECT_EQ(taken, std::string(bad) == "2,1," && !(relative && units != here) ? "2,1" : "1,1");
      }
}

TEST_F(FindTest, DiagnosesAMiss) {
  const FakeProblem p("a");
  const auto why = [&] {
    const Request rq = request(p);
    return nlohmann::json::parse(diagnose(handle, &rq))["problem"]["why_missed"].get<std::string>();
  };
  EXPECT_EQ(why(), "no record of this problem");
  search(p);
  EXPECT_EQ(why(), "");
  fast.traits.version = 2;
  EXPECT_NE(why().find("Fast is version 2, its record is of version 1"), std::string::npos) << why();
}

}  // namespace
}  // namespace polymio::search
