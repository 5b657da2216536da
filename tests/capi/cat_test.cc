// Concatenation through the C API: many inputs, empty ones, bit patterns, wrong arguments. On any device.
// SPDX-License-Identifier: MIT
#include <cstdint>
#include <memory>
#include <numeric>

#include "on_device.h"

namespace polymio::test {
namespace {

TEST(CatApi, CopiesBitsOfAnyNumberOfInputs) {
  const DeviceHandle handle;
  constexpr std::size_t kInputs = 37;
  std::vector<std::unique_ptr<Tensor>> tensors;
  std::vector<std::vector<std::uint32_t>> data;
  std::vector<std::uint32_t> want;
  std::uint32_t bits = 1;
  for (std::size_t i = 0; i < kInputs; ++i) {
    const int size = static_cast<int>(i % 5);  // every fifth is empty
    tensors.push_back(size == 0 ? std::make_unique<Tensor>() : std::make_unique<Tensor>(miopenFloat, Ints{size}));
    data.emplace_back(static_cast<std::size_t>(size));
    for (auto& element : data.back()) want.push_back(element = bits *= 2654435761u);
  }
  data[1][0] = want[0] = 0x7fa00001;  // a signaling NaN
  std::vector<std::uint32_t> y(want.size(), 0);
  const Tensor y_desc(miopenFloat, {static_cast<int>(y.size())});
  {
    std::vector<std::unique_ptr<There>> there;
    std::vector<miopenTensorDescriptor_t> descriptors;
    std::vector<const void*> buffers;
    for (std::size_t i = 0; i < kInputs; ++i) {
      there.push_back(data[i].empty() ? nullptr : std::make_unique<There>(handle, data[i]));
      descriptors.push_back(*tensors[i]);
      buffers.push_back(there[i] ? static_cast<void*>(*there[i]) : nullptr);
    }
    const There out(handle, y);
    expect_ok(miopenCatForward(handle, kInputs, descriptors.data(), buffers.data(), y_desc, out, 0));
  }
  EXPECT_EQ(y, want);
}

TEST(CatApi, InputMayBeItsPartOfTheOutput) {
  const DeviceHandle handle;
  std::vector<std::int32_t> y(12, -1), x(6);
  std::iota(x.begin(), x.end(), 1);
  std::iota(y.begin(), y.begin() + 6, 100);
  const Tensor part(miopenInt32, {2, 3}), whole(miopenInt32, {4, 3});
  {
    const There in(handle, x), out(handle, y);
    const miopenTensorDescriptor_t descriptors[] = {part, part};
    const void* const buffers[] = {out, in};
    expect_ok(miopenCatForward(handle, 2, descriptors, buffers, whole, out, -2));
  }
  EXPECT_EQ(y, (std::vector<std::int32_t>{100, 101, 102, 103, 104, 105, 1, 2, 3, 4, 5, 6}));
}

TEST(CatApi, ErrorsNameGivenAndAllowed) {
  const DeviceHandle handle;
  std::vector<float> x(12, 1), z(12, 1), y(24, 2);
  const Tensor small(miopenFloat, {3, 4}), other(miopenFloat, {4, 3}), half(miopenHalf, {3, 4}),
      flat(miopenFloat, {12}), whole(miopenFloat, {6, 4}), repeated(miopenFloat, {6, 4}, {1, 1});
  {
    const There a(handle, x), b(handle, z), out(handle, y);
    const auto refuse = [&](int count, miopenTensorDescriptor_t first, const void* first_data,
                            miopenTensorDescriptor_t to, int dim, std::initializer_list<const char*> parts,
                            int line = __builtin_LINE()) {
      const miopenTensorDescriptor_t descriptors[] = {first, small};
      const void* const buffers[] = {first_data, b};
      expect_bad(miopenCatForward(handle, count, descriptors, buffers, to, out, dim), parts, line);
    };
    refuse(0, small, a, whole, 0, {"xCount is 0", "positive"});
    refuse(2, nullptr, a, whole, 0, {"descriptor of input 0", "null"});
    refuse(2, small, nullptr, whole, 0, {"buffer of input 0", "null"});
    refuse(2, small, a, whole, 2, {"dim is 2", "-2 to 1"});
    refuse(2, small, a, whole, -3, {"dim is -3", "-2 to 1"});
    refuse(2, half, a, whole, 0, {"input 0 is fp16", "y is fp32"});
    refuse(2, other, a, whole, 0, {"input 0 has sizes 4x3", "6x4"});
    refuse(2, flat, a, whole, 0, {"input 0 has sizes 12", "6x4"});
    refuse(1, small, a, whole, 0, {"size 3 in all", "dimension 0", "6"});
    refuse(2, small, a, repeated, 0, {"y", "overlaps itself"});
    refuse(2, small, static_cast<char*>(static_cast<void*>(out)) + 4, whole, 0, {"input 0 overlaps y"});
    expect_bad(miopenCatForward(handle, 1, nullptr, nullptr, whole, out, 0), {"xDescs", "null"});
  }
  EXPECT_EQ(y, std::vector<float>(24, 2)) << "something was written";
}

}  // namespace
}  // namespace polymio::test
