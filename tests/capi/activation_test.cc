// The activation API: descriptors, forward and backward against the reference, in place, errors with their
// texts, and the gated linear unit. On any device.
// SPDX-License-Identifier: MIT
#include "reference/activation.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "on_device.h"

namespace polymio::test {
namespace {

namespace ref = polymio::reference;
using Activation =
    Owned<miopenActivationDescriptor_t, miopenCreateActivationDescriptor, miopenDestroyActivationDescriptor>;

constexpr double kAlpha = 0.75, kBeta = 1.25, kGamma = 1.5;

struct ActivationApi : testing::Test {
  void set(int mode, double alpha = kAlpha) {
    expect_ok(
        miopenSetActivationDescriptor(activation, static_cast<miopenActivationMode_t>(mode), alpha, kBeta, kGamma));
  }
  miopenStatus_t forward(const Tensor& t, const void* x_data, void* y_data) {
    return miopenActivationForward(handle, activation, &kOne, t, x_data, &kZero, t, y_data);
  }
  miopenStatus_t backward(const Tensor& t, const void* y_data, const void* dy_data, const void* x_data, void* dx_data) {
    return miopenActivationBackward(handle, activation, &kOne, t, y_data, t, dy_data, t, x_data, &kZero, t, dx_data);
  }

  template <class Call>
  void in_place(std::vector<unsigned char>& bytes, const Call& call) {
    const There there(handle, bytes);
    expect_ok(call(there));
  }

