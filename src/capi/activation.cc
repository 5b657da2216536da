// Group `activation`.
// SPDX-License-Identifier: MIT
#include "capi/activation.h"

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/common/log_call.h"
#include "capi/common/tensor.h"

using namespace polymio;
using activation::Problem;
using capi::ActivationObject;
using capi::deref;
using capi::described;
using capi::guard;
using capi::not_null;
using capi::scalar;

namespace {

/// Logs the MIOpenDriver line of the call.
void log_call(const Problem& problem, const Problem::Args& args, const char* function) {
  capi::log_call(function, [&] {
    const auto& [alpha, beta, gamma] = args.parameters;
    return fmt::format("{} -A {} -B {} -G {}", problem.key(), alpha, beta, gamma) +
           capi::scale_flags(args.scale, args.keep);
  });
}

void run(miopenHandle_t handle, const ActivationObject& descriptor, const Problem& problem, Problem::Args args,
         const void* alpha, const void* beta, const char* function) {
  args.parameters = descriptor.parameters;
  args.scale = scalar(alpha, problem.output().type, "alpha");
  args.keep = scalar(beta, problem.output().type, "beta");
  log_call(problem, args, function);
  activation::run(deref(handle), problem, args);
}

}  // namespace

miopenStatus_t miopenCreateActivationDescriptor(miopenActivationDescriptor_t* activDesc) {
  return guard([&] {
    not_null(activDesc, "activDesc");
    *activDesc = new ActivationObject;
  });
}

miopenStatus_t miopenSetActivationDescriptor(const miopenActivationDescriptor_t activDesc, miopenActivationMode_t mode,
                                             double activAlpha, double activBeta, double activGamma) {
  return guard([&] {
    ActivationObject& descriptor = deref(activDesc);
    const int number = static_cast<int>(mode);
    require(number >= 0 && number < activation::kModes,
            "activation mode {} is unknown: allowed are 0 (passthru) to 10 (clamp)", number);
    descriptor.mode = static_cast<activation::Mode>(number);
    descriptor.parameters = {activAlpha, activBeta, activGamma};
  });
}

miopenStatus_t miopenGetActivationDescriptor(const miopenActivationDescriptor_t activDesc, miopenActivationMode_t* mode,
                                             double* activAlpha, double* activBeta, double* activGamma) {
  return guard([&] {
    const ActivationObject& descriptor = deref(activDesc);
    if (mode) *mode = static_cast<miopenActivationMode_t>(descriptor.mode);
    if (activAlpha) *activAlpha = descriptor.parameters.alpha;
    if (activBeta) *activBeta = descriptor.parameters.beta;
    if (activGamma) *activGamma = descriptor.parameters.gamma;
  });
}

miopenStatus_t miopenActivationForward(miopenHandle_t handle, const miopenActivationDescriptor_t activDesc,
                                       const void* alpha, const miopenTensorDescriptor_t xDesc, const void* x,
                                       const void* beta, const miopenTensorDescriptor_t yDesc, void* y) {
  return guard([&] {
    const ActivationObject& descriptor = deref(activDesc);
    const Problem problem = activation::forward_problem(descriptor.mode, described(xDesc, "x"), described(yDesc, "y"));
    Problem::Args args;
    args.x = not_null(x, "the buffer of x");
    args.result = not_null(y, "the buffer of y");
    run(handle, descriptor, problem, args, alpha, beta, "miopenActivationForward");
  });
}

miopenStatus_t miopenActivationBackward(miopenHandle_t handle, const miopenActivationDescriptor_t activDesc,
                                        const void* alpha, const miopenTensorDescriptor_t yDesc, const void* y,
                                        const miopenTensorDescriptor_t dyDesc, const void* dy,
                                        const miopenTensorDescriptor_t xDesc, const void* x, const void* beta,
                                        const miopenTensorDescriptor_t dxDesc, void* dx) {
  return guard([&] {
    const ActivationObject& descriptor = deref(activDesc);
    const Problem problem = activation::backward_problem(descriptor.mode, described(xDesc, "x"), described(yDesc, "y"),
                                                         described(dyDesc, "dy"), described(dxDesc, "dx"));
    Problem::Args args;
    args.x = not_null(x, "the buffer of x");
    args.dy = not_null(dy, "the buffer of dy");
    args.result = not_null(dx, "the buffer of dx");
    not_null(y, "the buffer of y");
    args.x_is_y = activation::forward_was_in_place(descriptor.mode, descriptor.parameters, x, y);
    run(handle, descriptor, problem, args, alpha, beta, "miopenActivationBackward");
  });
}

miopenStatus_t miopenDestroyActivationDescriptor(miopenActivationDescriptor_t activDesc) {
  return guard([&] { delete &deref(activDesc); });
}

miopenStatus_t miopenGLUForward(miopenHandle_t handle, const miopenTensorDescriptor_t inputDesc, const void* input,
                                const miopenTensorDescriptor_t outputDesc, void* output, const uint32_t dim) {
  return guard([&] {
    const TensorDesc &in = described(inputDesc, "the input"), &out = described(outputDesc, "the output");
    not_null(input, "the buffer of the input");
    not_null(output, "the buffer of the output");
    deref(handle).run([&](Stream& s) { activation::glu_forward(s, in, input, out, output, dim); });
  });
}

miopenStatus_t miopenGLUBackward(miopenHandle_t handle, const miopenTensorDescriptor_t inputDesc, const void* input,
                                 const miopenTensorDescriptor_t outputGradDesc, const void* outputGrad,
                                 const miopenTensorDescriptor_t inputGradDesc, void* inputGrad, const uint32_t dim) {
  return guard([&] {
    const TensorDesc &in = described(inputDesc, "the input"), &out = described(outputGradDesc, "outputGrad");
    const TensorDesc& grad = described(inputGradDesc, "inputGrad");
    not_null(input, "the buffer of the input");
    not_null(outputGrad, "the buffer of outputGrad");
    not_null(inputGrad, "the buffer of inputGrad");
    deref(handle).run(
        [&](Stream& s) { activation::glu_backward(s, in, input, out, outputGrad, grad, inputGrad, dim); });
  });
}
