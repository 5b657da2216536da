// Recurrent networks: every function answers that it is not implemented.
// SPDX-License-Identifier: MIT
#include <miopen/rnn.h>

#include "capi/guard.h"

using polymio::capi::not_implemented;

miopenStatus_t miopenCreateRNNDescriptor(miopenRNNDescriptor_t*) {
  return not_implemented("miopenCreateRNNDescriptor");
}

miopenStatus_t miopenGetRNNDescriptor(miopenRNNDescriptor_t, miopenRNNMode_t*, miopenRNNAlgo_t*, miopenRNNInputMode_t*,
                                      miopenRNNDirectionMode_t*, miopenRNNBiasMode_t*, int*, int*) {
  return not_implemented("miopenGetRNNDescriptor");
}

miopenStatus_t miopenGetRNNDescriptor_V2(miopenRNNDescriptor_t, int*, int*, miopenDropoutDescriptor_t*,
                                         miopenRNNInputMode_t*, miopenRNNDirectionMode_t*, miopenRNNMode_t*,
                                         miopenRNNBiasMode_t*, miopenRNNAlgo_t*, miopenDataType_t*) {
  return not_implemented("miopenGetRNNDescriptor_V2");
}

miopenStatus_t miopenDestroyRNNDescriptor(miopenRNNDescriptor_t) {
  return not_implemented("miopenDestroyRNNDescriptor");
}

miopenStatus_t miopenSetRNNDescriptor(miopenRNNDescriptor_t, const int, const int, miopenRNNInputMode_t,
                                      miopenRNNDirectionMode_t, miopenRNNMode_t, miopenRNNBiasMode_t, miopenRNNAlgo_t,
                                      miopenDataType_t) {
  return not_implemented("miopenSetRNNDescriptor");
}

miopenStatus_t miopenSetRNNDescriptor_V2(miopenRNNDescriptor_t, const int, const int, miopenDropoutDescriptor_t,
                                         miopenRNNInputMode_t, miopenRNNDirectionMode_t, miopenRNNMode_t,
                                         miopenRNNBiasMode_t, miopenRNNAlgo_t, miopenDataType_t) {
  return not_implemented("miopenSetRNNDescriptor_V2");
}

miopenStatus_t miopenSetRNNDataSeqTensorDescriptor(miopenSeqTensorDescriptor_t, miopenDataType_t, miopenRNNBaseLayout_t,
                                                   int, int, int, const int*, void*) {
  return not_implemented("miopenSetRNNDataSeqTensorDescriptor");
}

miopenStatus_t miopenGetRNNDataSeqTensorDescriptor(miopenSeqTensorDescriptor_t, miopenDataType_t*,
                                                   miopenRNNBaseLayout_t*, int*, int*, int*, int, int*, void*) {
  return not_implemented("miopenGetRNNDataSeqTensorDescriptor");
}

miopenStatus_t miopenGetRNNWorkspaceSize(miopenHandle_t, const miopenRNNDescriptor_t, const int,
                                         const miopenTensorDescriptor_t*, size_t*) {
  return not_implemented("miopenGetRNNWorkspaceSize");
}

miopenStatus_t miopenGetRNNTrainingReserveSize(miopenHandle_t, miopenRNNDescriptor_t, const int,
                                               const miopenTensorDescriptor_t*, size_t*) {
  return not_implemented("miopenGetRNNTrainingReserveSize");
}

miopenStatus_t miopenGetRNNTempSpaceSizes(miopenHandle_t, miopenRNNDescriptor_t, miopenSeqTensorDescriptor_t,
                                          miopenRNNFWDMode_t, size_t*, size_t*) {
  return not_implemented("miopenGetRNNTempSpaceSizes");
}

miopenStatus_t miopenGetRNNParamsSize(miopenHandle_t, miopenRNNDescriptor_t, miopenTensorDescriptor_t, size_t*,
                                      miopenDataType_t) {
  return not_implemented("miopenGetRNNParamsSize");
}

miopenStatus_t miopenGetRNNParamsDescriptor(miopenHandle_t, miopenRNNDescriptor_t, miopenTensorDescriptor_t,
                                            miopenTensorDescriptor_t, miopenDataType_t) {
  return not_implemented("miopenGetRNNParamsDescriptor");
}

miopenStatus_t miopenGetRNNInputTensorSize(miopenHandle_t, miopenRNNDescriptor_t, const int, miopenTensorDescriptor_t*,
                                           size_t*) {
  return not_implemented("miopenGetRNNInputTensorSize");
}

miopenStatus_t miopenGetRNNHiddenTensorSize(miopenHandle_t, miopenRNNDescriptor_t, const int, miopenTensorDescriptor_t*,
                                            size_t*) {
  return not_implemented("miopenGetRNNHiddenTensorSize");
}

miopenStatus_t miopenGetRNNLayerParamSize(miopenHandle_t, miopenRNNDescriptor_t, const int, miopenTensorDescriptor_t,
                                          const int, size_t*) {
  return not_implemented("miopenGetRNNLayerParamSize");
}

miopenStatus_t miopenGetRNNLayerBiasSize(miopenHandle_t, miopenRNNDescriptor_t, const int, const int, size_t*) {
  return not_implemented("miopenGetRNNLayerBiasSize");
}

miopenStatus_t miopenGetRNNLayerParam(miopenHandle_t, miopenRNNDescriptor_t, const int, miopenTensorDescriptor_t,
                                      miopenTensorDescriptor_t, const void*, const int, miopenTensorDescriptor_t,
                                      void*) {
  return not_implemented("miopenGetRNNLayerParam");
}

