// Group `batchnorm`.
// SPDX-License-Identifier: MIT
#include "capi/batch_norm.h"

#include <miopen/batchnorm.h>

#include "capi/activation.h"
#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/common/log_call.h"
#include "capi/common/tensor.h"
#include "core/problem_text.h"
#include "core/tensor_checks.h"
#include "primitives/batch_norm/batch_norm.h"

using namespace polymio;
using batch_norm::Direction;
using batch_norm::Problem;
using capi::described;
using capi::guard;
using capi::not_null;

namespace {

/// The descriptors of the parameters. The older functions give one for all of them.
struct Parameters {
  miopenTensorDescriptor_t scale, bias, mean, variance;
  bool one = false;
};
Parameters one(miopenTensorDescriptor_t t) { return {t, t, t, t, true}; }

bool is_16_bit(DataType t) { return t == DataType::kHalf || t == DataType::kBFloat16; }

/// A parameter's sizes and strides for x; 5-D tensors may have parameters of 4-D ones with D * H rows.
TensorDesc fitted(const TensorDesc& given, const TensorDesc& x) {
  TensorDesc t = given;
  if (x.rank != 5 || t.rank != 4) return t;
  const bool per_channel = t.lens[2] == 1 && t.lens[3] == 1;
  if (!per_channel && (t.lens[2] != x.lens[2] * x.lens[3] || t.lens[3] != x.lens[4])) return t;
  t.rank = 5;
  t.lens = {t.lens[0], t.lens[1], per_channel ? 1 : x.lens[2], per_channel ? 1 : x.lens[3], t.lens[3]};
  t.strides = {t.strides[0], t.strides[1], t.strides[2] * t.lens[3], t.strides[2], t.strides[3]};
  return t;
}

}  // namespace

void capi::set_parameters(Problem& p, const NormParameters& given) {
  const TensorDesc scale = fitted(given.scale, p.x), bias = fitted(given.bias, p.x);
  const TensorDesc mean = fitted(given.mean, p.x), variance = fitted(given.variance, p.x);
  require_same_type(mean, "the mean", variance, "the variance");
  const TensorDesc* const others[] = {&bias, &mean, &variance};
  for (const TensorDesc* t : others) {
    require_same_sizes(scale, "the scale", *t, "another parameter");
    require(same_strides(scale, *t),
            "the strides of the scale are {}, those of another parameter {}: they must be equal", strides_text(scale),
            strides_text(*t));
  }
  p.parameters = scale;
  p.parameters.type = p.parameters.cast = DataType::kFloat;
  p.scale_type = scale.type;
  p.bias_type = bias.type;
  p.moment_type = mean.type;
  if (given.one && is_16_bit(scale.type) && p.x.is_channels_last() && !p.x.is_channels_first()) {
    p.moment_type = DataType::kFloat;
    if (!p.forward()) p.bias_type = DataType::kFloat;
  }
}

