// Group `convolutions`, execution: workspace, find, run and immediate mode in three directions.
// SPDX-License-Identifier: MIT
#include <algorithm>

#include "base/env.h"
#include "capi/guard.h"
#include "capi/translate.h"

using namespace polymio;
using capi::ConvolutionCall;
using capi::deref;
using capi::guard;
using capi::not_null;
using convolution::Direction;

namespace {

constexpr std::size_t kMaxSolutions = 10;  // applications have fixed arrays of this size

/// Tensors and buffers of one call by their names in the API (dx, dw, dy for the backward directions).
struct Tensors {
  miopenTensorDescriptor_t x, w, y;
};
struct Buffers {
  const void* x;
  const void* w;
  const void* y;
};

ConvolutionCall call(Direction d, miopenConvolutionDescriptor_t conv, const Tensors& t) {
  return capi::make_call(deref(conv), d, capi::described(t.x, "x"), capi::described(t.w, "w"),
                         capi::described(t.y, "y"));
}

convolution::Problem::Args arguments(const ConvolutionCall& c, const Buffers& b, void* workspace, std::size_t bytes) {
  not_null(b.x, "the buffer of x");
  not_null(b.w, "the buffer of w");
  not_null(b.y, "the buffer of y");
  convolution::Problem::Args args;
  // Args has one non-const field per tensor for all three directions; inputs are only read.
  args.x = const_cast<void*>(c.swapped ? b.y : b.x);
  args.w = const_cast<void*>(b.w);
  args.y = const_cast<void*>(c.swapped ? b.x : b.y);
  args.workspace = workspace;
  args.workspace_bytes = workspace ? bytes : 0;
  args.seed = c.seed;
  return args;
}

convolution::Scalars classify(double alpha, double beta) {
  return beta != 0    ? convolution::Scalars::kBilinear
         : alpha != 1 ? convolution::Scalars::kScale
                      : convolution::Scalars::kDefault;
}

/// The algorithm of a value of a direction's enumeration; the deprecated transposed GEMM is GEMM.
convolution::Algorithm algorithm(int value) {
  if (value == miopenTransposeBwdDataAlgoGEMM) return convolution::Algorithm::kGemm;
  require(value >= 0 && value <= 5,
          "algorithm {} is unknown: allowed are 0 (GEMM), 1 (Direct), 2 (FFT), 3 (Winograd), "
          "5 (ImplicitGEMM)",
          value);
  return static_cast<convolution::Algorithm>(value);
}

search::FindMode mode(miopenConvolutionDescriptor_t conv) {
  return static_cast<search::FindMode>(deref(conv).find_mode);
}

miopenStatus_t workspace_size(miopenHandle_t handle, Direction d, miopenConvolutionDescriptor_t conv, const Tensors& t,
                              size_t* size) {
  return guard([&] {
    Handle& h = deref(handle);
    const auto c = call(d, conv, t);
    *not_null(size, "workSpaceSize") = convolution::make_call(h, c.problem, c.constraints).find_workspace(mode(conv));
  });
}

struct FindOutput {
  int requested;
  int* returned;
  miopenConvAlgoPerf_t* results;
};

miopenStatus_t find(miopenHandle_t handle, Direction d, miopenConvolutionDescriptor_t conv, const Tensors& t,
                    const Buffers& b, const FindOutput& out, void* workspace, size_t bytes, bool exhaustive) {
  return guard([&] {
    Handle& h = deref(handle);
    not_null(out.returned, "returnedAlgoCount");
    not_null(out.results, "perfResults");
    require(out.requested >= 1, "requestAlgoCount is {}, it must be at least 1", out.requested);
    const auto c = call(d, conv, t);
    const auto args = arguments(c, b, workspace, bytes);
    capi::log_call(c, args, "find");
    const auto found = convolution::find(h, c.problem, c.constraints, args, {mode(conv), exhaustive});
    const auto count = std::min(found.size(), static_cast<std::size_t>(out.requested));
    for (std::size_t i = 0; i < count; ++i) {
      out.results[i].fwd_algo = static_cast<miopenConvFwdAlgorithm_t>(found[i].solver->info().algorithm);
      out.results[i].time = static_cast<float>(found[i].us * 1e-3);
      out.results[i].memory = found[i].workspace;
    }
    *out.returned = static_cast<int>(count);
  });
}

/// A run as convolution::run takes it.
struct RunCall {
  ConvolutionCall call;
  convolution::Problem::Args args;
};
RunCall run_call(Direction d, const void* alpha, const void* beta, miopenConvolutionDescriptor_t conv, const Tensors& t,
                 const Buffers& b, void* workspace, size_t bytes) {
  RunCall made{call(d, conv, t), {}};
  ConvolutionCall& c = made.call;
  made.args = arguments(c, b, workspace, bytes);
  const DataType y = c.swapped ? c.problem.x.type : c.problem.y.type;
  made.args.alpha = capi::scalar(alpha, y, "alpha");
  made.args.beta = capi::scalar(beta, y, "beta");
  c.problem.scalars = classify(made.args.alpha, made.args.beta);
  capi::log_call(c, made.args, "run");
  return made;
}

miopenStatus_t solution_count(miopenHandle_t handle, Direction d, miopenConvolutionDescriptor_t conv, const Tensors& t,
                              size_t* count) {
  return guard([&] {
    Handle& h = deref(handle);
    const auto c = call(d, conv, t);
    const search::Call solvers = convolution::make_call(h, c.problem, c.constraints);
    const std::size_t n = solvers.solutions().size();
    *not_null(count, "solutionCount") = std::min(n, kMaxSolutions);
    if (n > 0) return;
    if (!search::rank(solvers.request()).empty())
      fail(Status::kNotImplemented, "{}=0, and no result is stored for: {}", env::kImmediateFallback.name,
           c.problem.key());
    search::fail_refused(solvers.request());
  });
}

miopenStatus_t solutions(miopenHandle_t handle, Direction d, miopenConvolutionDescriptor_t conv, const Tensors& t,
                         size_t most, size_t* count, miopenConvSolution_t* out) {
  return guard([&] {
    Handle& h = deref(handle);
    const auto c = call(d, conv, t);
    const auto ranked = convolution::make_call(h, c.problem, c.constraints).solutions();
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

miopenStatus_t solution_workspace(miopenHandle_t handle, Direction d, miopenConvolutionDescriptor_t conv,
                                  const Tensors& t, uint64_t id, size_t* size) {
  return guard([&] {
    Handle& h = deref(handle);
    const auto c = call(d, conv, t);
    *not_null(size, "workSpaceSize") = convolution::make_call(h, c.problem, c.constraints).candidate(id).workspace;
  });
}

miopenStatus_t compile(miopenHandle_t handle, Direction d, miopenConvolutionDescriptor_t conv, const Tensors& t,
                       uint64_t id) {
  return guard([&] {
    Handle& h = deref(handle);
    const auto c = call(d, conv, t);
    convolution::prepare(h, c.problem, c.constraints, id);
  });
}

miopenStatus_t immediate(miopenHandle_t handle, Direction d, miopenConvolutionDescriptor_t conv, const Tensors& t,
                         const Buffers& b, void* workspace, size_t bytes, uint64_t id) {
  return guard([&] {
    Handle& h = deref(handle);
    const auto c = call(d, conv, t);
    const auto args = arguments(c, b, workspace, bytes);
    capi::log_call(c, args, "immediate", id);
    convolution::run(h, c.problem, c.constraints, args, id);
  });
}

}  // namespace

miopenStatus_t miopenConvolutionForwardGetWorkSpaceSize(miopenHandle_t handle, const miopenTensorDescriptor_t wDesc,
                                                        const miopenTensorDescriptor_t xDesc,
                                                        const miopenConvolutionDescriptor_t convDesc,
                                                        const miopenTensorDescriptor_t yDesc, size_t* workSpaceSize) {
  return workspace_size(handle, Direction::kForward, convDesc, {xDesc, wDesc, yDesc}, workSpaceSize);
}

miopenStatus_t miopenFindConvolutionForwardAlgorithm(miopenHandle_t handle, const miopenTensorDescriptor_t xDesc,
                                                     const void* x, const miopenTensorDescriptor_t wDesc, const void* w,
                                                     const miopenConvolutionDescriptor_t convDesc,
                                                     const miopenTensorDescriptor_t yDesc, void* y,
                                                     const int requestAlgoCount, int* returnedAlgoCount,
                                                     miopenConvAlgoPerf_t* perfResults, void* workSpace,
                                                     size_t workSpaceSize, bool exhaustiveSearch) {
  return find(handle, Direction::kForward, convDesc, {xDesc, wDesc, yDesc}, {x, w, y},
              {requestAlgoCount, returnedAlgoCount, perfResults}, workSpace, workSpaceSize, exhaustiveSearch);
}

miopenStatus_t miopenConvolutionForward(miopenHandle_t handle, const void* alpha, const miopenTensorDescriptor_t xDesc,
                                        const void* x, const miopenTensorDescriptor_t wDesc, const void* w,
                                        const miopenConvolutionDescriptor_t convDesc, miopenConvFwdAlgorithm_t algo,
                                        const void* beta, const miopenTensorDescriptor_t yDesc, void* y,
                                        void* workSpace, size_t workSpaceSize) {
  return guard([&] {
    Handle& h = deref(handle);
    const RunCall run = run_call(Direction::kForward, alpha, beta, convDesc, {xDesc, wDesc, yDesc}, {x, w, y},
                                 workSpace, workSpaceSize);
    convolution::run(h, run.call.problem, run.call.constraints, run.args, algorithm(algo));
  });
}

miopenStatus_t miopenConvolutionForwardGetSolutionCount(miopenHandle_t handle, const miopenTensorDescriptor_t wDesc,
                                                        const miopenTensorDescriptor_t xDesc,
                                                        const miopenConvolutionDescriptor_t convDesc,
                                                        const miopenTensorDescriptor_t yDesc, size_t* solutionCount) {
  return solution_count(handle, Direction::kForward, convDesc, {xDesc, wDesc, yDesc}, solutionCount);
}

miopenStatus_t miopenConvolutionForwardGetSolution(miopenHandle_t handle, const miopenTensorDescriptor_t wDesc,
                                                   const miopenTensorDescriptor_t xDesc,
                                                   const miopenConvolutionDescriptor_t convDesc,
                                                   const miopenTensorDescriptor_t yDesc, const size_t maxSolutionCount,
                                                   size_t* solutionCount, miopenConvSolution_t* solutions) {
  return ::solutions(handle, Direction::kForward, convDesc, {xDesc, wDesc, yDesc}, maxSolutionCount, solutionCount,
                     solutions);
}

miopenStatus_t miopenConvolutionForwardGetSolutionWorkspaceSize(miopenHandle_t handle,
                                                                const miopenTensorDescriptor_t wDesc,
                                                                const miopenTensorDescriptor_t xDesc,
                                                                const miopenConvolutionDescriptor_t convDesc,
                                                                const miopenTensorDescriptor_t yDesc,
                                                                const uint64_t solution_id, size_t* workSpaceSize) {
  return solution_workspace(handle, Direction::kForward, convDesc, {xDesc, wDesc, yDesc}, solution_id, workSpaceSize);
}

miopenStatus_t miopenConvolutionForwardCompileSolution(miopenHandle_t handle, const miopenTensorDescriptor_t wDesc,
                                                       const miopenTensorDescriptor_t xDesc,
                                                       const miopenConvolutionDescriptor_t convDesc,
                                                       const miopenTensorDescriptor_t yDesc,
                                                       const uint64_t solution_id) {
  return compile(handle, Direction::kForward, convDesc, {xDesc, wDesc, yDesc}, solution_id);
}

miopenStatus_t miopenConvolutionForwardImmediate(miopenHandle_t handle, const miopenTensorDescriptor_t wDesc,
                                                 const void* w, const miopenTensorDescriptor_t xDesc, const void* x,
                                                 const miopenConvolutionDescriptor_t convDesc,
                                                 const miopenTensorDescriptor_t yDesc, void* y, void* workSpace,
                                                 size_t workSpaceSize, const uint64_t solution_id) {
  return immediate(handle, Direction::kForward, convDesc, {xDesc, wDesc, yDesc}, {x, w, y}, workSpace, workSpaceSize,
                   solution_id);
}

miopenStatus_t miopenConvolutionBackwardDataGetWorkSpaceSize(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t wDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dxDesc, size_t* workSpaceSize) {
  return workspace_size(handle, Direction::kBackwardData, convDesc, {dxDesc, wDesc, dyDesc}, workSpaceSize);
}

miopenStatus_t miopenFindConvolutionBackwardDataAlgorithm(miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc,
                                                          const void* dy, const miopenTensorDescriptor_t wDesc,
                                                          const void* w, const miopenConvolutionDescriptor_t convDesc,
                                                          const miopenTensorDescriptor_t dxDesc, void* dx,
                                                          const int requestAlgoCount, int* returnedAlgoCount,
                                                          miopenConvAlgoPerf_t* perfResults, void* workSpace,
                                                          size_t workSpaceSize, bool exhaustiveSearch) {
  return find(handle, Direction::kBackwardData, convDesc, {dxDesc, wDesc, dyDesc}, {dx, w, dy},
              {requestAlgoCount, returnedAlgoCount, perfResults}, workSpace, workSpaceSize, exhaustiveSearch);
}

miopenStatus_t miopenConvolutionBackwardData(miopenHandle_t handle, const void* alpha,
                                             const miopenTensorDescriptor_t dyDesc, const void* dy,
                                             const miopenTensorDescriptor_t wDesc, const void* w,
                                             const miopenConvolutionDescriptor_t convDesc,
                                             miopenConvBwdDataAlgorithm_t algo, const void* beta,
                                             const miopenTensorDescriptor_t dxDesc, void* dx, void* workSpace,
                                             size_t workSpaceSize) {
  return guard([&] {
    Handle& h = deref(handle);
    const RunCall run = run_call(Direction::kBackwardData, alpha, beta, convDesc, {dxDesc, wDesc, dyDesc}, {dx, w, dy},
                                 workSpace, workSpaceSize);
    convolution::run(h, run.call.problem, run.call.constraints, run.args, algorithm(algo));
  });
}

miopenStatus_t miopenConvolutionBackwardDataGetSolutionCount(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t wDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dxDesc, size_t* solutionCount) {
  return solution_count(handle, Direction::kBackwardData, convDesc, {dxDesc, wDesc, dyDesc}, solutionCount);
}

miopenStatus_t miopenConvolutionBackwardDataGetSolution(miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc,
                                                        const miopenTensorDescriptor_t wDesc,
                                                        const miopenConvolutionDescriptor_t convDesc,
                                                        const miopenTensorDescriptor_t dxDesc,
                                                        const size_t maxSolutionCount, size_t* solutionCount,
                                                        miopenConvSolution_t* solutions) {
  return ::solutions(handle, Direction::kBackwardData, convDesc, {dxDesc, wDesc, dyDesc}, maxSolutionCount,
                     solutionCount, solutions);
}

miopenStatus_t miopenConvolutionBackwardDataGetSolutionWorkspaceSize(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t wDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dxDesc, const uint64_t solution_id,
    size_t* workSpaceSize) {
  return solution_workspace(handle, Direction::kBackwardData, convDesc, {dxDesc, wDesc, dyDesc}, solution_id,
                            workSpaceSize);
}

miopenStatus_t miopenConvolutionBackwardDataCompileSolution(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t wDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dxDesc, const uint64_t solution_id) {
  return compile(handle, Direction::kBackwardData, convDesc, {dxDesc, wDesc, dyDesc}, solution_id);
}

miopenStatus_t miopenConvolutionBackwardDataImmediate(miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc,
                                                      const void* dy, const miopenTensorDescriptor_t wDesc,
                                                      const void* w, const miopenConvolutionDescriptor_t convDesc,
                                                      const miopenTensorDescriptor_t dxDesc, void* dx, void* workSpace,
                                                      size_t workSpaceSize, const uint64_t solution_id) {
  return immediate(handle, Direction::kBackwardData, convDesc, {dxDesc, wDesc, dyDesc}, {dx, w, dy}, workSpace,
                   workSpaceSize, solution_id);
}

miopenStatus_t miopenConvolutionBackwardWeightsGetWorkSpaceSize(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t xDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dwDesc, size_t* workSpaceSize) {
  return workspace_size(handle, Direction::kBackwardWeights, convDesc, {xDesc, dwDesc, dyDesc}, workSpaceSize);
}

miopenStatus_t miopenFindConvolutionBackwardWeightsAlgorithm(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const void* dy, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dwDesc, void* dw,
    const int requestAlgoCount, int* returnedAlgoCount, miopenConvAlgoPerf_t* perfResults, void* workSpace,
    size_t workSpaceSize, bool exhaustiveSearch) {
  return find(handle, Direction::kBackwardWeights, convDesc, {xDesc, dwDesc, dyDesc}, {x, dw, dy},
              {requestAlgoCount, returnedAlgoCount, perfResults}, workSpace, workSpaceSize, exhaustiveSearch);
}

miopenStatus_t miopenConvolutionBackwardWeights(miopenHandle_t handle, const void* alpha,
                                                const miopenTensorDescriptor_t dyDesc, const void* dy,
                                                const miopenTensorDescriptor_t xDesc, const void* x,
                                                const miopenConvolutionDescriptor_t convDesc,
                                                miopenConvBwdWeightsAlgorithm_t algo, const void* beta,
                                                const miopenTensorDescriptor_t dwDesc, void* dw, void* workSpace,
                                                size_t workSpaceSize) {
  return guard([&] {
    Handle& h = deref(handle);
    const RunCall run = run_call(Direction::kBackwardWeights, alpha, beta, convDesc, {xDesc, dwDesc, dyDesc},
                                 {x, dw, dy}, workSpace, workSpaceSize);
    convolution::run(h, run.call.problem, run.call.constraints, run.args, algorithm(algo));
  });
}

miopenStatus_t miopenConvolutionBackwardWeightsGetSolutionCount(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t xDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dwDesc, size_t* solutionCount) {
  return solution_count(handle, Direction::kBackwardWeights, convDesc, {xDesc, dwDesc, dyDesc}, solutionCount);
}

miopenStatus_t miopenConvolutionBackwardWeightsGetSolution(miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc,
                                                           const miopenTensorDescriptor_t xDesc,
                                                           const miopenConvolutionDescriptor_t convDesc,
                                                           const miopenTensorDescriptor_t dwDesc,
                                                           const size_t maxSolutionCount, size_t* solutionCount,
                                                           miopenConvSolution_t* solutions) {
  return ::solutions(handle, Direction::kBackwardWeights, convDesc, {xDesc, dwDesc, dyDesc}, maxSolutionCount,
                     solutionCount, solutions);
}

miopenStatus_t miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t xDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dwDesc, const uint64_t solution_id,
    size_t* workSpaceSize) {
  return solution_workspace(handle, Direction::kBackwardWeights, convDesc, {xDesc, dwDesc, dyDesc}, solution_id,
                            workSpaceSize);
}

miopenStatus_t miopenConvolutionBackwardWeightsCompileSolution(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t xDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dwDesc, const uint64_t solution_id) {
  return compile(handle, Direction::kBackwardWeights, convDesc, {xDesc, dwDesc, dyDesc}, solution_id);
}

miopenStatus_t miopenConvolutionBackwardWeightsImmediate(miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc,
                                                         const void* dy, const miopenTensorDescriptor_t xDesc,
                                                         const void* x, const miopenConvolutionDescriptor_t convDesc,
                                                         const miopenTensorDescriptor_t dwDesc, void* dw,
                                                         void* workSpace, size_t workSpaceSize,
                                                         const uint64_t solution_id) {
  return immediate(handle, Direction::kBackwardWeights, convDesc, {xDesc, dwDesc, dyDesc}, {x, dw, dy}, workSpace,
                   workSpaceSize, solution_id);
}

miopenStatus_t miopenConvolutionABBackwardWeightsGetWorkSpaceSize(const miopenAlphaBetaCase_t alpha_beta_case,
                                                                  const miopenTensorDescriptor_t inputTensorDesc,
                                                                  const miopenTensorDescriptor_t outputTensorDesc,
                                                                  const miopenConvolutionDescriptor_t convDesc,
                                                                  size_t* buffer_size) {
  return guard([&] {
    deref(convDesc);
    capi::described(inputTensorDesc, "the input");
    capi::described(outputTensorDesc, "the output");
    require(alpha_beta_case >= DEFAULT && alpha_beta_case <= BILINEAR,
            "alpha-beta case {} is unknown: allowed are 0, 1, 2", static_cast<int>(alpha_beta_case));
    *not_null(buffer_size, "buffer_size") = 0;  // no solver needs a buffer besides its workspace
  });
}