  DeviceHandle handle;
  Activation activation;
};

ref::Activation wanted(int mode, bool is_backward, const ref::Tensor& t) {
  ref::Activation p;
  p.mode = static_cast<ref::ActivationMode>(mode);
  p.backward = is_backward;
  p.alpha = kAlpha;
  p.beta = kBeta;
  p.gamma = kGamma;
  p.x = p.dy = p.out = t;
  return p;
}

std::vector<unsigned char> ramp(const ref::Tensor& t, double low, double high) {
  std::vector<unsigned char> bytes(t.bytes());
  for (std::int64_t i = 0; i < t.count(); ++i)
    ref::store(t.type, bytes.data(), t.offset(i),
               low + (high - low) * static_cast<double>(i) / static_cast<double>(t.count()));
  return bytes;
}

TEST_F(ActivationApi, DescriptorKeepsItsValues) {
  miopenActivationMode_t mode;
  double alpha = 0, beta = 0, gamma = 0;
  expect_ok(miopenGetActivationDescriptor(activation, &mode, &alpha, &beta, &gamma));
  EXPECT_EQ(mode, miopenActivationPASTHRU);
  set(miopenActivationELU);
  expect_ok(miopenGetActivationDescriptor(activation, &mode, nullptr, &beta, nullptr));
  expect_ok(miopenGetActivationDescriptor(activation, nullptr, &alpha, nullptr, &gamma));
  EXPECT_EQ(mode, miopenActivationELU);
  EXPECT_EQ(alpha, kAlpha);
  EXPECT_EQ(beta, kBeta);
  EXPECT_EQ(gamma, kGamma);
  for (const int bad : {-1, 11}) {
    miopenActivationMode_t number;
    std::memcpy(&number, &bad, sizeof number);
    expect_bad(miopenSetActivationDescriptor(activation, number, 0, 0, 0), {"activation mode", "0 (passthru)"});
  }
  expect_ok(miopenGetActivationDescriptor(activation, &mode, nullptr, nullptr, nullptr));
  EXPECT_EQ(mode, miopenActivationELU) << "a refused value changes nothing";
  expect_bad(miopenSetActivationDescriptor(nullptr, miopenActivationRELU, 0, 0, 0), {"activation descriptor", "null"});
  expect_bad(miopenGetActivationDescriptor(nullptr, &mode, &alpha, &beta, &gamma), {"activation descriptor", "null"});
  expect_bad(miopenCreateActivationDescriptor(nullptr), {"activDesc"});
  expect_bad(miopenDestroyActivationDescriptor(nullptr), {"activation descriptor", "null"});
}

TEST_F(ActivationApi, EveryFunctionAndTypeOutOfPlaceAndInPlace) {
  for (const miopenDataType_t type : {miopenFloat, miopenHalf, miopenBFloat16, miopenDouble})
    for (int mode = 0; mode < 11; ++mode) {
      SCOPED_TRACE("type " + std::to_string(type) + " mode " + std::to_string(mode));
      set(mode);
      const Tensor desc(type, {2, 3, 17, 5});
      const ref::Tensor t(static_cast<ref::Type>(type), {2, 3, 17, 5});
      const double one = 1, zero = 0;
      const void* alpha = type == miopenDouble ? static_cast<const void*>(&one) : &kOne;
      const void* beta = type == miopenDouble ? static_cast<const void*>(&zero) : &kZero;
      const auto x = ramp(t, -5, 5), dy = ramp(t, 2, -2);
      std::vector<unsigned char> y(x.size(), 0xff), dx(x.size(), 0xff), both = x, gradient = dy;
      if (!sampled()) continue;
      expect_ok(
          miopenActivationForward(handle, activation, alpha, desc, There(handle, x), beta, desc, There(handle, y)));
      expect_ok(miopenActivationBackward(handle, activation, alpha, desc, There(handle, y), desc, There(handle, dy),
                                         desc, There(handle, x), beta, desc, There(handle, dx)));
      const auto p = wanted(mode, false, t), q = wanted(mode, true, t);
      EXPECT_TRUE(ref::compare(arithmetic(p), t, y.data(), evaluate(p, x.data(), nullptr, nullptr)).ok());
      EXPECT_TRUE(ref::compare(arithmetic(q), t, dx.data(), evaluate(q, x.data(), dy.data(), nullptr)).ok());
      in_place(both, [&](void* data) {
        return miopenActivationForward(handle, activation, alpha, desc, data, beta, desc, data);
      });
      EXPECT_EQ(both, y);
      in_place(gradient, [&](void* data) {
        return miopenActivationBackward(handle, activation, alpha, desc, There(handle, y), desc, data, desc,
                                        There(handle, x), beta, desc, data);
      });
      EXPECT_EQ(gradient, dx);
    }
}

/// After a forward pass in place only y exists: backward computes the derivative from y, or is refused.
TEST_F(ActivationApi, BackwardOfAForwardPassInPlace) {
  const Tensor desc(miopenFloat, {1, 1, 1, 101});
  std::vector<float> x, dy(101, 0.5f);
  for (int i = 0; i < 101; ++i) x.push_back(static_cast<float>(i) * 0.06f - 3);
  for (int mode = 0; mode < 11; ++mode) {
    SCOPED_TRACE("mode " + std::to_string(mode));
    set(mode);
    std::vector<float> y = x, dx(101), from_x(101);
    if (!sampled()) continue;
    expect_ok(forward(desc, There(handle, x), There(handle, y)));
    expect_ok(backward(desc, There(handle, y), There(handle, dy), There(handle, x), There(handle, from_x)));
    if (mode == miopenActivationABS || mode == miopenActivationPOWER || mode == miopenActivationCLIPPEDRELU ||
        mode == miopenActivationCLAMP) {
      expect_bad(backward(desc, y.data(), dy.data(), y.data(), dx.data()), {"x and y are one buffer", "derivative"});
      continue;
    }
    {
      const There both(handle, y);
      expect_ok(backward(desc, both, There(handle, dy), both, There(handle, dx)));
    }
    for (int i = 0; i < 101; ++i) EXPECT_NEAR(dx[i], from_x[i], 1e-6) << "x " << x[i];
  }
  set(miopenActivationELU, -1);
  expect_bad(backward(desc, x.data(), dy.data(), x.data(), x.data()), {"elu"});
}

/// The lower bound of a clamp has no gradient, the upper one has; NaN passes, and its gradient is dy.
TEST_F(ActivationApi, ClampAtItsBoundsAndBeyond) {
  const std::vector<float> x{-kInf, 0.5f, 0.75f, 1, 1.25f, 1.5f, kInf, kNan}, dy(8, 2);
  const std::vector<float> y_wanted{0.75f, 0.75f, 0.75f, 1, 1.25f, 1.25f, 1.25f}, dx_wanted{0, 0, 0, 2, 2, 0, 0, 2};
  for (const miopenDataType_t type : {miopenFloat, miopenHalf, miopenBFloat16, miopenDouble}) {
    SCOPED_TRACE(type);
    set(miopenActivationCLAMP);
    const Tensor desc(type, {1, 8});
    const ref::Tensor t(static_cast<ref::Type>(type), {1, 8});
    std::vector<unsigned char> in(t.bytes()), gradient(t.bytes()), y(t.bytes()), dx(t.bytes());
    for (std::int64_t i = 0; i < 8; ++i) {
      ref::store(t.type, in.data(), i, x[static_cast<std::size_t>(i)]);
      ref::store(t.type, gradient.data(), i, dy[static_cast<std::size_t>(i)]);
    }
    const double one = 1, zero = 0;
    const void* alpha = type == miopenDouble ? static_cast<const void*>(&one) : &kOne;
    const void* beta = type == miopenDouble ? static_cast<const void*>(&zero) : &kZero;
    expect_ok(
        miopenActivationForward(handle, activation, alpha, desc, There(handle, in), beta, desc, There(handle, y)));
    expect_ok(miopenActivationBackward(handle, activation, alpha, desc, There(handle, y), desc, There(handle, gradient),
                                       desc, There(handle, in), beta, desc, There(handle, dx)));
    for (std::int64_t i = 0; i < 7; ++i)
      EXPECT_EQ(ref::load(t.type, y.data(), i), static_cast<double>(y_wanted[static_cast<std::size_t>(i)])) << i;
    EXPECT_TRUE(std::isnan(ref::load(t.type, y.data(), 7)));
    for (std::int64_t i = 0; i < 8; ++i)
      EXPECT_EQ(ref::load(t.type, dx.data(), i), static_cast<double>(dx_wanted[static_cast<std::size_t>(i)])) << i;
  }
}

TEST_F(ActivationApi, ScalingFactorsAreTaken) {
  set(miopenActivationRELU);
  const Tensor desc(miopenHalf, {1, 2, 3, 4});
  const ref::Tensor t(ref::Type::kHalf, {1, 2, 3, 4});
  const auto x = ramp(t, -2, 2), old = ramp(t, 1, 3);
  auto y = old;
  const float alpha = 0.5f, beta = -2;
  expect_ok(miopenActivationForward(handle, activation, &alpha, desc, There(handle, x), &beta, desc, There(handle, y)));
  auto p = wanted(miopenActivationRELU, false, t);
  p.scale = 0.5;
  p.keep = -2;
  EXPECT_TRUE(ref::compare(arithmetic(p), t, y.data(), evaluate(p, x.data(), nullptr, old.data())).ok());
}

/// Packed tensors, ones with gaps, and dimensions in another order, of which some can be merged.
TEST_F(ActivationApi, MoreDimensionsThanKernelsHave) {
  constexpr int kMode = miopenActivationELU;
  set(kMode);
  const Ints sizes = {2, 1, 2, 3, 1, 2, 2, 2};
  for (const Ints& strides : {Ints{48, 48, 24, 8, 8, 4, 2, 1}, Ints{200, 9, 99, 8, 7, 4, 2, 1},
                              Ints{24, 1, 48, 8, 1, 4, 2, 1}, Ints{1, 96, 48, 16, 16, 8, 4, 2}}) {
    const ref::Tensor t(ref::Type::kFloat, {sizes.begin(), sizes.end()}, {strides.begin(), strides.end()});
    const Tensor desc(miopenFloat, sizes, strides);
    const auto x = ramp(t, -2, 2), dy = ramp(t, 1, 3);
    auto y = ramp(t, 7, 7), dx = ramp(t, 7, 7);
    expect_ok(forward(desc, There(handle, x), There(handle, y)));
    expect_ok(backward(desc, There(handle, y), There(handle, dy), There(handle, x), There(handle, dx)));
    for (const bool is_backward : {false, true}) {
      const ref::Activation p = wanted(kMode, is_backward, t);
      const auto want = evaluate(p, x.data(), dy.data(), nullptr);
      const auto found = ref::compare(arithmetic(p), t, is_backward ? dx.data() : y.data(), want);
      EXPECT_TRUE(found.ok()) << "element " << found.index << " is " << found.got << ", should be " << found.want;
    }
  }
  const Tensor apart(miopenFloat, {2, 2, 2, 2, 2, 2}, {3, 7, 15, 31, 63, 127});
  const std::vector<float> memory(512);
  expect_bad(forward(apart, There(handle, memory), There(handle, memory)), {"rank 6", "1 to 5"});
}

TEST_F(ActivationApi, ErrorsSayWhatIsWrong) {
  set(miopenActivationRELU);
  const Tensor desc(miopenFloat, {1, 2, 3, 4}), other(miopenFloat, {1, 2, 4, 3}), half(miopenHalf, {1, 2, 3, 4});
  const Tensor integers(miopenInt32, {1, 2, 3, 4}), unset, transposed(miopenFloat, {1, 2, 3, 4}, {24, 1, 8, 2});
  std::vector<float> a(64), b(64);
  const auto call = [&](miopenTensorDescriptor_t x, const void* x_data, miopenTensorDescriptor_t y, void* y_data) {
    return miopenActivationForward(handle, activation, &kOne, x, x_data, &kZero, y, y_data);
  };
  expect_ok(call(desc, a.data(), desc, b.data()));
  expect_bad(call(desc, nullptr, desc, b.data()), {"x", "null"});
  expect_bad(call(desc, a.data(), desc, nullptr), {"y", "null"});
  expect_bad(call(nullptr, a.data(), desc, b.data()), {"null"});
  expect_bad(call(unset, a.data(), desc, b.data()), {"x"});
  expect_bad(call(desc, a.data(), other, b.data()), {"1x2x3x4", "1x2x4x3"});
  expect_bad(call(desc, a.data(), half, b.data()), {"fp32", "fp16"});
  expect_bad(call(integers, a.data(), integers, b.data()), {"int32", "fp64"});
  expect_bad(call(desc, a.data(), transposed, a.data()), {"strides differ"});
  expect_bad(call(desc, a.data(), desc, a.data() + 1), {"overlaps", "4 bytes"});
  expect_bad(miopenActivationForward(nullptr, activation, &kOne, desc, a.data(), &kZero, desc, b.data()), {"handle"});
  expect_bad(miopenActivationForward(handle, nullptr, &kOne, desc, a.data(), &kZero, desc, b.data()), {"descriptor"});
  expect_bad(miopenActivationForward(handle, activation, nullptr, desc, a.data(), &kZero, desc, b.data()), {"alpha"});
  expect_bad(miopenActivationForward(handle, activation, &kOne, desc, a.data(), nullptr, desc, b.data()), {"beta"});
  std::vector<float> c(64), d(64);
  const auto back = [&](const void* y, const void* dy, const void* x, void* dx) {
    return backward(desc, y, dy, x, dx);
  };
  expect_ok(back(a.data(), b.data(), c.data(), d.data()));
  expect_bad(back(nullptr, b.data(), c.data(), d.data()), {"y", "null"});
  expect_bad(back(a.data(), nullptr, c.data(), d.data()), {"dy", "null"});
  expect_bad(back(a.data(), b.data(), nullptr, d.data()), {"x", "null"});
  expect_bad(back(a.data(), b.data(), c.data(), nullptr), {"dx", "null"});
  expect_bad(back(a.data(), b.data(), c.data(), b.data() + 2), {"overlaps dy"});
}

/// Views of one buffer may interleave.
TEST_F(ActivationApi, InterleavedViewsOfOneBufferAreFine) {
  set(miopenActivationABS);
  const Tensor view(miopenFloat, {2, 3}, {8, 2});
  std::vector<float> memory(16);
  for (int i = 0; i < 16; ++i) memory[i] = -static_cast<float>(i) - 1;
  {
    const There there(handle, memory);
    void* const data = there;
    expect_ok(forward(view, data, static_cast<float*>(data) + 1));
  }
  for (int n = 0; n < 2; ++n)
    for (int c = 0; c < 3; ++c) EXPECT_EQ(memory[n * 8 + c * 2 + 1], -memory[n * 8 + c * 2]);
  EXPECT_EQ(memory[7], -8) << "between the elements nothing is written";
}

TEST_F(ActivationApi, GatedLinearUnit) {
  for (const miopenDataType_t type : {miopenFloat, miopenHalf, miopenBFloat16, miopenDouble})
    for (const Ints& sizes : {Ints{4, 6, 8}, Ints{2, 3, 7}, Ints{2, 4, 2, 3, 2, 4}, Ints{2, 1, 2, 2, 4, 1, 2, 2}})
      for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
        if (sizes[dim] % 2 != 0) continue;
        SCOPED_TRACE(testing::Message() << "type " << type << " rank " << sizes.size() << " dim " << dim);
        Ints small = sizes;
        small[dim] /= 2;
        const Tensor in(type, sizes), out(type, small);
        const ref::Tensor in_plain(static_cast<ref::Type>(type), {sizes.begin(), sizes.end()});
        const ref::Tensor out_plain(static_cast<ref::Type>(type), {small.begin(), small.end()});
        const auto x = ramp(in_plain, -4, 4), dy = ramp(out_plain, 1, -1);
        std::vector<unsigned char> y(dy.size(), 0xff), dx(x.size(), 0xff);
        const auto along = static_cast<std::uint32_t>(dim);
        expect_ok(miopenGLUForward(handle, in, There(handle, x), out, There(handle, y), along));
        expect_ok(
            miopenGLUBackward(handle, in, There(handle, x), out, There(handle, dy), in, There(handle, dx), along));
        const auto how = [&](const ref::Tensor& t) { return arithmetic(wanted(0, false, t)); };
        EXPECT_TRUE(ref::compare(how(out_plain), out_plain, y.data(), ref::glu(in_plain, x.data(), dim)).ok());
        EXPECT_TRUE(ref::compare(how(in_plain), in_plain, dx.data(),
                                 ref::glu_backward(in_plain, x.data(), out_plain, dy.data(), dim))
                        .ok());
      }
  const Tensor odd(miopenFloat, {2, 3}), even(miopenFloat, {2, 4});
  float a[8] = {}, b[8] = {};
  expect_bad(miopenGLUForward(handle, odd, a, even, b, 1), {"size 3", "even"});
  expect_bad(miopenGLUForward(handle, even, a, even, b, 1), {"half of the input", "2x4"});
  expect_bad(miopenGLUForward(handle, even, a, even, b, 2), {"dimension 2"});
  const Tensor half(miopenFloat, {2, 2});
  expect_bad(miopenGLUForward(handle, even, a, half, a, 1), {"written over the input"});
  expect_bad(miopenGLUForward(handle, even, nullptr, half, a, 1), {"input", "null"});
}

}  // namespace
}  // namespace polymio::test
