// Fault injection: runs one scenario through the C API repeatedly, each time in a new process in which one system call
// fails: starting a thread, allocating memory, or opening, writing, syncing or renaming a file. Nothing may crash, hang
// or throw; calls return documented statuses with a text, successful results are correct, the process works after the
// fault, and its files are intact. Every call fails in turn, except that allocations and opens are sampled at random.
// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <miopen/miopen.h>
#include <miopen/polymio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "fuzz/fault_calls.h"
#include "fuzz/fuzz.h"

namespace polymio::fuzz {
namespace {

namespace fs = std::filesystem;

/// Totals over all processes.
struct Totals {
  std::atomic<std::int64_t> calls{0}, succeeded{0}, refused{0}, results{0};
};
Totals* g_totals = nullptr;

struct Case {
  int kind = -1;
  std::int64_t at = 0;
  bool from_there_on = false;
};

/// A convolution of 2x4x8x8 by 6x4x3x3 with a pad of 1, its exact result, and the calls of the scenario.
class Scenario {
 public:
  Scenario(const fs::path& folder, int kind) : folder_(folder), kind_(kind) {
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i * 7 % 9) - 4;
    for (std::size_t i = 0; i < w_.size(); ++i) w_[i] = static_cast<float>(i * 5 % 7) - 3;
    want_ = convolved();
  }

  /// False after the first finding, which is printed.
  bool run() {
    if (call("create", miopenCreate, &handle_)) {
      call("thread cap", polymioSetThreadCap, handle_, 3);
      call("budget", polymioSetFindBudget, handle_, 5.0);
      if (describe()) {
        find();
        immediate();
        find2();
        operations();
        diagnose();
      }
      packs();
    }
    release();
    return good_;
  }

 private:
  static constexpr std::int64_t kN = 2, kC = 4, kK = 6, kS = 8;

  std::vector<float> convolved() const {
    std::vector<float> y(static_cast<std::size_t>(kN * kK * kS * kS), 0);
    const auto at = [](std::int64_t a, std::int64_t b, std::int64_t i, std::int64_t j, std::int64_t channels,
                       std::int64_t size) {
      return static_cast<std::size_t>(((a * channels + b) * size + i) * size + j);
    };
    for (std::int64_t n = 0; n < kN; ++n)
      for (std::int64_t k = 0; k < kK; ++k)
        for (std::int64_t i = 0; i < kS; ++i)
          for (std::int64_t j = 0; j < kS; ++j)
            for (std::int64_t c = 0; c < kC; ++c)
              for (std::int64_t r = 0; r < 3; ++r)
                for (std::int64_t s = 0; s < 3; ++s) {
                  const std::int64_t h = i + r - 1, v = j + s - 1;
                  if (h < 0 || h >= kS || v < 0 || v >= kS) continue;
                  y[at(n, k, i, j, kK, kS)] += x_[at(n, c, h, v, kC, kS)] * w_[at(k, c, r, s, kC, 3)];
                }
    return y;
  }

  void fault(const std::string& text) {
    good_ = false;
    std::printf("  %s\n", text.c_str());
  }

  template <class Function, class... Arguments>
  bool call(const char* what, Function function, Arguments... arguments) {
    thread_is_exempt() = false;
    const miopenStatus_t status = function(arguments...);
    thread_is_exempt() = true;
    return check(what, status, false);
  }
  template <class Function, class... Arguments>
  bool call_with_file(const char* what, Function function, Arguments... arguments) {
    thread_is_exempt() = false;
    const miopenStatus_t status = function(arguments...);
    thread_is_exempt() = true;
    return check(what, status, true);
  }

  /// Whether the call succeeded. Any call may run out of memory; only calls with a file argument may fail for files.
  bool check(const char* what, miopenStatus_t status, bool names_file) {
    ++g_totals->calls;
    if (status == miopenStatusSuccess) {
      ++g_totals->succeeded;
      return true;
    }
    ++g_totals->refused;
    const bool memory = kind_ == static_cast<int>(Fault::kMemory);
    const bool file = kind_ >= static_cast<int>(Fault::kOpen) && names_file;
    const bool allowed = (memory && status == miopenStatusAllocFailed) ||
                         (file && (status == miopenStatusBadParm || status == miopenStatusInternalError));
    const std::string text = polymioGetLastError();
    if (!allowed || text.empty()) fault(std::string(what) + ": " + miopenGetErrorString(status) + ": '" + text + "'");
    return false;
  }

