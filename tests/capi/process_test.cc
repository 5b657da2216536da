// Tests that need a process of their own: no output on stderr, log lines, variables that are read once. Each test
// starts this program again with one of the disabled tests below and reads its output.
// SPDX-License-Identifier: MIT
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "api.h"

namespace polymio::test {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

/// A temporary folder for the duration of a scope.
struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "polymio_test_XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path); }
};

struct Output {
  int code = -1;
  std::string out, err;
};

Output run_command(const std::string& command) {
  const Folder folder;
  const auto out = folder.path / "out", err = folder.path / "err";
  Output result;
  result.code = std::system(("env MIOPEN_USER_DB_PATH=" + (folder.path / "db").string() + " " + command + " >" +
                             out.string() + " 2>" + err.string())
                                .c_str());
  result.out = read(out);
  result.err = read(err);
  return result;
}

/// Runs one disabled test of this program in a process with more environment and a new database.
Output run_child(const std::string& test, const std::string& environment = "") {
  char self[4096];
  const auto length = readlink("/proc/self/exe", self, sizeof self);
  EXPECT_GT(length, 0);
  const std::string program(self, static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  const Output o =
      run_command(environment + " '" + program +
                  "' --gtest_also_run_disabled_tests --gtest_color=no --gtest_filter=InChild.DISABLED_" + test);
  EXPECT_EQ(o.code, 0) << o.out << o.err;
  EXPECT_NE(o.out.find("[  PASSED  ] 1 test."), std::string::npos) << o.out;
  return o;
}

/// The rest of the first line of `text` that contains `mark`, beginning with it.
std::string after(const std::string& text, const std::string& mark) {
  const auto at = text.find(mark);
  EXPECT_NE(at, std::string::npos) << "no '" << mark << "' in: " << text;
  if (at == std::string::npos) return "";
  return text.substr(at + mark.size(), text.find('\n', at) - at - mark.size());
}

std::size_t lines_with(const std::string& text, const std::string& mark) {
  std::size_t n = 0;
  for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) ++n;
  return n;
}

std::string explain_forward(const Convolution& c) {
  miopenProblem_t problem = nullptr;
  expect_ok(miopenCreateConvProblem(&problem, c.conv, miopenProblemDirectionForward));
  expect_ok(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionX, c.x));
  expect_ok(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionW, c.w));
  expect_ok(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionY, c.y));
  std::size_t size = 0;
  expect_ok(polymioExplain(c.call.handle, problem, nullptr, &size));
  std::string text(size, '\0');
  expect_ok(polymioExplain(c.call.handle, problem, text.data(), &size));
  expect_ok(miopenDestroyProblem(problem));
  return text.c_str();
}

/// Typical calls of a program, and refused calls, which report statuses and print no messages.
TEST(InChild, DISABLED_Healthy) {
  const Handle handle;
  for (const int cap : {0, 1, 8}) {
    expect_ok(polymioSetThreadCap(handle, cap));
    for (const auto d : kDirections) {
      Convolution c(handle, {{2, 8, 12, 12}, {8, 8, 3, 3}, {1, 1}});
      c.provide_workspace(d);
      int count = 0;
      miopenConvAlgoPerf_t perf[5];
      expect_ok(c.call.find(d, 5, &count, perf));
      expect_ok(c.call.run(d, perf[0].fwd_algo));
      expect_ok(c.call.immediate(d, c.solutions(d)[0].solution_id));
      expect_bad(c.call.immediate(d, 999999), {"999999"});
      expect_bad(c.call.run(d, 7), {"algorithm 7"});
      explain_forward(c);
    }
  }
}

/// Changes from root to another user, since the limit of processes does not apply to root.
void become_limited_to(rlim_t processes) {
  const rlimit limit{processes, processes};
  ASSERT_EQ(setrlimit(RLIMIT_NPROC, &limit), 0);
  constexpr uid_t kNobody = 65534;
  if (geteuid() != 0) return;
  ASSERT_EQ(setgid(kNobody), 0);
  ASSERT_EQ(setuid(kNobody), 0);
}

