// Tensor maps, cleared memory and the figures of a CUDA device, on the fake driver.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "runtime/device.h"

namespace polymio {
namespace {

using Element = TensorMapSpec::Element;

/// Channels last, 16-bit: 64 channels of 8 pixels per load of im2col.
TensorMapSpec images(std::int64_t c, std::int64_t w, std::int64_t h, std::int64_t n) {
  TensorMapSpec s{.element = Element::kBfloat16, .rank = 4, .sizes = {c, w, h, n}, .box = {64, 8}, .im2col = true};
  for (std::size_t d = 1; d < 4; ++d) s.strides[d] = 2 * s.sizes[0] * (d > 1 ? w : 1) * (d > 2 ? h : 1);
  return s;
}

TensorMapSpec matrix() {
  return {.element = Element::kFloat16, .rank = 2, .sizes = {128, 1024}, .strides = {0, 256}, .box = {64, 128}};
}

/// A spec with one change.
template <class Change>
TensorMapSpec but(TensorMapSpec spec, const Change& change) {
  change(spec);
  return spec;
}

class TensorMaps : public testing::Test {
 protected:
  std::string refusal(const TensorMapSpec& spec, std::uintptr_t address = 1 << 20) const {
    try {
      stream_->tensor_map(spec, reinterpret_cast<void*>(address));
    } catch (const Error& e) {
      EXPECT_EQ(e.status, Status::kInternalError);
      return e.what();
    }
    return "";
  }

