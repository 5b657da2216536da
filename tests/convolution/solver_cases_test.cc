// Every registered solver x every case line x every direction, against the independent evaluation in
// double. Also checked: guard bytes around outputs and workspace, gaps of strided outputs, poisoned
// outputs fully written, inputs untouched, run-twice equality, buffers off by one element. On the device that
// POLYMIO_TEST_DEVICE names, the CPU by default; with POLYMIO_TEST_EVERY=n only every n-th line of a file,
// with POLYMIO_TEST_ONLY=name only solvers whose names begin so, with POLYMIO_TEST_WITHOUT=name only all others.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "core/handle.h"
#include "driver/conv_args.h"
#include "driver/problem.h"
#include "primitives/convolution/convolution.h"
#include "reference/convolution.h"
#include "reference/tolerance.h"

namespace polymio {
namespace {

namespace fs = std::filesystem;
using convolution::Direction;
using convolution::Problem;

constexpr std::size_t kGuard = 256;
constexpr unsigned char kPoison = 0xff;  // a NaN in every float type

/// Elsewhere than the build when the tests run on another machine.
fs::path cases_dir() {
  const char* folder = std::getenv("POLYMIO_TEST_CASES");
  return folder ? folder : POLYMIO_CASES_DIR;
}

std::string device_name() {
  const char* name = std::getenv("POLYMIO_TEST_DEVICE");
  return name ? name : "cpu";
}

Handle& handle() {
  static Handle h(device_name(), nullptr);
  return h;
}

bool on_cpu() { return handle().device().kind == DeviceKind::kCpu; }

/// Why the device is missing altogether on this machine; "" when it must be there.
std::string missing_device() {
  return device_name().starts_with("opencl") ? absence(DeviceKind::kOpenCl)
         : device_name().starts_with("cuda") ? absence(DeviceKind::kCuda)
                                             : "";
}

TensorDesc describe(const reference::Tensor& t) {
  TensorDesc d = make_tensor(static_cast<DataType>(t.type), t.lens, t.strides);
  d.cast = static_cast<DataType>(t.cast);
  return d;
}

Problem translate(const driver::Problem& p) {
  Problem q;
  q.direction = static_cast<Direction>(p.math.direction);
  q.x = describe(p.math.x), q.w = describe(p.math.w), q.y = describe(p.math.y);
  q.geometry.spatial = static_cast<int>(p.math.pad.size());
  q.geometry.groups = p.math.groups;
  for (std::size_t i = 0; i < p.math.pad.size(); ++i) {
    q.geometry.pad[i] = p.math.pad[i];
    q.geometry.stride[i] = p.math.stride[i];
    q.geometry.dilation[i] = p.math.dilation[i];
  }
  const double a = p.args.alpha, b = p.args.beta;
  q.scalars = b != 0   ? convolution::Scalars::kBilinear
              : a != 1 ? convolution::Scalars::kScale
                       : convolution::Scalars::kDefault;
  if (p.args.fp8_rounding == 1) q.rounding = convolution::Rounding::kStochastic;
  convolution::validate(q);
  return q;
}

/// A buffer with guard bytes before and after, its data `shift` elements off the 64-byte boundary; and on a GPU
/// the same in the device's memory.
class Guarded {
 public:
  Guarded(std::size_t bytes, std::size_t shift)
      : bytes_(bytes),
        memory_(bytes + shift + 2 * kGuard + kLine),
        first_(kGuard + shift + (on_cpu() ? -reinterpret_cast<std::uintptr_t>(memory_.data()) % kLine : 0)),
        on_device_(handle(), on_cpu() ? 0 : memory_.size()) {
    std::memset(memory_.data(), kPoison, memory_.size());
  }
  unsigned char* data() { return memory_.data() + first_; }
  void* device() { return on_cpu() ? data() : static_cast<unsigned char*>(on_device_.data()) + first_; }
  void upload() {
    if (!on_cpu()) handle().stream().upload(on_device_.data(), memory_.data(), memory_.size());
  }
  void download() {
    if (!on_cpu()) handle().stream().download(memory_.data(), on_device_.data(), memory_.size());
  }
  std::size_t bytes() const { return bytes_; }
  bool guards_intact() const {
    const auto poisoned = [](unsigned char c) { return c == kPoison; };
    const auto* p = memory_.data();
    return std::all_of(p, p + first_, poisoned) && std::all_of(p + first_ + bytes_, p + memory_.size(), poisoned);
  }