TEST(InChild, DISABLED_WithoutThreads) {
  become_limited_to(1);
  pthread_t thread;
  ASSERT_EQ(pthread_create(
                &thread, nullptr, [](void* p) { return p; }, nullptr),
            EAGAIN);
  const Handle handle;
  expect_ok(polymioSetThreadCap(handle, 4));
  for (const auto d : kDirections) {
    Convolution c(handle, {{2, 8, 12, 12}, {8, 8, 3, 3}, {1, 1}});
    fill(c.x_data);
    fill(c.w_data);
    fill(c.y_data);
    c.provide_workspace(d);
    int count = 0;
    miopenConvAlgoPerf_t perf[5];
    expect_ok(c.call.find(d, 5, &count, perf));
    expect_ok(c.call.run(d, perf[0].fwd_algo));
    const auto found = c.output(d);
    expect_ok(c.call.immediate(d, static_cast<std::uint64_t>(d) + 1));  // the reference
    const auto* a = reinterpret_cast<const float*>(found.data());
    const auto* b = reinterpret_cast<const float*>(c.output(d).data());
    for (std::size_t i = 0; i < found.size() / sizeof(float); ++i) ASSERT_NEAR(a[i], b[i], 1e-3) << i;
  }
  for (const double ms : {5.0, 0.0}) {  // with a budget, a background thread measures the device
    expect_ok(polymioSetFindBudget(handle, ms));
    Convolution c(handle, {{1, 4, 9, 9}, {4, 4, 3, 3}});
    c.provide_workspace(Direction::kForward);
    int count = 0;
    miopenConvAlgoPerf_t perf[5];
    expect_ok(c.call.find(Direction::kForward, 5, &count, perf));
  }
  polymioDevicePeak_t peak{sizeof peak, 0, 0, 0};
  expect_ok(polymioMeasureDevice(handle, &peak));
}

TEST(Process, WithoutThreadsTheCallersOwnDoesTheWork) {
  for (const std::string executor : {"tbb", "threads"}) {
    // LeakSanitizer would start a thread at the end.
    const Output o = run_child("WithoutThreads", "ASAN_OPTIONS=detect_leaks=0 POLYMIO_EXECUTOR=" + executor);
    EXPECT_EQ(lines_with(o.err, "threads could be started"), 1u) << o.err;
  }
}

TEST(Process, AHealthyRunPrintsNothing) {
  for (const char* executor : {"", "POLYMIO_EXECUTOR=threads"}) EXPECT_EQ(run_child("Healthy", executor).err, "");
}

TEST(InChild, DISABLED_OneRun) {
  const Handle handle;
  Convolution c(handle, {{2, 4, 9, 8}, {6, 2, 3, 1}, {1, 0}, {2, 1}, {1, 1}, 2}, {.x_strides = {288, 1, 32, 4}});
  const float alpha = 0.5f;
  c.call.alpha = &alpha;
  const auto d = Direction::kForward;
  c.provide_workspace(d);
  expect_ok(c.call.run(d, c.solutions(d)[0].algorithm));
}

TEST(Process, TheCommandLogReplaysTheCall) {
  const Output o = run_child("OneRun", "MIOPEN_ENABLE_LOGGING_CMD=1");
  EXPECT_EQ(lines_with(o.err, "\n"), 1u) << o.err;
  const std::string line = after(o.err, "MIOpenDriver ") + " ";
  for (const char* part : {"conv ", " -n 2 ", " -c 4 ", " -k 6 ", " -H 9 ", " -W 8 ", " -y 3 ", " -x 1 ", " -p 1 ",
                           " -q 0 ", " -u 2 ", " -v 1 ", " -g 2 ", " -F 1 ", " -I NHWC ", " --alpha 0.5 "})
    EXPECT_NE((" " + line).find(part), std::string::npos) << "no '" << part << "' in: " << line;
  if (access(POLYMIO_DRIVER_PATH, X_OK) != 0) return;  // built without the driver
  const Output replay = run_command(std::string("'") + POLYMIO_DRIVER_PATH + "' " + line + " -V 1 -i 1");
  EXPECT_EQ(replay.code, 0) << line << "\n" << replay.out << replay.err;
}

