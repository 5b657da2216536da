// Minimum and maximum along one dimension, and where they are. Beta.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_REDUCE_EXTREME_H_
#define MIOPEN_REDUCE_EXTREME_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef MIOPEN_BETA_API
/// What is computed.
typedef enum {
  MIOPEN_REDUCE_EXTREME_ARGMIN = 1,  ///< the position of the smallest
  MIOPEN_REDUCE_EXTREME_ARGMAX = 2,  ///< the position of the largest
  MIOPEN_REDUCE_EXTREME_MIN = 3,     ///< the smallest and its position
  MIOPEN_REDUCE_EXTREME_MAX = 4,     ///< the largest and its position
} miopenReduceExtremeOp_t;

/// The extreme of x along dimension `dim` (0 is the outermost); the outputs have the other sizes of
/// x. y receives the values and `indice` (miopenInt32) the positions; the ARG operations write
/// positions only.
MIOPEN_EXPORT miopenStatus_t miopenReduceExtremeForward(miopenHandle_t handle, const miopenTensorDescriptor_t xDesc,
                                                        const void* x, const int32_t dim,
                                                        const miopenReduceExtremeOp_t reduceExtremeOp,
                                                        const miopenTensorDescriptor_t yDesc, void* y,
                                                        const miopenTensorDescriptor_t indiceDesc, void* indice);
#endif

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_REDUCE_EXTREME_H_
