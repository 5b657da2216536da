// Convolutions, immediate mode: solutions without find, and their runs, in three directions.
// SPDX-License-Identifier: MIT
#include <algorithm>

#include "base/env.h"
#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/convolution/call.h"

using namespace polymio;
using capi::deref;
using capi::guard;
using capi::not_null;
using convolution::Direction;

namespace {

constexpr std::size_t kMaxSolutions = 10;  // applications have fixed arrays of this size

miopenStatus_t solution_count(miopenHandle_t handle, const capi::Descriptors& d, size_t* count) {
  return guard([&] {
    Handle& h = deref(handle);
    const auto call = capi::make_call(d);
    const search::Call solvers = capi::search_call(h, call);
    const std::size_t n = solvers.solutions().size();
    *not_null(count, "solutionCount") = std::min(n, kMaxSolutions);
    if (n > 0) return;
    if (!search::rank(solvers.request()).empty())
      fail(Status::kNotImplemented, "{}=0, and no result is stored for: {}", env::kImmediateFallback.name,
           call.problem.key());
    search::fail_refused(solvers.request());
  });
}

miopenStatus_t solutions(miopenHandle_t handle, const capi::Descriptors& d, size_t most, size_t* count,
                         miopenConvSolution_t* out) {
  return guard([&] {
    Handle& h = deref(handle);
    const auto call = capi::make_call(d);
    const auto ranked = capi::search_call(h, call).solutions();
    const std::size_t n = std::min({ranked.size(), most, kMaxSolutions});
    if (count) *count = n;
    if (!out) return;
    for (std::size_t i = 0; i < n; ++i) {
      const auto info = ranked[i].solver->info();
      out[i].time = static_cast<float>(ranked[i].us * 1e-3);
      out[i].workspace_size = ranked[i].workspace;
      out[i].solution_id = info.id;
      out[i].algorithm = static_cast<miopenConvAlgorithm_t>(info.algorithm);
    }
  });
}

miopenStatus_t solution_workspace(miopenHandle_t handle, const capi::Descriptors& d, uint64_t id, size_t* size) {
  return guard([&] {
    Handle& h = deref(handle);
    const auto call = capi::make_call(d);
    *not_null(size, "workSpaceSize") = capi::search_call(h, call).candidate(id).workspace;
  });
}

miopenStatus_t compile(miopenHandle_t handle, const capi::Descriptors& d, uint64_t id) {
  return guard([&] {
    Handle& h = deref(handle);
    const auto call = capi::make_call(d);
    convolution::prepare(h, call.problem, call.constraints, id);
  });
}

miopenStatus_t immediate(miopenHandle_t handle, const capi::Descriptors& d, const capi::Buffers& buffers,
                         void* workspace, size_t bytes, uint64_t id) {
  return guard([&] {
    Handle& h = deref(handle);
    const auto call = capi::make_call(d);
    capi::check_buffers(buffers);
    const auto args = capi::arguments(call, buffers, workspace, bytes);
    capi::log_call(call, args, "immediate", id);
    convolution::run(h, call.problem, call.constraints, args, id);
  });
}

}  // namespace

miopenStatus_t miopenConvolutionForwardGetSolutionCount(miopenHandle_t handle, const miopenTensorDescriptor_t wDesc,
                                                        const miopenTensorDescriptor_t xDesc,
                                                        const miopenConvolutionDescriptor_t convDesc,
                                                        const miopenTensorDescriptor_t yDesc, size_t* solutionCount) {
  return solution_count(handle, {Direction::kForward, convDesc, xDesc, wDesc, yDesc}, solutionCount);
}

miopenStatus_t miopenConvolutionForwardGetSolution(miopenHandle_t handle, const miopenTensorDescriptor_t wDesc,
                                                   const miopenTensorDescriptor_t xDesc,
                                                   const miopenConvolutionDescriptor_t convDesc,
                                                   const miopenTensorDescriptor_t yDesc, const size_t maxSolutionCount,
                                                   size_t* solutionCount, miopenConvSolution_t* solutions) {
  return ::solutions(handle, {Direction::kForward, convDesc, xDesc, wDesc, yDesc}, maxSolutionCount, solutionCount,
                     solutions);
}

miopenStatus_t miopenConvolutionForwardGetSolutionWorkspaceSize(miopenHandle_t handle,
                                                                const miopenTensorDescriptor_t wDesc,
                                                                const miopenTensorDescriptor_t xDesc,
                                                                const miopenConvolutionDescriptor_t convDesc,
                                                                const miopenTensorDescriptor_t yDesc,
                                                                const uint64_t solution_id, size_t* workSpaceSize) {
  return solution_workspace(handle, {Direction::kForward, convDesc, xDesc, wDesc, yDesc}, solution_id, workSpaceSize);
}

