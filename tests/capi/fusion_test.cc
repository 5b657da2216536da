// Fusion: plans of every kind of chain against an evaluation in double, their life cycle and errors, and the
// convolution with bias, residual and activation. On any device.
// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <limits>
#include <list>

#include "fusion_case.h"

namespace polymio::test {
namespace {

constexpr const void* kNone = nullptr;

using Arguments = Owned<miopenOperatorArgs_t, miopenCreateOperatorArgs, miopenDestroyOperatorArgs>;
using Activation =
    Owned<miopenActivationDescriptor_t, miopenCreateActivationDescriptor, miopenDestroyActivationDescriptor>;

struct Convolution3x3 : ConvolutionDescriptor {
  Convolution3x3() {
    const int one[] = {1, 1};
    expect_ok(miopenInitConvolutionNdDescriptor(*this, 2, one, one, one, miopenConvolution));
  }
};

struct Plan {
  explicit Plan(miopenTensorDescriptor_t input, miopenFusionDirection_t direction = miopenVerticalFusion) {
    expect_ok(miopenCreateFusionPlan(&plan, direction, input));
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() { expect_ok(miopenDestroyFusionPlan(plan)); }
  operator miopenFusionPlanDescriptor_t() const { return plan; }  // NOLINT: passes to the API as it is
  miopenFusionPlanDescriptor_t plan = nullptr;
};

struct Fusion : testing::Test {
  explicit Fusion(bool channels_last = false) { set_layout(channels_last); }
  void set_layout(bool channels_last) {
    data.images.channels_last = channels_last;
    image.set(miopenFloat, data.images.lens(), data.images.strides());
    // The filter has the layout of the images: 4 filters of 4 channels, 3 x 3.
    filter.set(miopenFloat, {4, 4, 3, 3}, channels_last ? Ints{36, 1, 12, 4} : Ints{36, 9, 3, 1});
  }
  Floats filter_memory() const {
    Floats memory = data.w;
    for (std::size_t i = 0; data.images.channels_last && i < memory.size(); ++i)
      memory[i / 36 * 36 + i % 9 * 4 + i / 9 % 4] = data.w[i];
    return memory;
  }
  const void* there(Floats values) {
    memory.push_back(std::make_unique<Floats>(std::move(values)));
    return copies.emplace_back(handle, *memory.back());
  }

  /// Adds the operations of a chain; their handles are `ops`.
  void add(miopenFusionPlanDescriptor_t plan, const std::string& chain) {
    for (const char operation : chain) {
      miopenFusionOpDescriptor_t op = nullptr;
      switch (operation) {
        case 'C': expect_ok(miopenCreateOpConvForward(plan, &op, convolution, filter)); break;
        case 'B': expect_ok(miopenCreateOpBiasForward(plan, &op, channels)); break;
        case 'N': expect_ok(miopenCreateOpBatchNormInference(plan, &op, miopenBNSpatial, channels)); break;
        case 'P': expect_ok(miopenCreateOpBatchNormInference(plan, &op, miopenBNPerActivation, activations)); break;
        case 'T': expect_ok(miopenCreateOpBatchNormForward(plan, &op, miopenBNSpatial, false)); break;
        default: expect_ok(miopenCreateOpActivationForward(plan, &op, data.mode));
      }
      ops.push_back(op);
    }
  }
  void set_arguments(const std::string& chain) {
    for (std::size_t i = 0; i < chain.size(); ++i) {
      const auto op = ops[i];
      switch (chain[i]) {
        case 'C': expect_ok(miopenSetOpArgsConvForward(args, op, kNone, kNone, there(filter_memory()))); break;
        case 'B': expect_ok(miopenSetOpArgsBiasForward(args, op, kNone, kNone, there(data.bias))); break;
        case 'N':
          expect_ok(miopenSetOpArgsBatchNormInference(args, op, kNone, kNone, there(data.scale), there(data.shift),
                                                      there(data.mean), there(data.variance), kEpsilon));
          break;
        case 'P':
          expect_ok(miopenSetOpArgsBatchNormInference(args, op, kNone, kNone, there(data.scales), there(data.shifts),
                                                      there(data.means), there(data.variances), kEpsilon));
          break;
        case 'T':
          expect_ok(miopenSetOpArgsBatchNormForward(args, op, kNone, kNone, there(data.scale), there(data.shift),
                                                    nullptr, nullptr, nullptr, nullptr, kFactor, kEpsilon));
          break;
        default: expect_ok(miopenSetOpArgsActivForward(args, op, kNone, kNone, data.alpha, data.beta, data.gamma));
      }
    }
  }
  miopenStatus_t execute(miopenFusionPlanDescriptor_t plan, Floats& y) {
    There out(handle, y);
    const auto status = miopenExecuteFusionPlan(handle, plan, image, there(data.x), image, out, args);
    out.fetch();
    return status;
  }

