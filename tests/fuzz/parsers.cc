// Parsers: valid files and texts are mutated, often with the checksum recomputed, and whatever still loads
// is used, since an accepted file can do harm only then.
// SPDX-License-Identifier: MIT
#include "parsers.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>

#include "base/env.h"
#include "db/find_db.h"
#include "db/text_file.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace polymio::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::array kLines = {
    "conv -n 2 -c 3 -H 7 -W 6 -k 4 -y 3 -x 3 -p 1 -q 1 -F 1",
    "conv -n 1 -c 8 -H 6 -W 6 -k 8 -y 1 -x 1 -F 1",
    "conv -n 2 -c 4 -H 6 -W 7 -k 6 -y 3 -x 3 -p 1 -q 1 -F 2",
    "conv -n 2 -c 4 -H 6 -W 7 -k 6 -y 3 -x 3 -p 1 -q 1 -F 4",
    "conv -n 1 -c 6 -H 8 -W 8 -k 6 -y 3 -x 3 -p 1 -q 1 -g 6 -F 1",
    "conv -n 1 -c 3 -H 9 -W 9 -k 8 -y 5 -x 5 -u 2 -v 2 --in_layout NHWC --fil_layout NHWC --out_layout NHWC -F 1",
    "conv -n 2 -c 4 -H 5 -W 5 -k 4 -y 3 -x 3 -p 1 -q 1 -F 1 --fuse b3",
};

/// Small integers: every solver gives the same results, transforms nearly so.
void fill(std::vector<unsigned char>& bytes, std::uint64_t seed) {
  Random random(seed, 0);
  for (std::size_t i = 0; i + sizeof(float) <= bytes.size(); i += sizeof(float)) {
    const auto value = static_cast<float>(random.between(-2, 2));
    std::memcpy(&bytes[i], &value, sizeof value);
  }
}

/// The index of the worst element, or -1.
std::ptrdiff_t first_wrong(const std::vector<unsigned char>& got, const std::vector<unsigned char>& want) {
  constexpr float kTolerance = 0.01F;  // of integers
  for (std::size_t i = 0; i < want.size(); i += sizeof(float)) {
    float a = 0, b = 0;
    std::memcpy(&a, &got[i], sizeof a);
    std::memcpy(&b, &want[i], sizeof b);
    if (!(std::abs(a - b) <= kTolerance)) return static_cast<std::ptrdiff_t>(i / sizeof(float));
  }
  return -1;
}

#ifdef __SANITIZE_ADDRESS__
Options g_options;
std::uint64_t g_index = 0;
void tell_case() {
  std::fprintf(stderr, "FAILED: fuzz_parsers --seed %llu --only %llu\n",
               static_cast<unsigned long long>(g_options.seed), static_cast<unsigned long long>(g_index));
}
#endif

}  // namespace

Sample::Sample(const std::string& line, const driver::Session& session)
    : problem_(driver::parse_line(line), static_cast<driver::Direction>(driver::parse_line(line).directions)) {
  for (int role = 0; role < 3; ++role) {
    data_[role].resize(static_cast<std::size_t>(problem_.tensors[role].space()) * sizeof(float));
    fill(data_[role], static_cast<std::uint64_t>(role) + 1);
  }
  Counts ignored;
  const auto found = driver::solutions(session, problem_);
  if (!problem_.args.fuse.empty()) return;
  const auto& last = found.back();
  run([&](const driver::DeviceData& d) { driver::run_solution(session, problem_, d, last.solution_id); },
      last.workspace_size, ignored);
  expected_ = data_[problem_.written()];
}

