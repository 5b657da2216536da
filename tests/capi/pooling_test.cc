// The pooling API: descriptors, sizes, indices, gradients with and without indices, numbers that are not finite, and
// errors with their texts. On any device.
// SPDX-License-Identifier: MIT
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "on_device.h"

namespace polymio::test {
namespace {

using PoolingDescriptor =
    Owned<miopenPoolingDescriptor_t, miopenCreatePoolingDescriptor, miopenDestroyPoolingDescriptor>;
using Floats = std::vector<float>;

template <class Enum>
Enum number(int value) {
  Enum result;
  std::memcpy(&result, &value, sizeof result);
  return result;
}

struct PoolingApi : testing::Test {
  miopenStatus_t forward(const Tensor& x_desc, const void* x, const Tensor& y_desc, void* y, void* workspace = nullptr,
                         std::size_t bytes = 0) {
    return miopenPoolingForward(handle, pool, &kOne, x_desc, x, &kZero, y_desc, y, workspace != nullptr, workspace,
                                bytes);
  }
  miopenStatus_t backward(const Tensor& y_desc, const void* dy, const Tensor& x_desc, const void* x, void* dx,
                          void* workspace = nullptr) {
    return miopenPoolingBackward(handle, pool, &kOne, y_desc, nullptr, y_desc, dy, x_desc, x, &kZero, x_desc, dx,
                                 workspace);
  }
  void set(miopenPoolingMode_t mode, int height, int width, int pad_h, int pad_w, int stride_h, int stride_w) {
    expect_ok(miopenSet2dPoolingDescriptor(pool, mode, height, width, pad_h, pad_w, stride_h, stride_w));
  }

