// Primitives on tensors of more than 2^31 elements: right at both ends and where 32-bit offsets would wrap. On the CPU,
// with POLYMIO_TEST_LARGE=1 only: 5 GB of memory.
// SPDX-License-Identifier: MIT
#include <sys/mman.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>

#include "api.h"
#include "reference/types.h"

namespace polymio::test {
namespace {

namespace ref = polymio::reference;

constexpr std::int64_t kTwo31 = std::int64_t{1} << 31;
constexpr std::int64_t kWidth = 32768, kPlane = 32769 * kWidth;  // two planes: 2^31 + 2^16 elements
constexpr float kOne = 1, kZero = 0;

/// Zeros in fp16; pages that are not written take no memory.
class Halves {
 public:
  explicit Halves(std::int64_t count) : bytes_(static_cast<std::size_t>(2 * count)) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(memory_, MAP_FAILED) << bytes_ << " bytes";
  }
  Halves(const Halves&) = delete;
  Halves& operator=(const Halves&) = delete;
  ~Halves() { munmap(memory_, bytes_); }
  void* data() const { return memory_; }
  double at(std::int64_t i) const { return ref::load(ref::Type::kHalf, memory_, i); }
  void set(std::int64_t i, double value) { ref::store(ref::Type::kHalf, memory_, i, value); }

 private:
  std::size_t bytes_;
  void* memory_;
};

/// x (1, 2, 32769, 32768) is zero but for some elements of each plane.
struct LargePrimitives : testing::Test {
  LargePrimitives() {
    double value = -2;
    for (const std::int64_t i : {std::int64_t{0}, kPlane - 2, kPlane, kTwo31 - 1, kTwo31, kTwo31 + 3, 2 * kPlane - 1}) {
      values[i] = value;
      x.set(i, value);
      value += 1.25;
    }
  }
  void SetUp() override {
    const char* on = std::getenv("POLYMIO_TEST_LARGE");
    if (!on || std::string(on) != "1") GTEST_SKIP() << "set POLYMIO_TEST_LARGE=1 to run it";
    expect_ok(polymioCreateOnDevice(&handle, "cpu"));
  }
  void TearDown() override {
    if (handle) expect_ok(miopenDestroy(handle));
  }

  /// Compares y with want(i) at the elements that are not zero, and beside them.
  template <class Want>
  void expect_all(const Halves& y, std::int64_t count, Want want) const {
    for (const auto& [at, value] : values)
      for (std::int64_t i = at - 2; i <= at + 2; ++i) {
        if (i < 0 || i >= count) continue;
        EXPECT_NEAR(y.at(i), want(i), 2e-3 * std::abs(want(i)) + 1e-6) << "element " << i;
      }
  }
  double x_at(std::int64_t i) const {
    const auto found = values.find(i);
    return found == values.end() ? 0 : found->second;
  }

  miopenHandle_t handle = nullptr;
  Tensor desc{miopenHalf, {1, 2, 32769, 32768}};
  Halves x{2 * kPlane};
  std::map<std::int64_t, double> values;
};

TEST_F(LargePrimitives, BatchNormInference) {
  const Halves y(2 * kPlane);
  const Tensor channels(miopenFloat, {1, 2, 1, 1});
  float one = 1, zero = 0, scale[] = {2, 3}, bias[] = {1, -1}, mean[] = {0.5, 0.25}, variance[] = {1, 4};
  expect_ok(miopenBatchNormalizationForwardInference(handle, miopenBNSpatial, &one, &zero, desc, x.data(), desc,
                                                     y.data(), channels, scale, bias, mean, variance, 1e-9));
  expect_all(y, 2 * kPlane, [&](std::int64_t i) {
    const std::int64_t c = i / kPlane;
    return scale[c] * (x_at(i) - mean[c]) / std::sqrt(variance[c]) + bias[c];
  });
}

TEST_F(LargePrimitives, Softmax) {
  const Halves y(2 * kPlane);
  expect_ok(miopenSoftmaxForward_V2(handle, &kOne, desc, x.data(), &kZero, desc, y.data(), MIOPEN_SOFTMAX_ACCURATE,
                                    MIOPEN_SOFTMAX_MODE_CHANNEL));
  expect_all(y, 2 * kPlane, [&](std::int64_t i) {
    const std::int64_t other = i < kPlane ? i + kPlane : i - kPlane;
    return 1 / (1 + std::exp(x_at(other) - x_at(i)));
  });
}

TEST_F(LargePrimitives, Pooling) {
  const Halves y(kPlane);
  const Tensor half(miopenHalf, {1, 2, 32769, 16384});
  const Owned<miopenPoolingDescriptor_t, miopenCreatePoolingDescriptor, miopenDestroyPoolingDescriptor> pooling;
  expect_ok(miopenSet2dPoolingDescriptor(pooling, miopenPoolingMax, 1, 2, 0, 0, 1, 2));
  expect_ok(miopenPoolingForward(handle, pooling, &kOne, desc, x.data(), &kZero, half, y.data(), false, nullptr, 0));
  for (const auto& [i, value] : values) EXPECT_EQ(y.at(i / 2), std::max(x_at(i & ~1), x_at(i | 1))) << "element " << i;
}

TEST_F(LargePrimitives, ReduceTensor) {
  const Halves sum(1);
  const Tensor one(miopenHalf, {1, 1, 1, 1});
  const Owned<miopenReduceTensorDescriptor_t, miopenCreateReduceTensorDescriptor, miopenDestroyReduceTensorDescriptor>
      reduce;
  expect_ok(miopenSetReduceTensorDescriptor(reduce, MIOPEN_REDUCE_TENSOR_ADD, miopenFloat, MIOPEN_NOT_PROPAGATE_NAN,
                                            MIOPEN_REDUCE_TENSOR_NO_INDICES, MIOPEN_32BIT_INDICES));
  std::size_t bytes = 0;
  expect_ok(miopenGetReductionWorkspaceSize(handle, reduce, desc, one, &bytes));
  std::vector<char> workspace(bytes + 1);
  expect_ok(miopenReduceTensor(handle, reduce, nullptr, 0, workspace.data(), bytes, &kOne, desc, x.data(), &kZero, one,
                               sum.data()));
  double wanted = 0;
  for (const auto& [i, value] : values) wanted += value;
  EXPECT_EQ(sum.at(0), wanted);
}

TEST_F(LargePrimitives, LocalResponseNormalization) {
  const Halves y(2 * kPlane);
  const Owned<miopenLRNDescriptor_t, miopenCreateLRNDescriptor, miopenDestroyLRNDescriptor> lrn;
  expect_ok(miopenSetLRNDescriptor(lrn, miopenLRNCrossChannel, 3, 1.5, 0.75, 2));
  expect_ok(miopenLRNForward(handle, lrn, &kOne, desc, x.data(), &kZero, desc, y.data(), false, nullptr));
  expect_all(y, 2 * kPlane, [&](std::int64_t i) {
    const double other = x_at(i < kPlane ? i + kPlane : i - kPlane);
    return x_at(i) / std::pow(2 + 1.5 / 3 * (x_at(i) * x_at(i) + other * other), 0.75);
  });
}

}  // namespace
}  // namespace polymio::test
