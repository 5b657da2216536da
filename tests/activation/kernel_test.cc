// The activation kernels of every instruction set that this CPU has, against long double: accuracy over the
// whole range of numbers, special values, lengths and offsets that are no multiple of a vector.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cpu/activation.h"
#include "kernels/cpu/kernels_of.h"
#include "runtime/device.h"

namespace polymio {
namespace {

using kernels::Activation;
using kernels::ActivationPass;

std::vector<CpuIsa> isas() {
  std::vector<CpuIsa> all = {CpuIsa::kGeneric};
  const CpuIsa best = devices()[0].isa;
  if (best >= CpuIsa::kAvx2) all.push_back(CpuIsa::kAvx2);
  if (best >= CpuIsa::kAvx512) all.push_back(CpuIsa::kAvx512);
  if (best >= CpuIsa::kAvx512Bf16) all.push_back(CpuIsa::kAvx512Bf16);
  if (best >= CpuIsa::kAvx512Amx) all.push_back(CpuIsa::kAvx512Amx);
  return all;
}

void run(CpuIsa isa, const Activation& job, std::size_t count) {
  kernels::kernels_of<kernels::ActivationKernels>(isa).run(job, 0, static_cast<std::int64_t>(count));
}

long double logistic(long double x) {
  const long double u = expl(-fabsl(x));
  return (x >= 0 ? 1 : u) / (1 + u);
}

/// f(x) of the functions with a series, alpha and beta 1; for the pass backward f'(x).
long double exact(int mode, bool backward, long double x) {
  const long double u = expl(-2 * fabsl(x));
  switch (mode) {
    case 1: return backward ? logistic(x) * logistic(-x) : logistic(x);
    case 2: return backward ? 4 * u / ((1 + u) * (1 + u)) : tanhl(x);
    case 4: return backward ? logistic(x) : (x > 0 ? x : 0) + log1pl(expl(-fabsl(x)));
    default: return x > 0 ? (backward ? 1 : x) : backward ? expl(x) : expm1l(x);
  }
}

template <class T>
double units_in_last_place(T got, long double want) {
  if (std::isnan(got) != std::isnan(want)) return INFINITY;
  if (std::isinf(got)) return fabsl(want) > std::numeric_limits<T>::max() ? 0 : INFINITY;
  int exponent = 0;
  std::frexp(static_cast<T>(want), &exponent);
  const int least = std::numeric_limits<T>::min_exponent, digits = std::numeric_limits<T>::digits;
  return static_cast<double>(fabsl(want - got) / ldexpl(1, std::max(exponent, least) - digits));
}

/// Numbers of every magnitude of T and of the range of large curvature, both signs.
template <class T>
std::vector<T> numbers() {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> unit(0, 1);
  const double low = std::log2(std::numeric_limits<T>::denorm_min()), high = std::log2(std::numeric_limits<T>::max());
  std::vector<T> all;
  for (int i = 0; i < 20000; ++i) all.push_back(static_cast<T>(std::exp2(low + unit(random) * (high - low))));
  for (int i = 0; i < 40000; ++i) all.push_back(static_cast<T>(unit(random) * (sizeof(T) == 4 ? 110 : 760)));
  for (int i = 0; i < 40000; ++i) all.push_back(static_cast<T>(unit(random) * 4));
  for (std::size_t i = 0; i < all.size(); i += 2) all[i] = -all[i];
  return all;
}

template <class T>
void expect_accurate(DataType type) {
  const std::vector<T> x = numbers<T>(), dy(x.size(), 1);
  std::vector<T> result(x.size());
  for (const auto isa : isas())
    for (const int mode : {1, 2, 4, 9})
      for (const bool backward : {false, true}) {
        Activation job;
        job.type = type;
        job.mode = mode;
        job.pass = backward ? ActivationPass::kBackward : ActivationPass::kForward;
        job.x = x.data();
        job.dy = dy.data();
        job.result = result.data();
        job.alpha = job.beta = 1;
        run(isa, job, x.size());
        double worst = 0, where = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double units = units_in_last_place(result[i], exact(mode, backward, x[i]));
          if (units > worst) {
            worst = units;
            where = static_cast<double>(x[i]);
          }
        }
        // Two vector functions, each within 2 ULP, and a few roundings.
        EXPECT_LT(worst, backward ? 5 : 3)
            << "mode " << mode << " backward " << backward << " isa " << static_cast<int>(isa) << " at " << where;
      }
}

TEST(ActivationKernel, IsAccurateOverAllOfFp32) { expect_accurate<float>(DataType::kFloat); }
TEST(ActivationKernel, IsAccurateOverAllOfFp64) { expect_accurate<double>(DataType::kDouble); }

TEST(ActivationKernel, PowerOfFp32IsThatOfDouble) {
  const std::vector<float> x = numbers<float>();
  std::vector<float> y(x.size());
  for (const auto isa : isas())
    for (const double gamma : {0.0, 1.0, 2.0, -1.5, 0.3, 11.0}) {
      Activation job;
      job.mode = 6;
      job.x = x.data();
      job.result = y.data();
      job.alpha = 0.25;
      job.beta = 0.5;
      job.gamma = static_cast<float>(gamma);
      run(isa, job, x.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double base = job.alpha + job.beta * static_cast<double>(x[i]);
        const double want = base <= 0 ? 0 : std::pow(base, job.gamma);
        ASSERT_LT(units_in_last_place(y[i], want), 0.51) << "gamma " << gamma << " at " << x[i];
      }
    }
}

/// The values at 0, -0, inf, -inf, NaN and the extremes; alpha 0.5, beta 2, gamma 2, dy 1.
TEST(ActivationKernel, SpecialValues) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kMax = std::numeric_limits<float>::max(), kTiny = std::numeric_limits<float>::denorm_min();
  const float x[] = {0, kInf, -kInf, kNan, kMax, -kMax, kTiny, -kTiny}, dy[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  constexpr float kLog2 = 0.69314718f;
  struct Row {
    int mode;
    float forward[8], backward[8];
  };
  // A NaN in `backward` stands for any result: the derivative at NaN is undefined.
  const Row rows[] = {
      {0, {0, kInf, -kInf, kNan, kMax, -kMax, kTiny, -kTiny}, {1, 1, 1, kNan, 1, 1, 1, 1}},
      {1, {0.5, 1, 0, kNan, 1, 0, 0.5, 0.5}, {0.25, 0, 0, kNan, 0, 0, 0.25, 0.25}},
      {2, {0, 2, -2, kNan, 2, -2, 0, -0.0f}, {1, 0, 0, kNan, 0, 0, 1, 1}},
      {3, {0, kInf, 0, kNan, kMax, 0, kTiny, 0}, {0, 1, 0, kNan, 1, 0, 1, 0}},
      {4, {kLog2, kInf, 0, kNan, kMax, 0, kLog2, kLog2}, {0.5, 1, 0, kNan, 1, 0, 0.5, 0.5}},
      {5, {0, kInf, kInf, kNan, kMax, kMax, kTiny, kTiny}, {0, 1, -1, kNan, 1, -1, 1, -1}},
      {6, {0.25, kInf, 0, kNan, kInf, 0, 0.25, 0.25}, {2, kInf, 0, kNan, kInf, 0, 2, 2}},
      {7, {0, 0.5, 0, kNan, 0.5, 0, kTiny, 0}, {0, 0, 0, kNan, 0, 0, 1, 0}},
      {8, {0, kInf, -kInf, kNan, kMax, -kMax / 2, kTiny, -0.0f}, {0.5, 1, 0.5, kNan, 1, 0.5, 1, 0.5}},
      {9, {0, kInf, -0.5, kNan, kMax, -0.5, kTiny, -0.0f}, {0.5, 1, 0, kNan, 1, 0, 1, 0.5}},
      {10, {0.5, 2, 0.5, kNan, 2, 0.5, 0.5, 0.5}, {0, 0, 0, kNan, 0, 0, 0, 0}},
  };
  for (const auto isa : isas())
    for (const Row& row : rows)
      for (const bool backward : {false, true}) {
        float result[8];
        Activation job;
        job.mode = row.mode;
        job.pass = backward ? ActivationPass::kBackward : ActivationPass::kForward;
        job.x = x;
        job.dy = dy;
        job.result = result;
        job.alpha = 0.5;
        job.beta = 2;
        job.gamma = 2;
        run(isa, job, 8);
        for (int i = 0; i < 8; ++i) {
          const float want = backward ? row.backward[i] : row.forward[i];
          if (std::isnan(want) && backward) continue;
          EXPECT_TRUE(std::isnan(want) ? std::isnan(result[i]) : units_in_last_place(result[i], want) < 3)
              << "mode " << row.mode << " backward " << backward << " x " << x[i] << " gives " << result[i] << ", not "
              << want;
        }
      }
}

TEST(ActivationKernel, EveryLengthAndOffsetAndStoreKind) {
  constexpr std::size_t kMost = 80;
  std::vector<float> x(kMost + 8);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) - 30;
  for (const auto isa : isas())
    for (const bool non_temporal : {false, true})
      for (const DataType type : {DataType::kFloat, DataType::kBFloat16})
        for (std::size_t offset = 0; offset < 5; ++offset)
          for (std::size_t n = 0; n <= kMost; ++n) {
            const std::size_t size = size_of(type);
            std::vector<unsigned char> in(x.size() * size), out(x.size() * size, 0xa5);
            for (std::size_t i = 0; i < x.size(); ++i)
              dtype::store(type, in.data(), static_cast<std::int64_t>(i), static_cast<double>(x[i]));
            Activation job;
            job.type = type;
            job.mode = 3;
            job.x = in.data() + offset * size;
            job.result = out.data() + offset * size;
            job.non_temporal = non_temporal;
            run(isa, job, n);
            for (std::size_t i = 0; i < x.size(); ++i) {
              if (i >= offset && i < offset + n) {
                ASSERT_EQ(dtype::load(type, out.data(), static_cast<std::int64_t>(i)), std::max(x[i], 0.0f));
              } else {
                const unsigned char untouched[8] = {0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5};
                ASSERT_EQ(std::memcmp(&out[i * size], untouched, size), 0) << "n " << n << " wrote element " << i;
              }
            }
          }
}

