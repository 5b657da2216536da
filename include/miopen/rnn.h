// Recurrent networks: plain (ReLU, tanh), LSTM and GRU, in several layers, one or both directions.
// The newer functions take sequence tensors; the older take an array of one descriptor per time
// step, each (batch, vector), where the batch never grows from one step to the next.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_RNN_H_
#define MIOPEN_RNN_H_

#include <miopen/types.h>

// Sizes. With L layers, D directions (1 or 2), batch B and hidden size H: x is (time, B, input
// size), y is (time, B, D * H), and the states hx, hy, cx, cy and their gradients are dense (L * D,
// B, H). Cell states (c) are used by LSTM only, their descriptors must have three dimensions
// always. A null initial state counts as 0; as in MIOpen, without hx the biases of the hidden state
// are left out at the first step of each sequence. A null final state is not written. Null
// gradients of final states count as 0, null gradients of initial states are not computed. A
// sequence without steps passes its states through. Data types: float, half and bfloat16, with sums
// in float.
//
// Weights. All matrices and biases are one buffer of miopenGetRNNParamsSize bytes. Layers are
// counted from 0; with two directions layer 2 * i is the forward and 2 * i + 1 the backward half.
// `paramID` and `biasID` count the gates, first those of the input, then those of the hidden state:
// 0 to 1 for plain networks, 0 to 7 for LSTM (input, forget, output, cell), 0 to 5 for GRU (update,
// reset, new).
//
// Training. The forward call leaves in the reserve space what the backward calls need: backward
// data comes next, then backward weights, with the same reserve space and workspace. Gradients are
// written, not added. With a dropout descriptor of a rate above 0 each training draws masks between
// the layers; their states move on where the descriptor says so.
//
// Errors. BadParm for wrong descriptors and null pointers; UnknownError, as in MIOpen, for a
// workspace, reserve space or weight space that is too small. Refused calls write nothing. Calls
// are asynchronous on GPUs, and safe from several threads with handles of their own.

