// Tensors of more than 2^31 elements, zero but for a few at both ends and where 32-bit offsets would wrap: their memory
// and what is expected of results. On the CPU, with POLYMIO_TEST_LARGE=1 only: 5 GB of memory and 4 minutes.
// SPDX-License-Identifier: MIT
#pragma once
#ifndef MIOPEN_BETA_API
#define MIOPEN_BETA_API
#endif
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "api.h"
#include "reference/types.h"

namespace polymio::test {

namespace ref = polymio::reference;
using ref::Type;
using Places = std::vector<std::int64_t>;

inline constexpr std::int64_t kTwo31 = std::int64_t{1} << 31;
inline constexpr std::int64_t kWidth = 32768, kPlane = 32769 * kWidth, kCount = 2 * kPlane;  // 2^31 + 2^16 elements
inline constexpr std::int64_t kRows = kCount / kWidth;

/// The elements of a tensor.
class Memory {
 public:
  /// Zeros; pages that are not written take no memory.
  explicit Memory(std::int64_t count, Type type = Type::kHalf)
      : count_(count), type_(type), bytes_(static_cast<std::size_t>(count) * ref::size_of(type)) {
    reserved_ =
        mmap(nullptr, bytes_ + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(reserved_, MAP_FAILED) << bytes_ << " bytes";
    data_ = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(reserved_) + kHuge - 1) / kHuge * kHuge);
    madvise(data_, bytes_, MADV_HUGEPAGE);
  }
  /// For results: the same few pages over and over, but for those of the elements `kept`, which are NaN (integers: -1).
  Memory(std::int64_t count, const Places& kept, Type type = Type::kHalf) : Memory(count, type) {
    std::set<std::size_t> own;
    for (const std::int64_t i : kept) own.insert(static_cast<std::size_t>(i) * ref::size_of(type) / kFold);
    const int file = memfd_create("results", 0);
    EXPECT_EQ(ftruncate(file, kFold), 0);
    for (std::size_t at = 0; at < bytes_; at += kFold) {
      if (own.count(at / kFold) != 0) continue;
      void* const page =
          mmap(data_ + at, std::min(kFold, bytes_ - at), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
      EXPECT_EQ(page, data_ + at);
    }
    close(file);
    madvise(data_, bytes_, MADV_HUGEPAGE);
    for (const std::int64_t i : kept)
      std::memset(data_ + static_cast<std::size_t>(i) * ref::size_of(type), ref::nan_byte(type), ref::size_of(type));
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { munmap(reserved_, bytes_ + kHuge); }

  std::int64_t count() const { return count_; }
  std::size_t bytes() const { return bytes_; }
  void* data(std::int64_t first = 0) const { return data_ + static_cast<std::size_t>(first) * ref::size_of(type_); }
  double at(std::int64_t i) const { return ref::load(type_, data_, i); }
  void set(std::int64_t i, double value) const { ref::store(type_, data_, i, value); }

 private:
  static constexpr std::size_t kHuge = std::size_t{2} << 20, kFold = 16 * kHuge;
  std::int64_t count_;
  Type type_;
  std::size_t bytes_;
  void* reserved_;
  char* data_;
};

/// A tensor whose sizes and strides may exceed an int; packed without strides.
struct Long : TensorDescriptor {
  Long(miopenDataType_t type, const std::vector<std::size_t>& lens, std::vector<std::size_t> strides = {}) {
    if (strides.empty()) {
      strides.resize(lens.size(), 1);
      for (std::size_t d = lens.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * lens[d];
    }
    expect_ok(miopenSetTensorDescriptorV2(*this, type, static_cast<int>(lens.size()), lens.data(), strides.data()));
  }
};

// What an element of x belongs to.
inline std::int64_t all(std::int64_t) { return 0; }
inline std::int64_t itself(std::int64_t i) { return i; }
inline std::int64_t plane(std::int64_t i) { return i / kPlane; }
inline std::int64_t in_plane(std::int64_t i) { return i % kPlane; }
inline std::int64_t row(std::int64_t i) { return i / kWidth; }
inline std::int64_t column(std::int64_t i) { return i % kWidth; }
inline std::int64_t row_in_plane(std::int64_t i) { return i % kPlane / kWidth; }
inline std::int64_t column_of_plane(std::int64_t i) { return plane(i) * kWidth + column(i); }
inline std::int64_t twin(std::int64_t i) { return i < kPlane ? i + kPlane : i - kPlane; }  // in the other plane
using Group = std::int64_t (*)(std::int64_t);

inline double logistic(double v) { return 1 / (1 + std::exp(-v)); }
inline double square(double v) { return v * v; }
inline double same(double v) { return v; }

inline void expect_near(double got, double want, const char* what, std::int64_t i) {
  EXPECT_NEAR(got, want, 2e-3 * std::abs(want) + 1e-6) << what << " " << i;
}

/// x (1, 2, 32769, 32768) is zero but for some elements of each plane.
struct LargePrimitives : testing::Test {
  LargePrimitives() {
    for (const auto& [i, value] : values) x.set(i, value);
  }
  void SetUp() override {
    const char* on = std::getenv("POLYMIO_TEST_LARGE");
    if (!on || std::string(on) != "1") GTEST_SKIP() << "set POLYMIO_TEST_LARGE=1 to run it";
    expect_ok(polymioCreateOnDevice(&handle, "cpu"));
  }
  void TearDown() override {
    if (handle) expect_ok(miopenDestroy(handle));
  }

  double x_at(std::int64_t i) const {
    const auto found = values.find(i);
    return found == values.end() ? 0 : found->second;
  }
  /// Where the elements that are not zero, and those beside them, go.
  Places places(Group to = itself) const {
    std::set<std::int64_t> found;
    for (const auto& [at, value] : values)
      for (std::int64_t i = at - 2; i <= at + 2; ++i)
        if (i >= 0 && i < kCount) found.insert(to(i));
    return {found.begin(), found.end()};
  }
  Memory output(Type type = Type::kHalf) const { return Memory(kCount, places(), type); }
  Memory plane_output() const { return Memory(kPlane, places(in_plane)); }

  /// Compares y with want(i).
  template <class Want>
  void expect_all(const Memory& y, const Places& checked, Want want) const {
    for (const std::int64_t i : checked) expect_near(y.at(i), want(i), "element", i);
  }
  template <class Want>
  void expect_all(const Memory& y, Want want) const {
    expect_all(y, places(), want);
  }

  /// The sum of of(element) in the group `number`.
  template <class Of>
  double sum(Group group, std::int64_t number, Of of) const {
    double result = 0;
    for (const auto& [i, value] : values)
      if (group(i) == number) result += of(value);
    return result;
  }
  struct Moments {
    double mean, variance;
  };
  Moments moments(Group group, std::int64_t number, std::int64_t count) const {
    const auto n = static_cast<double>(count);
    const double mean = sum(group, number, same) / n;
    return {mean, sum(group, number, square) / n - mean * mean};
  }

  miopenHandle_t handle = nullptr;
  const std::map<std::int64_t, double> values = {
      {0, -2},      {kPlane - 2, 0.75}, {kPlane, 0.5},     {kTwo31 - 1, 1.75},
      {kTwo31, -3}, {kTwo31 + 3, 4.25}, {kCount - 1, -5.5}};
  Tensor desc{miopenHalf, {1, 2, 32769, 32768}}, plane_desc{miopenHalf, {1, 1, 32769, 32768}},
      rows_desc{miopenHalf, {kRows, kWidth}}, image{miopenHalf, {1, 1, kRows, kWidth}};
  Memory x{kCount};
};

}  // namespace polymio::test
