// The gradient of indexing through the C API: errors of indices, repeatability, wrong arguments. On any device.
// SPDX-License-Identifier: MIT
#include <cmath>
#include <cstdint>
#include <memory>

#include "on_device.h"

namespace polymio::test {
namespace {

/// dx[:, i, j] += dy for dx of 2x3x4, with indices of 5 elements.
struct Call {
  DeviceHandle handle;
  Tensor dx_desc{miopenFloat, {2, 3, 4}}, dy_desc{miopenFloat, {2, 5}}, index_desc{miopenInt32, {5}},
      error_desc{miopenInt32, {2}};
  std::vector<float> dx = std::vector<float>(24, 0.5f), dy{1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
  std::vector<std::int32_t> i{0, 2, -1, 0, 1}, j{3, 0, 0, -1, 1}, error{7, 7}, dims{1, 2}, slices;
  miopenTensorDescriptor_t dy_given = dy_desc, dx_given = dx_desc, error_given = error_desc;
  miopenTensorDescriptor_t indices_given[2] = {index_desc, index_desc};
  std::uint32_t count = 2, offset = 0;
  std::size_t bytes = workspace_size();
  bool has_dims = true, has_slices = true, has_dx = true, has_error = true, has_index = true;

  std::size_t workspace_size() {
    std::size_t size = 0;
    expect_ok(miopenGetGetitemWorkspaceSize(handle, count, indices_given, &size));
    return size;
  }
  miopenStatus_t run() {
    std::vector<unsigned char> memory(bytes + 1);
    const There to(handle, dx), from(handle, dy), first(handle, i), second(handle, j), failed(handle, error),
        workspace(handle, memory);
    const void* const indices[] = {has_index ? static_cast<void*>(first) : nullptr, second};
    return miopenGetitemBackward(
        handle, workspace, bytes, dy_given, from, count, indices_given, indices, dx_given,
        has_dx ? static_cast<void*>(to) : nullptr, error_given, has_error ? static_cast<void*>(failed) : nullptr,
        static_cast<std::uint32_t>(dims.size()), has_dims ? dims.data() : nullptr,
        static_cast<std::uint32_t>(slices.size() / 4), has_slices ? slices.data() : nullptr, offset);
  }
};

TEST(GetitemApi, AddsWhatMeetsInOnePlace) {
  Call call;
  expect_ok(call.run());
  std::vector<float> want(24, 0.5f);
  for (std::size_t n : {0, 1}) {
    const float* const dy = call.dy.data() + 5 * n;
    want[12 * n + 3] += dy[0] + dy[3];
    want[12 * n + 8] += dy[1] + dy[2];
    want[12 * n + 5] += dy[4];
  }
  EXPECT_EQ(call.dx, want);
  EXPECT_EQ(call.error, (std::vector<std::int32_t>{7, 7}));
}

TEST(GetitemApi, IndicesOutsideAreReportedAndSkipped) {
  Call call;
  call.j = {3, 4, 0, -5, 1};
  expect_ok(call.run());
  EXPECT_EQ(call.error, (std::vector<std::int32_t>{7, -1}));
  std::vector<float> want(24, 0.5f);
  for (std::size_t n : {0, 1}) {
    want[12 * n + 3] += call.dy[5 * n];
    want[12 * n + 8] += call.dy[5 * n + 2];
    want[12 * n + 5] += call.dy[5 * n + 4];
  }
  EXPECT_EQ(call.dx, want);
}

TEST(GetitemApi, ErrorIsOptional) {
  Call call;
  call.i[0] = 3;
  call.error_given = nullptr;
  call.has_error = false;
  expect_ok(call.run());
  EXPECT_EQ(call.error, (std::vector<std::int32_t>{7, 7}));
}

TEST(GetitemApi, SlicesAloneNeedNoWorkspace) {
  Call call;
  call.count = 0;
  call.dims.clear();
  call.error_given = nullptr;
  call.has_error = false;
  call.bytes = call.workspace_size();
  EXPECT_EQ(call.bytes, 0u);
  call.slices = {1, 1, 3, 1, 2, 0, 4, 3};  // dx[:, 1:, ::3]
  call.offset = 4;
  const Tensor dy(miopenFloat, {2, 2, 2});
  call.dy_given = dy;
  expect_ok(call.run());
  std::vector<float> want(24, 0.5f);
  const std::size_t places[] = {4, 7, 8, 11, 16, 19, 20, 23};
  for (std::size_t k = 0; k < 8; ++k) want[places[k]] += call.dy[k];
  EXPECT_EQ(call.dx, want);
}

TEST(GetitemApi, SumsOfRoundedNumbersAreRepeatable) {
  constexpr int kCount = 30000;
  const DeviceHandle handle;
  const Tensor dx_desc(miopenFloat, {3}), dy_desc(miopenFloat, {kCount}), index_desc(miopenInt32, {kCount});
  std::vector<float> dy(kCount), first;
  std::vector<std::int32_t> index(kCount);
  for (std::size_t i = 0; i < dy.size(); ++i) {
    dy[i] = std::sin(static_cast<float>(i));
    index[i] = static_cast<std::int32_t>(i * i % 3);
  }
  const miopenTensorDescriptor_t descriptor = index_desc;
  std::size_t bytes = 0;
  expect_ok(miopenGetGetitemWorkspaceSize(handle, 1, &descriptor, &bytes));
  std::vector<unsigned char> memory(bytes);
  const std::int32_t dim = 0;
  for (const int threads : {1, 2, 3}) {
    expect_ok(polymioSetThreadCap(handle, threads));
    std::vector<float> dx(3, 0);
    {
      const There to(handle, dx), from(handle, dy), at(handle, index), workspace(handle, memory);
      const void* const indices[] = {at};
      expect_ok(miopenGetitemBackward(handle, workspace, bytes, dy_desc, from, 1, &descriptor, indices, dx_desc, to,
                                      nullptr, nullptr, 1, &dim, 0, nullptr, 0));
    }
    if (first.empty()) first = dx;
    EXPECT_EQ(dx, first) << threads << " threads";
    EXPECT_NE(dx[0], 0);
  }
}

void refuse(const std::function<void(Call&)>& change, std::initializer_list<const char*> parts,
            int line = __builtin_LINE()) {
  Call call;
  change(call);
  expect_bad(call.run(), parts, line);
  EXPECT_EQ(call.dx, std::vector<float>(24, 0.5f)) << "something was written";
  EXPECT_EQ(call.error, (std::vector<std::int32_t>{7, 7}));
}

TEST(GetitemApi, ErrorsOfPointersNameTheArgument) {
  refuse([](Call& c) { c.has_dx = false; }, {"dx", "null"});
  refuse([](Call& c) { c.dy_given = nullptr; }, {"descriptor of dy", "null"});
  refuse([](Call& c) { c.has_index = false; }, {"index tensor 0", "null"});
  refuse([](Call& c) { c.indices_given[1] = nullptr; }, {"index tensor 1", "null"});
  refuse([](Call& c) { c.has_dims = false; }, {"dims is null", "dimCount is 2"});
  refuse([](Call& c) { c.slices.resize(8), c.has_slices = false; }, {"slices is null", "sliceCount is 2"});
  refuse([](Call& c) { c.has_error = false; }, {"error", "no buffer"});
  refuse([](Call& c) { --c.bytes; }, {"workspace", "needed"});
  const Handle handle;
  std::size_t size = 0;
  expect_bad(miopenGetGetitemWorkspaceSize(handle, 1, nullptr, &size), {"indexDescs", "null"});
  expect_bad(miopenGetGetitemWorkspaceSize(handle, 0, nullptr, nullptr), {"sizeInBytes", "null"});
}

TEST(GetitemApi, ErrorsOfTensorsNameGivenAndAllowed) {
  const Tensor half(miopenHalf, {2, 5}), other(miopenFloat, {2, 4}), flat(miopenFloat, {10}), floats(miopenFloat, {5}),
      longer(miopenInt32, {6}), three(miopenInt32, {3}), int8(miopenInt8, {2, 3, 4}),
      repeated(miopenFloat, {2, 3, 4}, {4, 4, 1});
  refuse([&](Call& c) { c.dy_given = half; }, {"dy is fp16", "dx is fp32"});
  refuse([&](Call& c) { c.dx_given = int8; }, {"dx is int8", "fp32, fp16, bf16 and fp64"});
  refuse([&](Call& c) { c.dx_given = repeated; }, {"dx", "overlaps itself"});
  refuse([&](Call& c) { c.dy_given = other; }, {"dy has sizes 2x4", "2x5"});
  refuse([&](Call& c) { c.dy_given = flat; }, {"dy has rank 1", "2"});
  refuse([&](Call& c) { c.indices_given[0] = floats; }, {"index tensor 0 is fp32", "int32"});
  refuse([&](Call& c) { c.indices_given[1] = longer; }, {"index tensor 1", "6", "5"});
  refuse([&](Call& c) { c.error_given = three; }, {"error has 3 elements", "2 index tensors"});
}

TEST(GetitemApi, ErrorsOfDimensionsNameGivenAndAllowed) {
  refuse([](Call& c) { c.dims = {1}; }, {"1 dimensions", "2 index tensors"});
  refuse([](Call& c) { c.dims = {2, 3}; }, {"dims[1] is 3", "0 to 2"});
  refuse([](Call& c) { c.dims = {0, 2}; }, {"dims[1] is 2", "consecutive"});
  refuse([](Call& c) { c.dims = {-1, 0}; }, {"dims[0] is -1", "0 to 2"});
  refuse([](Call& c) { c.slices = {3, 0, 1, 1}; }, {"dimension 3", "0 to 2"});
  refuse([](Call& c) { c.slices = {0, 2, 2, 1}; }, {"from 2 to 2", "no elements"});
  refuse([](Call& c) { c.slices = {0, 0, 2, 0}; }, {"step 0"});
  refuse([](Call& c) { c.offset = 1; }, {"offset 1", "24 elements"});
}

}  // namespace
}  // namespace polymio::test
