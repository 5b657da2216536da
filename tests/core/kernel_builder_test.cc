// Kernel sources and their compilation: on OpenCL if there is a device, and by NVRTC without a device.
// SPDX-License-Identifier: MIT
#include "core/kernel_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/error.h"
#include "primitives/convolution/convolution.h"
#include "tools/kernel_list.h"

namespace polymio {
namespace {

// Per device: limit of the programs that a first start compiles. The general matrix product and the depthwise windows,
// which replace the reference kernel, the tensor core tiles, which are compiled for each layout, and the copies for
// sm90's kernels, of 16 bits, 8-bit floats, parts of fp32 and merged groups, are among them.
constexpr std::size_t kMostBasePrograms = 190;
constexpr const char* kReference = "primitives/convolution/gpu/reference.cl";

KernelSpec reference(const std::string& type, const std::string& extra = "-DFP64") {
  return {kReference, "reference_forward", {"-DIN=" + type, "-DOUT=" + type, "-DSUM=real", extra}};
}

/// The text of the error, "" if there is none.
std::string error_of(const std::function<void()>& action, Status status) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_EQ(e.status, status) << e.what();
    return e.what();
  }
  return "";
}

TEST(KernelSources, AreWholeAndSelfContained) {
  const auto programs = kernel_programs();
  ASSERT_FALSE(programs.empty());
  for (const auto& path : programs) {
    const std::string text = kernel_source(path);
    EXPECT_EQ(text.find("#include \""), std::string::npos) << path;
    if (path.ends_with(".cu")) continue;  // has no dialect
    EXPECT_NE(text.find("KERNEL"), std::string::npos) << path;
    const std::size_t first = text.find("typedef long i64;");
    EXPECT_NE(first, std::string::npos) << path << " does not use the dialect";
    EXPECT_EQ(text.find("typedef long i64;", first + 1), std::string::npos) << path << " has it twice";
  }
  EXPECT_NE(error_of([] { kernel_source("no/such.cl"); }, Status::kInternalError).find("no/such.cl"),
            std::string::npos);
}

TEST(KernelSources, ComeFromTheFolderOfTheEnvironment) {
  ::setenv("POLYMIO_KERNEL_DIR", "/nonexistent", 1);
  EXPECT_NE(error_of([] { kernel_source(kReference); }, Status::kInternalError).find("/nonexistent"),
            std::string::npos);
  ::unsetenv("POLYMIO_KERNEL_DIR");
}

std::unique_ptr<Compiler> nvrtc() {
  try {
    return create_compiler("cuda-sm90");
  } catch (const Error& e) {
    EXPECT_EQ(e.status, Status::kNotInitialized);
    std::printf("%s\n", e.what());
    return nullptr;
  }
}

TEST(Nvrtc, CompilesWithoutADevice) {
  const auto compiler = nvrtc();
  if (!compiler) GTEST_SKIP() << "no NVRTC";
  EXPECT_NE(compiler->identity().find("sm_90a"), std::string::npos) << compiler->identity();
  for (const char* type : {"fp32", "fp16", "bf16", "fp64"})
    EXPECT_EQ(compile_program(*compiler, reference(type)).binary.substr(1, 3), "ELF") << type;
}

TEST(Nvrtc, CompilesASampleOfEverySource) {
  const auto compiler = nvrtc();
  if (!compiler) GTEST_SKIP() << "no NVRTC";
  std::vector<KernelSpec> sample;
  const DeviceInfo device = usual_device("cuda-sm90");
  for (const KernelSpec& spec : listed_programs(device))
    if (std::none_of(sample.begin(), sample.end(), [&](const auto& s) { return s.source == spec.source; }))
      sample.push_back(spec);
  // The question is whether they compile, and the assembler's optimizations take time. Templates are refused without.
  for (KernelSpec& spec : sample)
    if (spec.instantiation.empty()) spec.options.emplace_back("--ptxas-options=-O0");
  for (const std::string& source : kernel_programs())  // Sm90Templates.* has C++ templates
    EXPECT_TRUE(source.ends_with(".cu") ||
                std::any_of(sample.begin(), sample.end(), [&](const auto& s) { return s.source == source; }))
        << source << " is in no program";
  compile_to_disk(*compiler, sample);
  EXPECT_EQ(compile_to_disk(*compiler, sample), 0u) << "they are on disk now";
}

