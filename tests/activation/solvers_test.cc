// Every activation solver against the independent reference: functions, types, directions, layouts, scalars;
// gaps between elements are unchanged. On any device.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "core/handle.h"
#include "primitives/activation/activation.h"
#include "reference/activation.h"
#include "tests/core/on_device.h"

namespace polymio::activation {
namespace {

namespace ref = polymio::reference;
using Lens = std::vector<std::int64_t>;
constexpr DataType kTypes[] = {DataType::kFloat, DataType::kHalf, DataType::kBFloat16, DataType::kDouble};
constexpr Parameters kParameters{0.75, 1.25, 1.5};  // exact in every type
constexpr unsigned char kUntouched = 0xa5;

/// Strides of tensors of one size: x, y, dy, dx.
struct Layouts {
  Lens lens, x, y, dy, dx;
};
const Layouts kLayouts[] = {
    {{2, 3, 5, 7}, {}, {}, {}, {}},
    {{2, 3, 5, 7}, {105, 1, 21, 3}, {105, 1, 21, 3}, {105, 1, 21, 3}, {105, 1, 21, 3}},  // NHWC
    {{2, 3, 5, 7}, {1, 70, 14, 2}, {1, 70, 14, 2}, {1, 70, 14, 2}, {1, 70, 14, 2}},  // equal strides of no named layout
    {{2, 3, 5, 7}, {105, 1, 21, 3}, {}, {}, {105, 1, 21, 3}},                        // NHWC to NCHW
    {{2, 3, 5, 70}, {1200, 400, 80, 1}, {1100, 360, 71, 1}, {}, {2000, 600, 100, 1}},        // rows with gaps
    {{2, 3, 5, 7}, {500, 150, 30, 4}, {480, 160, 22, 3}, {105, 35, 7, 1}, {600, 2, 60, 6}},  // strided elements
    {{211}, {}, {}, {}, {}},
    {{211}, {3}, {2}, {1}, {2}},
    {{13, 17}, {}, {1, 13}, {}, {}},
    {{5, 3, 19}, {}, {}, {60, 20, 1}, {}},
    {{2, 3, 2, 3, 5}, {90, 1, 45, 15, 3}, {}, {}, {}},
    {{1, 1, 1, 1}, {9, 9, 9, 9}, {}, {}, {}},
    {{3, 5, 33, 67}, {}, {}, {}, {}},  // several tasks
    {{3, 5, 33, 67}, {11055, 1, 335, 5}, {}, {11055, 1, 335, 5}, {}},
};

struct Tensor {
  Tensor(DataType type, const Lens& lens, const Lens& strides)
      : desc(make_tensor(type, lens, strides)),
        plain(static_cast<ref::Type>(type), lens, strides),
        bytes(plain.bytes(), kUntouched) {}
  void fill(unsigned seed, double limit) {
    std::mt19937 random(seed);
    const double kinks[] = {0, kParameters.alpha, -1, 1};
    for (std::int64_t i = 0; i < plain.count(); ++i) {
      const double unit = static_cast<double>(random()) / static_cast<double>(random.max()) * 2 - 1;
      ref::store(plain.type, bytes.data(), plain.offset(i), i % 9 == 8 ? kinks[i / 9 % 4] : unit * limit);
    }
  }
  /// Values that must not reach a result.
  void poison() {
    for (std::int64_t i = 0; i < plain.count(); ++i) ref::store(plain.type, bytes.data(), plain.offset(i), NAN);
  }
  bool gaps_untouched() const {
    const std::size_t size = ref::size_of(plain.type);
    std::vector<bool> used(static_cast<std::size_t>(plain.space()));
    for (std::int64_t i = 0; i < plain.count(); ++i) used[static_cast<std::size_t>(plain.offset(i))] = true;
    for (std::size_t i = 0; i < used.size(); ++i)
      for (std::size_t b = 0; b < size && !used[i]; ++b)
        if (bytes[i * size + b] != kUntouched) return false;
    return true;
  }

