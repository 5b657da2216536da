// Tuning over fake solvers on a fake clock: order, limits, resumption, verification, enforcement.
// SPDX-License-Identifier: MIT
#include "search/tune.h"

#include <algorithm>

#include "fake.h"

namespace polymio::search {
namespace {

struct TuneTest : SearchTest {
  const FakeProblem p{"a"};
  std::vector<int> tried;  // knob values in the order of their first build

  TuneTest() {
    fast.space = {{"knob", {1, 2, 3, 4, 5, 6, 7, 8}}};
    // The best point is 6; predictions have the same shape.
    fast.factor = [](const TunePoint& t) { return 1 + 0.3 * std::abs(t[0] - 6); };
  }

  Candidate start() {
    const auto all = rank(request(p));
    return *std::find_if(all.begin(), all.end(), [&](const Candidate& c) { return c.solver == &fast; });
  }
  TuneResult run(Candidate& c, TuneLimits limits = {1e12}, bool again = false) {
    const Request rq = request(p);
    Verifier verifier(rq, &args, 0);
    return tune(rq, verifier, c, &args, limits, again);
  }
  std::vector<FindRecord> trials() { return db().trials("a", "Fast"); }
};

TEST_F(TuneTest, FindsTheBestPointAndMarksItTuned) {
  Candidate c = start();
  const TuneResult r = run(c);
  EXPECT_TRUE(r.complete);
  EXPECT_EQ(r.measured, 8u);
  EXPECT_EQ(c.point, (TunePoint{6}));
  EXPECT_DOUBLE_EQ(c.us, fast.run_us);
  EXPECT_TRUE(c.tuned);
  EXPECT_EQ(trials().size(), 8u) << "every result is kept";
}

TEST_F(TuneTest, CandidatesFollowTheModelsOrderAfterTheStart) {
  const auto points = tune_points(request(p), start());
  ASSERT_EQ(points.size(), 8u);
  EXPECT_EQ(points[0], (TunePoint{1})) << "the default";
  EXPECT_EQ(points[1], (TunePoint{6}));
  EXPECT_EQ(points.back(), (TunePoint{2}));
}

TEST_F(TuneTest, LimitsEndTheSearch) {
  Candidate c = start();
  EXPECT_EQ(run(c, {1e12, 3}).measured, 3u);
  EXPECT_TRUE(c.tuned) << "the caller wanted no more";
  Candidate d = start();
  fast.traits.version = 2;  // the stored trials are of version 1
  EXPECT_EQ(run(d, {1e12, SIZE_MAX, 2}).measured, 4u) << "1, 6, then two that are no better";
}

TEST_F(TuneTest, TimeEndsTheSearchAndTheNextOneResumesIt) {
  Candidate c = start();
  const TuneResult first = run(c, {5e3});
  EXPECT_FALSE(first.complete);
  EXPECT_FALSE(c.tuned);
  ASSERT_GT(first.measured, 0u);
  ASSERT_LT(first.measured, 8u);
  Candidate d = start();
  const TuneResult second = run(d);
  EXPECT_EQ(first.measured + second.measured, 8u) << "no candidate is measured twice";
  EXPECT_EQ(d.point, (TunePoint{6}));
}

TEST_F(TuneTest, TheCallbackSeesProgressAndCancels) {
  std::vector<std::size_t> done;
  handle.set_tuning_callback([&](const TuningProgress& t) {
    EXPECT_EQ(t.total, 8u);
    EXPECT_STREQ(t.solver, "Fast");
    EXPECT_EQ(t.problem, "a");
    done.push_back(t.done);
    return t.done == 3;
  });
  Candidate c = start();
  const TuneResult r = run(c);
  EXPECT_FALSE(r.complete);
  EXPECT_EQ(done, (std::vector<std::size_t>{0, 1, 2, 3}));
}

TEST_F(TuneTest, AWrongPointQuarantinesTheSolver) {
  fast.run_us = 50;
  fast.factor = [this](const TunePoint& t) {
    fast.answer = t[0] == 6 ? 41 : kAnswer;  // set by build, directly before the run
    return t[0] == 6 ? 0.1 : 1.0;
  };
  const Request rq = request(p);
  EXPECT_EQ(names(find(rq, {FindMode::kNormal, true, Enforce::kNone, {}}, &args)),
            (Names{"Hungry", "Slow", "Reference"}));
  EXPECT_EQ(db().quarantined("fake").size(), 1u);
}

TEST_F(TuneTest, AFailingPointIsARecordNotAnEnd) {
  fast.factor = [this](const TunePoint& t) {
    fast.broken = t[0] == 6;
    return 1 + 0.3 * std::abs(t[0] - 6);
  };
  Candidate c = start();
  EXPECT_TRUE(run(c).complete);
  const auto all = trials();
  EXPECT_EQ(all.size(), 8u);
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const FindRecord& r) { return r.kind == RecordKind::kFailed; }),
            1);
}