namespace {

void set_parameters(Problem& p, const Parameters& given) {
  capi::set_parameters(p, {described(given.scale, "the scale"), described(given.bias, "the bias"),
                           described(given.mean, "the mean"), described(given.variance, "the variance"), given.one});
}

void set_activation(Problem& p, Problem::Args& args, miopenActivationDescriptor_t descriptor) {
  if (!descriptor) return;
  p.activation = capi::deref(descriptor).mode;
  args.activation = capi::deref(descriptor).parameters;
}

Problem problem_of(Direction direction, miopenBatchNormMode_t mode, const TensorDesc& x, const TensorDesc& out) {
  Problem p;
  p.direction = direction;
  p.mode = static_cast<batch_norm::Mode>(mode);
  p.x = x;
  p.out = out;
  return p;
}

/// Alpha and beta are floats for every type.
double number(const void* scalar, const char* name) { return capi::scalar(scalar, DataType::kFloat, name); }

void run(miopenHandle_t handle, const Problem& p, const Problem::Args& args, const char* function) {
  capi::log_call(function, [&] {
    const bool saves = args.saved_mean || (!p.forward() && args.mean);
    std::string line = fmt::format("{} --save {:d} -r {:d} --epsilon {} --factor {} -A {} -B {}", p.key(), saves,
                                   args.next_mean != nullptr, args.epsilon, args.factor, args.blend, args.keep);
    const activation::Parameters& a = args.activation;
    if (p.activation != activation::Mode::kPassthru)
      line += fmt::format(" --activ_alpha {} --activ_beta {} --activ_gamma {}", a.alpha, a.beta, a.gamma);
    return line;
  });
  batch_norm::run(capi::deref(handle), p, args);
}

/// Both pointers, or none if either is null.
template <class T>
void set_pair(T*& first, T*& second, T* a, T* b) {
  first = a && b ? a : nullptr;
  second = a && b ? b : nullptr;
}

struct Forward {
  miopenHandle_t handle;
  miopenBatchNormMode_t mode;
  const void *alpha, *beta;
  miopenTensorDescriptor_t x_desc;
  const void* x;
  miopenTensorDescriptor_t y_desc;
  void* y;
  Parameters parameters;
  const void *scale, *bias;
  miopenActivationDescriptor_t activation = nullptr;
};

Problem start(const Forward& f, Direction direction, Problem::Args& args) {
  Problem p = problem_of(direction, f.mode, described(f.x_desc, "x"), described(f.y_desc, "y"));
  args.x = not_null(f.x, "the buffer of x");
  args.out = not_null(f.y, "the buffer of y");
  args.scale = not_null(f.scale, "the buffer of the scale");
  args.bias = not_null(f.bias, "the buffer of the bias");
  args.blend = number(f.alpha, "alpha");
  args.keep = number(f.beta, "beta");
  set_parameters(p, f.parameters);
  set_activation(p, args, f.activation);
  return p;
}

struct Running {
  const void *mean, *variance;
  void *next_mean, *next_variance;
};

miopenStatus_t train(const Forward& f, double factor, const Running& running, double epsilon, void* saved_mean,
                     void* saved_inverse, const char* function) {
  return guard([&] {
    Problem::Args args;
    const Problem p = start(f, Direction::kTraining, args);
    args.factor = factor;
    args.epsilon = epsilon;
    set_pair(args.next_mean, args.next_variance, running.next_mean, running.next_variance);
    set_pair(args.saved_mean, args.saved_inverse, saved_mean, saved_inverse);
    if (args.next_mean) {
      args.mean = not_null(running.mean, "the buffer of the previous running mean");
      args.variance = not_null(running.variance, "the buffer of the previous running variance");
    }
    run(f.handle, p, args, function);
  });
}

/// Without moments, those of x: training that keeps none.
miopenStatus_t infer(const Forward& f, const void* mean, const void* variance, bool inverse, double epsilon,
                     const char* function) {
  return guard([&] {
    Problem::Args args;
    const bool given = mean && variance;
    const Problem p = start(f, given ? Direction::kInference : Direction::kTraining, args);
    set_pair(args.mean, args.variance, mean, variance);
    args.inverse = inverse;
    args.epsilon = epsilon;
    run(f.handle, p, args, function);
  });
}

struct Backward {
  miopenHandle_t handle;
  miopenBatchNormMode_t mode;
  const void *alpha, *beta, *parameter_alpha, *parameter_beta;
  miopenTensorDescriptor_t x_desc;
  const void* x;
  miopenTensorDescriptor_t dy_desc;
  const void* dy;
  miopenTensorDescriptor_t dx_desc;
  void* dx;
  Parameters parameters;
  const void *scale, *bias;
  void *dscale, *dbias;
  double epsilon;
  const void *saved_mean, *saved_inverse;
  miopenActivationDescriptor_t activation = nullptr;
};

miopenStatus_t differentiate(const Backward& b, const char* function) {
  return guard([&] {
    Problem p = problem_of(Direction::kBackward, b.mode, described(b.x_desc, "x"), described(b.dx_desc, "dx"));
    p.dy = described(b.dy_desc, "dy");
    Problem::Args args;
    args.x = not_null(b.x, "the buffer of x");
    args.dy = not_null(b.dy, "the buffer of dy");
    args.out = not_null(b.dx, "the buffer of dx");
    args.scale = not_null(b.scale, "the buffer of the scale");
    args.bias = b.bias;
    args.dscale = b.dscale;
    args.dbias = b.dbias;
    args.epsilon = b.epsilon;
    args.blend = number(b.alpha, "alphaDataDiff");
    args.keep = number(b.beta, "betaDataDiff");
    args.parameter_blend = number(b.parameter_alpha, "alphaParamDiff");
    args.parameter_keep = number(b.parameter_beta, "betaParamDiff");
    set_pair(args.mean, args.variance, b.saved_mean, b.saved_inverse);
    set_parameters(p, b.parameters);
    set_activation(p, args, b.activation);
    if (p.activation != activation::Mode::kPassthru) not_null(b.bias, "the buffer of the bias");
    run(b.handle, p, args, function);
  });
}

constexpr double kEpsilonOfMissingMoments = 1e-5;

}  // namespace

