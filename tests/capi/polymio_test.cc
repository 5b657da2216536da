// The extensions of polymio.h: devices, memory, threads, executors, explanations; and Find 2.0 problems, which
// polymioExplain takes.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "api.h"

namespace polymio::test {
namespace {

TEST(PolymioVersion, IsThatOfTheHeader) {
  std::size_t major = 99, minor = 99, patch = 99;
  expect_ok(polymioGetVersion(&major, &minor, &patch));
  EXPECT_EQ(major, static_cast<std::size_t>(POLYMIO_VERSION_MAJOR));
  EXPECT_EQ(minor, static_cast<std::size_t>(POLYMIO_VERSION_MINOR));
  EXPECT_EQ(patch, static_cast<std::size_t>(POLYMIO_VERSION_PATCH));
  expect_ok(polymioGetVersion(nullptr, nullptr, nullptr));
}

TEST(Devices, AreListedWithTheCpuFirst) {
  int count = 0;
  expect_ok(polymioGetDeviceCount(&count));
  ASSERT_GE(count, 1);
  polymioDeviceInfo_t info{};
  info.size = sizeof info;
  expect_ok(polymioGetDeviceInfo(0, &info));
  EXPECT_EQ(info.size, sizeof info);
  EXPECT_STREQ(info.name, "cpu");
  EXPECT_EQ(info.kind, polymioDeviceCpu);
  EXPECT_GE(info.units, 1);
  EXPECT_GT(info.memory_bytes, 0u);
  EXPECT_STRNE(info.model, "");
  EXPECT_STRNE(info.architecture, "");
  const char* library = nullptr;
  expect_ok(polymioGetMatrixLibrary(0, &library));
  EXPECT_STREQ(library, "");
  expect_bad(polymioGetDeviceCount(nullptr), {"count is null"});
  expect_bad(polymioGetMatrixLibrary(0, nullptr), {"text is null"});
  expect_bad(polymioGetDeviceInfo(0, nullptr), {"info is null"});
  for (const int index : {-1, count, 1 << 30}) {
    const std::string number = "index " + std::to_string(index), devices = std::to_string(count) + " devices";
    expect_bad(polymioGetDeviceInfo(index, &info), {number.c_str(), devices.c_str()});
    expect_bad(polymioGetMatrixLibrary(index, &library), {number.c_str(), devices.c_str()});
  }
}

TEST(Devices, SmallerStructsAreNotOverrun) {
  struct {
    polymioDeviceInfo_t info;
  } memory;
  std::memset(static_cast<void*>(&memory), 0x5a, sizeof memory);
  memory.info.size = offsetof(polymioDeviceInfo_t, model);
  expect_ok(polymioGetDeviceInfo(0, &memory.info));
  EXPECT_STREQ(memory.info.name, "cpu");
  EXPECT_EQ(memory.info.size, offsetof(polymioDeviceInfo_t, model));
  const auto* bytes = reinterpret_cast<const unsigned char*>(&memory);
  for (std::size_t i = memory.info.size; i < sizeof memory; ++i) ASSERT_EQ(bytes[i], 0x5a) << i;
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{73}, SIZE_MAX}) {
    memory.info.size = size;
    const std::string number = std::to_string(size);
    expect_bad(polymioGetDeviceInfo(0, &memory.info), {"size", number.c_str(), "sizeof"});
  }
}

TEST(Devices, HandlesByName) {
  miopenHandle_t h = nullptr;
  expect_ok(polymioCreateOnDevice(&h, "cpu"));
  polymioDeviceInfo_t info{};
  info.size = sizeof info;
  expect_ok(polymioGetHandleDevice(h, &info));
  EXPECT_STREQ(info.name, "cpu");
  expect_bad(polymioGetHandleDevice(h, nullptr), {"info is null"});
  expect_ok(miopenDestroy(h));
  expect_bad(polymioCreateOnDevice(&h, "abacus:3"), {"abacus:3", "cpu"});
  EXPECT_EQ(h, nullptr);
  expect_bad(polymioCreateOnDevice(&h, "a\x1b[2J\tb\x7f"), {"a?[2J?b?"});
  expect_bad(polymioCreateOnDevice(&h, nullptr), {"device is null"});
  expect_bad(polymioCreateOnDevice(nullptr, "cpu"), {"handle is null"});
}

