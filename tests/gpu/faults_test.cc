// Faults of a CUDA device, and stream capture: on the fake driver, which has no GPU.
// SPDX-License-Identifier: MIT
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "driver/run/conv_calls.h"
#include "driver/run/conv_problem.h"
#include "tests/driver/drive.h"

namespace polymio::driver {
namespace {

namespace fs = std::filesystem;

/// Injects the fault during its lifetime.
struct Trouble {
  explicit Trouble(const char* mode) { ::setenv("FAKE_CUDA", mode, 1); }
  ~Trouble() { ::unsetenv("FAKE_CUDA"); }
};

struct Counts {
  int launches = 0, violations = 0;
  Counts() {
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
    const auto read = reinterpret_cast<void (*)(int*, int*)>(::dlsym(library, "fake_counts"));
    if (!read) throw RunError("this is not the fake driver: run the test by ctest");
    read(&launches, &violations);
  }
};

/// One convolution on cuda:0, run without find.
class Case {
 public:
  explicit Case(int channels, Direction direction = kForward, const std::string& base = "conv")
      : problem_(parse_line(base + " -n 1 -c " + std::to_string(channels) + " -H 6 -W 6 -k 8 -y 3 -x 3 -p 1 -q 1"),
                 direction) {
    for (const int role : {kX, kW, kY}) buffers_[role] = Buffer(session_, problem_.tensors[role].bytes(), "tensor");
    workspace_ = Buffer(session_, 64 << 20, "the workspace");
  }
  DeviceData data() const {
    return {
        {buffers_[kX].device(), buffers_[kW].device(), buffers_[kY].device()}, workspace_.device(), workspace_.bytes()};
  }
  void run(int algorithm) const { driver::run(session_, problem_, data(), algorithm); }
  void run_solution(std::uint64_t id) const { driver::run_solution(session_, problem_, data(), id); }
  void scale(double alpha, double beta) {
    problem_.args.alpha = alpha;
    problem_.args.beta = beta;
  }
  void prepare() const {
    const OwnedProblem owner = make_problem(problem_);
    const miopenProblem_t raw = owner.get();
    check(polymioPrepare(session_.get(), &raw, 1), "polymioPrepare");
  }
  const Session& session() const { return session_; }
  const Problem& problem() const { return problem_; }
  std::vector<miopenConvSolution_t> solutions() const { return driver::solutions(session_, problem_); }

 private:
  Session session_{"cuda:0"};
  Problem problem_;
  Buffer buffers_[3], workspace_;
};

template <class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const RunError& error) {
    return error.what();
  }
  return "";
}

testing::AssertionResult says(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    if (text.find(part) == std::string::npos)
      return testing::AssertionFailure() << "'" << part << "' is not in '" << text << "'";
  return testing::AssertionSuccess();
}

constexpr Direction kDirections[] = {kForward, kBackwardData, kBackwardWeights};

TEST(CudaFaults, ShortMemoryIsNamed) {
  const Case c(3);
  const Trouble trouble("memory");
  void* memory = nullptr;
  EXPECT_EQ(polymioMalloc(c.session().get(), &memory, 1000), miopenStatusAllocFailed);
  EXPECT_EQ(memory, nullptr);
  EXPECT_TRUE(says(polymioGetLastError(), {"cannot allocate 1000 bytes on cuda:0"}));
}

