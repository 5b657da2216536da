// The built driver as a process: its output lines and exit statuses.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "driver/run/conv_verify.h"
#include "tests/driver/drive.h"

namespace {

class TemporaryFile {
 public:
  TemporaryFile(const std::string& name, const std::string& text)
      : path_(std::filesystem::temp_directory_path() / (name + "." + std::to_string(static_cast<long>(getpid())))) {
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path() const { return path_.string(); }
  std::string content() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

 private:
  std::filesystem::path path_;
};

const std::string kSmall = "-n 2 -c 8 -H 9 -W 7 -k 6 -y 3 -x 3 -p 1 -q 1 -i 2 ";

TEST(Driver, VersionAndHelp) {
  const Outcome version = drive("--version");
  EXPECT_EQ(version.status, 0);
  EXPECT_EQ(version.text, "MIOpen (version: 3.5.2)\n");
  for (const char* arguments : {"--help", "conv --help", "conv -h", "conv '-?'"}) {
    const Outcome help = drive(arguments);
    EXPECT_EQ(help.status, 0) << arguments;
    EXPECT_TRUE(has(help, "-n, --batchsize .*\\[100\\]")) << arguments;
  }
}

TEST(Driver, BadArgumentsFailWithAText) {
  const struct {
    const char* arguments;
    const char* pattern;
  } cases[] = {
      {"crnn",
       "Incorrect BaseArg 'crnn', allowed: conv convfp16 .* activ .* activfp64 bias .* dataset db demo devices doctor "
       "options report tune warm$"},
      {"conv -n 0", "-n --batchsize: bad value '0', allowed: an integer from 1"},
      {"conv --frobnicate 1", "unknown flag '--frobnicate'"},
      {"conv --device warp:9 -n 1", "warp:9"},
      {"conv --from-list /nonexistent/list", "cannot open"},
      {"conv -n 1 -F 1 -S 998", "no solution '998'"},
      {"conv -n 1 -F 1 -S NoSuchSolver", "no solution 'NoSuchSolver'"},
      {"conv -n 1 -F 1 -S 0 --beta 2", "--alpha 1 --beta 2: immediate mode .* allows 1 and 0 only"},
      {"conv -n 1 -F 1 -d /nonexistent/x.bin", "cannot open '/nonexistent/x.bin'"},
  };
  for (const auto& item : cases) {
    const Outcome outcome = drive(item.arguments);
    EXPECT_EQ(outcome.status, 1) << item.arguments;
    EXPECT_TRUE(has(outcome, item.pattern)) << item.arguments;
  }
}

TEST(Driver, LinesThatOtherProgramsParse) {
  const Outcome outcome = drive("conv " + kSmall + "-t 1 -w 1");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.text.rfind("MIOpenDriver conv -n 2 -c 8", 0), 0u) << outcome.text;
  for (const std::string title : {"Forward", "Backward Data", "Backward Weights"}) {
    EXPECT_TRUE(has(outcome, "^MIOpen " + title + " Conv. Algorithm: \\d+, Solution: \\d+/\\w+$"));
    EXPECT_TRUE(has(outcome, "^GPU Kernel Time " + title + " Conv. Elapsed: \\d+\\.\\d+ ms \\(average\\)$"));
    EXPECT_TRUE(
        has(outcome, "^Wall-clock Time " + title + " Conv. Elapsed: .* ms, Auxiliary API calls: .* ms \\(GWSS: "));
  }
  EXPECT_EQ(count(outcome.text,
                  "stats: name, n, c, ho, wo, x, y, k, flopCnt, bytesRead, "
                  "bytesWritten, GFLOPs, GB/s, timeMs\n"),
            3u);
  // 2*2*8*3*3*6*9*7 operations; x and w are read, y is written, 4 bytes each.
  EXPECT_TRUE(has(outcome, "^stats: fwd-conv3x3u1, 2, 8, 9, 7, 3, 3, 6,  108864, 5760, 3024, "));
  EXPECT_TRUE(has(outcome, "^stats: bwd-conv3x3u1, .*,  108864, 4752, 4032, "));
  EXPECT_TRUE(has(outcome, "^stats: wrw-conv3x3u1, .*,  108864, 7056, 1728, "));
  EXPECT_TRUE(has(outcome, "^Forward Convolution Verifies OK on CPU reference \\(.* <=? .*\\)$"));
  EXPECT_TRUE(has(outcome, "^Backward Convolution Data Verifies OK on CPU reference"));
  EXPECT_TRUE(has(outcome, "^Backward Convolution Weights Verifies OK on CPU reference"));
}

TEST(Driver, EveryBaseArgumentVerifies) {
  for (const std::string base : {"conv", "convfp16", "convbfp16", "convint8", "convfp8", "convbfp8", "convfp8_e4m3fn",
                                 "convfp8_e5m2", "convfp64"}) {
    const Outcome outcome = drive(base + " " + kSmall);
    EXPECT_EQ(outcome.status, 0) << base;
    EXPECT_EQ(count(outcome.text, "Verifies OK"), 3u) << outcome.text;
  }
}

TEST(Driver, ShapesAndScalarsVerify) {
  for (const std::string flags :
       {"-m trans -u 2 -v 2 -X 1 -Y 1", "-_ 1 -I NWC", "-_ 3 -! 4 --pad_d 1 -I NDHWC -O NDHWC", "-g 2",
        "--pmode same -u 2", "-z same -y 4 -x 2", "--conv_stride_d 0 --dilation_d 0 --in_d 0",
        "-I NHWC -O NHWC -f NHWC", "--alpha 0.5 --beta 2", "-U fp8 -R bfp8 -T fp8", "--in_strides 1000,100,10,1",
        "--deterministic 1 --math strict"}) {
    const Outcome outcome = drive("conv " + kSmall + flags);
    EXPECT_EQ(outcome.status, 0) << flags;
    EXPECT_EQ(count(outcome.text, "Verifies OK"), 3u) << outcome.text;
  }
}

TEST(Driver, BiasIsVerifiedToo) {
  const Outcome outcome = drive("conv " + kSmall + "-b 1 -F 3");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_TRUE(has(outcome, "^Forward Convolution Bias Verifies OK"));
  EXPECT_TRUE(has(outcome, "^Backward Convolution Bias Verifies OK"));
}

TEST(Driver, OtherPrimitivesVerify) {
  for (const std::string base :
       {"activ", "activfp16", "activbfp16", "activfp64", "bias", "biasfp16", "biasfp64", "softmax", "softmaxbfp16"}) {
    for (const std::string flags : {"", "-_ 3 -! 4 -I NDHWC -O NDHWC", "-_ 0", "--in_strides 200,30,6,1 -t 1"}) {
      const Outcome outcome = drive(base + " -n 2 -c 5 -H 4 -W 6 -i 2 " + flags);
      EXPECT_EQ(outcome.status, 0) << base << ' ' << flags << '\n' << outcome.text;
      EXPECT_EQ(count(outcome.text, "Verifies OK"), 2u) << outcome.text;
    }
  }
  const Outcome scaled =
      drive("activ -n 2 -m elu -A 2 --scale_alpha 3 --scale_beta -1 --din_strides 3072,1024,32,1 -t 1");
  EXPECT_EQ(count(scaled.text, "Verifies OK"), 2u) << scaled.text;
  EXPECT_TRUE(has(scaled, "^GPU Kernel Time Backward Activation Elapsed: \\d+\\.\\d+ ms \\(average\\)$"));
  EXPECT_TRUE(has(scaled, "^stats: fwd-activ-elu, 2x3x32x32, 73728, "));
  const Outcome clamped = drive("activ -n 2 -m clamp -A -0.5 -B 0.5");
  EXPECT_EQ(count(clamped.text, "Verifies OK"), 2u) << clamped.text;
  EXPECT_TRUE(has(drive("activ -S NoSuchSolver -n 1"), "NoSuchSolver"));
}

TEST(Driver, ListsOfOtherPrimitives) {
  const TemporaryFile list("activ.txt", "activ -n 1 -c 2 -H 3 -W 4 -m tanh\nconv -n 1\nactivfp16 -n 1 -F 2\n");
  const Outcome outcome = drive("activ --from-list " + list.path() + " --json -F 1");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_TRUE(has(outcome, "\"problem\":\"activ -n 1 -c 2 -H 3 -W 4 -m 2 -F 1\""));
  EXPECT_TRUE(has(outcome, "\"direction\":\"bwd\".*\"problem\":\"activfp16 -n 1 .* -F 2\""));
  EXPECT_EQ(count(outcome.text, "\"direction\""), 2u) << outcome.text;
  EXPECT_TRUE(has(drive("bias --from-list " + list.path()), "has no convolution bias, allowed"));
}

TEST(Driver, ImmediateMode) {
  const Outcome best = drive("conv " + kSmall + "-F 1 -S 0 -t 1");
  EXPECT_EQ(best.status, 0);
  EXPECT_TRUE(has(best, "^Forward Conv solutions available: [1-9]"));
  EXPECT_TRUE(has(best, "^- id: \\d+ algo: \\d+, time: .* ms, ws: \\d+, name: \\w+"));
  const Outcome named = drive("conv " + kSmall + "-F 1 -S ConvCpuReferenceFwd -t 1");
  EXPECT_EQ(named.status, 0);
  EXPECT_TRUE(has(named, "Solution: \\d+/ConvCpuReferenceFwd$"));
  const Outcome all = drive("conv " + kSmall + "-F 1 --all-solvers -t 1");
  EXPECT_EQ(all.status, 0);
  EXPECT_EQ(count(all.text, "- id: "), count(all.text, "Verifies OK"));
  EXPECT_TRUE(has(all, "ConvCpuReferenceFwd"));
}

/// Recomputes the checksum of a cache file of expected values, FNV-1a over its name and changed contents.
void renew_checksum(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&](const std::string& text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  };
  bytes.resize(bytes.size() - sizeof hash);
  add(path.filename().string());
  add(bytes);
  bytes.append(reinterpret_cast<const char*>(&hash), sizeof hash);
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(Driver, WrongResultsFail) {
  // The cached expected values are wrong and their checksum is valid, so a correct output must be refused.
  const auto folder =
      std::filesystem::temp_directory_path() / ("polymio-cache." + std::to_string(static_cast<long>(getpid())));
  const std::string line = "conv " + kSmall + "-F 1 -C " + folder.string();
  EXPECT_EQ(drive(line).status, 0);
  EXPECT_EQ(drive(line).status, 0);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    const double wrong = 1;
    file.write(reinterpret_cast<const char*>(&wrong), sizeof wrong);
    file.close();
    renew_checksum(entry.path());
  }
  const Outcome spoilt = drive(line);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(spoilt.status, 1);
  EXPECT_TRUE(has(spoilt, "^Forward Convolution FAILED: .* > .*1 wrong outputs; worst at 0"));
}

