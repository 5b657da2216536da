// The API of kthvalue: contents, the forms of its outputs, errors with their texts. On any device.
// SPDX-License-Identifier: MIT
#include <miopen/kthvalue.h>

#include "on_device.h"

namespace polymio::test {
namespace {

using Floats = std::vector<float>;
using Positions = std::vector<std::size_t>;

struct KthvalueApi : testing::Test {
  miopenStatus_t call(miopenTensorDescriptor_t of_x, const void* x, miopenTensorDescriptor_t of_y, void* y,
                      miopenTensorDescriptor_t of_at, void* at, std::size_t k, int dim, bool keep) {
    return miopenKthvalueForward(handle, of_x, x, of_y, y, of_at, static_cast<std::size_t*>(at), k, dim, keep);
  }
  DeviceHandle handle;
};

/// MIOpen's driver describes indices as doubles, which have 64 bits.
TEST_F(KthvalueApi, ValuesAndPositionsAlongEveryDimension) {
  const Tensor x_desc(miopenFloat, {2, 3});
  Floats x{5, 1, 3, 2, 4, 1};
  for (const bool keep : {false, true}) {
    const Tensor rows(miopenFloat, keep ? Ints{2, 1} : Ints{2}), of_rows(miopenDouble, keep ? Ints{2, 1} : Ints{2});
    const Tensor columns(miopenFloat, keep ? Ints{1, 3} : Ints{3}),
        of_columns(miopenInt64, keep ? Ints{1, 3} : Ints{3});
    for (const int dim : {1, -1}) {
      Floats y(2);
      Positions at(2);
      expect_ok(call(x_desc, There(handle, x), rows, There(handle, y), of_rows, There(handle, at), 2, dim, keep));
      EXPECT_EQ(y, (Floats{3, 2}));
      EXPECT_EQ(at, (Positions{2, 0}));
    }
    Floats y(3);
    Positions at(3);
    expect_ok(call(x_desc, There(handle, x), columns, There(handle, y), of_columns, There(handle, at), 2, 0, keep));
    EXPECT_EQ(y, (Floats{5, 4, 3}));
    EXPECT_EQ(at, (Positions{0, 1, 0}));
  }
}

TEST_F(KthvalueApi, Errors) {
  const Tensor x_desc(miopenFloat, {2, 3}), y_desc(miopenFloat, {2}), at_desc(miopenInt64, {2});
  const Tensor half(miopenHalf, {2}), wrong(miopenFloat, {3}), narrow(miopenInt32, {2}), kept(miopenFloat, {2, 1});
  Floats x(6, 1), y(3, 42);
  Positions at(3, 42);
  const auto with = [&](miopenTensorDescriptor_t of_y, miopenTensorDescriptor_t of_at, std::size_t k, int dim) {
    return call(x_desc, x.data(), of_y, y.data(), of_at, at.data(), k, dim, false);
  };
  expect_bad(with(y_desc, at_desc, 0, 1), {"k is 0", "1 to 3"});
  expect_bad(with(y_desc, at_desc, 4, 1), {"k is 4", "1 to 3"});
  expect_bad(with(y_desc, at_desc, 1, 2), {"dimension 2", "-2 to 1"});
  expect_bad(with(y_desc, at_desc, 1, -3), {"dimension -3"});
  expect_bad(with(half, at_desc, 1, 1), {"fp16", "fp32"});
  expect_bad(with(wrong, at_desc, 1, 1), {"the output has sizes 3"});
  expect_bad(with(kept, at_desc, 1, 1), {"the output has sizes 2x1"});
  expect_bad(with(y_desc, narrow, 1, 1), {"int32", "64 bits"});
  expect_bad(with(y_desc, wrong, 1, 1), {"the indices has sizes 3"});
  expect_bad(call(nullptr, x.data(), y_desc, y.data(), at_desc, at.data(), 1, 1, false), {"descriptor of the input"});
  expect_bad(call(x_desc, nullptr, y_desc, y.data(), at_desc, at.data(), 1, 1, false), {"buffer of the input"});
  expect_bad(call(x_desc, x.data(), y_desc, nullptr, at_desc, at.data(), 1, 1, false), {"buffer of the output"});
  expect_bad(call(x_desc, x.data(), y_desc, y.data(), at_desc, nullptr, 1, 1, false), {"buffer of indices"});
  expect_bad(call(x_desc, x.data(), y_desc, x.data() + 2, at_desc, at.data(), 1, 1, false), {"output overlaps"});
  EXPECT_EQ(y, (Floats{42, 42, 42}));
  EXPECT_EQ(at, (Positions{42, 42, 42}));
}

}  // namespace
}  // namespace polymio::test
