// Find with fast but wrong solvers among its candidates: they are never chosen, are quarantined for the
// problem's family, and find continues with the others.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "db/find_db.h"
#include "sample_problem.h"
#include "search/tune.h"

namespace polymio::convolution {
namespace {

namespace fs = std::filesystem;

// Set before the first log line: the level is read once.
const int kLogInfo = ::setenv("MIOPEN_LOG_LEVEL", "5", 1);

/// A solver that writes zeros or skips part of the output. By its own estimate it is the fastest.
class Impostor final : public Solver<Problem> {
 public:
  enum Fault { kZeros, kLastChannel, kNoPadding, kSomePoints, kNone };

  Impostor(const char* name, Fault fault) : name_(name), fault_(fault) {}

  SolverInfo info() const override {
    return {.id = 990 + static_cast<std::uint64_t>(fault_),
            .name = name_,
            .algorithm = static_cast<int>(Algorithm::kWinograd),
            .method = "Winograd",
            .version = version,
            .devices = static_cast<unsigned>(DeviceKind::kCpu),
            .transforms = true};
  }
  Verdict is_applicable(const DeviceInfo&, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == Direction::kForward, "computes another direction");
    return {};
  }
  double estimate(const DeviceInfo&, const Problem&, const TunePoint&) const override { return 0.01; }
  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override {
    return fault_ == kSomePoints ? TuneSpace{{"k", {0, 1, 2, 3, 4, 5}}} : TuneSpace{};
  }
  TunePoint default_point(const DeviceInfo&, const Problem&) const override {
    return fault_ == kSomePoints ? TunePoint{0} : TunePoint{};
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& point) const override {
    Problem done = p;
    if (fault_ == kNoPadding) done.geometry.pad = {};
    if (fault_ == kLastChannel) {
      --done.w.lens[0];
      --done.y.lens[1];
    }
    const bool zeros = fault_ == kZeros || (fault_ == kSomePoints && point[0] >= 3);
    return [this, zeros, bytes = p.y.bytes(), work = reference_solver(p.direction).build(stream, done, {})](
               Stream& on, const Args& a) {
      ++runs;
      zeros ? static_cast<void>(std::memset(a.y, 0, bytes)) : work(on, &a);
    };
  }

  mutable int runs = 0;
  int version = 1;

 private:
  const char* name_;
  Fault fault_;
};

const Shape kShape{{2, 16, 20, 20}, {24, 16, 3, 3}, {1, 1}};

bool contains(const std::vector<search::Candidate>& candidates, const SolverBase& solver) {
  return std::any_of(candidates.begin(), candidates.end(), [&](const auto& c) { return c.solver == &solver; });
}

int count(const std::string& text, const std::string& argument) {
  int n = 0;
  for (auto at = text.find(argument); at != std::string::npos; at = text.find(argument, at + 1)) ++n;
  return n;
}

class VerifiedFind : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    const char* given = std::getenv("POLYMIO_TEST_FOLDER");
    folder = given ? fs::path(given)
                   : fs::temp_directory_path() / ("polymio_verify_" + std::to_string(::getpid()) + "_" + test->name());
    child = given != nullptr;
    if (!child) fs::remove_all(folder);
    const char* before = std::getenv("MIOPEN_USER_DB_PATH");
    if (before) database_before = before;
    ::setenv("MIOPEN_USER_DB_PATH", folder.c_str(), 1);
  }
  void TearDown() override {
    database_before.empty() ? ::unsetenv("MIOPEN_USER_DB_PATH")
                            : ::setenv("MIOPEN_USER_DB_PATH", database_before.c_str(), 1);
    if (!child) fs::remove_all(folder);
  }

  /// `extra`, then every real solver.
  std::vector<const SolverBase*> list_with(std::initializer_list<const SolverBase*> extra) {
    std::vector<const SolverBase*> list(extra);
    const auto real = solvers(Direction::kForward);
    list.insert(list.end(), real.begin(), real.end());
    return list;
  }

  std::vector<search::Candidate> find(Handle& handle, const std::vector<const SolverBase*>& list, const Problem& p,
                                      Data& data, bool tune = false) {
    const auto check = make_check(p);
    Constraints allowed;
    allowed.workspace_limit = kWorkspace;
    data.provide_workspace(kWorkspace);
    const search::Request request{handle, list, p, allowed, check.get()};
    testing::internal::CaptureStderr();
    std::vector<search::Candidate> found;
    try {
      found = search::find(request, {search::FindMode::kNormal, tune}, &data.args);
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
    log = testing::internal::GetCapturedStderr();
    return found;
  }

  std::vector<FindRecord> quarantined(Handle& handle, const Problem& p) {
    return find_db(handle.device().architecture).quarantined(p.family());
  }

  static constexpr std::size_t kWorkspace = 8 << 20;
  fs::path folder;
  bool child = false;
  std::string database_before, log;
};

