// Convolutions with bias and activation: every solver, fusing or composed with a pass, against the definition
// in double, on any device; which solvers fuse, refused problems, and find on fused problems.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/fused.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/registry.h"
#include "reference/activation.h"
#include "reference/convolution.h"
#include "reference/tolerance.h"
#include "sample_problem.h"
#include "tests/core/on_device.h"

namespace polymio::convolution {
namespace {

constexpr int kRelu = 3, kPower = 6, kLeaky = 8, kClamp = 10, kSwish = 11, kModes = 12;

Handle& handle() {
  static Handle h(test::device_name(), nullptr);
  return h;
}
DeviceKind kind() { return handle().device().kind; }

Problem fused(const Shape& shape, const Epilogue& epilogue) {
  Problem p = problem(Direction::kForward, shape);
  p.epilogue = epilogue;
  return p;
}

using Bytes = std::vector<unsigned char>;

/// Data with a bias, a batch norm and a residual, and activation parameters that are no special case of any function.
struct FusedData : Data {
  Bytes bias, norm[4], residual;
  explicit FusedData(const Problem& p) : Data(p) {
    auto make = [seed = 4U](const TensorDesc& desc, Bytes& bytes) mutable {
      bytes.resize(desc.bytes());
      fill(desc, bytes, seed++);
    };
    make(make_tensor(p.y.type, Sizes{p.k()}, {}), bias);
    for (Bytes& bytes : norm) make(make_tensor(p.parameter_type(), Sizes{p.k()}, {}), bytes);
    make(p.y, residual);
    args.bias = bias.data();
    args.norm_scale = norm[0].data();
    args.norm_bias = norm[1].data();
    args.norm_mean = norm[2].data();
    args.norm_variance = norm[3].data();
    args.norm_epsilon = 2;  // more than any random variance is negative
    args.residual = residual.data();
    args.residual_alpha = -1.5;
    const bool clamp = p.epilogue.activation == kClamp;
    args.activation_alpha = clamp ? -0.5 : 0.75;
    args.activation_beta = clamp ? 0.75 : 0.5;
    args.activation_gamma = 1.5;
  }
};

reference::Tensor describe(const TensorDesc& t) {
  const auto rank = static_cast<std::ptrdiff_t>(t.rank);
  return {static_cast<reference::Type>(t.type),
          {t.lens.begin(), t.lens.begin() + rank},
          {t.strides.begin(), t.strides.begin() + rank}};
}

reference::Convolution plain_reference(const Problem& p, const Problem::Args& a) {
  reference::Convolution c;
  c.x = describe(p.x);
  c.w = describe(p.w);
  c.y = describe(p.y);
  for (std::size_t i = 0; i < static_cast<std::size_t>(p.spatial()); ++i) {
    c.pad.push_back(p.geometry.pad[i]);
    c.stride.push_back(p.geometry.stride[i]);
    c.dilation.push_back(p.geometry.dilation[i]);
  }
  c.groups = p.groups();
  c.alpha = a.alpha;
  c.beta = a.beta;
  return c;
}

/// Runs the solver once at its default point, on the device.
void run_there(const SolverBase& solver, const Problem& p, FusedData& data) {
  const TunePoint point = solver.default_point(handle().device(), p);
  std::vector<unsigned char> workspace(solver.workspace_size(handle().device(), p, point));
  const test::There x(handle(), data.x), w(handle(), data.w), y(handle(), data.y), b(handle(), data.bias),
      scale(handle(), data.norm[0]), shift(handle(), data.norm[1]), mean(handle(), data.norm[2]),
      variance(handle(), data.norm[3]), residual(handle(), data.residual), space(handle(), workspace);
  Problem::Args args = data.args;
  args.x = x.data();
  args.w = w.data();
  args.y = y.data();
  args.bias = b.data();
  args.norm_scale = scale.data();
  args.norm_bias = shift.data();
  args.norm_mean = mean.data();
  args.norm_variance = variance.data();
  args.residual = residual.data();
  args.workspace = workspace.empty() ? nullptr : space.data();
  args.workspace_bytes = workspace.size();
  solver.build(handle().stream(), p, point)(handle().stream(), &args);
}

/// The interval of correct results per output, in dense order, when factors are rounded with this relative error.
std::vector<reference::Interval> expected(const Problem& p, const FusedData& data, double input_rounding = 0) {
  const Problem::Args& a = data.args;
  const auto conv = plain_reference(p, a);
  const auto sums = reference::evaluate(conv, {data.x.data(), data.w.data(), data.y.data()});
  auto arithmetic = reference::arithmetic(conv);
  if (input_rounding > 0) arithmetic.input_rounding = input_rounding;
  reference::Activation f;
  f.mode = static_cast<reference::ActivationMode>(p.epilogue.activation);
  f.alpha = a.activation_alpha;
  f.beta = a.activation_beta;
  f.gamma = a.activation_gamma;
  const reference::Type type = conv.y.type;
  const bool wide = type == reference::Type::kDouble;
  const std::int64_t positions = p.y.count() / p.n() / p.k();
  std::vector<reference::Interval> ranges;
  for (std::size_t i = 0; i < sums.value.size(); ++i) {
    const std::int64_t channel = static_cast<std::int64_t>(i) / positions % p.k();
    double factor = 1, bias = p.epilogue.bias ? dtype::load(p.y.type, data.bias.data(), channel) : 0;
    if (p.epilogue.norm) {
      const auto parameter = [&](int n) { return dtype::load(p.parameter_type(), data.norm[n].data(), channel); };
      factor = parameter(0) / std::sqrt(parameter(3) + a.norm_epsilon);
      bias = factor * (bias - parameter(2)) + parameter(1);
    }
    if (p.epilogue.residual)
      bias +=
          a.residual_alpha * reference::load(type, data.residual.data(), conv.y.offset(static_cast<std::int64_t>(i)));
    const double v = factor * sums.value[i] + bias;
    // The sum may be rounded to the output's type before the epilogue reads it.
    const double between = type == reference::Type::kHalf ? 0x1p-11 : type == reference::Type::kBFloat16 ? 0x1p-8 : 0;
    const double terms = p.epilogue.norm || p.epilogue.residual ? 4 : 0;  // of the bias, each at most 1
    const double bound =
        reference::error_bound(arithmetic, std::fabs(factor) * sums.magnitude[i] + std::fabs(bias) + terms) +
        between * std::fabs(factor * sums.value[i]) + (between > 0 ? 0x1p-24 : 0);
    double low = INFINITY, high = -INFINITY;
    // Where swish has its least value; the other functions are monotone on either side of 0.
    const double least = p.epilogue.activation == kSwish ? -1.2784645427610738 / f.alpha : v;
    for (const double x :
         {v - bound, v + bound, std::clamp(0.0, v - bound, v + bound), std::clamp(least, v - bound, v + bound)}) {
      const double y = reference::activate(f, x);
      low = std::min(low, y);
      high = std::max(high, y);
    }
    const double error = (wide ? 0x1p-48 : 0x1p-20) * std::max(std::fabs(low), std::fabs(high));
    ranges.push_back({reference::round_to(type, low - error), reference::round_to(type, high + error)});
  }
  return ranges;
}

/// Runs every applicable solver; counts its runs.
void check_all(const Shape& shape, const Epilogue& epilogue, std::map<std::string, int>& ran, double alpha = 1,
               double beta = 0) {
  if (!test::sampled()) return;
  Problem p = fused(shape, epilogue);
  p.scalars = beta != 0 ? Scalars::kBilinear : alpha != 1 ? Scalars::kScale : Scalars::kDefault;
  FusedData data(p);
  data.args.alpha = alpha;
  data.args.beta = beta;
  const auto before = data.y;
  std::vector<reference::Interval> right[2];  // of accurate solvers, and of solvers that truncate factors to tf32
  const reference::Tensor y = describe(p.y);
  for (const SolverBase* solver : solvers(p, kind())) {
    if (!solver->is_applicable(handle().device(), p)) continue;
    ++ran[solver->info().name];
    data.y = before;
    const bool reduced = solver->error_class(p) == ErrorClass::kReduced;
    auto& ranges = right[reduced];
    if (ranges.empty()) ranges = expected(p, data, reduced ? 1.0 / 1024 : 0);
    run_there(*solver, p, data);
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const double got = reference::load(y.type, data.y.data(), y.offset(static_cast<std::int64_t>(i)));
      ASSERT_TRUE(ranges[i].low <= got && got <= ranges[i].high)
          << solver->info().name << ": " << p.key() << ": y[" << i << "] is " << got << ", allowed are "
          << ranges[i].low << " to " << ranges[i].high;
    }
  }
}

/// A causal depthwise filter: callers use the first 520 results.
Shape causal(bool channels_last) {
  return {{1, 8, 520}, {8, 1, 4}, {3}, {}, {}, 8, DataType::kFloat, DataType::kFloat, channels_last};
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> kShapes = {
      {{2, 16, 14, 15}, {24, 16, 3, 3}, {1, 1}},
      {{3, 32, 17, 17}, {40, 32, 1, 1}},
      {{2, 12, 11, 10}, {18, 4, 3, 3}, {1, 1}, {2, 1}, {}, 3},
      {{2, 16, 13, 9}, {16, 1, 3, 3}, {1, 1}, {}, {}, 16},
      {{2, 4, 40}, {6, 4, 5}, {2}, {2}},
      {{1, 4, 6, 7, 8}, {5, 4, 3, 3, 3}, {1, 1, 1}},
      {{2, 16, 9, 10}, {300, 16, 3, 3}, {1, 1}, {}, {}, 1, DataType::kFloat, DataType::kFloat, true},
      {{2, 12, 9, 10}, {18, 6, 3, 3}, {1, 1}, {}, {}, 2, DataType::kFloat, DataType::kFloat, true},
      {{2, 5, 8, 8}, {6, 5, 3, 3}, {1, 1}, {}, {}, 1, DataType::kFloat, DataType::kFloat, false, 2},
      {{1, 7, 3, 3}, {1, 7, 3, 3}},
      {{1, 3, 40, 50}, {8, 3, 1, 1}},
      {{2, 32, 9, 10}, {32, 4, 3, 3}, {1, 1}, {}, {}, 8, DataType::kFloat, DataType::kFloat, true},
      {{3, 64, 9, 11}, {80, 64, 1, 1}, {}, {}, {}, 1, DataType::kFloat, DataType::kFloat, true},
      causal(false),
      causal(true),
      {{1, 4, 4, 5, 6}, {8, 1, 2, 3, 3}, {0, 1, 1}, {}, {}, 4},
      {{1, 8, 9, 10}, {8, 1, 3, 3}, {1, 1}, {}, {}, 8},
      {{1, 8, 9, 7}, {8, 1, 5, 5}, {2, 2}, {2, 2}, {}, 8},
      {{1, 6, 9, 7}, {6, 1, 3, 3}, {1, 1}, {2, 2}, {}, 6, DataType::kFloat, DataType::kFloat, true},
      {{1, 16, 9, 10}, {16, 1, 3, 3}, {1, 1}, {}, {}, 16, DataType::kFloat, DataType::kFloat, true},
      {{1, 16, 9, 10}, {16, 1, 5, 5}, {2, 2}, {}, {}, 16, DataType::kFloat, DataType::kFloat, true},
      {{2, 40, 2, 2}, {40, 1, 3, 3}, {1, 1}, {}, {}, 40},
      {{2, 70, 7, 6}, {70, 1, 3, 3}, {1, 1}, {}, {}, 70, DataType::kFloat, DataType::kFloat, true},
      {{3, 64, 8, 6}, {64, 4, 3, 3}, {1, 1}, {}, {}, 16},
  };
  return kShapes;
}

TEST(Fused, EverySolverComputesEveryActivation) {
  std::map<std::string, int> ran;
  for (const Shape& shape : shapes())
    for (int mode = 0; mode < kModes; ++mode) {
      check_all(shape, {true, mode}, ran);
      check_all(shape, {false, mode}, ran);
      if (HasFatalFailure()) return;
    }
  if (!test::on_cpu()) return;  // a sample of cases may not reach every solver
  for (const SolverBase* s : solvers(Direction::kForward)) EXPECT_GE(ran[s->info().name], kModes) << s->info().name;
}

TEST(Fused, EverySolverComputesNormsAndResiduals) {
  std::map<std::string, int> ran;
  std::size_t number = 0;
  for (const DataType type : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBFloat16})
    for (Shape shape : shapes()) {
      if (type != DataType::kFloat && ++number % 3 != 0) continue;
      shape.type = type;
      // Activations that are ranges, and one that is not.
      for (const int mode : {kRelu, kClamp, 2}) check_all(shape, {false, mode, true, false}, ran);
      check_all(shape, {true, kRelu, true, false}, ran);
      check_all(shape, {true, kLeaky, true, true}, ran);
      check_all(shape, {false, kRelu, false, true}, ran);
      check_all(shape, {true, 0, false, true}, ran, 0.5, 0.25);
      if (HasFatalFailure()) return;
    }
  if (!test::on_cpu()) return;
  for (const SolverBase* s : solvers(Direction::kForward)) EXPECT_GE(ran[s->info().name], 7) << s->info().name;
}