TEST(Driver, WorksWithFewerThreadsThanRequested) {
  if (geteuid() != 0) GTEST_SKIP() << "the limit of processes does not count those of root";
  const std::string driver = POLYMIO_DRIVER_PATH, nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups ";
  if (run(nobody + "test -x '" + driver + "'").status != 0) GTEST_SKIP() << "another user may not run the driver";
  // Large enough that filling the tensors uses threads, too.
  const Outcome alone = run(nobody + "prlimit --nproc=1 '" + driver + "' conv -n 4 -c 64 -H 56 -W 56 -k 16 -F 1 -i 1");
  EXPECT_EQ(alone.status, 0) << alone.text;
  EXPECT_TRUE(has(alone, "Verifies OK"));
}

TEST(Driver, JsonAndExplain) {
  const Outcome json = drive("conv " + kSmall + "-F 5 --json --explain");
  EXPECT_EQ(json.status, 0);
  EXPECT_EQ(count(json.text, "\n"), 2u) << json.text;
  EXPECT_TRUE(has(json, "^\\{.*\"direction\":\"fwd\".*\"solvers\":\\[.*\\}$"));
  EXPECT_TRUE(has(json, "^\\{.*\"direction\":\"wrw\".*\\}$"));
  const Outcome table = drive("conv " + kSmall + "-F 1 --explain");
  EXPECT_TRUE(has(table, "ConvCpuReferenceFwd +Direct +[0-9.]+"));
}