bool Sample::run(const std::function<void(const driver::DeviceData&)>& call, std::size_t workspace, Counts& counts) {
  constexpr std::size_t kMost = std::size_t{64} << 20;  // a stored size may be anything
  if (workspace > kMost) return true;
  std::vector<unsigned char> scratch(workspace);
  auto& written = data_[problem_.written()];
  std::fill(written.begin(), written.end(), 0xff);
  ++counts.used;
  try {
    call({{data_[0].data(), data_[1].data(), data_[2].data()}, scratch.data(), workspace});
  } catch (const driver::RunError&) {
    ++counts.use_failed;
    return true;
  }
  const std::ptrdiff_t wrong = expected_.empty() ? -1 : first_wrong(written, expected_);
  if (wrong >= 0) std::printf("%s: element %td is wrong\n", problem_.line().c_str(), wrong);
  return wrong < 0;
}

bool Sample::use(Random& random, Counts& counts) {
  using driver::DeviceData;
  try {
    const driver::Session session("cpu");
    if (!problem_.args.fuse.empty() || random.one_in(16)) {
      const driver::OwnedProblem owner = driver::make_problem(problem_);
      miopenSolution_t found[4];
      std::size_t count = 0;
      driver::check(miopenFindSolutions(session.get(), owner.get(), nullptr, found, &count, 4), "miopenFindSolutions");
      for (std::size_t i = 0; i < count; ++i) miopenDestroySolution(found[i]);
      ++counts.used;
      return true;
    }
    bool good = true;
    for (const miopenConvSolution_t& s : driver::solutions(session, problem_)) {
      const std::size_t bytes = driver::solution_workspace(session, problem_, s.solution_id);
      good =
          run([&](const DeviceData& d) { driver::run_solution(session, problem_, d, s.solution_id); }, bytes, counts) &&
          good;
    }
    if (!random.one_in(8)) return good;
    int algorithm = -1;
    return run(
               [&](const DeviceData& d) {
                 algorithm = driver::find(session, problem_, d, false).at(0).algorithm;
                 driver::run(session, problem_, d, algorithm);
               },
               driver::find_workspace(session, problem_), counts) &&
           good;
  } catch (const driver::RunError&) {
    ++counts.use_failed;
    return true;
  }
}

World::World() {
  std::string name = (fs::temp_directory_path() / "polymio-parsers-XXXXXX").string();
  if (!::mkdtemp(name.data())) std::exit(2);
  folder = name;
  ::setenv(env::kUserDbPath.name, (folder / "db").c_str(), 1);
  ::setenv(env::kSystemDbPath.name, (folder / "none").c_str(), 1);
  ::setenv(env::kThreads.name, "2", 0);
  ::setenv(env::kLogLevel.name, "1", 0);
  const driver::Session session("cpu");
  architecture = session.device.architecture;
  database = find_db(architecture).path();
  for (const char* line : kLines) samples.emplace_back(line, session);
  for (const Sample& sample : samples) {
    const driver::OwnedProblem owner = driver::make_problem(sample.problem());
    miopenSolution_t found[8];
    std::size_t count = 0;
    driver::check(miopenFindSolutions(session.get(), owner.get(), nullptr, found, &count, 8), "miopenFindSolutions");
    for (std::size_t s = 0; s < count; ++s) {
      std::size_t size = 0;
      driver::check(miopenGetSolutionSize(found[s], &size), "miopenGetSolutionSize");
      driver::check(miopenSaveSolution(found[s], solutions.emplace_back(size, '\0').data()), "miopenSaveSolution");
      miopenDestroySolution(found[s]);
    }
  }
  // As a search of the activation would store them.
  for (const auto& [direction, name] : {std::pair{1, "Fwd"}, std::pair{2, "Bwd"}})
    records.push_back(encode({fmt::format("activ -n 4 -c 8 -H 16 -W 16 -m 5 -F {}", direction),
                              fmt::format("ActivCpuPacked{}", name),
                              1,
                              5,
                              0,
                              "16,0",
                              session.device.units,
                              std::min(2, session.device.units),
                              RecordKind::kTuned,
                              fmt::format("activ {} fp32 abs dense", direction == 1 ? "fwd" : "bwd"),
                              {13},
                              65536}));
  read_pack(database, [&](std::size_t, std::string_view line, const FindRecord* record) {
    std::string_view text;
    if (record && open_line(line, text)) records.emplace_back(text);
    return true;
  });
}