miopenStatus_t miopenDeriveBNTensorDescriptor(miopenTensorDescriptor_t derivedBnDesc,
                                              const miopenTensorDescriptor_t xDesc, miopenBatchNormMode_t bn_mode) {
  return guard([&] {
    TensorDesc& derived = capi::deref(derivedBnDesc);
    const TensorDesc& x = described(xDesc, "x");
    const auto mode = static_cast<batch_norm::Mode>(bn_mode);
    require(mode == batch_norm::Mode::kPerActivation || mode == batch_norm::Mode::kSpatial,
            "batch norm mode {} is unknown: allowed are 0 (per activation) and 1 (spatial)", static_cast<int>(mode));
    require(x.rank == 4 || x.rank == 5, "x has rank {}: 4 and 5 are allowed", x.rank);
    derived = batch_norm::parameters_of(x, mode);
    capi::checked<capi::TensorObject>(derivedBnDesc).layout.reset();
  });
}

miopenStatus_t miopenBatchNormalizationForwardTraining(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, void* alpha, void* beta, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenTensorDescriptor_t yDesc, void* y, const miopenTensorDescriptor_t bnScaleBiasMeanVarDesc,
    void* bnScale, void* bnBias, double expAvgFactor, void* resultRunningMean, void* resultRunningVariance,
    double epsilon, void* resultSaveMean, void* resultSaveInvVariance) {
  return train({handle, bn_mode, alpha, beta, xDesc, x, yDesc, y, one(bnScaleBiasMeanVarDesc), bnScale, bnBias},
               expAvgFactor, {resultRunningMean, resultRunningVariance, resultRunningMean, resultRunningVariance},
               epsilon, resultSaveMean, resultSaveInvVariance, "miopenBatchNormalizationForwardTraining");
}

miopenStatus_t miopenBatchNormalizationForwardTraining_V2(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, void* alpha, void* beta, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenTensorDescriptor_t yDesc, void* y, const miopenTensorDescriptor_t scaleDesc,
    const miopenTensorDescriptor_t biasVarDesc, const miopenTensorDescriptor_t savedMeanDesc,
    const miopenTensorDescriptor_t savedVarDesc, void* bnScale, void* bnBias, double expAvgFactor,
    void* resultRunningMean, void* resultRunningVariance, double epsilon, void* resultSaveMean,
    void* resultSaveInvVariance) {
  return train({handle,
                bn_mode,
                alpha,
                beta,
                xDesc,
                x,
                yDesc,
                y,
                {scaleDesc, biasVarDesc, savedMeanDesc, savedVarDesc},
                bnScale,
                bnBias},
               expAvgFactor, {resultRunningMean, resultRunningVariance, resultRunningMean, resultRunningVariance},
               epsilon, resultSaveMean, resultSaveInvVariance, "miopenBatchNormalizationForwardTraining_V2");
}