miopenStatus_t miopenGetRNNLayerBias(miopenHandle_t, miopenRNNDescriptor_t, const int, miopenTensorDescriptor_t,
                                     miopenTensorDescriptor_t, const void*, const int, miopenTensorDescriptor_t,
                                     void*) {
  return not_implemented("miopenGetRNNLayerBias");
}

miopenStatus_t miopenGetRNNLayerParamOffset(miopenRNNDescriptor_t, const int, miopenTensorDescriptor_t, const int,
                                            miopenTensorDescriptor_t, size_t*) {
  return not_implemented("miopenGetRNNLayerParamOffset");
}

miopenStatus_t miopenGetRNNLayerBiasOffset(miopenRNNDescriptor_t, const int, miopenTensorDescriptor_t, const int,
                                           miopenTensorDescriptor_t, size_t*) {
  return not_implemented("miopenGetRNNLayerBiasOffset");
}

miopenStatus_t miopenSetRNNLayerParam(miopenHandle_t, miopenRNNDescriptor_t, const int, miopenTensorDescriptor_t,
                                      miopenTensorDescriptor_t, void*, const int, miopenTensorDescriptor_t,
                                      const void*) {
  return not_implemented("miopenSetRNNLayerParam");
}

miopenStatus_t miopenSetRNNLayerBias(miopenHandle_t, miopenRNNDescriptor_t, const int, miopenTensorDescriptor_t,
                                     miopenTensorDescriptor_t, void*, const int, miopenTensorDescriptor_t,
                                     const void*) {
  return not_implemented("miopenSetRNNLayerBias");
}

miopenStatus_t miopenSetRNNPaddingMode(miopenRNNDescriptor_t, miopenRNNPaddingMode_t) {
  return not_implemented("miopenSetRNNPaddingMode");
}

miopenStatus_t miopenGetRNNPaddingMode(miopenRNNDescriptor_t, miopenRNNPaddingMode_t*) {
  return not_implemented("miopenGetRNNPaddingMode");
}

miopenStatus_t miopenRNNForward(miopenHandle_t, const miopenRNNDescriptor_t, miopenRNNFWDMode_t,
                                const miopenSeqTensorDescriptor_t, const void*, const miopenTensorDescriptor_t,
                                const void*, void*, const miopenTensorDescriptor_t, const void*, void*,
                                const miopenSeqTensorDescriptor_t, void*, const void*, size_t, void*, size_t, void*,
                                size_t) {
  return not_implemented("miopenRNNForward");
}

miopenStatus_t miopenRNNBackwardSeqData(miopenHandle_t, const miopenRNNDescriptor_t, const miopenSeqTensorDescriptor_t,
                                        const void*, const void*, const miopenTensorDescriptor_t, const void*,
                                        const void*, void*, const miopenTensorDescriptor_t, const void*, const void*,
                                        void*, const miopenSeqTensorDescriptor_t, void*, const void*, size_t, void*,
                                        size_t, void*, size_t) {
  return not_implemented("miopenRNNBackwardSeqData");
}

miopenStatus_t miopenRNNBackwardWeightsSeqTensor(miopenHandle_t, const miopenRNNDescriptor_t,
                                                 const miopenSeqTensorDescriptor_t, const void*,
                                                 const miopenTensorDescriptor_t, const void*,
                                                 const miopenSeqTensorDescriptor_t, const void*, void*, size_t, void*,
                                                 size_t, const void*, size_t) {
  return not_implemented("miopenRNNBackwardWeightsSeqTensor");
}

miopenStatus_t miopenRNNForwardTraining(miopenHandle_t, const miopenRNNDescriptor_t, const int,
                                        const miopenTensorDescriptor_t*, const void*, const miopenTensorDescriptor_t,
                                        const void*, const miopenTensorDescriptor_t, const void*,
                                        const miopenTensorDescriptor_t, const void*, const miopenTensorDescriptor_t*,
                                        void*, const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t,
                                        void*, void*, size_t, void*, size_t) {
  return not_implemented("miopenRNNForwardTraining");
}

miopenStatus_t miopenRNNBackwardData(miopenHandle_t, const miopenRNNDescriptor_t, const int,
                                     const miopenTensorDescriptor_t*, const void*, const miopenTensorDescriptor_t*,
                                     const void*, const miopenTensorDescriptor_t, const void*,
                                     const miopenTensorDescriptor_t, const void*, const miopenTensorDescriptor_t,
                                     const void*, const miopenTensorDescriptor_t, const void*,
                                     const miopenTensorDescriptor_t, const void*, const miopenTensorDescriptor_t*,
                                     void*, const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t,
                                     void*, void*, size_t, void*, size_t) {
  return not_implemented("miopenRNNBackwardData");
}

miopenStatus_t miopenRNNBackwardWeights(miopenHandle_t, const miopenRNNDescriptor_t, const int,
                                        const miopenTensorDescriptor_t*, const void*, const miopenTensorDescriptor_t,
                                        const void*, const miopenTensorDescriptor_t*, const void*,
                                        const miopenTensorDescriptor_t, void*, void*, size_t, const void*, size_t) {
  return not_implemented("miopenRNNBackwardWeights");
}

miopenStatus_t miopenRNNForwardInference(miopenHandle_t, miopenRNNDescriptor_t, const int,
                                         const miopenTensorDescriptor_t*, const void*, const miopenTensorDescriptor_t,
                                         const void*, const miopenTensorDescriptor_t, const void*,
                                         const miopenTensorDescriptor_t, const void*, const miopenTensorDescriptor_t*,
                                         void*, const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t,
                                         void*, void*, size_t) {
  return not_implemented("miopenRNNForwardInference");
}
