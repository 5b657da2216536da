// Search for the activation primitive: keys, records and plans, detection of a wrong solver, tuning by the environment
// in one process and its use in another.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "core/registry.h"
#include "db/find_db.h"
#include "primitives/activation/activation.h"

namespace polymio::activation {
namespace {

using search::CheckResult;
using Lens = std::vector<std::int64_t>;

TensorDesc tensor(const Lens& lens, const Lens& strides = {}, DataType type = DataType::kFloat) {
  return make_tensor(type, lens, strides);
}

Problem forward_of(Mode mode, const Lens& lens, const Lens& strides = {}) {
  return forward_problem(mode, tensor(lens, strides), tensor(lens, strides));
}

/// A folder of its own for the user's database.
class ActivationSearch : public testing::Test {
 protected:
  ActivationSearch() {
    std::string name = (std::filesystem::temp_directory_path() / "polymio-activ-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    setenv("MIOPEN_USER_DB_PATH", folder_.c_str(), 1);
  }
  ~ActivationSearch() override { std::filesystem::remove_all(folder_); }

  FindDb& db() { return find_db(handle_.device().architecture); }

  /// Tune points that searches have measured, according to the file.
  std::size_t tried(const std::string& solver) {
    std::size_t n = 0;
    read_pack(db().path(), [&](std::size_t, std::string_view, const FindRecord* r) {
      n += r && r->solver == solver && (r->kind == RecordKind::kTrial || r->kind == RecordKind::kFailed);
      return true;
    });
    return n;
  }

  Handle handle_{"cpu", nullptr};
  std::filesystem::path folder_;
};

TEST(ActivationProblem, KeysAreDriverLines) {
  const TensorDesc x = tensor({2, 3, 5, 7});
  EXPECT_EQ(forward_problem(Mode::kRelu, x, x).key(), "activ -n 2 -c 3 -H 5 -W 7 -m 3 -F 1");
  const TensorDesc last = tensor({2, 3, 5, 7}, {105, 1, 21, 3}, DataType::kHalf);
  const TensorDesc first = tensor({2, 3, 5, 7}, {}, DataType::kHalf);
  EXPECT_EQ(forward_problem(Mode::kElu, last, first).key(), "activfp16 -n 2 -c 3 -H 5 -W 7 -m 9 -F 1 -I NHWC");
  const TensorDesc gaps = tensor({2, 3, 5, 7}, {400, 100, 20, 2});
  EXPECT_EQ(backward_problem(Mode::kTanh, x, gaps, x, gaps).key(),
            "activ -n 2 -c 3 -H 5 -W 7 -m 2 -F 2 --out_strides 400,100,20,2 --din_strides 400,100,20,2 "
            "--dout_strides 105,35,7,1");
  const TensorDesc row = tensor({9}, {}, DataType::kDouble);
  EXPECT_EQ(forward_problem(Mode::kAbs, row, row).key(), "activfp64 -_ 0 -n 1 -c 9 -m 5 -F 1");
  const TensorDesc volume = tensor({1, 2, 3, 4, 5}, {}, DataType::kBFloat16);
  EXPECT_EQ(forward_problem(Mode::kPower, volume, volume).key(), "activbfp16 -_ 3 -n 1 -c 2 -! 3 -H 4 -W 5 -m 6 -F 1");
}

TEST(ActivationProblem, FamiliesDifferInSizesOnly) {
  const Problem small = forward_of(Mode::kRelu, {2, 3, 5, 7}), large = forward_of(Mode::kRelu, {64, 256, 14, 14});
  EXPECT_EQ(small.family(), large.family());
  EXPECT_NE(small.family(), forward_of(Mode::kElu, {2, 3, 5, 7}).family());
  EXPECT_NE(small.family(), forward_of(Mode::kRelu, {2, 3, 5, 7}, {400, 100, 20, 2}).family());
  EXPECT_NE(small.hash(), large.hash());
  EXPECT_TRUE(small.equals(*small.clone()));
  EXPECT_FALSE(small.equals(large));
  EXPECT_EQ(small.log_sizes().size(), large.log_sizes().size());
  EXPECT_EQ(small.work(), 2 * 210 * 4);
}

TEST(ActivationProblem, WrongOnesAreRefusedWithReasons) {
  const auto text = [](const Problem& p) -> std::string {
    try {
      validate(p);
    } catch (const Error& e) {
      EXPECT_EQ(e.status, Status::kBadParm);
      return e.what();
    }
    return "";
  };
  const TensorDesc x = tensor({2, 3, 5, 7});
  EXPECT_EQ(text(forward_problem(Mode::kRelu, x, x)), "");
  EXPECT_NE(text(forward_problem(Mode::kRelu, x, tensor({2, 3, 7, 5}))).find("2x3x7x5"), std::string::npos);
  EXPECT_NE(text(forward_problem(Mode::kRelu, x, tensor({2, 3, 5, 7}, {}, DataType::kHalf))).find("fp16"),
            std::string::npos);
  const TensorDesc integer = tensor({2, 3, 5, 7}, {}, DataType::kInt8);
  EXPECT_NE(text(forward_problem(Mode::kRelu, integer, integer)).find("int8"), std::string::npos);
  EXPECT_NE(text(forward_problem(static_cast<Mode>(11), x, x)).find("mode 11"), std::string::npos);
  EXPECT_NE(text(forward_problem(Mode::kRelu, x, tensor({2, 3, 5, 7}, {1, 1, 1, 1}))).find("overlaps itself"),
            std::string::npos);
  const TensorDesc deep = tensor({2, 2, 2, 2, 2, 2}, {243, 81, 27, 9, 3, 1});  // dimensions that cannot be merged
  EXPECT_NE(text(forward_problem(Mode::kRelu, deep, deep)).find("rank 6"), std::string::npos);
}

TEST_F(ActivationSearch, AFirstRunTakesThePackedSolverUnmeasured) {
  const Problem p = forward_of(Mode::kRelu, {2, 64, 28, 28});
  const auto check = make_check(p);
  const auto ranking = search::rank({handle_, solvers(p.direction, handle_.device().kind), p, {}, check.get()});
  ASSERT_EQ(ranking.size(), 3u);
  EXPECT_STREQ(ranking[0].solver->info().name, "ActivCpuPackedFwd");
  EXPECT_EQ(ranking[0].source, search::Source::kEstimate);
  EXPECT_STREQ(ranking[2].solver->info().name, "ActivCpuReferenceFwd") << "the reference is the last resort";
  std::vector<float> x(static_cast<std::size_t>(p.count()), -1), y(x.size(), 5);
  Problem::Args args;
  args.x = x.data();
  args.result = y.data();
  run(handle_, p, args);
  EXPECT_EQ(y, std::vector<float>(x.size(), 0));
  EXPECT_TRUE(db().lookup(p.key()).empty()) << "nothing was measured";
  EXPECT_EQ(handle_.plans().size(), 1u);
}

TEST_F(ActivationSearch, TuningStoresRecordsAndTheNextRankingUsesThem) {
  for (const bool backward : {false, true}) {
    const TensorDesc x = tensor({8, 64, 28, 28});
    const Problem p = backward ? backward_problem(Mode::kElu, x, x, x, x) : forward_problem(Mode::kElu, x, x);
    const auto check = make_check(p);
    const search::Request rq{handle_, solvers(p.direction, handle_.device().kind), p, {}, check.get()};
    const auto own = check->private_case(handle_, SIZE_MAX);
    ASSERT_TRUE(own && own->problem().equals(p));
    search::FindOptions options;
    options.mode = search::FindMode::kNormal;
    options.tune = true;
    const auto found = search::find(rq, options, own->args(nullptr, 0));
    ASSERT_FALSE(found.empty());
    const std::string packed = backward ? "ActivCpuPackedBwd" : "ActivCpuPackedFwd";
    const auto records = db().lookup(p.key());
    ASSERT_EQ(records.size(), 3u) << "packed, strided, and a prediction for the reference";
    const auto tuned = std::find_if(records.begin(), records.end(), [&](const auto& r) { return r.solver == packed; });
    ASSERT_NE(tuned, records.end());
    EXPECT_EQ(tuned->kind, RecordKind::kTuned);
    EXPECT_GE(tried(packed), 4u) << "every point of the tune space was tried";
    Handle other("cpu", nullptr);
    const auto ranking = search::rank({other, solvers(p.direction, other.device().kind), p, {}, check.get()});
    EXPECT_EQ(ranking[0].source, search::Source::kMeasured);
    EXPECT_EQ(to_text(found[0].point), to_text(ranking[0].point));
    // A larger problem of the family uses the record.
    const TensorDesc larger = tensor({16, 64, 28, 28});
    const Problem near = backward ? backward_problem(Mode::kElu, larger, larger, larger, larger)
                                  : forward_problem(Mode::kElu, larger, larger);
    const auto borrowed = search::rank({other, solvers(p.direction, other.device().kind), near, {}, check.get()});
    EXPECT_EQ(borrowed[0].source, search::Source::kNeighbour);
  }
}

/// Computes the wrong function on the last element only.
class Wrong final : public Solver<Problem> {
 public:
  SolverInfo info() const override {
    SolverInfo info = solvers(Direction::kForward)[0]->info();
    info.id = 1999;
    info.name = "ActivTestWrong";
    return info;
  }
  Verdict is_applicable(const DeviceInfo&, const Problem&) const override { return {}; }
  double estimate(const DeviceInfo&, const Problem&, const TunePoint&) const override { return 0.01; }
  Invoker build(Stream& stream, const Problem& p, const TunePoint&) const override {
    const SolverBase& right = *solvers(Direction::kForward)[0];
    return [invoke = right.build(stream, p, right.default_point(stream.info(), p)), p](Stream& on, const Args& args) {
      invoke(on, &args);
      static_cast<float*>(args.result)[p.count() - 1] += 0.001f;
    };
  }
};

TEST_F(ActivationSearch, AWrongSolverIsQuarantined) {
  static const Wrong wrong;
  const Problem p = forward_of(Mode::kSoftrelu, {2, 16, 14, 14});
  const SolverBase* const list[] = {&wrong, solvers(p.direction)[0], solvers(p.direction)[2]};
  const auto check = make_check(p);
  const auto own = check->private_case(handle_, SIZE_MAX);
  const search::Request rq{handle_, list, p, {}, check.get()};
  ASSERT_EQ(search::rank(rq)[0].solver, &wrong);
  search::FindOptions options;
  options.mode = search::FindMode::kNormal;
  const auto found = search::find(rq, options, own->args(nullptr, 0));
  for (const auto& c : found) EXPECT_NE(c.solver, &wrong);
  ASSERT_EQ(db().quarantined(p.family()).size(), 1u);
  EXPECT_EQ(db().quarantined(p.family())[0].solver, "ActivTestWrong");
  EXPECT_NE(search::rank(rq)[0].solver, &wrong) << "not even predicted any more";
}

TEST_F(ActivationSearch, StoredPointsOutsideTheSpaceAreIgnored) {
  for (const char* point : {"0,0", "-1,0", "16", "16,2", "17,0", "16,0,0", ""})
    for (const bool backward : {false, true}) {
      SCOPED_TRACE(point);
      const TensorDesc x = tensor({2, 16, 14, 14});
      const Problem p = backward ? backward_problem(Mode::kAbs, x, x, x, x) : forward_problem(Mode::kAbs, x, x);
      const DeviceInfo& d = handle_.device();
      const FindRecord r{p.key(),
                         backward ? "ActivCpuPackedBwd" : "ActivCpuPackedFwd",
                         1,
                         0.5,
                         0,
                         point,
                         d.units,
                         d.threads,
                         RecordKind::kTuned,
                         p.family(),
                         p.log_sizes(),
                         p.work()};
      db().store({&r, 1});
      std::vector<float> data(static_cast<std::size_t>(p.count()), -2), ones(data.size(), 1), out(data.size());
      Problem::Args args;
      args.x = data.data();
      args.dy = ones.data();
      args.result = out.data();
      Handle handle("cpu", nullptr);
      run(handle, p, args);
      EXPECT_EQ(out, std::vector<float>(out.size(), backward ? -1 : 2));
    }
}

TEST_F(ActivationSearch, TheCheckSeesEveryKindOfError) {
  for (int mode = 0; mode < 11; ++mode)
    for (const bool backward : {false, true}) {
      SCOPED_TRACE(std::string(name_of(static_cast<Mode>(mode))) + (backward ? " backward" : " forward"));
      const TensorDesc t = tensor({2, 3, 4, 5}, {100, 30, 7, 1});
      const Mode m = static_cast<Mode>(mode);
      const Problem p = backward ? backward_problem(m, t, t, t, t) : forward_problem(m, t, t);
      const auto check = make_check(p);
      const auto own = check->private_case(handle_, SIZE_MAX);
      const auto& args = *static_cast<const Problem::Args*>(own->args(nullptr, 0));
      const auto outcome = [&] {
        std::string text;
        const CheckResult o = check->check(handle_.stream(), &args, ErrorClass::kAccurate, text);
        EXPECT_EQ(text.empty(), o == CheckResult::kRight) << text;
        return o;
      };
      check->poison(handle_.stream(), &args);
      EXPECT_EQ(outcome(), CheckResult::kWrong) << "nothing was computed";
      const SolverBase& solver = *solver_by_name(backward ? "ActivCpuStridedBwd" : "ActivCpuStridedFwd");
      solver.build(handle_.stream(), p, {})(handle_.stream(), &args);
      EXPECT_EQ(outcome(), CheckResult::kRight);
      float& last = static_cast<float*>(args.result)[1 * 100 + 2 * 30 + 3 * 7 + 4];
      const float right = last;
      last = right * 1.0001f + 1e-6f;
      EXPECT_EQ(outcome(), CheckResult::kWrong) << "off by 1e-4";
      last = right;
      auto in_place = args;
      in_place.x = args.result;
      std::string text;
      EXPECT_EQ(check->check(handle_.stream(), &in_place, ErrorClass::kAccurate, text), CheckResult::kInconclusive);
      // One input is infinite, then all are.
      auto* x = static_cast<float*>(const_cast<void*>(args.x));
      for (std::int64_t count : {std::int64_t{1}, t.space()}) {
        std::fill_n(x, count, INFINITY);
        solver.build(handle_.stream(), p, {})(handle_.stream(), &args);
        EXPECT_EQ(check->check(handle_.stream(), &args, ErrorClass::kAccurate, text),
                  count == 1 ? CheckResult::kRight : CheckResult::kInconclusive)
            << text;
      }
    }
}

TEST_F(ActivationSearch, APrivateCaseShrinksToTheLimit) {
  const Problem p = forward_of(Mode::kRelu, {8, 4, 4, 4});
  const auto check = make_check(p);
  const auto small = check->private_case(handle_, 2 * 2 * 64 * 4);
  ASSERT_TRUE(small);
  EXPECT_EQ(static_cast<const Problem&>(small->problem()).x.lens[0], 2);
  EXPECT_EQ(check->private_case(handle_, 100), nullptr);
}

/// Processes of the driver, which sanitizer builds do without.
class ActivationDriver : public ActivationSearch {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "built without the driver";
#endif
  }
  /// The driver's exit status.
  static int drive(const std::string& arguments) {
    return std::system((POLYMIO_DRIVER_PATH " " + arguments + " > /dev/null").c_str());
  }
};

TEST_F(ActivationDriver, AnotherProcessUsesTunedResults) {
  const Problem p = forward_of(Mode::kSoftrelu, {4, 32, 28, 28});
  ASSERT_EQ(drive(p.key()), 0);
  EXPECT_TRUE(db().lookup(p.key()).empty());
  ASSERT_EQ(drive(p.key() + " -s 1"), 0);
  const auto records = db().lookup(p.key());
  ASSERT_EQ(records.size(), 3u) << db().path();
  const auto check = make_check(p);
  const auto ranking = search::rank({handle_, solvers(p.direction, handle_.device().kind), p, {}, check.get()});
  EXPECT_EQ(ranking[0].source, search::Source::kMeasured);
  EXPECT_TRUE(search::is_hit(ranking, search::FindMode::kHybrid));
  const std::size_t before = tried("ActivCpuPackedFwd");
  EXPECT_GE(before, 3u);  // parts of three sizes; the problem is too small for non-temporal stores
  ASSERT_EQ(drive(p.key() + " -s 1"), 0);
  EXPECT_EQ(tried("ActivCpuPackedFwd"), before) << "what is tuned is not tuned again";
}

TEST_F(ActivationDriver, TheDriverRunsTheSolverThatIsNamed) {
  const Problem p = forward_of(Mode::kElu, {2, 3, 5, 7}),
                gaps = forward_of(Mode::kElu, {2, 3, 5, 7}, {400, 100, 20, 2});
  for (const char* solver : {"ActivCpuPackedFwd", "ActivCpuReferenceFwd", "1005"})
    EXPECT_EQ(drive(p.key() + " -A 1 -S " + solver), 0) << solver;
  EXPECT_NE(drive(gaps.key() + " -A 1 -S ActivCpuPackedFwd 2> /dev/null"), 0) << "it does not apply";
  EXPECT_EQ(drive(gaps.key() + " -A 1 -S ActivCpuStridedFwd"), 0);
}

TEST_F(ActivationDriver, SolversThatDoNotExistAreRefused) {
  const Problem p = forward_of(Mode::kElu, {2, 3, 5, 7});
  const std::string errors = folder_ / "errors";
  const auto text = [&] {
    std::ostringstream all;
    all << std::ifstream(errors).rdbuf();
    return all.str();
  };
  for (const char* solver : {"nope", "'ActivCpuPackedFwd;1999'", "'ActivCpuPackedFwd '"}) {
    EXPECT_NE(drive(p.key() + " -S " + solver + " 2> " + errors), 0) << solver;
    EXPECT_NE(text().find("MIOPEN_DEBUG_FIND_ONLY_SOLVER="), std::string::npos) << text();
    EXPECT_NE(text().find("there is no solver '"), std::string::npos) << text();
  }
  // A program with both primitives sets the variable once.
  EXPECT_EQ(drive(p.key() + " -S 'ConvCpuDirectFwd;;ActivCpuReferenceFwd'"), 0);
  EXPECT_EQ(drive(p.key() + " -S ConvCpuDirectFwd"), 0);
  EXPECT_EQ(drive(p.key() + " -S ActivCpuPackedBwd"), 0) << "it is a choice for the other direction";
}

TEST_F(ActivationDriver, ProblemsAreRecordedOnce) {
  const Problem p = forward_of(Mode::kElu, {2, 3, 5, 7});
  const std::string list = folder_ / "list";
  setenv("POLYMIO_RECORD", list.c_str(), 1);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(drive("activ -n 2 -c 3 -H 5 -W 7 -m 9 -F 0 -A 1"), 0);
  unsetenv("POLYMIO_RECORD");
  std::ifstream file(list);
  std::string first, second, third;
  std::getline(file, first);
  std::getline(file, second);
  std::getline(file, third);
  EXPECT_EQ(first, "MIOpenDriver " + p.key());
  EXPECT_EQ(second, "MIOpenDriver activ -n 2 -c 3 -H 5 -W 7 -m 9 -F 2");
  EXPECT_EQ(third, "");
}

TEST_F(ActivationDriver, TheDriverTakesEveryKey) {
  const TensorDesc first = tensor({2, 3, 5, 7}), gaps = tensor({2, 3, 5, 7}, {400, 100, 20, 2});
  const TensorDesc last = tensor({2, 3, 5, 7}, {105, 1, 21, 3}, DataType::kBFloat16);
  const TensorDesc volume = tensor({2, 2, 3, 4, 5}, {}, DataType::kDouble), row = tensor({9}, {}, DataType::kHalf);
  const Problem problems[] = {
      forward_problem(Mode::kLogistic, first, gaps), backward_problem(Mode::kTanh, first, gaps, first, gaps),
      backward_problem(Mode::kRelu, last, last, last, last), forward_problem(Mode::kPower, volume, volume),
      forward_problem(Mode::kLeakyRelu, row, row)};
  for (const Problem& p : problems) EXPECT_EQ(drive(p.key() + " -A 0.5 -B 0.7 -G 2.3 --scale_beta 0.5"), 0) << p.key();
  EXPECT_NE(drive("activ -m 11 2> /dev/null"), 0);
  EXPECT_NE(drive("activ -W 0 2> /dev/null"), 0);
  EXPECT_NE(drive("activ --no_such_flag 1 2> /dev/null"), 0);
}

}  // namespace
}  // namespace polymio::activation