  DeviceHandle handle;
  PoolingDescriptor pool;
};

TEST_F(PoolingApi, DescriptorKeepsItsValues) {
  miopenIndexType_t type;
  miopenPoolingWorkspaceIndexMode_t position;
  const auto expect_defaults = [&](miopenPoolingWorkspaceIndexMode_t wanted) {
    expect_ok(miopenGetPoolingIndexType(pool, &type));
    expect_ok(miopenGetPoolingWorkSpaceIndexMode(pool, &position));
    EXPECT_EQ(type, miopenIndexUint8);
    EXPECT_EQ(position, wanted);
    expect_ok(miopenSetPoolingIndexType(pool, miopenIndexUint64));
    expect_ok(miopenSetPoolingWorkSpaceIndexMode(pool, miopenPoolingWorkspaceIndexImage));
    expect_ok(miopenGetPoolingIndexType(pool, &type));
    expect_ok(miopenGetPoolingWorkSpaceIndexMode(pool, &position));
    EXPECT_EQ(type, miopenIndexUint64);
    EXPECT_EQ(position, miopenPoolingWorkspaceIndexImage);
  };
  expect_defaults(miopenPoolingWorkspaceIndexMask);
  set(miopenPoolingAverage, 2, 3, 4, 5, 6, 7);
  expect_defaults(miopenPoolingWorkspaceIndexMask);
  miopenPoolingMode_t mode;
  int v[6];
  expect_ok(miopenGet2dPoolingDescriptor(pool, &mode, v, v + 1, v + 2, v + 3, v + 4, v + 5));
  EXPECT_EQ(mode, miopenPoolingAverage);
  EXPECT_EQ(Ints(v, v + 6), Ints({2, 3, 4, 5, 6, 7}));
  const int window[] = {1, 2, 3}, pad[] = {4, 5, 6}, stride[] = {7, 8, 9};
  expect_ok(miopenSetNdPoolingDescriptor(pool, miopenPoolingAverageInclusive, 3, window, pad, stride));
  expect_defaults(miopenPoolingWorkspaceIndexImage);
  int rank = 0, got[9] = {};
  expect_ok(miopenGetNdPoolingDescriptor(pool, 3, &mode, &rank, got, got + 3, got + 6));
  EXPECT_EQ(mode, miopenPoolingAverageInclusive);
  EXPECT_EQ(rank, 3);
  EXPECT_EQ(Ints(got, got + 9), Ints({1, 2, 3, 4, 5, 6, 7, 8, 9}));
  // As many values as requested, and null outputs.
  int part[] = {-1, -1, -1};
  expect_ok(miopenGetNdPoolingDescriptor(pool, 2, nullptr, nullptr, part, nullptr, nullptr));
  EXPECT_EQ(Ints(part, part + 3), Ints({1, 2, -1}));
  expect_bad(miopenGet2dPoolingDescriptor(pool, &mode, v, v, v, v, v, v), {"3 spatial dimensions"});
}

TEST_F(PoolingApi, OutputSizes) {
  const Tensor x(miopenFloat, {2, 3, 10, 11}), volume(miopenFloat, {2, 3, 4, 10, 11}), line(miopenFloat, {2, 3, 9});
  int n = 0, c = 0, h = 0, w = 0, sizes[5] = {};
  set(miopenPoolingMax, 3, 20, 1, 2, 2, 3);  // the width has no whole window
  expect_ok(miopenGetPoolingForwardOutputDim(pool, x, &n, &c, &h, &w));
  EXPECT_EQ(Ints({n, c, h, w}), Ints({2, 3, 5, 1}));
  expect_ok(miopenGetPoolingNdForwardOutputDim(pool, x, 4, sizes));
  EXPECT_EQ(Ints(sizes, sizes + 4), Ints({2, 3, 5, 1}));
  expect_bad(miopenGetPoolingForwardOutputDim(pool, volume, &n, &c, &h, &w), {"rank 5"});
  expect_bad(miopenGetPoolingNdForwardOutputDim(pool, x, 5, sizes), {"dims is 5", "rank 4"});
  const int window[] = {2, 2, 2}, pad[] = {0, 0, 0}, stride[] = {2, 3, 1};
  expect_ok(miopenSetNdPoolingDescriptor(pool, miopenPoolingMax, 3, window, pad, stride));
  expect_ok(miopenGetPoolingNdForwardOutputDim(pool, volume, 5, sizes));
  EXPECT_EQ(Ints(sizes, sizes + 5), Ints({2, 3, 2, 3, 10}));
  expect_bad(miopenGetPoolingNdForwardOutputDim(pool, line, 3, sizes), {"rank 3", "3 spatial"});
  expect_ok(miopenSetNdPoolingDescriptor(pool, miopenPoolingMax, 1, window, pad, stride));
  expect_ok(miopenGetPoolingNdForwardOutputDim(pool, line, 3, sizes));
  EXPECT_EQ(Ints(sizes, sizes + 3), Ints({2, 3, 4}));
}

TEST_F(PoolingApi, WorkspaceSizes) {
  const Tensor y(miopenHalf, {2, 3, 4, 5}), strided(miopenFloat, {2, 3, 4, 5}, {1000, 100, 10, 2});
  std::size_t bytes = 0;
  expect_ok(miopenPoolingGetWorkSpaceSize(y, &bytes));
  EXPECT_EQ(bytes, 120u);
  for (int type = 0; type < 4; ++type) {
    set(miopenPoolingMax, 2, 2, 0, 0, 1, 1);
    expect_ok(miopenSetPoolingIndexType(pool, static_cast<miopenIndexType_t>(type)));
    for (const Tensor* t : {&y, &strided}) {
      expect_ok(miopenPoolingGetWorkSpaceSizeV2(pool, *t, &bytes));
      EXPECT_EQ(bytes, std::size_t{120} << type);
    }
  }
  set(miopenPoolingAverage, 2, 2, 0, 0, 1, 1);
  expect_ok(miopenPoolingGetWorkSpaceSizeV2(pool, y, &bytes));
  EXPECT_EQ(bytes, 0u);
}

/// An index refers to an element with the value of the result, the first of them, in both modes, for every index type
/// and layout; and the gradient is the same with indices, and without.
TEST_F(PoolingApi, IndicesReferToTheFirstMaximum) {
  constexpr int kC = 3, kH = 7, kW = 9, kOutH = 4, kOutW = 5;
  for (const bool last : {false, true})
    for (int type = 0; type < 4; ++type)
      for (const bool image : {false, true}) {
        if (!sampled()) continue;
        SCOPED_TRACE(testing::Message() << "channels last " << last << " type " << type << " image " << image);
        const Tensor x_desc(miopenFloat, {2, kC, kH, kW}, last ? Ints{kC * kH * kW, 1, kW * kC, kC} : Ints{});
        const Tensor y_desc(miopenFloat, {2, kC, kOutH, kOutW},
                            last ? Ints{kC * kOutH * kOutW, 1, kOutW * kC, kC} : Ints{});
        set(miopenPoolingMax, 3, 3, 1, 1, 2, 2);
        expect_ok(miopenSetPoolingIndexType(pool, static_cast<miopenIndexType_t>(type)));
        expect_ok(miopenSetPoolingWorkSpaceIndexMode(
            pool, image ? miopenPoolingWorkspaceIndexImage : miopenPoolingWorkspaceIndexMask));
        Floats x(2 * kC * kH * kW), y(2 * kC * kOutH * kOutW), dy(y.size()), dx(x.size()), found(x.size());
        std::mt19937 random(1);
        for (float& v : x) v = static_cast<float>(random() % 5);  // several maxima per window
        for (float& v : dy) v = static_cast<float>(random() % 9) - 4;
        std::size_t bytes = 0;
        expect_ok(miopenPoolingGetWorkSpaceSizeV2(pool, y_desc, &bytes));
        std::vector<unsigned char> workspace(bytes);
        {
          const There indices(handle, workspace);
          expect_ok(forward(x_desc, There(handle, x), y_desc, There(handle, y), indices, bytes));
          expect_ok(backward(y_desc, There(handle, dy), x_desc, nullptr, There(handle, dx), indices));
        }
        expect_ok(backward(y_desc, There(handle, dy), x_desc, There(handle, x), There(handle, found)));
        EXPECT_EQ(dx, found);
        const auto at = [&](int plane, int h, int w, int height, int width) {
          return static_cast<std::size_t>(last ? ((plane / kC * height + h) * width + w) * kC + plane % kC
                                               : (plane * height + h) * width + w);
        };
        Floats wanted(x.size());
        for (int plane = 0; plane < 2 * kC; ++plane)
          for (int oh = 0; oh < kOutH; ++oh)
            for (int ow = 0; ow < kOutW; ++ow) {
              const std::size_t out = at(plane, oh, ow, kOutH, kOutW);
              std::uint64_t index = 0;
              std::memcpy(&index, &workspace[out << type], std::size_t{1} << type);
              const int row = static_cast<int>(index) / (image ? kW : 3),
                        column = static_cast<int>(index) % (image ? kW : 3);
              const int h = image ? row : oh * 2 - 1 + row, w = image ? column : ow * 2 - 1 + column;
              ASSERT_TRUE(h >= 0 && h < kH && w >= 0 && w < kW) << index;
              EXPECT_EQ(x[at(plane, h, w, kH, kW)], y[out]);
              for (int i = std::max(0, oh * 2 - 1); i < std::min(kH, oh * 2 + 2); ++i)
                for (int j = std::max(0, ow * 2 - 1); j < std::min(kW, ow * 2 + 2); ++j) {
                  const float other = x[at(plane, i, j, kH, kW)];
                  EXPECT_TRUE(other < y[out] || (other == y[out] && (i > h || (i == h && j >= w))));
                }
              wanted[at(plane, h, w, kH, kW)] += dy[out];
            }
        EXPECT_EQ(dx, wanted);
      }
}

TEST_F(PoolingApi, NanInfinityAndWindowsInThePadding) {
  const Tensor x_desc(miopenFloat, {1, 1, 1, 8}), y_desc(miopenFloat, {1, 1, 1, 6});
  Floats x{kNan, 3, kNan, kNan, -kInf, -kInf, kInf, 1}, y(6), dy{1, 2, 3, 4, 5, 6}, dx(8), found(8);
  set(miopenPoolingMax, 1, 2, 0, 2, 1, 2);  // the first and the last window are in the padding
  std::vector<unsigned char> workspace(6, 0xff);
  {
    const There indices(handle, workspace);
    expect_ok(forward(x_desc, There(handle, x), y_desc, There(handle, y), indices, 6));
    expect_ok(backward(y_desc, There(handle, dy), x_desc, There(handle, x), There(handle, dx), indices));
  }
  EXPECT_EQ(y, Floats({-FLT_MAX, 3, -kInf, -kInf, kInf, -FLT_MAX}));
  EXPECT_EQ(workspace, std::vector<unsigned char>({0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(dx, Floats({0, 2, 3, 0, 4, 0, 5, 0}));
  expect_ok(backward(y_desc, There(handle, dy), x_desc, There(handle, x), There(handle, found)));
  EXPECT_EQ(found, dx);
  set(miopenPoolingAverage, 1, 2, 0, 2, 1, 2);
  expect_ok(forward(x_desc, There(handle, x), y_desc, There(handle, y)));
  EXPECT_EQ(y[0], 0);
  EXPECT_TRUE(std::isnan(y[1]) && std::isnan(y[2]));
  EXPECT_EQ(Floats(y.begin() + 3, y.end()), Floats({-kInf, kInf, 0}));
}

TEST_F(PoolingApi, OneWindowOfNanAloneHasItsFirstElement) {
  const Tensor x_desc(miopenFloat, {1, 1, 2, 4}), y_desc(miopenFloat, {1, 1, 1, 1});
  Floats x(8, kNan), y(1), dy{7}, dx(8), found(8);
  std::vector<std::uint32_t> workspace{77};
  set(miopenPoolingMax, 2, 4, 0, 0, 2, 4);
  expect_ok(miopenSetPoolingIndexType(pool, miopenIndexUint32));
  {
    const There indices(handle, workspace);
    expect_ok(forward(x_desc, There(handle, x), y_desc, There(handle, y), indices, 4));
    expect_ok(backward(y_desc, There(handle, dy), x_desc, There(handle, x), There(handle, dx), indices));
  }
  EXPECT_EQ(workspace[0], 0u);
  EXPECT_EQ(dx, Floats({7, 0, 0, 0, 0, 0, 0, 0}));
  expect_ok(backward(y_desc, There(handle, dy), x_desc, There(handle, x), There(handle, found)));
  EXPECT_EQ(found, dx);
}

TEST_F(PoolingApi, AveragesCountPaddingOnlyIfInclusive) {
  const Tensor x_desc(miopenFloat, {1, 1, 2, 2}), y_desc(miopenFloat, {1, 1, 2, 2});
  const Floats x{1, 2, 3, 4};
  Floats y(4), dx(4);
  set(miopenPoolingAverage, 3, 3, 1, 1, 2, 2);
  expect_ok(forward(x_desc, There(handle, x), y_desc, There(handle, y)));
  EXPECT_EQ(y, Floats({2.5f, 3, 3.5f, 4}));
  const Floats dy{4, 2, 2, 1};
  expect_ok(backward(y_desc, There(handle, dy), x_desc, nullptr, There(handle, dx)));
  EXPECT_EQ(dx, Floats({1, 2, 2, 4}));
  set(miopenPoolingAverageInclusive, 2, 2, 1, 1, 2, 2);
  expect_ok(forward(x_desc, There(handle, x), y_desc, There(handle, y)));
  EXPECT_EQ(y, Floats({0.25f, 0.5f, 0.75f, 1}));
}

TEST_F(PoolingApi, ScalingFactorsAreTaken) {
  const Tensor x_desc(miopenDouble, {1, 1, 1, 4}), y_desc(miopenDouble, {1, 1, 1, 2});
  const std::vector<double> x{1, 2, 3, 5};
  std::vector<double> y{10, 20}, dx{1, 1, 1, 1};
  const double alpha = 0.5, beta = -2;
  set(miopenPoolingMax, 1, 2, 0, 0, 1, 2);
  expect_ok(miopenPoolingForward(handle, pool, &alpha, x_desc, There(handle, x), &beta, y_desc, There(handle, y), false,
                                 nullptr, 0));
  EXPECT_EQ(y, std::vector<double>({-19, -37.5}));
  expect_ok(miopenPoolingBackward(handle, pool, &alpha, y_desc, nullptr, y_desc, There(handle, y), x_desc,
                                  There(handle, x), &beta, x_desc, There(handle, dx), nullptr));
  EXPECT_EQ(dx, std::vector<double>({-2, -11.5, -2, -20.75}));
}

TEST_F(PoolingApi, ErrorsSayWhatIsWrong) {
  const Tensor x(miopenFloat, {2, 3, 16, 17}), y(miopenFloat, {2, 3, 16, 17}), half(miopenHalf, {2, 3, 16, 17});
  const Tensor other(miopenFloat, {2, 4, 16, 17}), flat(miopenFloat, {6, 272}), volume(miopenFloat, {2, 3, 4, 4, 17});
  const Tensor integers(miopenInt8, {2, 3, 16, 17}), more(miopenInt32, {2, 3, 16, 17});
  const Tensor overlapping(miopenFloat, {2, 3, 16, 17}, {816, 272, 16, 1});
  Floats a(1632, 7), b(1632, 7);
  std::vector<unsigned char> workspace(1632 * 8);
  const auto call = [&](const Tensor& x_desc, const void* x_data, const Tensor& y_desc, void* y_data) {
    return forward(x_desc, x_data, y_desc, y_data);
  };
  set(miopenPoolingMax, 3, 3, 1, 1, 1, 1);
  expect_bad(call(x, nullptr, y, b.data()), {"the buffer of x", "null"});
  expect_bad(call(x, a.data(), y, nullptr), {"the buffer of y", "null"});
  expect_bad(call(x, a.data(), half, b.data()), {"fp32", "fp16"});
  expect_bad(call(more, a.data(), more, b.data()), {"int32"});
  expect_bad(call(x, a.data(), other, b.data()), {"2x4x16x17", "N and C"});
  expect_bad(call(volume, a.data(), volume, b.data()), {"rank 5", "2 spatial"});
  expect_bad(call(x, a.data(), overlapping, b.data()), {"y overlaps itself"});
  expect_error(call(flat, a.data(), flat, b.data()), miopenStatusUnknownError, {"rank 2", "3 to 5"});
  expect_bad(call(x, a.data(), y, a.data()), {"y overlaps x"});
  expect_bad(call(x, a.data(), y, a.data() + 5), {"y overlaps x"});
  expect_bad(miopenPoolingForward(handle, pool, nullptr, x, a.data(), &kZero, y, b.data(), false, nullptr, 0),
             {"alpha is null"});
  expect_bad(miopenPoolingForward(handle, nullptr, &kOne, x, a.data(), &kZero, y, b.data(), false, nullptr, 0),
             {"pooling descriptor is null"});
  // Indices
  expect_error(miopenPoolingForward(handle, pool, &kOne, x, a.data(), &kZero, y, b.data(), true, nullptr, 0),
               miopenStatusUnknownError, {"workspace is null", "1632 bytes"});
  expect_bad(forward(x, a.data(), y, b.data(), workspace.data(), 1631), {"1631 bytes", "1632"});
  expect_bad(forward(x, a.data(), y, b.data(), a.data(), 1632), {"the workspace overlaps x"});
  expect_ok(miopenSetPoolingWorkSpaceIndexMode(pool, miopenPoolingWorkspaceIndexImage));
  expect_error(forward(x, a.data(), y, b.data(), workspace.data(), 1632), miopenStatusUnknownError,
               {"index range not enough", "272 positions in the image", "8 bits"});
  expect_ok(miopenSetPoolingWorkSpaceIndexMode(pool, number<miopenPoolingWorkspaceIndexMode_t>(2)));
  expect_bad(forward(x, a.data(), y, b.data(), workspace.data(), 1632), {"workspace index mode 2"});
  expect_ok(miopenSetPoolingIndexType(pool, number<miopenIndexType_t>(4)));
  expect_bad(forward(x, a.data(), y, b.data(), workspace.data(), 1632), {"index type 4"});
  std::size_t bytes = 0;
  expect_bad(miopenPoolingGetWorkSpaceSizeV2(pool, y, &bytes), {"index type 4"});
  // Backward
  expect_bad(backward(y, b.data(), x, nullptr, a.data()), {"the buffer of x", "null"});
  expect_bad(backward(y, b.data(), x, a.data(), a.data()), {"dx overlaps x"});
  expect_bad(backward(y, b.data(), x, a.data(), b.data()), {"dx overlaps dy"});
  expect_bad(backward(integers, b.data(), integers, a.data(), workspace.data()), {"int8"});
  // Descriptors
  set(number<miopenPoolingMode_t>(3), 3, 3, 1, 1, 1, 1);
  expect_bad(call(x, a.data(), y, b.data()), {"pooling mode 3"});
  for (const Ints& v : {Ints{0, 3, 1, 1, 1, 1}, {3, 3, -1, 1, 1, 1}, {3, 3, 1, 1, 1, 0}}) {
    set(miopenPoolingMax, v[0], v[1], v[2], v[3], v[4], v[5]);
    expect_bad(call(x, a.data(), y, b.data()), {"pooling descriptor", "at least 1"});
    int sizes[4];
    expect_bad(miopenGetPoolingNdForwardOutputDim(pool, x, 4, sizes), {"at least 1"});
  }
  const int ones[] = {1, 1, 1, 1};
  expect_bad(miopenSetNdPoolingDescriptor(pool, miopenPoolingMax, 4, ones, ones, ones), {"nbDims is 4"});
  expect_bad(miopenSetNdPoolingDescriptor(pool, miopenPoolingMax, 2, nullptr, ones, ones), {"windowDimA is null"});
  EXPECT_EQ(a, Floats(1632, 7));
  EXPECT_EQ(b, Floats(1632, 7));
}

/// Elements and indices at addresses that are no multiples of their size.
TEST_F(PoolingApi, AnyAddress) {
  if (!on_cpu()) GTEST_SKIP() << "addresses of GPUs are aligned";
  const Tensor x_desc(miopenFloat, {1, 1, 1, 6}), y_desc(miopenFloat, {1, 1, 1, 3});
  set(miopenPoolingMax, 1, 2, 0, 0, 1, 2);
  expect_ok(miopenSetPoolingIndexType(pool, miopenIndexUint32));
  const Floats x{1, 2, 4, 3, 5, 6}, dy{1, 2, 3};
  std::vector<unsigned char> in(25), out(13), gradient(13), dx(25), workspace(13);
  std::memcpy(&in[1], x.data(), 24);
  std::memcpy(&gradient[1], dy.data(), 12);
  expect_ok(forward(x_desc, &in[1], y_desc, &out[1], &workspace[1], 12));
  expect_ok(backward(y_desc, &gradient[1], x_desc, nullptr, &dx[1], &workspace[1]));
  Floats y(3), got(6);
  std::memcpy(y.data(), &out[1], 12);
  std::memcpy(got.data(), &dx[1], 24);
  EXPECT_EQ(y, Floats({2, 4, 6}));
  EXPECT_EQ(got, Floats({0, 1, 2, 0, 0, 3}));
}

}  // namespace
}  // namespace polymio::test