/// Without a workspace from the caller, of a problem that is fastest with one: dilated, since eight outputs have a
/// kernel without.
TEST(CudaFaults, FusedConvolutionsTakeMemoryOfTheirOwn) {
  const Case c(64, kForward, "conv -l 2 -j 2");
  const auto& tensors = c.problem().tensors;
  miopenTensorDescriptor_t descriptors[3];
  for (const int role : {kX, kW, kY}) {
    check(miopenCreateTensorDescriptor(&descriptors[role]), "miopenCreateTensorDescriptor");
    const std::vector<int> lens(tensors[role].lens.begin(), tensors[role].lens.end());
    check(miopenSetTensorDescriptor(descriptors[role], miopenFloat, 4, lens.data(), nullptr),
          "miopenSetTensorDescriptor");
  }
  miopenConvolutionDescriptor_t convolution = nullptr;
  miopenActivationDescriptor_t relu = nullptr;
  constexpr int kOne[] = {1, 1}, kTwo[] = {2, 2};
  check(miopenCreateConvolutionDescriptor(&convolution), "miopenCreateConvolutionDescriptor");
  check(miopenInitConvolutionNdDescriptor(convolution, 2, kOne, kOne, kTwo, miopenConvolution),
        "miopenInitConvolutionNdDescriptor");
  check(miopenCreateActivationDescriptor(&relu), "miopenCreateActivationDescriptor");
  check(miopenSetActivationDescriptor(relu, miopenActivationRELU, 0, 0, 0), "miopenSetActivationDescriptor");
  const DeviceData data = c.data();
  const auto call = [&] {
    return miopenConvolutionBiasActivationForward(c.session().get(), nullptr, descriptors[kX], data.tensors[kX],
                                                  descriptors[kW], data.tensors[kW], convolution,
                                                  miopenConvolutionFwdAlgoDirect, nullptr, 0, nullptr, nullptr, nullptr,
                                                  nullptr, nullptr, relu, descriptors[kY], data.tensors[kY]);
  };
  {
    const Trouble trouble("memory");
    EXPECT_EQ(call(), miopenStatusAllocFailed);
  }
  EXPECT_EQ(call(), miopenStatusSuccess) << polymioGetLastError();
  const Counts before;
  const Trouble trouble("capture");
  EXPECT_EQ(call(), miopenStatusSuccess) << polymioGetLastError();
  EXPECT_EQ(Counts().violations, before.violations);
  for (const auto descriptor : descriptors) miopenDestroyTensorDescriptor(descriptor);
  miopenDestroyConvolutionDescriptor(convolution);
  miopenDestroyActivationDescriptor(relu);
}

TEST(CudaFaults, ProgramsThatDoNotFitTheMemory) {
  const Case c(3, kForward, "convfp16");  // whose programs no other test has loaded
  const auto choice = c.solutions().at(0);
  {
    const Trouble trouble("load");
    EXPECT_TRUE(says(error_of([&] { c.run(choice.algorithm); }), {"miopenStatusAllocFailed", "out of memory"}));
  }
  c.run(choice.algorithm);
}

TEST(CudaFaults, LaunchesThatFail) {
  const Case c(3);
  const auto choice = c.solutions().at(0);
  {
    const Trouble trouble("launch");
    for (int i = 0; i < 2; ++i)
      EXPECT_TRUE(says(error_of([&] { c.run(choice.algorithm); }),
                       {"miopenStatusInternalError", "launching a kernel", "unspecified launch failure"}));
  }
  c.run(choice.algorithm);
}

std::string explanation(const Session& session, const Problem& problem) {
  const OwnedProblem owner = make_problem(problem);
  std::string text(1 << 16, '\0');
  std::size_t size = text.size();
  check(polymioExplain(session.get(), owner.get(), text.data(), &size), "polymioExplain");
  return text;
}

TEST(CudaFaults, SpilledRegistersAreExplained) {
  fs::remove_all(std::getenv("MIOPEN_CUSTOM_CACHE_DIR"));  // of earlier runs of this test
  const Case c(24, kForward, "convbfp16");                 // whose programs no other test has loaded
  const auto choice = c.solutions().at(0);
  EXPECT_FALSE(says(explanation(c.session(), c.problem()), {"spilled"}));
  {
    const Trouble trouble("spill");
    c.run_solution(choice.solution_id);
  }
  EXPECT_TRUE(says(explanation(c.session(), c.problem()), {"\"spills\":[\"ptxas warning : Registers are spilled"}));
}

TEST(CudaFaults, WithoutCublasLtOurOwnProductsRemain) {
  for (const Direction direction : kDirections) {
    const Case c(16, direction);
    bool own = false;
    for (const auto& solution : c.solutions()) {
      const char* name = "";
      check(polymioGetSolutionName(solution.solution_id, &name), "polymioGetSolutionName");
      EXPECT_FALSE(std::string(name).starts_with("ConvCudaGemm")) << name;
      own = own || std::string(name).starts_with("ConvGpuGemm");
    }
    EXPECT_TRUE(own);
  }
  const Case c(16);
  EXPECT_TRUE(says(explanation(c.session(), c.problem()), {"ConvCudaGemmFwd", "there is no cuBLASLt"}));
}

/// In int8, which only the implicit GEMM and the reference compute.
const char* const kWithoutGemm = "convint8 -g 4";