TEST(Collectors, LeaveTheProblemsOfCallsAndComputeNothing) {
  miopenHandle_t collector = nullptr;
  expect_ok(polymioCreateCollector(&collector));
  const Tensor desc(miopenFloat, {2, 3, 1, 1});
  const std::vector<float> x(6, 1);
  std::vector<float> y(6, 7);
  const float one = 1, zero = 0;
  for (int call = 0; call < 2; ++call)
    expect_ok(miopenSoftmaxForward_V2(collector, &one, desc, x.data(), &zero, desc, y.data(), MIOPEN_SOFTMAX_ACCURATE,
                                      MIOPEN_SOFTMAX_MODE_CHANNEL));
  EXPECT_EQ(y, std::vector<float>(6, 7));
  miopenProblem_t problem = nullptr, none = nullptr;
  expect_ok(polymioTakeProblem(collector, &problem));
  ASSERT_NE(problem, nullptr);
  expect_ok(polymioTakeProblem(collector, &none));
  EXPECT_EQ(none, nullptr) << "equal calls have one plan";

  const Handle handle;
  polymioTuneResult_t result{};
  result.size = sizeof result;
  expect_ok(polymioTune(handle, problem, nullptr, &result));
  const char* name = "";
  expect_ok(polymioGetSolutionName(result.solution_id, &name));
  EXPECT_TRUE(std::string_view(name).starts_with("SoftmaxCpu")) << name;
  std::size_t programs = 9;
  expect_ok(polymioWarmProblems("cpu", &problem, 1, "Softmax", 0, &programs, nullptr));
  EXPECT_EQ(programs, 0u);
  std::size_t found = 0;
  miopenSolution_t solution = nullptr;
  EXPECT_EQ(miopenFindSolutions(handle, problem, nullptr, &solution, &found, 1), miopenStatusNotImplemented);
  EXPECT_EQ(polymioPrepare(handle, &problem, 1), miopenStatusNotImplemented);
  expect_ok(miopenDestroyProblem(problem));
  expect_bad(polymioTakeProblem(handle, &none), {"polymioCreateCollector"});
  expect_bad(polymioTakeProblem(collector, nullptr), {"problem is null"});
  expect_bad(polymioCreateCollector(nullptr), {"handle is null"});
  expect_ok(miopenDestroy(collector));
}

TEST(Devices, PeaksAreMeasuredWithTheThreadsOfTheHandle) {
  const Handle handle;
  polymioDevicePeak_t peak{}, again{};
  peak.size = again.size = sizeof peak;
  expect_ok(polymioSetThreadCap(handle, 1));
  expect_ok(polymioMeasureDevice(handle, &peak));
  EXPECT_EQ(peak.threads, 1);
  EXPECT_GT(peak.fp32_gflops, 0.1);
  EXPECT_GT(peak.bandwidth_gbytes, 0.1);
  expect_ok(polymioMeasureDevice(handle, &again));
  EXPECT_EQ(peak.fp32_gflops, again.fp32_gflops) << "kept until the cap changes";
  expect_ok(polymioSetThreadCap(handle, 2));
  expect_ok(polymioMeasureDevice(handle, &again));
  EXPECT_EQ(again.threads, 2);
  expect_bad(polymioMeasureDevice(handle, nullptr), {"peak is null"});
}

TEST(Memory, AllocateCopyFree) {
  const Handle handle;
  void *a = nullptr, *b = nullptr, *none = nullptr;
  expect_ok(polymioMalloc(handle, &a, 1000));
  expect_ok(polymioMalloc(handle, &b, 1000));
  expect_ok(polymioMalloc(handle, &none, 0));
  for (void* p : {a, b}) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % 64, 0u);
  std::vector<unsigned char> host(1000, 7), back(1000, 0);
  expect_ok(polymioCopy(handle, a, host.data(), 1000, polymioCopyHostToDevice));
  expect_ok(polymioCopy(handle, b, a, 1000, polymioCopyDeviceToDevice));
  expect_ok(polymioCopy(handle, back.data(), b, 1000, polymioCopyDeviceToHost));
  expect_ok(polymioSynchronize(handle));
  EXPECT_EQ(host, back);
  expect_ok(polymioCopy(handle, nullptr, nullptr, 0, polymioCopyHostToDevice));
  expect_bad(polymioCopy(handle, nullptr, a, 1, polymioCopyHostToDevice), {"dst is null"});
  expect_bad(polymioCopy(handle, a, nullptr, 1, polymioCopyHostToDevice), {"src is null"});
  expect_bad(polymioCopy(handle, a, b, 1, static_cast<polymioCopyKind_t>(3)), {"copy kind 3", "0", "2"});
  for (void* p : {a, b, none}) expect_ok(polymioFree(handle, p));
  expect_ok(polymioFree(handle, nullptr));
  expect_bad(polymioMalloc(handle, nullptr, 1), {"memory is null"});
}