TEST_F(VerifiedFind, AFastAndWrongSolverIsNeverSelected) {
  const Impostor zeros("TestZeros", Impostor::kZeros);
  Handle handle("cpu", nullptr);
  const Problem p = problem(Direction::kForward, kShape);
  Data data(p);
  const auto list = list_with({&zeros});
  const auto found = find(handle, list, p, data);
  EXPECT_FALSE(contains(found, zeros));
  EXPECT_EQ(zeros.runs, 1) << "it is not timed either";
  ASSERT_GE(found.size(), 3u);
  EXPECT_EQ(found[0].source, search::Source::kMeasured) << "the search went on";

  const auto records = quarantined(handle, p);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].kind, RecordKind::kQuarantined);
  EXPECT_EQ(records[0].solver, "TestZeros");
  EXPECT_EQ(records[0].solver_version, 1);
  EXPECT_EQ(records[0].family, p.family());
  EXPECT_EQ(records[0].key, p.key());

  EXPECT_EQ(count(log, "MIOpen(warning)"), 1) << log;
  EXPECT_EQ(count(log, "MIOpenDriver " + p.key() + " -S 990 -V 1"), 1) << log;
  EXPECT_EQ(count(log, "y["), 1) << "says which element: " << log;

  // Later calls on this family neither run the solver nor log again.
  Handle another("cpu", nullptr);
  const Problem bigger = problem(Direction::kForward, {{3, 8, 25, 22}, {10, 8, 3, 3}, {1, 1}});
  ASSERT_EQ(bigger.family(), p.family());
  Data more(bigger);
  for (Handle* h : {&handle, &another}) {
    EXPECT_FALSE(contains(find(*h, list, p, data), zeros));
    EXPECT_EQ(count(log, "warning"), 0) << log;
    EXPECT_FALSE(contains(find(*h, list, bigger, more), zeros));
    EXPECT_EQ(count(log, "warning"), 0) << log;
    EXPECT_FALSE(contains(search::rank({*h, list, bigger, {}}), zeros));
  }
  EXPECT_EQ(zeros.runs, 1);
}

TEST_F(VerifiedFind, ASecondProcessDoesNotRunIt) {
  const Impostor zeros("TestZerosElsewhere", Impostor::kZeros);
  Handle handle("cpu", nullptr);
  const Problem p = problem(Direction::kForward, kShape);
  Data data(p);
  EXPECT_FALSE(contains(find(handle, list_with({&zeros}), p, data), zeros));
  EXPECT_EQ(zeros.runs, child ? 0 : 1);
  if (child) return;
  const std::string self = fs::read_symlink("/proc/self/exe");
  const std::string command = "POLYMIO_TEST_FOLDER='" + folder.string() + "' '" + self +
                              "' --gtest_filter=VerifiedFind.ASecondProcessDoesNotRunIt >/dev/null 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_F(VerifiedFind, OneMissingChannelIsEnough) {
  const Impostor partial("TestLastChannel", Impostor::kLastChannel);
  Handle handle("cpu", nullptr);
  const Problem p = problem(Direction::kForward, kShape);
  Data data(p);
  EXPECT_FALSE(contains(find(handle, list_with({&partial}), p, data), partial));
  EXPECT_EQ(quarantined(handle, p).size(), 1u);
}

TEST_F(VerifiedFind, OnlyTheFamilyIsQuarantined) {
  const Impostor careless("TestNoPadding", Impostor::kNoPadding);
  Handle handle("cpu", nullptr);
  const auto list = list_with({&careless});
  const Problem padded = problem(Direction::kForward, kShape),
                plain = problem(Direction::kForward, {kShape.x, kShape.w});
  Data data(padded), plain_data(plain);
  EXPECT_FALSE(contains(find(handle, list, padded, data), careless));
  EXPECT_TRUE(contains(find(handle, list, plain, plain_data), careless)) << "right where nothing is padded";
  EXPECT_EQ(quarantined(handle, padded).size(), 1u);
  EXPECT_TRUE(quarantined(handle, plain).empty());
}

TEST_F(VerifiedFind, AnotherVersionGetsAnotherChance) {
  Impostor zeros("TestVersions", Impostor::kZeros);
  Handle handle("cpu", nullptr);
  const Problem p = problem(Direction::kForward, kShape);
  Data data(p);
  find(handle, list_with({&zeros}), p, data);
  EXPECT_EQ(zeros.runs, 1);
  zeros.version = 2;
  EXPECT_TRUE(contains(search::rank({handle, list_with({&zeros}), p, {}}), zeros));
  Handle fresh("cpu", nullptr);
  EXPECT_FALSE(contains(find(fresh, list_with({&zeros}), p, data), zeros));
  EXPECT_EQ(zeros.runs, 2) << "it was tried, and is wrong again";
  EXPECT_EQ(quarantined(handle, p).size(), 2u);
}