miopenStatus_t miopenBatchNormalizationForwardInference(miopenHandle_t handle, miopenBatchNormMode_t bn_mode,
                                                        void* alpha, void* beta, const miopenTensorDescriptor_t xDesc,
                                                        const void* x, const miopenTensorDescriptor_t yDesc, void* y,
                                                        const miopenTensorDescriptor_t bnScaleBiasMeanVarDesc,
                                                        void* bnScale, void* bnBias, void* estimatedMean,
                                                        void* estimatedVariance, double epsilon) {
  return infer({handle, bn_mode, alpha, beta, xDesc, x, yDesc, y, one(bnScaleBiasMeanVarDesc), bnScale, bnBias},
               estimatedMean, estimatedVariance, false, epsilon, "miopenBatchNormalizationForwardInference");
}

miopenStatus_t miopenBatchNormalizationForwardInference_V2(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, void* alpha, void* beta, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenTensorDescriptor_t yDesc, void* y, const miopenTensorDescriptor_t scaleDesc,
    const miopenTensorDescriptor_t biasDesc, const miopenTensorDescriptor_t estMeanDesc,
    const miopenTensorDescriptor_t estVarianceDesc, void* bnScale, void* bnBias, void* estimatedMean,
    void* estimatedVariance, double epsilon) {
  return infer({handle,
                bn_mode,
                alpha,
                beta,
                xDesc,
                x,
                yDesc,
                y,
                {scaleDesc, biasDesc, estMeanDesc, estVarianceDesc},
                bnScale,
                bnBias},
               estimatedMean, estimatedVariance, false, epsilon, "miopenBatchNormalizationForwardInference_V2");
}

miopenStatus_t miopenBatchNormalizationBackward(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, const void* alphaDataDiff, const void* betaDataDiff,
    const void* alphaParamDiff, const void* betaParamDiff, const miopenTensorDescriptor_t xDesc, const void* x,
    const miopenTensorDescriptor_t dyDesc, const void* dy, const miopenTensorDescriptor_t dxDesc, void* dx,
    const miopenTensorDescriptor_t bnScaleBiasDiffDesc, const void* bnScale, void* resultBnScaleDiff,
    void* resultBnBiasDiff, double epsilon, const void* savedMean, const void* savedInvVariance) {
  return differentiate({handle,
                        bn_mode,
                        alphaDataDiff,
                        betaDataDiff,
                        alphaParamDiff,
                        betaParamDiff,
                        xDesc,
                        x,
                        dyDesc,
                        dy,
                        dxDesc,
                        dx,
                        one(bnScaleBiasDiffDesc),
                        bnScale,
                        nullptr,
                        resultBnScaleDiff,
                        resultBnBiasDiff,
                        epsilon,
                        savedMean,
                        savedInvVariance},
                       "miopenBatchNormalizationBackward");
}

miopenStatus_t miopenBatchNormalizationBackward_V2(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, const void* alphaDataDiff, const void* betaDataDiff,
    const void* alphaParamDiff, const void* betaParamDiff, const miopenTensorDescriptor_t xDesc, const void* x,
    const miopenTensorDescriptor_t dyDesc, const void* dy, const miopenTensorDescriptor_t dxDesc, void* dx,
    const miopenTensorDescriptor_t scaleDesc, const miopenTensorDescriptor_t biasDesc,
    const miopenTensorDescriptor_t savedMeanDesc, const miopenTensorDescriptor_t savedVarDesc, const void* bnScale,
    void* resultBnScaleDiff, void* resultBnBiasDiff, double epsilon, const void* savedMean,
    const void* savedInvVariance) {
  return differentiate({handle,
                        bn_mode,
                        alphaDataDiff,
                        betaDataDiff,
                        alphaParamDiff,
                        betaParamDiff,
                        xDesc,
                        x,
                        dyDesc,
                        dy,
                        dxDesc,
                        dx,
                        {scaleDesc, biasDesc, savedMeanDesc, savedVarDesc},
                        bnScale,
                        nullptr,
                        resultBnScaleDiff,
                        resultBnBiasDiff,
                        epsilon,
                        savedMean,
                        savedInvVariance},
                       "miopenBatchNormalizationBackward_V2");
}

