// Dropout: sets elements to 0 with a given probability and scales the others by 1 / (1 - rate).
// Tensors have 1 to 8 dimensions, fp32, fp16, bf16 or fp64, and any strides; a result may be written over its input.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_DROPOUT_H_
#define MIOPEN_DROPOUT_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Random number generator.
typedef enum {
  MIOPEN_RNG_PSEUDO_XORWOW = 0,  ///< pseudo-random, xorwow
} miopenRNGType_t;

/// Creates a descriptor. Free it with miopenDestroyDropoutDescriptor.
MIOPEN_EXPORT miopenStatus_t miopenCreateDropoutDescriptor(miopenDropoutDescriptor_t* dropoutDesc);

/// Frees a descriptor, not the states that it refers to. BadParm if null.
MIOPEN_EXPORT miopenStatus_t miopenDestroyDropoutDescriptor(miopenDropoutDescriptor_t dropoutDesc);

/// Bytes of reserve space for x: one mask byte per element.
MIOPEN_EXPORT miopenStatus_t miopenDropoutGetReserveSpaceSize(const miopenTensorDescriptor_t xDesc,
                                                              size_t* reserveSpaceSizeInBytes);

/// Bytes of generator states that the device needs.
MIOPEN_EXPORT miopenStatus_t miopenDropoutGetStatesSize(miopenHandle_t handle, size_t* stateSizeInBytes);

/// The values of a descriptor; `*states` is the device pointer that was given to it. BadParm if an output is null.
MIOPEN_EXPORT miopenStatus_t miopenGetDropoutDescriptor(miopenDropoutDescriptor_t dropoutDesc, miopenHandle_t handle,
                                                        float* dropout, void** states, unsigned long long* seed,
                                                        bool* use_mask, bool* state_evo, miopenRNGType_t* rng_mode);

/// miopenSetDropoutDescriptor without restarting the generator: `states` are used as they are.
MIOPEN_EXPORT miopenStatus_t miopenRestoreDropoutDescriptor(miopenDropoutDescriptor_t dropoutDesc,
                                                            miopenHandle_t handle, float dropout, void* states,
                                                            size_t stateSizeInBytes, unsigned long long seed,
                                                            bool use_mask, bool state_evo, miopenRNGType_t rng_mode);

/// Sets the rate (0 to 1) and starts as many generators with `seed` as fit in `states`, device memory of
/// miopenDropoutGetStatesSize bytes that the caller keeps alive; they are ready when the call returns. `states` may be
/// null with 0 bytes if nothing is drawn. With `use_mask` forward reads the mask of the reserve space instead of
/// drawing one. With `state_evo` a forward call that has a reserve space moves the states on, so that the next one
/// draws another mask; else, and in MIOpen always, every call draws the same.
MIOPEN_EXPORT miopenStatus_t miopenSetDropoutDescriptor(miopenDropoutDescriptor_t dropoutDesc, miopenHandle_t handle,
                                                        float dropout, void* states, size_t stateSizeInBytes,
                                                        unsigned long long seed, bool use_mask, bool state_evo,
                                                        miopenRNGType_t rng_mode);

/// y from x, of the same sizes. The reserve space receives the mask for the backward pass, a byte per element, 1 for
/// those that are kept; it may be null. `noise_shape` must have the rank and number of elements of x, else it has no
/// effect. UnknownError if sizes, types, rate, reserve space or states do not fit.
MIOPEN_EXPORT miopenStatus_t miopenDropoutForward(miopenHandle_t handle, const miopenDropoutDescriptor_t dropoutDesc,
                                                  const miopenTensorDescriptor_t noise_shape,
                                                  const miopenTensorDescriptor_t xDesc, const void* x,
                                                  const miopenTensorDescriptor_t yDesc, void* y, void* reserveSpace,
                                                  size_t reserveSpaceSizeInBytes);

/// dx from dy with the mask that the forward call left in the reserve space; without one (null) the mask is drawn from
/// the states again.
MIOPEN_EXPORT miopenStatus_t miopenDropoutBackward(miopenHandle_t handle, const miopenDropoutDescriptor_t dropoutDesc,
                                                   const miopenTensorDescriptor_t noise_shape,
                                                   const miopenTensorDescriptor_t dyDesc, const void* dy,
                                                   const miopenTensorDescriptor_t dxDesc, void* dx, void* reserveSpace,
                                                   size_t reserveSpaceSizeInBytes);

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_DROPOUT_H_
