// Sum and product along one dimension. Beta.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_REDUCE_CALCULATION_H_
#define MIOPEN_REDUCE_CALCULATION_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef MIOPEN_BETA_API
/// What happens to NaN elements. The names say the opposite of what MIOpen does, which is done here, too.
typedef enum {
  MIOPEN_REDUCE_CALCULATION_NOT_PROPAGATE_NAN = 0,  ///< they make the result NaN
  MIOPEN_REDUCE_CALCULATION_PROPAGATE_NAN = 1,      ///< they count as 0
} miopenReduceCalculationNanPropagation_t;

/// What is computed.
typedef enum {
  MIOPEN_REDUCE_CALCULATION_PROD = 1,  ///< the product
  MIOPEN_REDUCE_CALCULATION_SUM = 2,   ///< the sum
} miopenReduceCalculationOp_t;

/// Workspace bytes of miopenReduceCalculationForward.
MIOPEN_EXPORT miopenStatus_t
miopenGetReduceCalculationWorkspaceSize(miopenHandle_t handle, const miopenTensorDescriptor_t xDesc, const int32_t dim,
                                        const miopenReduceCalculationOp_t reduceCalculationOp,
                                        const miopenTensorDescriptor_t reduceDesc, size_t* sizeInBytes);

/// y = the sum or product of x along dimension `dim` (0 is the outermost). y has the other sizes of
/// x. The workspace may be null if none is needed.
MIOPEN_EXPORT miopenStatus_t miopenReduceCalculationForward(
    miopenHandle_t handle, miopenReduceCalculationNanPropagation_t nanPropagation, void* workspace,
    size_t workspaceSizeInBytes, const miopenTensorDescriptor_t xDesc, const void* x, const int32_t dim,
    const miopenReduceCalculationOp_t reduceCalculationOp, const miopenTensorDescriptor_t reduceDesc, void* y);
#endif

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_REDUCE_CALCULATION_H_
