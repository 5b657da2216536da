// Convolutions: workspace of find, and find, in three directions.
// SPDX-License-Identifier: MIT
#include <miopen/miopen_internal.h>

#include <algorithm>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/common/tensor.h"
#include "capi/convolution/call.h"

using namespace polymio;
using capi::deref;
using capi::guard;
using capi::not_null;
using convolution::Direction;

namespace {

miopenStatus_t workspace_size(miopenHandle_t handle, const capi::Descriptors& d, size_t* size) {
  return guard([&] {
    Handle& h = deref(handle);
    const auto call = capi::make_call(d);
    *not_null(size, "workSpaceSize") = capi::search_call(h, call).find_workspace(call.find_mode);
  });
}

struct FindOutput {
  int requested;
  int* returned;
  miopenConvAlgoPerf_t* results;
};

miopenStatus_t find(miopenHandle_t handle, const capi::Descriptors& d, const capi::Buffers& buffers,
                    const FindOutput& out, void* workspace, size_t bytes, bool exhaustive) {
  return guard([&] {
    Handle& h = deref(handle);
    not_null(out.returned, "returnedAlgoCount");
    not_null(out.results, "perfResults");
    require(out.requested >= 1, "requestAlgoCount is {}, it must be at least 1", out.requested);
    const auto call = capi::make_call(d);
    capi::check_buffers(buffers);
    const auto args = capi::arguments(call, buffers, workspace, bytes);
    capi::log_call(call, args, "find");
    const auto found = convolution::find(h, call.problem, call.constraints, args, {call.find_mode, exhaustive});
    const auto count = std::min(found.size(), static_cast<std::size_t>(out.requested));
    for (std::size_t i = 0; i < count; ++i) {
      out.results[i].fwd_algo = static_cast<miopenConvFwdAlgorithm_t>(found[i].solver->info().algorithm);
      out.results[i].time = static_cast<float>(found[i].us * 1e-3);
      out.results[i].memory = found[i].workspace;
    }
    *out.returned = static_cast<int>(count);
  });
}

}  // namespace

miopenStatus_t miopenConvolutionForwardGetWorkSpaceSize(miopenHandle_t handle, const miopenTensorDescriptor_t wDesc,
                                                        const miopenTensorDescriptor_t xDesc,
                                                        const miopenConvolutionDescriptor_t convDesc,
                                                        const miopenTensorDescriptor_t yDesc, size_t* workSpaceSize) {
  return workspace_size(handle, {Direction::kForward, convDesc, xDesc, wDesc, yDesc}, workSpaceSize);
}

miopenStatus_t miopenFindConvolutionForwardAlgorithm(miopenHandle_t handle, const miopenTensorDescriptor_t xDesc,
                                                     const void* x, const miopenTensorDescriptor_t wDesc, const void* w,
                                                     const miopenConvolutionDescriptor_t convDesc,
                                                     const miopenTensorDescriptor_t yDesc, void* y,
                                                     const int requestAlgoCount, int* returnedAlgoCount,
                                                     miopenConvAlgoPerf_t* perfResults, void* workSpace,
                                                     size_t workSpaceSize, bool exhaustiveSearch) {
  return find(handle, {Direction::kForward, convDesc, xDesc, wDesc, yDesc}, {x, w, y},
              {requestAlgoCount, returnedAlgoCount, perfResults}, workSpace, workSpaceSize, exhaustiveSearch);
}

miopenStatus_t miopenConvolutionBackwardDataGetWorkSpaceSize(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t wDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dxDesc, size_t* workSpaceSize) {
  return workspace_size(handle, {Direction::kBackwardData, convDesc, dxDesc, wDesc, dyDesc}, workSpaceSize);
}

miopenStatus_t miopenFindConvolutionBackwardDataAlgorithm(miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc,
                                                          const void* dy, const miopenTensorDescriptor_t wDesc,
                                                          const void* w, const miopenConvolutionDescriptor_t convDesc,
                                                          const miopenTensorDescriptor_t dxDesc, void* dx,
                                                          const int requestAlgoCount, int* returnedAlgoCount,
                                                          miopenConvAlgoPerf_t* perfResults, void* workSpace,
                                                          size_t workSpaceSize, bool exhaustiveSearch) {
  return find(handle, {Direction::kBackwardData, convDesc, dxDesc, wDesc, dyDesc}, {dx, w, dy},
              {requestAlgoCount, returnedAlgoCount, perfResults}, workSpace, workSpaceSize, exhaustiveSearch);
}

miopenStatus_t miopenConvolutionBackwardWeightsGetWorkSpaceSize(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t xDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dwDesc, size_t* workSpaceSize) {
  return workspace_size(handle, {Direction::kBackwardWeights, convDesc, xDesc, dwDesc, dyDesc}, workSpaceSize);
}

miopenStatus_t miopenFindConvolutionBackwardWeightsAlgorithm(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const void* dy, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dwDesc, void* dw,
    const int requestAlgoCount, int* returnedAlgoCount, miopenConvAlgoPerf_t* perfResults, void* workSpace,
    size_t workSpaceSize, bool exhaustiveSearch) {
  return find(handle, {Direction::kBackwardWeights, convDesc, xDesc, dwDesc, dyDesc}, {x, dw, dy},
              {requestAlgoCount, returnedAlgoCount, perfResults}, workSpace, workSpaceSize, exhaustiveSearch);
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
