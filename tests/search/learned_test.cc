// The learned model: the predictions of training, damaged files, declined problems, the order of model files.
// SPDX-License-Identifier: MIT
#include "search/learned.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "bench/problem_of.h"

namespace polymio::search {
namespace {

using convolution::Problem;

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

/// Named like a real solver, with an estimate from the file.
struct Fixed : Solver<Problem> {
  std::string name;
  double us;
  Fixed(std::string n, double estimate) : name(std::move(n)), us(estimate) {}
  SolverInfo info() const override {
    return {.id = 1, .name = name.c_str(), .method = "GEMM", .devices = static_cast<unsigned>(DeviceKind::kCpu)};
  }
  Verdict is_applicable(const DeviceInfo&, const Problem&) const override { return {}; }
  double estimate(const DeviceInfo&, const Problem&, const TunePoint&) const override { return us; }
  Invoker build(Stream&, const Problem&, const TunePoint&) const override {
    return [](Stream&, const Args&) {};
  }
};

constexpr const char* kLine = "conv -n 4 -c 64 -k 64 -H 28 -y 3 -p 1 -W 28 -x 3 -q 1 -F 1";

std::vector<search::Candidate> solutions_of(Handle& handle) {
  const convolution::Problem problem = problem_of(kLine);
  return convolution::make_call(handle, problem, {}).solutions();
}

class LearnedTest : public testing::Test {
 protected:
  void SetUp() override {
    if (embedded_models().empty()) GTEST_SKIP() << "a build without learned models";
    const EmbeddedModel& embedded = embedded_models()[0];
    file = {reinterpret_cast<const char*>(embedded.file.data()), embedded.file.size()};
    device = devices()[0];
    device.architecture = embedded.architecture;
    device.isa = CpuIsa::kAvx512Bf16;
    device.threads = device.units = 1;
    device.fp32_gflops = 180;
    device.bandwidth_gbs = 29;
    folder = std::filesystem::temp_directory_path() / ("polymio_learned_" + std::to_string(::getpid()) + "_" +
                                                       testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder);
    ::setenv("MIOPEN_USER_DB_PATH", folder.c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  void put(std::string_view bytes) const {
    std::ofstream(folder / (device.architecture + ".model"), std::ios::binary) << bytes;
  }
  std::string declined(const Problem& p) const {
    return parse_model(file)->predict(device, p, convolution::solvers(p.direction))->declined;
  }

  std::string file;
  DeviceInfo device;
  std::filesystem::path folder;
};

TEST_F(LearnedTest, PredictsWhatTrainingPredicted) {
  const auto model = parse_model(file);
  std::ifstream in(POLYMIO_LEARNED_CASES);
  int cases = 0;
  for (std::string line; std::getline(in, line); ++cases) {
    SCOPED_TRACE(line);
    const std::size_t first = line.find(" | "), second = line.find(" | ", first + 3);
    const Problem problem = problem_of(line.substr(0, first));
    std::istringstream machine(line.substr(first + 3, second - first - 3)), rest(line.substr(second + 3));
    machine >> device.threads >> device.fp32_gflops >> device.bandwidth_gbs;
    std::deque<Fixed> solvers;
    std::vector<const SolverBase*> list;
    std::vector<double> wanted;
    std::string name;
    for (double estimate = 0, us = 0; rest >> name >> estimate >> us; wanted.push_back(us))
      list.push_back(&solvers.emplace_back(name, estimate));
    const auto prediction = model->predict(device, problem, list);
    ASSERT_EQ(prediction->declined, "");
    for (std::size_t i = 0; i < list.size(); ++i) EXPECT_NEAR(prediction->us[i] / wanted[i], 1, 1e-3) << list[i];
  }
  EXPECT_GE(cases, 20);
}

TEST_F(LearnedTest, RefusesAModelOfOtherEstimates) {
  const std::string key = fmt::format("\"estimates\":{}", kEstimates);
  const std::size_t line = file.find('\n') + 1, header = std::stoul(file.substr(file.rfind(' ', line) + 1));
  std::string body = file.substr(line);
  ASSERT_LT(body.find(key), header);
  body.replace(body.find(key), key.size(), "\"estimates\":9");
  const std::string other = fmt::format("polymio-model 2 {:016x} {}\n", fnv1a(body), header) + body;
  try {
    parse_model(other);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("estimates of version 9"), std::string::npos) << e.what();
  }
}

TEST_F(LearnedTest, AsksTheSameTwiceAndGetsTheSameObject) {
  const auto model = parse_model(file);
  const Problem p = problem_of(kLine);
  const auto solvers = convolution::solvers(p.direction);
  const auto first = model->predict(device, p, solvers);
  EXPECT_EQ(first, model->predict(device, p, solvers));
  device.threads = 2;
  EXPECT_NE(first, model->predict(device, p, solvers)) << "other threads are another question";
}

TEST_F(LearnedTest, DeclinesTypesThatAmxMultiplies) {
  device.isa = CpuIsa::kAvx512Amx;
  EXPECT_EQ(declined(problem_of(kLine)), "");
  EXPECT_EQ(declined(problem_of(std::string("convfp16") + (kLine + 4))), "");
  for (const char* base : {"convbfp16", "convint8"}) {
    const std::string type = std::string(base) == "convint8" ? " --out_type int32" : "";
    EXPECT_NE(declined(problem_of(base + std::string(kLine + 4) + type)).find("without AMX"), std::string::npos)
        << base;
  }
}

TEST_F(LearnedTest, RefusesDamagedFiles) {
  EXPECT_NO_THROW(parse_model(file));
  for (const std::size_t length : {std::size_t{0}, std::size_t{10}, file.size() / 2, file.size() - 1})
    EXPECT_THROW(parse_model(std::string_view(file).substr(0, length)), Error) << length;
  EXPECT_THROW(parse_model(file + "x"), Error);
  for (std::size_t at = 0; at < file.size(); at += at < 100 ? 1 : 997)
    for (const int bit : {0, 5}) {
      std::string flipped = file;
      flipped[at] = static_cast<char>(flipped[at] ^ 1 << bit);
      EXPECT_THROW(parse_model(flipped), Error) << "bit " << bit << " of byte " << at;
    }
}

TEST_F(LearnedTest, RefusesAnotherVersion) {
  std::string other = file;
  other.replace(0, std::string("polymio-model 2").size(), "polymio-model 1");
  try {
    parse_model(other);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("version 1"), std::string::npos) << error.what();
  }
}

TEST_F(LearnedTest, TheUsersFileTakesPrecedence) {
  const Model* built_in = learned_model(device);
  ASSERT_NE(built_in, nullptr);
  ::setenv("MIOPEN_USER_DB_PATH", (folder / "other").c_str(), 1);
  std::filesystem::create_directories(folder / "other");
  folder /= "other";
  put(file);
  EXPECT_NE(learned_model(device), nullptr);
  EXPECT_NE(learned_model(device), built_in);
  folder = folder.parent_path();
}

TEST_F(LearnedTest, EstimatesDecideWhenTheUsersFileIsDamaged) {
  put(file.substr(0, file.size() / 2));
  std::string reason;
  EXPECT_EQ(learned_model(device, &reason), nullptr);
  EXPECT_NE(reason.find("checksum"), std::string::npos) << reason;
  Handle handle("cpu", nullptr);
  if (handle.device().architecture != device.architecture) return;
  for (const auto& c : solutions_of(handle)) EXPECT_EQ(c.source, search::Source::kEstimate) << c.solver->info().name;
}

TEST_F(LearnedTest, OnlyRegularFilesOfBoundedSizeAreModels) {
  const std::filesystem::path path = folder / (device.architecture + ".model");
  std::string reason;
  ASSERT_EQ(::mkfifo(path.c_str(), 0666), 0);
  EXPECT_EQ(learned_model(device, &reason), nullptr);
  EXPECT_NE(reason.find("it is not a regular file"), std::string::npos) << reason;
  folder /= "other";  // models are cached by folder
  std::filesystem::create_directories(folder);
  ::setenv("MIOPEN_USER_DB_PATH", folder.c_str(), 1);
  put("");
  std::filesystem::resize_file(folder / path.filename(), std::uintmax_t{64} << 30);
  EXPECT_EQ(learned_model(device, &reason), nullptr);
  EXPECT_NE(reason.find("it is larger than 64 MiB"), std::string::npos) << reason;
  folder = folder.parent_path();
}

TEST_F(LearnedTest, DeclinesWhatItWasNotTrainedOn) {
  EXPECT_EQ(declined(problem_of(kLine)), "");
  EXPECT_NE(declined(problem_of("conv -n 4 -c 262144 -k 64 -H 8 -y 3 -p 1 -W 8 -x 3 -q 1 -F 1")).find("input c is 18"),
            std::string::npos);
  EXPECT_NE(declined(problem_of("convfp64 -n 4 -c 64 -k 64 -H 8 -y 3 -p 1 -W 8 -x 3 -q 1 -F 1")), "");
  Problem strided = problem_of(kLine);
  strided.x.strides[0] += 8;
  EXPECT_NE(declined(strided), "");
  device.threads = 4096;
  EXPECT_NE(declined(problem_of(kLine)).find("input threads is 12"), std::string::npos);
  device.threads = 1;
  device.architecture = "cpu-other";
  EXPECT_NE(declined(problem_of(kLine)).find("this is cpu-other"), std::string::npos);
  std::string reason;
  EXPECT_EQ(learned_model(device, &reason), nullptr);
  EXPECT_EQ(reason, "no model was trained for cpu-other");
}

TEST_F(LearnedTest, APeakMeasuredUnderLoadChangesNothing) {
  const auto model = parse_model(file);
  const Problem p = problem_of(kLine);
  const auto solvers = convolution::solvers(p.direction);
  const auto quiet = model->predict(device, p, solvers);
  for (const double factor : {0.1, 10.0}) {
    device.bandwidth_gbs = 29 * factor;
    device.fp32_gflops = 180 * factor;
    const auto busy = model->predict(device, p, solvers);
    for (std::size_t i = 0; i < solvers.size(); ++i)
      if (!std::isnan(quiet->us[i])) {
        EXPECT_DOUBLE_EQ(quiet->us[i], busy->us[i]) << solvers[i]->info().name;
      }
  }
}

TEST_F(LearnedTest, PointsAreValidAndWithinTheLimit) {
  const auto model = parse_model(file);
  int found = 0;
  for (const char* sizes :
       {"-n 1 -c 512 -k 512 -H 7 -W 7", "-n 32 -c 8 -k 512 -H 56 -W 56", "-n 8 -c 1024 -k 32 -H 14 -W 14"})
    for (const char* filter : {"-y 1 -x 1", "-y 5 -x 5 -p 2 -q 2"})
      for (const char* direction : {"1", "2", "4"}) {
        const Problem p = problem_of(fmt::format("conv {} {} -F {}", sizes, filter, direction));
        for (const SolverBase* s : convolution::solvers(p.direction)) {
          if (!s->is_applicable(device, p)) continue;
          const std::size_t limit = s->workspace_size(device, p, s->default_point(device, p));
          const auto point = model->point(device, p, *s, limit);
          if (!point) continue;
          ++found;
          EXPECT_TRUE(s->is_valid(device, p, *point)) << p.key() << to_text(*point);
          EXPECT_LE(s->workspace_size(device, p, *point), limit);
          EXPECT_NE(*point, s->default_point(device, p));
        }
      }
  EXPECT_GT(found, 0);
}

TEST_F(LearnedTest, ItCanBeSwitchedOff) {
  ::setenv("MIOPEN_DEBUG_ENABLE_AI_IMMED_MODE_FALLBACK", "0", 1);
  std::string reason;
  EXPECT_EQ(learned_model(device, &reason), nullptr);
  ::unsetenv("MIOPEN_DEBUG_ENABLE_AI_IMMED_MODE_FALLBACK");
  EXPECT_NE(reason, "");
  EXPECT_NE(learned_model(device), nullptr);
}

TEST(LearnedBuild, WithoutModelsEstimatesDecide) {
  if (!embedded_models().empty()) GTEST_SKIP() << "a build with learned models";
  Handle handle("cpu", nullptr);
  std::string reason;
  EXPECT_EQ(learned_model(handle.device(), &reason), nullptr);
  EXPECT_EQ(reason, "this build has no learned models");
  for (const auto& c : solutions_of(handle)) EXPECT_EQ(c.source, Source::kEstimate);
}

}  // namespace
}  // namespace polymio::search
