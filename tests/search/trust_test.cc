// The find modes TRUST_VERIFY and TRUST_VERIFY_FULL over fake solvers: which records and predictions are measured, what
// confirms them, and what a refutation leads to; the tuning policy of a handle.
// SPDX-License-Identifier: MIT
#include <cstdlib>

#include "fake.h"
#include "search/settings.h"
#include "search/tune.h"

namespace polymio::search {
namespace {

constexpr FindMode kModes[] = {FindMode::kTrustVerify, FindMode::kTrustVerifyFull};

struct TrustTest : SearchTest {
  FakeProblem p{"a"};

  int runs() const { return reference.runs + slow.runs + fast.runs + hungry.runs; }

  FindRecord record(const char* solver, double us) const {
    const DeviceInfo& device = handle.device();
    return {p.key(), solver,        1,       us, 0, "", device.units, device.threads, RecordKind::kMeasured,
            p.kin,   p.log_sizes(), p.work()};
  }
  /// What ships with the library, or what the program loads.
  void load_pack(const std::vector<FindRecord>& records) {
    std::filesystem::create_directories(folder);
    write_pack(folder / "pack", records);
    db().load_pack(folder / "pack");
  }
  std::vector<Candidate> search(FindMode mode, Handle& on) {
    return find({on, list, p, {}, &check, &clock}, {mode, false, Enforce::kNone, 0, {}}, &args);
  }
  std::vector<Candidate> search(FindMode mode) { return search(mode, handle); }