TEST(Memory, TooMuchIsAllocFailed) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer's allocator ends the process instead";
#endif
  const Handle handle;
  void* p = &p;
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX / 2}) {
    const std::string number = std::to_string(bytes);
    expect_error(polymioMalloc(handle, &p, bytes), miopenStatusAllocFailed, {number.c_str()});
    EXPECT_EQ(p, nullptr);
  }
}

TEST(Threads, CapsAreStoredAndChecked) {
  const Handle handle;
  polymioDeviceInfo_t info{};
  info.size = sizeof info;
  expect_ok(polymioGetHandleDevice(handle, &info));
  int cap = 0;
  for (const int given : {1, 2, 8, 0}) {
    expect_ok(polymioSetThreadCap(handle, given));
    expect_ok(polymioGetThreadCap(handle, &cap));
    EXPECT_EQ(cap, given ? given : info.units);
  }
  expect_bad(polymioSetThreadCap(handle, -2), {"-2", "0", "positive"});
  expect_ok(polymioGetThreadCap(handle, &cap));
  EXPECT_EQ(cap, info.units) << "a refused cap changes nothing";
  expect_bad(polymioGetThreadCap(handle, nullptr), {"threads is null"});
}

TEST(Polymio, EveryFunctionRefusesNullHandles) {
  void* p = nullptr;
  int n = 0;
  std::size_t size = 0;
  polymioDeviceInfo_t info{};
  polymioDevicePeak_t peak{};
  info.size = sizeof info;
  peak.size = sizeof peak;
  expect_bad(polymioGetHandleDevice(nullptr, &info), {"handle is null"});
  expect_bad(polymioMeasureDevice(nullptr, &peak), {"handle is null"});
  expect_bad(polymioMalloc(nullptr, &p, 1), {"handle is null"});
  expect_bad(polymioFree(nullptr, nullptr), {"handle is null"});
  expect_bad(polymioCopy(nullptr, &n, &size, 1, polymioCopyDeviceToDevice), {"handle is null"});
  expect_bad(polymioSynchronize(nullptr), {"handle is null"});
  expect_bad(polymioSetThreadCap(nullptr, 1), {"handle is null"});
  expect_bad(polymioGetThreadCap(nullptr, &n), {"handle is null"});
  expect_bad(polymioSetExecutor(nullptr, nullptr, nullptr), {"handle is null"});
  expect_bad(polymioExplain(nullptr, nullptr, nullptr, &size), {"null"});
}

/// Executors of a caller. The context counts sections and tasks.
struct Count {
  std::size_t sections = 0, tasks = 0;
};
using Task = void (*)(void*, std::size_t);

void serial(void* context, std::size_t tasks, Task task, void* task_context) {
  auto& count = *static_cast<Count*>(context);
  ++count.sections;
  count.tasks += tasks;
  for (std::size_t i = 0; i < tasks; ++i) task(task_context, i);
}

void reversed(void* context, std::size_t tasks, Task task, void* task_context) {
  auto& count = *static_cast<Count*>(context);
  ++count.sections;
  count.tasks += tasks;
  for (std::size_t i = tasks; i-- > 0;) task(task_context, i);
}

void threaded(void* context, std::size_t tasks, Task task, void* task_context) {
  auto& count = *static_cast<Count*>(context);
  ++count.sections;
  count.tasks += tasks;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < tasks; ++i) threads.emplace_back([=] { task(task_context, i); });
  for (auto& t : threads) t.join();
}