  void expect_result(const char* what, const std::vector<float>& y) {
    ++g_totals->results;
    for (std::size_t i = 0; i < y.size(); ++i)
      if (!(std::abs(y[i] - want_[i]) <= 1e-3)) {
        fault(std::string(what) + ": y[" + std::to_string(i) + "] is " + std::to_string(y[i]) + " instead of " +
              std::to_string(want_[i]));
        return;
      }
  }

  bool describe() {
    const auto tensor = [&](miopenTensorDescriptor_t& t, int a, int b, int c, int d) {
      return call("create tensor", miopenCreateTensorDescriptor, &t) &&
             call("set tensor", miopenSet4dTensorDescriptor, t, miopenFloat, a, b, c, d);
    };
    return tensor(x_desc_, kN, kC, kS, kS) && tensor(w_desc_, kK, kC, 3, 3) && tensor(y_desc_, kN, kK, kS, kS) &&
           call("create convolution", miopenCreateConvolutionDescriptor, &conv_) &&
           call("set convolution", miopenInitConvolutionDescriptor, conv_, miopenConvolution, 1, 1, 1, 1, 1, 1);
  }

  void find() {
    std::size_t bytes = 0;
    if (call("workspace", miopenConvolutionForwardGetWorkSpaceSize, handle_, w_desc_, x_desc_, conv_, y_desc_, &bytes))
      workspace_.assign(bytes, 0);
    void* workspace = workspace_.empty() ? nullptr : workspace_.data();
    miopenConvAlgoPerf_t perf[5];
    int count = 0;
    if (!call("find", miopenFindConvolutionForwardAlgorithm, handle_, x_desc_, x_.data(), w_desc_, w_.data(), conv_,
              y_desc_, y_.data(), 5, &count, perf, workspace, workspace_.size(), false))
      return;
    for (int i = 0; i < count; ++i) {
      std::fill(y_.begin(), y_.end(), -1.0f);
      if (call("run", miopenConvolutionForward, handle_, &kOne, x_desc_, x_.data(), w_desc_, w_.data(), conv_,
               perf[i].fwd_algo, &kZero, y_desc_, y_.data(), workspace, workspace_.size()))
        expect_result("run", y_);
    }
  }

  void immediate() {
    miopenConvSolution_t list[4];
    std::size_t count = 0;
    if (!call("solutions", miopenConvolutionForwardGetSolution, handle_, w_desc_, x_desc_, conv_, y_desc_,
              std::size_t{4}, &count, list))
      return;
    for (std::size_t i = 0; i < count; ++i) {
      std::size_t bytes = 0;
      const auto id = list[i].solution_id;
      if (!call("solution workspace", miopenConvolutionForwardGetSolutionWorkspaceSize, handle_, w_desc_, x_desc_,
                conv_, y_desc_, id, &bytes))
        continue;
      std::vector<char> workspace(bytes);
      std::fill(y_.begin(), y_.end(), -1.0f);
      if (call("compile", miopenConvolutionForwardCompileSolution, handle_, w_desc_, x_desc_, conv_, y_desc_, id) &&
          call("immediate", miopenConvolutionForwardImmediate, handle_, w_desc_, w_.data(), x_desc_, x_.data(), conv_,
               y_desc_, y_.data(), bytes ? workspace.data() : nullptr, bytes, id))
        expect_result("immediate", y_);
    }
  }

  void run_solution(const char* what, miopenSolution_t solution) {
    std::size_t bytes = 0;
    if (!call("its workspace", miopenGetSolutionWorkspaceSize, solution, &bytes)) return;
    std::vector<char> workspace(bytes);
    const miopenTensorArgument_t arguments[] = {{miopenTensorConvolutionX, nullptr, x_.data()},
                                                {miopenTensorConvolutionW, nullptr, w_.data()},
                                                {miopenTensorConvolutionY, nullptr, y_.data()}};
    std::fill(y_.begin(), y_.end(), -1.0f);
    if (call(what, miopenRunSolution, handle_, solution, std::size_t{3}, arguments, bytes ? workspace.data() : nullptr,
             bytes))
      expect_result(what, y_);
  }

  void save_and_load(miopenSolution_t solution) {
    std::size_t size = 0;
    if (!call("solution size", miopenGetSolutionSize, solution, &size)) return;
    std::vector<char> data(size);
    miopenSolution_t loaded = nullptr;
    if (!call("save", miopenSaveSolution, solution, data.data()) ||
        !call("load", miopenLoadSolution, &loaded, data.data(), data.size()))
      return;
    run_solution("run loaded", loaded);
    call("destroy loaded", miopenDestroySolution, loaded);
  }

