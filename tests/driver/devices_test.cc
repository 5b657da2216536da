// Devices in the driver; the kernel cache between processes.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <miopen/polymio.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/driver/drive.h"

namespace {

namespace fs = std::filesystem;

const std::string kHalfLine = "convfp16 -n 1 -c 3 -H 5 -W 5 -k 2 -y 3 -x 3 -F 1 -S ConvGpuReferenceFwd -i 1 ";

std::string absence(polymioDeviceKind_t kind) {
  const char* reason = nullptr;
  EXPECT_EQ(polymioGetDeviceAbsence(kind, &reason), miopenStatusSuccess);
  return reason ? reason : "";
}

TEST(DriverDevices, ListsDevicesAndReasonsForAbsentKinds) {
  const Outcome outcome = drive("devices");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_TRUE(has(outcome, "^cpu  "));
  const std::pair<polymioDeviceKind_t, std::string> kinds[] = {
      {polymioDeviceCuda, "cuda"}, {polymioDeviceHip, "hip"}, {polymioDeviceOpenCl, "opencl"}};
  for (const auto& [kind, name] : kinds)
    EXPECT_TRUE(has(outcome, absence(kind).empty() ? "^" + name + ":0 " : "^" + name + " +none: .+"));
  EXPECT_EQ(drive("devices --nonsense").status, 2);
}

TEST(DriverDevices, MissingOnesAreNamedWithTheReason) {
  if (absence(polymioDeviceHip).empty()) GTEST_SKIP() << "there is a HIP device";
  const Outcome outcome = drive(kHalfLine + "--device hip:0");
  EXPECT_NE(outcome.status, 0);
  EXPECT_TRUE(has(outcome, "miopenStatusNotInitialized: no device 'hip:0': "));
  EXPECT_TRUE(has(drive(kHalfLine + "--device toaster:0"), "miopenStatusBadParm: no device 'toaster:0'.*cpu"));
}

class KernelFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = absence(polymioDeviceOpenCl); !why.empty()) GTEST_SKIP() << why;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string command(const std::string& settings = "") const {
    return "MIOPEN_CUSTOM_CACHE_DIR=" + folder_.string() + " MIOPEN_LOG_LEVEL=5 " + settings + " " +
           POLYMIO_DRIVER_PATH + " " + kHalfLine + "--device opencl:0 -V 1";
  }
  Outcome compute(const std::string& settings = "") const {
    Outcome outcome = run(command(settings));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_TRUE(has(outcome, "Verifies OK"));
    return outcome;
  }
  static std::size_t compiled(const Outcome& outcome) { return count(outcome.text, "compiled primitives/"); }
  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    if (fs::exists(folder_))
      for (const auto& entry : fs::directory_iterator(folder_)) all.push_back(entry.path());
    return all;
  }

  fs::path folder_ = fs::temp_directory_path() / ("polymio-kernels." + std::to_string(static_cast<long>(getpid())));
};

TEST_F(KernelFiles, AreMadeOnceAndAgainWhenDamaged) {
  const std::size_t programs = compiled(compute());
  EXPECT_GE(programs, 1u);
  EXPECT_EQ(files().size(), programs);
  EXPECT_EQ(compiled(compute()), 0u);
  for (const fs::path& path : files()) fs::resize_file(path, fs::file_size(path) / 2);
  const Outcome damaged = compute();
  EXPECT_EQ(compiled(damaged), programs);
  EXPECT_EQ(count(damaged.text, "is damaged"), programs) << damaged.text;
  EXPECT_EQ(compiled(compute()), 0u);
}

TEST_F(KernelFiles, AreMadeByOneOfManyProcesses) {
  const std::size_t programs = compiled(compute());
  fs::remove_all(folder_);
  std::string all;
  for (int i = 0; i < 4; ++i) all += "(" + command() + ") & ";
  const Outcome outcome = run(all + "wait");
  EXPECT_EQ(count(outcome.text, "Verifies OK"), 4u) << outcome.text;
  EXPECT_EQ(compiled(outcome), programs) << outcome.text;
}

TEST_F(KernelFiles, AreNotKeptWhenTheCacheIsOff) {
  EXPECT_GE(compiled(compute("MIOPEN_DISABLE_CACHE=1")), 1u);
  EXPECT_TRUE(files().empty());
}

/// Other tests of kernels turn the optimizer of PoCL off, which takes half of the time.
TEST_F(KernelFiles, AreRightWhenTheCompilerOptimizes) {
  const Outcome outcome = run("MIOPEN_CUSTOM_CACHE_DIR=" + folder_.string() +
                              " " POLYMIO_DRIVER_PATH
                              " convfp16 -n 1 -c 8 -H 14 -W 14 -k 8 -y 3 -x 3 -p 1 -q 1 -F 1 -i 1 -V 1 "
                              "-S ConvGpuImplicitGemmFwd --device opencl:0");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_TRUE(has(outcome, "Verifies OK"));
}

TEST_F(KernelFiles, FollowTheSource) {
  const fs::path sources = folder_.string() + ".src";
  const auto copy = fs::copy_options::recursive | fs::copy_options::overwrite_existing;
  fs::create_directories(sources / "kernels");
  fs::create_directories(sources / "primitives/convolution");
  fs::copy(POLYMIO_SOURCE_DIR "/kernels/gpu", sources / "kernels/gpu", copy);
  fs::copy(POLYMIO_SOURCE_DIR "/primitives/convolution/gpu", sources / "primitives/convolution/gpu", copy);
  const std::string setting = "POLYMIO_KERNEL_DIR=" + sources.string();
  compute();
  EXPECT_EQ(compiled(compute(setting)), 0u) << "the same text is the same program";
  std::ofstream(sources / "kernels/gpu/portable/portable.h", std::ios::app) << "// changed\n";
  EXPECT_GE(compiled(compute(setting)), 1u);
  fs::remove_all(sources);
}

}  // namespace
