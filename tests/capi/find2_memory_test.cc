// Find 2.0: memory that a find allocates, and the time limit of allocation.
// SPDX-License-Identifier: MIT
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <thread>

#include "find2_case.h"

namespace polymio::test {
namespace {

/// An allocator that counts.
struct Pool {
  std::size_t now = 0, most = 0, calls = 0;
  std::map<void*, std::size_t> blocks;
  static void* allocate(void* context, std::size_t bytes) {
    auto& pool = *static_cast<Pool*>(context);
    ++pool.calls;
    void* memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    pool.blocks[memory] = bytes;
    pool.most = std::max(pool.most, pool.now += bytes);
    return memory;
  }
  static void deallocate(void* context, void* memory) {
    auto& pool = *static_cast<Pool*>(context);
    pool.now -= pool.blocks.at(memory);
    pool.blocks.erase(memory);
    std::free(memory);
  }
};

std::size_t most_workspace(const std::vector<Solution>& solutions) {
  std::size_t most = 0;
  for (const Solution& s : solutions) most = std::max(most, workspace_of(s));
  return most;
}

/// A handle with a counting allocator.
struct Counted {
  Pool pool;
  const Handle handle;
  Counted() { expect_ok(miopenSetAllocator(handle, Pool::allocate, Pool::deallocate, &pool)); }
  ~Counted() { EXPECT_TRUE(pool.blocks.empty()) << "memory of the search is given back"; }
  operator miopenHandle_t() const { return handle; }  // NOLINT: passed to the API
};

TEST(Find2Memory, WorkspaceStaysWithinTheOptionsLimit) {
  for (const std::size_t limit : {std::size_t{0}, std::size_t{4096}, SIZE_MAX}) {
    const Counted handle;
    const Case c(handle, kPlain);
    const Options options;
    expect_ok(miopenSetFindOptionWorkspaceLimit(options, limit));
    const auto solutions = find(handle, c.problem(Direction::kForward), options);
    ASSERT_FALSE(solutions.empty());
    EXPECT_LE(most_workspace(solutions), limit);
    EXPECT_EQ(most_workspace(solutions) > 4096, limit == SIZE_MAX);
    const std::size_t tensors = c.x.bytes() + c.w.bytes() + c.y.bytes();
    EXPECT_GE(handle.pool.most, tensors);
    EXPECT_LE(handle.pool.most - tensors, limit);
  }
}

TEST(Find2Memory, TensorsAndWorkspaceStayWithinTheHandlesLimit) {
  for (const std::size_t workspace : {std::size_t{0}, std::size_t{4096}, std::size_t{1} << 24}) {
    const Counted handle;
    Case c(handle, kPlain);
    const std::size_t tensors = c.x.bytes() + c.w.bytes() + c.y.bytes();
    expect_ok(polymioSetWorkspaceLimit(handle, tensors + workspace));
    const auto solutions = find(handle, c.problem(Direction::kForward));
    ASSERT_FALSE(solutions.empty());
    EXPECT_LE(most_workspace(solutions), workspace);
    EXPECT_EQ(most_workspace(solutions) > 4096, workspace > 4096);
    EXPECT_GE(handle.pool.most, tensors);
    EXPECT_LE(handle.pool.most, tensors + workspace);
  }
  const Counted handle;
  Case c(handle, kPlain);
  const Problem problem = c.problem(Direction::kForward);
  const std::size_t tensors = c.x.bytes() + c.w.bytes() + c.y.bytes();
  expect_ok(polymioSetWorkspaceLimit(handle, tensors - 1));
  miopenSolution_t s = nullptr;
  const std::string need = std::to_string(tensors), limit = std::to_string(tensors - 1);
  expect_bad(miopenFindSolutions(handle, problem, nullptr, &s, nullptr, 1), {need.c_str(), limit.c_str(), "no room"});
  EXPECT_EQ(handle.pool.calls, 0u);
  // The caller's buffers do not count towards the limit.
  const Options options;
  expect_ok(miopenSetFindOptionPreallocatedTensor(options, miopenTensorConvolutionY, c.y_data.data()));
  EXPECT_LT(most_workspace(find(handle, problem, options)), c.y.bytes());
  EXPECT_LE(handle.pool.most, tensors - 1);
  EXPECT_GE(handle.pool.calls, 2u);
}

TEST(Find2Memory, CallsThatRunNothingAllocateNothing) {
  const Shape shape = {{2, 8, 15, 13}, {20, 8, 1, 1}};
  const Counted handle;
  Case c(handle, shape);
  const auto set_mode = [&](miopenConvolutionFindMode_t mode) {
    expect_ok(miopenSetConvolutionFindMode(c.conv, mode));
    return c.problem(Direction::kForward);
  };
  const Problem normal = c.problem(Direction::kForward);
  const auto searched = find(handle, normal);
  EXPECT_GE(handle.pool.calls, 3u);
  const std::size_t calls = handle.pool.calls;

  const auto again = find(handle, normal);
  EXPECT_STREQ(polymioGetLastFindReport(), "searched by this handle before");
  ASSERT_EQ(again.size(), searched.size());
  for (std::size_t i = 0; i < again.size(); ++i) EXPECT_EQ(source_of(again[i]), source_of(searched[i]));

  const Bytes expected = c.expected(Direction::kForward);
  expect_ok(polymioSetWorkspaceLimit(handle, 0));
  for (const auto mode : {miopenConvolutionFindModeHybrid, miopenConvolutionFindModeDynamicHybrid}) {
    const auto hit = find(handle, set_mode(mode));
    ASSERT_EQ(hit.size(), 1u);
    EXPECT_EQ(source_of(hit[0]), polymioSourceMeasured);
    EXPECT_NE(std::string(polymioGetLastFindReport()).find("from the database"), std::string::npos);
    expect_right(handle, hit[0], c, Direction::kForward, expected);
  }
  const auto fast = find(handle, set_mode(miopenConvolutionFindModeFast));
  ASSERT_EQ(fast.size(), 1u);
  EXPECT_EQ(workspace_of(fast[0]), 0u);
  expect_right(handle, fast[0], c, Direction::kForward, expected);
  EXPECT_EQ(handle.pool.calls, calls);

  // FAST on a problem without records.
  Case unknown(handle, {{3, 7, 17, 5}, {9, 7, 2, 3}});
  expect_ok(miopenSetConvolutionFindMode(unknown.conv, miopenConvolutionFindModeFast));
  const auto predicted = find(handle, unknown.problem(Direction::kForward));
  ASSERT_EQ(predicted.size(), 1u);
  EXPECT_NE(source_of(predicted[0]), polymioSourceMeasured);
  EXPECT_EQ(handle.pool.calls, calls);
  const Bytes right = unknown.expected(Direction::kForward);
  expect_right(handle, predicted[0], unknown, Direction::kForward, right);
}

TEST(Find2Memory, ABudgetTooShortForTheTensorsGivesPredictions) {
  const Counted handle;
  // 411 MB of tensors, which take ten times the budget to make: predictions here as well.
  const Tensor x(miopenFloat, {16, 64, 224, 224}), w(miopenFloat, {64, 64, 3, 3});
  const ConvolutionDescriptor conv;
  const int ones[] = {1, 1};
  expect_ok(miopenInitConvolutionNdDescriptor(conv, 2, ones, ones, ones, miopenConvolution));
  expect_ok(miopenSetConvolutionFindMode(conv, miopenConvolutionFindModeNormal));
  miopenProblem_t raw = nullptr;
  expect_ok(miopenCreateConvProblem(&raw, conv, miopenProblemDirectionForward));
  const Problem problem = own(raw);
  expect_ok(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionX, x));
  expect_ok(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionW, w));
  expect_ok(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionY, x));
  expect_ok(polymioSetFindBudget(handle, 20));
  double best_ms = INFINITY;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto solutions = find(handle, problem);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    best_ms = std::min(best_ms, took.count());
    ASSERT_GE(solutions.size(), 2u);
    for (const Solution& s : solutions) EXPECT_NE(source_of(s), polymioSourceMeasured);
    EXPECT_NE(std::string(polymioGetLastFindReport()).find("no time to make the tensors"), std::string::npos);
  }
  EXPECT_LT(best_ms, 100);
  EXPECT_EQ(handle.pool.calls, 0u);

  // Candidates that fit the budget are measured.
  expect_ok(polymioSetFindBudget(handle, 2000));
  const Case small(handle, {{2, 16, 14, 17}, {24, 16, 3, 3}});
  EXPECT_EQ(source_of(find(handle, small.problem(Direction::kForward))[0]), polymioSourceMeasured);
  EXPECT_GE(handle.pool.calls, 3u);
}

