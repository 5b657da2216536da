// Activation functions, and the gated linear unit (beta).
// Not implemented yet: every function returns miopenStatusNotImplemented.
// The parameters alpha, beta and gamma of the descriptor enter the formulas of
// miopenActivationMode_t. The scaling factors of the calls must be 1 and 0.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_ACTIVATION_H_
#define MIOPEN_ACTIVATION_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The function of one element x.
typedef enum {
  miopenActivationPASTHRU = 0,      ///< x
  miopenActivationLOGISTIC = 1,     ///< 1 / (1 + e^-x)
  miopenActivationTANH = 2,         ///< beta * tanh(alpha * x)
  miopenActivationRELU = 3,         ///< max(0, x)
  miopenActivationSOFTRELU = 4,     ///< log(1 + e^x)
  miopenActivationABS = 5,          ///< |x|
  miopenActivationPOWER = 6,        ///< (alpha + beta * x) ^ gamma
  miopenActivationCLIPPEDRELU = 7,  ///< min(alpha, max(0, x))
  miopenActivationLEAKYRELU = 8,    ///< x > 0 ? x : alpha * x
  miopenActivationELU = 9,          ///< x > 0 ? x : alpha * (e^x - 1)
} miopenActivationMode_t;

/// Creates a descriptor. Free it with miopenDestroyActivationDescriptor.
MIOPEN_EXPORT miopenStatus_t miopenCreateActivationDescriptor(miopenActivationDescriptor_t* activDesc);

/// Sets the function and its parameters; those that the function does not use are ignored.
MIOPEN_EXPORT miopenStatus_t miopenSetActivationDescriptor(const miopenActivationDescriptor_t activDesc,
                                                           miopenActivationMode_t mode, double activAlpha,
                                                           double activBeta, double activGamma);

/// The values of a descriptor.
MIOPEN_EXPORT miopenStatus_t miopenGetActivationDescriptor(const miopenActivationDescriptor_t activDesc,
                                                           miopenActivationMode_t* mode, double* activAlpha,
                                                           double* activBeta, double* activGamma);

/// y = f(x), element by element; x and y have the same sizes, and may be the same buffer.
MIOPEN_EXPORT miopenStatus_t miopenActivationForward(miopenHandle_t handle,
                                                     const miopenActivationDescriptor_t activDesc, const void* alpha,
                                                     const miopenTensorDescriptor_t xDesc, const void* x,
                                                     const void* beta, const miopenTensorDescriptor_t yDesc, void* y);

/// dx = dy * f'(x); x and y are those of the forward call. The four tensors have the same sizes.
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
/// The output has half the size along `dim`.
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
