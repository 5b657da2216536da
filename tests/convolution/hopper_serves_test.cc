// What ConvHopper accepts: the limits of its maps and of its fused operations.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <string>

#include "convolution/sample_problem.h"
#include "primitives/activation/activation.h"
#include "primitives/convolution/cuda/hopper_plan.h"

namespace polymio::convolution {
namespace {

struct Variant {
  DataType type = DataType::kHalf;
  std::vector<std::int64_t> x_strides = {};
  Epilogue epilogue = {};
};

Verdict served(Direction d, Shape s, const Variant& o = {}) {
  s.channels_last = true;
  s.type = o.type;
  Problem p = problem(d, s);
  if (!o.x_strides.empty()) p.x = make_tensor(s.type, s.x, o.x_strides);
  p.epilogue = o.epilogue;
  return cuda::hopper_serves(p);
}

TEST(HopperServes, WhatMapsCanDescribe) {
  const Shape usual{.x = {2, 64, 9, 10}, .w = {72, 64, 3, 3}};
  const auto expect = [](const Verdict& v, const std::string& reason, std::int64_t have = 0, std::int64_t need = 0) {
    EXPECT_EQ(v.reason ? v.reason : "", reason);
    EXPECT_EQ(v.have, have) << reason;
    EXPECT_EQ(v.need, need) << reason;
  };
  const auto with = [&](auto change) {
    Shape s = usual;
    change(s);
    return s;
  };
  for (const Direction d : kDirections) {
    expect(served(d, usual), "");
    expect(served(d, usual, {.type = DataType::kDouble}), "neither int8 nor a float of 16 or 32 bits or of the OCP");
    expect(served(d, usual, {.type = DataType::kFloat}), "");
    expect(served(d, with([](Shape& s) { s.w[0] = 70; }), {.type = DataType::kFloat}),
           "channels that are no multiple of 16 bytes");
    const auto grouped = [&](std::int64_t outputs, std::int64_t stride) {
      return served(d, with([&](Shape& s) {
                      s.w = {outputs, 32, 3, 3};
                      s.groups = 2;
                      s.stride = {stride, 1};
                    }));
    };
    expect(grouped(72, 1), "channels that are no multiple of 16 bytes");
    expect(grouped(64, 1), "");
    expect(grouped(64, 2), d == Direction::kBackwardData
                               ? "groups that are no multiple of 64 channels, which need tiles with halo"
                               : "");
    expect(served(d, with([](Shape& s) { s.w[0] = 70; })), "channels that are no multiple of 16 bytes");
    expect(served(d, with([](Shape& s) { s.x[1] = s.w[1] = 60; })), "channels that are no multiple of 16 bytes");
    if (d == Direction::kBackwardData) continue;  // writes planes
    expect(served(d, usual, {.x_strides = {5760, 90, 10, 1}}), "channels are not innermost");
    expect(served(d, usual, {.x_strides = {6120, 1, 680, 68}}), "rows that are not aligned to 16 bytes");
  }
  for (const Direction d : kDirections) {
    // What maps hold of corners (8 and 5 bits with a sign) and offsets (8 and 5 bits).
    expect(served(d, {.x = {1, 8, 300, 4}, .w = {8, 8, 258, 1}}), "reach of the padded filter", 257, 128);
    expect(served(d, {.x = {1, 8, 40, 4}, .w = {8, 8, 257, 1}, .pad = {128, 0}}), "reach of the filter", 256, 255);
    expect(served(d, {.x = {1, 8, 8, 4, 4}, .w = {8, 8, 33, 1, 1}, .pad = {16, 0, 0}}), "reach of the filter", 32, 31);
  }
  expect(served(Direction::kForward, {.x = {1, 8, 40, 4}, .w = {8, 8, 1, 1}, .stride = {9, 1}}), "stride", 9, 8);
  expect(served(Direction::kBackwardData, {.x = {1, 8, 40, 4}, .w = {8, 8, 1, 1}, .stride = {4, 3}}),
         "phases of the strides", 12, 9);
  expect(served(Direction::kForward, {.x = {1, 8, 4, 4}, .w = {8, 8, 3, 3}, .pad = {129, 0}}),
         "reach of the padded filter", 129, 128);
  const int power = static_cast<int>(activation::Mode::kPower);
  expect(served(Direction::kForward, usual, {.epilogue = {.activation = power}}), "does not fuse this activation");
  expect(served(Direction::kForward, usual, {.epilogue = {.norm = true}}),
         "takes a batch norm beside a scale and a bias only");
}

}  // namespace
}  // namespace polymio::convolution