TEST(InChild, DISABLED_FusedRun) {
  const Handle handle;
  Convolution c(handle, {{2, 4, 9, 8}, {6, 4, 3, 3}});
  miopenActivationDescriptor_t activation = nullptr;
  expect_ok(miopenCreateActivationDescriptor(&activation));
  expect_ok(miopenSetActivationDescriptor(activation, miopenActivationTANH, 0.5, 1, 0));
  const auto run = [&](const float* alpha) {
    expect_ok(miopenConvolutionBiasActivationForward(handle, alpha, c.x, c.x_data.data(), c.w, c.w_data.data(), c.conv,
                                                     miopenConvolutionFwdAlgoDirect, nullptr, 0, nullptr, nullptr,
                                                     nullptr, nullptr, nullptr, activation, c.y, c.y_data.data()));
  };
  run(nullptr);
  const float half = 0.5f;
  run(&half);  // the driver has no flag for it
  expect_ok(miopenDestroyActivationDescriptor(activation));
}

TEST(Process, TheCommandLogHasFusedCalls) {
  const Output o = run_child("FusedRun", "MIOPEN_ENABLE_LOGGING_CMD=1");
  EXPECT_EQ(lines_with(o.err, "\n"), 1u) << o.err;
  const std::string line = after(o.err, "MIOpenDriver CBAInfer ") + " ";
  for (const char* part : {" -n 2 ", " -c 4 ", " -k 6 ", " -H 9 ", " -J 5 ", " -m 2 ", " -A 0.5 "})
    EXPECT_NE((" " + line).find(part), std::string::npos) << "no '" << part << "' in: " << line;
}

TEST(Process, TheApiLogNamesTheCall) {
  const Output o = run_child("OneRun", "MIOPEN_ENABLE_LOGGING=1");
  EXPECT_EQ(lines_with(o.err, "run conv -n 2 -c 4 -k 6"), 1u) << o.err;
  EXPECT_EQ(run_child("OneRun", "MIOPEN_ENABLE_LOGGING=0").err, "");
}

TEST(Process, ABadVariableIsOneWarning) {
  const Output o = run_child("OneRun", "MIOPEN_DEBUG_CONV_GEMM=perhaps");
  EXPECT_EQ(lines_with(o.err, "\n"), 1u) << o.err;
  EXPECT_NE(o.err.find("MIOPEN_DEBUG_CONV_GEMM=perhaps"), std::string::npos) << o.err;
  EXPECT_EQ(run_child("OneRun", "MIOPEN_LOG_LEVEL=1 MIOPEN_DEBUG_CONV_GEMM=perhaps").err, "") << "quiet is quiet";
}

/// 4096 outputs that are 1.03125, a quarter of the way from 1 to 1.125, the next number of e4m3fnuz.
TEST(InChild, DISABLED_Stochastic) {
  const Handle handle;
  Convolution c(handle, {{1, 2, 64, 64}, {1, 2, 1, 1}}, {miopenFloat8_fnuz, miopenFloat8_fnuz, miopenFloat8_fnuz});
  std::memset(c.x_data.data(), 0x40, 4096);         // 1
  std::memset(c.x_data.data() + 4096, 0x18, 4096);  // 2^-5
  std::memset(c.w_data.data(), 0x40, 2);
  const auto d = Direction::kForward;
  for (int run = 0; run < 2; ++run) {
    expect_ok(c.call.immediate(d, c.solutions(d).back().solution_id));
    std::string bits;
    for (const unsigned char b : c.y_data) bits += b == 0x40 ? '0' : b == 0x41 ? '1' : '?';
    std::printf("bits%d=%s\n", run, bits.c_str());
  }
  std::printf("problem=%s\n", explain_forward(c).c_str());
}

