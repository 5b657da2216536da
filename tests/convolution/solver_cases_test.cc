// Every registered solver x every case line x every direction, against the independent evaluation in
// double. Also checked: guard bytes before and after outputs and workspace, gaps of strided outputs, poisoned
// outputs fully written, inputs unchanged, equality of two runs, buffers misaligned by one element. On the device that
// POLYMIO_TEST_DEVICE names, the CPU by default; with POLYMIO_TEST_EVERY=n only every n-th line of a file,
// with POLYMIO_TEST_ONLY=name only solvers whose names begin so, with POLYMIO_TEST_WITHOUT=name only all others.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "core/handle.h"
#include "trial.h"

namespace polymio {
namespace {

namespace fs = std::filesystem;
using convolution::Direction;
using convolution::Problem;
using test::element_bytes;
using test::translate;
using test::Trial;

constexpr std::size_t kGuard = 256;
constexpr unsigned char kPoison = 0xff;  // a NaN in every float type

/// Differs from the build's folder when the tests run on another machine.
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

/// Why this machine lacks the device; "" when it must be there.
std::string missing_device() {
  return device_name().starts_with("opencl") ? absence(DeviceKind::kOpenCl)
         : device_name().starts_with("cuda") ? absence(DeviceKind::kCuda)
                                             : "";
}

/// A buffer with guard bytes before and after, its data `shift` elements off the 64-byte boundary; and on a GPU
/// a copy in the device's memory.
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
  std::size_t first_;  // offset of the data in bytes
  Memory on_device_;
};

/// Runs one solver on fresh buffers; returns the output's bytes.
std::vector<unsigned char> run(const Trial& t, const SolverBase& solver, const TunePoint& point,
                               std::size_t shift_elements) {
  const auto& p = t.problem;
  Guarded x(t.x.size(), shift_elements * size_of(p.x.type)), w(t.w.size(), shift_elements * size_of(p.w.type)),
      y(t.y.size(), shift_elements * size_of(p.y.type)),
      workspace(solver.workspace_size(handle().device(), p, point),
                shift_elements * std::max(sizeof(float), size_of(p.x.type)));
  Guarded& out = p.direction == Direction::kForward ? y : p.direction == Direction::kBackwardData ? x : w;
  const auto load = [&](Guarded& buffer, const std::vector<unsigned char>& bytes) {
    if (&buffer != &out || t.source.args.beta != 0) std::memcpy(buffer.data(), bytes.data(), bytes.size());
  };
  load(x, t.x);
  load(w, t.w);
  load(y, t.y);
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
  const auto& before = t.output_before();
  for (std::size_t i = 0; i < mask.size(); ++i)
    if (!mask[i] && result[i] != (t.source.args.beta != 0 ? before[i] : kPoison)) {
      ADD_FAILURE() << "wrote into the gap at byte " << i;
      return;
    }
}

void check(const Trial& t, const SolverBase& solver, const TunePoint& point) {
  const auto result = run(t, solver, point, 0);
  const auto c = t.compare(solver, result.data());
  EXPECT_TRUE(c.ok()) << c.failures << " of " << t.expected.value.size() << " outputs are wrong; worst: index "
                      << c.index << " is " << c.got << ", should be " << c.want << " +- " << c.tolerance;
  check_gaps(t, result);
  const auto again = run(t, solver, point, 1);
  if (solver.info().deterministic) {
    EXPECT_TRUE(result == again) << "a second run, off by one element, differs";
  }
}

/// Strides of size-1 dimensions are meaningless: equal problems may differ in them.
Problem without_idle_strides(Problem p) {
  for (TensorDesc* t : {&p.x, &p.w, &p.y})
    for (std::size_t i = 0; i < static_cast<std::size_t>(t->rank); ++i)
      if (t->lens[i] == 1) t->strides[i] = 0;
  return p;
}

/// The problem's key is a driver line: parsing it gives an equal problem.
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
  const bool every_point = GetParam() == "found" && on_cpu();  // fuzzers' findings depend on the tune point
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
        check(trial, *solver, solver->default_point(handle().device(), trial.problem));
        if (every_point) {
          for (const TunePoint& point : valid_points(*solver, handle().device(), trial.problem)) {
            SCOPED_TRACE(to_text(point));
            check(trial, *solver, point);
          }
        }
        ++served[solver->info().name];
        ++solvers;
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

/// A device that the solver supports; a GPU need not be present.
DeviceInfo device_of(const SolverBase& solver) {
  if (solver.info().devices & static_cast<unsigned>(DeviceKind::kCpu)) return handle().device();
  return usual_device("cuda-sm90");
}

constexpr DeviceKind kKinds[] = {DeviceKind::kCpu, DeviceKind::kCuda};

/// Error classes and number of problems of the cases of one solver.
struct Compared {
  std::set<ErrorClass> classes;
  int problems = 0;
  bool on_cpu = true;
};

/// The same for every registered solver, by name.
std::map<std::string, Compared> compared_solvers() {
  std::map<std::string, Compared> all;
  for (const auto d : {Direction::kForward, Direction::kBackwardData, Direction::kBackwardWeights})
    for (const DeviceKind kind : kKinds)
      for (const SolverBase* s : convolution::solvers(d, kind)) all[s->info().name].on_cpu = kind == DeviceKind::kCpu;
  for (const auto& name : case_files()) {
    std::ifstream in(cases_dir() / (name + ".txt"));
    for (std::string line; std::getline(in, line);) {
      if (line.empty() || line[0] == '#') continue;
      const auto args = driver::parse_line(line);
      for (const auto d : {driver::kForward, driver::kBackwardData, driver::kBackwardWeights}) {
        if (!(driver::direction_mask(args) & d)) continue;
        const Problem p = translate(driver::Problem(args, d));
        for (const DeviceKind kind : kKinds)
          for (const SolverBase* s : convolution::solvers(p.direction, kind)) {
            if (!s->is_applicable(device_of(*s), p)) continue;
            Compared& c = all[s->info().name];
            c.classes.insert(s->error_class(p));
            ++c.problems;
          }
      }
    }
  }
  return all;
}

/// Every solver of the registry must be served by some case, or a new one could go untested.
TEST(SolverCasesCoverage, EveryRegisteredSolverHasACase) {
  for (const auto& [name, compared] : compared_solvers()) EXPECT_GT(compared.problems, 0) << name << " has no case";
}

/// docs/safety.md names the error classes of every solver. How many problems there are depends on the processor.
TEST(SolverCasesCoverage, TableOfErrorsIsInTheDocuments) {
  std::ifstream in(fs::path(POLYMIO_CASES_DIR) / "../../docs/safety.md");
  const std::string page(std::istreambuf_iterator<char>(in), {});
  static constexpr const char* kClasses[] = {"exact", "accurate", "reduced", "approximate"};
  for (const auto& [name, compared] : compared_solvers()) {
    std::string row = "| `" + name + "` | " + (compared.on_cpu ? "CPU" : "GPU") + " | ";
    for (const ErrorClass c : compared.classes)
      row += (row.back() == ' ' ? "" : ", ") + std::string(kClasses[static_cast<int>(c)]);
    std::printf("%s | %d |\n", row.c_str(), compared.problems);
    EXPECT_NE(page.find(row + " | "), std::string::npos) << "docs/safety.md has no such row";
  }
}

}  // namespace
}  // namespace polymio