/// A program of each type and direction, the architectures in turn.
TEST(Nvrtc, CompilesTensorTilesForGpusSinceAmpere) {
  if (!nvrtc()) GTEST_SKIP() << "no NVRTC";
  constexpr const char* kArchitectures[] = {"cuda-sm80", "cuda-sm86", "cuda-sm89", "cuda-sm90"};
  std::set<std::string> kinds;
  for (const KernelSpec& spec : convolution::base_programs(usual_device(kArchitectures[0]), true)) {
    if (spec.entry != "tensor_tiles" || !kinds.insert(spec.options[0] + spec.options[2]).second) continue;
    const char* const architecture = kArchitectures[kinds.size() % std::size(kArchitectures)];
    SCOPED_TRACE(architecture);
    EXPECT_FALSE(compile_program(*create_compiler(architecture), spec).binary.empty());
  }
  EXPECT_EQ(kinds.size(), 10u) << "three float types in three directions, int8 forward";
}

TEST(BasePrograms, AreFew) {
  const auto programs = convolution::base_programs(usual_device("cuda-sm90"));
  EXPECT_FALSE(programs.empty());
  EXPECT_LE(programs.size(), kMostBasePrograms);
  EXPECT_TRUE(convolution::base_programs(create_stream("cpu", nullptr)->info()).empty());
}

TEST(Nvrtc, ErrorsCarryTheCompilersText) {
  const auto compiler = nvrtc();
  if (!compiler) GTEST_SKIP() << "no NVRTC";
  const auto text = error_of([&] { compile_program(*compiler, reference("fp3")); }, Status::kInternalError);
  EXPECT_NE(text.find("stored_fp3"), std::string::npos) << text;
}

class OnOpenCl : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto& why = absence(DeviceKind::kOpenCl); !why.empty()) GTEST_SKIP() << why;
    stream_ = create_stream("opencl:0", nullptr);
  }
  std::unique_ptr<Stream> stream_;
};

TEST_F(OnOpenCl, ManyProgramsAreBuiltAtOnce) {
  const std::vector<KernelSpec> specs = {reference("fp32"), reference("fp16"), reference("bf16"), reference("fp32")};
  const Kernels kernels = build_kernels(*stream_, specs);
  ASSERT_EQ(kernels.size(), specs.size());
  for (const auto& k : kernels) EXPECT_TRUE(k);
  EXPECT_NE(kernels[0], kernels[3]) << "arguments are part of a kernel: each plan needs its own";
}

TEST_F(OnOpenCl, ErrorsCarryTheCompilersTextAndLeaveNothing) {
  const KernelSpec wrong = reference("fp3");
  for (int i = 0; i < 2; ++i) {
    const auto text = error_of([&] { build_kernels(*stream_, {&wrong, 1}); }, Status::kInternalError);
    EXPECT_NE(text.find("stored_fp3"), std::string::npos) << text;
  }
  KernelSpec missing = reference("fp32");
  missing.entry = "no_such_entry";
  EXPECT_NE(error_of(
                [&] {
                  build_kernels(*stream_, {&missing, 1});
                },
                Status::kInternalError)
                .find("no_such_entry"),
            std::string::npos);
}

TEST_F(OnOpenCl, DamagedProgramsAreRefused) { EXPECT_FALSE(stream_->load("no program")); }

TEST_F(OnOpenCl, MemoryIsCopiedEveryWay) {
  const std::size_t bytes = 1000;
  void* a = stream_->allocate(bytes);
  void* b = stream_->allocate(bytes);
  std::vector<unsigned char> in(bytes), out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) in[i] = static_cast<unsigned char>(7 * i);
  stream_->upload(a, in.data(), bytes);
  stream_->copy({b, 100}, {a, 50}, bytes - 100);
  stream_->download(out.data(), {b, 100}, bytes - 100);
  EXPECT_TRUE(std::equal(out.begin(), out.end() - 100, in.begin() + 50));
  stream_->deallocate(a);
  stream_->deallocate(b);
  stream_->deallocate(nullptr);
  error_of([&] { stream_->deallocate(stream_->allocate(SIZE_MAX / 4)); }, Status::kAllocFailed);
}

TEST_F(OnOpenCl, EventsTellTimeInOrder) {
  const auto first = stream_->record(), second = stream_->record();
  EXPECT_GE(stream_->elapsed_us(*first, *second), 0);
  EXPECT_EQ(stream_->elapsed_us(*first, *first), 0);
}

}  // namespace
}  // namespace polymio