  void expect_chain(const std::string& chain) {
    if (!sampled()) return;
    const testing::ScopedTrace trace("chain", 0, chain);
    const Plan plan(image);
    ops.clear();
    add(plan, chain);
    set_arguments(chain);
    expect_ok(miopenCompileFusionPlan(handle, plan));
    Floats y(Images::kCount, kNan);
    expect_ok(execute(plan, y));
    data.expect_result(y, data.expected(chain), chain);
  }

  DeviceHandle handle;
  ChainData data;
  Tensor image, filter, channels{miopenFloat, {1, 4, 1, 1}}, activations{miopenFloat, {1, 4, 7, 6}};
  Convolution3x3 convolution;
  Arguments args;
  std::vector<miopenFusionOpDescriptor_t> ops;
  std::list<std::unique_ptr<Floats>> memory;
  std::list<There> copies;
};

TEST_F(Fusion, EveryChainRuns) {
  for (const bool channels_last : {false, true}) {
    set_layout(channels_last);
    for (const auto mode : {miopenActivationRELU, miopenActivationTANH, miopenActivationCLIPPEDRELU}) {
      data.mode = mode;
      for (const char* chain : {"C", "CB", "CA", "CN", "CNA", "CBN", "CBA", "CBNA", "N", "NA", "PA", "T", "TA", "A"})
        expect_chain(chain);
      if (HasFatalFailure()) return;
    }
    for (const char* chain : {"B", "BA", "AB", "CPA", "CTA", "CBTA", "CNB", "CAN", "NBA", "AC", "NAC", "TAC", "CC",
                              "CNACBA", "CTACTA", "BNTA", "CBCAB", "BBB"})
      expect_chain(chain);
    if (HasFatalFailure()) return;
  }
}

TEST_F(Fusion, TrainingUpdatesMoments) {
  const Plan plan(image);
  miopenFusionOpDescriptor_t norm = nullptr, activation = nullptr;
  expect_ok(miopenCreateOpBatchNormForward(plan, &norm, miopenBNSpatial, true));
  expect_ok(miopenCreateOpActivationForward(plan, &activation, data.mode));
  expect_ok(miopenCompileFusionPlan(handle, plan));
  expect_bad(miopenSetOpArgsBatchNormForward(args, norm, kNone, kNone, data.scale.data(), data.shift.data(), nullptr,
                                             nullptr, nullptr, nullptr, kFactor, kEpsilon),
             {"runningMean is null"});
  Floats saved_mean(4), saved_inverse(4), running_mean = data.mean, running_variance = data.variance;
  {
    There mean(handle, saved_mean), inverse(handle, saved_inverse), next_mean(handle, running_mean),
        next_variance(handle, running_variance);
    expect_ok(miopenSetOpArgsBatchNormForward(args, norm, kNone, kNone, there(data.scale), there(data.shift), mean,
                                              inverse, next_mean, next_variance, kFactor, kEpsilon));
    expect_ok(miopenSetOpArgsActivForward(args, activation, kNone, kNone, 0, 0, 0));
    Floats y(Images::kCount, kNan);
    expect_ok(execute(plan, y));
    data.expect_result(y, data.expected("TA"), "y");
    for (There* t : {&mean, &inverse, &next_mean, &next_variance}) t->fetch();
  }
  const auto [mean, variance] = ChainData::moments(data.images.dense(data.x));
  constexpr double kEach = Images::kCount / 4.0;
  for (std::size_t c = 0; c < 4; ++c) {
    EXPECT_NEAR(saved_mean[c], mean[c], 1e-5);
    EXPECT_NEAR(saved_inverse[c], 1 / std::sqrt(variance[c] + kEpsilon), 1e-4);
    EXPECT_NEAR(running_mean[c], 0.75 * data.mean[c] + 0.25 * mean[c], 1e-5);
    EXPECT_NEAR(running_variance[c], 0.75 * data.variance[c] + 0.25 * variance[c] * kEach / (kEach - 1), 1e-5);
  }
}

TEST_F(Fusion, GradientsOfANormAndAnActivation) {
  const Floats dy = random_floats(Images::kCount, 20);
  for (const auto mode : {miopenActivationRELU, miopenActivationTANH, miopenActivationLEAKYRELU})
    for (const bool norm_first : {true, false}) {
      if (!sampled()) continue;
      data.mode = mode;
      const auto want = data.gradients(data.images.dense(dy));
      const Plan plan(image);
      miopenFusionOpDescriptor_t norm = nullptr, activation = nullptr;
      if (norm_first) expect_ok(miopenCreateOpBatchNormBackward(plan, &norm, miopenBNSpatial));
      expect_ok(miopenCreateOpActivationBackward(plan, &activation, mode));
      if (!norm_first) expect_ok(miopenCreateOpBatchNormBackward(plan, &norm, miopenBNSpatial));
      expect_ok(miopenCompileFusionPlan(handle, plan));
      Floats dx(Images::kCount, kNan), dscale(4, kNan), dbias(4, kNan);
      There out(handle, dx), scale(handle, dscale), bias(handle, dbias);
      expect_ok(miopenSetOpArgsBatchNormBackward(
          args, norm, kNone, kNone, there(data.x), there(data.scale), there(data.shift), scale, bias,
          there({want.mean.begin(), want.mean.end()}), there({want.inverse.begin(), want.inverse.end()})));
      expect_ok(miopenSetOpArgsActivBackward(args, activation, kNone, kNone,
                                             there(data.images.permuted<float>(want.y, true)), nullptr, data.alpha,
                                             data.beta, data.gamma));
      expect_ok(miopenExecuteFusionPlan(handle, plan, image, there(dy), image, out, args));
      for (There* t : {&out, &scale, &bias}) t->fetch();
      data.expect_result(dx, want.dx, "dx");
      for (std::size_t c = 0; c < 4; ++c) {
        EXPECT_NEAR(dscale[c], want.dscale[c], 1e-4) << mode;
        EXPECT_NEAR(dbias[c], want.dbias[c], 1e-4) << mode;
      }
    }
}

TEST_F(Fusion, TheGradientOfAnActivationAloneComesFromItsResult) {
  data.mode = miopenActivationLOGISTIC;
  const Floats y = random_floats(Images::kCount, 21, 0.1F, 0.9F);
  const Plan plan(image);
  miopenFusionOpDescriptor_t op = nullptr;
  expect_ok(miopenCreateOpActivationBackward(plan, &op, data.mode));
  expect_ok(miopenCompileFusionPlan(handle, plan));
  expect_ok(miopenSetOpArgsActivBackward(args, op, kNone, kNone, there(y), nullptr, 0, 0, 0));
  Floats dx(Images::kCount, kNan);
  expect_ok(execute(plan, dx));
  for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(dx[i], data.x[i] * y[i] * (1 - y[i]), 1e-6);
  const Plan abs(image);
  expect_ok(miopenCreateOpActivationBackward(abs, &op, miopenActivationABS));
  expect_error(miopenCompileFusionPlan(handle, abs), miopenStatusUnsupportedOp, {"gradient", "input"});
}

TEST_F(Fusion, ArgumentsMayChangeBetweenExecutions) {
  const std::string chain = "CBNA";
  const Plan plan(image);
  add(plan, chain);
  set_arguments(chain);  // before the compilation
  expect_ok(miopenCompileFusionPlan(handle, plan));
  expect_ok(miopenCompileFusionPlan(handle, plan));
  Floats y(Images::kCount, kNan);
  for (const unsigned seed : {30U, 31U}) {
    data.w = random_floats(144, seed);
    data.scale = random_floats(4, seed + 10);
    set_arguments(chain);
    expect_ok(execute(plan, y));
    data.expect_result(y, data.expected(chain), "seed " + std::to_string(seed));
  }
  const DeviceHandle other;  // not compiled for it
  expect_bad(miopenExecuteFusionPlan(other, plan, image, data.x.data(), image, y.data(), args), {"not compiled"});
}

TEST_F(Fusion, APlanOutlivesItsHandle) {
  const Plan plan(image);
  add(plan, "CNA");
  {
    const DeviceHandle first;
    expect_ok(miopenCompileFusionPlan(first, plan));
  }
  set_arguments("CNA");
  expect_ok(miopenCompileFusionPlan(handle, plan));
  Floats y(Images::kCount, kNan);
  expect_ok(execute(plan, y));
  data.expect_result(y, data.expected("CNA"), "CNA");
}

struct Allocations {
  int taken = 0, given = 0;
  static void* take(void* context, std::size_t bytes) {
    auto& self = *static_cast<Allocations*>(context);
    ++self.taken;
    return std::malloc(bytes);
  }
  static void give(void* context, void* memory) {
    ++static_cast<Allocations*>(context)->given;
    std::free(memory);
  }
};

TEST_F(Fusion, ExecutionsUseTheMemoryOfTheCompilation) {
  if (!on_cpu()) GTEST_SKIP() << "the allocator gives host memory";
  Allocations counts;
  expect_ok(miopenSetAllocator(handle, Allocations::take, Allocations::give, &counts));
  {
    const Plan plan(image);
    add(plan, "CNA");
    set_arguments("CNA");
    expect_ok(miopenCompileFusionPlan(handle, plan));
    const int taken = counts.taken;
    EXPECT_GE(taken, 1);  // the scale and the bias that the batch norm becomes
    Floats y(Images::kCount, kNan);
    for (int i = 0; i < 3; ++i) expect_ok(execute(plan, y));
    EXPECT_EQ(counts.taken, taken);
    EXPECT_LT(counts.given, taken);
  }
  EXPECT_EQ(counts.given, counts.taken);
  expect_ok(miopenSetAllocator(handle, nullptr, nullptr, nullptr));
}

TEST_F(Fusion, ExecutionWithAWorkspace) {
  const Plan plan(image);
  add(plan, "CNA");
  set_arguments("CNA");
  expect_ok(miopenCompileFusionPlan(handle, plan));
  std::size_t bytes = 99;
  expect_ok(miopenFusionPlanGetWorkSpaceSize(handle, plan, &bytes, miopenConvolutionFwdAlgoDirect));
  EXPECT_EQ(bytes, 0u);
  Floats y(Images::kCount, kNan);
  There out(handle, y);
  expect_ok(miopenExecuteFusionPlan_v2(handle, plan, image, there(data.x), image, out, args, nullptr, 0));
  out.fetch();
  data.expect_result(y, data.expected("CNA"), "CNA");
}

TEST_F(Fusion, AlgorithmsOfTheConvolution) {
  const Plan plan(image);
  int count = -1;
  miopenConvFwdAlgorithm_t found[3];
  expect_ok(miopenFusionPlanConvolutionGetAlgo(plan, 3, &count, found));
  EXPECT_EQ(count, 0);
  add(plan, "CA");
  expect_ok(miopenFusionPlanConvolutionGetAlgo(plan, 3, &count, found));
  ASSERT_EQ(count, 2);
  EXPECT_EQ(found[0], miopenConvolutionFwdAlgoDirect);
  EXPECT_EQ(found[1], miopenConvolutionFwdAlgoWinograd);
  expect_bad(miopenFusionPlanConvolutionGetAlgo(plan, -1, &count, found), {"-1"});
  expect_bad(miopenFusionPlanConvolutionSetAlgo(plan, static_cast<miopenConvFwdAlgorithm_t>(9)), {"algorithm 9"});
  set_arguments("CA");
  for (const auto algorithm : {miopenConvolutionFwdAlgoGEMM, miopenConvolutionFwdAlgoDirect,
                               miopenConvolutionFwdAlgoFFT}) {  // also where no solver has it
    expect_ok(miopenFusionPlanConvolutionSetAlgo(plan, algorithm));
    Floats y(Images::kCount, kNan);
    expect_bad(execute(plan, y), {"not compiled"});
    expect_ok(miopenCompileFusionPlan(handle, plan));
    expect_ok(execute(plan, y));
    data.expect_result(y, data.expected("CA"), "CA");
  }
}

TEST_F(Fusion, PlansThatMakeNoSenseAreRefused) {
  const Plan plan(image);
  expect_error(miopenCompileFusionPlan(handle, plan), miopenStatusUnknownError, {"no operations"});
  add(plan, "BC");
  expect_error(miopenCompileFusionPlan(handle, plan), miopenStatusUnsupportedOp, {"bias in front of a convolution"});
  const Plan horizontal(image, miopenHorizontalFusion);
  add(horizontal, "A");
  expect_error(miopenCompileFusionPlan(handle, horizontal), miopenStatusNotImplemented, {"vertical"});
  Tensor integers(miopenInt32, {2, 4, 7, 6});
  const Plan wrong(integers);
  add(wrong, "A");
  expect_error(miopenCompileFusionPlan(handle, wrong), miopenStatusUnsupportedOp, {"int32"});
}

TEST_F(Fusion, WrongArgumentsAreBadParm) {
  const Plan plan(image);
  miopenFusionOpDescriptor_t op = nullptr;
  miopenFusionPlanDescriptor_t made = nullptr;
  const Tensor whole(miopenFloat, {2, 4, 7, 6}), other(miopenFloat, {4, 5, 3, 3}), larger(miopenFloat, {2, 4, 8, 6});
  expect_bad(miopenCreateFusionPlan(nullptr, miopenVerticalFusion, image), {"fusePlanDesc is null"});
  expect_bad(miopenCreateFusionPlan(&made, miopenVerticalFusion, nullptr), {"input", "null"});
  expect_bad(miopenDestroyFusionPlan(nullptr), {"fusion plan is null"});
  expect_bad(miopenCompileFusionPlan(handle, nullptr), {"fusion plan is null"});
  expect_bad(miopenCreateOpBiasForward(plan, &op, whole), {"one value for each channel"});
  expect_bad(miopenCreateOpConvForward(plan, &op, convolution, other), {"channels"});
  expect_bad(miopenCreateOpActivationForward(plan, &op, static_cast<miopenActivationMode_t>(77)), {"77"});
  expect_bad(miopenCreateOpActivationBackward(plan, &op, static_cast<miopenActivationMode_t>(-1)), {"-1"});
  expect_bad(miopenCreateOpBatchNormForward(plan, &op, static_cast<miopenBatchNormMode_t>(5), true), {"mode 5"});
  expect_bad(miopenCreateOpBatchNormBackward(plan, nullptr, miopenBNSpatial), {"null"});
  expect_bad(miopenCreateOpBatchNormInference(nullptr, &op, miopenBNSpatial, channels), {"null"});
  expect_bad(miopenFusionPlanGetOp(plan, 0, &op), {"no operation 0"});
  expect_bad(miopenDestroyOperatorArgs(nullptr), {"null"});

  add(plan, "CBA");
  expect_ok(miopenFusionPlanGetOp(plan, 2, &op));
  EXPECT_EQ(op, ops[2]);
  expect_bad(miopenFusionPlanGetOp(plan, 3, &op), {"no operation 3"});
  expect_ok(miopenCompileFusionPlan(handle, plan));
  Floats y(Images::kCount, kNan);
  expect_bad(execute(plan, y), {"operation 0", "a convolution", "not been set"});
  set_arguments("CBA");
  const float half = 0.5F;
  expect_bad(miopenSetOpArgsConvForward(args, ops[0], &half, kNone, data.w.data()), {"alpha is 0.5"});
  expect_error(miopenSetOpArgsBiasForward(args, ops[0], kNone, kNone, data.w.data()), miopenStatusUnknownError,
               {"a convolution", "a bias"});
  const void* const x = there(data.x);
  expect_bad(miopenExecuteFusionPlan(handle, plan, larger, x, image, y.data(), args), {"input", "2x4x8x6"});
  expect_bad(miopenExecuteFusionPlan(handle, plan, image, x, larger, y.data(), args), {"output", "2x4x8x6"});
  expect_bad(miopenExecuteFusionPlan(handle, plan, image, nullptr, image, y.data(), args), {"input", "null"});
  expect_bad(miopenExecuteFusionPlan(handle, plan, image, x, image, const_cast<void*>(x), args), {"convolution"});
  expect_ok(miopenSetOpArgsBiasForward(args, ops[1], kNone, kNone, nullptr));
  expect_bad(execute(plan, y), {"the bias of operation 1 is null"});
}

/// The residual: none, another tensor, one of other strides, and y itself.
enum class Z { kNone, kOwn, kStrided, kResult };

struct ConvolutionBiasActivation : Fusion, testing::WithParamInterface<bool> {
  ConvolutionBiasActivation() : Fusion(GetParam()) {}

