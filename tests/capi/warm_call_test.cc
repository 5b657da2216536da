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