 private:
  static constexpr std::size_t kLine = 64;
  std::size_t bytes_;
  std::vector<unsigned char> memory_;
  std::size_t first_;  // of its bytes
  Memory on_device_;
};

void randomise(const TensorDesc& t, void* data, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> real(-1, 1);
  std::uniform_int_distribution<int> integer(-100, 100);
  for (std::int64_t i = 0; i < t.space(); ++i)
    dtype::store(t.type, data, i, is_integer(t.type) ? integer(engine) : real(engine));
}

/// True for each byte that belongs to an element (not to a gap between strided elements).
std::vector<bool> element_bytes(const reference::Tensor& t) {
  const std::size_t size = reference::size_of(t.type);
  std::vector<bool> mask(t.bytes(), false);
  for (std::int64_t i = 0; i < t.count(); ++i)
    for (std::size_t b = 0; b < size; ++b) mask[static_cast<std::size_t>(t.offset(i)) * size + b] = true;
  return mask;
}

struct Trial {
  const driver::Problem& source;
  Problem problem;
  std::vector<unsigned char> x, w, y;  // contents before the run
  reference::Result expected;
  reference::Arithmetic arithmetic;

  explicit Trial(const driver::Problem& p) : source(p), problem(translate(p)) {
    const auto fill = [](const TensorDesc& t, std::uint64_t seed) {
      std::vector<unsigned char> bytes(t.bytes());
      randomise(t, bytes.data(), seed);
      return bytes;
    };
    x = fill(problem.x, 1), w = fill(problem.w, 2), y = fill(problem.y, 3);
    expected = reference::evaluate(p.math, {x.data(), w.data(), y.data()});
    arithmetic = reference::arithmetic(p.math);
    arithmetic.stochastic_rounding = problem.rounding == convolution::Rounding::kStochastic;
  }
};

/// Runs one solver on fresh buffers; returns the output's bytes.
std::vector<unsigned char> run(const Trial& t, const SolverBase& solver, std::size_t shift_elements) {
  const auto& p = t.problem;
  const auto point = solver.default_point(handle().device(), p);
  Guarded x(t.x.size(), shift_elements * size_of(p.x.type)), w(t.w.size(), shift_elements * size_of(p.w.type)),
      y(t.y.size(), shift_elements * size_of(p.y.type)),
      workspace(solver.workspace_size(handle().device(), p, point),
                shift_elements * std::max(sizeof(float), size_of(p.x.type)));
  Guarded& out = p.direction == Direction::kForward ? y : p.direction == Direction::kBackwardData ? x : w;
  const auto load = [&](Guarded& buffer, const std::vector<unsigned char>& bytes) {
    if (&buffer != &out || t.source.args.beta != 0) std::memcpy(buffer.data(), bytes.data(), bytes.size());
  };
  load(x, t.x), load(w, t.w), load(y, t.y);
  for (Guarded* b : {&x, &w, &y, &workspace}) b->upload();
  const Problem::Args args{.x = x.device(),
                           .w = w.device(),
                           .y = y.device(),
                           .alpha = t.source.args.alpha,
                           .beta = t.source.args.beta,
                           .workspace = workspace.bytes() ? workspace.device() : nullptr,
                           .workspace_bytes = workspace.bytes(),
                           .seed = 7};
  solver.build(handle().stream(), p, point)(handle().stream(), &args);
  for (Guarded* b : {&x, &w, &y, &workspace}) b->download();
  EXPECT_TRUE(x.guards_intact() && w.guards_intact() && y.guards_intact()) << "wrote outside a tensor";
  EXPECT_TRUE(workspace.guards_intact()) << "wrote outside the workspace";
  const auto untouched = [&](Guarded& buffer, const std::vector<unsigned char>& bytes) {
    return &buffer == &out || std::memcmp(buffer.data(), bytes.data(), bytes.size()) == 0;
  };
  EXPECT_TRUE(untouched(x, t.x) && untouched(w, t.w) && untouched(y, t.y)) << "changed an input";
  return {out.data(), out.data() + out.bytes()};
}

void check_gaps(const Trial& t, const std::vector<unsigned char>& result) {
  const auto mask = element_bytes(t.source.math.output());
  const auto& before = t.problem.direction == Direction::kForward        ? t.y
                       : t.problem.direction == Direction::kBackwardData ? t.x
                                                                         : t.w;
  for (std::size_t i = 0; i < mask.size(); ++i)
    if (!mask[i] && result[i] != (t.source.args.beta != 0 ? before[i] : kPoison)) {
      ADD_FAILURE() << "wrote into the gap at byte " << i;
      return;
    }
}

/// Transforms amplify rounding errors, and spread them over neighbours, some of which are sums of fewer products.
reference::Arithmetic amplified(reference::Arithmetic how) {
  how.growth = 2;
  return how;
}
reference::Result evened(reference::Result expected) {
  const double largest = *std::max_element(expected.magnitude.begin(), expected.magnitude.end());
  std::fill(expected.magnitude.begin(), expected.magnitude.end(), largest);
  return expected;
}

void check(const Trial& t, const SolverBase& solver) {
  const auto result = run(t, solver, 0);
  const bool spread = solver.error_class(t.problem) == ErrorClass::kApproximate;
  reference::Arithmetic how = spread ? amplified(t.arithmetic) : t.arithmetic;
  if (solver.error_class(t.problem) == ErrorClass::kReduced) how.input_rounding = 1.0 / 1024;  // cut off to tf32
  const auto c =
      reference::compare(how, t.source.math.output(), result.data(), spread ? evened(t.expected) : t.expected);
  EXPECT_TRUE(c.ok()) << c.failures << " of " << t.expected.value.size() << " outputs are wrong; worst: index "
                      << c.index << " is " << c.got << ", should be " << c.want << " +- " << c.tolerance;
  check_gaps(t, result);
  const auto again = run(t, solver, 1);
  if (solver.info().deterministic) {
    EXPECT_TRUE(result == again) << "a second run, off by one element, differs";
  }
}

/// Strides of size-1 dimensions say nothing: equal problems may differ in them.
Problem without_idle_strides(Problem p) {
  for (TensorDesc* t : {&p.x, &p.w, &p.y})
    for (std::size_t i = 0; i < static_cast<std::size_t>(t->rank); ++i)
      if (t->lens[i] == 1) t->strides[i] = 0;
  return p;
}

/// The problem's key is a driver line: parsing it must give the very problem back.
void check_key(const Problem& p) {
  const auto args = driver::parse_line(p.key());
  Problem same = translate(driver::Problem(args, static_cast<driver::Direction>(driver::direction_mask(args))));
  same.scalars = p.scalars;  // not part of the key
  EXPECT_TRUE(without_idle_strides(same) == without_idle_strides(p)) << p.key() << " became " << same.key();
}

/// With 8-bit floats, which run on the CPU only.
bool narrow(const Problem& p) { return p.has_casts() || is_fp8(p.x.type) || is_fp8(p.w.type) || is_fp8(p.y.type); }

int every() {
  const char* text = std::getenv("POLYMIO_TEST_EVERY");
  return text ? std::max(1, std::atoi(text)) : 1;
}

bool left_out(const SolverBase& solver) {
  const char *const only = std::getenv("POLYMIO_TEST_ONLY"), *const without = std::getenv("POLYMIO_TEST_WITHOUT");
  const std::string_view name = solver.info().name;
  return (only && !name.starts_with(only)) || (without && name.starts_with(without));
}

class SolverCases : public testing::TestWithParam<std::string> {};

TEST_P(SolverCases, MatchReference) {
  if (const std::string why = missing_device(); !why.empty()) GTEST_SKIP() << device_name() << ": " << why;
  const fs::path file = cases_dir() / (GetParam() + ".txt");
  std::ifstream in(file);
  ASSERT_TRUE(in) << file;
  std::map<std::string, int> served;
  int lines = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (lines++ % every() != 0) continue;
    const auto args = driver::parse_line(line);
    for (const auto d : {driver::kForward, driver::kBackwardData, driver::kBackwardWeights}) {
      if (!(driver::direction_mask(args) & d)) continue;
      SCOPED_TRACE(driver::problem_line(args, d));
      const driver::Problem source(args, d);
      const Trial trial(source);
      check_key(trial.problem);
      Constraints any;
      any.math = MathMode::kAny;
      int solvers = 0;
      for (const SolverBase* solver : convolution::solvers(trial.problem.direction, handle().device().kind)) {
        if (left_out(*solver) || !admit(*solver, handle().device(), trial.problem, any)) continue;
        SCOPED_TRACE(solver->info().name);
        check(trial, *solver);
        ++served[solver->info().name], ++solvers;
      }
      EXPECT_TRUE(solvers > 0 || (!on_cpu() && narrow(trial.problem))) << "no solver";
    }
  }
  EXPECT_GT(lines, 0);
  for (const auto& [name, count] : served) std::printf("  %-28s %4d\n", name.c_str(), count);
}

std::vector<std::string> case_files() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(cases_dir()))
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Cases, SolverCases, testing::ValuesIn(case_files()),
                         [](const auto& info) { return info.param; });