/// Enough elements for the kernels that take matrix units, and channels that are no multiple of a block's.
TEST(Fused, EverySolverComputesNormsOfWideDepthwiseFilters) {
  std::map<std::string, int> ran;
  for (const std::int64_t side : {5, 7}) {
    const Shape shape = {.x = {2, 72, 39, 40},
                         .w = {72, 1, side, side},
                         .pad = {side / 2, side / 2},
                         .groups = 72,
                         .type = DataType::kHalf,
                         .channels_last = true};
    check_all(shape, {true, kRelu}, ran);
    check_all(shape, {false, kRelu, true}, ran);
    check_all(shape, {true, kLeaky, true}, ran, 0.5, 0.25);
    if (HasFatalFailure()) return;
  }
}

TEST(Fused, EveryTypeAndLayout) {
  std::map<std::string, int> ran;
  for (const DataType type : {DataType::kDouble, DataType::kHalf, DataType::kBFloat16})
    for (Shape shape : shapes()) {
      shape.type = type;
      for (const int mode : {0, 2, kRelu, 6, 9, kClamp}) check_all(shape, {true, mode}, ran);
      check_all(shape, {false, 1}, ran);
      if (HasFatalFailure()) return;
    }
}

TEST(Fused, ScalarsComeBeforeBiasAndActivation) {
  std::map<std::string, int> ran;
  for (const Shape& shape : shapes()) {
    check_all(shape, {true, kLeaky}, ran, 0.5, 0.25);
    check_all(shape, {true, kLeaky}, ran, -2);
    check_all(shape, {true, kRelu}, ran, -2);
    if (HasFatalFailure()) return;
  }
}

