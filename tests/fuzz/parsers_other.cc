// Saved solutions, lines of problems, the FindDb of MIOpen, values of the environment, learned models, compiled
// kernels.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "base/env.h"
#include "base/error.h"
#include "base/hash.h"
#include "bench/problem_of.h"
#include "capi/find2/solution.h"
#include "db/kernel_cache.h"
#include "driver/db/import.h"
#include "driver/run/operation.h"
#include "parsers.h"
#include "search/learned.h"

namespace polymio::fuzz {
namespace {

constexpr std::size_t kSolutionHead = 16;

/// Fields are numbers of eight bytes between a header and a checksum.
std::string forged_solution(Random& random, std::string bytes) {
  constexpr std::int64_t kValues[] = {0,
                                      1,
                                      -1,
                                      2,
                                      3,
                                      5,
                                      7,
                                      64,
                                      65,
                                      255,
                                      256,
                                      4096,
                                      INT32_MAX,
                                      INT32_MIN,
                                      INT64_MAX,
                                      INT64_MIN,
                                      std::int64_t{1} << 32,
                                      std::int64_t{1} << 62};
  const std::size_t fields = (bytes.size() - kSolutionHead) / 8 - 1;
  for (std::uint64_t changes = random.one_in(3) ? 1 + random.below(3) : 1; changes > 0; --changes) {
    const std::size_t at = kSolutionHead + 8 * random.below(fields);
    std::int64_t value = 0;
    std::memcpy(&value, &bytes[at], 8);
    value = random.one_in(2) ? kValues[random.below(std::size(kValues))] : value + random.between(-2, 2);
    std::memcpy(&bytes[at], &value, 8);
  }
  return bytes;
}

void repair_solution(std::string& bytes) {
  if (bytes.size() < kSolutionHead + 8) return;
  const auto size = static_cast<std::uint32_t>(bytes.size() - kSolutionHead - 8);
  std::memcpy(&bytes[12], &size, sizeof size);
  const std::uint64_t sum = content_hash(std::string_view(bytes).substr(0, bytes.size() - 8));
  std::memcpy(&bytes[bytes.size() - 8], &sum, sizeof sum);
}

void run_solution(miopenSolution_t solution, Counts& counts) {
  constexpr std::size_t kMost = std::size_t{1} << 20;
  std::vector<std::vector<unsigned char>> memory;
  std::vector<miopenTensorArgument_t> arguments;
  for (const auto& [id, tensor] : capi::deref(solution).problem.tensors) {
    if (tensor.bytes() > kMost) return;
    memory.emplace_back(tensor.bytes(), static_cast<unsigned char>(0));
    arguments.push_back({id, nullptr, memory.back().data()});
  }
  const auto& problem = std::get<capi::ConvolutionCall>(capi::deref(solution).call).problem;
  if (problem.x.count() * problem.w.count() > std::int64_t{1} << 24) return;  // too much work for the reference
  std::size_t bytes = 0;
  miopenGetSolutionWorkspaceSize(solution, &bytes);
  if (bytes > kMost) return;
  std::vector<unsigned char> workspace(bytes);
  const driver::Session session("cpu");
  ++counts.used;
  counts.use_failed += miopenRunSolution(session.get(), solution, arguments.size(), arguments.data(), workspace.data(),
                                         workspace.size()) != miopenStatusSuccess;
}

bool run_saved_solution(const World& world, Random& random, Counts& counts) {
  std::string bytes = random.pick(world.solutions);
  bytes = random.one_in(4) ? mutate(random, bytes, world.solutions) : forged_solution(random, bytes);
  if (!random.one_in(8)) repair_solution(bytes);
  miopenSolution_t solution = nullptr;
  const std::vector<char> exact(bytes.begin(), bytes.end());  // a string's end has one byte more
  if (miopenLoadSolution(&solution, exact.data(), exact.size()) != miopenStatusSuccess) {
    ++counts.refused;
    return solution == nullptr;
  }
  ++counts.accepted;
  run_solution(solution, counts);
  std::size_t size = 0;
  const bool good = miopenGetSolutionSize(solution, &size) == miopenStatusSuccess &&
                    miopenDestroySolution(solution) == miopenStatusSuccess;
  return good;
}

const std::vector<std::string>& lines() {
  static const std::vector<std::string> all = {
      "conv -n 2 -c 3 -H 7 -W 6 -k 4 -y 3 -x 3 -p 1 -q 1 -F 1",
      "./bin/MIOpenDriver convfp16 -n 1 -c 8 -H 14 -W 14 -k 8 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -l 1 -j 1 -g 2 -m conv -F "
      "4",
      "convbfp16 --batchsize 2 --in_channels 4 -! 5 -H 6 -W 7 --spatial_dim 3 -@ 3 -y 3 -x 3 -k 2 -I NDHWC -f NDHWC -O "
      "NDHWC",
      "convint8 -n 1 -c 4 -H 8 -W 8 -k 4 -y 3 -x 3 -F 1 --out_type int32",
      "conv -n 4 -c 1 -k 1 -H 3 -W 4 -y 1 -x 3 -q 1 -F 4 --in_strides 12,12,4,1 --wei_strides 15,15,5,1 -m trans",
      "convfp8 -n 2 -c 8 -H 6 -W 6 -k 8 -y 3 -x 3 --alpha 0.5 --beta -2 --math reduced -V 0 -i 3 -t 1 -F 2",
      "conv -n 2 -c 4 -H 5 -W 5 -k 4 -y 3 -x 3 --fuse b3 -F 1 --pad_mode same",
      "activ -n 2 -c 3 -H 5 -W 7 -m 4 -F 3 -A 0.5 -B 1.5 -G 2",
      "activfp16 --batchsize 1 -c 8 -D 3 -H 4 -W 4 -m 9 --forw 1",
      "layernormfp16 -_ 0 -n 4 -c 9 -o 1 -m 1 -e 1e-3 --param_type fp32 -F 2",
      "bnormfp16 -n 2 -c 6 -H 4 -W 4 -m 1 -F 1 -b 1 --save 1 -r 1 --activ relu --scale_type fp16 -I NHWC",
      "groupnorm -n 2 -c 6 -H 4 -W 4 -g 3 --mode 0 -I NHWC --stat_type fp16"};
  return all;
}

/// What the driver does with the line of a convolution: descriptors of each direction, and its canonical line.
bool use_line(const std::string& line, Counts& counts) {
  const driver::ConvArgs args = driver::parse_line(line);
  ++counts.accepted;
  ++counts.used;
  if (driver::parse_line(driver::to_line(args)) != args) {
    std::printf("a line is another after it was written: %s\n", line.c_str());
    return false;
  }
  try {
    for (const auto direction : {driver::kForward, driver::kBackwardData, driver::kBackwardWeights})
      if ((driver::direction_mask(args) & direction) != 0) driver::Problem(args, direction);
  } catch (const driver::RunError&) {
    ++counts.use_failed;
  }
  return true;
}

bool run_line(const World&, Random& random, Counts& counts) {
  const std::string line = mutate(random, random.pick(lines()), lines());
  try {
    std::istringstream in(line);
    std::vector<std::string> names{std::istream_iterator<std::string>(in), {}};
    static constexpr driver::DataType kTypes[] = {driver::kFloat, driver::kHalf};
    static const driver::Primitive kPrimitives[] = {{{"activ", kTypes}, "", "", driver::make_activation},
                                                    {{"bnorm", kTypes}, "", "", driver::make_batch_norm},
                                                    {{"layernorm", kTypes}, "", "", driver::make_norm},
                                                    {{"groupnorm", kTypes}, "", "", driver::make_norm}};
    const auto* const primitive = std::ranges::find_if(kPrimitives, [&](const driver::Primitive& p) {
      return !names.empty() && p.bases.type_of(names[0]) != driver::kNoType;
    });
    if (primitive == std::end(kPrimitives)) return use_line(line, counts);
    const auto operation = primitive->make(names[0]);
    driver::parse_flags({names[0], "", ""}, operation->flags(), std::span(names).subspan(1));
    operation->check_flags();
    ++counts.accepted;
  } catch (const driver::ArgError&) {
    ++counts.refused;
  }
  return true;
}

bool run_import(const World&, Random& random, Counts& counts) {
  static const std::vector<std::string> records = {
      "64-56-56-3x3-128-28-28-16-1x1-2x2-1x1-0-NCHW-FP32-F=SolverOne:0.0651,0,miopenConvolutionFwdAlgoDirect;"
      "SolverTwo<2-3>:0.071,4096,miopenConvolutionFwdAlgoWinograd",
      "256-14-14-3x3-256-14-14-8-1x1-1x1-1x1-0-NHWC-NHWC-NHWC-FP16-F_g32=SolverThree:0.02,0,"
      "miopenConvolutionFwdAlgoImplicitGEMM",
      "32-7-30-30-3x3x3-16-7-30-30-2-1x1x1-1x1x1-1x1x1-0-NCDHW-BF16-F=SolverThree:0.3,0,miopenConvolutionFwdAlgoDirect",
      "4-6-6-3x3-8-6-6-2-1x1-1x1-1x1-0-NCHW-FP32-B=miopenConvolutionBwdDataAlgoGEMM:gemm,0.1,0,none,none"};
  std::string text;
  for (std::uint64_t i = 1 + random.below(4); i > 0; --i) text += mutate(random, random.pick(records), records) + '\n';
  std::istringstream in(text);
  const driver::ImportedList list = driver::import_find_db(in);
  counts.refused += list.skipped.size();
  try {
    for (const std::string& problem : list.problems)
      if (!use_line(problem, counts)) return false;
  } catch (const driver::ArgError& e) {
    std::printf("an imported problem is refused as a line: %s\n", e.what());
    return false;
  }
  return true;
}

bool run_environment(World& world, Random& random, Counts& counts) {
  static const std::vector<std::string> values = {"1",    "0",      "yes",       "off",  "cpu",           "tbb",
                                                  "1000", "NORMAL", "DB_UPDATE", "avx2", "ConvCpuGemmFwd"};
  const env::Variable* variable = env::all()[random.below(env::all().size())];
  for (const env::Variable* folder :
       {&env::kUserDbPath, &env::kSystemDbPath, &env::kRecord, &env::kCacheDir, &env::kKernelDir})
    if (variable == folder) return true;  // any text is a valid path
  const char* before = std::getenv(variable->name);
  const std::string kept = before ? before : "";
  const std::string value = random.one_in(4) ? extreme_number(random) : mutate(random, random.pick(values), values);
  ::setenv(variable->name, value.c_str(), 1);  // up to a zero byte
  const bool read = env::integer(*variable, INT64_MIN, INT64_MAX) || env::number(*variable, -INFINITY, INFINITY);
  (read || env::flag(*variable, false) ? counts.accepted : counts.refused)++;
  const bool good = world.samples[random.below(world.samples.size() - 1)].use(random, counts);
  before ? ::setenv(variable->name, kept.c_str(), 1) : ::unsetenv(variable->name);
  return good;
}

std::string model_of(std::string_view body, const std::string& bytes) {
  std::uint64_t sum = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : body) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return fmt::format("polymio-model 2 {:016x} {}\n{}", sum, bytes, body);
}

bool run_model(const World&, Random& random, Counts& counts) {
  if (search::embedded_models().empty()) return true;
  const search::EmbeddedModel& model = search::embedded_models()[0];
  const std::string whole(reinterpret_cast<const char*>(model.file.data()), model.file.size());
  const std::size_t line = whole.find('\n') + 1;
  const std::string bytes = whole.substr(whole.rfind(' ', line) + 1, line - whole.rfind(' ', line) - 2);
  const std::size_t header = std::stoul(bytes);
  // Mutates mostly the header, a small part of the file, but the one with structure.
  std::string head = whole.substr(line, header), weights = whole.substr(line + header);
  if (!random.one_in(4)) head = mutate(random, head, {head});
  if (random.one_in(4)) mutate_once(random, weights, {head});
  const bool forged = !random.one_in(8);
  std::string file = model_of(head + weights, random.one_in(16) ? extreme_number(random) : std::to_string(head.size()));
  if (!forged) file = mutate(random, whole, {head});
  std::unique_ptr<const search::Model> parsed;
  try {
    parsed = search::parse_model(file);
  } catch (const Error&) {
    ++counts.refused;
    return true;
  }
  ++counts.accepted;
  DeviceInfo device = devices()[0];
  device.architecture = model.architecture;
  device.isa = CpuIsa::kAvx512Bf16;
  device.threads = device.units = static_cast<int>(random.between(1, 2));
  device.fp32_gflops = 180;
  device.bandwidth_gbs = 29;
  const auto problem = problem_of("conv -n 4 -c 64 -k 64 -H 28 -y 3 -p 1 -W 28 -x 3 -q 1 -F 1");
  const auto solvers = convolution::solvers(problem.direction);
  const auto prediction = parsed->predict(device, problem, solvers);
  ++counts.used;
  counts.use_failed += !prediction->declined.empty();
  if (prediction->declined.empty() && prediction->us.size() != solvers.size()) return false;
  for (const SolverBase* solver : solvers)
    if (solver->is_applicable(device, problem)) parsed->point(device, problem, *solver, SIZE_MAX);
  return true;
}

bool run_kernel(const World& world, Random& random, Counts& counts) {
  const std::filesystem::path folder = world.folder / "kernels";
  KernelCache cache(folder);
  const std::vector<std::string> programs = {"program",
                                             std::string("\x7f"
                                                         "ELF\0\n1",
                                                         7),
                                             std::string(300, '\n')};
  cache.store("key", random.pick(programs));
  const std::filesystem::path file = folder / "key.kernel";
  std::string text;
  if (read_file(file, text) != 0) return false;
  text = mutate(random, text, programs);
  const std::size_t end = text.find('\n');
  const auto head = [](std::string_view program) {
    return fmt::format("Polymio kernel 1 key {:016x}\n", content_hash(program));
  };
  if (end != std::string::npos && random.one_in(2)) text = head(text.substr(end + 1)) + text.substr(end + 1);
  std::ofstream(file, std::ios::binary) << text;
  const auto loaded = cache.load("key");
  (loaded ? counts.accepted : counts.refused)++;
  ++counts.used;
  return !loaded || text == head(*loaded) + *loaded;
}

}  // namespace

std::vector<Kind> other_kinds(World& world) {
  const auto kind = [&world](const char* name, unsigned weight, auto run) {
    return Kind{name, weight, [&world, run](Random& r, Counts& c) { return run(world, r, c); }};
  };
  return {kind("solutions", 12, run_saved_solution),
          kind("lines", 24, run_line),
          kind("flags", 12, run_flags),
          kind("imports", 12, run_import),
          kind("environment", 4, run_environment),
          kind("models", 2, run_model),
          kind("kernels", 8, run_kernel)};
}

}  // namespace polymio::fuzz
