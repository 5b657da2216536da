// The API of local response normalisation: descriptors, workspace, forward and backward against the reference, errors
// with their texts. On any device.
// SPDX-License-Identifier: MIT
#include "reference/lrn.h"

#include <cmath>
#include <limits>

#include "on_device.h"

namespace polymio::test {
namespace {

namespace ref = polymio::reference;
using LrnDescriptor = Owned<miopenLRNDescriptor_t, miopenCreateLRNDescriptor, miopenDestroyLRNDescriptor>;
using Bytes = std::vector<unsigned char>;

const Ints kLens = {2, 6, 5, 7};

struct LrnApi : testing::Test {
  void set(miopenLRNMode_t mode, unsigned n, double alpha = 1.5, double beta = 0.75, double k = 2) {
    expect_ok(miopenSetLRNDescriptor(lrn, mode, n, alpha, beta, k));
    wanted.cross = mode == miopenLRNCrossChannel;
    wanted.n = n;
    wanted.alpha = alpha;
    wanted.beta = beta;
    wanted.k = k;
  }
  Bytes random(unsigned seed) const {
    Bytes bytes(tensor.bytes());
    for (std::int64_t i = 0; i < tensor.count(); ++i)
      ref::store(tensor.type, bytes.data(), i, std::sin(static_cast<double>(i * 7 + 1) * (seed + 1)) * 2);
    return bytes;
  }
  void expect_close(const ref::Result& want, const Bytes& got) const {
    const ref::Comparison c = ref::compare(arithmetic(wanted), tensor, got.data(), want);
    EXPECT_TRUE(c.ok()) << c.failures << " are wrong, element " << c.index << ": " << c.got << " for " << c.want;
  }
  miopenStatus_t forward(const void* from, void* to, bool do_backward, void* workspace) {
    return miopenLRNForward(handle, lrn, nullptr, t, from, nullptr, t, to, do_backward, workspace);
  }
  miopenStatus_t backward(const void* y_data, const void* dy_data, const void* x_data, void* dx_data,
                          const void* workspace) {
    return miopenLRNBackward(handle, lrn, nullptr, t, y_data, t, dy_data, t, x_data, nullptr, t, dx_data, workspace);
  }
  /// Forward with a workspace; y and scale are results.
  void run_forward(Bytes& y_bytes, Bytes& scale_bytes) {
    const There on_x(handle, x), on_y(handle, y_bytes), on_scale(handle, scale_bytes);
    expect_ok(forward(on_x, on_y, true, on_scale));
    expect_ok(polymioSynchronize(handle));
  }

