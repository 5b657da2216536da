// Winograd solvers: errors on inputs that are difficult for transforms, within the bound of their error class
// and relative to a plain sum in fp32; equal bits for any number of threads.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "core/handle.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

struct Shape {
  std::int64_t n, c, size, k, filter, dilation = 1, groups = 1;
  Layout layout = Layout::kNCHW;
  std::int64_t depth = 0;  // of 3-D problems, whose filters are cubes
};

Problem make_problem(const Shape& s, Direction direction) {
  Problem p;
  p.direction = direction;
  p.geometry.spatial = s.depth == 0 ? 2 : 3;
  for (std::size_t i = 0; i < static_cast<std::size_t>(p.geometry.spatial); ++i) {
    p.geometry.pad[i] = s.filter / 2 * s.dilation;
    p.geometry.dilation[i] = s.dilation;
  }
  p.geometry.groups = s.groups;
  const auto tensor = [&](std::int64_t n, std::int64_t c, std::int64_t size, std::int64_t depth) {
    std::vector<std::int64_t> lens{n, c, size, size};
    if (s.depth != 0) lens.insert(lens.begin() + 2, depth);
    return make_tensor(DataType::kFloat, s.layout, lens);
  };
  p.x = tensor(s.n, s.c, s.size, s.depth);
  p.w = tensor(s.k, s.c / s.groups, s.filter, s.filter);
  p.y = tensor(s.n, s.k, s.size, s.depth);
  validate(p);
  return p;
}

enum class Inputs { kNormal, kPositive, kWide };

std::vector<float> draw(const TensorDesc& t, Inputs inputs, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> real(0, 1);
  std::vector<float> values(static_cast<std::size_t>(t.count()));
  for (float& v : values) {
    v = inputs == Inputs::kPositive ? real(engine) : normal(engine);
    if (inputs == Inputs::kWide) v *= std::exp2(24 * real(engine) - 12);
  }
  return values;
}

struct Tensors {
  std::vector<float> x, w, y;
  Tensors(const Problem& p, Inputs inputs)
      : x(draw(p.x, inputs, 1)), w(draw(p.w, inputs, 2)), y(draw(p.y, inputs, 3)) {}
};

/// The output of a solver at a point, by default its own.
std::vector<float> run(const SolverBase& solver, const Problem& p, Tensors t, int threads, TunePoint point = {}) {
  Handle handle("cpu", nullptr);
  handle.stream().set_threads(threads);
  if (point.empty()) point = solver.default_point(handle.device(), p);
  std::vector<char> workspace(solver.workspace_size(handle.device(), p, point));
  Problem::Args args;
  args.x = t.x.data();
  args.w = t.w.data();
  args.y = t.y.data();
  args.workspace = workspace.data();
  args.workspace_bytes = workspace.size();
  solver.build(handle.stream(), p, point)(handle.stream(), &args);
  return p.direction == Direction::kForward ? t.y : p.direction == Direction::kBackwardData ? t.x : t.w;
}

/// One output in double and, in the order of memory, in fp32; `magnitude` adds up absolute products.
struct Sum {
  double value = 0, magnitude = 0;
  float plain = 0;
  void add(float a, float b) {
    value += static_cast<double>(a) * b;
    magnitude += std::fabs(static_cast<double>(a) * b);
    plain += a * b;
  }
};

std::size_t flat(std::int64_t i, std::int64_t j, std::int64_t row, std::int64_t column, std::int64_t channels,
                 std::int64_t size) {
  return static_cast<std::size_t>(((i * channels + j) * size + row) * size + column);
}

/// Output (first, second, row, column) of the direction's result.
Sum evaluate(const Shape& s, Direction d, const Tensors& t, std::int64_t first, std::int64_t second, std::int64_t row,
             std::int64_t column) {
  Sum sum;
  const bool forward = d == Direction::kForward, weights = d == Direction::kBackwardWeights;
  const std::int64_t pad = s.filter / 2, range = weights ? s.size : s.filter;
  for (std::int64_t other = 0; other < (weights ? s.n : forward ? s.c : s.k); ++other)
    for (std::int64_t r = 0; r < range; ++r)
      for (std::int64_t q = 0; q < range; ++q) {
        const std::int64_t sign = d == Direction::kBackwardData ? -1 : 1;
        const std::int64_t i = row + sign * (r - pad), j = column + sign * (q - pad);
        if (i < 0 || i >= s.size || j < 0 || j >= s.size) continue;
        if (weights) {
          sum.add(t.x[flat(other, second, i, j, s.c, s.size)], t.y[flat(other, first, r, q, s.k, s.size)]);
        } else if (forward) {
          sum.add(t.x[flat(first, other, i, j, s.c, s.size)], t.w[flat(second, other, r, q, s.c, s.filter)]);
        } else {
          sum.add(t.y[flat(first, other, i, j, s.k, s.size)], t.w[flat(other, second, r, q, s.c, s.filter)]);
        }
      }
  return sum;
}

/// Inputs of a problem, and some of its outputs by definition.
struct Samples {
  Tensors tensors;
  std::vector<std::size_t> positions;
  std::vector<Sum> sums;

  Samples(const Shape& s, const Problem& p, Inputs inputs) : tensors(p, inputs) {
    std::mt19937_64 engine(4);
    const auto below = [&](std::int64_t n) {
      return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(n));
    };
    const TensorDesc& o = p.output();
    for (int i = 0; i < 2000; ++i) {
      const std::int64_t first = below(o.lens[0]), second = below(o.lens[1]), row = below(o.lens[2]);
      const std::int64_t column = below(o.lens[3]);
      positions.push_back(flat(first, second, row, column, o.lens[1], o.lens[2]));
      sums.push_back(evaluate(s, p.direction, tensors, first, second, row, column));
    }
  }
};