bool World::use_activation(Counts& counts) {
  constexpr std::size_t kElements = std::size_t{4} * 8 * 16 * 16;
  constexpr float kOne = 1, kZero = 0;
  std::vector<float> x(kElements, -1.5F), y(kElements, NAN), dx(kElements, NAN);
  const auto tensor = driver::make_tensor(miopenFloat, {4, 8, 16, 16}, {2048, 256, 16, 1}, -1);
  miopenActivationDescriptor_t raw = nullptr;
  driver::check(miopenCreateActivationDescriptor(&raw), "miopenCreateActivationDescriptor");
  const driver::Owned<miopenActivationDescriptor_t, miopenDestroyActivationDescriptor> owner(raw);
  driver::check(miopenSetActivationDescriptor(raw, miopenActivationABS, 0, 0, 0), "miopenSetActivationDescriptor");
  const driver::Session session("cpu");
  const auto t = tensor.get();
  ++counts.used;
  if (miopenActivationForward(session.get(), raw, &kOne, t, x.data(), &kZero, t, y.data()) != miopenStatusSuccess ||
      miopenActivationBackward(session.get(), raw, &kOne, t, y.data(), t, y.data(), t, x.data(), &kZero, t,
                               dx.data()) != miopenStatusSuccess) {
    ++counts.use_failed;
    return true;
  }
  const bool right = std::count(y.begin(), y.end(), 1.5F) == static_cast<std::ptrdiff_t>(kElements) &&
                     std::count(dx.begin(), dx.end(), -1.5F) == static_cast<std::ptrdiff_t>(kElements);
  if (!right) std::printf("the activation is wrong\n");
  return right;
}

World::~World() {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

namespace {

int fuzz_all(const Options& options) {
  World world;
  std::vector<Kind> kinds = record_kinds(world);
  for (Kind& kind : other_kinds(world)) kinds.push_back(std::move(kind));
  std::vector<Counts> counts(kinds.size());
  std::vector<std::size_t> round;
  for (std::size_t k = 0; k < kinds.size(); ++k) round.insert(round.end(), kinds[k].weight, k);
  int findings = run_cases("fuzz_parsers", options, [&](Random& random, std::uint64_t index) {
#ifdef __SANITIZE_ADDRESS__
    g_index = index;
#endif
    const std::size_t k = round[index % round.size()];
    try {
      const bool passed = kinds[k].run(random, counts[k]);
      if (!passed) std::printf("a finding in: %s\n", kinds[k].name);
      return passed;
    } catch (const std::exception& e) {
      std::printf("%s: %s\n", kinds[k].name, e.what());
      return false;
    }
  });
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const Counts& c = counts[k];
    const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
    std::printf("%-14s %7llu accepted, %7llu refused, used %7llu times, %6llu of them ended by an error\n",
                kinds[k].name, number(c.accepted), number(c.refused), number(c.used), number(c.use_failed));
    const bool idle = c.accepted == 0 || c.refused == 0 || c.used == c.use_failed;
    if (idle && !options.single && options.cases >= 20 * round.size()) {
      std::printf("idle: nothing was accepted, refused or used\n");
      ++findings;
    }
  }
  return findings;
}

}  // namespace
}  // namespace polymio::fuzz

int main(int argc, char** argv) {
  const auto options = polymio::fuzz::parse_options(argc, argv);
#ifdef __SANITIZE_ADDRESS__
  polymio::fuzz::g_options = options;
  __sanitizer_set_death_callback(polymio::fuzz::tell_case);
#endif
  return polymio::fuzz::fuzz_all(options) == 0 ? 0 : 1;
}
