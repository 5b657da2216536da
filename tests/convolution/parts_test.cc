// How the im2col matrix is cut into parts that fit the workspace: arithmetic of the host only.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "primitives/convolution/gpu/columns.h"
#include "primitives/convolution/gpu/gemm.h"
#include "sample_problem.h"

namespace polymio::convolution {
namespace {

using gpu::kMiB;
using gpu::Part;
using gpu::Slices;

constexpr Direction kForward = Direction::kForward, kBackward = Direction::kBackwardData,
                    kWeights = Direction::kBackwardWeights;

Problem layer(Direction d, std::int64_t images, std::int64_t channels, const Sizes& size, bool last = false,
              std::int64_t groups = 1) {
  Shape s{.x = {images, channels}, .w = {2 * groups, channels / groups}, .type = DataType::kHalf};
  s.groups = groups;
  s.channels_last = last;
  for (const std::int64_t side : size) {
    s.x.push_back(side);
    s.w.push_back(3);
    s.pad.push_back(1);
  }
  return problem(d, s);
}

std::optional<Slices> cut(const Problem& p, std::int64_t mib) {
  return gpu::slices_of(p, false, mib * kMiB, mib * kMiB);
}

/// Every (image, pixel, channel) is in exactly one part, none is larger than a full one, and the matrix fits.
void check_parts(const Problem& p, const Slices& slices, std::int64_t bytes) {
  SCOPED_TRACE(p.key());
  EXPECT_LE(gpu::Columns(p, slices).bytes(), static_cast<std::size_t>(bytes));
  const std::int64_t pixels = gpu::pixels_of(p), channels = p.c() / p.groups();
  Part expected{};  // where the next part begins
  const std::int64_t count = gpu::parts(p, slices);
  for (std::int64_t i = 0; i < count; ++i) {
    const Part now = gpu::part(p, slices, i);
    ASSERT_EQ(now.image, expected.image);
    ASSERT_EQ(now.pixel, expected.pixel);
    ASSERT_EQ(now.channel, expected.channel);
    ASSERT_TRUE(now.size.images >= 1 && now.size.images <= slices.images);
    ASSERT_TRUE(now.size.pixels >= 1 && now.size.pixels <= slices.pixels);
    ASSERT_TRUE(now.size.channels >= 1 && now.size.channels <= slices.channels);
    ASSERT_TRUE(now.size.pixels == pixels || now.pixel % 64 == 0);
    expected.channel += now.size.channels;
    if (expected.channel < channels) continue;
    expected.channel = 0;
    expected.pixel += now.size.pixels;
    if (expected.pixel < pixels) continue;
    expected.pixel = 0;
    expected.image += now.size.images;
  }
  EXPECT_EQ(expected.image, p.n());
}

TEST(MatrixParts, CoverTheBatchOnce) {
  for (const Direction d : kDirections)
    for (const bool last : {false, true})
      for (const std::int64_t mib : {1, 3, 8, 64, 384})
        for (const auto& [images, channels, size] : std::vector<std::tuple<std::int64_t, std::int64_t, Sizes>>{
                 {7, 20, {30, 31}}, {1, 96, {6, 62, 57}}, {3, 64, {8, 40, 41}}, {2, 5, {100003}}, {1, 1, {1, 1, 1}}}) {
          const Problem p = layer(d, images, channels, size, last);
          const auto slices = cut(p, mib);
          ASSERT_TRUE(slices || d == kBackward) << p.key();
          if (slices) check_parts(p, *slices, mib * kMiB);
        }
}

TEST(MatrixParts, AreOfImagesWhereAnImageFits) {
  const Problem p = layer(kForward, 10, 64, {28, 28});  // 0.86 MiB per image
  EXPECT_EQ(*cut(p, 384), (Slices{10, 784, 64}));
  EXPECT_EQ(*cut(p, 4), (Slices{4, 784, 64}));  // parts of 4, 4 and 2
  EXPECT_EQ(*gpu::slices_of(p, false, kMiB / 2, 384 * kMiB), (Slices{1, 784, 64}));
  EXPECT_EQ(*gpu::slices_of(p, true, kMiB / 2, kMiB / 2), (Slices{10, 784, 64}));  // in place
}

TEST(MatrixParts, AreOfPixelsWhereNoImageFits) {
  // Wan's encoder, 96 channels of 6x450x562: 7.9 GB for an image.
  for (const Direction d : {kForward, kWeights}) {
    const Problem p = layer(d, 1, 96, {6, 450, 562});
    const auto slices = cut(p, 384);
    ASSERT_TRUE(slices);
    EXPECT_EQ(slices->images, 1);
    EXPECT_EQ(slices->channels, 96);
    EXPECT_EQ(slices->pixels % 64, 0);
    EXPECT_GT(slices->pixels * 96 * 27 * 2, 300 * kMiB);
  }
  EXPECT_FALSE(cut(layer(kForward, 1, 1 << 20, {5, 5, 5}), 1));  // 64 pixels have 3.4 GB
}

TEST(MatrixParts, AreOfChannelsBackward) {
  const Problem p = layer(kBackward, 2, 96, {4, 448, 560});  // 108 MB per channel in fp32
  const auto slices = cut(p, 384);
  ASSERT_TRUE(slices);
  EXPECT_EQ(*slices, (Slices{1, 4 * 448 * 560, 3}));
  EXPECT_EQ(gpu::parts(p, *slices), 2 * 32);
  EXPECT_FALSE(cut(p, 64));                                                 // no channel fits
  EXPECT_FALSE(cut(layer(kBackward, 2, 96, {4, 448, 560}, true, 2), 384));  // groups are not cut
}

TEST(MatrixParts, PredictedTimesHaveTheTrafficOfAllParts) {
  DeviceInfo d = usual_device("cuda-sm90");
  const Problem p = layer(kForward, 1, 96, {6, 450, 562});
  const auto slices = cut(p, 384);
  const double parts = static_cast<double>(gpu::parts(p, *slices));
  const double matrix = 96.0 * 27 * 6 * 450 * 562 * 2;  // written once
  EXPECT_GT(parts * gpu::Columns(p, *slices).predict(d), matrix / (1e3 * d.bandwidth_gbs));
}

}  // namespace
}  // namespace polymio::convolution
