// Loss functions: connectionist temporal classification (CTC), soft margin, multi margin (beta).
// CTC is not implemented yet: its functions return miopenStatusNotImplemented.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_LOSS_H_
#define MIOPEN_LOSS_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Algorithms of the CTC loss.
typedef enum {
  MIOPEN_CTC_LOSS_ALGO_DETERMINISTIC = 0,  ///< the same bits every time
} miopenCTCLossAlgo_t;

/// Creates a descriptor: blank label 0, softmax on. Free it with miopenDestroyCTCLossDescriptor.
MIOPEN_EXPORT miopenStatus_t miopenCreateCTCLossDescriptor(miopenCTCLossDescriptor_t* ctcLossDesc);

/// The values of a descriptor. Null outputs are skipped.
MIOPEN_EXPORT miopenStatus_t miopenGetCTCLossDescriptor(miopenCTCLossDescriptor_t ctcLossDesc,
                                                        miopenDataType_t* dataType, int* blank_label_id,
                                                        bool* apply_softmax_layer);

/// Frees a descriptor. BadParm if null.
MIOPEN_EXPORT miopenStatus_t miopenDestroyCTCLossDescriptor(miopenCTCLossDescriptor_t ctcLossDesc);

/// Sets the data type, the label that means "nothing", and whether a softmax is applied to the
/// inputs first.
MIOPEN_EXPORT miopenStatus_t miopenSetCTCLossDescriptor(miopenCTCLossDescriptor_t ctcLossDesc,
                                                        miopenDataType_t dataType, const int blank_label_id,
                                                        bool apply_softmax_layer);

/// Workspace bytes of miopenCTCLoss. The arrays are host memory.
MIOPEN_EXPORT miopenStatus_t miopenGetCTCLossWorkspaceSize(
    miopenHandle_t handle, const miopenTensorDescriptor_t probsDesc, const miopenTensorDescriptor_t gradientsDesc,
    const int* labels, const int* labelLengths, const int* inputLengths, miopenCTCLossAlgo_t algo,
    const miopenCTCLossDescriptor_t ctcLossDesc, size_t* workSpaceSize);

/// The loss of each sequence and, if `gradients` is not null, its gradient. `probs` and `gradients`
/// are (longest time, batch, labels). `labels` holds the labels of all sequences one after the
/// other, `labelLengths` and `inputLengths` one number per sequence; these arrays are host memory.
/// `losses` has one element per sequence.
MIOPEN_EXPORT miopenStatus_t miopenCTCLoss(miopenHandle_t handle, const miopenTensorDescriptor_t probsDesc,
                                           const void* probs, const int* labels, const int* labelLengths,
                                           const int* inputLengths, void* losses,
                                           const miopenTensorDescriptor_t gradientsDesc, void* gradients,
                                           miopenCTCLossAlgo_t algo, const miopenCTCLossDescriptor_t ctcLossDesc,
                                           void* workSpace, size_t workSpaceSize);

#ifdef MIOPEN_BETA_API
/// How the losses of the elements become the result.
typedef enum {
  MIOPEN_LOSS_REDUCTION_NONE = 0,  ///< one result for each
  MIOPEN_LOSS_REDUCTION_SUM = 1,   ///< their sum
  MIOPEN_LOSS_REDUCTION_MEAN = 2,  ///< their mean
} miopenLossReductionMode_t;

/// Workspace bytes of miopenSoftMarginLossForward; 0 without reduction.
MIOPEN_EXPORT miopenStatus_t miopenGetSoftMarginLossForwardWorkspaceSize(
    miopenHandle_t handle, miopenTensorDescriptor_t inputDesc, miopenTensorDescriptor_t targetDesc,
    miopenTensorDescriptor_t outputDesc, miopenLossReductionMode_t reduction, size_t* sizeInBytes);

/// output = log(1 + e^(-target * input)), element by element, then reduced. Targets are 1 or -1.
/// The output has the sizes of the input, or one element if reduced. The workspace may be null
/// without reduction.
MIOPEN_EXPORT miopenStatus_t miopenSoftMarginLossForward(miopenHandle_t handle, miopenTensorDescriptor_t inputDesc,
                                                         const void* input, miopenTensorDescriptor_t targetDesc,
                                                         const void* target, miopenTensorDescriptor_t outputDesc,
                                                         void* output, miopenLossReductionMode_t reduction,
                                                         void* workspace MIOPEN_DEFAULT_ARG(nullptr),
                                                         size_t workspaceSizeInBytes MIOPEN_DEFAULT_ARG(0));

/// The gradient of the input from that of the output; the reduction is that of the forward call.
MIOPEN_EXPORT miopenStatus_t miopenSoftMarginLossBackward(miopenHandle_t handle, miopenTensorDescriptor_t inputDesc,
                                                          const void* input, miopenTensorDescriptor_t targetDesc,
                                                          const void* target, miopenTensorDescriptor_t doutputDesc,
                                                          const void* doutput, miopenTensorDescriptor_t dinputDesc,
                                                          void* dinput, miopenLossReductionMode_t reduction);

/// Workspace bytes of miopenMultiMarginLossForward.
MIOPEN_EXPORT miopenStatus_t miopenGetMultiMarginLossForwardWorkspaceSize(
    miopenHandle_t handle, miopenTensorDescriptor_t inputDesc, miopenTensorDescriptor_t targetDesc,
    miopenTensorDescriptor_t weightDesc, miopenTensorDescriptor_t outputDesc, long p, float margin,
    miopenLossReductionMode_t reduction, size_t* sizeInBytes);

/// For each row of the (N, C) input with class t: the mean over the other classes c of weight[t] *
/// max(0, margin - input[t] + input[c])^p, then reduced. `target` holds N classes (miopenInt64),
/// `weight` C numbers; p is 1 or 2.
MIOPEN_EXPORT miopenStatus_t miopenMultiMarginLossForward(miopenHandle_t handle, miopenTensorDescriptor_t inputDesc,
                                                          const void* input, miopenTensorDescriptor_t targetDesc,
                                                          const void* target, miopenTensorDescriptor_t weightDesc,
                                                          const void* weight, miopenTensorDescriptor_t outputDesc,
                                                          void* output, long p, float margin,
                                                          miopenLossReductionMode_t reduction, void* workspace,
                                                          size_t workspaceSizeInBytes);
#endif

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_LOSS_H_
