// Loss functions: connectionist temporal classification (CTC), soft margin, multi margin (beta).
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

/// Creates a descriptor: fp32, blank label 0, softmax on. Free it with miopenDestroyCTCLossDescriptor.
MIOPEN_EXPORT miopenStatus_t miopenCreateCTCLossDescriptor(miopenCTCLossDescriptor_t* ctcLossDesc);

/// The values of a descriptor. `dataType` must not be null; the other outputs are skipped if they are.
MIOPEN_EXPORT miopenStatus_t miopenGetCTCLossDescriptor(miopenCTCLossDescriptor_t ctcLossDesc,
                                                        miopenDataType_t* dataType, int* blank_label_id,
                                                        bool* apply_softmax_layer);

/// Frees a descriptor. BadParm if null.
MIOPEN_EXPORT miopenStatus_t miopenDestroyCTCLossDescriptor(miopenCTCLossDescriptor_t ctcLossDesc);

/// Sets the data type, which is only stored (tensors have their own); the label that means "nothing", of which a call
/// uses the nearest class; and whether a softmax over the classes is applied to the inputs first, which are else
/// logarithms of probabilities.
MIOPEN_EXPORT miopenStatus_t miopenSetCTCLossDescriptor(miopenCTCLossDescriptor_t ctcLossDesc,
                                                        miopenDataType_t dataType, const int blank_label_id,
                                                        bool apply_softmax_layer);

/// Workspace bytes of miopenCTCLoss with the same arguments. BadParm: the sizes of `probs` and `gradients` differ or
/// are not three; an input length above the number of steps; a label that is no class; more labels (an equal one after
/// another counts twice) than steps.
MIOPEN_EXPORT miopenStatus_t miopenGetCTCLossWorkspaceSize(
    miopenHandle_t handle, const miopenTensorDescriptor_t probsDesc, const miopenTensorDescriptor_t gradientsDesc,
    const int* labels, const int* labelLengths, const int* inputLengths, miopenCTCLossAlgo_t algo,
    const miopenCTCLossDescriptor_t ctcLossDesc, size_t* workSpaceSize);

/// The loss of each sequence, the negative logarithm of the probability of its labels, and its gradient, with respect
/// to `probs` before the softmax, or to the probabilities themselves where there is none. `probs` and `gradients` are
/// (steps, batch, classes), fp32, fp16 or bf16, of any strides and not the same memory; null `gradients` are not
/// computed. `labels` holds the labels of all sequences one after the other (null if there are none), `labelLengths`
/// and `inputLengths` one number per sequence; the gradient of later steps is 0. These arrays are in host memory, or in
/// device memory, which waits for the stream. `losses` has one element per sequence, infinity if no path has a
/// probability. `algo` is ignored: results are the same bits every time.
///
/// UnknownError: the mistakes for which the size query answers BadParm, as in MIOpen. BadParm: too little workspace.
/// NotInitialized: arrays in device memory while the stream is being captured. A captured graph keeps the values of
/// arrays in host memory.
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
