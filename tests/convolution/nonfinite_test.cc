// Propagation of a NaN or an infinity in an input: every result that depends on it by definition is not finite, and
// for all but the named solvers no other result is. docs/safety.md documents this.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "core/handle.h"
#include "trial.h"

namespace polymio {
namespace {

using convolution::Direction;
using convolution::Problem;

const char* const kLines[] = {
    "conv -n 2 -c 5 -H 9 -W 11 -k 7 -y 3 -x 3 -p 1 -q 1 -g 1 -m conv",
    "conv -n 1 -c 18 -H 12 -W 13 -k 20 -y 3 -x 3 -p 2 -q 2 -g 1 -m conv -I NHWC -f NHWC -O NHWC",
    "conv -n 2 -c 3 -H 15 -W 15 -k 9 -y 5 -x 5 -p 2 -q 2 -u 2 -v 2 -g 1 -m conv",
    "conv -n 2 -c 17 -H 7 -W 7 -k 33 -y 1 -x 1 -g 1 -m conv",
    "conv -n 1 -c 6 -H 20 -W 21 -k 8 -y 7 -x 7 -p 3 -q 3 -g 1 -m conv",
    "conv -n 2 -c 24 -H 7 -W 9 -k 24 -y 3 -x 3 -p 1 -q 1 -g 6 -m conv",
    "conv -n 2 -c 32 -H 7 -W 9 -k 32 -y 3 -x 3 -p 1 -q 1 -g 8 -m conv -I NHWC -f NHWC -O NHWC",
    "convbfp16 -n 2 -c 32 -H 7 -W 9 -k 32 -y 3 -x 3 -p 1 -q 1 -g 8 -m conv -I NHWC -f NHWC -O NHWC",
    "convbfp16 -n 2 -c 64 -H 7 -W 9 -k 64 -y 3 -x 3 -p 1 -q 1 -g 4 -m conv",
    "convbfp16 -n 3 -c 5 -H 9 -W 11 -k 7 -y 3 -x 3 -p 1 -q 1 -g 1 -m conv",
    "convbfp16 -n 2 -c 17 -H 7 -W 7 -k 33 -y 1 -x 1 -g 1 -m conv -I NHWC -f NHWC -O NHWC",
    "convfp16 -n 2 -c 5 -H 9 -W 11 -k 7 -y 3 -x 3 -p 1 -q 1 -g 1 -m conv",
    "conv -n 2 -c 20 -H 7 -W 9 -k 20 -y 3 -x 3 -p 1 -q 1 -g 20 -m conv",
    "conv -n 2 -c 20 -H 7 -W 9 -k 20 -y 3 -x 3 -p 1 -q 1 -g 20 -m conv -I NHWC -f NHWC -O NHWC",
    "convbfp16 -n 2 -c 20 -H 7 -W 9 -k 20 -y 3 -x 3 -p 1 -q 1 -g 20 -m conv -I NHWC -f NHWC -O NHWC",
    "convbfp16 -n 2 -c 20 -H 7 -W 9 -k 20 -y 5 -x 5 -p 2 -q 2 -g 20 -m conv",
    "conv -_ 1 -n 3 -c 20 -W 4 -k 20 -x 4 -q 0 -g 20 -m conv",
    "conv -n 1 -c 6 -H 9 -W 9 -k 6 -y 3 -x 3 -p 2 -q 2 -l 2 -j 2 -g 1 -m conv",
    "convfp64 -n 2 -c 5 -H 9 -W 11 -k 7 -y 3 -x 3 -p 1 -q 1 -g 1 -m conv",
};

/// Of one run: finite results that must not be finite, and non-finite results that must be.
struct Reach {
  std::int64_t swallowed = 0, extra = 0;
};

Reach reach(Handle& handle, const driver::Problem& source, const SolverBase& solver, bool first_input, double value) {
  test::Trial t(source);
  const Problem& p = t.problem;
  std::vector<unsigned char>& poisoned = p.direction == Direction::kForward        ? (first_input ? t.x : t.w)
                                         : p.direction == Direction::kBackwardData ? (first_input ? t.y : t.w)
                                                                                   : (first_input ? t.x : t.y);
  const TensorDesc& desc = first_input ? p.first_input() : p.second_input();
  dtype::store(desc.type, poisoned.data(), desc.space() / 2, value);
  const auto expected = reference::evaluate(source.math, {t.x.data(), t.w.data(), t.y.data()});
  const TunePoint point = solver.default_point(handle.device(), p);
  std::vector<unsigned char> workspace(solver.workspace_size(handle.device(), p, point));
  Problem::Args args;
  args.x = t.x.data();
  args.w = t.w.data();
  args.y = t.y.data();
  args.workspace = workspace.empty() ? nullptr : workspace.data();
  args.workspace_bytes = workspace.size();
  solver.build(handle.stream(), p, point)(handle.stream(), &args);
  const void* const out = p.direction == Direction::kForward        ? args.y
                          : p.direction == Direction::kBackwardData ? args.x
                                                                    : args.w;
  Reach r;
  const auto& output = source.math.output();
  for (std::size_t i = 0; i < expected.value.size(); ++i) {
    const bool got = std::isfinite(reference::load(output.type, out, output.offset(static_cast<std::int64_t>(i))));
    const bool want = std::isfinite(expected.value[i]);
    r.swallowed += got && !want;
    r.extra += !got && want;
  }
  return r;
}

/// Whether results have taps in the padding. Backward data pads dy, too: results at the border have taps outside of it.
bool is_padded(const Problem& p) {
  for (int i = 0; i < p.spatial(); ++i)
    if (p.geometry.pad[static_cast<std::size_t>(i)] != 0 ||
        (p.direction == Direction::kBackwardData && p.filter(i) > 1))
      return true;
  return false;
}

/// Transforms mix a tile. Block-diagonal groups multiply each other's channels by
/// zeros. Weights, and gradients that are multiplied with x, are multiplied by the zeros of the padding.
bool may_reach_more_results(const SolverBase& solver, const Problem& p, bool first_input) {
  const SolverInfo info = solver.info();
  if (info.reference) return false;
  if (info.transforms) return true;
  const bool blocks = p.groups() > 1 && std::string_view(info.name).starts_with("ConvCpuDirect");
  return blocks || (!first_input && is_padded(p));
}

TEST(NonFinite, ReachesDependentResultsAndFewOthers) {
  Handle handle("cpu", nullptr);
  std::set<std::string> amplifying;
  for (const char* line : kLines) {
    const auto args = driver::parse_line(line);
    for (const auto d : {driver::kForward, driver::kBackwardData, driver::kBackwardWeights}) {
      const driver::Problem source(args, d);
      SCOPED_TRACE(driver::problem_line(args, d));
      const Problem p = test::translate(source);
      for (const SolverBase* solver : convolution::solvers(p.direction)) {
        if (!solver->is_applicable(handle.device(), p)) continue;
        const std::string name = solver->info().name;
        for (const bool first : {true, false})
          for (const double value :
               {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
            const Reach r = reach(handle, source, *solver, first, value);
            const std::string what = name + (first ? ", first input, " : ", second input, ") + std::to_string(value);
            EXPECT_EQ(r.swallowed, 0) << what;
            if (r.extra == 0) continue;
            EXPECT_TRUE(may_reach_more_results(*solver, p, first)) << what << ": " << r.extra << " more results";
            amplifying.insert(name);
          }
      }
    }
  }
  EXPECT_GE(amplifying.size(), 10u);  // otherwise docs/safety.md lists too many
}

}  // namespace
}  // namespace polymio