/// Errors over those of a plain sum in fp32 (root mean squares), and the largest over the largest magnitude.
struct Errors {
  double ratio, largest;
};

Errors errors_of(const SolverBase& solver, const TunePoint& point, const Problem& p, const Samples& samples) {
  const auto got = run(solver, p, samples.tensors, 1, point);
  double own = 0, plain = 0, largest = 0, magnitude = 0;
  for (std::size_t i = 0; i < samples.sums.size(); ++i) {
    const Sum& sum = samples.sums[i];
    const float value = got[samples.positions[i]];
    EXPECT_TRUE(std::isfinite(value));
    const double error = std::fabs(value - sum.value);
    own += error * error;
    plain += (sum.plain - sum.value) * (sum.plain - sum.value);
    largest = std::max(largest, error);
    magnitude = std::max(magnitude, sum.magnitude);
  }
  return {std::sqrt(own / plain), largest / magnitude};
}

bool is_transform(const SolverBase& s) { return s.info().transforms; }

/// The tune points of different tile sizes, which determine the errors.
std::vector<TunePoint> tiles_of(const SolverBase& solver, const DeviceInfo& device, const Problem& p) {
  std::vector<TunePoint> points;
  const TuneSpace space = solver.tune_space(device, p);
  for (const int tile : space[0].values) {
    points.push_back(solver.default_point(device, p));
    points.back()[0] = tile;
  }
  return points;
}

class Transforms : public testing::TestWithParam<Direction> {};

TEST_P(Transforms, ErrorsStayWithinTheirClass) {
  Handle handle("cpu", nullptr);
  int seen = 0;
  for (const Shape& s :
       {Shape{2, 64, 28, 48, 3}, Shape{1, 24, 40, 32, 11}, Shape{2, 64, 28, 40, 5}, Shape{2, 40, 28, 32, 7}}) {
    const Problem p = make_problem(s, GetParam());
    const Samples samples[] = {{s, p, Inputs::kNormal}, {s, p, Inputs::kPositive}, {s, p, Inputs::kWide}};
    for (const SolverBase* solver : solvers(GetParam())) {
      if (!is_transform(*solver) || !solver->is_applicable(handle.device(), p)) continue;
      const bool approximate = solver->error_class(p) == ErrorClass::kApproximate;
      const double pairs = p.flops() / 2 / static_cast<double>(p.output().count());
      for (const TunePoint& point : tiles_of(*solver, handle.device(), p)) {
        ++seen;
        for (const Inputs inputs : {Inputs::kNormal, Inputs::kPositive, Inputs::kWide}) {
          const Errors e = errors_of(*solver, point, p, samples[static_cast<int>(inputs)]);
          const double units = e.largest / (0x1p-24 * std::sqrt(pairs));
          SCOPED_TRACE(p.key() + " " + solver->info().name + " inputs " + std::to_string(static_cast<int>(inputs)));
          std::printf("%-20s tile %2d filter %2ld inputs %d: %5.2f times a plain sum, %5.2f u sqrt(n)\n",
                      solver->info().name, point[0], static_cast<long>(s.filter), static_cast<int>(inputs), e.ratio,
                      units);
          EXPECT_LE(e.ratio, approximate ? 16 : 4);
          EXPECT_LE(units, approximate ? 4 : 1);
        }
      }
    }
  }
  EXPECT_GE(seen, 12);
}

TEST_P(Transforms, ThreadsDoNotChangeResultsNorThoseOfOtherSolvers) {
  Handle handle("cpu", nullptr);
  int seen = 0;
  for (const Shape& s :
       {Shape{3, 160, 7, 200, 3}, Shape{1, 32, 30, 130, 3}, Shape{2, 20, 30, 24, 7}, Shape{4, 16, 32, 24, 3},
        Shape{1, 144, 17, 160, 3, 6}, Shape{3, 40, 13, 40, 3, 1, 10, Layout::kNHWC},
        Shape{2, 200, 15, 200, 3, 1, 200, Layout::kNHWC}, Shape{2, 3, 40, 32, 3, 1, 1, Layout::kNHWC},
        Shape{1, 140, 9, 150, 5}, Shape{1, 34, 9, 140, 3, 1, 1, Layout::kNCDHW, 4}}) {
    const Problem p = make_problem(s, GetParam());
    const Tensors t(p, Inputs::kNormal);
    for (const SolverBase* solver : solvers(GetParam())) {
      if (solver->info().reference || !solver->is_applicable(handle.device(), p)) continue;
      ASSERT_TRUE(solver->info().deterministic);
      ++seen;
      const auto one = run(*solver, p, t, 1);
      for (const int threads : {2, 5}) {
        const auto more = run(*solver, p, t, threads);
        EXPECT_EQ(std::memcmp(one.data(), more.data(), one.size() * sizeof(float)), 0)
            << p.key() << " " << solver->info().name << " with " << threads << " threads";
      }
    }
  }
  EXPECT_GE(seen, 12);
}

INSTANTIATE_TEST_SUITE_P(All, Transforms,
                         testing::Values(Direction::kForward, Direction::kBackwardData, Direction::kBackwardWeights));

}  // namespace
}  // namespace polymio::convolution