TEST(CudaRuns, GemmMayBeNamedWithoutASolverOfIt) {
  for (const Direction direction : kDirections) {
    const Case c(4, direction, kWithoutGemm);
    for (const auto& solution : c.solutions()) EXPECT_NE(solution.algorithm, miopenConvolutionAlgoGEMM);
    const Counts before;
    c.run(miopenConvolutionAlgoGEMM);
    EXPECT_GT(Counts().launches, before.launches);
    EXPECT_TRUE(says(error_of([&] { c.run(miopenConvolutionAlgoFFT); }), {"miopenStatusNotImplemented"}));
  }
}

/// 36 rows of 8 channels in NHWC, whose parameters are in NCHW: a thread takes few samples in one launch.
TEST(CudaRuns, BatchNormPerActivationTakesOneLaunchForEachPass) {
  const Session session("cuda:0");
  for (const auto& [samples, launches] : {std::pair{5, 1}, {70, 3}}) {
    const int lens[] = {samples, 8, 6, 6}, of_sample[] = {1, 8, 6, 6};
    constexpr int kLast[] = {288, 1, 48, 8};
    miopenTensorDescriptor_t x = nullptr, parameters = nullptr;
    check(miopenCreateTensorDescriptor(&x), "miopenCreateTensorDescriptor");
    check(miopenCreateTensorDescriptor(&parameters), "miopenCreateTensorDescriptor");
    check(miopenSetTensorDescriptor(x, miopenFloat, 4, lens, kLast), "miopenSetTensorDescriptor");
    check(miopenSetTensorDescriptor(parameters, miopenFloat, 4, of_sample, nullptr), "miopenSetTensorDescriptor");
    Buffer memory[4];
    for (auto& buffer : memory)
      buffer = Buffer(session, static_cast<std::size_t>(samples) * 288 * sizeof(float), "a tensor");
    float one = 1, zero = 0;
    const Counts before;
    check(miopenBatchNormalizationForwardTraining(
              session.get(), miopenBNPerActivation, &one, &zero, x, memory[0].device(), x, memory[1].device(),
              parameters, memory[2].device(), memory[3].device(), 1, nullptr, nullptr, 1e-5, nullptr, nullptr),
          "miopenBatchNormalizationForwardTraining");
    EXPECT_EQ(Counts().launches, before.launches + launches) << samples << " samples";
    miopenDestroyTensorDescriptor(x);
    miopenDestroyTensorDescriptor(parameters);
  }
}

TEST(CudaCapture, GemmMayBeNamedWithoutASolverOfIt) {
  const Case c(4, kForward, kWithoutGemm);
  c.prepare();
  const Counts before;
  const Trouble trouble("capture");
  c.run(miopenConvolutionAlgoGEMM);
  const Counts after;
  EXPECT_EQ(after.violations, before.violations);
  EXPECT_GT(after.launches, before.launches);
}

TEST(CudaCapture, WithoutAPlanIsRefusedByName) {
  const Case c(5);
  const auto choice = c.solutions().at(0);
  const Counts before;
  const Trouble trouble("capture");
  for (const auto& error :
       {error_of([&] { c.run(choice.algorithm); }), error_of([&] { c.run_solution(choice.solution_id); }),
        error_of([&] { find(c.session(), c.problem(), c.data(), false); })})
    EXPECT_TRUE(says(error, {"miopenStatusNotInitialized", "polymioPrepare"}));
  void* memory = nullptr;
  EXPECT_EQ(polymioMalloc(c.session().get(), &memory, 1000), miopenStatusNotInitialized);
  const Counts after;
  EXPECT_EQ(after.violations, before.violations);
  EXPECT_EQ(after.launches, before.launches);
}

TEST(CudaCapture, PreparedProblemsRunEveryWay) {
  for (const Direction direction : kDirections) {
    const Case c(7, direction);
    c.prepare();
    const auto choices = c.solutions();
    const Counts before;
    const Trouble trouble("capture");
    for (const auto& choice : choices) {
      c.run(choice.algorithm);
      if (choices.size() == 1 || solution_name(choice.solution_id).find("Reference") == std::string::npos)
        c.run_solution(choice.solution_id);
    }
    c.run(choices[0].algorithm);
    const Counts after;
    EXPECT_EQ(after.violations, before.violations);
    EXPECT_GE(after.launches, before.launches + static_cast<int>(choices.size()));
  }
}