TEST(Process, StochasticRoundingIsRightOnAverageAndSeeded) {
  std::set<std::string> seen;
  for (const char* seed : {"1", "2", "12345678901"}) {
    const std::string environment = std::string("MIOPEN_DEBUG_CONVOLUTION_ATTRIB_FP8_ROUNDING_SEED=") + seed;
    const std::string text = run_child("Stochastic", environment).out;
    const std::string bits = after(text, "bits0=");
    ASSERT_EQ(bits.size(), 4096u);
    EXPECT_EQ(bits.find('?'), std::string::npos) << "only the two neighbours may appear";
    // A quarter, within 5 standard deviations of 4096 draws.
    const double share = static_cast<double>(lines_with(bits, "1")) / 4096;
    EXPECT_NEAR(share, 0.25, 5 * std::sqrt(0.25 * 0.75 / 4096));
    // Neighbours are independent: both go up with probability 1/16 (lines_with counts overlaps).
    EXPECT_NEAR(static_cast<double>(lines_with(bits, "11")) / 4095, 0.0625, 0.02);
    EXPECT_EQ(after(text, "bits1="), bits) << "equal seeds give equal bits in one process";
    EXPECT_EQ(after(run_child("Stochastic", environment).out, "bits0="), bits) << "and in another";
    EXPECT_TRUE(seen.insert(bits).second) << "other seeds give other bits";
  }
}

TEST(Process, TheRoundingModeVariableWinsOverTheAttribute) {
  const std::string standard = run_child("Stochastic", "MIOPEN_DEBUG_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE=0").out;
  EXPECT_EQ(after(standard, "bits0="), std::string(4096, '0'));
  EXPECT_EQ(after(standard, "problem=").find("stochastic"), std::string::npos);
  const std::string stochastic = run_child("Stochastic").out;
  EXPECT_NE(after(stochastic, "bits0=").find('1'), std::string::npos);
  EXPECT_NE(after(stochastic, "problem=").find("--fp8_rounding stochastic"), std::string::npos);
}

TEST(InChild, DISABLED_Explain) {
  const Handle handle;
  const Convolution c(handle, {{1, 4, 8, 8}, {4, 4, 3, 3}});
  int threads = 0, deterministic = -1;
  expect_ok(polymioGetThreadCap(handle, &threads));
  expect_ok(miopenGetConvolutionAttribute(c.conv, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, &deterministic));
  std::printf("threads=%d\ndeterministic=%d\njson=%s\n", threads, deterministic, explain_forward(c).c_str());
}

TEST(Process, AlgorithmsCanBeSwitchedOff) {
  const char* const variables[] = {"GEMM", "DIRECT", "WINOGRAD", "IMPLICIT_GEMM", "FFT"};
  const char* const names[] = {"GEMM", "Direct", "Winograd", "ImplicitGEMM", "FFT"};
  const auto all = nlohmann::json::parse(after(run_child("Explain").out, "json="));
  for (std::size_t i = 0; i < 5; ++i) {
    const Output o = run_child("Explain", std::string("MIOPEN_DEBUG_CONV_") + variables[i] + "=0");
    const auto j = nlohmann::json::parse(after(o.out, "json="));
    ASSERT_EQ(j["solvers"].size(), all["solvers"].size());
    for (std::size_t k = 0; k < all["solvers"].size(); ++k) {
      const auto& s = j["solvers"][k];
      if (s["algorithm"] == names[i]) {
        EXPECT_FALSE(s["applicable"].get<bool>()) << s;
        EXPECT_NE(s["reason"].get<std::string>().find("disabled"), std::string::npos) << s;
      } else {
        EXPECT_EQ(s["applicable"], all["solvers"][k]["applicable"]) << s;
      }
    }
  }
}