TEST(Fused, SomeSolversFuseAndTheOthersReportThatTheyDoNot) {
  const auto refusal = [](const std::string& solver, const Shape& shape, int mode = kRelu) {
    for (const SolverBase* s : solvers(Direction::kForward))
      if (s->info().name == solver) return s->is_applicable(handle().device(), fused(shape, {true, mode})).text();
    return "no solver " + solver;
  };
  for (const char* name :
       {"ConvCpuGemmFwd", "ConvCpuImplicitGemmFwd", "ConvCpuDirectFwd", "ConvCpuWinogradFwd", "ConvCpuReferenceFwd"})
    EXPECT_EQ(refusal(name, shapes()[0]), "") << name;
  EXPECT_EQ(refusal("ConvCpuDepthwiseFwd", shapes()[3]), "");
  const std::string depthwise = refusal("ConvCpuDepthwiseFwd", shapes()[3], kLeaky);
  EXPECT_NE(depthwise.find("epilogue"), std::string::npos) << depthwise;
  const DeviceInfo gpu = usual_device("cuda-sm90");
  for (const SolverBase* s : solvers(Direction::kForward, DeviceKind::kCuda)) {
    const auto accepts = [&](const Shape& shape, int mode) {
      return static_cast<bool>(s->is_applicable(gpu, fused(shape, {true, mode})));
    };
    const bool is_depthwise = std::string(s->info().name) == "ConvGpuDepthwiseFwd";
    EXPECT_EQ(accepts(causal(false), kRelu), is_depthwise) << s->info().name;
    EXPECT_EQ(accepts(causal(true), kClamp), is_depthwise) << s->info().name;
    EXPECT_FALSE(accepts(causal(true), kPower)) << s->info().name;
    EXPECT_EQ(accepts(shapes()[3], kRelu), is_depthwise) << s->info().name;
  }
}