void idle(void*, std::size_t, Task, void*) {}

class Executors : public testing::Test {
 protected:
  Executors() {
    expect_ok(polymioSetThreadCap(handle, 4));
    for (auto* buffer : {&c.x_data, &c.w_data}) {
      auto* values = reinterpret_cast<float*>(buffer->data());
      for (std::size_t i = 0; i < buffer->size() / sizeof(float); ++i) values[i] = static_cast<float>(i % 17) - 8;
    }
    c.provide_workspace(Direction::kForward);
  }
  miopenStatus_t run(std::uint64_t id) {
    std::fill(c.y_data.begin(), c.y_data.end(), 0xff);
    return c.call.immediate(Direction::kForward, id);
  }
  Handle handle;
  Convolution c{handle, {{4, 16, 20, 20}, {16, 16, 3, 3}, {1, 1}}};
};

TEST_F(Executors, OfTheCallerGiveTheSameResult) {
  for (const auto& s : c.solutions(Direction::kForward)) {
    expect_ok(polymioSetExecutor(handle, nullptr, nullptr));
    expect_ok(run(s.solution_id));
    const auto wanted = c.y_data;
    for (const auto function : {serial, reversed, threaded}) {
      Count count;
      expect_ok(polymioSetExecutor(handle, function, &count));
      expect_ok(run(s.solution_id));
      EXPECT_EQ(c.y_data, wanted);
      EXPECT_GE(count.sections, 1u) << "the executor was not used";
      EXPECT_GE(count.tasks, 2 * count.sections) << "one task runs inline, not here";
    }
    expect_ok(polymioSetExecutor(handle, nullptr, nullptr));
  }
}

TEST_F(Executors, ThatDoNotRunTheirTasksAreAnError) {
  for (const auto& s : c.solutions(Direction::kForward)) {
    expect_ok(polymioSetExecutor(handle, idle, nullptr));
    expect_error(run(s.solution_id), miopenStatusInternalError, {"executor"});
    expect_ok(polymioSetExecutor(handle, nullptr, nullptr));
    expect_ok(run(s.solution_id));
  }
}

TEST_F(Executors, StayWhenTheCapChangesAndLeaveWithNull) {
  Count count;
  const auto id = c.solutions(Direction::kForward)[0].solution_id;
  expect_ok(polymioSetExecutor(handle, serial, &count));
  expect_ok(polymioSetThreadCap(handle, 3));
  expect_ok(run(id));
  const auto seen = count.sections;
  EXPECT_GE(seen, 1u);
  expect_ok(polymioSetExecutor(handle, nullptr, nullptr));
  expect_ok(run(id));
  EXPECT_EQ(count.sections, seen);
}

using Problem = miopenProblem_t;

nlohmann::json explain(miopenHandle_t handle, Problem problem) {
  std::size_t size = 0;
  expect_ok(polymioExplain(handle, problem, nullptr, &size));
  std::string text(size, '\0');
  expect_ok(polymioExplain(handle, problem, text.data(), &size));
  EXPECT_EQ(text.size(), size);
  EXPECT_EQ(text.back(), '\0');
  return nlohmann::json::parse(text.c_str());
}

