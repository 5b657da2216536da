// The kernel that splits fp32 into parts of bf16, on an OpenCL device of the CPU.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "core/kernel_builder.h"
#include "core/registry.h"
#include "runtime/queue.h"

namespace polymio::convolution {
namespace {

class HopperSplit : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto& why = absence(DeviceKind::kOpenCl); !why.empty()) GTEST_SKIP() << why;
    stream_ = create_stream("opencl:0", nullptr);
    const char* const source = "primitives/convolution/cuda/split.cl";
    const KernelSpec specs[] = {{source, "split_floats", {}}, {source, "split_planes", {}}};
    kernels_ = build_kernels(*stream_, specs);
  }
  void TearDown() override {
    for (void* p : memory_) stream_->deallocate(p);
  }

  template <class T>
  T* allocate(std::size_t count) {
    memory_.push_back(stream_->allocate(count * sizeof(T)));
    return static_cast<T*>(memory_.back());
  }

  struct Split {
    std::vector<double> low, high, middle;
    bool outside;
  };

  /// Of the second tensor; the first has zeros.
  Split split(const std::vector<float>& values) {
    constexpr std::int64_t kFirst = 24;
    const auto count = static_cast<std::int64_t>(values.size());
    auto *const first = allocate<float>(kFirst), *const second = allocate<float>(values.size());
    auto *const first_parts = allocate<std::uint16_t>(3 * kFirst), *const parts =
                                                                       allocate<std::uint16_t>(3 * values.size());
    auto* const outside = allocate<unsigned>(1);
    std::fill_n(first, kFirst, 0.0f);
    std::copy(values.begin(), values.end(), second);
    std::fill_n(first_parts, 3 * kFirst, std::uint16_t{0xffff});
    *outside = 0;
    launch(*stream_, *kernels_[0], launch_shape(256, (kFirst + count + 2047) / 2048), Buffer(first),
           Buffer(first_parts), kFirst, Buffer(second), Buffer(parts), count, Buffer(outside));
    stream_->synchronize();
    for (std::int64_t i = 0; i < 3 * kFirst; ++i) EXPECT_EQ(first_parts[i], 0);
    const auto part = [&](std::int64_t n) {
      std::vector<double> v;
      for (std::int64_t i = 0; i < count; ++i) v.push_back(dtype::load(DataType::kBFloat16, parts, n * count + i));
      return v;
    };
    return {part(0), part(1), part(2), *outside != 0};
  }

  std::unique_ptr<Stream> stream_;
  Kernels kernels_;
  std::vector<void*> memory_;
};

TEST_F(HopperSplit, PartsAddUp) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-110, 62);
  std::vector<float> values = {0.0f,           -0.0f,           0x1p-110f, -0x1p-110f, 0x1.fffffep-110f,
                               0x1.fffffep62f, -0x1.fffffep62f, 1};
  while (values.size() < 4096) values.push_back(normal(engine));
  while (values.size() < 8192) {
    const float v = std::ldexp(1 + std::abs(std::fmod(normal(engine), 1.0f)), exponent(engine));
    values.push_back(std::abs(v) < 0x1p63f ? v : 1);
  }
  const Split s = split(values);
  EXPECT_FALSE(s.outside);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double v = static_cast<double>(values[i]);
    EXPECT_EQ(s.high[i] + s.middle[i] + s.low[i], v) << i;
    EXPECT_LE(std::abs(v - s.high[i]), std::abs(v) * 0x1p-8) << i;
    EXPECT_LE(std::abs(s.low[i]), std::abs(v) * 0x1p-16) << i;
  }
}

TEST_F(HopperSplit, SeesWhatPartsCannotRepresent) {
  using Limits = std::numeric_limits<float>;
  for (const float v : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), Limits::denorm_min(),
                        -Limits::min(), 0x1.fffffep-111f, 0x1p63f, -Limits::max()})
    for (const std::size_t at : {0, 1, 7, 8, 2055}) {
      std::vector<float> values(2056, 1);
      values[at] = v;
      EXPECT_TRUE(split(values).outside) << v << " at " << at;
    }
}

TEST_F(HopperSplit, PartsOfPlanesHaveChannelsLast) {
  struct Size {
    std::int64_t images, channels, pixels, gap;  // after a plane
  };
  for (const Size& s :
       {Size{2, 24, 70, 0}, Size{3, 136, 9, 0}, Size{1, 64, 128, 0}, Size{2, 72, 130, 5}, Size{1, 40, 7, 3}}) {
    const std::int64_t size = s.images * s.channels * s.pixels, plane_pitch = s.pixels + s.gap,
                       image_pitch = s.channels * plane_pitch;
    std::mt19937 engine(1);
    std::normal_distribution<float> normal;
    for (const bool infinite : {false, true}) {
      auto* const from = allocate<float>(static_cast<std::size_t>(s.images * image_pitch));
      auto* const parts = allocate<std::uint16_t>(static_cast<std::size_t>(3 * size));
      auto* const outside = allocate<unsigned>(1);
      std::fill_n(from, s.images * image_pitch, std::numeric_limits<float>::quiet_NaN());
      const auto at = [&](std::int64_t image, std::int64_t channel, std::int64_t pixel) -> float& {
        return from[image * image_pitch + channel * plane_pitch + pixel];
      };
      const auto each = [&](const auto& element) {
        for (std::int64_t n = 0; n < s.images; ++n)
          for (std::int64_t c = 0; c < s.channels; ++c)
            for (std::int64_t pixel = 0; pixel < s.pixels; ++pixel) element(n, c, pixel);
      };
      each([&](auto n, auto c, auto pixel) { at(n, c, pixel) = normal(engine); });
      if (infinite) at(s.images - 1, s.channels - 1, s.pixels - 1) = std::numeric_limits<float>::infinity();
      *outside = 0;
      const std::int64_t tiles = (s.channels + 63) / 64 * ((s.pixels + 63) / 64);
      launch(*stream_, *kernels_[1], launch_shape(256, s.images * tiles), Buffer(from), Buffer(parts),
             static_cast<int>(s.channels), static_cast<int>(s.pixels), image_pitch, plane_pitch, size, Buffer(outside));
      stream_->synchronize();
      EXPECT_EQ(*outside != 0, infinite);
      each([&](auto n, auto c, auto pixel) {
        double sum = 0;
        for (std::int64_t part = 0; part < 3; ++part)
          sum += dtype::load(DataType::kBFloat16, parts, part * size + (n * s.pixels + pixel) * s.channels + c);
        const double v = static_cast<double>(at(n, c, pixel));
        if (std::isinf(v)) return;
        EXPECT_EQ(sum, v) << n << ' ' << c << ' ' << pixel;
      });
    }
  }
}

}  // namespace
}  // namespace polymio::convolution