  TensorDesc desc;
  ref::Tensor plain;
  std::vector<unsigned char> bytes;
};

struct Case {
  Case(DataType type, const Layouts& l)
      : x(type, l.lens, l.x), y(type, l.lens, l.y), dy(type, l.lens, l.dy), dx(type, l.lens, l.dx) {
    x.fill(1, 6);
    dy.fill(2, 2);
  }

  Problem problem(Mode mode, bool backward) const {
    return backward ? backward_problem(mode, x.desc, y.desc, dy.desc, dx.desc) : forward_problem(mode, x.desc, y.desc);
  }

  /// Runs the solver at this point and compares all elements.
  void expect_right(Handle& handle, const SolverBase& solver, const TunePoint& point, const Problem& p, double scale,
                    double keep) {
    Tensor& out = p.forward() ? y : dx;
    std::fill(out.bytes.begin(), out.bytes.end(), kUntouched);
    if (keep != 0)
      out.fill(3, 2);
    else
      out.poison();
    const auto old = out.bytes;
    {
      // Some buffers begin at an odd element.
      const std::size_t shift = p.mode == Mode::kLeakyRelu ? ref::size_of(x.plain.type) : 0;
      const test::There x_there(handle, x.bytes), dy_there(handle, dy.bytes), out_there(handle, out.bytes, shift);
      Problem::Args args;
      args.x = x_there.data();
      args.dy = p.forward() ? nullptr : dy_there.data();
      args.result = out_there.data();
      args.parameters = kParameters;
      args.scale = scale;
      args.keep = keep;
      solver.build(handle.stream(), p, point)(handle.stream(), &args);
    }

    ref::Activation wanted;
    wanted.mode = static_cast<ref::ActivationMode>(p.mode);
    wanted.backward = !p.forward();
    wanted.alpha = kParameters.alpha;
    wanted.beta = kParameters.beta;
    wanted.gamma = kParameters.gamma;
    wanted.scale = scale;
    wanted.keep = keep;
    wanted.x = x.plain;
    wanted.dy = dy.plain;
    wanted.out = out.plain;
    const auto expected = evaluate(wanted, x.bytes.data(), dy.bytes.data(), old.data());
    const auto compared = ref::compare(arithmetic(wanted), out.plain, out.bytes.data(), expected);
    EXPECT_TRUE(compared.ok()) << solver.info().name << ' ' << to_text(point) << ": " << p.key() << ": element "
                               << compared.index << " is " << compared.got << ", should be " << compared.want << " +- "
                               << compared.tolerance << " (scale " << scale << " keep " << keep << ")";
    EXPECT_TRUE(out.gaps_untouched()) << solver.info().name << ": " << p.key();
  }

