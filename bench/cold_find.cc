// Time of a cold find under a budget, over unseen shapes with an empty database; and the cost of online tuning: 1000
// calls against 1000 calls of the best solver.
// Usage: cold_find [--shapes N] [--budget MS] [--check]. With --check the exit status is 1 when the 99th
// percentile is over the budget.
// SPDX-License-Identifier: MIT
#include <miopen/miopen.h>
#include <miopen/polymio.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

namespace {

void check(miopenStatus_t status, const char* call) {
  if (status == miopenStatusSuccess) return;
  std::fprintf(stderr, "%s: %s: %s\n", call, miopenGetErrorString(status), polymioGetLastError());
  std::exit(1);
}
#define CHECK(call) check((call), #call)

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Shape {
  int n, c, h, k, filter, stride, groups;
};

/// A forward convolution on random data, with the workspace of find.
struct Convolution {
  Convolution(miopenHandle_t handle, const Shape& s) : handle_(handle) {
    CHECK(miopenCreateConvolutionDescriptor(&conv));
    CHECK(
        miopenInitConvolutionDescriptor(conv, miopenConvolution, s.filter / 2, s.filter / 2, s.stride, s.stride, 1, 1));
    CHECK(miopenSetConvolutionGroupCount(conv, s.groups));
    for (auto* t : {&x, &w, &y}) CHECK(miopenCreateTensorDescriptor(t));
    CHECK(miopenSet4dTensorDescriptor(x, miopenFloat, s.n, s.c, s.h, s.h));
    CHECK(miopenSet4dTensorDescriptor(w, miopenFloat, s.k, s.c / s.groups, s.filter, s.filter));
    int n, k, h, width;
    CHECK(miopenGetConvolutionForwardOutputDim(conv, x, w, &n, &k, &h, &width));
    CHECK(miopenSet4dTensorDescriptor(y, miopenFloat, n, k, h, width));
    x_data = memory(0, elements(x));
    w_data = memory(1, elements(w));
    y_data = memory(2, elements(y));
    std::size_t bytes = 0;
    CHECK(miopenConvolutionForwardGetWorkSpaceSize(handle, w, x, conv, y, &bytes));
    workspace = memory(3, bytes / sizeof(float) + 1);
    workspace_bytes = bytes;
  }
  Convolution(const Convolution&) = delete;
  Convolution& operator=(const Convolution&) = delete;
  ~Convolution() {
    for (auto* t : {&x, &w, &y}) miopenDestroyTensorDescriptor(*t);
    miopenDestroyConvolutionDescriptor(conv);
  }

  /// Buffers shared by all shapes, to avoid page faults in the measurement.
  static float* memory(int role, std::size_t count) {
    static std::vector<float> buffers[4];
    auto& b = buffers[role];
    for (std::size_t i = b.size(); i < count; ++i) b.push_back(static_cast<float>(i % 17) - 8);
    return b.data();
  }

  static std::size_t elements(miopenTensorDescriptor_t t) {
    std::size_t bytes = 0;
    CHECK(miopenGetTensorNumBytes(t, &bytes));
    return bytes / sizeof(float);
  }

  /// The best algorithm.
  miopenConvFwdAlgorithm_t find() {
    int count = 0;
    miopenConvAlgoPerf_t best;
    CHECK(miopenFindConvolutionForwardAlgorithm(handle_, x, x_data, w, w_data, conv, y, y_data, 1, &count, &best,
                                                workspace, workspace_bytes, false));
    return best.fwd_algo;
  }

  double run(miopenConvFwdAlgorithm_t algorithm) {
    const float one = 1, zero = 0;
    const double start = now_ms();
    CHECK(miopenConvolutionForward(handle_, &one, x, x_data, w, w_data, conv, algorithm, &zero, y, y_data, workspace,
                                   workspace_bytes));
    return now_ms() - start;
  }

  miopenHandle_t handle_;
  miopenConvolutionDescriptor_t conv = nullptr;
  miopenTensorDescriptor_t x = nullptr, w = nullptr, y = nullptr;
  float *x_data = nullptr, *w_data = nullptr, *y_data = nullptr, *workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

/// Sizes of inference and small training batches, uniform on a logarithmic scale.
Shape draw(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<int> values) {
    return values.begin()[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random)];
  };
  const auto log_uniform = [&](double least, double most) {
    return static_cast<int>(std::exp(std::uniform_real_distribution<double>(std::log(least), std::log(most))(random)));
  };
  Shape s{log_uniform(1, 8),
          log_uniform(3, 512),
          log_uniform(7, 112),
          log_uniform(8, 512),
          pick({1, 1, 3, 3, 3, 5, 7}),
          pick({1, 1, 1, 2}),
          1};
  if (pick({0, 0, 0, 0, 0, 0, 0, 1}) == 1) s.groups = s.k = s.c;
  return s;
}

