// Convolutions: runs by algorithm, in three directions.
// SPDX-License-Identifier: MIT
#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/convolution/call.h"

using namespace polymio;
using capi::deref;
using capi::guard;
using convolution::Direction;

namespace {

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
  return convolution::reported_algorithm(static_cast<convolution::Algorithm>(value));
}

/// A run as convolution::run takes it.
struct RunCall {
  capi::ConvolutionCall call;
  convolution::Problem::Args args;
};
RunCall run_call(const capi::Descriptors& d, const void* alpha, const void* beta, const capi::Buffers& buffers,
                 void* workspace, size_t bytes) {
  RunCall run{capi::make_call(d), {}};
  capi::check_buffers(buffers);
  run.args = capi::arguments(run.call, buffers, workspace, bytes);
  convolution::Problem& problem = run.call.problem;
  const DataType y = run.call.swapped ? problem.x.type : problem.y.type;
  run.args.alpha = capi::scalar(alpha, y, "alpha");
  run.args.beta = capi::scalar(beta, y, "beta");
  problem.scalars = classify(run.args.alpha, run.args.beta);
  capi::log_call(run.call, run.args, "run");
  return run;
}

}  // namespace

miopenStatus_t miopenConvolutionForward(miopenHandle_t handle, const void* alpha, const miopenTensorDescriptor_t xDesc,
                                        const void* x, const miopenTensorDescriptor_t wDesc, const void* w,
                                        const miopenConvolutionDescriptor_t convDesc, miopenConvFwdAlgorithm_t algo,
                                        const void* beta, const miopenTensorDescriptor_t yDesc, void* y,
                                        void* workSpace, size_t workSpaceSize) {
  return guard([&] {
    Handle& h = deref(handle);
    const RunCall run = run_call({Direction::kForward, convDesc, xDesc, wDesc, yDesc}, alpha, beta, {x, w, y},
                                 workSpace, workSpaceSize);
    convolution::run(h, run.call.problem, run.call.constraints, run.args, algorithm(algo));
  });
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
    const RunCall run = run_call({Direction::kBackwardData, convDesc, dxDesc, wDesc, dyDesc}, alpha, beta, {dx, w, dy},
                                 workSpace, workSpaceSize);
    convolution::run(h, run.call.problem, run.call.constraints, run.args, algorithm(algo));
  });
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
    const RunCall run = run_call({Direction::kBackwardWeights, convDesc, xDesc, dwDesc, dyDesc}, alpha, beta,
                                 {x, dw, dy}, workSpace, workSpaceSize);
    convolution::run(h, run.call.problem, run.call.constraints, run.args, algorithm(algo));
  });
}