  Tensor x, y, dy, dx;
};

/// Every point of the tune space that the solver accepts.
std::vector<TunePoint> points(const SolverBase& solver, const DeviceInfo& device, const Problem& p) {
  std::vector<TunePoint> all = {{}};
  for (const Knob& knob : solver.tune_space(device, p)) {
    std::vector<TunePoint> longer;
    for (const TunePoint& point : all)
      for (const int value : knob.values) {
        longer.push_back(point);
        longer.back().push_back(value);
      }
    all = std::move(longer);
  }
  std::erase_if(all, [&](const TunePoint& t) { return !solver.is_valid(device, p, t); });
  return all;
}

class EveryFunction : public testing::TestWithParam<int> {};

TEST_P(EveryFunction, OfEverySolverIsRight) {
  Handle handle(test::device_name(), nullptr);
  const Mode mode = static_cast<Mode>(GetParam());
  for (const DataType type : kTypes)
    for (const Layouts& layouts : kLayouts) {
      Case c(type, layouts);
      for (const bool backward : {false, true}) {
        const Problem p = c.problem(mode, backward);
        ASSERT_NO_THROW(validate(p)) << p.key();
        if (!test::sampled()) continue;
        int served = 0;
        for (const SolverBase* solver : solvers(p.direction, handle.device().kind)) {
          if (!admit(*solver, handle.device(), p, {})) continue;
          ++served;
          const TunePoint start = solver->default_point(handle.device(), p);
          c.expect_right(handle, *solver, start, p, 1, 0);
          c.expect_right(handle, *solver, start, p, 0.5, -2);
        }
        EXPECT_GT(served, 0) << p.key();
      }
    }
}
INSTANTIATE_TEST_SUITE_P(Activation, EveryFunction, testing::Range(0, 10),
                         [](const auto& info) { return name_of(static_cast<Mode>(info.param)); });

TEST(ActivationSolvers, EveryTunePointIsRight) {
  Handle handle("cpu", nullptr);
  for (const DataType type : kTypes) {
    Case c(type, {{7, 3, 161, 67}, {}, {}, {}, {}});
    for (const bool backward : {false, true}) {
      const Problem p = c.problem(Mode::kElu, backward);
      const SolverBase& packed = *solvers(p.direction)[0];
      const auto all = points(packed, handle.device(), p);
      EXPECT_GE(all.size(), 3u);
      const TunePoint start = packed.default_point(handle.device(), p);
      EXPECT_NE(std::find(all.begin(), all.end(), start), all.end()) << "the start is no point: " << to_text(start);
      for (const TunePoint& point : all) c.expect_right(handle, packed, point, p, 1, 0);
    }
  }
}

TEST(ActivationSolvers, PackedWantsOneRowOfElements) {
  const DeviceInfo& device = devices()[0];
  const bool dense[] = {true, true, true, false, false, false, true, false, false, true, false, true, true, false};
  static_assert(std::size(dense) == std::size(kLayouts));
  for (std::size_t i = 0; i < std::size(dense); ++i) {
    const Case c(DataType::kFloat, kLayouts[i]);
    EXPECT_EQ(static_cast<bool>(solvers(Direction::kForward)[0]->is_applicable(device, c.problem(Mode::kRelu, false))),
              dense[i])
        << "layout " << i;
  }
}

TEST(ActivationSolvers, ApplyComputesInPlace) {
  Handle handle("cpu", nullptr);
  for (const DataType type : kTypes)
    for (const Layouts& layouts : kLayouts) {
      Case c(type, layouts);
      for (const Mode mode : {Mode::kRelu, Mode::kTanh, Mode::kPower}) {
        Tensor data = c.x;
        apply(handle.stream(), data.desc, data.bytes.data(), mode, kParameters);
        ref::Activation wanted;
        wanted.mode = static_cast<ref::ActivationMode>(mode);
        wanted.alpha = kParameters.alpha;
        wanted.beta = kParameters.beta;
        wanted.gamma = kParameters.gamma;
        wanted.x = wanted.out = c.x.plain;
        const auto expected = evaluate(wanted, c.x.bytes.data(), nullptr, nullptr);
        EXPECT_TRUE(ref::compare(arithmetic(wanted), data.plain, data.bytes.data(), expected).ok()) << name_of(mode);
        EXPECT_TRUE(data.gaps_untouched());
      }
    }
}

/// The reference against values computed by hand and finite differences of f.
TEST(ActivationReference, HasTheDefinedValuesAndSlopes) {
  ref::Activation p;
  p.alpha = 0.5;
  p.beta = 2;
  p.gamma = 3;
  const double forward[] = {-2, 0.11920292202211755, -1.5231883119115297, 0, 0.12692801104297263, 2, 0, 0,
                            -1, -0.432332358381693};
  for (int mode = 0; mode < 10; ++mode) {
    p.mode = static_cast<ref::ActivationMode>(mode);
    EXPECT_NEAR(activate(p, -2), forward[mode], 1e-14) << mode;
    for (const double x : {-3.0, -0.7, 0.2, 0.4, 1.5}) {
      const double h = 1e-5, slope = (activate(p, x + h) - activate(p, x - h)) / (2 * h);
      EXPECT_NEAR(activate_backward(p, x, 3), 3 * slope, 1e-7) << mode << " at " << x;
    }
  }
}

}  // namespace
}  // namespace polymio::activation