TEST(Explain, ListsEverySolverAndTheChoice) {
  const Handle handle;
  const Convolution c(handle, {{2, 5, 9, 11}, {7, 5, 3, 3}, {1, 0}, {2, 1}});
  for (const auto d : kDirections) {
    const ConvolutionProblem problem(c, d);
    const auto j = explain(handle, problem);
    const auto key = j["problem"].get<std::string>();
    for (const char* part : {"conv -n 2 -c 5 -k 7", "-H 9", "-W 11", "-y 3", "-x 3", "-p 1", "-u 2"})
      EXPECT_NE(key.find(part), std::string::npos) << key;
    EXPECT_EQ(j["device"], "cpu");
    EXPECT_FALSE(j["architecture"].get<std::string>().empty());
    EXPECT_GE(j["threads"].get<int>(), 1);
    const std::set<std::string> sources = {"database", "neighbour", "model", "estimate"};
    EXPECT_TRUE(sources.contains(j["source"])) << j["source"];
    EXPECT_EQ(j["model"]["applies"].get<bool>(), !j["model"].contains("reason")) << j["model"];
    if (j["source"] == "model") {
      EXPECT_GE(j["model"]["confidence"], 0.5) << "of the first against the second";
    }
    const auto listed = c.solutions(d);
    std::size_t applicable = 0, refused = 0;
    for (const auto& s : j["solvers"]) {
      EXPECT_TRUE(s["id"].get<std::uint64_t>() > 0 && s["version"].get<int>() > 0) << s;
      EXPECT_TRUE(s["deterministic"].is_boolean() && s["reference"].is_boolean()) << s;
      const char* name = "";
      expect_ok(polymioGetSolutionName(s["id"], &name));
      EXPECT_EQ(s["name"], name);
      const bool is_listed = std::any_of(listed.begin(), listed.end(),
                                         [&](const auto& l) { return l.solution_id == s["id"].get<std::uint64_t>(); });
      EXPECT_EQ(s["applicable"].get<bool>(), is_listed) << s;
      if (s["applicable"]) {
        ++applicable;
        EXPECT_GT(s["predicted_us"].get<double>(), 0) << s;
        EXPECT_TRUE(s["measured_us"].is_null() || s["measured_us"].get<double>() > 0) << s;
        EXPECT_GE(s["workspace"].get<std::int64_t>(), 0) << s;
        EXPECT_TRUE(s["error_class"].is_string()) << s;
      } else {
        EXPECT_FALSE(s["reason"].get<std::string>().empty()) << s;
        ++refused;
      }
    }
    EXPECT_GE(applicable, 1u);
    EXPECT_GE(refused, 1u) << "no solver refuses: the reasons go untested";
    const char* best = "";
    expect_ok(polymioGetSolutionName(listed[0].solution_id, &best));
    EXPECT_EQ(j["chosen"], best);
  }
}

TEST(Explain, KnowsWhatFindMeasured) {
  const Handle handle;
  Convolution c(handle, {{1, 5, 14, 11}, {6, 5, 3, 3}});
  c.provide_workspace(Direction::kForward);
  int count = 0;
  miopenConvAlgoPerf_t perf[5];
  expect_ok(c.call.find(Direction::kForward, 5, &count, perf));
  const auto j = explain(handle, ConvolutionProblem(c, Direction::kForward));
  EXPECT_EQ(j["source"], "database");
  int measured = 0;
  for (const auto& s : j["solvers"]) measured += s["applicable"] && !s["measured_us"].is_null();
  EXPECT_GE(measured, 1);
}

TEST(Explain, BuffersTooSmallGetTheSizeOnly) {
  const Handle handle;
  const Convolution c(handle, {{1, 1, 4, 4}, {1, 1, 3, 3}});
  const ConvolutionProblem problem(c, Direction::kForward);
  std::size_t need = 0;
  expect_ok(polymioExplain(handle, problem, nullptr, &need));
  ASSERT_GT(need, 100u);
  std::string buffer(need, '#');
  std::size_t size = need - 1;
  const std::string number = std::to_string(need), have = std::to_string(need - 1);
  expect_bad(polymioExplain(handle, problem, buffer.data(), &size), {number.c_str(), have.c_str()});
  EXPECT_EQ(size, need);
  EXPECT_EQ(buffer, std::string(need, '#')) << "nothing may be written";
  expect_ok(polymioExplain(handle, problem, buffer.data(), &size));
  expect_bad(polymioExplain(handle, problem, buffer.data(), nullptr), {"size is null"});
  expect_bad(polymioExplain(handle, nullptr, nullptr, &size), {"problem is null"});
}

TEST(Explain, SolutionNames) {
  const char* name = nullptr;
  expect_ok(polymioGetSolutionName(1, &name));
  EXPECT_STREQ(name, "ConvCpuReferenceFwd") << "names and ids never change";
  for (const std::uint64_t id : {std::uint64_t{0}, std::uint64_t{999999}}) {
    const std::string number = std::to_string(id);
    expect_bad(polymioGetSolutionName(id, &name), {number.c_str(), "unknown"});
  }
  expect_bad(polymioGetSolutionName(1, nullptr), {"name is null"});
}