  void find2() {
    if (!call("problem", miopenCreateConvProblem, &problem_, conv_, miopenProblemDirectionForward) ||
        !call("problem x", miopenSetProblemTensorDescriptor, problem_, miopenTensorConvolutionX, x_desc_) ||
        !call("problem w", miopenSetProblemTensorDescriptor, problem_, miopenTensorConvolutionW, w_desc_) ||
        !call("problem y", miopenSetProblemTensorDescriptor, problem_, miopenTensorConvolutionY, y_desc_))
      return;
    described_ = true;
    const polymioTuneOptions_t options{sizeof options, 5, 0};
    polymioTuneResult_t result{};
    result.size = sizeof result;
    call("tune", polymioTune, handle_, problem_, &options, &result);
    miopenSolution_t solutions[2];
    std::size_t count = 0;
    if (!call("find 2", miopenFindSolutions, handle_, problem_, nullptr, solutions, &count, std::size_t{2})) return;
    for (std::size_t i = 0; i < count; ++i) {
      run_solution("run solution", solutions[i]);
      save_and_load(solutions[i]);
      call("destroy solution", miopenDestroySolution, solutions[i]);
    }
  }

  void operations() {
    miopenActivationDescriptor_t activation = nullptr;
    std::vector<float> y = want_;
    if (call("activation", miopenCreateActivationDescriptor, &activation)) {
      if (call("set activation", miopenSetActivationDescriptor, activation, miopenActivationABS, 0.0, 0.0, 0.0) &&
          call("activate", miopenActivationForward, handle_, activation, &kOne, y_desc_, want_.data(), &kZero, y_desc_,
               y.data()))
        for (std::size_t i = 0; i < y.size(); ++i)
          if (y[i] != std::abs(want_[i])) return fault("activation: wrong");
      call("destroy activation", miopenDestroyActivationDescriptor, activation);
    }
    y = want_;
    if (call("add", miopenOpTensor, handle_, miopenTensorOpAdd, &kOne, y_desc_, want_.data(), &kOne, y_desc_,
             want_.data(), &kZero, y_desc_, y.data()))
      for (std::size_t i = 0; i < y.size(); ++i)
        if (y[i] != 2 * want_[i]) return fault("add: wrong");
  }

  void diagnose() {
    std::size_t size = 0;
    if (!described_ || !call("diagnose", polymioDiagnose, handle_, problem_, nullptr, &size)) return;
    std::string text(size + 4096, '\0');
    size = text.size();
    call("diagnosis", polymioDiagnose, handle_, problem_, text.data(), &size);
    size = 0;
    if (!call("explain", polymioExplain, handle_, problem_, nullptr, &size)) return;
    text.resize(size + 4096);
    size = text.size();
    call("explanation", polymioExplain, handle_, problem_, text.data(), &size);
  }

  void packs() {
    const std::string file = folder_ / "pack.txt";
    const polymioRecord_t record{sizeof record,      "conv -n 1", "ConvX",    2,  0.5, 64, "8", 16, 4,
                                 polymioRecordTuned, "conv fwd",  "1.5,-2,3", 2e9};
    call_with_file("write pack", polymioWriteRecords, file.c_str(), &record, std::size_t{1});
    polymioDeviceInfo_t device{};
    device.size = sizeof device;
    if (!call("device", polymioGetHandleDevice, handle_, &device)) return;
    if (fs::exists(file)) call_with_file("load pack", polymioLoadPack, device.architecture, file.c_str());
  }

  void release() {
    if (problem_) call("destroy problem", miopenDestroyProblem, problem_);
    if (conv_) call("destroy convolution", miopenDestroyConvolutionDescriptor, conv_);
    for (miopenTensorDescriptor_t t : {x_desc_, w_desc_, y_desc_})
      if (t) call("destroy tensor", miopenDestroyTensorDescriptor, t);
    if (handle_) call("destroy", miopenDestroy, handle_);
  }

