// Whether GPUs have a solver besides the reference for every problem, with and without workspace, which is not
// predicted to be hopelessly slow. Asks the solvers only: needs no GPU.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "convolution/sample_problem.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

constexpr int kProblems = 2000;
constexpr std::size_t kMostWorkspace = std::size_t{512} << 20;

/// An H100, an AMD GPU, and an OpenCL device without double precision.
std::vector<DeviceInfo> gpus() {
  DeviceInfo cuda = usual_device("cuda-sm90"), hip = usual_device("hip-gfx90a"), opencl = hip;
  cuda.fp32_gflops = 60'000;
  cuda.bandwidth_gbs = 3'300;
  opencl.kind = DeviceKind::kOpenCl;
  opencl.architecture = "opencl-some-device";
  opencl.units = 24;
  opencl.gpu.fp64 = false;
  return {cuda, hip, opencl};
}

class Draw {
 public:
  explicit Draw(unsigned seed) : engine_(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n)); }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  /// From 1 to 2^bits, each power of two as likely as the others.
  std::int64_t up_to_power(std::int64_t bits) {
    const std::int64_t power = std::int64_t{1} << below(bits + 1);
    return power == 1 ? 1 : power / 2 + 1 + below(power / 2);
  }

 private:
  std::mt19937_64 engine_;
};

/// Layout 0: channels first, 1: channels last, 2: any order of the dimensions, with gaps.
TensorDesc tensor(Draw& draw, DataType type, const std::vector<std::int64_t>& lens, int layout) {
  std::vector<std::size_t> order;  // innermost first
  if (layout == 1) order.push_back(1);
  for (std::size_t d = lens.size() - 1; d > 1; --d) order.push_back(d);
  if (layout != 1) order.push_back(1);
  order.push_back(0);
  if (layout == 2)
    for (std::size_t i = order.size() - 1; i > 0; --i)
      std::swap(order[i], order[static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(i) + 1))]);
  std::vector<std::int64_t> strides(lens.size());
  std::int64_t step = 1;
  for (const std::size_t d : order) {
    strides[d] = step;
    step *= lens[d];
    if (layout == 2) step += draw.below(3);
  }
  return make_tensor(type, lens, strides);
}

/// Tensors of at most 2^33 elements.
Problem draw_problem(Draw& draw) {
  static constexpr DataType kTypes[] = {DataType::kFloat, DataType::kHalf, DataType::kBFloat16, DataType::kDouble,
                                        DataType::kInt8};
  static constexpr DataType kOfInt8[] = {DataType::kInt8, DataType::kInt32, DataType::kFloat};
  Problem p;
  p.direction = static_cast<Direction>(draw.below(3));
  p.scalars = static_cast<Scalars>(draw.below(3));
  const auto spatial = static_cast<std::size_t>(1 + draw.below(3));
  p.geometry.spatial = static_cast<int>(spatial);
  const std::int64_t most_bits = draw.one_in(3) ? 33 : 12;
  const std::int64_t groups = draw.one_in(2) ? 1 : draw.up_to_power(most_bits / 2);
  p.geometry.groups = groups;
  const std::int64_t c = draw.one_in(5) ? 1 : draw.up_to_power(most_bits / 2),
                     k = draw.one_in(4) ? 1 + draw.below(4) : draw.up_to_power(most_bits / 2);
  std::vector<std::int64_t> x{draw.up_to_power(8), groups * c}, w{groups * k, c}, y{x[0], groups * k};
  for (std::size_t i = 0; i < spatial; ++i) {
    x.push_back(draw.up_to_power(most_bits / 2));
    w.push_back(draw.one_in(10) ? draw.up_to_power(most_bits / 2) : 1 + draw.below(7));
    p.geometry.pad[i] = draw.one_in(20) ? draw.up_to_power(12) : draw.below(4);
    p.geometry.stride[i] = draw.one_in(20) ? draw.up_to_power(12) : 1 + draw.below(3);
    p.geometry.dilation[i] = draw.one_in(20) ? draw.up_to_power(12) : 1 + draw.below(2);
    y.push_back(forward_size(x[i + 2], w[i + 2], p.geometry.pad[i], p.geometry.stride[i], p.geometry.dilation[i]));
  }
  for (const auto* lens : {&x, &w, &y}) {
    double elements = 1;
    for (const std::int64_t len : *lens) elements *= static_cast<double>(len);
    require(elements <= 0x1p33, "too large");
  }
  const DataType type = kTypes[draw.below(std::size(kTypes))];
  const DataType out = type == DataType::kInt8 ? kOfInt8[draw.below(std::size(kOfInt8))] : type;
  const int layout = draw.one_in(6) ? 2 : static_cast<int>(draw.below(2));
  const auto type_of = [&](Direction d) { return p.direction == d ? out : type; };
  p.x = tensor(draw, type_of(Direction::kBackwardData), x, layout);
  p.w = tensor(draw, type_of(Direction::kBackwardWeights), w, layout);
  p.y = tensor(draw, type_of(Direction::kForward), y, layout);
  validate(p);
  return p;
}