#ifdef __cplusplus
extern "C" {
#endif

/// Kind of cell.
typedef enum {
  miopenRNNRELU = 0,  ///< max(0, .)
  miopenRNNTANH = 1,  ///< tanh
  miopenLSTM = 2,
  miopenGRU = 3,
} miopenRNNMode_t;

/// How x enters the first layer.
typedef enum {
  miopenRNNlinear = 0,  ///< by a matrix
  miopenRNNskip = 1,    ///< directly; input size and hidden size are equal
} miopenRNNInputMode_t;

/// Algorithm.
typedef enum {
  miopenRNNdefault = 0,         ///< the best known
  miopenRNNfundamental = 1,     ///< one matrix product after the other
  miopenRNNroundedDynamic = 2,  ///< the results of the default; MIOpen rounds sizes up for faster products
} miopenRNNAlgo_t;

/// Directions in time.
typedef enum {
  miopenRNNunidirection = 0,
  miopenRNNbidirection = 1,
} miopenRNNDirectionMode_t;

/// Whether there are biases.
typedef enum {
  miopenRNNNoBias = 0,
  miopenRNNwithBias = 1,
} miopenRNNBiasMode_t;

/// Algorithm of the matrix products.
typedef enum {
  miopenRNNAlgoGEMM = 0,
} miopenRNNGEMMalgoMode_t;

/// Whether sequences in x and y are padded to one length.
typedef enum {
  miopenRNNIONotPadded = 0,
  miopenRNNIOWithPadding = 1,
} miopenRNNPaddingMode_t;

/// What a forward call is for.
typedef enum {
  miopenRNNTraining = 0,   ///< fills the reserve space
  miopenRNNInference = 1,  ///< leaves it alone
} miopenRNNFWDMode_t;

/// Order of a sequence tensor in memory, outermost first.
typedef enum {
  miopenRNNDataUnknownLayout = 0,
  /// time, batch; shorter sequences are left out of later steps
  miopenRNNDataSeqMajorNotPadded = 1,
  miopenRNNDataSeqMajorPadded = 2,    ///< time, batch; all sequences as long as the longest
  miopenRNNDataBatchMajorPadded = 3,  ///< batch, time; all sequences as long as the longest
} miopenRNNBaseLayout_t;

/// Creates a descriptor. Free it with miopenDestroyRNNDescriptor.
MIOPEN_EXPORT miopenStatus_t miopenCreateRNNDescriptor(miopenRNNDescriptor_t* rnnDesc);

/// The values of a descriptor. Null outputs are skipped.
MIOPEN_EXPORT miopenStatus_t miopenGetRNNDescriptor(miopenRNNDescriptor_t rnnDesc, miopenRNNMode_t* rnnMode,
                                                    miopenRNNAlgo_t* algoMode, miopenRNNInputMode_t* inputMode,
                                                    miopenRNNDirectionMode_t* dirMode, miopenRNNBiasMode_t* biasMode,
                                                    int* hiddenSize, int* layer);

/// The values of a descriptor, dropout (null if there is none) and data type included. Null outputs
/// are skipped.
MIOPEN_EXPORT miopenStatus_t miopenGetRNNDescriptor_V2(miopenRNNDescriptor_t rnnDesc, int* hiddenSize, int* layer,
                                                       miopenDropoutDescriptor_t* dropoutDesc,
                                                       miopenRNNInputMode_t* inputMode,
                                                       miopenRNNDirectionMode_t* dirMode, miopenRNNMode_t* rnnMode,
                                                       miopenRNNBiasMode_t* biasMode, miopenRNNAlgo_t* algoMode,
                                                       miopenDataType_t* dataType);

/// Frees a descriptor. BadParm if null.
MIOPEN_EXPORT miopenStatus_t miopenDestroyRNNDescriptor(miopenRNNDescriptor_t rnnDesc);

/// Sets a network of `nlayers` layers with hidden size `hsize`, without dropout. BadParm unless
/// both are at least 1.
MIOPEN_EXPORT miopenStatus_t miopenSetRNNDescriptor(miopenRNNDescriptor_t rnnDesc, const int hsize, const int nlayers,
                                                    miopenRNNInputMode_t inMode, miopenRNNDirectionMode_t direction,
                                                    miopenRNNMode_t rnnMode, miopenRNNBiasMode_t biasMode,
                                                    miopenRNNAlgo_t algo, miopenDataType_t dataType);

/// miopenSetRNNDescriptor with a dropout between the layers. The dropout descriptor must outlive
/// this one.
MIOPEN_EXPORT miopenStatus_t miopenSetRNNDescriptor_V2(miopenRNNDescriptor_t rnnDesc, const int hsize,
                                                       const int nlayers, miopenDropoutDescriptor_t dropoutDesc,
                                                       miopenRNNInputMode_t inMode, miopenRNNDirectionMode_t direction,
                                                       miopenRNNMode_t rnnMode, miopenRNNBiasMode_t biasMode,
                                                       miopenRNNAlgo_t algo, miopenDataType_t dataType);

/// Describes a batch of sequences of vectors. `sequenceLenArray` holds `batchSize` lengths (host
/// memory, copied), from 0 to `maxSequenceLen`; those of a packed tensor must not ascend.
/// `paddingMarker`, if not null, is one host element, which is written to padded elements of an
/// output, else they are 0. BadParm for other values, and if there is nothing to describe.
MIOPEN_EXPORT miopenStatus_t miopenSetRNNDataSeqTensorDescriptor(miopenSeqTensorDescriptor_t seqTensorDesc,
                                                                 miopenDataType_t dataType,
                                                                 miopenRNNBaseLayout_t layout, int maxSequenceLen,
                                                                 int batchSize, int vectorSize,
                                                                 const int* sequenceLenArray, void* paddingMarker);

/// The values of a sequence descriptor; at most `sequenceLenArrayLimit` lengths are written. The
/// array and the marker may be null, the others not.
MIOPEN_EXPORT miopenStatus_t miopenGetRNNDataSeqTensorDescriptor(miopenSeqTensorDescriptor_t seqTensorDesc,
                                                                 miopenDataType_t* dataType,
                                                                 miopenRNNBaseLayout_t* layout, int* maxSequenceLen,
                                                                 int* batchSize, int* vectorSize,
                                                                 int sequenceLenArrayLimit, int* sequenceLenArray,
                                                                 void* paddingMarker);

/// Workspace bytes of the functions that take arrays of descriptors, `sequenceLen` of them.
MIOPEN_EXPORT miopenStatus_t miopenGetRNNWorkspaceSize(miopenHandle_t handle, const miopenRNNDescriptor_t rnnDesc,
                                                       const int sequenceLen, const miopenTensorDescriptor_t* xDesc,
                                                       size_t* numBytes);

/// Reserve space bytes of a training with arrays of descriptors.
MIOPEN_EXPORT miopenStatus_t miopenGetRNNTrainingReserveSize(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc,
                                                             const int sequenceLen,
                                                             const miopenTensorDescriptor_t* xDesc, size_t* numBytes);

/// Workspace and reserve space bytes of the functions that take sequence tensors, enough for
/// sequences of any lengths. Null outputs are skipped; in inference `reserveSpaceSize` is not written.
MIOPEN_EXPORT miopenStatus_t miopenGetRNNTempSpaceSizes(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc,
                                                        miopenSeqTensorDescriptor_t xDesc, miopenRNNFWDMode_t fwdMode,
                                                        size_t* workSpaceSize, size_t* reserveSpaceSize);

/// Bytes of all weights and biases. `xDesc` is the input of one time step.
MIOPEN_EXPORT miopenStatus_t miopenGetRNNParamsSize(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc,
                                                    miopenTensorDescriptor_t xDesc, size_t* numBytes,
                                                    miopenDataType_t dtype);

/// Fills `wDesc`, a created descriptor, with a tensor that holds all weights and biases.
MIOPEN_EXPORT miopenStatus_t miopenGetRNNParamsDescriptor(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc,
                                                          miopenTensorDescriptor_t xDesc,
                                                          miopenTensorDescriptor_t wDesc, miopenDataType_t dtype);

/// Bytes of x or y over all time steps.
MIOPEN_EXPORT miopenStatus_t miopenGetRNNInputTensorSize(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc,
                                                         const int seqLen, miopenTensorDescriptor_t* xDesc,
                                                         size_t* numBytes);

/// Bytes of a state.
MIOPEN_EXPORT miopenStatus_t miopenGetRNNHiddenTensorSize(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc,
                                                          const int seqLen, miopenTensorDescriptor_t* xDesc,
                                                          size_t* numBytes);

/// Bytes of one matrix; 0 for an input matrix that the input mode leaves out.
MIOPEN_EXPORT miopenStatus_t miopenGetRNNLayerParamSize(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc,
                                                        const int layer, miopenTensorDescriptor_t xDesc,
                                                        const int paramID, size_t* numBytes);

/// Bytes of one bias vector.
MIOPEN_EXPORT miopenStatus_t miopenGetRNNLayerBiasSize(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc,
                                                       const int layer, const int biasID, size_t* numBytes);

/// Copies one matrix out of the weights to `layerParam` (device memory) and describes it in
/// `paramDesc`. With a null `layerParam` only the description is written.
MIOPEN_EXPORT miopenStatus_t miopenGetRNNLayerParam(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc,
                                                    const int layer, miopenTensorDescriptor_t xDesc,
                                                    miopenTensorDescriptor_t wDesc, const void* w, const int paramID,
                                                    miopenTensorDescriptor_t paramDesc, void* layerParam);

/// Copies one bias vector out of the weights to `layerBias` and describes it in `biasDesc`. With a
/// null `layerBias` only the description is written. Functions of biases do nothing in a network
/// without them.
MIOPEN_EXPORT miopenStatus_t miopenGetRNNLayerBias(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc,
                                                   const int layer, miopenTensorDescriptor_t xDesc,
                                                   miopenTensorDescriptor_t wDesc, const void* w, const int biasID,
                                                   miopenTensorDescriptor_t biasDesc, void* layerBias);

/// Where one matrix begins in the weights, in elements, and its description. BadParm for an input
/// matrix that the input mode leaves out. `layerParamOffset` may be null.
MIOPEN_EXPORT miopenStatus_t miopenGetRNNLayerParamOffset(miopenRNNDescriptor_t rnnDesc, const int layer,
                                                          miopenTensorDescriptor_t xDesc, const int paramID,
                                                          miopenTensorDescriptor_t paramDesc, size_t* layerParamOffset);

/// Where one bias vector begins in the weights, in elements, and its description.
MIOPEN_EXPORT miopenStatus_t miopenGetRNNLayerBiasOffset(miopenRNNDescriptor_t rnnDesc, const int layer,
                                                         miopenTensorDescriptor_t xDesc, const int biasID,
                                                         miopenTensorDescriptor_t biasDesc, size_t* layerBiasOffset);

/// Copies a matrix from `layerParam` (device memory) into the weights. It is not transposed, as MIOpen
/// does: miopenGetRNNLayerParam copies the same matrix back.
MIOPEN_EXPORT miopenStatus_t miopenSetRNNLayerParam(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc,
                                                    const int layer, miopenTensorDescriptor_t xDesc,
                                                    miopenTensorDescriptor_t wDesc, void* w, const int paramID,
                                                    miopenTensorDescriptor_t paramDesc, const void* layerParam);

/// Copies a bias vector from `layerBias` (device memory) into the weights.
MIOPEN_EXPORT miopenStatus_t miopenSetRNNLayerBias(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc,
                                                   const int layer, miopenTensorDescriptor_t xDesc,
                                                   miopenTensorDescriptor_t wDesc, void* w, const int biasID,
                                                   miopenTensorDescriptor_t biasDesc, const void* layerBias);

/// Sets whether the functions that take arrays of descriptors expect padded sequences.
MIOPEN_EXPORT miopenStatus_t miopenSetRNNPaddingMode(miopenRNNDescriptor_t rnnDesc, miopenRNNPaddingMode_t paddingMode);

/// The padding mode.
MIOPEN_EXPORT miopenStatus_t miopenGetRNNPaddingMode(miopenRNNDescriptor_t rnnDesc,
                                                     miopenRNNPaddingMode_t* paddingMode);

/// y and the final states from x, the initial states and the weights, on sequence tensors. In
/// inference the reserve space may be null.
MIOPEN_EXPORT miopenStatus_t miopenRNNForward(miopenHandle_t handle, const miopenRNNDescriptor_t rnnDesc,
                                              miopenRNNFWDMode_t fwdMode, const miopenSeqTensorDescriptor_t xDesc,
                                              const void* x, const miopenTensorDescriptor_t hDesc, const void* hx,
                                              void* hy, const miopenTensorDescriptor_t cDesc, const void* cx, void* cy,
                                              const miopenSeqTensorDescriptor_t yDesc, void* y, const void* w,
                                              size_t weightSpaceSize, void* workSpace, size_t workSpaceNumBytes,
                                              void* reserveSpace, size_t reserveSpaceNumBytes);

/// dx and the gradients of the initial states from dy and those of the final states; after
/// miopenRNNForward in training. y, hx and cx are not read.
MIOPEN_EXPORT miopenStatus_t miopenRNNBackwardSeqData(
    miopenHandle_t handle, const miopenRNNDescriptor_t rnnDesc, const miopenSeqTensorDescriptor_t yDesc, const void* y,
    const void* dy, const miopenTensorDescriptor_t hDesc, const void* hx, const void* dhy, void* dhx,
    const miopenTensorDescriptor_t cDesc, const void* cx, const void* dcy, void* dcx,
    const miopenSeqTensorDescriptor_t xDesc, void* dx, const void* w, size_t weightSpaceSize, void* workSpace,
    size_t workSpaceNumBytes, void* reserveSpace, size_t reserveSpaceNumBytes);

/// Writes the gradient of the weights to dw; after miopenRNNBackwardSeqData. y is not read.
MIOPEN_EXPORT miopenStatus_t miopenRNNBackwardWeightsSeqTensor(
    miopenHandle_t handle, const miopenRNNDescriptor_t rnnDesc, const miopenSeqTensorDescriptor_t xDesc, const void* x,
    const miopenTensorDescriptor_t hDesc, const void* hx, const miopenSeqTensorDescriptor_t yDesc, const void* y,
    void* dw, size_t weightSpaceSize, void* workSpace, size_t workSpaceNumBytes, const void* reserveSpace,
    size_t reserveSpaceNumBytes);

/// The forward pass for training, with one descriptor of x and of y per time step.
MIOPEN_EXPORT miopenStatus_t miopenRNNForwardTraining(
    miopenHandle_t handle, const miopenRNNDescriptor_t rnnDesc, const int sequenceLen,
    const miopenTensorDescriptor_t* xDesc, const void* x, const miopenTensorDescriptor_t hxDesc, const void* hx,
    const miopenTensorDescriptor_t cxDesc, const void* cx, const miopenTensorDescriptor_t wDesc, const void* w,
    const miopenTensorDescriptor_t* yDesc, void* y, const miopenTensorDescriptor_t hyDesc, void* hy,
    const miopenTensorDescriptor_t cyDesc, void* cy, void* workSpace, size_t workSpaceNumBytes, void* reserveSpace,
    size_t reserveSpaceNumBytes);

/// dx and the gradients of the initial states; after miopenRNNForwardTraining. y, hx and cx are not
/// read.
MIOPEN_EXPORT miopenStatus_t miopenRNNBackwardData(
    miopenHandle_t handle, const miopenRNNDescriptor_t rnnDesc, const int sequenceLen,
    const miopenTensorDescriptor_t* yDesc, const void* y, const miopenTensorDescriptor_t* dyDesc, const void* dy,
    const miopenTensorDescriptor_t dhyDesc, const void* dhy, const miopenTensorDescriptor_t dcyDesc, const void* dcy,
    const miopenTensorDescriptor_t wDesc, const void* w, const miopenTensorDescriptor_t hxDesc, const void* hx,
    const miopenTensorDescriptor_t cxDesc, const void* cx, const miopenTensorDescriptor_t* dxDesc, void* dx,
    const miopenTensorDescriptor_t dhxDesc, void* dhx, const miopenTensorDescriptor_t dcxDesc, void* dcx,
    void* workSpace, size_t workSpaceNumBytes, void* reserveSpace, size_t reserveSpaceNumBytes);

/// Writes the gradient of the weights to dw; after miopenRNNBackwardData. y is not read.
MIOPEN_EXPORT miopenStatus_t miopenRNNBackwardWeights(miopenHandle_t handle, const miopenRNNDescriptor_t rnnDesc,
                                                      const int sequenceLen, const miopenTensorDescriptor_t* xDesc,
                                                      const void* x, const miopenTensorDescriptor_t hxDesc,
                                                      const void* hx, const miopenTensorDescriptor_t* yDesc,
                                                      const void* y, const miopenTensorDescriptor_t dwDesc, void* dw,
                                                      void* workSpace, size_t workSpaceNumBytes,
                                                      const void* reserveSpace, size_t reserveSpaceNumBytes);

/// The forward pass without anything kept for a backward pass.
MIOPEN_EXPORT miopenStatus_t miopenRNNForwardInference(
    miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc, const int sequenceLen, const miopenTensorDescriptor_t* xDesc,
    const void* x, const miopenTensorDescriptor_t hxDesc, const void* hx, const miopenTensorDescriptor_t cxDesc,
    const void* cx, const miopenTensorDescriptor_t wDesc, const void* w, const miopenTensorDescriptor_t* yDesc, void* y,
    const miopenTensorDescriptor_t hyDesc, void* hy, const miopenTensorDescriptor_t cyDesc, void* cy, void* workSpace,
    size_t workSpaceNumBytes);

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_RNN_H_