TEST(Fused, NamesAndIdsAreThoseOfThePlainSolvers) {
  const auto plain = solvers(Direction::kForward), composed = solvers(fused(shapes()[0], {true, 0}));
  ASSERT_EQ(plain.size(), composed.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(plain[i]->info().id, composed[i]->info().id);
    EXPECT_STREQ(plain[i]->info().name, composed[i]->info().name);
  }
}

TEST(Fused, ProblemsWithoutAnEpilogueAreRefusedWithAReason) {
  const auto refused = [](const Problem& p, const char* why) {
    for (const SolverBase* s : solvers(p)) {
      const Verdict v = s->is_applicable(handle().device(), p);
      EXPECT_FALSE(static_cast<bool>(v)) << s->info().name << " takes " << p.key();
      if (s->info().reference) {
        EXPECT_NE(v.text().find(why), std::string::npos) << v.text();
      }
    }
  };
  for (const Direction d : {Direction::kBackwardData, Direction::kBackwardWeights}) {
    Problem p = problem(d, shapes()[0]);
    p.epilogue = {true, kRelu};
    refused(p, "forward");
  }
  refused(fused({{1, 4, 8, 8}, {4, 4, 3, 3}, {}, {}, {}, 1, DataType::kInt8, DataType::kInt32}, {true, 0}), "fp32");
  refused(fused(shapes()[0], {true, kModes}), "activation");
}

