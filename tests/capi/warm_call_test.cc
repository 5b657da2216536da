// Warm calls do not allocate: what they need is made by the first call of a problem, or by a compilation before it.
// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <new>

#include "heap.h"
#include "on_device.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_SANITIZER
#endif
#endif

#ifndef HAS_SANITIZER
namespace {
thread_local std::size_t allocations = 0;
}

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

std::optional<std::size_t> polymio::test::heap_allocations() { return allocations; }
#else
std::optional<std::size_t> polymio::test::heap_allocations() { return std::nullopt; }
#endif

namespace polymio::test {
namespace {

using RnnDescriptor = Owned<miopenRNNDescriptor_t, miopenCreateRNNDescriptor, miopenDestroyRNNDescriptor>;
using SequenceDescriptor =
    Owned<miopenSeqTensorDescriptor_t, miopenCreateSeqTensorDescriptor, miopenDestroySeqTensorDescriptor>;
using CtcDescriptor = Owned<miopenCTCLossDescriptor_t, miopenCreateCTCLossDescriptor, miopenDestroyCTCLossDescriptor>;
using Floats = std::vector<float>;

TEST(WarmCalls, AreCounted) {
  if (!heap_allocations()) GTEST_SKIP() << "a sanitizer's allocator";
  const auto call = [] {
    const std::vector<int> one(1);
    return one[0] == 0 ? miopenStatusSuccess : miopenStatusInternalError;
  };
  EXPECT_EQ(warm_allocations(call), 1u);
}

TEST(WarmCalls, OfCtcDoNotAllocate) {
  const Handle handle;
  const CtcDescriptor desc;
  const Tensor t(miopenFloat, {12, 3, 7});
  const Ints labels = {1, 2, 3, 4, 5, 6}, label_lengths = {2, 2, 2}, input_lengths = {12, 10, 8};
  Floats probs(12 * 3 * 7, 0.5f), losses(3), gradients(probs.size());
  std::size_t bytes = 0;
  expect_ok(miopenGetCTCLossWorkspaceSize(handle, t, t, labels.data(), label_lengths.data(), input_lengths.data(),
                                          MIOPEN_CTC_LOSS_ALGO_DETERMINISTIC, desc, &bytes));
  Floats workspace(bytes / sizeof(float) + 1);
  const auto call = [&] {
    return miopenCTCLoss(handle, t, probs.data(), labels.data(), label_lengths.data(), input_lengths.data(),
                         losses.data(), t, gradients.data(), MIOPEN_CTC_LOSS_ALGO_DETERMINISTIC, desc, workspace.data(),
                         bytes);
  };
  EXPECT_EQ(warm_allocations(call), 0u);
}

TEST(WarmCalls, OfRecurrentNetworksDoNotAllocate) {
  const Handle handle;
  const RnnDescriptor desc;
  constexpr int kSteps = 4, kBatch = 2, kInput = 3, kHidden = 5;
  expect_ok(miopenSetRNNDescriptor(desc, kHidden, 2, miopenRNNlinear, miopenRNNunidirection, miopenLSTM,
                                   miopenRNNwithBias, miopenRNNdefault, miopenFloat));
  const SequenceDescriptor x_desc, y_desc;
  const Ints lengths(kBatch, kSteps);
  expect_ok(miopenSetRNNDataSeqTensorDescriptor(x_desc, miopenFloat, miopenRNNDataSeqMajorPadded, kSteps, kBatch,
                                                kInput, lengths.data(), nullptr));
  expect_ok(miopenSetRNNDataSeqTensorDescriptor(y_desc, miopenFloat, miopenRNNDataSeqMajorPadded, kSteps, kBatch,
                                                kHidden, lengths.data(), nullptr));
  const Tensor state(miopenFloat, {2, kBatch, kHidden}), step(miopenFloat, {kBatch, kInput});
  std::size_t weight_bytes = 0, workspace_bytes = 0, reserve_bytes = 0;
  expect_ok(miopenGetRNNParamsSize(handle, desc, step, &weight_bytes, miopenFloat));
  expect_ok(miopenGetRNNTempSpaceSizes(handle, desc, x_desc, miopenRNNTraining, &workspace_bytes, &reserve_bytes));
  Floats x(kSteps * kBatch * kInput, 0.5f), y(kSteps * kBatch * kHidden), w(weight_bytes / sizeof(float), 0.1f),
      dw(w.size()), dx(x.size()), workspace(workspace_bytes / sizeof(float) + 1),
      reserve(reserve_bytes / sizeof(float) + 1);
  const auto forward = [&] {
    return miopenRNNForward(handle, desc, miopenRNNTraining, x_desc, x.data(), state, nullptr, nullptr, state, nullptr,
                            nullptr, y_desc, y.data(), w.data(), weight_bytes, workspace.data(), workspace_bytes,
                            reserve.data(), reserve_bytes);
  };
  const auto backward_data = [&] {
    return miopenRNNBackwardSeqData(handle, desc, y_desc, y.data(), y.data(), state, nullptr, nullptr, nullptr, state,
                                    nullptr, nullptr, nullptr, x_desc, dx.data(), w.data(), weight_bytes,
                                    workspace.data(), workspace_bytes, reserve.data(), reserve_bytes);
  };
  const auto backward_weights = [&] {
    return miopenRNNBackwardWeightsSeqTensor(handle, desc, x_desc, x.data(), state, nullptr, y_desc, y.data(),
                                             dw.data(), weight_bytes, workspace.data(), workspace_bytes, reserve.data(),
                                             reserve_bytes);
  };
  EXPECT_EQ(warm_allocations(forward), 0u);
  EXPECT_EQ(warm_allocations(backward_data), 0u);
  EXPECT_EQ(warm_allocations(backward_weights), 0u);
}

TEST(WarmCalls, OfOtherPrimitivesDoNotAllocate) {
  const Handle handle;
  const Tensor x_desc(miopenFloat, {2, 4, 6, 6}), half(miopenFloat, {2, 4, 3, 3}), channels(miopenFloat, {1, 4, 1, 1}),
      row(miopenFloat, {6}), rows(miopenFloat, {2, 4, 6});
  Floats x(2 * 4 * 6 * 6, 0.5f), y(x.size()), dx(x.size()), scale(6, 1), bias(6), mean(48), variance(48, 1), dscale(6),
      dbias(6);
  float alpha = 1, beta = 0;
  const auto expect_none = [](const char* what, const auto& call) { EXPECT_EQ(warm_allocations(call), 0u) << what; };
  expect_none("batch norm training", [&] {
    return miopenBatchNormalizationForwardTraining(handle, miopenBNSpatial, &alpha, &beta, x_desc, x.data(), x_desc,
                                                   y.data(), channels, scale.data(), bias.data(), 0.1, mean.data(),
                                                   variance.data(), 1e-5, nullptr, nullptr);
  });
  expect_none("batch norm inference", [&] {
    return miopenBatchNormalizationForwardInference(handle, miopenBNSpatial, &alpha, &beta, x_desc, x.data(), x_desc,
                                                    y.data(), channels, scale.data(), bias.data(), mean.data(),
                                                    variance.data(), 1e-5);
  });
  expect_none("batch norm backward", [&] {
    return miopenBatchNormalizationBackward(handle, miopenBNSpatial, &alpha, &beta, &alpha, &beta, x_desc, x.data(),
                                            x_desc, y.data(), x_desc, dx.data(), channels, scale.data(), dscale.data(),
                                            dbias.data(), 1e-5, nullptr, nullptr);
  });
  const Owned<miopenPoolingDescriptor_t, miopenCreatePoolingDescriptor, miopenDestroyPoolingDescriptor> pooling;
  expect_ok(miopenSet2dPoolingDescriptor(pooling, miopenPoolingMax, 2, 2, 0, 0, 2, 2));
  std::vector<unsigned char> indices(x.size());
  expect_none("pooling", [&] {
    return miopenPoolingForward(handle, pooling, &alpha, x_desc, x.data(), &beta, half, y.data(), true, indices.data(),
                                indices.size());
  });
  expect_none("pooling backward", [&] {
    return miopenPoolingBackward(handle, pooling, &alpha, half, y.data(), half, y.data(), x_desc, x.data(), &beta,
                                 x_desc, dx.data(), indices.data());
  });
  expect_none("softmax", [&] {
    return miopenSoftmaxForward_V2(handle, &alpha, x_desc, x.data(), &beta, x_desc, y.data(), MIOPEN_SOFTMAX_LOG,
                                   MIOPEN_SOFTMAX_MODE_CHANNEL);
  });
  expect_none("softmax backward", [&] {
    return miopenSoftmaxBackward_V2(handle, &alpha, x_desc, y.data(), x_desc, x.data(), &beta, x_desc, dx.data(),
                                    MIOPEN_SOFTMAX_LOG, MIOPEN_SOFTMAX_MODE_CHANNEL);
  });
  expect_none("layer norm", [&] {
    return miopenLayerNormForward(handle, MIOPEN_WEIGHT_BIAS, x_desc, x.data(), row, scale.data(), row, bias.data(),
                                  1e-5f, 3, x_desc, y.data(), rows, mean.data(), rows, variance.data());
  });
  expect_none("layer norm backward", [&] {
    return miopenLayerNormBackward(handle, MIOPEN_WEIGHT_BIAS, nullptr, 0, x_desc, y.data(), x_desc, x.data(), row,
                                   scale.data(), rows, mean.data(), rows, variance.data(), 3, x_desc, dx.data(), row,
                                   dscale.data(), row, dbias.data());
  });
  const Owned<miopenReduceTensorDescriptor_t, miopenCreateReduceTensorDescriptor, miopenDestroyReduceTensorDescriptor>
      reduction;
  expect_ok(miopenSetReduceTensorDescriptor(reduction, MIOPEN_REDUCE_TENSOR_AVG, miopenFloat, MIOPEN_PROPAGATE_NAN,
                                            MIOPEN_REDUCE_TENSOR_NO_INDICES, MIOPEN_32BIT_INDICES));
  std::size_t bytes = 0;
  expect_ok(miopenGetReductionWorkspaceSize(handle, reduction, x_desc, channels, &bytes));
  std::vector<unsigned char> workspace(bytes + 1);
  expect_none("reduction", [&] {
    return miopenReduceTensor(handle, reduction, nullptr, 0, workspace.data(), bytes, &alpha, x_desc, x.data(), &beta,
                              channels, mean.data());
  });
}

TEST(WarmCalls, OfFusionPlansDoNotAllocate) {
  const Handle handle;
  const Tensor x_desc(miopenFloat, {2, 4, 6, 6}), w_desc(miopenFloat, {5, 4, 3, 3}), y_desc(miopenFloat, {2, 5, 6, 6}),
      bias_desc(miopenFloat, {1, 5, 1, 1});
  Floats x(2 * 4 * 6 * 6, 0.5f), w(5 * 4 * 3 * 3, 0.25f), bias(5, 1), y(2 * 5 * 6 * 6);
  const ConvolutionDescriptor convolution;
  expect_ok(miopenInitConvolutionDescriptor(convolution, miopenConvolution, 1, 1, 1, 1, 1, 1));
  miopenFusionPlanDescriptor_t plan = nullptr;
  miopenFusionOpDescriptor_t first = nullptr, second = nullptr, third = nullptr;
  miopenOperatorArgs_t args = nullptr;
  expect_ok(miopenCreateFusionPlan(&plan, miopenVerticalFusion, x_desc));
  expect_ok(miopenCreateOpConvForward(plan, &first, convolution, w_desc));
  expect_ok(miopenCreateOpBiasForward(plan, &second, bias_desc));
  expect_ok(miopenCreateOpActivationForward(plan, &third, miopenActivationRELU));
  expect_ok(miopenCompileFusionPlan(handle, plan));
  expect_ok(miopenCreateOperatorArgs(&args));
  const float alpha = 1, beta = 0;
  expect_ok(miopenSetOpArgsConvForward(args, first, &alpha, &beta, w.data()));
  expect_ok(miopenSetOpArgsBiasForward(args, second, &alpha, &beta, bias.data()));
  expect_ok(miopenSetOpArgsActivForward(args, third, &alpha, &beta, 0, 0, 0));
  EXPECT_EQ(
      warm_allocations([&] { return miopenExecuteFusionPlan(handle, plan, x_desc, x.data(), y_desc, y.data(), args); }),
      0u);
  expect_ok(miopenDestroyOperatorArgs(args));
  expect_ok(miopenDestroyFusionPlan(plan));
}

// What the first call of a solution allocates, to prepare it, it does not where the solution was compiled before and
// has the workspace that it asks for.
TEST(WarmCalls, OfCompiledSolutionsAreTheFirst) {
  if (!heap_allocations()) GTEST_SKIP() << "a sanitizer's allocator";
  const Shape shape{.x = {2, 3, 9, 11}, .w = {4, 3, 3, 3}, .pad = {1, 1}};
  const auto first_call = [&](Direction d, std::uint64_t id, bool compiled) {
    const Handle handle;
    Convolution c(handle, shape);
    std::size_t bytes = 0;
    expect_ok(c.call.solution_workspace(d, id, &bytes));
    c.provide_workspace(bytes);
    if (compiled) expect_ok(c.call.compile(d, id));
    const auto before = heap_allocations();
    const miopenStatus_t status = c.call.immediate(d, id);
    const auto after = heap_allocations();
    expect_ok(status);
    return *after - *before;
  };
  const Handle handle;
  const auto all = Convolution(handle, shape).solutions(Direction::kForward);
  ASSERT_FALSE(all.empty());
  first_call(Direction::kForward, all[0].solution_id, true);  // what a thread allocates once
  for (const auto d : kDirections)
    for (const auto& solution : Convolution(handle, shape).solutions(d)) {
      SCOPED_TRACE(solution.solution_id);
      EXPECT_EQ(first_call(d, solution.solution_id, true), 0u);
      EXPECT_GT(first_call(d, solution.solution_id, false), 5u);
    }
}

}  // namespace
}  // namespace polymio::test
