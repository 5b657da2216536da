// Solvers and problems near the limits of 64-bit numbers: each problem is refused with a text, or every size that
// a solver reports can be computed. The sanitizer run detects overflows.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <random>
#include <set>

#include "base/error.h"
#include "primitives/activation/activation.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

DeviceInfo cpu_device(CpuIsa isa, int threads) {
  DeviceInfo d = devices()[0];
  d.isa = isa;
  d.threads = d.units = threads;
  d.cache_bytes = {48u << 10, 2u << 20, 32u << 20};
  d.fp32_gflops = 100;
  d.bandwidth_gbs = 20;
  return d;
}

DeviceInfo gpu_device() {
  DeviceInfo d;
  d.kind = DeviceKind::kCuda;
  d.name = "cuda:0";
  d.architecture = "cuda-sm90";
  d.units = 132;
  d.threads = 132;
  d.memory_bytes = std::size_t{80} << 30;
  d.cache_bytes = {256u << 10, 50u << 20, 50u << 20};
  d.fp32_gflops = 60000;
  d.bandwidth_gbs = 3000;
  d.gpu = {48u << 10, 32, 1024, true, true, 90};
  return d;
}

/// Small numbers, and sometimes one near a power of two.
class RandomSizes {
 public:
  explicit RandomSizes(unsigned seed) : engine_(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n)); }
  std::int64_t large() {
    static constexpr int kBits[] = {12, 16, 20, 24, 28, 31, 31, 32, 36, 40, 44, 46, 47, 62};
    return std::max<std::int64_t>((std::int64_t{1} << kBits[below(std::size(kBits))]) + below(5) - 2, 1);
  }
  std::int64_t size(int odds = 4) { return below(odds) == 0 ? large() : 1 + below(below(2) == 0 ? 8 : 70); }

 private:
  std::mt19937_64 engine_;
};

Problem random_problem(RandomSizes& sizes) {
  static constexpr DataType kTypes[] = {DataType::kFloat, DataType::kHalf, DataType::kBFloat16, DataType::kDouble,
                                        DataType::kInt8};
  Problem p;
  p.direction = static_cast<Direction>(sizes.below(3));
  const auto spatial = static_cast<std::size_t>(1 + sizes.below(3));
  p.geometry.spatial = static_cast<int>(spatial);
  const std::int64_t kind = sizes.below(3);
  const std::int64_t groups = kind == 0 ? 1 : sizes.size(), c = kind == 1 ? 1 : sizes.size(),
                     k = kind == 1 ? 1 : sizes.size();
  p.geometry.groups = groups;
  std::int64_t channels = 0, filters = 0;
  require(!__builtin_mul_overflow(groups, c, &channels) && !__builtin_mul_overflow(groups, k, &filters), "channels");
  std::vector<std::int64_t> x{sizes.size(), channels}, w{filters, c}, y{x[0], filters};
  for (std::size_t i = 0; i < spatial; ++i) {
    x.push_back(sizes.size(3));
    w.push_back(sizes.below(12) == 0 ? sizes.large() : 1 + sizes.below(7));
    p.geometry.pad[i] = sizes.below(10) == 0 ? sizes.large() : sizes.below(4);
    p.geometry.stride[i] = sizes.below(10) == 0 ? sizes.large() : 1 + sizes.below(3);
    p.geometry.dilation[i] = sizes.below(10) == 0 ? sizes.large() : 1 + sizes.below(2);
    y.push_back(forward_size(x[i + 2], w[i + 2], p.geometry.pad[i], p.geometry.stride[i], p.geometry.dilation[i]));
  }
  const DataType type = kTypes[sizes.below(std::size(kTypes))];
  const bool last = sizes.below(2) == 0;
  const auto tensor = [&](const std::vector<std::int64_t>& lens, bool output) {
    std::vector<std::int64_t> strides(lens.size());
    std::int64_t step = 1;
    const auto place = [&](std::size_t d) {
      strides[d] = step;
      require(!__builtin_mul_overflow(step, lens[d], &step), "strides");
    };
    if (last) place(1);
    for (std::size_t d = lens.size() - 1; d > 1; --d) place(d);
    if (!last) place(1);
    place(0);
    for (std::size_t d = 0; d < lens.size(); ++d)
      if (lens[d] == 1 && sizes.below(20) == 0) strides[d] = sizes.large();
    return make_tensor(type == DataType::kInt8 && output ? DataType::kInt32 : type, lens, strides);
  };
  p.x = tensor(x, p.direction == Direction::kBackwardData);
  p.w = tensor(w, p.direction == Direction::kBackwardWeights);
  p.y = tensor(y, p.direction == Direction::kForward);
  validate(p);
  return p;
}

