// The API fuzzer's calls of functions whose primitives do not exist: any arguments give NotImplemented.
// SPDX-License-Identifier: MIT
#include <type_traits>

#include "fuzz/api.h"

namespace polymio::fuzz {
namespace {

/// Any value, null or an address: unimplemented functions do not dereference their arguments.
template <class T>
T any(World& w) {
  if constexpr (std::is_pointer_v<T> && std::is_function_v<std::remove_pointer_t<T>>) {
    return nullptr;
  } else if constexpr (std::is_pointer_v<T>) {
    static std::array<unsigned char, 256> memory;
    void* const choices[] = {nullptr, memory.data(), memory.data() + 1, w.live(Kind::kTensor),
                             w.no_object(Kind::kTensor)};
    return static_cast<T>(choices[w.random.below(std::size(choices))]);
  } else if constexpr (std::is_same_v<T, bool>) {
    return w.random.one_in(2);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(w.random.pick({0.0, 1.0, -1e30, __builtin_nan("")}));
  } else if constexpr (std::is_enum_v<T>) {
    const int number = w.random.pick({0, 1, 7, -1, INT_MAX});
    T value{};
    std::memcpy(&value, &number, sizeof value);
    return value;
  } else {
    static_assert(std::is_integral_v<T>);
    return static_cast<T>(w.random.pick({0, 1, 3, -1, INT_MAX, INT_MIN}));
  }
}

template <class... Arguments>
Status call(World& w, Status (*function)(Arguments...)) {
  return function(any<std::remove_const_t<Arguments>>(w)...);
}

template <auto kFunction>
void missing(World& w) {
  Draw d(w);
  d.refuse({miopenStatusNotImplemented});
  d.check(call(w, kFunction));
}

Registration g_entries[] = {
    {"miopenAddLayerNormForward", missing<miopenAddLayerNormForward>, false},
    {"miopenBackendCreateDescriptor", missing<miopenBackendCreateDescriptor>, false},
    {"miopenBackendDestroyDescriptor", missing<miopenBackendDestroyDescriptor>, false},
    {"miopenBackendExecute", missing<miopenBackendExecute>, false},
    {"miopenBackendFinalize", missing<miopenBackendFinalize>, false},
    {"miopenBackendGetAttribute", missing<miopenBackendGetAttribute>, false},
    {"miopenBackendInitialize", missing<miopenBackendInitialize>, false},
    {"miopenBackendSetAttribute", missing<miopenBackendSetAttribute>, false},
    {"miopenBatchNormBackwardActivation", missing<miopenBatchNormBackwardActivation>, false},
    {"miopenBatchNormForwardInferenceActivation", missing<miopenBatchNormForwardInferenceActivation>, false},
    {"miopenBatchNormForwardInferenceActivationInvVariance",
     missing<miopenBatchNormForwardInferenceActivationInvVariance>, false},
    {"miopenBatchNormForwardTrainingActivation", missing<miopenBatchNormForwardTrainingActivation>, false},
    {"miopenBatchNormForwardTrainingActivation_V2", missing<miopenBatchNormForwardTrainingActivation_V2>, false},
    {"miopenBatchNormalizationBackward", missing<miopenBatchNormalizationBackward>, false},
    {"miopenBatchNormalizationBackward_V2", missing<miopenBatchNormalizationBackward_V2>, false},
    {"miopenBatchNormalizationForwardInference", missing<miopenBatchNormalizationForwardInference>, false},
    {"miopenBatchNormalizationForwardInferenceInvVariance",
     missing<miopenBatchNormalizationForwardInferenceInvVariance>, false},
    {"miopenBatchNormalizationForwardInference_V2", missing<miopenBatchNormalizationForwardInference_V2>, false},
    {"miopenBatchNormalizationForwardTraining", missing<miopenBatchNormalizationForwardTraining>, false},
    {"miopenBatchNormalizationForwardTraining_V2", missing<miopenBatchNormalizationForwardTraining_V2>, false},
    {"miopenBatchNormalizationForwardTraining_V3", missing<miopenBatchNormalizationForwardTraining_V3>, false},
    {"miopenCTCLoss", missing<miopenCTCLoss>, false},
    {"miopenCatForward", missing<miopenCatForward>, false},
    {"miopenCompileFusionPlan", missing<miopenCompileFusionPlan>, false},
    {"miopenConvolutionBiasActivationForward", missing<miopenConvolutionBiasActivationForward>, false},
    {"miopenCreateBatchnormProblem", missing<miopenCreateBatchnormProblem>, false},
    {"miopenCreateCTCLossDescriptor", missing<miopenCreateCTCLossDescriptor>, false},
    {"miopenCreateDropoutDescriptor", missing<miopenCreateDropoutDescriptor>, false},
    {"miopenCreateFusionPlan", missing<miopenCreateFusionPlan>, false},
    {"miopenCreateLRNDescriptor", missing<miopenCreateLRNDescriptor>, false},
    {"miopenCreateMhaDescriptor", missing<miopenCreateMhaDescriptor>, false},
    {"miopenCreateMhaProblem", missing<miopenCreateMhaProblem>, false},
    {"miopenCreateOpActivationBackward", missing<miopenCreateOpActivationBackward>, false},
    {"miopenCreateOpActivationForward", missing<miopenCreateOpActivationForward>, false},
    {"miopenCreateOpBatchNormBackward", missing<miopenCreateOpBatchNormBackward>, false},
    {"miopenCreateOpBatchNormForward", missing<miopenCreateOpBatchNormForward>, false},
    {"miopenCreateOpBatchNormInference", missing<miopenCreateOpBatchNormInference>, false},
    {"miopenCreateOpBiasForward", missing<miopenCreateOpBiasForward>, false},
    {"miopenCreateOpConvForward", missing<miopenCreateOpConvForward>, false},
    {"miopenCreateOperatorArgs", missing<miopenCreateOperatorArgs>, false},
    {"miopenCreatePoolingDescriptor", missing<miopenCreatePoolingDescriptor>, false},
    {"miopenCreateRNNDescriptor", missing<miopenCreateRNNDescriptor>, false},
    {"miopenCreateReduceTensorDescriptor", missing<miopenCreateReduceTensorDescriptor>, false},
    {"miopenDeriveBNTensorDescriptor", missing<miopenDeriveBNTensorDescriptor>, false},
    {"miopenDestroyCTCLossDescriptor", missing<miopenDestroyCTCLossDescriptor>, false},
    {"miopenDestroyDropoutDescriptor", missing<miopenDestroyDropoutDescriptor>, false},
    {"miopenDestroyFusionPlan", missing<miopenDestroyFusionPlan>, false},
    {"miopenDestroyLRNDescriptor", missing<miopenDestroyLRNDescriptor>, false},
    {"miopenDestroyOperatorArgs", missing<miopenDestroyOperatorArgs>, false},
    {"miopenDestroyPoolingDescriptor", missing<miopenDestroyPoolingDescriptor>, false},
    {"miopenDestroyRNNDescriptor", missing<miopenDestroyRNNDescriptor>, false},
    {"miopenDestroyReduceTensorDescriptor", missing<miopenDestroyReduceTensorDescriptor>, false},
    {"miopenDropoutBackward", missing<miopenDropoutBackward>, false},
    {"miopenDropoutForward", missing<miopenDropoutForward>, false},
    {"miopenDropoutGetReserveSpaceSize", missing<miopenDropoutGetReserveSpaceSize>, false},
    {"miopenDropoutGetStatesSize", missing<miopenDropoutGetStatesSize>, false},
    {"miopenExecuteFusionPlan", missing<miopenExecuteFusionPlan>, false},
    {"miopenExecuteFusionPlan_v2", missing<miopenExecuteFusionPlan_v2>, false},
    {"miopenFusedAdam", missing<miopenFusedAdam>, false},
    {"miopenFusedAdamWithOutput", missing<miopenFusedAdamWithOutput>, false},
    {"miopenFusionPlanConvolutionGetAlgo", missing<miopenFusionPlanConvolutionGetAlgo>, false},
    {"miopenFusionPlanConvolutionSetAlgo", missing<miopenFusionPlanConvolutionSetAlgo>, false},
    {"miopenFusionPlanGetOp", missing<miopenFusionPlanGetOp>, false},
    {"miopenFusionPlanGetWorkSpaceSize", missing<miopenFusionPlanGetWorkSpaceSize>, false},
    {"miopenGet2dPoolingDescriptor", missing<miopenGet2dPoolingDescriptor>, false},
    {"miopenGetCTCLossDescriptor", missing<miopenGetCTCLossDescriptor>, false},
    {"miopenGetCTCLossWorkspaceSize", missing<miopenGetCTCLossWorkspaceSize>, false},
    {"miopenGetDropoutDescriptor", missing<miopenGetDropoutDescriptor>, false},
    {"miopenGetGetitemWorkspaceSize", missing<miopenGetGetitemWorkspaceSize>, false},
    {"miopenGetLRNDescriptor", missing<miopenGetLRNDescriptor>, false},
    {"miopenGetLayerNormBackwardWorkspaceSize", missing<miopenGetLayerNormBackwardWorkspaceSize>, false},
    {"miopenGetMhaDescriptor", missing<miopenGetMhaDescriptor>, false},
    {"miopenGetMultiMarginLossForwardWorkspaceSize", missing<miopenGetMultiMarginLossForwardWorkspaceSize>, false},
    {"miopenGetNdPoolingDescriptor", missing<miopenGetNdPoolingDescriptor>, false},
    {"miopenGetPReLUBackwardWorkspaceSize", missing<miopenGetPReLUBackwardWorkspaceSize>, false},
    {"miopenGetPoolingForwardOutputDim", missing<miopenGetPoolingForwardOutputDim>, false},
    {"miopenGetPoolingIndexType", missing<miopenGetPoolingIndexType>, false},
    {"miopenGetPoolingNdForwardOutputDim", missing<miopenGetPoolingNdForwardOutputDim>, false},
    {"miopenGetPoolingWorkSpaceIndexMode", missing<miopenGetPoolingWorkSpaceIndexMode>, false},
    {"miopenGetRNNDataSeqTensorDescriptor", missing<miopenGetRNNDataSeqTensorDescriptor>, false},
    {"miopenGetRNNDescriptor", missing<miopenGetRNNDescriptor>, false},
    {"miopenGetRNNDescriptor_V2", missing<miopenGetRNNDescriptor_V2>, false},
    {"miopenGetRNNHiddenTensorSize", missing<miopenGetRNNHiddenTensorSize>, false},
    {"miopenGetRNNInputTensorSize", missing<miopenGetRNNInputTensorSize>, false},
    {"miopenGetRNNLayerBias", missing<miopenGetRNNLayerBias>, false},
    {"miopenGetRNNLayerBiasOffset", missing<miopenGetRNNLayerBiasOffset>, false},
    {"miopenGetRNNLayerBiasSize", missing<miopenGetRNNLayerBiasSize>, false},
    {"miopenGetRNNLayerParam", missing<miopenGetRNNLayerParam>, false},
    {"miopenGetRNNLayerParamOffset", missing<miopenGetRNNLayerParamOffset>, false},
    {"miopenGetRNNLayerParamSize", missing<miopenGetRNNLayerParamSize>, false},
    {"miopenGetRNNPaddingMode", missing<miopenGetRNNPaddingMode>, false},
    {"miopenGetRNNParamsDescriptor", missing<miopenGetRNNParamsDescriptor>, false},
    {"miopenGetRNNParamsSize", missing<miopenGetRNNParamsSize>, false},
    {"miopenGetRNNTempSpaceSizes", missing<miopenGetRNNTempSpaceSizes>, false},
    {"miopenGetRNNTrainingReserveSize", missing<miopenGetRNNTrainingReserveSize>, false},
    {"miopenGetRNNWorkspaceSize", missing<miopenGetRNNWorkspaceSize>, false},
    {"miopenGetReduceCalculationWorkspaceSize", missing<miopenGetReduceCalculationWorkspaceSize>, false},
    {"miopenGetReduceTensorDescriptor", missing<miopenGetReduceTensorDescriptor>, false},
    {"miopenGetReductionIndicesSize", missing<miopenGetReductionIndicesSize>, false},
    {"miopenGetReductionWorkspaceSize", missing<miopenGetReductionWorkspaceSize>, false},
    {"miopenGetSoftMarginLossForwardWorkspaceSize", missing<miopenGetSoftMarginLossForwardWorkspaceSize>, false},
    {"miopenGetT5LayerNormBackwardWorkspaceSize", missing<miopenGetT5LayerNormBackwardWorkspaceSize>, false},
    {"miopenGetitemBackward", missing<miopenGetitemBackward>, false},
    {"miopenGroupNormForward", missing<miopenGroupNormForward>, false},
    {"miopenKthvalueForward", missing<miopenKthvalueForward>, false},
    {"miopenLRNBackward", missing<miopenLRNBackward>, false},
    {"miopenLRNForward", missing<miopenLRNForward>, false},
    {"miopenLRNGetWorkSpaceSize", missing<miopenLRNGetWorkSpaceSize>, false},
    {"miopenLayerNormBackward", missing<miopenLayerNormBackward>, false},
    {"miopenLayerNormForward", missing<miopenLayerNormForward>, false},
    {"miopenMultiMarginLossForward", missing<miopenMultiMarginLossForward>, false},
    {"miopenPReLUBackward", missing<miopenPReLUBackward>, false},
    {"miopenPoolingBackward", missing<miopenPoolingBackward>, false},
    {"miopenPoolingForward", missing<miopenPoolingForward>, false},
    {"miopenPoolingGetWorkSpaceSize", missing<miopenPoolingGetWorkSpaceSize>, false},
    {"miopenPoolingGetWorkSpaceSizeV2", missing<miopenPoolingGetWorkSpaceSizeV2>, false},
    {"miopenRNNBackwardData", missing<miopenRNNBackwardData>, false},
    {"miopenRNNBackwardSeqData", missing<miopenRNNBackwardSeqData>, false},
    {"miopenRNNBackwardWeights", missing<miopenRNNBackwardWeights>, false},
    {"miopenRNNBackwardWeightsSeqTensor", missing<miopenRNNBackwardWeightsSeqTensor>, false},
    {"miopenRNNForward", missing<miopenRNNForward>, false},
    {"miopenRNNForwardInference", missing<miopenRNNForwardInference>, false},
    {"miopenRNNForwardTraining", missing<miopenRNNForwardTraining>, false},
    {"miopenReduceCalculationForward", missing<miopenReduceCalculationForward>, false},
    {"miopenReduceExtremeForward", missing<miopenReduceExtremeForward>, false},
    {"miopenReduceTensor", missing<miopenReduceTensor>, false},
    {"miopenRestoreDropoutDescriptor", missing<miopenRestoreDropoutDescriptor>, false},
    {"miopenRoPEBackward", missing<miopenRoPEBackward>, false},
    {"miopenRoPEForward", missing<miopenRoPEForward>, false},
    {"miopenSet2dPoolingDescriptor", missing<miopenSet2dPoolingDescriptor>, false},
    {"miopenSetCTCLossDescriptor", missing<miopenSetCTCLossDescriptor>, false},
    {"miopenSetDropoutDescriptor", missing<miopenSetDropoutDescriptor>, false},
    {"miopenSetLRNDescriptor", missing<miopenSetLRNDescriptor>, false},
    {"miopenSetMhaDescriptor", missing<miopenSetMhaDescriptor>, false},
    {"miopenSetNdPoolingDescriptor", missing<miopenSetNdPoolingDescriptor>, false},
    {"miopenSetOpArgsActivBackward", missing<miopenSetOpArgsActivBackward>, false},
    {"miopenSetOpArgsActivForward", missing<miopenSetOpArgsActivForward>, false},
    {"miopenSetOpArgsBatchNormBackward", missing<miopenSetOpArgsBatchNormBackward>, false},
    {"miopenSetOpArgsBatchNormForward", missing<miopenSetOpArgsBatchNormForward>, false},
    {"miopenSetOpArgsBatchNormInference", missing<miopenSetOpArgsBatchNormInference>, false},
    {"miopenSetOpArgsBiasForward", missing<miopenSetOpArgsBiasForward>, false},
    {"miopenSetOpArgsConvForward", missing<miopenSetOpArgsConvForward>, false},
    {"miopenSetPoolingIndexType", missing<miopenSetPoolingIndexType>, false},
    {"miopenSetPoolingWorkSpaceIndexMode", missing<miopenSetPoolingWorkSpaceIndexMode>, false},
    {"miopenSetRNNDataSeqTensorDescriptor", missing<miopenSetRNNDataSeqTensorDescriptor>, false},
    {"miopenSetRNNDescriptor", missing<miopenSetRNNDescriptor>, false},
    {"miopenSetRNNDescriptor_V2", missing<miopenSetRNNDescriptor_V2>, false},
    {"miopenSetRNNLayerBias", missing<miopenSetRNNLayerBias>, false},
    {"miopenSetRNNLayerParam", missing<miopenSetRNNLayerParam>, false},
    {"miopenSetRNNPaddingMode", missing<miopenSetRNNPaddingMode>, false},
    {"miopenSetReduceTensorDescriptor", missing<miopenSetReduceTensorDescriptor>, false},
    {"miopenSoftMarginLossBackward", missing<miopenSoftMarginLossBackward>, false},
    {"miopenSoftMarginLossForward", missing<miopenSoftMarginLossForward>, false},
    {"miopenT5LayerNormBackward", missing<miopenT5LayerNormBackward>, false},
    {"miopenT5LayerNormForward", missing<miopenT5LayerNormForward>, false},
    {"miopenTransformersAdamW", missing<miopenTransformersAdamW>, false},
    {"miopenTransformersAdamWWithOutput", missing<miopenTransformersAdamWWithOutput>, false},
};

}  // namespace
}  // namespace polymio::fuzz