/// The problem with 8-bit floats, mixed types or casts.
Problem with_float8(Draw& draw, Problem p) {
  static constexpr DataType kFloats8[] = {DataType::kFloat8E4m3fn, DataType::kFloat8E5m2, DataType::kFloat8Fnuz,
                                          DataType::kBFloat8Fnuz};
  static constexpr DataType kWide[] = {DataType::kHalf, DataType::kBFloat16, DataType::kFloat, DataType::kDouble};
  const auto float8 = [&] { return kFloats8[draw.below(std::size(kFloats8))]; };
  p.rounding = draw.one_in(2) ? Rounding::kStochastic : Rounding::kStandard;
  const bool casts = draw.one_in(4);
  const DataType wide = kWide[draw.below(std::size(kWide))];
  for (TensorDesc* t : {&p.x, &p.w, &p.y}) {
    t->type = casts ? wide : float8();
    t->cast = casts ? float8() : t->type;
  }
  TensorDesc& result = p.direction == Direction::kForward ? p.y : p.direction == Direction::kBackwardData ? p.x : p.w;
  if (!casts && draw.one_in(2)) result.type = result.cast = wide;
  validate(p);
  return p;
}

/// Microseconds that the device's peak and bandwidth allow, taps in the padding included.
double least_us(const DeviceInfo& d, const Problem& p) {
  const bool narrow = p.x.type == DataType::kHalf || p.x.type == DataType::kBFloat16;
  const double rate = d.fp32_gflops * (narrow && d.kind == DeviceKind::kCuda ? 16 : 1);
  double bytes = 0;
  for (const TensorDesc* t : {&p.x, &p.w, &p.y})
    bytes += static_cast<double>(t->count()) * static_cast<double>(size_of(t->type));
  return std::max(p.flops() / (1e3 * rate), bytes / (1e3 * d.bandwidth_gbs));
}

TEST(Coverage, EveryProblemHasASolverBesidesTheReference) {
  const auto devices = gpus();
  Draw draw(1), draw_types(2);
  int drawn = 0, large = 0, slow = 0, too_much = 0, of_spatial[4] = {};
  while (drawn < kProblems) {
    Problem p;
    try {
      p = draw_problem(draw);
    } catch (const Error&) {  // larger than the limits of the library or of this test
      continue;
    }
    ++drawn;
    ++of_spatial[p.spatial()];
    large += std::max({p.x.count(), p.w.count(), p.y.count()}) > std::int64_t{1} << 30;
    SCOPED_TRACE(p.key());
    bool exceeds = false;
    for (const DeviceInfo& d : devices)
      for (const std::size_t limit : {SIZE_MAX, std::size_t{0}}) {
        SCOPED_TRACE(d.architecture + (limit == 0 ? ", no workspace" : ""));
        bool reference = false;
        double least = INFINITY;
        for (const SolverBase* s : solvers(p.direction, d.kind)) {
          if (!admit(*s, d, p, {.workspace_limit = limit})) continue;
          if (s->info().reference) {
            reference = true;
            continue;
          }
          const TunePoint point = *starting_point(*s, d, p, limit);
          // Besides, weights may be copied, or added, in fp32.
          exceeds |= s->workspace_size(d, p, point) > kMostWorkspace + 4 * static_cast<std::size_t>(p.w.count());
          least = std::min(least, s->estimate(d, p, point));
        }
        EXPECT_EQ(reference, least < INFINITY);
        constexpr double kLatencyUs = 100;  // of a few launches and the steps of one block
        if (!reference || limit == 0) continue;
        EXPECT_LT(least, kLatencyUs + 1000 * least_us(d, p));
        slow += least > kLatencyUs + 100 * least_us(d, p);
      }
    too_much += exceeds;
    const Problem eight = with_float8(draw_types, p);
    for (const DeviceInfo& d : devices) {
      const SolverList list = solvers(eight.direction, d.kind);
      const auto accepts = [&](bool reference) {
        return std::ranges::any_of(list, [&](const SolverBase* s) {
          return s->info().reference == reference && admit(*s, d, eight, {.workspace_limit = 0});
        });
      };
      EXPECT_TRUE(accepts(false) || !d.gpu.fp64) << eight.key() << " on " << d.architecture;
      EXPECT_EQ(accepts(true), accepts(false)) << eight.key() << " on " << d.architecture;
    }
  }
  // Predicted below 1 % of the floor: docs/gpu.md has the causes.
  EXPECT_LE(slow, kProblems / 400);
  // Copies for a row of results that are larger, and weights with few outputs, whose copies are padded.
  EXPECT_LE(too_much, kProblems / 500);
  EXPECT_GT(large, kProblems / 100);
  for (int i = 1; i <= 3; ++i) EXPECT_GT(of_spatial[i], kProblems / 10);
}