miopenStatus_t miopenConvolutionForwardCompileSolution(miopenHandle_t handle, const miopenTensorDescriptor_t wDesc,
                                                       const miopenTensorDescriptor_t xDesc,
                                                       const miopenConvolutionDescriptor_t convDesc,
                                                       const miopenTensorDescriptor_t yDesc,
                                                       const uint64_t solution_id) {
  return compile(handle, {Direction::kForward, convDesc, xDesc, wDesc, yDesc}, solution_id);
}

miopenStatus_t miopenConvolutionForwardImmediate(miopenHandle_t handle, const miopenTensorDescriptor_t wDesc,
                                                 const void* w, const miopenTensorDescriptor_t xDesc, const void* x,
                                                 const miopenConvolutionDescriptor_t convDesc,
                                                 const miopenTensorDescriptor_t yDesc, void* y, void* workSpace,
                                                 size_t workSpaceSize, const uint64_t solution_id) {
  return immediate(handle, {Direction::kForward, convDesc, xDesc, wDesc, yDesc}, {x, w, y}, workSpace, workSpaceSize,
                   solution_id);
}

miopenStatus_t miopenConvolutionBackwardDataGetSolutionCount(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t wDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dxDesc, size_t* solutionCount) {
  return solution_count(handle, {Direction::kBackwardData, convDesc, dxDesc, wDesc, dyDesc}, solutionCount);
}

miopenStatus_t miopenConvolutionBackwardDataGetSolution(miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc,
                                                        const miopenTensorDescriptor_t wDesc,
                                                        const miopenConvolutionDescriptor_t convDesc,
                                                        const miopenTensorDescriptor_t dxDesc,
                                                        const size_t maxSolutionCount, size_t* solutionCount,
                                                        miopenConvSolution_t* solutions) {
  return ::solutions(handle, {Direction::kBackwardData, convDesc, dxDesc, wDesc, dyDesc}, maxSolutionCount,
                     solutionCount, solutions);
}

miopenStatus_t miopenConvolutionBackwardDataGetSolutionWorkspaceSize(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t wDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dxDesc, const uint64_t solution_id,
    size_t* workSpaceSize) {
  return solution_workspace(handle, {Direction::kBackwardData, convDesc, dxDesc, wDesc, dyDesc}, solution_id,
                            workSpaceSize);
}

miopenStatus_t miopenConvolutionBackwardDataCompileSolution(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t wDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dxDesc, const uint64_t solution_id) {
  return compile(handle, {Direction::kBackwardData, convDesc, dxDesc, wDesc, dyDesc}, solution_id);
}

miopenStatus_t miopenConvolutionBackwardDataImmediate(miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc,
                                                      const void* dy, const miopenTensorDescriptor_t wDesc,
                                                      const void* w, const miopenConvolutionDescriptor_t convDesc,
                                                      const miopenTensorDescriptor_t dxDesc, void* dx, void* workSpace,
                                                      size_t workSpaceSize, const uint64_t solution_id) {
  return immediate(handle, {Direction::kBackwardData, convDesc, dxDesc, wDesc, dyDesc}, {dx, w, dy}, workSpace,
                   workSpaceSize, solution_id);
}

miopenStatus_t miopenConvolutionBackwardWeightsGetSolutionCount(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t xDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dwDesc, size_t* solutionCount) {
  return solution_count(handle, {Direction::kBackwardWeights, convDesc, xDesc, dwDesc, dyDesc}, solutionCount);
}

miopenStatus_t miopenConvolutionBackwardWeightsGetSolution(miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc,
                                                           const miopenTensorDescriptor_t xDesc,
                                                           const miopenConvolutionDescriptor_t convDesc,
                                                           const miopenTensorDescriptor_t dwDesc,
                                                           const size_t maxSolutionCount, size_t* solutionCount,
                                                           miopenConvSolution_t* solutions) {
  return ::solutions(handle, {Direction::kBackwardWeights, convDesc, xDesc, dwDesc, dyDesc}, maxSolutionCount,
                     solutionCount, solutions);
}

miopenStatus_t miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t xDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dwDesc, const uint64_t solution_id,
    size_t* workSpaceSize) {
  return solution_workspace(handle, {Direction::kBackwardWeights, convDesc, xDesc, dwDesc, dyDesc}, solution_id,
                            workSpaceSize);
}

miopenStatus_t miopenConvolutionBackwardWeightsCompileSolution(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t xDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dwDesc, const uint64_t solution_id) {
  return compile(handle, {Direction::kBackwardWeights, convDesc, xDesc, dwDesc, dyDesc}, solution_id);
}

miopenStatus_t miopenConvolutionBackwardWeightsImmediate(miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc,
                                                         const void* dy, const miopenTensorDescriptor_t xDesc,
                                                         const void* x, const miopenConvolutionDescriptor_t convDesc,
                                                         const miopenTensorDescriptor_t dwDesc, void* dw,
                                                         void* workSpace, size_t workSpaceSize,
                                                         const uint64_t solution_id) {
  return immediate(handle, {Direction::kBackwardWeights, convDesc, xDesc, dwDesc, dyDesc}, {x, dw, dy}, workSpace,
                   workSpaceSize, solution_id);
}
