// PoolCpuWindow in planes of 2^32 elements, whose lines are little memory: element (h, w) of an image is element h + w
// of a buffer.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/handle.h"
#include "kernels/cpu/kernels_of.h"
#include "primitives/pooling/solvers.h"

namespace polymio::pooling {
namespace {

using kernels::Pooling;
using kernels::WindowDim;

constexpr std::int64_t kHeight = std::int64_t{1} << 17, kWidth = std::int64_t{1} << 15;
constexpr std::int64_t kLines[] = {0, kHeight / 2 - 1, kHeight / 2, kHeight - 1};  // of 2^31 and 2^32 positions

std::int64_t hashed(std::int64_t i) { return i * 7919 % 1009 - 504; }

/// Windows of 2 x 3 elements with stride 2, that do not overlap along the height.
template <class T>
struct LargePlane {
  LargePlane(std::int64_t channels, bool maximum, int index_bytes) : x(size(channels)), dy(x.size()) {
    job.type = std::is_same_v<T, float> ? DataType::kFloat : DataType::kDouble;
    job.maximum = maximum;
    job.index_bytes = index_bytes;
    job.image_index = true;
    job.channels = channels;
    job.across_channels = channels > 1;
    job.dims[1] = {kHeight, kHeight / 2, 2, 2, 0};
    job.dims[2] = {kWidth, kWidth / 2, 3, 2, 1};
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<T>(hashed(static_cast<std::int64_t>(i)));
      dy[i] = x[i] + 600;
    }
    job.x = x.data();
    job.x_at = overlapping();
    index.resize(static_cast<std::size_t>(channels * kWidth / 2 * index_bytes));
    job.index = index_bytes > 0 ? index.data() : nullptr;
    job.index_at = {0, 1, {0, 0, channels}};  // one line
    out.resize(static_cast<std::size_t>(channels * kWidth));
    job.out = out.data();
    job.out_at = job.index_at;
  }

  /// Line `h` of y, and its indices, or of dx.
  void run(bool backward, std::int64_t h) {
    job.in = backward ? dy.data() : x.data();
    job.in_at = overlapping();
    std::vector<char> scratch(pooling().scratch(job, backward));
    (backward ? pooling().backward : pooling().forward)(job, h, h + 1, scratch.data());
  }
  T value(const std::vector<T>& of, std::int64_t c, std::int64_t h, std::int64_t w) const {
    return of[static_cast<std::size_t>((h + w) * job.channels + c)];
  }
  /// The columns of a window.
  kernels::Range columns(std::int64_t w) const { return elements_of(job.dims[2], w); }
  /// The position of the first maximum of window (h, w).
  std::int64_t largest(std::int64_t c, std::int64_t h, std::int64_t w) const {
    std::int64_t best = 2 * h * kWidth + columns(w).first;
    for (const std::int64_t row : {2 * h, 2 * h + 1})
      for (std::int64_t k = columns(w).first; k < columns(w).end; ++k)
        if (value(x, c, row, k) > value(x, c, best / kWidth, best % kWidth)) best = row * kWidth + k;
    return best;
  }
  std::uint64_t index_of(std::int64_t c, std::int64_t w) const {
    std::uint64_t number = 0;
    std::memcpy(&number, index.data() + (w * job.channels + c) * job.index_bytes,
                static_cast<std::size_t>(job.index_bytes));
    return number;
  }
  /// Line h of dx by definition, with the maxima of x.
  std::vector<double> gradient(std::int64_t h) const {
    std::vector<double> dx(out.size());
    for (std::int64_t c = 0; c < job.channels; ++c)
      for (std::int64_t w = 0; w < kWidth / 2; ++w) {
        const std::int64_t found = largest(c, h / 2, w);
        for (std::int64_t k = columns(w).first; k < columns(w).end; ++k) {
          const double weight =
              job.maximum ? (found == h * kWidth + k ? 1 : 0) : 0.5 / static_cast<double>(columns(w).count());
          dx[static_cast<std::size_t>(k * job.channels + c)] += weight * static_cast<double>(value(dy, c, h / 2, w));
        }
      }
    return dx;
  }