TEST(CudaCapture, WhatRanBeforeRunsAgain) {
  const Case c(9);
  const auto choice = c.solutions().at(0);
  c.run(choice.algorithm);
  check(miopenEnableProfiling(c.session().get(), true), "miopenEnableProfiling");
  const Counts before;
  const Trouble trouble("capture");
  c.run(choice.algorithm);
  EXPECT_EQ(Counts().violations, before.violations);
  EXPECT_GT(Counts().launches, before.launches);
}

/// Every operation except convolutions, on tensors of one type.
class Operations {
 public:
  explicit Operations(miopenDataType_t type) : type_(type) {
    const int lens[] = {2, 16, 5, 5}, channels[] = {1, 16, 1, 1}, halves[] = {2, 8, 5, 5};
    const int last[] = {400, 1, 80, 16};
    const auto describe = [&](const int* sizes, const int* strides) {
      miopenTensorDescriptor_t t = nullptr;
      check(miopenCreateTensorDescriptor(&t), "miopenCreateTensorDescriptor");
      check(miopenSetTensorDescriptor(t, type, 4, sizes, strides), "miopenSetTensorDescriptor");
      return t;
    };
    x_ = describe(lens, nullptr);
    nhwc_ = describe(lens, last);
    bias_ = describe(channels, nullptr);
    half_ = describe(halves, nullptr);
    check(miopenCreateActivationDescriptor(&elu_), "miopenCreateActivationDescriptor");
    check(miopenSetActivationDescriptor(elu_, miopenActivationELU, 1, 1, 1), "miopenSetActivationDescriptor");
    for (auto& b : buffers_) b = Buffer(session_, 4096 * 8, "a tensor");
  }
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;
  ~Operations() {
    for (const auto t : {x_, nhwc_, bias_, half_}) miopenDestroyTensorDescriptor(t);
    miopenDestroyActivationDescriptor(elu_);
  }

  void prepare() const {
    miopenProblem_t problem = nullptr;
    check(miopenCreateActivationProblem(&problem, elu_, miopenProblemDirectionForward),
          "miopenCreateActivationProblem");
    check(miopenSetProblemTensorDescriptor(problem, miopenTensorActivationX, x_), "miopenSetProblemTensorDescriptor");
    check(polymioPrepare(session_.get(), &problem, 1), "polymioPrepare");
    check(miopenDestroyProblem(problem), "miopenDestroyProblem");
  }

  /// The status of each call.
  std::vector<miopenStatus_t> run() const {
    const miopenHandle_t h = session_.get();
    void *const x = buffers_[0].device(), *const y = buffers_[1].device(), *const z = buffers_[2].device();
    const double one_double = 1, two_double = 2;
    const float one_float = 1, two_float = 2;
    const bool wide = type_ == miopenDouble;
    const void* const one = wide ? static_cast<const void*>(&one_double) : &one_float;
    const void* const two = wide ? static_cast<const void*>(&two_double) : &two_float;
    return {miopenOpTensor(h, miopenTensorOpMul, one, x_, x, two, bias_, y, two, x_, z),
            miopenSetTensor(h, x_, x, one),
            miopenScaleTensor(h, nhwc_, x, two),
            miopenTransformTensor(h, one, x_, x, two, x_, y),
            miopenTransformTensor(h, two, x_, x, one, nhwc_, y),
            miopenConvolutionForwardBias(h, one, bias_, y, two, x_, x),
            miopenConvolutionBackwardBias(h, one, x_, x, two, bias_, y),
            miopenConvolutionBackwardBias(h, one, nhwc_, x, two, bias_, y),
            miopenActivationForward(h, elu_, one, x_, x, two, x_, y),
            miopenActivationBackward(h, elu_, one, x_, x, x_, y, x_, z, two, x_, z),
            miopenActivationBackward(h, elu_, one, x_, x, x_, y, x_, x, two, x_, z),
            miopenGLUForward(h, x_, x, half_, y, 1),
            miopenGLUBackward(h, x_, x, half_, y, x_, z, 1)};
  }

 private:
  const miopenDataType_t type_;
  Session session_{"cuda:0"};
  miopenTensorDescriptor_t x_, nhwc_, bias_, half_;
  miopenActivationDescriptor_t elu_ = nullptr;
  Buffer buffers_[3];
};

