// Winograd and FFT solvers: errors on inputs that are hard on transforms, within what their class declares and
// beside a plain sum in fp32; the same bits from any number of threads.
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
  std::int64_t n, c, size, k, filter;
};

Problem make_problem(const Shape& s, Direction direction) {
  Problem p;
  p.direction = direction;
  p.geometry.spatial = 2;
  p.geometry.pad[0] = p.geometry.pad[1] = s.filter / 2;
  const auto tensor = [](std::int64_t n, std::int64_t c, std::int64_t size) {
    const std::int64_t lens[] = {n, c, size, size};
    return make_tensor(DataType::kFloat, lens, {});
  };
  p.x = tensor(s.n, s.c, s.size);
  p.w = tensor(s.k, s.c, s.filter);
  p.y = tensor(s.n, s.k, s.size);
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

/// The output of a solver at its default point.
std::vector<float> run(const SolverBase& solver, const Problem& p, Tensors t, int threads) {
  Handle handle("cpu", nullptr);
  handle.stream().set_threads(threads);
  const TunePoint point = solver.default_point(handle.device(), p);
  std::vector<char> workspace(solver.workspace_size(handle.device(), p, point));
  Problem::Args args;
  args.x = t.x.data(), args.w = t.w.data(), args.y = t.y.data();
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

Sum evaluate(const Shape& s, Direction d, const Tensors& t, std::int64_t n, std::int64_t channel, std::int64_t row,
             std::int64_t column) {
  Sum sum;
  const bool forward = d == Direction::kForward;
  const std::int64_t pad = s.filter / 2;
  for (std::int64_t other = 0; other < (forward ? s.c : s.k); ++other)
    for (std::int64_t r = 0; r < s.filter; ++r)
      for (std::int64_t q = 0; q < s.filter; ++q) {
        const std::int64_t i = forward ? row + r - pad : row - r + pad,
                           j = forward ? column + q - pad : column - q + pad;
        if (i < 0 || i >= s.size || j < 0 || j >= s.size) continue;
        const std::int64_t k = forward ? channel : other, c = forward ? other : channel;
        const auto at = static_cast<std::size_t>(((n * (forward ? s.c : s.k) + other) * s.size + i) * s.size + j);
        const auto tap = static_cast<std::size_t>(((k * s.c + c) * s.filter + r) * s.filter + q);
        sum.add(forward ? t.x[at] : t.y[at], t.w[tap]);
      }
  return sum;
}

/// Errors over those of a plain sum in fp32 (root mean squares), and the largest over the largest magnitude.
struct Errors {
  double ratio, largest;
};

Errors errors_of(const SolverBase& solver, const Shape& s, const Problem& p, Inputs inputs) {
  const Tensors t(p, inputs);
  const auto got = run(solver, p, t, 1);
  std::mt19937_64 engine(4);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(n));
  };
  const std::int64_t channels = p.direction == Direction::kForward ? s.k : s.c;
  double own = 0, plain = 0, largest = 0, magnitude = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t n = below(s.n), channel = below(channels), row = below(s.size), column = below(s.size);
    const Sum sum = evaluate(s, p.direction, t, n, channel, row, column);
    const float value = got[static_cast<std::size_t>(((n * channels + channel) * s.size + row) * s.size + column)];
    EXPECT_TRUE(std::isfinite(value));
    const double error = std::fabs(value - sum.value);
    own += error * error;
    plain += (sum.plain - sum.value) * (sum.plain - sum.value);
    largest = std::max(largest, error);
    magnitude = std::max(magnitude, sum.magnitude);
  }
  return {std::sqrt(own / plain), largest / magnitude};
}

bool is_transform(const SolverBase& s) {
  return s.info().algorithm == Algorithm::kWinograd || s.info().algorithm == Algorithm::kFft;
}

class Transforms : public testing::TestWithParam<Direction> {};

TEST_P(Transforms, ErrorsStayWithinTheirClass) {
  Handle handle("cpu", nullptr);
  int seen = 0;
  for (const Shape& s : {Shape{2, 64, 28, 48, 3}, Shape{1, 24, 40, 32, 11}}) {
    const Problem p = make_problem(s, GetParam());
    for (const SolverBase* solver : solvers(GetParam())) {
      if (!is_transform(*solver) || !solver->is_applicable(handle.device(), p)) continue;
      ++seen;
      for (const Inputs inputs : {Inputs::kNormal, Inputs::kPositive, Inputs::kWide}) {
        const Errors e = errors_of(*solver, s, p, inputs);
        SCOPED_TRACE(p.key() + " " + solver->info().name + " inputs " + std::to_string(static_cast<int>(inputs)));
        const double pairs = static_cast<double>((GetParam() == Direction::kForward ? s.c : s.k) * s.filter * s.filter);
        std::printf("%-20s filter %ld inputs %d: %5.2f times a plain sum, %5.2f u sqrt(n)\n", solver->info().name,
                    static_cast<long>(s.filter), static_cast<int>(inputs), e.ratio,
                    e.largest / (0x1p-24 * std::sqrt(pairs)));
        const bool approximate = solver->error_class(p) == ErrorClass::kApproximate;
        EXPECT_LE(e.ratio, approximate ? 16 : 4);
        EXPECT_LE(e.largest, (approximate ? 4 : 1) * 0x1p-24 * std::sqrt(pairs));
      }
    }
  }
  EXPECT_GE(seen, 3);
}

TEST_P(Transforms, ThreadsDoNotChangeResults) {
  Handle handle("cpu", nullptr);
  int seen = 0;
  for (const Shape& s : {Shape{3, 160, 10, 200, 3}, Shape{1, 32, 30, 130, 3}, Shape{2, 20, 30, 40, 7}}) {
    const Problem p = make_problem(s, GetParam());
    const Tensors t(p, Inputs::kNormal);
    for (const SolverBase* solver : solvers(GetParam())) {
      if (!is_transform(*solver) || !solver->is_applicable(handle.device(), p)) continue;
      ++seen;
      const auto one = run(*solver, p, t, 1);
      for (const int threads : {2, 5}) {
        const auto more = run(*solver, p, t, threads);
        EXPECT_EQ(std::memcmp(one.data(), more.data(), one.size() * sizeof(float)), 0)
            << p.key() << " " << solver->info().name << " with " << threads << " threads";
      }
    }
  }
  EXPECT_GE(seen, 5);
}

INSTANTIATE_TEST_SUITE_P(All, Transforms, testing::Values(Direction::kForward, Direction::kBackwardData));

}  // namespace
}  // namespace polymio::convolution