/// A device that the solver is for; a GPU need not be there.
DeviceInfo device_of(const SolverBase& solver) {
  if (solver.info().devices & static_cast<unsigned>(DeviceKind::kCpu)) return handle().device();
  DeviceInfo device;
  device.kind = DeviceKind::kCuda;
  device.architecture = "cuda-sm90";
  device.units = 132;
  device.gpu = {48u << 10, 32, 1024, true, true};
  return device;
}

constexpr DeviceKind kKinds[] = {DeviceKind::kCpu, DeviceKind::kCuda};

/// Every solver of the registry must be served by some case, or a new one could go untested.
TEST(SolverCasesCoverage, EveryRegisteredSolverHasACase) {
  std::map<std::string, bool> seen;
  for (const auto d : {Direction::kForward, Direction::kBackwardData, Direction::kBackwardWeights})
    for (const DeviceKind kind : kKinds)
      for (const SolverBase* s : convolution::solvers(d, kind)) seen[s->info().name] = false;
  for (const auto& name : case_files()) {
    std::ifstream in(cases_dir() / (name + ".txt"));
    for (std::string line; std::getline(in, line);) {
      if (line.empty() || line[0] == '#') continue;
      const auto args = driver::parse_line(line);
      for (const auto d : {driver::kForward, driver::kBackwardData, driver::kBackwardWeights}) {
        if (!(driver::direction_mask(args) & d)) continue;
        const Problem p = translate(driver::Problem(args, d));
        for (const DeviceKind kind : kKinds)
          for (const SolverBase* s : convolution::solvers(p.direction, kind))
            if (s->is_applicable(device_of(*s), p)) seen[s->info().name] = true;
      }
    }
  }
  for (const auto& [name, found] : seen) EXPECT_TRUE(found) << name << " has no case";
}

}  // namespace
}  // namespace polymio