TEST(Driver, ListsAndReports) {
  const TemporaryFile list("list.txt",
                           "# a list\n\nconv " + kSmall + "-F 1  # one direction\n" + "convfp16 " + kSmall + "\n");
  const TemporaryFile report("report.html", "");
  const Outcome good = drive("conv --from-list " + list.path() + " --report " + report.path());
  EXPECT_EQ(good.status, 0) << good.text;
  EXPECT_EQ(count(good.text, "verified all"), 4u) << good.text;
  EXPECT_TRUE(has(good, "^2 problems, 4 runs, 0 failed"));
  const std::string page = report.content();
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_NE(page.find("</html>"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos) << "the page must not need a network";
  EXPECT_EQ(page.find("<script"), std::string::npos);

  const TemporaryFile bad("bad.txt", "conv " + kSmall + "\nconv -n zero\n");
  const Outcome refused = drive("conv --from-list " + bad.path());
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(has(refused, ":2: -n --batchsize: bad value 'zero'"));
}

// The samples of a problem have a bounded number of products, however large the tensors are.
TEST(Driver, SamplesAreAsManyAsAreAffordable) {
  namespace ref = polymio::reference;
  using polymio::driver::affordable_samples;
  for (const std::int64_t n : {1, 32, 64, 65536}) {
    ref::Convolution p;
    p.x = ref::Tensor(ref::Type::kFloat, {n, 64, 223, 223});
    p.w = ref::Tensor(ref::Type::kFloat, {64, 64, 3, 3});
    p.y = ref::Tensor(ref::Type::kFloat, {n, 64, 112, 112});
    p.pad = p.dilation = {1, 1};
    p.stride = {2, 2};
    for (const auto direction :
         {ref::Direction::kForward, ref::Direction::kBackwardData, ref::Direction::kBackwardWeights}) {
      p.direction = direction;
      const std::int64_t samples = affordable_samples(p, 4096);
      EXPECT_GE(samples, 64);
      EXPECT_TRUE(samples == 64 || samples * p.reduction_length() <= 1000000000) << samples;
      EXPECT_EQ(samples == 4096, direction != ref::Direction::kBackwardWeights || n == 1) << samples;
    }
  }
  const Outcome outcome = drive("conv -n 16 -c 32 -H 128 -W 128 -k 64 -p 1 -q 1 -F 4 -i 1 -P 0");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_TRUE(has(outcome, "^3814 sampled outputs of 18432 compared, all corners included"));
}

TEST(Driver, LargeProblemsAreSampled) {
  const Outcome outcome = drive("conv -n 8 -c 128 -H 56 -W 56 -k 128 -p 1 -q 1 -F 1 -i 1 -P 0");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_TRUE(has(outcome, "^4096 sampled outputs of 3211264 compared, all corners included"));
}

}  // namespace