TEST_F(VerifiedFind, TuningStopsAtAWrongPoint) {
  const Impostor some("TestSomePoints", Impostor::kSomePoints);
  Handle handle("cpu", nullptr);
  const Problem p = problem(Direction::kForward, kShape);
  Data data(p);
  const auto found = find(handle, list_with({&some}), p, data, true);
  EXPECT_FALSE(contains(found, some)) << "one wrong point condemns the solver";
  EXPECT_GE(found.size(), 3u) << "the others were tuned";
  EXPECT_EQ(quarantined(handle, p).size(), 1u);
  EXPECT_EQ(count(log, "MIOpenDriver"), 1) << log;
}

/// Like many callers: find before the buffers have data.
void make_uninitialised(Data& data, const Problem& p) {
  for (std::int64_t i = 0; i < p.x.space(); ++i) dtype::store(p.x.type, data.x.data(), i, NAN);
}

TEST_F(VerifiedFind, WithoutUsableDataAPrivateCaseDecides) {
  const Impostor zeros("TestPrivateZeros", Impostor::kZeros), partial("TestPrivateChannel", Impostor::kLastChannel);
  const Impostor honest("TestPrivateHonest", Impostor::kNone);
  Handle handle("cpu", nullptr);
  const Problem p = problem(Direction::kForward, kShape);
  Data data(p);
  make_uninitialised(data, p);
  const auto found = find(handle, list_with({&zeros, &partial, &honest}), p, data);
  EXPECT_FALSE(contains(found, zeros));
  EXPECT_FALSE(contains(found, partial));
  EXPECT_TRUE(contains(found, honest));
  EXPECT_EQ(quarantined(handle, p).size(), 2u);
  EXPECT_EQ(count(log, "is not verified"), 0) << log;
  EXPECT_EQ(count(log, "MIOpenDriver"), 2) << log;
}

TEST_F(VerifiedFind, AFewImagesDecideWhereTheLimitIsTight) {
  const Impostor zeros("TestTightZeros", Impostor::kZeros);
  Handle handle("cpu", nullptr);
  const Problem p = problem(Direction::kForward, {{40, 16, 20, 20}, {24, 16, 3, 3}, {1, 1}});
  Data data(p);
  make_uninitialised(data, p);
  // The limit leaves room for the largest workspace of a candidate and a few of the forty images.
  const auto list = list_with({&zeros});
  std::size_t most = 0;
  for (const auto& c : search::rank({handle, list, p, {.workspace_limit = kWorkspace}}))
    most = std::max(most, c.workspace);
  handle.set_workspace_limit(most + p.w.bytes() + (p.x.bytes() + p.y.bytes()) / 6);
  EXPECT_FALSE(contains(find(handle, list, p, data), zeros));
  EXPECT_EQ(count(log, "is not verified"), 0) << log;
  ASSERT_EQ(quarantined(handle, p).size(), 1u);
  EXPECT_EQ(count(log, " -n 5 "), 1) << "the line reproduces the case that was run: " << log;
}

TEST_F(VerifiedFind, WithoutRoomForAPrivateCaseResultsStayUnverified) {
  const Impostor zeros("TestUnverified", Impostor::kZeros);
  Handle handle("cpu", nullptr);
  handle.set_workspace_limit(1000);
  const Problem p = problem(Direction::kForward, kShape);
  Data data(p);
  make_uninitialised(data, p);
  EXPECT_TRUE(contains(find(handle, list_with({&zeros}), p, data), zeros)) << "nothing is known against it";
  EXPECT_TRUE(quarantined(handle, p).empty());
  EXPECT_EQ(count(log, "MIOpen(warning)"), 0) << log;
  bool said = false;
  for (std::size_t at = 0; at < log.size();) {
    const std::size_t end = std::min(log.find('\n', at), log.size());
    const std::string line = log.substr(at, end - at);
    said |= line.find("MIOpen(info)") == 0 && line.find("TestUnverified") != std::string::npos &&
            line.find("not verified") != std::string::npos;
    at = end + 1;
  }
  EXPECT_TRUE(said) << log;
}

TEST_F(VerifiedFind, PrivateTuningIsVerifiedToo) {
  const Impostor zeros("TestTuneAll", Impostor::kZeros);
  Handle handle("cpu", nullptr);
  const Problem p = problem(Direction::kForward, kShape);
  const auto check = make_check(p);
  const auto list = list_with({&zeros});
  testing::internal::CaptureStderr();
  const auto tuned = search::tune_all({handle, list, p, {}, check.get()}, {});
  log = testing::internal::GetCapturedStderr();
  EXPECT_FALSE(contains(tuned.candidates, zeros));
  EXPECT_EQ(quarantined(handle, p).size(), 1u);
  EXPECT_EQ(count(log, "MIOpenDriver"), 1) << log;
}

}  // namespace
}  // namespace polymio::convolution
