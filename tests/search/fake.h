// A fake problem, solvers and clock for the tests of search.
// SPDX-License-Identifier: MIT
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "core/kernel_builder.h"
#include "db/find_db.h"
#include "search/find.h"
#include "search/measure.h"
#include "search/runner.h"

namespace polymio::search {

/// A clock that its users advance.
struct FakeClock : Clock {
  double now = 0;
  double now_us() override { return now; }
};

/// "y = right answer": solvers write a number, which the check compares with the right one.
struct FakeProblem final : ProblemBase {
  struct Args {
    double* y = nullptr;
  };
  std::string name;
  double size = 1;
  std::string kin = "fake";
  explicit FakeProblem(std::string n, double s = 1) : name(std::move(n)), size(s) {}
  std::string key() const override { return name; }
  std::uint64_t hash() const override { return std::hash<std::string>()(name); }
  bool equals(const ProblemBase& o) const override { return name == static_cast<const FakeProblem&>(o).name; }
  std::unique_ptr<ProblemBase> clone() const override { return std::make_unique<FakeProblem>(*this); }
  std::string family() const override { return kin; }
  std::vector<float> log_sizes() const override { return {static_cast<float>(std::log2(size))}; }
  double work() const override { return size; }
};

inline constexpr double kAnswer = 42;

struct FakeCheck final : ResultCheck {
  void poison(Stream&, const void* args) const override { *static_cast<const FakeProblem::Args*>(args)->y = NAN; }
  CheckResult check(Stream&, const void* args, Tolerance, std::string& text) const override {
    if (*static_cast<const FakeProblem::Args*>(args)->y == kAnswer) return CheckResult::kRight;
    text = "not the answer";
    return CheckResult::kWrong;
  }
  std::unique_ptr<PrivateCase> private_case(Handle&, std::size_t) const override {
    struct Private final : PrivateCase {
      FakeProblem p{"private"};
      FakeCheck j;
      double y = 0;
      FakeProblem::Args a{&y};
      const ProblemBase& problem() const override { return p; }
      const ResultCheck& check() const override { return j; }
      const void* args(void*, std::size_t) override { return &a; }
    };
    return std::make_unique<Private>();
  }
};

/// The fake primitive's algorithms.
struct Algorithm {
  static constexpr int kGemm = 0, kDirect = 1, kImplicitGemm = 5;
};

/// A solver that advances the fake clock and counts its runs.
struct FakeSolver final : Solver<FakeProblem> {
  SolverInfo traits;
  double run_us;
  double predicted;
  std::size_t bytes = 0;
  ErrorClass error = ErrorClass::kAccurate;
  double answer = kAnswer;
  bool broken = false;
  TuneSpace space{};
  std::function<double(const TunePoint&)> factor{};  // of the predicted and the actual time
  std::function<std::size_t(const TunePoint&)> workspace_of{};
  std::function<std::vector<KernelSpec>(const TunePoint&)> programs{};  // of a GPU
  std::function<void()> on_run{};
  FakeClock& clock;
  mutable int runs = 0, builds = 0;

  FakeSolver(FakeClock& c, std::uint64_t id, const char* name, int algorithm, double us, double prediction)
      : traits{.id = id,
               .name = name,
               .algorithm = algorithm,
               .method = "Method",
               .devices = static_cast<unsigned>(DeviceKind::kCpu)},
        run_us(us),
        predicted(prediction),
        clock(c) {}
  double scale(const TunePoint& t) const { return factor && !t.empty() ? factor(t) : 1; }
  SolverInfo info() const override { return traits; }
  Verdict is_applicable(const DeviceInfo&, const FakeProblem& p) const override {
    POLYMIO_REQUIRE(p.name != "unsupported", "cannot do unsupported problems");
    return {};
  }
  ErrorClass error_class(const FakeProblem&) const override { return error; }
  std::size_t workspace_size(const DeviceInfo&, const FakeProblem&, const TunePoint& t) const override {
    return workspace_of ? workspace_of(t) : bytes;
  }
  double estimate(const DeviceInfo&, const FakeProblem& p, const TunePoint& t) const override {
    return predicted * p.size * scale(t);
  }
  TuneSpace tune_space(const DeviceInfo&, const FakeProblem&) const override { return space; }
  TunePoint default_point(const DeviceInfo&, const FakeProblem&) const override {
    return TunePoint(space.size(), space.empty() ? 0 : space[0].values[0]);
  }
  std::vector<KernelSpec> kernel_specs(const DeviceInfo&, const FakeProblem&, const TunePoint& t) const override {
    return programs ? programs(t) : std::vector<KernelSpec>();
  }
  Invoker build(Stream& stream, const FakeProblem& p, const TunePoint& t) const override {
    ++builds;
    if (programs) build_kernels(stream, programs(t));
    if (broken) throw std::bad_alloc();
    return [this, us = run_us * p.size * scale(t)](Stream&, const Args& args) {
      ++runs;
      clock.now += us;
      if (on_run) on_run();
      if (args.y) *args.y = answer;
    };
  }
};

/// Its solvers are given.
struct FakePrimitive final : Primitive {
  SolverList list;
  explicit FakePrimitive(SolverList l) : list(l) {}
  void validate(const ProblemBase&) const override {}
  SolverList solvers(const ProblemBase&, DeviceKind) const override { return list; }
  SolverList all_solvers() const override { return list; }
  std::unique_ptr<const ResultCheck> make_check(const ProblemBase&) const override {
    return std::make_unique<FakeCheck>();
  }
};

/// A database folder of its own and four solvers with deliberately wrong predictions.
class SearchTest : public testing::Test {
 protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("polymio_search_" + std::to_string(::getpid()) + "_" +
                                                       testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder);
    ::setenv("MIOPEN_USER_DB_PATH", folder.c_str(), 1);
    reference.traits.reference = true;
    hungry.bytes = 1000;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  Request request(const ProblemBase& p, Constraints c = {}) { return {handle, list, p, c, &check, &clock}; }
  FindDb& db() { return find_db(handle.device().architecture); }

  std::filesystem::path folder;
  Handle handle{"cpu", nullptr};
  FakeCheck check;
  FakeClock clock;
  FakeSolver reference{clock, 1, "Reference", Algorithm::kDirect, 200, 1};
  FakeSolver slow{clock, 2, "Slow", Algorithm::kGemm, 3000, 10};
  FakeSolver fast{clock, 3, "Fast", Algorithm::kGemm, 500, 20};
  FakeSolver hungry{clock, 4, "Hungry", Algorithm::kImplicitGemm, 1500, 30};
  const SolverBase* const list[4] = {&reference, &slow, &fast, &hungry};
  double y = 0;
  const FakeProblem::Args args{&y};
};

using Names = std::vector<std::string>;
inline Names names(const std::vector<Candidate>& candidates) {
  Names n;
  for (const auto& c : candidates) n.push_back(c.solver->info().name);
  return n;
}

}  // namespace polymio::search