TEST(Find2Memory, TimeToMakeTensorsCountsForTheBudget) {
  const Handle handle;
  const auto slow = [](void*, std::size_t bytes) -> void* {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  };
  expect_ok(miopenSetAllocator(
      handle, slow, [](void*, void* memory) { std::free(memory); }, nullptr));
  expect_ok(polymioSetFindBudget(handle, 100));  // making three tensors takes longer
  const Case c(handle, {{2, 16, 18, 11}, {24, 16, 3, 3}});
  const auto solutions = find(handle, c.problem(Direction::kForward));
  ASSERT_FALSE(solutions.empty());
  for (const Solution& s : solutions) EXPECT_NE(source_of(s), polymioSourceMeasured);
  EXPECT_NE(std::string(polymioGetLastFindReport()).find("skipped"), std::string::npos) << polymioGetLastFindReport();
}

TEST(Find2Memory, PreallocatedMemoryIsUsedAndInputsStay) {
  Pool pool;
  const Handle handle;
  Case c(handle, kPlain);
  c.provide_workspace(Direction::kForward);
  expect_ok(miopenSetAllocator(handle, Pool::allocate, Pool::deallocate, &pool));
  const Options options;
  expect_ok(miopenSetFindOptionPreallocatedTensor(options, miopenTensorConvolutionX, c.x_data.data()));
  expect_ok(miopenSetFindOptionPreallocatedTensor(options, miopenTensorConvolutionW, c.w_data.data()));
  expect_ok(miopenSetFindOptionPreallocatedTensor(options, miopenTensorConvolutionY, c.y_data.data()));
  expect_ok(miopenSetFindOptionPreallocatedTensor(options, miopenTensorMhaBias, c.y_data.data()));
  expect_ok(miopenSetFindOptionPreallocatedWorkspace(options, c.workspace.data(), c.workspace.size()));
  expect_ok(miopenSetFindOptionAttachBinaries(options, 1));
  const Bytes x = c.x_data, w = c.w_data, y = c.y_data;
  EXPECT_GE(find(handle, c.problem(Direction::kForward), options).size(), 3u);
  EXPECT_EQ(pool.calls, 0u);
  EXPECT_TRUE(c.x_data == x && c.w_data == w);
  EXPECT_FALSE(c.y_data == y) << "outputs are overwritten";

  // An empty workspace counts as given, and each tensor that is not given is allocated.
  const Options none;
  expect_ok(miopenSetFindOptionPreallocatedWorkspace(none, nullptr, 0));
  expect_ok(miopenSetFindOptionPreallocatedTensor(none, miopenTensorConvolutionX, c.x_data.data()));
  const Handle second;
  expect_ok(miopenSetAllocator(second, Pool::allocate, Pool::deallocate, &pool));
  for (const Solution& s : find(second, c.problem(Direction::kForward), none)) EXPECT_EQ(workspace_of(s), 0u);
  EXPECT_EQ(pool.most, c.w.bytes() + c.y.bytes());
}

}  // namespace
}  // namespace polymio::test
