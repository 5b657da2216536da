// Extensions of find in the public API: options, sources, the workspace limit, budgets, tuning,
// packs, diagnosis, and the variables that are read once per process.
// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "api.h"

namespace polymio::test {
namespace {

namespace fs = std::filesystem;

/// A handle with a database of its own.
class SearchApi : public testing::Test {
 protected:
  SearchApi() {
    std::string name = (fs::temp_directory_path() / "polymio_search_api_XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
    const char* before = std::getenv("MIOPEN_USER_DB_PATH");
    old = before ? before : "";
    ::setenv("MIOPEN_USER_DB_PATH", folder.c_str(), 1);
  }
  ~SearchApi() override {
    ::setenv("MIOPEN_USER_DB_PATH", old.c_str(), 1);
    fs::remove_all(folder);
  }
  fs::path folder;
  std::string old;
};

const Shape kShape{{4, 16, 24, 24}, {32, 16, 3, 3}, {1, 1}};

std::vector<polymioOption_t> options_of(miopenHandle_t handle, miopenProblem_t problem) {
  std::size_t count = 0;
  expect_ok(polymioGetOptions(handle, problem, nullptr, &count));
  std::vector<polymioOption_t> options(count, polymioOption_t{sizeof(polymioOption_t), 0, 0, 0, {}});
  expect_ok(polymioGetOptions(handle, problem, options.data(), &count));
  return options;
}

nlohmann::json diagnose(miopenHandle_t handle, miopenProblem_t problem) {
  std::size_t size = 0;
  expect_ok(polymioDiagnose(handle, problem, nullptr, &size));
  std::string text(size, '\0');
  expect_ok(polymioDiagnose(handle, problem, text.data(), &size));
  return nlohmann::json::parse(text.c_str());
}

TEST_F(SearchApi, OptionsAreAParetoSetThatStartsWithoutWorkspace) {
  const Handle handle;
  for (const auto d :
       {miopenProblemDirectionForward, miopenProblemDirectionBackward, miopenProblemDirectionBackwardWeights}) {
    const Convolution c(handle, kShape);
    const ConvolutionProblem problem(c, d);
    const auto options = options_of(handle, problem);
    ASSERT_FALSE(options.empty());
    EXPECT_EQ(options[0].workspace_size, 0u);
    for (std::size_t i = 1; i < options.size(); ++i) {
      EXPECT_GT(options[i].workspace_size, options[i - 1].workspace_size);
      EXPECT_LT(options[i].time, options[i - 1].time);
    }
  }
  const Convolution c(handle, kShape);
  const ConvolutionProblem problem(c);
  std::size_t none = 0;
  polymioOption_t unsized{};
  expect_bad(polymioGetOptions(handle, problem, &unsized, &none), {"room for 0 options"});
  none = 100;
  expect_bad(polymioGetOptions(handle, problem, &unsized, &none), {"size", "sizeof"});
}

TEST_F(SearchApi, OptionsOfSizesThatNoVersionHasAreRefused) {
  const Handle handle;
  const Convolution c(handle, kShape);
  const ConvolutionProblem problem(c);
  const auto options_before = options_of(handle, problem);
  ASSERT_GE(options_before.size(), 2u) << "the second element is the one that a wrong size misplaces";
  for (const std::size_t size :
       {sizeof(polymioOption_t) + 1, std::size_t{9}, std::size_t{12}, SIZE_MAX, SIZE_MAX / 8 * 8}) {
    auto options = options_before;
    for (auto& o : options) o.size = size;
    std::size_t count = options.size();
    const std::string number = std::to_string(size);
    expect_bad(polymioGetOptions(handle, problem, options.data(), &count), {"size", number.c_str(), "sizeof"});
  }
  auto options = options_before;
  options[1].size = sizeof(polymioOption_t) + 8;
  std::size_t count = options.size();
  expect_bad(polymioGetOptions(handle, problem, options.data(), &count), {"options[1].size"});
  polymioTuneOptions_t odd{sizeof odd - 1, 0, 0};
  polymioTuneResult_t result{};
  result.size = sizeof result;
  expect_bad(polymioTune(handle, problem, &odd, &result), {"options", "size", "sizeof"});
  result.size = 9;
  expect_bad(polymioTune(handle, problem, nullptr, &result), {"result", "size is 9", "sizeof"});
}

TEST_F(SearchApi, SolutionsSayWhereTheirTimesComeFrom) {
  const Handle handle;
  Convolution c(handle, kShape);
  const ConvolutionProblem problem(c);
  const auto id = c.solutions(Direction::kForward)[0].solution_id;
  polymioSource_t source = polymioSourceMeasured;
  expect_ok(polymioGetSolutionSource(handle, problem, id, &source));
  EXPECT_LE(source, polymioSourceModel) << "predicted: whether there is a model depends on the machine";
  ::setenv("MIOPEN_DEBUG_ENABLE_AI_IMMED_MODE_FALLBACK", "0", 1);
  expect_ok(polymioGetSolutionSource(handle, problem, id, &source));
  ::unsetenv("MIOPEN_DEBUG_ENABLE_AI_IMMED_MODE_FALLBACK");
  EXPECT_EQ(source, polymioSourceEstimate);
  c.provide_workspace(Direction::kForward);
  int count = 0;
  miopenConvAlgoPerf_t perf[5];
  expect_ok(c.call.find(Direction::kForward, 5, &count, perf));
  expect_ok(polymioGetSolutionSource(handle, problem, c.solutions(Direction::kForward)[0].solution_id, &source));
  EXPECT_EQ(source, polymioSourceMeasured);
  expect_bad(polymioGetSolutionSource(handle, problem, 999999, &source), {"999999"});
  expect_bad(polymioGetSolutionSource(handle, problem, 5, &source), {"5", "does not apply"});
}

/// Counts allocations of the library.
struct Meter {
  std::size_t now = 0, most = 0;
  std::map<void*, std::size_t> sizes;
  static void* allocate(void* context, std::size_t bytes) {
    auto& m = *static_cast<Meter*>(context);
    void* p = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    m.sizes[p] = bytes;
    m.now += bytes;
    m.most = std::max(m.most, m.now);
    return p;
  }
  static void release(void* context, void* p) {
    auto& m = *static_cast<Meter*>(context);
    m.now -= m.sizes[p];
    m.sizes.erase(p);
    std::free(p);
  }
};

TEST_F(SearchApi, OneWorkspaceNumberBindsEverything) {
  const Handle handle;
  Meter meter;
  expect_ok(miopenSetAllocator(handle, Meter::allocate, Meter::release, &meter));
  Convolution c(handle, kShape);
  const auto d = Direction::kForward;
  std::size_t unlimited = 0, limited = 0;
  expect_ok(c.call.workspace_size(d, &unlimited));
  ASSERT_GT(unlimited, 1000u);
  expect_ok(polymioSetWorkspaceLimit(handle, 1000));
  expect_ok(polymioGetWorkspaceLimit(handle, &limited));
  EXPECT_EQ(limited, 1000u);
  expect_ok(c.call.workspace_size(d, &limited));
  EXPECT_LE(limited, 1000u) << "the query";
  for (const auto& s : c.solutions(d)) EXPECT_LE(s.workspace_size, 1000u) << "immediate mode";
  std::vector<char> workspace(unlimited);
  c.call.workspace = workspace.data();
  c.call.workspace_bytes = unlimited;
  for (int round = 0; round < 2; ++round) {
    int count = 0;
    miopenConvAlgoPerf_t perf[5];
    expect_ok(c.call.find(d, 5, &count, perf, true));
    for (int i = 0; i < count; ++i) EXPECT_LE(perf[i].memory, 1000u) << "find, and a database hit";
  }
  // Not finite, so that verification needs a private case, for which the limit has no room.
  std::fill(c.x_data.begin(), c.x_data.end(), static_cast<unsigned char>(0xff));
  Convolution other(handle, {{2, 16, 24, 24}, {32, 16, 3, 3}, {1, 1}});
  std::fill(other.x_data.begin(), other.x_data.end(), static_cast<unsigned char>(0xff));
  int count = 0;
  miopenConvAlgoPerf_t perf[5];
  expect_ok(other.call.find(d, 5, &count, perf, true));
  EXPECT_LE(meter.most, 1000u) << "the tuner itself";
  const Convolution untuned(handle, {{3, 16, 24, 24}, {32, 16, 3, 3}, {1, 1}});
  const ConvolutionProblem problem(untuned);
  polymioTuneResult_t result{};
  result.size = sizeof result;
  expect_bad(polymioTune(handle, problem, nullptr, &result), {"1000 bytes", "no room"});
  expect_ok(polymioSetWorkspaceLimit(handle, SIZE_MAX));
}

TEST_F(SearchApi, ABudgetBoundsFindAndSaysWhatItSkipped) {
  const Handle handle;
  expect_bad(polymioSetFindBudget(handle, -1), {"-1"});
  expect_bad(polymioSetFindBudget(handle, NAN), {"nan"});
  expect_ok(polymioSetFindBudget(handle, 0.01));
  double ms = 0;
  expect_ok(polymioGetFindBudget(handle, &ms));
  EXPECT_DOUBLE_EQ(ms, 0.01);
  Convolution c(handle, {{8, 64, 56, 56}, {64, 64, 3, 3}, {1, 1}});
  int count = 0;
  miopenConvAlgoPerf_t perf[5];
  expect_ok(c.call.find(Direction::kForward, 5, &count, perf));
  EXPECT_GE(count, 1);
  EXPECT_NE(std::string(polymioGetLastFindReport()).find("skipped"), std::string::npos) << polymioGetLastFindReport();
  expect_ok(polymioSetFindBudget(handle, 0));
}

TEST_F(SearchApi, TuneReportsProgressCancelsResumesAndStores) {
  const Handle handle;
  const Convolution c(handle, {{2, 8, 16, 16}, {16, 8, 3, 3}, {1, 1}});
  const ConvolutionProblem problem(c);
  struct Seen {
    std::size_t calls = 0, stop_at = 5;
    std::set<std::string> solvers;
  } seen;
  const auto progress = [](void* context, const polymioTuningProgress_t* p) {
    auto& s = *static_cast<Seen*>(context);
    EXPECT_EQ(p->size, sizeof *p);
    EXPECT_NE(std::string(p->problem).find("-n 2 -c 8"), std::string::npos);
    EXPECT_LE(p->done, p->total);
    s.solvers.insert(p->solver);
    return ++s.calls == s.stop_at ? 1 : 0;
  };
  expect_ok(polymioSetTuningCallback(handle, progress, &seen));
  polymioTuneResult_t first{}, second{}, third{};
  first.size = second.size = third.size = sizeof first;
  expect_ok(polymioTune(handle, problem, nullptr, &first));
  EXPECT_EQ(first.complete, 0) << "cancelled";
  seen.stop_at = SIZE_MAX;
  expect_ok(polymioTune(handle, problem, nullptr, &second));
  EXPECT_EQ(second.complete, 1);
  EXPECT_GT(second.candidates, 0u);
  EXPECT_GE(seen.solvers.size(), 1u);
  EXPECT_GT(second.time, 0.0f);
  expect_ok(polymioTune(handle, problem, nullptr, &third));
  EXPECT_EQ(third.candidates, 0u) << "nothing is left to do";
  EXPECT_EQ(third.complete, 1);
  EXPECT_TRUE(diagnose(handle, problem)["problem"]["hit"].get<bool>());
  polymioTuneOptions_t options{sizeof options, -3, 0};
  expect_bad(polymioTune(handle, problem, &options, &third), {"-3"});
  options = {0, 0, 0};
  expect_bad(polymioTune(handle, problem, &options, &third), {"size"});
  expect_ok(polymioSetTuningCallback(handle, nullptr, nullptr));
}

TEST_F(SearchApi, OnlineTuningGivesRightResultsAndConverges) {
  const Handle handle;
  Convolution plain(handle, kShape), tuned(handle, kShape);
  const auto d = Direction::kForward;
  plain.provide_workspace(d);
  tuned.provide_workspace(d);
  for (Convolution* c : {&plain, &tuned}) {
    fill(c->x_data);
    fill(c->w_data);
  }
  const int algorithm = miopenConvolutionFwdAlgoDirect;
  expect_ok(plain.call.run(d, algorithm));
  const Handle other;
  tuned.call.handle = other;
  expect_ok(polymioSetTuneWhileRunning(other, 1));
  const auto* want = reinterpret_cast<const float*>(plain.y_data.data());
  const auto* got = reinterpret_cast<const float*>(tuned.y_data.data());
  const ConvolutionProblem problem(tuned);
  const auto stored = [&] { return diagnose(other, problem)["problem"]["hit"].get<bool>(); };
  constexpr int kMostCalls = 2000;  // the number of calls to convergence depends on the noise of the times
  for (int i = 0; i < kMostCalls && (i % 60 != 59 || !stored()); ++i) {
    std::fill(tuned.y_data.begin(), tuned.y_data.end(), static_cast<unsigned char>(0xee));
    expect_ok(tuned.call.run(d, algorithm));
    for (std::size_t k = 0; k < plain.y_data.size() / sizeof(float); k += 97)
      ASSERT_NEAR(got[k], want[k], 1e-3 * (1 + std::fabs(want[k]))) << "call " << i;
  }
  EXPECT_TRUE(stored()) << diagnose(other, problem)["problem"].dump();
}

TEST_F(SearchApi, TheWorkspaceOfTheBestIsEnoughForAHit) {
  // Other solvers than the fastest need workspace for this problem.
  for (const Shape& shape : {Shape{{4, 128, 14, 14}, {128, 128, 3, 3}, {1, 1}}, Shape{{2, 64, 9, 9}, {48, 64, 1, 1}}}) {
    const Handle first, second;
    Convolution c(first, shape);
    int count = 0;
    miopenConvAlgoPerf_t perf[5];
    for (const auto& handle : {&first, &second, &second}) {
      c.call.handle = *handle;
      std::size_t bytes = 0;
      expect_ok(c.call.workspace_size(Direction::kForward, &bytes));
      c.provide_workspace(bytes);
      expect_ok(c.call.find(Direction::kForward, 5, &count, perf));
      if (handle == &first) continue;
      EXPECT_NE(std::string(polymioGetLastFindReport()).find("from the database"), std::string::npos)
          << polymioGetLastFindReport();
    }
  }
}

TEST_F(SearchApi, DiagnosesFilesAndMisses) {
  const Handle handle;
  Convolution c(handle, kShape);
  const ConvolutionProblem problem(c);
  auto j = diagnose(handle, problem);
  EXPECT_FALSE(j["problem"]["hit"].get<bool>());
  EXPECT_EQ(j["problem"]["why_missed"], "no record of this problem");
  EXPECT_FALSE(j["problem"]["advice"].get<std::string>().empty());
  ASSERT_FALSE(j["files"].empty());
  EXPECT_EQ(j["files"][0]["layer"], "user");
  EXPECT_EQ(j["files"][0]["path"].get<std::string>().find(folder.string()), 0u);
  c.provide_workspace(Direction::kForward);
  int count = 0;
  miopenConvAlgoPerf_t perf[5];
  expect_ok(c.call.find(Direction::kForward, 5, &count, perf));
  j = diagnose(handle, problem);
  EXPECT_TRUE(j["problem"]["hit"].get<bool>()) << j["problem"];
  EXPECT_GT(j["files"][0]["records"], 0);
  EXPECT_TRUE(diagnose(handle, nullptr)["problem"].is_null());
}

TEST(Explain, FirstCallsKeepTheirsOnDemand) {
  const Handle handle, other;
  const Tensor x(miopenFloat, {2, 3, 4, 4});
  const std::vector<float> data(96);
  std::vector<float> y(96);
  const float one = 1, zero = 0;
  const auto call = [&](const Handle& on) {
    expect_ok(miopenSoftmaxForward(on, &one, x, data.data(), &zero, x, y.data()));
    return std::string(polymioGetLastExplanation());
  };
  expect_ok(polymioSetExplaining(0));
  EXPECT_EQ(call(handle), "");
  expect_ok(polymioSetExplaining(1));
  EXPECT_EQ(call(handle), "") << "not the first call";
  const auto explanation = nlohmann::json::parse(call(other));
  EXPECT_NE(explanation.at("chosen").get<std::string>().find("SoftmaxCpu"), std::string::npos);
  EXPECT_FALSE(explanation.at("solvers").empty());
  const Tensor half(miopenFloat, {1, 3, 4, 4});
  expect_ok(miopenSoftmaxForward(other, &one, half, data.data(), &zero, half, y.data()));
  std::istringstream lines(polymioGetLastExplanation());
  std::vector<std::string> problems;
  for (std::string line; std::getline(lines, line);)
    problems.push_back(nlohmann::json::parse(line).at("problem").get<std::string>().substr(0, 12));
  EXPECT_EQ(problems, (std::vector<std::string>{"softmax -n 2", "softmax -n 1"}));
  expect_ok(polymioSetExplaining(0));
  EXPECT_STREQ(polymioGetLastExplanation(), "") << "forgotten";
}

}  // namespace
}  // namespace polymio::test