double percentile(std::vector<double> v, double p) {
  std::sort(v.begin(), v.end());
  return v[std::min(v.size() - 1, static_cast<std::size_t>(p * static_cast<double>(v.size())))];
}

bool cold_finds(int shapes, double budget_ms) {
  std::mt19937 random(20240607);
  miopenHandle_t handle;
  CHECK(miopenCreate(&handle));
  CHECK(polymioSetFindBudget(handle, budget_ms));
  std::vector<double> ms;
  int skipped = 0;
  for (int i = 0; i < shapes; ++i) {
    Convolution c(handle, draw(random));
    const double start = now_ms();
    c.find();
    ms.push_back(now_ms() - start);
    skipped += std::strstr(polymioGetLastFindReport(), "skipped") != nullptr;
  }
  CHECK(miopenDestroy(handle));
  const double p99 = percentile(ms, 0.99);
  std::printf(
      "cold find: %d unseen shapes, empty database, budget %g ms: median %.2f ms, p95 %.2f, p99 %.2f, worst "
      "%.2f; %d finds skipped candidates\n",
      shapes, budget_ms, percentile(ms, 0.5), percentile(ms, 0.95), p99, percentile(ms, 1), skipped);
  return p99 <= budget_ms;
}

/// 1000 calls with online tuning, then 1000 calls of the solver that an unlimited find chooses.
void tune_online(const Shape& shape) {
  constexpr int kCalls = 1000;
  miopenHandle_t handle, other;
  CHECK(miopenCreate(&handle));
  CHECK(polymioSetTuneWhileRunning(handle, 1));
  Convolution tuned(handle, shape);
  double total = 0, first = 0;
  for (int i = 0; i < kCalls; ++i) {
    const double ms = tuned.run(miopenConvolutionFwdAlgoGEMM);
    if (i == 0) first = ms;
    total += ms;
  }
  CHECK(miopenCreate(&other));
  Convolution found(other, shape);
  const auto algorithm = found.find();
  std::vector<double> ms;
  for (int i = 0; i < kCalls; ++i) ms.push_back(found.run(algorithm));
  double best = 0;
  for (const double t : ms) best += t;
  std::printf(
      "online tuning: %dx%dx%dx%d -> %d, %dx%d: 1000 calls %.1f ms, 1000 calls of the best solver %.1f ms, ratio %.3f "
      "(first call %.2f ms)\n",
      shape.n, shape.c, shape.h, shape.h, shape.k, shape.filter, shape.filter, total, best, (total - first) / best,
      first);
  CHECK(miopenDestroy(handle));
  CHECK(miopenDestroy(other));
}

}  // namespace

int main(int argc, char** argv) {
  int shapes = 500;
  double budget_ms = 20;
  bool must_hold = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--check")
      must_hold = true;
    else if (flag == "--shapes" && i + 1 < argc)
      shapes = std::atoi(argv[++i]);
    else if (flag == "--budget" && i + 1 < argc)
      budget_ms = std::atof(argv[++i]);
    else {
      std::fprintf(stderr, "usage: cold_find [--shapes N] [--budget MS] [--check]\n");
      return 2;
    }
  }
  std::string folder = (std::filesystem::temp_directory_path() / "polymio_cold_XXXXXX").string();
  if (!mkdtemp(folder.data())) {
    std::perror("mkdtemp");
    return 1;
  }
  setenv("MIOPEN_USER_DB_PATH", folder.c_str(), 1);
  const bool held = cold_finds(shapes, budget_ms);
  if (!must_hold)
    for (const Shape& s :
         {Shape{1, 64, 28, 64, 3, 1, 1}, Shape{4, 128, 14, 256, 1, 1, 1}, Shape{2, 96, 28, 96, 3, 1, 96}})
      tune_online(s);
  std::filesystem::remove_all(folder);
  return must_hold && !held ? 1 : 0;
}