TEST(Fused, KeysAndHashesDistinguishEpilogues) {
  const Problem plain = problem(Direction::kForward, shapes()[0]);
  std::map<std::string, std::uint64_t> seen;
  for (const Epilogue& e : {Epilogue{}, Epilogue{true, 0}, Epilogue{false, 3}, Epilogue{true, 3}, Epilogue{true, 8},
                            Epilogue{true, 3, true}, Epilogue{true, 3, false, true}, Epilogue{true, 3, true, true}}) {
    Problem p = plain;
    p.epilogue = e;
    EXPECT_TRUE(seen.emplace(p.key(), p.hash()).second) << p.key();
    EXPECT_EQ(p.equals(plain), e.empty());
  }
}

/// The check accepts the result of every solver in every type, and detects a missing bias or activation.
TEST(Fused, TheCheckEvaluatesEpilogues) {
  const Shape dense{{2, 16, 9, 10}, {24, 16, 3, 3}, {1, 1}};
  const Shape channels_last{{2, 16, 9, 10},   {40, 16, 3, 3},   {1, 1}, {}, {}, 1,
                            DataType::kFloat, DataType::kFloat, true};
  for (const DataType type : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBFloat16})
    for (int mode = 0; mode < kModes; ++mode)
      for (Shape shape : {dense, shapes()[3], channels_last}) {
        shape.type = type;
        const Problem p = fused(shape, {true, mode});
        FusedData data(p);
        const auto check = make_check(p);
        const auto outcome = [&](const SolverBase& s, const Problem& done, std::string& text) {
          check->poison(handle().stream(), &data.args);
          run_solver(handle(), s, done, data);
          return check->check(handle().stream(), &data.args, {s, p}, text);
        };
        for (const SolverBase* s : solvers(p)) {
          if (!s->is_applicable(handle().device(), p)) continue;
          std::string text;
          EXPECT_EQ(outcome(*s, p, text), search::CheckResult::kRight)
              << s->info().name << ": " << text << ": " << p.key();
        }
        Problem without = p;
        without.epilogue.bias = false;
        std::string text;
        EXPECT_EQ(outcome(reference_solver(p.direction), without, text), search::CheckResult::kWrong) << p.key();
        if (mode == 0) continue;
        without.epilogue = {true, 0};
        EXPECT_EQ(outcome(reference_solver(p.direction), without, text), search::CheckResult::kWrong) << p.key();
      }
}