/// The problems of a line of bench/problems/user_shapes.csv or model_shapes.csv.
std::vector<Problem> user_problems(const std::string& line, DataType type, bool channels_last) {
  std::vector<std::string> field(20);
  std::istringstream text(line);
  for (std::string& f : field) std::getline(text, f, ',');
  const auto number = [&](std::size_t i) { return std::stoll(field[i]); };
  const auto dims = static_cast<std::size_t>(number(2));
  const auto sizes = [&](std::size_t i) {  // of D, H, W, of which the last exist
    Sizes all(3);
    char x = 0;
    std::istringstream(field[i]) >> all[0] >> x >> all[1] >> x >> all[2];
    return Sizes(all.end() - static_cast<std::ptrdiff_t>(dims), all.end());
  };
  const bool transposed = field[14] == "1";
  Shape s{.x = {number(3), number(4)},
          .w = {number(8), number(4) / number(13)},
          .pad = sizes(11),
          .stride = sizes(10),
          .dilation = sizes(12),
          .groups = number(13),
          .type = type,
          .channels_last = channels_last};
  const Sizes filter = sizes(9);
  for (std::size_t i = 0; i < dims; ++i) {
    const std::int64_t in = number(5 + 3 - dims + i);
    s.w.push_back(filter[i]);
    s.x.push_back(!transposed ? in : (in - 1) * s.stride[i] - 2 * s.pad[i] + s.dilation[i] * (filter[i] - 1) + 1);
  }
  if (transposed) {  // the gradient of a convolution from K to C channels
    std::swap(s.x[1], s.w[0]);
    s.w[1] = s.x[1] / s.groups;
  }
  std::vector<Problem> all;
  for (const Direction d : kDirections) {
    const Direction swapped = d == Direction::kForward        ? Direction::kBackwardData
                              : d == Direction::kBackwardData ? Direction::kForward
                                                              : d;
    if (field[16].find("FBW"[static_cast<int>(d)]) != std::string::npos)
      all.push_back(problem(transposed ? swapped : d, s));
  }
  return all;
}

/// Whether each problem of a list has a solver that is no reference and within 1 % of the floor, and needs at most
/// kMostWorkspace; returns the number of problems.
int check_list(const std::string& name) {
  std::ifstream file(POLYMIO_SOURCE_DIR "/../bench/problems/" + name);
  std::string line;
  std::getline(file, line);
  int problems = 0;
  while (std::getline(file, line))
    for (const DataType type : {DataType::kFloat, DataType::kHalf, DataType::kBFloat16})
      for (const bool channels_last : {false, true})
        for (const Problem& p : user_problems(line, type, channels_last)) {
          ++problems;
          for (const DeviceInfo& d : gpus()) {
            SCOPED_TRACE(line.substr(0, line.find(',')) + ' ' + p.key() + ' ' + d.architecture);
            double least = INFINITY;
            for (const SolverBase* s : solvers(p.direction, d.kind)) {
              if (s->info().reference || !admit(*s, d, p, {.workspace_limit = SIZE_MAX})) continue;
              const TunePoint point = *starting_point(*s, d, p, SIZE_MAX);
              EXPECT_LE(s->workspace_size(d, p, point), kMostWorkspace) << s->info().name;
              least = std::min(least, s->estimate(d, p, point));
            }
            EXPECT_LT(least, 100 + 100 * least_us(d, p));
          }
        }
  return problems;
}

TEST(Coverage, ShapesOfUsersAndModelsHaveFastSolversInLittleWorkspace) {
  EXPECT_EQ(check_list("user_shapes.csv"), 384);
  EXPECT_EQ(check_list("model_shapes.csv"), 1548);
}

}  // namespace
}  // namespace polymio::convolution