TEST(CudaCapture, OtherOperationsAreRefusedOrPrepared) {
  for (const miopenDataType_t type : {miopenDouble, miopenFloat, miopenHalf}) {
    const Operations fresh(type);
    const Counts before;
    if (type == miopenDouble) {  // of which no other test has loaded programs
      const Trouble trouble("capture");
      for (const auto status : fresh.run()) EXPECT_EQ(status, miopenStatusNotInitialized) << type;
      EXPECT_TRUE(says(polymioGetLastError(), {"being captured", "polymioPrepare"}));
      EXPECT_EQ(Counts().violations, before.violations);
      EXPECT_EQ(Counts().launches, before.launches);
    }
    fresh.prepare();
    const Operations other(type);  // another handle, whose calls are ready as well
    const Counts prepared;
    const Trouble trouble("capture");
    for (const Operations* each : {&fresh, &other}) {
      const auto statuses = each->run();
      for (std::size_t i = 0; i < statuses.size(); ++i)
        EXPECT_EQ(statuses[i], miopenStatusSuccess) << type << " call " << i << ": " << polymioGetLastError();
    }
    EXPECT_EQ(Counts().violations, prepared.violations);
    EXPECT_GE(Counts().launches, prepared.launches + 26);
  }
}

TEST(CudaFaults, OtherOperationsReportFailedLaunches) {
  const Operations all(miopenBFloat16);
  for (const auto status : all.run()) EXPECT_EQ(status, miopenStatusSuccess) << polymioGetLastError();
  const Trouble trouble("launch");
  for (const auto status : all.run()) EXPECT_EQ(status, miopenStatusInternalError);
  EXPECT_TRUE(says(polymioGetLastError(), {"launching a kernel", "unspecified launch failure"}));
}

TEST(CudaCapture, PreparedConvolutionsRunWithScalars) {
  Case c(11);
  c.prepare();
  const auto choice = c.solutions().at(0);
  const Counts before;
  const Trouble trouble("capture");
  for (const double beta : {0.0, 2.0}) {
    c.scale(0.5, beta);
    c.run(choice.algorithm);
  }
  EXPECT_EQ(Counts().violations, before.violations);
  EXPECT_GT(Counts().launches, before.launches);
}

TEST(Prepare, ChecksItsArguments) {
  const Session cpu("cpu");
  EXPECT_EQ(polymioPrepare(nullptr, nullptr, 0), miopenStatusBadParm);
  EXPECT_EQ(polymioPrepare(cpu.get(), nullptr, 1), miopenStatusBadParm);
  EXPECT_EQ(polymioPrepare(cpu.get(), nullptr, 0), miopenStatusSuccess);
  const miopenProblem_t none = nullptr;
  EXPECT_EQ(polymioPrepare(cpu.get(), &none, 1), miopenStatusBadParm);
}

/// The driver on the fake device, with these settings and with a folder that precedes the library path.
class Processes : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  void put(const char* name, const char* target) const {
    fs::create_symlink(fs::path(FAKE_GPU_DIR) / target, folder_ / name);
  }
  Outcome driver(const std::string& settings, const std::string& arguments) const {
    return ::run("LD_LIBRARY_PATH=" + folder_.string() + ":$LD_LIBRARY_PATH MIOPEN_CUSTOM_CACHE_DIR=" +
                 (folder_ / "kernels").string() + " " + settings + " " + POLYMIO_DRIVER_PATH + " " + arguments);
  }
  static constexpr const char* kConv = "conv -n 1 -c 2 -H 5 -W 5 -k 2 -F 1 -S 0 -i 1 -V 0 --device cuda:0";

  fs::path folder_ = fs::temp_directory_path() / ("polymio-faults." + std::to_string(static_cast<long>(getpid())));
};

TEST_F(Processes, WithoutADriver) {
  put("libcuda.so.1", "libnvrtc.so.13");  // a library with none of its functions
  EXPECT_TRUE(has(driver("", "devices"), "^cuda +none: no NVIDIA driver: "));
  const Outcome outcome = driver("", kConv);
  EXPECT_NE(outcome.status, 0);
  EXPECT_TRUE(has(outcome, "miopenStatusNotInitialized: no device 'cuda:0': no NVIDIA driver"));
}