  static constexpr float kOne = 1, kZero = 0;
  fs::path folder_;
  int kind_;
  bool good_ = true;
  miopenHandle_t handle_ = nullptr;
  miopenTensorDescriptor_t x_desc_ = nullptr, w_desc_ = nullptr, y_desc_ = nullptr;
  miopenConvolutionDescriptor_t conv_ = nullptr;
  miopenProblem_t problem_ = nullptr;
  bool described_ = false;  // the problem has its tensors
  std::vector<float> x_ = std::vector<float>(kN * kC * kS * kS), w_ = std::vector<float>(kK * kC * 9),
                     y_ = std::vector<float>(kN * kK * kS * kS), want_;
  std::vector<char> workspace_;
};

std::string read(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

/// Whether every line of the databases and packs of the folder is valid.
bool intact(const fs::path& folder) {
  bool good = true;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (!entry.is_regular_file() || !name.ends_with(".txt")) continue;
    const auto visit = [](void* all, std::size_t, const char* text, const polymioRecord_t* r) {
      if (!r && *text && *text != '#') *static_cast<bool*>(all) = false, std::printf("  damaged: %s\n", text);
      return 0;
    };
    if (polymioReadRecords(entry.path().c_str(), visit, &good) != miopenStatusSuccess) good = false;
  }
  return good;
}

/// Runs the scenario with the fault and then without, in a process and a folder of its own.
bool run_sequence(const Case& c, std::uint64_t index) {
  FaultPlan& plan = fault_plan();
  for (auto& n : plan.calls) n = 0;
  plan.kind = c.kind;
  plan.at = c.at;
  plan.from_there_on = c.from_there_on;
  plan.reached = false;
  std::string name = fs::temp_directory_path() / "polymio-faults-XXXXXX";
  if (!::mkdtemp(name.data())) return false;
  const fs::path folder = name, told = folder / "stderr";
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // kills a hanging process
    thread_is_exempt() = true;
    ::dup2(::open(told.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    ::setenv("MIOPEN_USER_DB_PATH", (folder / "db").c_str(), 1);
    ::setenv("POLYMIO_EXECUTOR", index % 2 ? "threads" : "tbb", 1);
    bool good = true;
    {
      Scenario scenario(folder, c.kind);
      plan.counting = true;
      good = scenario.run();
      plan.counting = false;
    }
    good = Scenario(folder, -1).run() && good;
    std::fflush(stdout);
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  plan.counting = false;
  if (WIFSIGNALED(status)) std::printf("  ended by signal %d\n", WTERMSIG(status));
  const bool good = status == 0 && intact(folder);
  if (!good) {
    const std::string what = c.kind < 0 ? "no fault" : kFaultNames[c.kind];
    std::printf("  %s, call %lld%s\n%s", what.c_str(), static_cast<long long>(c.at),
                c.from_there_on ? " and all after" : "", read(told).substr(0, 4000).c_str());
  }
  fs::remove_all(folder);
  return good;
}

int main_of(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  g_totals = new (::mmap(nullptr, sizeof(Totals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Totals;
  FaultPlan& plan = fault_plan();
  if (!run_sequence({}, 0)) {
    std::printf("the scenario fails without a fault\n");
    return 1;
  }
  std::int64_t calls[kFaults];
  std::vector<Case> all;
  for (int k = 0; k < kFaults; ++k) {
    calls[k] = plan.calls[k];
    std::printf("%s: %lld calls\n", kFaultNames[k], static_cast<long long>(calls[k]));
    if (calls[k] == 0) {
      std::printf("nothing of this kind can fail\n");
      return 1;
    }
    if (k == static_cast<int>(Fault::kMemory) || k == static_cast<int>(Fault::kOpen)) continue;
    for (std::int64_t at = 1; at <= calls[k]; ++at) all.push_back({k, at, false});
    all.push_back({k, 1, true});
    all.push_back({k, 1 + calls[k] / 2, true});
  }
  std::int64_t reached[kFaults] = {};
  const int findings = run_cases("fuzz_faults", options, [&](Random& random, std::uint64_t i) {
    const int many = static_cast<int>(random.one_in(3) ? Fault::kOpen : Fault::kMemory);
    const Case c = i < all.size() ? all[i] : Case{many, random.between(1, calls[many]), random.one_in(4)};
    const bool good = run_sequence(c, i);
    reached[c.kind] += plan.reached;
    return good;
  });
  for (int k = 0; k < kFaults; ++k)
    std::printf("%s failed in %lld cases\n", kFaultNames[k], static_cast<long long>(reached[k]));
  std::printf("%lld calls: %lld succeeded, %lld refused, %lld results compared\n",
              static_cast<long long>(g_totals->calls), static_cast<long long>(g_totals->succeeded),
              static_cast<long long>(g_totals->refused), static_cast<long long>(g_totals->results));
  bool idle = g_totals->refused == 0 || g_totals->results == 0;
  for (const std::int64_t n : reached) idle = idle || n == 0;
  return findings > 0 || (idle && !options.single) ? 1 : 0;
}

}  // namespace
}  // namespace polymio::fuzz

int main(int argc, char** argv) { return polymio::fuzz::main_of(argc, argv); }