TEST(Problems, AreCompleteOnlyWithThreeTensors) {
  const Handle handle;
  const Convolution c(handle, {{1, 1, 4, 4}, {1, 1, 3, 3}});
  const miopenTensorArgumentId_t ids[] = {miopenTensorConvolutionX, miopenTensorConvolutionW, miopenTensorConvolutionY};
  const miopenTensorDescriptor_t tensors[] = {c.x, c.w, c.y};
  const char* const names[] = {"miopenTensorConvolutionX", "miopenTensorConvolutionW", "miopenTensorConvolutionY"};
  for (std::size_t missing = 0; missing < 3; ++missing) {
    Problem problem = nullptr;
    expect_ok(miopenCreateConvProblem(&problem, c.conv, miopenProblemDirectionForward));
    for (std::size_t i = 0; i < 3; ++i)
      if (i != missing) expect_ok(miopenSetProblemTensorDescriptor(problem, ids[i], tensors[i]));
    std::size_t size = 0;
    expect_bad(polymioExplain(handle, problem, nullptr, &size), {names[missing]});
    expect_ok(miopenSetProblemTensorDescriptor(problem, ids[missing], tensors[missing]));
    expect_ok(polymioExplain(handle, problem, nullptr, &size));
    expect_ok(miopenDestroyProblem(problem));
  }
}

TEST(Problems, CopyWhatDescribesThem) {
  const Handle handle;
  Convolution c(handle, {{1, 1, 5, 5}, {1, 1, 3, 3}});
  const ConvolutionProblem problem(c, Direction::kForward);
  const auto before = explain(handle, problem)["problem"];
  expect_ok(miopenInitConvolutionDescriptor(c.conv, miopenConvolution, 7, 7, 3, 3, 1, 1));
  c.x.set(miopenHalf, {2, 2, 2, 2});
  EXPECT_EQ(explain(handle, problem)["problem"], before);
}

TEST(Problems, RefuseWrongArguments) {
  const Handle handle;
  const Convolution c(handle, {{1, 1, 4, 4}, {1, 1, 3, 3}});
  const ConvolutionProblem problem(c, Direction::kForward);
  const TensorDescriptor unset;
  Problem made = nullptr;
  expect_bad(miopenCreateConvProblem(nullptr, c.conv, miopenProblemDirectionForward), {"problem is null"});
  expect_bad(miopenCreateConvProblem(&made, nullptr, miopenProblemDirectionForward),
             {"convolution descriptor is null"});
  for (const int wrong : {3, 4}) {
    const std::string number = "direction " + std::to_string(wrong);
    expect_bad(miopenCreateConvProblem(&made, c.conv, static_cast<miopenProblemDirection_t>(wrong)),
               {number.c_str(), "backward weights"});
  }
  for (const auto id : {miopenTensorArgumentIdInvalid, miopenTensorMhaK, miopenTensorBiasX}) {
    const std::string number = "tensor id " + std::to_string(id);
    expect_bad(miopenSetProblemTensorDescriptor(problem, id, c.x), {number.c_str(), "X (1)"});
  }
  expect_bad(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionX, nullptr), {"null"});
  expect_bad(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionX, unset), {"not been set"});
  expect_bad(miopenSetProblemTensorDescriptor(nullptr, miopenTensorConvolutionX, c.x), {"problem is null"});
  const auto foreign = reinterpret_cast<Problem>(static_cast<miopenTensorDescriptor_t>(c.x));
  expect_bad(miopenSetProblemTensorDescriptor(foreign, miopenTensorConvolutionX, c.x), {"not a live problem"});
  expect_bad(miopenDestroyProblem(nullptr), {"problem is null"});
  expect_bad(miopenDestroyProblem(foreign), {"not a live problem"});
}

TEST(MathMode, IsStoredAndChecked) {
  const ConvolutionDescriptor conv;
  for (const auto mode : {polymioMathStrict, polymioMathAccurate, polymioMathTf32, polymioMathAny}) {
    expect_ok(polymioSetConvolutionMathMode(conv, mode));
    auto got = polymioMathAccurate;
    expect_ok(polymioGetConvolutionMathMode(conv, &got));
    EXPECT_EQ(got, mode);
  }
  expect_bad(polymioGetConvolutionMathMode(conv, nullptr), {"mode is null"});
}

}  // namespace
}  // namespace polymio::test