miopenStatus_t miopenBatchNormalizationForwardTraining_V3(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, void* alpha, void* beta, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenTensorDescriptor_t yDesc, void* y, const miopenTensorDescriptor_t scaleDesc,
    const miopenTensorDescriptor_t biasVarDesc, const miopenTensorDescriptor_t savedMeanDesc,
    const miopenTensorDescriptor_t savedVarDesc, void* bnScale, void* bnBias, double expAvgFactor,
    const void* prevResultRunningMean, const void* prevResultRunningVariance, void* nextResultRunningMean,
    void* nextResultRunningVariance, double epsilon, void* resultSaveMean, void* resultSaveInvVariance) {
  return train({handle,
                bn_mode,
                alpha,
                beta,
                xDesc,
                x,
                yDesc,
                y,
                {scaleDesc, biasVarDesc, savedMeanDesc, savedVarDesc},
                bnScale,
                bnBias},
               expAvgFactor,
               {prevResultRunningMean, prevResultRunningVariance, nextResultRunningMean, nextResultRunningVariance},
               epsilon, resultSaveMean, resultSaveInvVariance, "miopenBatchNormalizationForwardTraining_V3");
}

miopenStatus_t miopenBatchNormForwardTrainingActivation(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, void* alpha, void* beta, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenTensorDescriptor_t yDesc, void* y, const miopenTensorDescriptor_t scaleDesc,
    const miopenTensorDescriptor_t biasVarDesc, const miopenTensorDescriptor_t savedMeanDesc,
    const miopenTensorDescriptor_t savedVarDesc, void* bnScale, void* bnBias, double expAvgFactor,
    void* resultRunningMean, void* resultRunningVariance, double epsilon, void* resultSaveMean,
    void* resultSaveInvVariance, const miopenActivationDescriptor_t activDesc) {
  return train({handle,
                bn_mode,
                alpha,
                beta,
                xDesc,
                x,
                yDesc,
                y,
                {scaleDesc, biasVarDesc, savedMeanDesc, savedVarDesc},
                bnScale,
                bnBias,
                activDesc},
               expAvgFactor, {resultRunningMean, resultRunningVariance, resultRunningMean, resultRunningVariance},
               epsilon, resultSaveMean, resultSaveInvVariance, "miopenBatchNormForwardTrainingActivation");
}

miopenStatus_t miopenBatchNormForwardTrainingActivation_V2(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, void* alpha, void* beta, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenTensorDescriptor_t yDesc, void* y, const miopenTensorDescriptor_t scaleDesc,
    const miopenTensorDescriptor_t biasVarDesc, const miopenTensorDescriptor_t savedMeanDesc,
    const miopenTensorDescriptor_t savedVarDesc, void* bnScale, void* bnBias, double expAvgFactor,
    const void* prevResultRunningMean, const void* prevResultRunningVariance, void* nextResultRunningMean,
    void* nextResultRunningVariance, double epsilon, void* resultSaveMean, void* resultSaveInvVariance,
    const miopenActivationDescriptor_t activDesc) {
  return train({handle,
                bn_mode,
                alpha,
                beta,
                xDesc,
                x,
                yDesc,
                y,
                {scaleDesc, biasVarDesc, savedMeanDesc, savedVarDesc},
                bnScale,
                bnBias,
                activDesc},
               expAvgFactor,
               {prevResultRunningMean, prevResultRunningVariance, nextResultRunningMean, nextResultRunningVariance},
               epsilon, resultSaveMean, resultSaveInvVariance, "miopenBatchNormForwardTrainingActivation_V2");
}