/// Calls every query; returns whether the solver is applicable.
bool ask(const SolverBase& s, const DeviceInfo& d, const ProblemBase& p) {
  if (!(s.info().devices & static_cast<unsigned>(d.kind)) || !s.is_applicable(d, p)) return false;
  const TunePoint start = s.default_point(d, p);
  const TuneSpace space = s.tune_space(d, p);
  EXPECT_EQ(start.size(), space.size());
  EXPECT_TRUE(takes(s, d, p, start));
  const auto points = valid_points(s, d, p);
  EXPECT_TRUE(points.empty() || std::ranges::find(points, start) != points.end()) << to_text(start);
  for (std::size_t i = 0; i <= points.size(); i += 1 + points.size() / 2) {
    const TunePoint& t = i < points.size() ? points[i] : start;
    EXPECT_LT(s.workspace_size(d, p, t), std::size_t{1} << 63) << to_text(t);
    const double us = s.estimate(d, p, t);
    EXPECT_TRUE(us > 0 && us < INFINITY) << to_text(t) << ": " << us;
    s.kernel_specs(d, p, t);
  }
  for (std::size_t k = 0; k < start.size(); ++k)
    for (const int odd : {INT_MIN, -1, 1234567}) {
      TunePoint bad = start;
      bad[k] = odd;
      EXPECT_FALSE(takes(s, d, p, bad)) << to_text(bad);
    }
  TunePoint longer = start;
  longer.push_back(0);
  EXPECT_FALSE(takes(s, d, p, longer));
  EXPECT_TRUE(start.empty() || !takes(s, d, p, {}));
  return true;
}

std::vector<DeviceInfo> all_devices() {
  std::vector<DeviceInfo> list{gpu_device(), cpu_device(CpuIsa::kGeneric, 1)};
  if (const CpuIsa here = devices()[0].isa; here != CpuIsa::kGeneric) list.push_back(cpu_device(here, 96));
  return list;
}

TEST(SizesNearTheLimits, OfConvolutionsAreComputedOrRefused) {
  const auto machines = all_devices();
  std::size_t accepted = 0, refused = 0, large = 0;
  std::set<std::string> seen;
  for (unsigned seed = 0; seed < 500; ++seed) {
    RandomSizes sizes(seed);
    try {
      const Problem p = random_problem(sizes);
      SCOPED_TRACE(testing::Message() << seed << ": " << p.key());
      ++accepted;
      large += p.flops() > 0x1p40;
      EXPECT_FALSE(p.family().empty());
      EXPECT_EQ(p.hash(), p.clone()->hash());
      EXPECT_GT(p.work(), 0);
      p.log_sizes();
      p.features();
      for (const DeviceInfo& d : machines)
        for (const SolverBase* s : solvers(p.direction, d.kind)) {
          SCOPED_TRACE(s->info().name);
          if (ask(*s, d, p)) seen.insert(s->info().name);
        }
    } catch (const Error& e) {
      EXPECT_STRNE(e.what(), "");
      ++refused;
    }
    if (HasFailure()) break;
  }
  std::printf("%zu accepted, %zu of them above 2^40 operations, %zu refused, %zu solvers\n", accepted, large, refused,
              seen.size());
  EXPECT_GT(accepted, 50u);
  EXPECT_GT(large, 10u);
  EXPECT_GT(refused, 10u);
  EXPECT_GT(seen.size(), 20u);
}

TEST(SizesNearTheLimits, OfActivationsAreComputedOrRefused) {
  const auto machines = all_devices();
  std::size_t accepted = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    RandomSizes sizes(seed);
    try {
      std::vector<std::int64_t> lens(static_cast<std::size_t>(1 + sizes.below(5)));
      for (auto& l : lens) l = sizes.size(3);
      const TensorDesc x = make_tensor(sizes.below(2) == 0 ? DataType::kHalf : DataType::kFloat, lens, {});
      const auto p = sizes.below(2) == 0 ? activation::forward_problem(activation::Mode::kElu, x, x)
                                         : activation::backward_problem(activation::Mode::kElu, x, x, x, x);
      activation::validate(p);
      SCOPED_TRACE(p.key());
      ++accepted;
      p.family();
      p.hash();
      p.log_sizes();
      p.features();
      for (const DeviceInfo& d : machines)
        for (const SolverBase* s : activation::solvers(p.direction, d.kind)) {
          SCOPED_TRACE(s->info().name);
          ask(*s, d, p);
        }
    } catch (const Error& e) {
      EXPECT_STRNE(e.what(), "");
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(accepted, 100u);
}

}  // namespace
}  // namespace polymio::convolution