  DeviceHandle handle;
  LrnDescriptor lrn;
  Tensor t{miopenFloat, kLens};
  ref::Tensor tensor{ref::Type::kFloat, {kLens.begin(), kLens.end()}};
  ref::Lrn wanted{.x = tensor, .y = tensor, .dy = tensor, .out = tensor};
  const Bytes x = random(0), dy = random(1);
};

TEST_F(LrnApi, DescriptorKeepsItsValues) {
  miopenLRNMode_t mode;
  unsigned n = 0;
  double alpha = 0, beta = 0, k = 0;
  set(miopenLRNCrossChannel, 4);
  expect_ok(miopenGetLRNDescriptor(lrn, &mode, &n, &alpha, &beta, &k));
  EXPECT_EQ(mode, miopenLRNCrossChannel);
  EXPECT_EQ(n, 4u);
  EXPECT_EQ(alpha, 1.5);
  EXPECT_EQ(beta, 0.75);
  EXPECT_EQ(k, 2);
  miopenLRNMode_t unknown;
  const int bad = 2;
  std::memcpy(&unknown, &bad, sizeof unknown);
  expect_bad(miopenSetLRNDescriptor(lrn, unknown, 5, 1, 1, 1), {"LRN mode 2", "0 (within"});
  expect_bad(miopenSetLRNDescriptor(lrn, miopenLRNWithinChannel, 0, 1, 1, 1), {"lrnN is 0", "at least 1"});
  expect_ok(miopenGetLRNDescriptor(lrn, &mode, &n, &alpha, &beta, &k));
  EXPECT_EQ(n, 4u) << "a refused value changes nothing";
  expect_bad(miopenGetLRNDescriptor(lrn, nullptr, &n, &alpha, &beta, &k), {"mode is null"});
  expect_bad(miopenGetLRNDescriptor(lrn, &mode, nullptr, &alpha, &beta, &k), {"lrnN is null"});
  expect_bad(miopenGetLRNDescriptor(lrn, &mode, &n, nullptr, &beta, &k), {"lrnAlpha is null"});
  expect_bad(miopenGetLRNDescriptor(lrn, &mode, &n, &alpha, nullptr, &k), {"lrnBeta is null"});
  expect_bad(miopenGetLRNDescriptor(lrn, &mode, &n, &alpha, &beta, nullptr), {"lrnK is null"});
}

TEST_F(LrnApi, DescriptorsAreCreatedAndDestroyed) {
  expect_bad(miopenCreateLRNDescriptor(nullptr), {"lrnDesc is null"});
  expect_bad(miopenDestroyLRNDescriptor(nullptr), {"LRN descriptor", "null"});
  miopenLRNDescriptor_t other = nullptr;
  expect_ok(miopenCreateLRNDescriptor(&other));
  EXPECT_NE(other, nullptr);
  expect_ok(miopenDestroyLRNDescriptor(other));
  expect_bad(miopenDestroyLRNDescriptor(other), {"LRN descriptor"});
}

TEST_F(LrnApi, WorkspaceHasFourBytesPerElement) {
  std::size_t bytes = 0;
  expect_ok(miopenLRNGetWorkSpaceSize(t, &bytes));
  EXPECT_EQ(bytes, 420u * 4);
  expect_ok(miopenLRNGetWorkSpaceSize(Tensor(miopenHalf, kLens), &bytes));
  EXPECT_EQ(bytes, 420u * 4) << "MIOpen's size";
  expect_ok(miopenLRNGetWorkSpaceSize(Tensor(miopenDouble, kLens), &bytes));
  EXPECT_EQ(bytes, 420u * 8);
  expect_ok(miopenLRNGetWorkSpaceSize(Tensor(miopenFloat, {2, 3}, {10, 2}), &bytes));
  EXPECT_EQ(bytes, 15u * 4) << "with gaps";
  expect_bad(miopenLRNGetWorkSpaceSize(t, nullptr), {"workSpaceSize is null"});
  expect_bad(miopenLRNGetWorkSpaceSize(nullptr, &bytes), {"descriptor of y is null"});
}

TEST_F(LrnApi, ForwardWritesResultAndScale) {
  for (const auto mode : {miopenLRNWithinChannel, miopenLRNCrossChannel}) {
    set(mode, 4);
    Bytes y(tensor.bytes()), scale(tensor.bytes()), alone(tensor.bytes());
    run_forward(y, scale);
    expect_close(evaluate(wanted, x.data(), nullptr, nullptr, nullptr), y);
    expect_close(lrn_scale(wanted, x.data()), scale);
    {
      const There on_x(handle, x), on_y(handle, alone);
      expect_ok(forward(on_x, on_y, false, nullptr));
      expect_ok(polymioSynchronize(handle));
    }
    EXPECT_EQ(alone, y) << "without a workspace";
  }
}

TEST_F(LrnApi, BackwardNeedsNoWorkspace) {
  for (const auto mode : {miopenLRNWithinChannel, miopenLRNCrossChannel}) {
    set(mode, 5);
    wanted.backward = false;
    Bytes y(tensor.bytes()), scale(tensor.bytes());
    run_forward(y, scale);
    wanted.backward = true;
    for (const bool given : {false, true}) {
      Bytes dx(tensor.bytes());
      {
        const There on_x(handle, x), on_y(handle, y), on_dy(handle, dy), on_scale(handle, scale), on_dx(handle, dx);
        expect_ok(backward(on_y, on_dy, on_x, on_dx, given ? static_cast<void*>(on_scale) : nullptr));
        expect_ok(polymioSynchronize(handle));
      }
      expect_close(evaluate(wanted, x.data(), y.data(), dy.data(), given ? scale.data() : nullptr), dx);
    }
  }
}

TEST_F(LrnApi, InfinitiesAndNanStayInTheirWindows) {
  set(miopenLRNCrossChannel, 3);
  Bytes in = x, y(tensor.bytes());
  const auto channel = [](std::int64_t c) { return c * 35; };
  ref::store(tensor.type, in.data(), channel(0), std::numeric_limits<double>::infinity());
  ref::store(tensor.type, in.data(), channel(5), std::nan(""));
  {
    const There on_x(handle, in), on_y(handle, y);
    expect_ok(forward(on_x, on_y, false, nullptr));
    expect_ok(polymioSynchronize(handle));
  }
  const auto at = [&](std::int64_t i) { return ref::load(tensor.type, y.data(), i); };
  EXPECT_TRUE(std::isnan(at(channel(0)))) << "infinity times 0";
  EXPECT_EQ(at(channel(1)), 0) << "a window with an infinity";
  EXPECT_TRUE(std::isfinite(at(channel(2))));
  EXPECT_TRUE(std::isfinite(at(channel(3))));
  EXPECT_TRUE(std::isnan(at(channel(4))));
  EXPECT_TRUE(std::isnan(at(channel(5))));
  EXPECT_TRUE(std::isfinite(at(channel(0) + 1))) << "the next pixel";
}

TEST_F(LrnApi, ForwardErrors) {
  set(miopenLRNCrossChannel, 5);
  Bytes y(tensor.bytes());
  Bytes in = x;
  const There on_x(handle, in), on_y(handle, y);
  expect_bad(forward(nullptr, on_y, false, nullptr), {"buffer of x is null"});
  expect_bad(forward(on_x, nullptr, false, nullptr), {"buffer of y is null"});
  expect_bad(forward(on_x, on_y, true, nullptr), {"do_backward", "null"});
  expect_bad(forward(on_x, on_x, false, nullptr), {"y and x are one buffer"});
  expect_bad(forward(on_x, on_y, true, on_y), {"one buffer"});
  expect_bad(miopenLRNForward(handle, nullptr, nullptr, t, on_x, nullptr, t, on_y, false, nullptr),
             {"LRN descriptor", "null"});
  expect_bad(miopenLRNForward(nullptr, lrn, nullptr, t, on_x, nullptr, t, on_y, false, nullptr), {"handle", "null"});
  const auto refused = [&](const Tensor& from, const Tensor& to, std::initializer_list<const char*> parts) {
    expect_bad(miopenLRNForward(handle, lrn, nullptr, from, on_x, nullptr, to, on_y, false, nullptr), parts);
  };
  refused(t, Tensor(miopenFloat, {2, 6, 5, 6}), {"2x6x5x7", "2x6x5x6", "equal"});
  refused(t, Tensor(miopenHalf, kLens), {"data types must be equal"});
  refused(Tensor(miopenInt32, kLens), Tensor(miopenInt32, kLens), {"x is int32", "fp32, fp16, bf16 and fp64"});
  refused(Tensor(miopenFloat, {7}), Tensor(miopenFloat, {7}), {"rank 1", "2 to 5"});
  refused(Tensor(miopenFloat, {1, 1, 1, 1, 1, 7}), t, {"rank 6", "2 to 5"});
  refused(t, Tensor(miopenFloat, kLens, {35, 35, 7, 1}), {"output y overlaps itself"});
  expect_bad(miopenLRNForward(handle, lrn, nullptr, nullptr, on_x, nullptr, t, on_y, false, nullptr),
             {"descriptor of x is null"});
  set(miopenLRNCrossChannel, 5, 1, 0.75, 0);
  expect_error(forward(on_x, on_y, false, nullptr), miopenStatusUnknownError, {"k is 0"});
  EXPECT_EQ(y, Bytes(tensor.bytes())) << "refused calls write nothing";
}

TEST_F(LrnApi, BackwardErrors) {
  set(miopenLRNWithinChannel, 3);
  Bytes in = x, grad = dy, y = x, dx(tensor.bytes());
  const There on_x(handle, in), on_y(handle, y), on_dy(handle, grad), on_dx(handle, dx);
  expect_bad(backward(nullptr, on_dy, on_x, on_dx, nullptr), {"buffer of y is null"});
  expect_bad(backward(on_y, nullptr, on_x, on_dx, nullptr), {"buffer of dy is null"});
  expect_bad(backward(on_y, on_dy, nullptr, on_dx, nullptr), {"buffer of x is null"});
  expect_bad(backward(on_y, on_dy, on_x, nullptr, nullptr), {"buffer of dx is null"});
  expect_bad(backward(on_y, on_dx, on_x, on_dx, nullptr), {"dx and dy are one buffer"});
  expect_bad(backward(on_y, on_dy, on_x, on_dx, on_dx), {"dx and the workspace are one buffer"});
  const Tensor other(miopenFloat, {2, 6, 7, 5});
  expect_bad(miopenLRNBackward(handle, lrn, nullptr, t, on_y, other, on_dy, t, on_x, nullptr, t, on_dx, nullptr),
             {"dy has 2x6x7x5"});
}

}  // namespace
}  // namespace polymio::test