/// When each enforce value tunes: without and with a request, without and with a tuned record.
TEST_F(TuneTest, EnforceModes) {
  fast.run_us = 50;
  struct Case {
    Enforce forced;
    bool asked, with_record, tunes;
  };
  for (const Case& c : {Case{Enforce::kNone, false, false, false}, Case{Enforce::kNone, true, false, true},
                        Case{Enforce::kNone, true, true, false}, Case{Enforce::kDbUpdate, false, true, false},
                        Case{Enforce::kDbUpdate, true, true, true}, Case{Enforce::kSearch, false, false, true},
                        Case{Enforce::kSearch, false, true, false}, Case{Enforce::kSearchDbUpdate, false, true, true},
                        Case{Enforce::kDbClean, true, false, false}}) {
    SCOPED_TRACE(testing::Message() << static_cast<int>(c.forced) << c.asked << c.with_record);
    const FakeProblem q("q" + std::to_string(static_cast<int>(c.forced)) + (c.asked ? "a" : "") +
                        (c.with_record ? "r" : ""));
    const Request rq = request(q);
    if (c.with_record) find(rq, {FindMode::kNormal, true, Enforce::kNone, {}}, &args);
    Handle other("cpu", nullptr);
    const Request again{other, list, q, {}, &check, &clock};
    const int before = fast.builds;
    find(again, {FindMode::kNormal, c.asked, c.forced, {}}, &args);
    EXPECT_EQ(fast.builds - before > 4, c.tunes) << fast.builds - before;
  }
}

TEST_F(TuneTest, DbCleanDropsTheTunedRecord) {
  fast.run_us = 50;
  const Request rq = request(p);
  find(rq, {FindMode::kNormal, true, Enforce::kNone, {}}, &args);
  const auto tuned = [&] {
    const auto all = db().lookup("a");
    return std::count_if(all.begin(), all.end(), [](const FindRecord& r) { return r.kind == RecordKind::kTuned; });
  };
  EXPECT_EQ(tuned(), 1);
  find(rq, {FindMode::kNormal, true, Enforce::kDbClean, {}}, &args);
  EXPECT_EQ(tuned(), 0);
}

TEST_F(TuneTest, ABudgetLimitsTuningToo) {
  for (FakeSolver* s : {&slow, &fast, &hungry}) s->run_us = s->predicted = 3e3;
  handle.set_find_budget_us(20e3);
  find(request(p), {FindMode::kNormal, true, Enforce::kNone}, &args);
  EXPECT_LE(clock.now, 20e3) << last_report();
  handle.set_find_budget_us(0);
}

TEST_F(TuneTest, OneRefusalEndsTheTuningOfAllSolvers) {
  slow.space = fast.space;
  int calls = 0;
  handle.set_tuning_callback([&](const TuningProgress&) { return ++calls == 3; });
  const FakeProblem own("private");
  const auto tuned = tune_all(request(own), {});
  EXPECT_EQ(calls, 3);
  EXPECT_FALSE(tuned.complete);
}

TEST_F(TuneTest, ATuningBudgetIsForTheWholeProblem) {
  slow.space = fast.space;
  const FakeProblem own("private");
  const auto tuned = tune_all(request(own), {10e3});
  EXPECT_LE(clock.now, 10e3 + slow.run_us) << "a fake run cannot be stopped half way";
  EXPECT_FALSE(tuned.complete);
}

TEST_F(TuneTest, ExhaustiveSearchHasNoEffectOnAHit) {
  fast.run_us = 50;
  const Request rq = request(p);
  find(rq, {FindMode::kHybrid, false, Enforce::kNone, {}}, &args);
  const int before = fast.builds;
  find(rq, {FindMode::kHybrid, true, Enforce::kNone, {}}, &args);
  EXPECT_EQ(fast.builds, before);
}

TEST_F(TuneTest, TuneAllUsesItsOwnDataAndSkipsWhatIsTuned) {
  fast.run_us = 50;
  const FakeProblem own("private");  // the private case of the fake check
  const Request rq = request(own);
  const auto first = tune_all(rq, {});
  EXPECT_TRUE(first.complete);
  EXPECT_EQ(first.measured, 8u);
  EXPECT_EQ(first.candidates[0].solver, &fast);
  const int before = fast.builds;
  EXPECT_EQ(tune_all(rq, {}).measured, 0u);
  EXPECT_EQ(fast.builds, before);
  EXPECT_EQ(tune_all(rq, {0, true}).measured, 8u);
}

}  // namespace
}  // namespace polymio::search