TEST(Process, VariablesOfHandlesAndAttributes) {
  const Output o = run_child("Explain", "POLYMIO_NUM_THREADS=3 MIOPEN_DEBUG_CONVOLUTION_DETERMINISTIC=1");
  EXPECT_EQ(after(o.out, "threads="), "3");
  EXPECT_EQ(after(o.out, "deterministic="), "0") << "the getter gives what was set";
  const auto j = nlohmann::json::parse(after(o.out, "json="));
  for (const auto& s : j["solvers"]) EXPECT_TRUE(!s["applicable"].get<bool>() || s["deterministic"].get<bool>()) << s;
}

TEST(InChild, DISABLED_FindMode) {
  const ConvolutionDescriptor conv;
  miopenConvolutionFindMode_t mode{};
  expect_ok(miopenGetConvolutionFindMode(conv, &mode));
  std::printf("mode=%d\n", static_cast<int>(mode));
}

TEST(Process, TheFindModeIsANameOrANumberInAnyCase) {
  const std::pair<const char*, const char*> values[] = {{"", "5"},
                                                        {"NORMAL", "1"},
                                                        {"fast", "2"},
                                                        {"Hybrid", "3"},
                                                        {"4", "4"},
                                                        {"dynamic_hybrid", "5"},
                                                        {"1", "1"},
                                                        {"trust_verify", "6"},
                                                        {"TRUST_VERIFY_FULL", "7"},
                                                        {"7", "7"}};
  for (const auto& [value, want] : values) {
    const Output o = run_child("FindMode", std::string("MIOPEN_FIND_MODE=") + value);
    EXPECT_EQ(after(o.out, "mode="), want) << value;
    EXPECT_EQ(o.err, "");
  }
  for (const char* garbage : {"quick", "8", "-1", "1.5"}) {
    const Output o = run_child("FindMode", std::string("MIOPEN_FIND_MODE=") + garbage);
    EXPECT_EQ(after(o.out, "mode="), "5") << garbage;
    EXPECT_EQ(lines_with(o.err, "\n"), 1u) << o.err;
    EXPECT_NE(o.err.find(std::string("MIOPEN_FIND_MODE=") + garbage + " is unknown: allowed are"), std::string::npos);
  }
}

TEST(InChild, DISABLED_FindTwice) {
  const Handle handle;
  Convolution c(handle, {{2, 8, 12, 12}, {8, 8, 3, 3}, {1, 1}});
  const auto d = Direction::kForward;
  std::size_t bytes = 0;
  if (c.call.workspace_size(d, &bytes) == miopenStatusSuccess) c.provide_workspace(bytes);
  for (int i = 0; i < 2; ++i) {
    int count = 0;
    miopenConvAlgoPerf_t perf[5];
    const miopenStatus_t status = c.call.find(d, 5, &count, perf);
    std::printf("status%d=%d\ncount%d=%d\nreport%d=%s\n", i, status, i, count, i, polymioGetLastFindReport());
    if (status != miopenStatusSuccess) std::printf("error=%s\n", polymioGetLastError());
  }
}

TEST(Process, FindConsidersOnlyTheNamedSolvers) {
  const Output by_name = run_child("FindTwice", "MIOPEN_DEBUG_FIND_ONLY_SOLVER='ConvCpuGemmFwd;ConvCpuDirectFwd'");
  EXPECT_EQ(after(by_name.out, "count0="), "2");
  EXPECT_EQ(after(by_name.out, "report0=").find("Implicit"), std::string::npos) << by_name.out;
  const Output by_id = run_child("FindTwice", "MIOPEN_DEBUG_FIND_ONLY_SOLVER=4");
  EXPECT_EQ(after(by_id.out, "count0="), "1");
  const Output bad = run_child("FindTwice", "MIOPEN_DEBUG_FIND_ONLY_SOLVER=Fancy");
  EXPECT_EQ(after(bad.out, "status0="), std::to_string(miopenStatusBadParm));
  EXPECT_NE(after(bad.out, "error=").find("there is no solver 'Fancy'"), std::string::npos) << bad.out;
}

