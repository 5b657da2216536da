// Group `softmax`, and its descriptor.
// SPDX-License-Identifier: MIT
#include "capi/softmax.h"

#include <miopen/find2.h>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/common/log_call.h"
#include "capi/common/tensor.h"

using namespace polymio;
using capi::deref;
using capi::described;
using capi::guard;
using capi::not_null;
using capi::scalar;
using softmax::Problem;

namespace polymio::capi {

softmax::Algorithm checked_algorithm(miopenSoftmaxAlgorithm_t algorithm) {
  const int number = static_cast<int>(algorithm);
  require(number >= 0 && number < softmax::kAlgorithms,
          "softmax algorithm {} is unknown: allowed are 0 (fast), 1 (accurate), 2 (log)", number);
  return static_cast<softmax::Algorithm>(number);
}

softmax::Mode checked_mode(miopenSoftmaxMode_t mode) {
  const int number = static_cast<int>(mode);
  require(number >= 0 && number < softmax::kModes, "softmax mode {} is unknown: allowed are 0 (instance), 1 (channel)",
          number);
  return static_cast<softmax::Mode>(number);
}

void log_call(const Problem& problem, const Problem::Args& args, const char* function, std::uint64_t solution) {
  log_call(function, [&] {
    std::string line = problem.key() + scale_flags(args.scale, args.keep, "-A", "-B");
    if (solution) line += fmt::format(" -S {}", solution);
    return line;
  });
}

}  // namespace polymio::capi

namespace {

void run(miopenHandle_t handle, const Problem& problem, Problem::Args args, const void* alpha, const void* beta,
         const char* function) {
  args.scale = scalar(alpha, problem.out.type, "alpha");
  args.keep = scalar(beta, problem.out.type, "beta");
  capi::log_call(problem, args, function);
  softmax::run(deref(handle), problem, args);
}

}  // namespace

miopenStatus_t miopenSoftmaxForward_V2(miopenHandle_t handle, const void* alpha, const miopenTensorDescriptor_t xDesc,
                                       const void* x, const void* beta, const miopenTensorDescriptor_t yDesc, void* y,
                                       miopenSoftmaxAlgorithm_t algorithm, miopenSoftmaxMode_t mode) {
  return guard([&] {
    const Problem problem = softmax::forward_problem(capi::checked_algorithm(algorithm), capi::checked_mode(mode),
                                                     described(xDesc, "x"), described(yDesc, "y"));
    Problem::Args args;
    args.in = not_null(x, "the buffer of x");
    args.result = not_null(y, "the buffer of y");
    run(handle, problem, args, alpha, beta, "miopenSoftmaxForward_V2");
  });
}

miopenStatus_t miopenSoftmaxBackward_V2(miopenHandle_t handle, const void* alpha, const miopenTensorDescriptor_t yDesc,
                                        const void* y, const miopenTensorDescriptor_t dyDesc, const void* dy,
                                        const void* beta, const miopenTensorDescriptor_t dxDesc, void* dx,
                                        miopenSoftmaxAlgorithm_t algorithm, miopenSoftmaxMode_t mode) {
  return guard([&] {
    const Problem problem =
        softmax::backward_problem(capi::checked_algorithm(algorithm), capi::checked_mode(mode), described(yDesc, "y"),
                                  described(dyDesc, "dy"), described(dxDesc, "dx"));
    Problem::Args args;
    args.in = not_null(y, "the buffer of y");
    args.dy = not_null(dy, "the buffer of dy");
    args.result = not_null(dx, "the buffer of dx");
    run(handle, problem, args, alpha, beta, "miopenSoftmaxBackward_V2");
  });
}

miopenStatus_t miopenSoftmaxForward(miopenHandle_t handle, const void* alpha, const miopenTensorDescriptor_t xDesc,
                                    const void* x, const void* beta, const miopenTensorDescriptor_t yDesc, void* y) {
  return miopenSoftmaxForward_V2(handle, alpha, xDesc, x, beta, yDesc, y, MIOPEN_SOFTMAX_ACCURATE,
                                 MIOPEN_SOFTMAX_MODE_CHANNEL);
}

miopenStatus_t miopenSoftmaxBackward(miopenHandle_t handle, const void* alpha, const miopenTensorDescriptor_t yDesc,
                                     const void* y, const miopenTensorDescriptor_t dyDesc, const void* dy,
                                     const void* beta, const miopenTensorDescriptor_t dxDesc, void* dx) {
  return miopenSoftmaxBackward_V2(handle, alpha, yDesc, y, dyDesc, dy, beta, dxDesc, dx, MIOPEN_SOFTMAX_ACCURATE,
                                  MIOPEN_SOFTMAX_MODE_CHANNEL);
}

miopenStatus_t miopenCreateSoftmaxDescriptor(miopenSoftmaxDescriptor_t* softmaxDesc) {
  return guard([&] {
    not_null(softmaxDesc, "softmaxDesc");
    *softmaxDesc = new capi::SoftmaxObject;
  });
}

miopenStatus_t miopenSetSoftmaxDescriptor(miopenSoftmaxDescriptor_t softmaxDesc, float alpha, float beta,
                                          miopenSoftmaxAlgorithm_t algorithm, miopenSoftmaxMode_t mode) {
  return guard([&] {
    deref(softmaxDesc) = {alpha, beta, capi::checked_algorithm(algorithm), capi::checked_mode(mode)};
  });
}

miopenStatus_t miopenGetSoftmaxDescriptor(const miopenSoftmaxDescriptor_t softmaxDesc, float* alpha, float* beta,
                                          miopenSoftmaxAlgorithm_t* algorithm, miopenSoftmaxMode_t* mode) {
  return guard([&] {
    const auto& state = deref(softmaxDesc);
    if (alpha) *alpha = state.alpha;
    if (beta) *beta = state.beta;
    if (algorithm) *algorithm = static_cast<miopenSoftmaxAlgorithm_t>(state.algorithm);
    if (mode) *mode = static_cast<miopenSoftmaxMode_t>(state.mode);
  });
}
