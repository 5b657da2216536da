// What tests/cases/activation does not see of the solvers: which layouts the packed one takes, the tune space,
// functions in place; and the reference itself.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/handle.h"
#include "primitives/activation/activation.h"
#include "reference/activation.h"
#include "tests/runner/tensors.h"

namespace polymio::activation {
namespace {

namespace ref = polymio::reference;
using Lens = std::vector<std::int64_t>;
constexpr DataType kTypes[] = {DataType::kFloat, DataType::kHalf, DataType::kBFloat16, DataType::kDouble};
constexpr Parameters kParameters{0.75, 1.25, 1.5};  // exact in every type

struct Layouts {
  Lens lens, x, y;  // sizes, strides of x and y
  bool packed;      // whether the packed solver takes them
};
const Layouts kLayouts[] = {
    {{2, 3, 5, 7}, {}, {}, true},
    {{2, 3, 5, 7}, {105, 1, 21, 3}, {105, 1, 21, 3}, true},  // NHWC
    {{2, 3, 5, 7}, {1, 70, 14, 2}, {1, 70, 14, 2}, true},    // equal strides of no named layout
    {{2, 3, 5, 7}, {105, 1, 21, 3}, {}, false},              // NHWC to NCHW
    {{2, 3, 5, 70}, {1200, 400, 80, 1}, {1100, 360, 71, 1}, false},
    {{2, 3, 5, 7}, {500, 150, 30, 4}, {480, 160, 22, 3}, false},
    {{211}, {}, {}, true},
    {{211}, {3}, {2}, false},
    {{13, 17}, {}, {1, 13}, false},
    {{5, 3, 19}, {}, {}, true},
    {{2, 3, 2, 3, 5}, {90, 1, 45, 15, 3}, {}, false},
    {{1, 1, 1, 1}, {9, 9, 9, 9}, {}, true},
    {{3, 5, 33, 67}, {}, {}, true},  // several tasks
    {{3, 5, 33, 67}, {11055, 1, 335, 5}, {}, false},
};

TEST(ActivationSolvers, ThePackedSolverStartsAtOneOfItsTunePoints) {
  const DeviceInfo& device = devices()[0];
  for (const DataType type : kTypes)
    for (const bool backward : {false, true}) {
      const TensorDesc t = make_tensor(type, Lens{7, 3, 161, 67}, {});
      const Problem p = backward ? backward_problem(Mode::kElu, t, t, t, t) : forward_problem(Mode::kElu, t, t);
      const SolverBase& packed = *solvers(p.direction)[0];
      const std::vector<TunePoint> all = valid_points(packed, device, p);
      EXPECT_GE(all.size(), 3u);
      const TunePoint start = packed.default_point(device, p);
      EXPECT_NE(std::find(all.begin(), all.end(), start), all.end()) << "the start is no point: " << to_text(start);
    }
}

TEST(ActivationSolvers, PackedWantsOneRowOfElements) {
  const SolverBase& packed = *solvers(Direction::kForward)[0];
  for (const Layouts& l : kLayouts) {
    const Problem p = forward_problem(Mode::kRelu, make_tensor(DataType::kFloat, l.lens, l.x),
                                      make_tensor(DataType::kFloat, l.lens, l.y));
    EXPECT_EQ(static_cast<bool>(packed.is_applicable(devices()[0], p)), l.packed) << p.key();
  }
}

TEST(ActivationSolvers, ApplyComputesInPlace) {
  Handle handle("cpu", nullptr);
  for (const DataType type : kTypes)
    for (const Layouts& l : kLayouts)
      for (const Mode mode : {Mode::kRelu, Mode::kTanh, Mode::kPower}) {
        ref::Activation wanted;
        wanted.mode = static_cast<ref::ActivationMode>(mode);
        wanted.alpha = kParameters.alpha;
        wanted.beta = kParameters.beta;
        wanted.gamma = kParameters.gamma;
        wanted.x = wanted.out = ref::Tensor(static_cast<ref::Type>(type), l.lens, l.x);
        auto before = test::random_tensor(wanted.x, 1, test::Gaps::kNan);
        for (std::int64_t i = 0; i < wanted.x.count(); ++i) {
          const std::int64_t at = wanted.x.offset(i);
          ref::store(wanted.x.type, before.data(), at, 6 * ref::load(wanted.x.type, before.data(), at));
        }
        auto data = before;
        apply(handle.stream(), test::describe(wanted.x), data.data(), mode, kParameters);
        const auto expected = evaluate(wanted, before.data(), nullptr, nullptr);
        EXPECT_TRUE(ref::compare(arithmetic(wanted), wanted.out, data.data(), expected).ok()) << name_of(mode);
        const auto mask = ref::element_bytes(wanted.x);
        for (std::size_t i = 0; i < mask.size(); ++i)
          EXPECT_TRUE(mask[i] || data[i] == before[i]) << name_of(mode) << ": wrote into the gap at byte " << i;
      }
}

/// The reference against values computed by hand and finite differences of f.
TEST(ActivationReference, HasTheDefinedValuesAndSlopes) {
  ref::Activation p;
  p.alpha = 0.5;
  p.beta = 2;
  p.gamma = 3;
  const double forward[] = {
      -2, 0.11920292202211755, -1.5231883119115297, 0, 0.12692801104297263, 2, 0, 0, -1, -0.432332358381693, 0.5};
  for (int mode = 0; mode < 11; ++mode) {
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