  void expect_result(Z kind, bool with_bias, float alpha1) {
    const float alpha2 = -1.5F;
    const Floats z = random_floats(Images::kCount, 40);
    Images other = data.images;
    other.channels_last = !other.channels_last;
    const Tensor strided(miopenFloat, other.lens(), other.strides());
    Doubles want = data.convolved(data.images.dense(data.x));
    const Doubles added = kind == Z::kStrided ? other.dense(z) : data.images.dense(z);
    for (std::size_t i = 0; i < want.size(); ++i) {
      want[i] *= alpha1;
      if (kind != Z::kNone) want[i] += alpha2 * added[i];
      if (with_bias) want[i] += data.bias[Images::channel(i)];
      want[i] = data.activated(want[i]);
    }
    expect_ok(miopenSetActivationDescriptor(activation, data.mode, data.alpha, data.beta, data.gamma));
    Floats y = kind == Z::kResult ? z : Floats(Images::kCount, kNan);
    There out(handle, y);
    const void* const residual = kind == Z::kNone ? nullptr : kind == Z::kResult ? out : there(z);
    expect_ok(miopenConvolutionBiasActivationForward(
        handle, &alpha1, image, there(data.x), filter, there(filter_memory()), convolution,
        miopenConvolutionFwdAlgoDirect, nullptr, 0, &alpha2, kind == Z::kStrided ? strided : image, residual, channels,
        with_bias ? there(data.bias) : nullptr, activation, image, out));
    out.fetch();
    data.expect_result(y, want, "y");
  }
  Activation activation;
};

TEST_P(ConvolutionBiasActivation, AddsAResidualOfAnyKind) {
  for (const auto mode : {miopenActivationRELU, miopenActivationTANH, miopenActivationPASTHRU}) {
    data.mode = mode == miopenActivationPASTHRU ? miopenActivationLEAKYRELU : mode;
    for (const Z kind : {Z::kNone, Z::kOwn, Z::kStrided, Z::kResult})
      for (const bool with_bias : {false, true}) expect_result(kind, with_bias, with_bias ? 1 : 0.5F);
  }
}

TEST_P(ConvolutionBiasActivation, RefusesWhatIsWrong) {
  Floats y(Images::kCount, kNan), x = data.x;
  There out(handle, y), in(handle, x);
  const auto call = [&](const void* z, miopenTensorDescriptor_t z_desc, const void* bias,
                        miopenTensorDescriptor_t bias_desc, int algorithm = 1) {
    return miopenConvolutionBiasActivationForward(handle, nullptr, image, in, filter, there(filter_memory()),
                                                  convolution, static_cast<miopenConvFwdAlgorithm_t>(algorithm),
                                                  nullptr, 0, nullptr, z_desc, z, bias_desc, bias, activation, image,
                                                  out);
  };
  const Tensor larger(miopenFloat, {2, 4, 8, 6}), half(miopenHalf, {2, 4, 7, 6});
  expect_bad(call(in, larger, nullptr, nullptr), {"z", "2x4x8x6"});
  expect_bad(call(in, half, nullptr, nullptr), {"z", "fp16"});
  expect_bad(call(in, nullptr, nullptr, nullptr), {"z", "null"});
  expect_bad(call(nullptr, nullptr, in, image), {"one value for each channel"});
  expect_bad(call(nullptr, nullptr, nullptr, nullptr, 8), {"algorithm 8"});
  expect_ok(call(nullptr, nullptr, nullptr, nullptr));
}

INSTANTIATE_TEST_SUITE_P(Layouts, ConvolutionBiasActivation, testing::Bool());

}  // namespace
}  // namespace polymio::test