TEST(ActivationKernel, HalvesRoundToNearestEven) {
  for (const auto isa : isas())
    for (const DataType type : {DataType::kHalf, DataType::kBFloat16}) {
      std::vector<std::uint16_t> all(65536), twice(65536);
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
      Activation job;
      job.type = type;
      job.x = all.data();
      job.result = twice.data();
      job.scale = 1.0f / 3;
      run(isa, job, all.size());
      for (std::size_t i = 0; i < all.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        const float want = static_cast<float>(dtype::load(type, all.data(), at)) * static_cast<float>(job.scale);
        std::uint16_t rounded[4] = {};  // of any type that store() knows
        dtype::store(type, rounded, 0, static_cast<double>(want));
        if (std::isnan(want))
          ASSERT_TRUE(std::isnan(dtype::load(type, twice.data(), at)));
        else
          ASSERT_EQ(twice[i], rounded[0]) << "element " << i << " of type " << name_of(type);
      }
    }
}

TEST(ActivationKernel, FromYAgreesWithFromX) {
  std::vector<float> x, dy(997, 0.75f);
  for (std::size_t i = 0; i < dy.size(); ++i) x.push_back(static_cast<float>(i) * 0.008f - 4);
  for (const auto isa : isas())
    for (int mode = 0; mode < 11; ++mode) {
      std::vector<float> y(x.size()), from_x(x.size()), from_y(x.size());
      Activation job;
      job.mode = mode;
      job.alpha = 0.5;
      job.beta = 2;
      job.gamma = 1;
      job.x = x.data();
      job.dy = dy.data();
      job.result = y.data();
      run(isa, job, x.size());
      job.pass = ActivationPass::kBackward;
      job.result = from_x.data();
      run(isa, job, x.size());
      if (mode == 5 || mode == 6 || mode == 7 || mode == 10) continue;  // y does not determine the derivative
      job.pass = ActivationPass::kBackwardFromY;
      job.x = y.data();
      job.result = from_y.data();
      run(isa, job, x.size());
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_NEAR(from_x[i], from_y[i], 1e-6) << "mode " << mode << " at " << x[i];
    }
}

}  // namespace
}  // namespace polymio