TEST_F(Processes, WithoutADevice) {
  EXPECT_TRUE(has(driver("FAKE_CUDA=no-device", "devices"), "^cuda +none: .*no CUDA-capable device"));
  EXPECT_TRUE(has(driver("FAKE_CUDA=no-device", kConv), "miopenStatusNotInitialized: no device 'cuda:0': "));
  EXPECT_TRUE(has(driver("", "devices"), "^cuda:0 +Fake GPU.*, no cuBLASLt: there is no "));
  EXPECT_TRUE(has(driver("POLYMIO_DEVICE=cuda:1", "conv -n 1"), "miopenStatusBadParm: no device 'cuda:1': .*cuda:0"));
}

TEST_F(Processes, WithoutNvrtc) {
  for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12"}) put(name, "libcuda.so.1");
  const Outcome outcome = driver("", kConv);
  EXPECT_NE(outcome.status, 0);
  EXPECT_TRUE(has(outcome, "miopenStatusNotInitialized: .*there is no NVRTC"));
}

TEST_F(Processes, CompileErrorsCarryTheLog) {
  const Outcome outcome = driver("FAKE_CUDA=compile", kConv);
  EXPECT_NE(outcome.status, 0);
  EXPECT_TRUE(has(outcome, "NVRTC 13.99.* could not compile"));
  EXPECT_TRUE(has(outcome, "\"oops\" is undefined"));
}

TEST_F(Processes, WarmFillsTheCacheOnce) {
  const Outcome first = driver("", "warm --device cuda:0");
  EXPECT_EQ(first.status, 0);
  EXPECT_TRUE(has(first, "^cuda:0 +([0-9]+) programs, \\1 compiled"));
  EXPECT_TRUE(has(driver("", "warm --device cuda-sm90"), "^cuda-sm90 .* programs, 0 compiled"))
      << "the same architecture";
  EXPECT_TRUE(has(driver("MIOPEN_LOG_LEVEL=5", kConv), "ms"));
  EXPECT_FALSE(has(driver("MIOPEN_LOG_LEVEL=5", kConv), "compiled primitives/"));
  EXPECT_TRUE(has(driver("", "warm --device cpu"), "^cpu +0 programs"));
  EXPECT_EQ(driver("", "warm --device toaster:0").status, 1);
}

TEST_F(Processes, WarmFillsTheCacheForTuning) {
  const std::string list = (folder_ / "list").string(), warm = "warm --device cuda-sm90 --problems " + list;
  const std::string fused_list = list + ".fused";
  std::ofstream(list) << kConv << "\n";
  std::ofstream(fused_list) << kConv << " --fuse n3\n";
  const Outcome one = driver("", warm + " --solver ConvGpuImplicitGemm");
  EXPECT_EQ(one.status, 0) << one.text;
  EXPECT_TRUE(has(one, "^cuda-sm90 +1 programs, 1 compiled"));
  const Outcome all = driver("", warm + " --points all");
  EXPECT_TRUE(has(all, "^cuda-sm90 +[0-9]{2,} programs, [0-9]{2,} compiled"));
  EXPECT_TRUE(has(driver("", warm + " --points all"), " 0 compiled"));
  EXPECT_FALSE(has(driver("MIOPEN_LOG_LEVEL=5 MIOPEN_FIND_ENFORCE=3", kConv), "compiled primitives/convolution"))
      << "with a driver the same programs have the same keys";
  EXPECT_EQ(driver("", warm + " --solver None").status, 1);
  const std::string fused = "warm --device cuda-sm90 --problems " + fused_list;
  EXPECT_TRUE(has(driver("", fused), "^cuda-sm90 +[0-9]+ programs, [1-9][0-9]* compiled"));
  EXPECT_TRUE(has(driver("", fused), " 0 compiled"));
}

TEST_F(Processes, WarmTakesEveryPrimitiveWithSolvers) {
  const std::string list = (folder_ / "list").string(), pool = "pool -n 1 -c 2 -H 5 -W 5 -F 1";
  std::ofstream(list) << pool << "\nsoftmax -n 1 -c 4 -H 1 -W 1 -F 2\n";
  EXPECT_TRUE(has(driver("", "warm --device cuda-sm90 --problems " + list + " --solver Softmax"), "[1-9] compiled"));
  EXPECT_TRUE(has(driver("", "warm --device cuda-sm90 --problems " + list), "[1-9] compiled"));
  EXPECT_FALSE(has(driver("MIOPEN_LOG_LEVEL=5", pool + " -i 1 -V 0 --device cuda:0"), "compiled primitives/pooling"));
  EXPECT_EQ(driver("", "warm --device cuda-sm90 --points all").status, 2);
}

}  // namespace
}  // namespace polymio::driver