TEST(Process, EnforcedSearchTunesAndADisabledDatabaseForgets) {
  EXPECT_EQ(after(run_child("FindTwice").out, "report0=").find("tuned"), std::string::npos);
  const Output forced = run_child("FindTwice", "MIOPEN_FIND_ENFORCE=search");
  EXPECT_NE(after(forced.out, "report0=").find("tuned ConvCpu"), std::string::npos) << forced.out;
  EXPECT_EQ(after(forced.out, "report1=").find("tuned ConvCpu"), std::string::npos) << "it is in the database now";
  EXPECT_EQ(after(run_child("FindTwice").out, "report1=").find("measured"), std::string::npos) << "a hit";
  const Output off = run_child("FindTwice", "MIOPEN_DEBUG_DISABLE_FIND_DB=1");
  EXPECT_NE(after(off.out, "report1=").find("measured"), std::string::npos) << off.out;
  const Output fast = run_child("FindTwice", "MIOPEN_FIND_MODE=FAST");
  EXPECT_EQ(after(fast.out, "report0=").find("measured ConvCpu"), std::string::npos) << fast.out;
  EXPECT_EQ(after(fast.out, "count0="), "1");
}

TEST(Process, ARecordThatIsUsedIsLoggedAsMIOpenDoes) {
  const Output o = run_child("FindTwice", "MIOPEN_LOG_LEVEL=5");
  EXPECT_EQ(lines_with(o.err, "Key match: conv -n 2 -c 8"), 1u) << "the second find: " << o.err;
  EXPECT_EQ(lines_with(run_child("FindTwice").err, "Key match:"), 0u);
}

/// For each direction the algorithms that find reports and immediate mode lists, and the status of a run by each.
TEST(InChild, DISABLED_Algorithms) {
  const Handle handle;
  for (const auto d : kDirections) {
    Convolution c(handle, {{2, 8, 12, 12}, {8, 8, 3, 3}, {1, 1}});
    c.provide_workspace(d);
    expect_ok(miopenSetConvolutionFindMode(c.conv, miopenConvolutionFindModeNormal));
    int count = 0;
    miopenConvAlgoPerf_t perf[5];
    expect_ok(c.call.find(d, 5, &count, perf));
    for (int i = 0; i < count; ++i) {
      const int algorithm = static_cast<int>(perf[i].fwd_algo);
      std::printf("found %d\n", algorithm);
      expect_ok(c.call.run(d, algorithm));
    }
    for (const auto& s : c.solutions(d)) std::printf("listed %d\n", static_cast<int>(s.algorithm));
    std::printf("run5=%d\n", c.call.run(d, miopenConvolutionAlgoImplicitGEMM));
  }
}

TEST(Process, ImplicitGemmIsDirectOnRequest) {
  const Output now = run_child("Algorithms");
  EXPECT_EQ(lines_with(now.out, "found 5"), 3u) << now.out;
  EXPECT_GE(lines_with(now.out, "listed 5"), 3u) << now.out;
  const Output legacy = run_child("Algorithms", "POLYMIO_LEGACY_ALGORITHMS=1");
  EXPECT_EQ(lines_with(legacy.out, "found 5") + lines_with(legacy.out, "listed 5"), 0u) << legacy.out;
  EXPECT_EQ(lines_with(legacy.out, "found 1"), 3u) << "once per find: " << legacy.out;
  EXPECT_EQ(lines_with(legacy.out, "run5=0"), 3u) << "a stored 5 still runs: " << legacy.out;
  // With GEMM, Winograd and all direct solvers but one out of the way, Direct is implicit GEMM.
  const Output only = run_child("FindTwice", "POLYMIO_LEGACY_ALGORITHMS=1 MIOPEN_DEBUG_FIND_ONLY_SOLVER=7");
  EXPECT_NE(after(only.out, "report0=").find("ConvCpuImplicitGemmFwd"), std::string::npos) << only.out;
  EXPECT_EQ(after(only.out, "count0="), "1");
  const Output off = run_child("Algorithms", "POLYMIO_LEGACY_ALGORITHMS=1 MIOPEN_DEBUG_CONV_IMPLICIT_GEMM=0");
  EXPECT_EQ(lines_with(off.out, "found 5") + lines_with(off.out, "listed 5"), 0u) << off.out;
}

