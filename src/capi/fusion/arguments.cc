// Arguments of the operations of a fusion plan.
// SPDX-License-Identifier: MIT
#include <algorithm>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/fusion/plan.h"

using namespace polymio;
using capi::deref;
using capi::guard;
using capi::not_null;
using capi::OperatorArgsObject;
using capi::OpKind;

namespace {

/// Of a backward batch norm without saved moments.
constexpr double kEpsilonOfMissingMoments = 1e-5;

/// The empty arguments for an operation of this kind.
fusion::Args& take(miopenOperatorArgs_t args, miopenFusionOpDescriptor_t descriptor, OpKind kind) {
  OperatorArgsObject& all = deref(args);
  const capi::FusionOpObject& op = deref(descriptor);
  if (op.kind != kind)
    fail(Status::kUnknownError, "the operation is {}, these are arguments of {}", capi::name_of(op.kind),
         capi::name_of(kind));
  if (all.kinds.size() <= op.index) {
    all.kinds.resize(op.index + 1, OpKind::kNone);
    all.args.resize(op.index + 1);
  }
  all.kinds[op.index] = kind;
  return all.args[op.index] = {};
}

/// Both pointers, or none if either is null.
template <class T>
void set_pair(T*& first, T*& second, T* a, T* b) {
  first = a && b ? a : nullptr;
  second = a && b ? b : nullptr;
}

}  // namespace

miopenStatus_t miopenCreateOperatorArgs(miopenOperatorArgs_t* args) {
  return guard([&] {
    *not_null(args, "args") = nullptr;
    *args = new OperatorArgsObject;
  });
}

miopenStatus_t miopenDestroyOperatorArgs(miopenOperatorArgs_t args) {
  return guard([&] { delete &deref(args); });
}

miopenStatus_t miopenSetOpArgsConvForward(miopenOperatorArgs_t args, const miopenFusionOpDescriptor_t convOp,
                                          const void* alpha, const void* beta, const void* w) {
  return guard([&] {
    const float scale = alpha ? *static_cast<const float*>(alpha) : 1,
                keep = beta ? *static_cast<const float*>(beta) : 0;
    require(scale == 1 && keep == 0, "alpha is {}, beta is {}: a fused convolution takes 1 and 0", scale, keep);
    take(args, convOp, OpKind::kConvolution).w = w;
  });
}

miopenStatus_t miopenSetOpArgsActivForward(miopenOperatorArgs_t args, const miopenFusionOpDescriptor_t activFwdOp,
                                           const void*, const void*, double activAlpha, double activBeta,
                                           double activGamma) {
  return guard([&] { take(args, activFwdOp, OpKind::kActivation).activation = {activAlpha, activBeta, activGamma}; });
}

miopenStatus_t miopenSetOpArgsActivBackward(miopenOperatorArgs_t args, const miopenFusionOpDescriptor_t activBwdOp,
                                            const void*, const void*, const void* y, const void*, double activAlpha,
                                            double activBeta, double activGamma) {
  return guard([&] {
    fusion::Args& a = take(args, activBwdOp, OpKind::kActivationBackward);
    a.y = y;
    a.activation = {activAlpha, activBeta, activGamma};
  });
}

miopenStatus_t miopenSetOpArgsBatchNormInference(miopenOperatorArgs_t args, const miopenFusionOpDescriptor_t bnOp,
                                                 const void*, const void*, const void* bnScale, const void* bnBias,
                                                 const void* estimatedMean, const void* estimatedVariance,
                                                 double epsilon) {
  return guard([&] {
    auto& norm = take(args, bnOp, OpKind::kNormInference).norm;
    norm.scale = bnScale;
    norm.bias = bnBias;
    norm.mean = estimatedMean;
    norm.variance = estimatedVariance;
    norm.epsilon = epsilon;
  });
}

miopenStatus_t miopenSetOpArgsBatchNormForward(miopenOperatorArgs_t args, const miopenFusionOpDescriptor_t bnOp,
                                               const void*, const void*, const void* bnScale, const void* bnBias,
                                               void* savedMean, void* savedInvVariance, void* runningMean,
                                               void* runningVariance, double expAvgFactor, double epsilon) {
  return guard([&] {
    const bool updates = deref(bnOp).updates_running_moments;
    if (updates) {
      not_null(runningMean, "runningMean");
      not_null(runningVariance, "runningVariance");
    }
    auto& norm = take(args, bnOp, OpKind::kNormTraining).norm;
    norm.scale = bnScale;
    norm.bias = bnBias;
    set_pair(norm.saved_mean, norm.saved_inverse, savedMean, savedInvVariance);
    if (updates) {
      norm.mean = norm.next_mean = runningMean;
      norm.variance = norm.next_variance = runningVariance;
    }
    norm.factor = expAvgFactor;
    norm.epsilon = epsilon;
  });
}

miopenStatus_t miopenSetOpArgsBatchNormBackward(miopenOperatorArgs_t args, const miopenFusionOpDescriptor_t bnOp,
                                                const void*, const void*, const void* x, const void* bnScale,
                                                const void* bnBias, void* resultBnScaleDiff, void* resultBnBiasDiff,
                                                const void* savedMean, const void* savedInvVariance) {
  return guard([&] {
    auto& norm = take(args, bnOp, OpKind::kNormBackward).norm;
    norm.x = x;
    norm.scale = bnScale;
    norm.bias = bnBias;
    norm.dscale = resultBnScaleDiff;
    norm.dbias = resultBnBiasDiff;
    norm.epsilon = kEpsilonOfMissingMoments;
    set_pair(norm.mean, norm.variance, savedMean, savedInvVariance);
  });
}

miopenStatus_t miopenSetOpArgsBiasForward(miopenOperatorArgs_t args, const miopenFusionOpDescriptor_t biasOp,
                                          const void*, const void*, const void* bias) {
  return guard([&] { take(args, biasOp, OpKind::kBias).bias = bias; });
}