  std::unique_ptr<Stream> stream_ = create_stream("cuda:0", nullptr);
};

TEST_F(TensorMaps, AreEncoded) {
  EXPECT_EQ(refusal(matrix()), "");
  EXPECT_EQ(refusal(images(64, 56, 56, 32)), "");
  EXPECT_EQ(refusal(but(images(64, 56, 56, 32),
                        [](auto& s) {
                          s.lower = {-128, -128};
                          s.upper = {127, 127};
                          s.steps = {1, 8, 8, 1};
                          s.box[1] = 1024;
                        })),
            "");
  for (const Element element : {Element::kBytes, Element::kFloat16, Element::kBfloat16})
    EXPECT_EQ(refusal(but(matrix(), [&](auto& s) { s.element = element; })), "");
  for (const Element element : {Element::kFloat32, Element::kTf32})
    EXPECT_EQ(refusal(but(matrix(),
                          [&](auto& s) {
                            s.element = element;
                            s.box[0] = 32;
                          })),
              "");
  const auto map = stream_->tensor_map(matrix(), Buffer(reinterpret_cast<void*>(1 << 20), 64));
  EXPECT_EQ(map.bits[0], (1u << 20) + 64) << "the buffer's offset counts";
}

TEST_F(TensorMaps, OfSmallTensorsLoseTheWrongBit) {
  constexpr std::uint64_t kBit = 1 << 21;
  const auto bit = [&](std::int64_t rows) {
    const auto spec = but(matrix(), [&](auto& s) { s.sizes[1] = rows; });
    return stream_->tensor_map(spec, reinterpret_cast<void*>(1 << 20)).bits[1] & kBit;
  };
  EXPECT_EQ(bit(511), 0u);
  EXPECT_EQ(bit(512), kBit) << "128 KiB";
}

TEST_F(TensorMaps, ThatTheDriverRefusesAreErrors) {
  const std::string text = refusal(but(matrix(), [](auto& s) { s.strides[1] = 250; }));
  for (const char* part : {"refuses a tiled tensor map", "rank 2", "128 1024", "250", "error 1"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  const TensorMapSpec tiled[] = {but(matrix(), [](auto& s) { s.rank = 0; }),
                                 but(matrix(), [](auto& s) { s.rank = 6; }),
                                 but(matrix(), [](auto& s) { s.box[0] = 128; }),  // more than the swizzle's span
                                 but(matrix(), [](auto& s) { s.swizzle = 64; }),
                                 but(matrix(), [](auto& s) { s.swizzle = 256; }),
                                 but(matrix(), [](auto& s) { s.box[0] = 4; }),
                                 but(matrix(), [](auto& s) { s.box[1] = 257; }),
                                 but(matrix(), [](auto& s) { s.box[1] = 0; }),
                                 but(matrix(), [](auto& s) { s.steps[1] = 9; }),
                                 but(matrix(), [](auto& s) { s.steps[1] = 0; }),
                                 but(matrix(), [](auto& s) { s.sizes[1] = 0; }),
                                 but(matrix(), [](auto& s) { s.sizes[1] = (std::int64_t{1} << 32) + 1; }),
                                 but(matrix(), [](auto& s) { s.strides[1] = std::int64_t{1} << 40; }),
                                 but(matrix(), [](auto& s) { s.strides[1] = -256; })};
  for (const TensorMapSpec& s : tiled) EXPECT_NE(refusal(s), "") << &s - tiled;
  EXPECT_NE(refusal(matrix(), (1 << 20) + 8), "") << "not aligned";
  const TensorMapSpec usual = images(64, 56, 56, 32);
  const TensorMapSpec im2col[] = {but(usual, [](auto& s) { s.rank = 2; }),
                                  but(usual, [](auto& s) { s.lower[0] = -129; }),
                                  but(usual, [](auto& s) { s.upper[1] = 128; }),
                                  but(usual, [](auto& s) { s.upper[0] = -56; }),  // nothing is left
                                  but(usual, [](auto& s) { s.box[0] = 128; }),
                                  but(usual, [](auto& s) { s.box[1] = 1025; }),
                                  images(4, 56, 56, 32)};
  for (const TensorMapSpec& s : im2col) EXPECT_NE(refusal(s), "") << &s - im2col;
}

TEST_F(TensorMaps, ExistOnNoCpu) {
  try {
    create_stream("cpu", nullptr)->tensor_map(matrix(), nullptr);
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.status, Status::kNotImplemented);
  }
}

TEST(CudaStream, ClearsInACapture) {
  const auto stream = create_stream("cuda:0", nullptr);
  std::array<char, 8> bytes{1, 2, 3, 4, 5, 6, 7, 8};
  ::setenv("FAKE_CUDA", "capture", 1);
  stream->clear(Buffer(bytes.data(), 2), 4);
  ::unsetenv("FAKE_CUDA");
  EXPECT_EQ(bytes, (std::array<char, 8>{1, 2, 0, 0, 0, 0, 7, 8}));
}

TEST(CudaStream, TakesArgumentsWithTensorMaps) {
  struct Arguments {
    TensorMap maps[31];
    int more[32];
  };
  static_assert(sizeof(Arguments) == 4096, "the most that CUDA takes");
  const auto stream = create_stream("cuda:0", nullptr);
  const auto kernel = stream->load("program")->kernel("entry");
  launch(*stream, *kernel, Launch{}, Arguments{});
}

TEST(CudaDevice, IsDescribedAsAUsualOne) {
  const DeviceInfo& device = create_stream("cuda:0", nullptr)->info();
  const DeviceInfo usual = usual_device("cuda-sm90");
  EXPECT_EQ(usual.units, device.units);
  EXPECT_EQ(usual.gpu.shared_bytes, device.gpu.shared_bytes);
  EXPECT_EQ(usual.gpu.shared_opt_in_bytes, std::size_t{232448});
  EXPECT_EQ(device.gpu.shared_opt_in_bytes, std::size_t{232448});
  EXPECT_EQ(device.gpu.matrix_flops.bits16, 4096);
  EXPECT_EQ(device.gpu.matrix_flops.tf32, 2048);
  EXPECT_EQ(device.gpu.matrix_flops.bits8, 8192);
  EXPECT_EQ(device.bandwidth_gbs, usual.bandwidth_gbs) << "the driver reports no memory clock";
  EXPECT_DOUBLE_EQ(device.gpu.clock_ghz, usual.gpu.clock_ghz);
  EXPECT_DOUBLE_EQ(device.fp32_gflops, usual.fp32_gflops);
  EXPECT_EQ(device.cache_bytes, usual.cache_bytes);
  constexpr double kTera = 1e-3;
  EXPECT_NEAR(usual.gpu.matrix_flops.bits16 * usual.units * usual.gpu.clock_ghz * kTera, 1070, 1);
  EXPECT_EQ(usual_device("cuda-sm75").gpu.matrix_flops.bits16, 0) << "unknown";
}

}  // namespace
}  // namespace polymio