/// Runs the solution of a find, and the same saved and loaded.
void run_twice(const Convolution& c, miopenProblem_t problem) {
  miopenSolution_t found = nullptr, loaded = nullptr;
  std::size_t count = 0, size = 0;
  expect_ok(miopenFindSolutions(c.call.handle, problem, nullptr, &found, &count, 1));
  expect_ok(miopenGetSolutionSize(found, &size));
  std::string bytes(size, '\0');
  expect_ok(miopenSaveSolution(found, bytes.data()));
  expect_ok(miopenLoadSolution(&loaded, bytes.data(), bytes.size()));
  const miopenTensorArgument_t tensors[] = {{miopenTensorConvolutionX, nullptr, c.call.x},
                                            {miopenTensorConvolutionW, nullptr, c.call.w},
                                            {miopenTensorConvolutionY, nullptr, c.call.y}};
  for (const auto solution : {found, loaded}) {
    expect_ok(miopenGetSolutionWorkspaceSize(solution, &size));
    std::vector<double> workspace(size / sizeof(double) + 1);
    expect_ok(miopenRunSolution(c.call.handle, solution, 3, tensors, workspace.data(), size));
    expect_ok(miopenDestroySolution(solution));
  }
}

/// The lines of runs with each math type, below each math mode.
TEST(InChild, DISABLED_MathTypes) {
  const Handle handle;
  Convolution c(handle, {{1, 2, 5, 5}, {2, 2, 3, 3}});
  for (const auto mode : {polymioMathAccurate, polymioMathStrict, polymioMathTf32, polymioMathAny}) {
    expect_ok(polymioSetConvolutionMathMode(c.conv, mode));
    for (const auto type : {miopenMathPedantic, miopenMathDefault}) {
      expect_ok(miopenSetConvolutionAttribute(c.conv, MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE, type));
      expect_ok(c.call.immediate(Direction::kForward, 1));
    }
  }
  expect_ok(polymioSetConvolutionMathMode(c.conv, polymioMathAccurate));
  miopenProblem_t problem = nullptr;
  expect_ok(miopenCreateConvProblem(&problem, c.conv, miopenProblemDirectionForward));
  expect_ok(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionX, c.x));
  expect_ok(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionW, c.w));
  expect_ok(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionY, c.y));
  run_twice(c, problem);
  expect_ok(miopenDestroyProblem(problem));
}

TEST(Process, TheMathTypeAdmitsTf32WhereTheMathModeIsTheDefault) {
  const Output o = run_child("MathTypes", "MIOPEN_ENABLE_LOGGING_CMD=1");
  std::istringstream lines(o.err);
  std::vector<std::string> modes;
  for (std::string line; std::getline(lines, line);)
    modes.push_back(line.find("--math") == std::string::npos ? "" : after(line, "--math ").substr(0, 4));
  EXPECT_EQ(modes, (std::vector<std::string>{"", "tf32", "stri", "stri", "tf32", "tf32", "any ", "any ", "tf32", "tf32",
                                             "tf32"}))
      << "the last are a find, a run, and a run of what was saved: " << o.err;
}

