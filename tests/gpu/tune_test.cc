// When tuning compiles, and what it does with programs that are refused: on the fake driver and compiler.
// SPDX-License-Identifier: MIT
#include "search/tune.h"

#include "base/error.h"
#include "tests/gpu/compilation.h"
#include "tests/search/fake.h"

namespace polymio::search {
namespace {

/// Tuning on the fake device, three programs at a time.
struct TuneOnGpu : SearchTest {
  Handle gpu{"cuda:0", nullptr};
  const FakeProblem p{"a"};
  const Request rq{gpu, list, p, {}, &check, &clock};
  std::vector<int> compiled;  // since the beginning, at each run
  int template_from = 100;    // the first point whose program is a template

  TuneOnGpu() {
    ::setenv("MIOPEN_COMPILE_PARALLEL_LEVEL", "3", 1);
    fast.traits.devices = static_cast<unsigned>(DeviceKind::kCuda);
    fast.space = {{"knob", {1, 2, 3, 4, 5, 6, 7, 8}}};
  }
  ~TuneOnGpu() override { ::unsetenv("MIOPEN_COMPILE_PARALLEL_LEVEL"); }

  TuneResult tune_fast(int first_program, TuneLimits limits) {
    fast.programs = [=, this](const TunePoint& t) {
      return std::vector{program(first_program + t[0], t[0] < template_from ? "" : "Tile<64>")};
    };
    fast.on_run = [this, before = compilations()] { compiled.push_back(compilations() - before); };
    Candidate c = rank(rq).at(0);
    Verifier verifier(rq, &args, 0);
    return tune(rq, verifier, c, &args, limits, true);
  }
};

TEST_F(TuneOnGpu, CompilesTheNextPointsTogether) {
  EXPECT_EQ(tune_fast(100, {1e12}).measured, 8u);
  ASSERT_FALSE(compiled.empty());
  EXPECT_EQ(compiled.front(), 3);
  EXPECT_EQ(compiled.back(), 8) << "each once";
}

TEST_F(TuneOnGpu, CompilesNoMoreThanItMayTry) {
  EXPECT_EQ(tune_fast(200, {1e12, 4}).measured, 4u);
  EXPECT_EQ(compiled.back(), 4);
}

TEST_F(TuneOnGpu, PointsOfRefusedProgramsAreRecordedAsFailed) {
  ::setenv("FAKE_CUDA", "spill", 1);
  template_from = 3;
  EXPECT_TRUE(tune_fast(300, {1e12}).complete);
  ::unsetenv("FAKE_CUDA");
  const auto trials = find_db(gpu.device().architecture).trials("a", "Fast");
  EXPECT_EQ(trials.size(), 8u);
  for (const FindRecord& r : trials)
    EXPECT_EQ(r.kind, r.tune_point < "3" ? RecordKind::kTrial : RecordKind::kFailed) << r.tune_point;
}

TEST_F(TuneOnGpu, RunsTakeTheNextSolverInstead) {
  reference.traits.devices = fast.traits.devices;
  fast.programs = [](const TunePoint&) { return std::vector{program(400, "Tile<64>")}; };
  const FakePrimitive primitive(list);
  const Call call(gpu, primitive, p, {});
  ::setenv("FAKE_CUDA", "spill", 1);
  EXPECT_EQ(call.first_plan().solver, &reference);
  prepare(gpu, primitive, std::vector<Wanted>{{&p, {}}});
  EXPECT_THROW(call.plan(fast.traits.id), Error);
  ::unsetenv("FAKE_CUDA");
  EXPECT_EQ(rank(rq).at(0).solver, &fast);
}

}  // namespace
}  // namespace polymio::search
