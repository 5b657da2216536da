// The program bench/gpu_rig on whatever OpenCL device there is.
// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "tests/driver/drive.h"

namespace {

namespace fs = std::filesystem;

class GpuRig : public InFolder {
 protected:
  void SetUp() override {
    InFolder::SetUp();
    if (!fs::exists(program())) GTEST_SKIP() << "built without the benchmarks";
    std::ofstream(folder_ / "problems")
        << "# Problems of one, two and three dimensions\n"
           "convfp16 -n 2 -c 16 -H 9 -W 9 -k 16 -y 3 -x 3 -p 1 -q 1 -F 1  # plane small\n"
           "conv -_ 3 -n 1 -c 8 -! 4 -H 5 -W 6 -k 8 -@ 3 -y 3 -x 3 -$ 1 -p 1 -q 1 -# 1 -F 1  # volume small\n";
    if (rig("--problems problems --seconds 1ms").text.find("no device 'opencl:0'") != std::string::npos)
      GTEST_SKIP() << "no OpenCL device";
  }

  static fs::path program() { return fs::path(POLYMIO_DRIVER_PATH).parent_path() / "gpu_rig"; }

  Outcome rig(const std::string& flags, const std::string& environment = "") const {
    return run("cd " + folder_.string() + " && POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable " + environment + " " +
               program().string() + " --device opencl:0 --sample 1 --patience 600 " + flags);
  }

  std::vector<nlohmann::json> rows(const std::string& name) const {
    std::ifstream in(folder_ / name);
    std::vector<nlohmann::json> all;
    for (std::string line; std::getline(in, line);) all.push_back(nlohmann::json::parse(line));
    return all;
  }
};

TEST_F(GpuRig, MeasuresEveryVariantOnce) {
  const std::string flags = "--problems problems --solver ConvGpuImplicitGemm --rounds 2 --out rows ";
  const Outcome first = rig(flags + "--only plane --points default");
  EXPECT_EQ(first.status, 0) << first.text;
  EXPECT_TRUE(has(first, R"(^\| plane \| fwd \| fp16 \| ConvGpuImplicitGemmFwd \| [0-9.]+ \|.* \| 1 of 1 \|$)"));
  const std::size_t planes = rows("rows").size();
  const Outcome second = rig(flags + "--points default --merge rows");
  EXPECT_EQ(second.status, 0) << second.text;
  std::set<std::string> directions, variants;
  for (const auto& row : rows("rows")) {
    EXPECT_EQ(row.at("state"), "timed") << row;
    EXPECT_GT(row.at("us"), 0.0) << row;
    EXPECT_GT(row.at("error_ratio"), 0.0) << row;
    if (row.at("name") == "volume") directions.insert(row.at("direction"));
    variants.insert(row.at("problem").get<std::string>() + row.at("solver").get<std::string>() +
                    row.at("point").get<std::string>());
  }
  EXPECT_GT(rows("rows").size(), planes);
  EXPECT_EQ(variants.size(), rows("rows").size()) << "a variant was measured again";
  EXPECT_EQ(directions, std::set<std::string>{"fwd"});
  const Outcome tables = rig("--merge rows");
  EXPECT_TRUE(has(tables, R"(^\| plane \| fwd \|)"));
  EXPECT_TRUE(has(tables, R"(^\| ConvGpuImplicitGemmFwd \| fp16 \| 1 \|)"));
}

TEST_F(GpuRig, EndsInTime) {
  const Outcome outcome = rig("--problems problems --seconds 1ms");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_TRUE(has(outcome, "^not measured: ([0-9]+) of \\1 variants$"));
}

TEST_F(GpuRig, FindsOneWrongElement) {
  const fs::path sources = folder_ / "src", kernel = sources / "primitives/convolution/gpu/implicit_gemm_general.cl";
  fs::create_directories(sources / "kernels");
  fs::copy(POLYMIO_SOURCE_DIR "/kernels/gpu", sources / "kernels/gpu", fs::copy_options::recursive);
  fs::copy(POLYMIO_SOURCE_DIR "/primitives", sources / "primitives", fs::copy_options::recursive);
  std::string text = read(fs::relative(kernel, folder_));
  const std::string result = "SCALAR v = alpha * (SCALAR)sum;";
  ASSERT_NE(text.find(result), std::string::npos);
  std::ofstream(kernel) << text.replace(text.find(result), result.size(),
                                        "SCALAR v = alpha * (SCALAR)sum + (at == 77);");
  const Outcome outcome =
      rig("--problems problems --only plane --solver ConvGpuImplicitGemm --points default --out rows",
          "POLYMIO_KERNEL_DIR=" + sources.string());
  EXPECT_EQ(outcome.status, 1) << outcome.text;
  EXPECT_TRUE(has(outcome, "^WRONG ConvGpuImplicitGemmFwd .*: the element at offset 77 is .*, should be "));
  ASSERT_EQ(rows("rows").size(), 1u);
  EXPECT_EQ(rows("rows")[0].at("state"), "wrong");
}

TEST_F(GpuRig, RefusesWhatItDoesNotKnow) {
  std::ofstream(folder_ / "bad") << "conv -n 1 -c 0\n";
  const std::pair<std::string, std::string> cases[] = {
      {"", "^gpu_rig: --problems is missing, allowed: a file of driver lines$"},
      {"--problems missing", "^gpu_rig: --problems: cannot open 'missing'$"},
      {"--problems bad", "^gpu_rig: bad:1: .*bad value '0', allowed: "},
      {"--problems problems --points some", "^gpu_rig: --points: bad value 'some', allowed: default, all, "},
      {"--problems problems --solver None", "^gpu_rig: no solver that --solver names serves"},
  };
  for (const auto& [flags, error] : cases) {
    const Outcome outcome = rig(flags);
    EXPECT_EQ(outcome.status, 2) << flags;
    EXPECT_TRUE(has(outcome, error)) << flags;
  }
  std::ofstream(folder_ / "rows") << "{}\n";
  const Outcome outcome = rig("--merge rows");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(has(outcome, "^gpu_rig: rows:1: not a row of gpu_rig: "));
}

}  // namespace