  Pooling job;
  std::vector<T> x, dy, out;
  std::vector<unsigned char> index;

 private:
  static std::size_t size(std::int64_t channels) { return static_cast<std::size_t>((kHeight + kWidth) * channels); }
  kernels::WindowStrides overlapping() const { return {0, 1, {0, job.channels, job.channels}}; }
  const kernels::PoolingKernels& pooling() const {
    return kernels::kernels_of<kernels::PoolingKernels>(handle_.device().isa);
  }

  const Handle handle_{"cpu", nullptr};
};

template <class Body>
void with_planes(const Body& body) {
  for (const std::int64_t channels : {1, 9}) {
    SCOPED_TRACE(channels);
    body(float{}, channels);
    body(double{}, channels);
  }
}

TEST(PoolingLargePlane, MaximaAndTheirIndices) {
  with_planes([]<class T>(T, std::int64_t channels) {
    for (const int bytes : {4, 8}) {
      LargePlane<T> plane(channels, true, bytes);
      for (const std::int64_t h : kLines) {
        plane.run(false, h / 2);
        for (std::int64_t w = 0; w < kWidth / 2; ++w)
          for (std::int64_t c = 0; c < channels; ++c) {
            const std::int64_t at = plane.largest(c, h / 2, w);
            ASSERT_EQ(plane.index_of(c, w), static_cast<std::uint64_t>(at)) << "line " << h / 2 << " window " << w;
            ASSERT_EQ(plane.out[static_cast<std::size_t>(w * channels + c)],
                      plane.value(plane.x, c, at / kWidth, at % kWidth));
          }
      }
    }
  });
}

TEST(PoolingLargePlane, GradientsOfMaximaAndMeans) {
  with_planes([]<class T>(T, std::int64_t channels) {
    for (const auto& [maximum, bytes] : {std::pair(true, 4), {true, 8}, {true, 0}, {false, 0}}) {
      LargePlane<T> plane(channels, maximum, bytes);
      for (const std::int64_t h : kLines) {
        if (bytes > 0) plane.run(false, h / 2);
        plane.run(true, h);
        const std::vector<double> wanted = plane.gradient(h);
        for (std::size_t i = 0; i < wanted.size(); ++i)
          ASSERT_NEAR(plane.out[i], wanted[i], 1e-3) << "line " << h << " element " << i << " maximum " << maximum;
      }
    }
  });
}

/// Only how far apart elements of a window are is counted in 30 bits.
TEST(PoolingLargePlane, IsTakenUnlessAWindowIsAsLarge) {
  constexpr std::int64_t kTall = std::int64_t{1} << 23, kNarrow = 512;  // lines are short enough to transpose
  const Handle handle("cpu", nullptr);
  const auto takes = [&](Direction direction, Index index, std::int64_t window_height) {
    const std::int64_t in[] = {1, 16, kTall, kNarrow},
                       out[] = {1, 16, (kTall - window_height) / 2 + 1, (kNarrow - 3) / 2 + 1};
    Problem p;
    p.direction = direction;
    p.index = index;
    p.position = Position::kImage;
    p.window = {2, {window_height, 3, 1}, {0, 0, 0}, {2, 2, 1}};
    p.x = make_tensor(DataType::kFloat, in, {});
    p.y = make_tensor(DataType::kFloat, out, {});
    if (!p.forward()) {
      p.dx = p.x;
      p.dy = p.y;
    }
    validate(p);
    for (const SolverBase* solver : solvers(direction))
      if (std::string_view(solver->info().name).starts_with("PoolCpuWindow")) {
        EXPECT_FALSE(solver->is_valid(handle.device(), p, {64, 0, 1})) << "transposes planes of 2^32 elements";
        return static_cast<bool>(solver->is_applicable(handle.device(), p));
      }
    return false;
  };
  for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
    for (const Index index : {Index::kNone, Index::kUint32, Index::kUint64}) EXPECT_TRUE(takes(direction, index, 2));
    EXPECT_TRUE(takes(direction, Index::kNone, kTall / 4 + 1));
    EXPECT_FALSE(takes(direction, Index::kUint32, kTall / 4 + 1));
  }
}

}  // namespace
}  // namespace polymio::pooling
