// Activation functions, and the gated linear unit (beta). Tensors are fp32, fp16, bf16 or fp64, of rank 1
// to 5 with any strides, or of more dimensions that can be merged to 5; all tensors of a call have the same type and
// sizes. The parameters alpha, beta and gamma of the descriptor enter the formulas of miopenActivationMode_t; they are
// rounded to float unless the tensors are fp64. The scaling factors of the calls may have any value: result = alpha *
// (...) + beta * result, where beta 0 does not read the result. The result may be written over an input that has the
// same strides, but must not overlap one otherwise. f(NaN) is NaN.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_ACTIVATION_H_
#define MIOPEN_ACTIVATION_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The function of one element x, and its derivative where that is not obvious.
typedef enum {
  miopenActivationPASTHRU = 0,      ///< x
  miopenActivationLOGISTIC = 1,     ///< 1 / (1 + e^-x)
  miopenActivationTANH = 2,         ///< beta * tanh(alpha * x)
  miopenActivationRELU = 3,         ///< max(0, x); derivative 0 at 0
  miopenActivationSOFTRELU = 4,     ///< log(1 + e^x)
  miopenActivationABS = 5,          ///< |x|; derivative 0 at 0
  miopenActivationPOWER = 6,        ///< (alpha + beta * x) ^ gamma; 0, and derivative 0, where the base is 0 or less
  miopenActivationCLIPPEDRELU = 7,  ///< min(alpha, max(0, x)); derivative 0 at 0 and 1 at alpha
  miopenActivationLEAKYRELU = 8,    ///< x > 0 ? x : alpha * x; derivative alpha at 0
  miopenActivationELU = 9,          ///< x > 0 ? x : alpha * (e^x - 1); derivative alpha at 0
  miopenActivationCLAMP = 10,       ///< max(alpha, min(beta, x)); derivative 0 at alpha and 1 at beta
} miopenActivationMode_t;

/// Creates a descriptor, of PASSTHRU. Free it with miopenDestroyActivationDescriptor.
MIOPEN_EXPORT miopenStatus_t miopenCreateActivationDescriptor(miopenActivationDescriptor_t* activDesc);

/// Sets the function and its parameters; those that the function does not use are ignored. BadParm for
/// an unknown function.
MIOPEN_EXPORT miopenStatus_t miopenSetActivationDescriptor(const miopenActivationDescriptor_t activDesc,
                                                           miopenActivationMode_t mode, double activAlpha,
                                                           double activBeta, double activGamma);

/// The values of a descriptor. Null outputs are skipped.
MIOPEN_EXPORT miopenStatus_t miopenGetActivationDescriptor(const miopenActivationDescriptor_t activDesc,
                                                           miopenActivationMode_t* mode, double* activAlpha,
                                                           double* activBeta, double* activGamma);

/// y = f(x), element by element. There is no find for activations: calls use the best known solver. With
/// MIOPEN_FIND_ENFORCE the first call of a problem measures and tunes, on private data.
MIOPEN_EXPORT miopenStatus_t miopenActivationForward(miopenHandle_t handle,
                                                     const miopenActivationDescriptor_t activDesc, const void* alpha,
                                                     const miopenTensorDescriptor_t xDesc, const void* x,
                                                     const void* beta, const miopenTensorDescriptor_t yDesc, void* y);

/// dx = dy * f'(x); x and y are those of the forward call. If that was in place, x and y are the same
/// buffer, which holds y: allowed for PASSTHRU, LOGISTIC, TANH, RELU, SOFTRELU, and with alpha >= 0 for
/// LEAKYRELU and ELU; BadParm for the others, whose derivative is not a function of y.
MIOPEN_EXPORT miopenStatus_t miopenActivationBackward(miopenHandle_t handle,
                                                      const miopenActivationDescriptor_t activDesc, const void* alpha,
                                                      const miopenTensorDescriptor_t yDesc, const void* y,
                                                      const miopenTensorDescriptor_t dyDesc, const void* dy,
                                                      const miopenTensorDescriptor_t xDesc, const void* x,
                                                      const void* beta, const miopenTensorDescriptor_t dxDesc,
                                                      void* dx);

/// Frees a descriptor. BadParm if null.
MIOPEN_EXPORT miopenStatus_t miopenDestroyActivationDescriptor(miopenActivationDescriptor_t activDesc);

#ifdef MIOPEN_BETA_API
/// Splits the input in two halves a, b along dimension `dim` and computes output = a * logistic(b).
/// The output has half the size along `dim`, and a buffer of its own.
MIOPEN_EXPORT miopenStatus_t miopenGLUForward(miopenHandle_t handle, const miopenTensorDescriptor_t inputDesc,
                                              const void* input, const miopenTensorDescriptor_t outputDesc,
                                              void* output, const uint32_t dim);

/// The gradient of the input of miopenGLUForward from that of its output.
MIOPEN_EXPORT miopenStatus_t miopenGLUBackward(miopenHandle_t handle, const miopenTensorDescriptor_t inputDesc,
                                               const void* input, const miopenTensorDescriptor_t outputGradDesc,
                                               const void* outputGrad, const miopenTensorDescriptor_t inputGradDesc,
                                               void* inputGrad, const uint32_t dim);
#endif

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_ACTIVATION_H_