miopenStatus_t miopenBatchNormalizationForwardInferenceInvVariance(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, void* alpha, void* beta, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenTensorDescriptor_t yDesc, void* y, const miopenTensorDescriptor_t scaleDesc,
    const miopenTensorDescriptor_t biasDesc, const miopenTensorDescriptor_t estMeanDesc,
    const miopenTensorDescriptor_t estInvVarianceDesc, void* bnScale, void* bnBias, void* estimatedMean,
    void* estimatedInvVariance) {
  return infer({handle,
                bn_mode,
                alpha,
                beta,
                xDesc,
                x,
                yDesc,
                y,
                {scaleDesc, biasDesc, estMeanDesc, estInvVarianceDesc},
                bnScale,
                bnBias},
               estimatedMean, estimatedInvVariance, true, kEpsilonOfMissingMoments,
               "miopenBatchNormalizationForwardInferenceInvVariance");
}

miopenStatus_t miopenBatchNormForwardInferenceActivationInvVariance(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, void* alpha, void* beta, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenTensorDescriptor_t yDesc, void* y, const miopenTensorDescriptor_t scaleDesc,
    const miopenTensorDescriptor_t biasDesc, const miopenTensorDescriptor_t estMeanDesc,
    const miopenTensorDescriptor_t estInvVarianceDesc, void* bnScale, void* bnBias, void* estimatedMean,
    void* estimatedInvVariance, const miopenActivationDescriptor_t activDesc) {
  return infer({handle,
                bn_mode,
                alpha,
                beta,
                xDesc,
                x,
                yDesc,
                y,
                {scaleDesc, biasDesc, estMeanDesc, estInvVarianceDesc},
                bnScale,
                bnBias,
                activDesc},
               estimatedMean, estimatedInvVariance, true, kEpsilonOfMissingMoments,
               "miopenBatchNormForwardInferenceActivationInvVariance");
}

miopenStatus_t miopenBatchNormForwardInferenceActivation(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, void* alpha, void* beta, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenTensorDescriptor_t yDesc, void* y, const miopenTensorDescriptor_t scaleDesc,
    const miopenTensorDescriptor_t biasDesc, const miopenTensorDescriptor_t estMeanDesc,
    const miopenTensorDescriptor_t estVarianceDesc, void* bnScale, void* bnBias, void* estimatedMean,
    void* estimatedVariance, double epsilon, const miopenActivationDescriptor_t activDesc) {
  return infer({handle,
                bn_mode,
                alpha,
                beta,
                xDesc,
                x,
                yDesc,
                y,
                {scaleDesc, biasDesc, estMeanDesc, estVarianceDesc},
                bnScale,
                bnBias,
                activDesc},
               estimatedMean, estimatedVariance, false, epsilon, "miopenBatchNormForwardInferenceActivation");
}

miopenStatus_t miopenBatchNormBackwardActivation(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, const void* alphaDataDiff, const void* betaDataDiff,
    const void* alphaParamDiff, const void* betaParamDiff, const miopenTensorDescriptor_t xDesc, const void* x,
    const miopenTensorDescriptor_t dyDesc, const void* dy, const miopenTensorDescriptor_t dxDesc, void* dx,
    const miopenTensorDescriptor_t scaleDesc, const miopenTensorDescriptor_t biasDesc,
    const miopenTensorDescriptor_t savedMeanDesc, const miopenTensorDescriptor_t savedVarianceDesc, const void* bnScale,
    const void* bnBias, void* resultBnScaleDiff, void* resultBnBiasDiff, double epsilon, const void* savedMean,
    const void* savedInvVariance, const miopenActivationDescriptor_t activDesc) {
  return differentiate({handle,
                        bn_mode,
                        alphaDataDiff,
                        betaDataDiff,
                        alphaParamDiff,
                        betaParamDiff,
                        xDesc,
                        x,
                        dyDesc,
                        dy,
                        dxDesc,
                        dx,
                        {scaleDesc, biasDesc, savedMeanDesc, savedVarianceDesc},
                        bnScale,
                        bnBias,
                        resultBnScaleDiff,
                        resultBnBiasDiff,
                        epsilon,
                        savedMean,
                        savedInvVariance,
                        activDesc},
                       "miopenBatchNormBackwardActivation");
}
