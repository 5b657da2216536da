// Every registered solver x every line of tests/cases x every direction, against the independent evaluation in double;
// see check() for what else is checked. On the device that POLYMIO_TEST_DEVICE names, the CPU by default; with
// POLYMIO_TEST_EVERY=n only every n-th line of a file, with POLYMIO_TEST_ONLY=name,.. only solvers whose names begin
// so, with POLYMIO_TEST_WITHOUT=name,.. only all others, with POLYMIO_TEST_POINTS=all every tune point, with
// POLYMIO_TEST_RUNS=n so many runs of each (2), whose results must have the same bits if the solver is deterministic.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "bench/gpu_graph.h"
#include "core/registry.h"
#include "tests/device.h"
#include "tests/runner/case_files.h"

namespace polymio::test {
namespace {

Handle& handle() {
  static const std::shared_ptr<Queue> queue = queue_for_graphs(device_name());
  static Handle h(device_name(), queue ? queue->native() : nullptr);
  EXPECT_TRUE(queue || !device_name().starts_with("cuda")) << "check() would not record graphs";
  return h;
}

/// Why this machine lacks the device; "" when it must be there.
std::string missing_device() {
  return device_name().starts_with("opencl") ? absence(DeviceKind::kOpenCl)
         : device_name().starts_with("cuda") ? absence(DeviceKind::kCuda)
                                             : "";
}

std::size_t every() {
  const char* text = std::getenv("POLYMIO_TEST_EVERY");
  return text ? static_cast<std::size_t>(std::max(1, std::atoi(text))) : 1;
}

/// Whether the name begins as one of a list that commas separate.
bool begins_as_one_of(std::string_view name, std::string_view list) {
  for (std::size_t first = 0; first <= list.size();) {
    const std::size_t last = std::min(list.find(',', first), list.size());
    if (name.starts_with(list.substr(first, last - first))) return true;
    first = last + 1;
  }
  return false;
}

bool is_left_out(const SolverBase& solver) {
  const char *const only = std::getenv("POLYMIO_TEST_ONLY"), *const without = std::getenv("POLYMIO_TEST_WITHOUT");
  const std::string_view name = solver.info().name;
  return (only && !begins_as_one_of(name, only)) || (without && begins_as_one_of(name, without));
}

/// The problem's key is a driver line: parsing it gives an equal problem.
void check_key(const Primitive& primitive, const Case& c) {
  const Cases again = primitive.parse(c.problem().key());
  ASSERT_EQ(again.size(), 1u) << c.problem().key();
  EXPECT_TRUE(c.has_problem_of(*again[0])) << c.problem().key() << " became " << again[0]->problem().key();
}

/// Runs every solver that takes the case; counts the runs by name.
void check_solvers(Case& c, bool every_point, std::map<std::string, int>& served) {
  c.prepare();
  Constraints any;
  any.math = MathMode::kAny;
  int solvers = 0;
  for (const SolverBase* solver : c.solvers(handle().device().kind)) {
    if (is_left_out(*solver) || !admit(*solver, handle().device(), c.problem(), any)) continue;
    SCOPED_TRACE(solver->info().name);
    check(handle(), c, *solver, solver->default_point(handle().device(), c.problem()));
    if (every_point) {
      for (const TunePoint& point : valid_points(*solver, handle().device(), c.problem())) {
        SCOPED_TRACE(to_text(point));
        check(handle(), c, *solver, point);
      }
    }
    ++served[solver->info().name];
    ++solvers;
  }
  const bool some = std::getenv("POLYMIO_TEST_ONLY") != nullptr;
  EXPECT_TRUE(solvers > 0 || some || !c.needs_solver(handle().device().kind)) << "no solver";
}

class SolverCases : public testing::TestWithParam<CaseFile> {};

TEST_P(SolverCases, MatchReference) {
  if (const std::string why = missing_device(); !why.empty()) GTEST_SKIP() << device_name() << ": " << why;
  const CaseFile& file = GetParam();
  // Fuzzers' findings depend on the tune point.
  const bool every_point = std::getenv("POLYMIO_TEST_POINTS") != nullptr ||
                           (on_cpu() && (file.name == "found" || file.name == "tune_points"));
  std::map<std::string, int> served;
  const std::vector<std::string> lines = file.lines();
  for (std::size_t i = 0; i < lines.size(); i += every())
    for (const std::unique_ptr<Case>& c : file.primitive->parse(lines[i])) {
      SCOPED_TRACE(c->line());
      check_key(*file.primitive, *c);
      check_solvers(*c, every_point, served);
    }
  EXPECT_GT(lines.size(), 0u);
  for (const auto& [name, count] : served) std::printf("  %-28s %4d\n", name.c_str(), count);
}

INSTANTIATE_TEST_SUITE_P(Cases, SolverCases, testing::ValuesIn(case_files()),
                         [](const auto& info) { return info.param.title(); });

TEST(CaseLines, ListsMultiply) {
  const auto lines = [](auto... l) { return std::vector<std::string>{l...}; };
  EXPECT_EQ(expand("conv -n 1"), lines("conv -n 1"));
  EXPECT_EQ(expand("-n {1,3} -c {4,5} -k 6"),
            lines("-n 1 -c 4 -k 6", "-n 1 -c 5 -k 6", "-n 3 -c 4 -k 6", "-n 3 -c 5 -k 6"));
  EXPECT_EQ(expand("x{-I NHWC|--in_strides 4,2,1|}"), lines("x-I NHWC", "x--in_strides 4,2,1", "x"));
  EXPECT_EQ(expand("{a}{,b}"), lines("a", "ab"));
  EXPECT_THROW(expand("-n {1,2"), std::invalid_argument);
}

TEST(CaseLines, AnUnknownBaseArgumentIsRefused) {
  for (const Primitive& primitive : kPrimitives) {
    SCOPED_TRACE(primitive.name);
    EXPECT_ANY_THROW(primitive.parse("rnnbf16 -n 1"));
    EXPECT_ANY_THROW(primitive.parse("nothing"));
  }
}

/// A device that the solver supports; a GPU need not be present.
DeviceInfo device_of(const SolverBase& solver) {
  if (solver.info().devices & kCpu) return handle().device();
  return usual_device("cuda-sm90");
}

/// Error classes and number of problems of the cases of one solver.
struct Compared {
  std::set<ErrorClass> classes;
  int problems = 0;
  bool on_cpu = true;
};

/// The same for every registered solver, by name.
std::map<std::string, Compared> compared_solvers() {
  std::map<std::string, Compared> all;
  for (const SolverList& solvers : registered_solvers())
    for (const SolverBase* s : solvers) all[s->info().name].on_cpu = (s->info().devices & kCpu) != 0;
  const auto count = [&](const Case& c) {
    for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda})
      for (const SolverBase* s : c.solvers(kind)) {
        const auto compared = all.find(s->info().name);
        if (compared == all.end() || !s->is_applicable(device_of(*s), c.problem())) continue;
        compared->second.classes.insert(s->error_class(c.problem()));
        ++compared->second.problems;
      }
  };
  for (const CaseFile& file : case_files())
    for (const std::string& line : file.lines())
      for (const std::unique_ptr<Case>& c : file.primitive->parse(line)) count(*c);
  return all;
}

/// Every solver of the registry must be served by some case, or a new one could go untested.
TEST(SolverCasesCoverage, EveryRegisteredSolverHasACase) {
  for (const auto& [name, compared] : compared_solvers()) EXPECT_GT(compared.problems, 0) << name << " has no case";
}

/// docs/safety.md names the error classes of every solver. How many problems there are depends on the processor.
TEST(SolverCasesCoverage, TableOfErrorsIsInTheDocuments) {
  std::ifstream in(POLYMIO_CASES_DIR "/../../docs/safety.md");
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
}  // namespace polymio::test