  /// Another handle measures nothing and gets the same.
  void expect_stored(FindMode mode, const SolverBase& best) {
    Handle other("cpu", nullptr);
    const int before = runs();
    const auto again = search(mode, other);
    EXPECT_EQ(runs(), before) << last_report();
    ASSERT_EQ(again.size(), 1u);
    EXPECT_EQ(again[0].solver, &best);
  }
  Names own() {
    Names names;
    for (const FindRecord& r : db().lookup_own(p.key()))
      if (r.measured()) names.push_back(r.solver);
    return names;
  }
};

TEST_F(TrustTest, TheUsersRecordIsUsedAsItIs) {
  const FindRecord r = record("Slow", 1);
  db().store({&r, 1});
  load_pack({record("Fast", 0.5)});
  for (const FindMode mode : kModes) {
    const auto found = search(mode);
    EXPECT_EQ(names(found), (Names{"Slow"})) << "a pack's time, though better, is not verified";
    EXPECT_EQ(found[0].us, 1) << "nor is the user's";
  }
  EXPECT_EQ(runs(), 0);
}

TEST_F(TrustTest, APacksRecordsAreVerifiedOnceAndBecomeTheUsers) {
  for (const FindMode mode : kModes) {
    p = FakeProblem("pack " + std::to_string(static_cast<int>(mode)));
    load_pack({record("Fast", 500), record("Hungry", 1500), record("Slow", 3000)});
    fast.runs = slow.runs = hungry.runs = 0;
    EXPECT_EQ(names(search(mode)), (Names{"Fast"}));
    EXPECT_GT(fast.runs, 0);
    EXPECT_GT(hungry.runs, 0) << "the best two";
    EXPECT_EQ(slow.runs, 0);
    EXPECT_NE(last_report().find("verified the database: Fast 500.0 us, Fast 500.0 us"), std::string::npos)
        << last_report();
    EXPECT_EQ(own(), (Names{"Fast", "Hungry"}));
    expect_stored(mode, fast);
  }
}

/// Times may exceed their record by the tolerance, and no more.
TEST_F(TrustTest, TheToleranceDecides) {
  ASSERT_EQ(::unsetenv("MIOPEN_VERIFY_TOLERANCE_PCT"), 0);
  int n = 0;
  const auto verified = [&](double recorded) {
    p = FakeProblem("tolerance " + std::to_string(n++));
    load_pack({record("Fast", recorded)});
    search(FindMode::kTrustVerify);
    expect_stored(FindMode::kTrustVerify, fast);
    return slow.runs == 0;
  };
  EXPECT_TRUE(verified(500));
  EXPECT_TRUE(verified(5000)) << "faster is good";
  EXPECT_TRUE(verified(500 / 1.19));
  EXPECT_FALSE(verified(500 / 1.21));
  EXPECT_NE(std::exchange(slow.runs, 0), 0) << "a full find";
  ::setenv("MIOPEN_VERIFY_TOLERANCE_PCT", "50", 1);
  EXPECT_TRUE(verified(500 / 1.49));
  EXPECT_FALSE(verified(500 / 1.51));
  ::unsetenv("MIOPEN_VERIFY_TOLERANCE_PCT");
}

TEST_F(TrustTest, ThePredictionHoldsIfItsFirstIsNotSlowerThanItsSecond) {
  fast.predicted = 5;
  for (const FindMode mode : kModes) {
    p = FakeProblem("good " + std::to_string(static_cast<int>(mode)));
    p.kin = p.name;  // no neighbours
    hungry.runs = 0;
    EXPECT_EQ(names(search(mode)), (Names{"Fast"}));
    EXPECT_EQ(hungry.runs, 0);
    EXPECT_EQ(own(), (Names{"Fast", "Slow"}));
    expect_stored(mode, fast);
  }
  slow.run_us = fast.run_us;
  p = FakeProblem("as fast");
  p.kin = p.name;
  search(FindMode::kTrustVerify);
  EXPECT_EQ(hungry.runs, 0) << "as fast is good";
}

TEST_F(TrustTest, AWrongPredictionLeadsToASearch) {
  for (const FindMode mode : kModes) {
    p = FakeProblem("bad " + std::to_string(static_cast<int>(mode)));
    p.kin = p.name;
    EXPECT_EQ(names(search(mode)), (Names{"Fast", "Hungry", "Slow", "Reference"})) << last_report();
    EXPECT_NE(last_report().find("refuted the prediction"), std::string::npos) << last_report();
    EXPECT_EQ(own(), (Names{"Fast", "Hungry", "Slow"}));
    expect_stored(mode, fast);
  }
}

TEST_F(TrustTest, AWrongResultRefutesToo) {
  fast.answer = 41;
  load_pack({record("Fast", 500)});
  EXPECT_EQ(names(search(FindMode::kTrustVerify)), (Names{"Hungry", "Slow", "Reference"}));
  EXPECT_EQ(fast.runs, 1);
  expect_stored(FindMode::kTrustVerify, hungry);
}

/// The search after a refutation tunes: within a box in TRUST_VERIFY, which leaves out what is not dynamic.
TEST_F(TrustTest, TheSearchTunesWithinABoxOrFully) {
  Knob knob{"knob", {}};
  for (int i = 1; i <= 30; ++i) knob.values.push_back(i);
  fast.space = {knob};
  fast.factor = [](const TunePoint& t) { return 1 + 0.01 * t[0]; };  // the default is the best
  hungry.traits.dynamic = false;
  const auto tuned = [&](FindMode mode) {
    p = FakeProblem("tuned " + std::to_string(static_cast<int>(mode)));
    p.kin = p.name;
    hungry.runs = 0;
    search(mode);
    return last_report();
  };
  const std::string box = tuned(FindMode::kTrustVerify);
  EXPECT_NE(box.find("tuned Fast over 7 candidates;"), std::string::npos) << "six without a better one: " << box;
  EXPECT_EQ(hungry.runs, 0);
  expect_stored(FindMode::kTrustVerify, fast);
  const std::string full = tuned(FindMode::kTrustVerifyFull);
  EXPECT_NE(full.find("tuned Fast over 30 candidates;"), std::string::npos) << full;
  EXPECT_GT(hungry.runs, 0);
  fast.factor = [](const TunePoint& t) { return 1000 - t[0]; };  // half a second each, every one better
  fast.predicted = 1e-3;
  p = FakeProblem("slow");
  p.kin = p.name;
  search(FindMode::kTrustVerify);
  EXPECT_NE(last_report().find("not finished"), std::string::npos) << "one second: " << last_report();
}

TEST_F(TrustTest, AFullSearchTunesEvenWhatIsTuned) {
  fast.space = {{"knob", {1, 2, 3}}};
  fast.factor = [](const TunePoint& t) { return t[0] == 3 ? 1.0 : 2.0; };
  FindRecord stale = record("Fast", 100);
  stale.kind = RecordKind::kTuned;
  stale.tune_point = "1";
  load_pack({stale});
  const auto found = search(FindMode::kTrustVerify);
  EXPECT_EQ(found[0].solver, &fast);
  EXPECT_EQ(found[0].point, (TunePoint{3})) << last_report();
}

TEST_F(TrustTest, WithoutADatabaseItIsDynamicHybrid) {
  ::setenv("MIOPEN_DEBUG_DISABLE_FIND_DB", "1", 1);
  hungry.traits.dynamic = false;
  const auto found = search(FindMode::kTrustVerifyFull);
  const int before = runs();
  search(FindMode::kTrustVerifyFull);
  ::unsetenv("MIOPEN_DEBUG_DISABLE_FIND_DB");
  EXPECT_EQ(found[0].solver, &fast);
  EXPECT_EQ(hungry.runs, 0);
  EXPECT_GT(runs(), before) << "nothing is kept";
}

TEST_F(TrustTest, WhatWasVerifiedIsNoHitOfOtherModes) {
  load_pack({record("Fast", 500)});
  search(FindMode::kTrustVerify);
  const Request rq = request(p);
  const auto ranking = rank(rq);
  ASSERT_NE(answer_of_database(rq, ranking, FindMode::kTrustVerify), nullptr);
  EXPECT_EQ(answer_of_database(rq, ranking, FindMode::kTrustVerify)->solver, &fast);
  EXPECT_EQ(answer_of_database(rq, ranking, FindMode::kDynamicHybrid), nullptr) << "two solvers have no record";
}

TEST_F(TrustTest, EnforcedTuningIsStronger) {
  const FindRecord r = record("Slow", 1);
  db().store({&r, 1});
  find(request(p), {FindMode::kTrustVerify, false, Enforce::kSearch, 0, {}}, &args);
  EXPECT_GT(fast.runs, 0);
}

TEST_F(TrustTest, ABudgetIsKept) {
  handle.set_find_budget_us(20e3);
  load_pack({record("Fast", 100)});
  const auto found = search(FindMode::kTrustVerify);
  EXPECT_LT(clock.now, 20e3);
  EXPECT_EQ(found[0].solver, &fast) << last_report();
}

/// The policy of the handle, which a find without an enforcement of its own takes.
TEST_F(TrustTest, TheTuningPolicyDecidesAsEnforcementDoes) {
  fast.space = {{"knob", {1, 2, 3, 4, 5, 6, 7, 8}}};
  const auto builds = [&](Enforce policy, bool asked = false) {
    Handle other("cpu", nullptr);
    other.set_tuning_policy(policy);
    const int before = fast.builds;
    find({other, list, p, {}, &check, &clock}, {.mode = FindMode::kHybrid, .tune = asked}, &args);
    return fast.builds - before;
  };
  EXPECT_EQ(builds(Enforce::kNone), 1) << "measured, not tuned";
  EXPECT_EQ(builds(Enforce::kNone), 0) << "a hit";
  EXPECT_EQ(builds(Enforce::kDbUpdate), 1) << "a search; nobody asked for tuning";
  EXPECT_GE(builds(Enforce::kSearch), 8);
  EXPECT_LT(builds(Enforce::kSearch), 8) << "tuned already";
  EXPECT_GE(builds(Enforce::kDbUpdate, true), 8);
  EXPECT_GE(builds(Enforce::kSearchDbUpdate), 8);
  EXPECT_EQ(builds(Enforce::kDbClean, true), 1);
  EXPECT_EQ(enforce(handle), Enforce::kNone);
}

}  // namespace
}  // namespace polymio::search