TEST(InChild, DISABLED_Quiet) {
  const Handle handle;
  Convolution c(handle, {{1, 2, 5, 5}, {2, 2, 3, 3}});
  for (const bool quiet : {true, false}) {
    expect_ok(miopenSetDebugFlag(miopenDebugLoggingQuiet, quiet));
    expect_ok(c.call.immediate(Direction::kForward, 1));
  }
}

TEST(Process, QuietLoggingWritesNothing) {
  EXPECT_EQ(lines_with(run_child("Quiet", "MIOPEN_ENABLE_LOGGING=1").err, "immediate conv"), 1u);
}

TEST(InChild, DISABLED_NotANumber) {
  const Handle handle;
  Convolution c(handle, {{1, 2, 5, 5}, {2, 2, 3, 3}});
  const float nan = NAN;
  std::memcpy(c.x_data.data(), &nan, sizeof nan);
  const auto d = Direction::kForward;
  std::printf("status=%d\n", c.call.immediate(d, c.solutions(d).back().solution_id));
}

TEST(Process, NumericsAreCheckedWhenAsked) {
  EXPECT_EQ(run_child("NotANumber").err, "");
  const Output info = run_child("NotANumber", "MIOPEN_CHECK_NUMERICS=1");
  EXPECT_NE(info.err.find("the input x has 1 NaN and 0 infinite of 50 values"), std::string::npos) << info.err;
  EXPECT_EQ(lines_with(info.err, "\n"), 3u) << "x, w and y: " << info.err;
  const Output warn = run_child("NotANumber", "MIOPEN_CHECK_NUMERICS=2");
  EXPECT_EQ(lines_with(warn.err, "warning"), 2u) << "x and y: " << warn.err;
  const Output fails = run_child("NotANumber", "MIOPEN_CHECK_NUMERICS=4");
  EXPECT_EQ(after(fails.out, "status="), std::to_string(miopenStatusInternalError));
  const Output statistics = run_child("NotANumber", "MIOPEN_CHECK_NUMERICS=16");
  EXPECT_EQ(lines_with(statistics.err, "mean of absolutes"), 3u) << statistics.err;
  EXPECT_EQ(after(statistics.out, "status="), "0");
}

TEST(Process, RecordCollectsDistinctProblems) {
  const Folder folder;
  const std::string file = (folder.path / "problems.txt").string();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(run_child("FindTwice", "POLYMIO_RECORD=" + file).err, "");
    EXPECT_EQ(run_child("OneRun", "POLYMIO_RECORD=" + file).err, "");
  }
  const std::string text = read(file);
  EXPECT_EQ(lines_with(text, "\n"), 2u) << text;
  EXPECT_EQ(lines_with(text, "MIOpenDriver conv -n 2 -c 8"), 1u) << text;
  const Output bad = run_child("FindTwice", "POLYMIO_RECORD=/proc/none/problems.txt");
  EXPECT_EQ(lines_with(bad.err, "\n"), 1u) << bad.err;
  EXPECT_NE(bad.err.find("cannot be written"), std::string::npos) << bad.err;
}

TEST(InChild, DISABLED_BadDevice) {
  miopenHandle_t h = nullptr;
  expect_bad(miopenCreate(&h), {"abacus", "cpu"});
  expect_ok(polymioCreateOnDevice(&h, "cpu"));
  expect_ok(miopenDestroy(h));
}

TEST(InChild, DISABLED_BadExecutor) {
  miopenHandle_t h = nullptr;
  expect_bad(miopenCreate(&h), {"POLYMIO_EXECUTOR", "fibers", "tbb", "threads"});
}

TEST(Process, UnknownDevicesAndExecutorsAreRefusedByName) {
  EXPECT_EQ(run_child("BadDevice", "POLYMIO_DEVICE=abacus").err, "");
  EXPECT_EQ(run_child("BadExecutor", "POLYMIO_EXECUTOR=fibers").err, "");
}

}  // namespace
}  // namespace polymio::test