/// The same of a batch norm and a residual.
TEST(Fused, TheCheckEvaluatesNormsAndResiduals) {
  for (const DataType type : {DataType::kFloat, DataType::kDouble, DataType::kHalf})
    for (const Epilogue& e : {Epilogue{true, kRelu, true}, Epilogue{true, kRelu, true, true}}) {
      Shape shape{{2, 16, 9, 10}, {24, 16, 3, 3}, {1, 1}};
      shape.type = type;
      const Problem p = fused(shape, e);
      FusedData data(p);
      const auto check = make_check(p);
      const auto outcome = [&](const SolverBase& s, const Problem& done) {
        check->poison(handle().stream(), &data.args);
        run_solver(handle(), s, done, data);
        std::string text;
        return check->check(handle().stream(), &data.args, {s, p}, text);
      };
      for (const SolverBase* s : solvers(p))
        if (s->is_applicable(handle().device(), p)) {
          EXPECT_EQ(outcome(*s, p), search::CheckResult::kRight) << s->info().name << ": " << p.key();
        }
      Problem without = p;
      (e.residual ? without.epilogue.residual : without.epilogue.norm) = false;
      for (const SolverBase* s : solvers(without))
        if (s->info().reference) {
          EXPECT_EQ(outcome(*s, without), search::CheckResult::kWrong) << p.key();
        }
    }
}

TEST(Fused, FindMeasuresAndTheWinnersPlanRuns) {
  for (const DataType type : {DataType::kFloat, DataType::kBFloat16}) {
    Shape shape = shapes()[0];
    shape.type = type;
    const Problem p = fused(shape, {true, kRelu});
    FusedData data(p);
    const Constraints allowed{};
    data.provide_workspace(make_call(handle(), p, allowed).find_workspace(search::FindMode::kNormal));
    const auto found = find(handle(), p, allowed, data.args, {search::FindMode::kNormal});
    ASSERT_GE(found.size(), 2u);
    EXPECT_EQ(search::last_report().find("is out"), std::string::npos) << search::last_report();
    const auto ranges = expected(p, data);
    for (const auto& c : found) {
      std::fill(data.y.begin(), data.y.end(), static_cast<unsigned char>(0xff));
      run(handle(), p, allowed, data.args, c.solver->info().id, c.point);
      for (std::size_t i = 0; i < ranges.size(); ++i) {
        const double got = dtype::load(p.y.type, data.y.data(), static_cast<std::int64_t>(i));
        ASSERT_TRUE(ranges[i].low <= got && got <= ranges[i].high) << c.solver->info().name << " y[" << i << "]";
      }
    }
  }
}

/// A plan uses the requested tune point when it is valid and fits the workspace.
TEST(Plans, AreMadeForTheRequestedTunePoint) {
  const Problem p = problem(Direction::kForward, {{8, 16, 40, 40}, {16, 16, 3, 3}, {1, 1}});
  constexpr std::uint64_t kGemm = 4;
  const SolverBase& gemm = *solver_by_id(kGemm);
  const DeviceInfo& device = handle().device();
  const TunePoint usual = gemm.default_point(device, p);
  ASSERT_FALSE(usual.empty());
  TunePoint large = usual;
  std::size_t most = 0;
  for (const Knob& knob : gemm.tune_space(device, p))
    if (knob.name == std::string("images"))
      for (const int v : knob.values) {
        TunePoint point = usual;
        point[0] = v;
        if (!gemm.is_valid(device, p, point) || gemm.workspace_size(device, p, point) <= most) continue;
        large = point;
        most = gemm.workspace_size(device, p, point);
      }
  const std::size_t need = gemm.workspace_size(device, p, usual);
  ASSERT_GT(most, need);
  Constraints allowed;
  EXPECT_EQ(make_call(handle(), p, allowed).plan(kGemm, large).workspace, most);
  EXPECT_LT(make_call(handle(), p, allowed).plan(kGemm, {}).workspace, most);
  allowed.workspace_limit = most - 1;
  EXPECT_LT(make_call(handle(), p, allowed).plan(kGemm, large).workspace, most);
  EXPECT_EQ(make_call(handle(), p, {}).plan(kGemm, {1, 2}).workspace,
            make_call(handle(), p, {}).plan(kGemm, {}).workspace);

  Data data(p);
  data.provide_workspace(most);
  const std::size_t before = handle().plans().size();
  for (int i = 0; i < 2; ++i)
    for (const TunePoint& point : {usual, large, TunePoint{}}) run(handle(), p, {}, data.args, kGemm, point);
  EXPECT_EQ(handle().plans().size(), before + 3);
}

}  // namespace
}  // namespace polymio::convolution
