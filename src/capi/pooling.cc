// Pooling: every function answers that it is not implemented.
// SPDX-License-Identifier: MIT
#include <miopen/pooling.h>

#include "capi/guard.h"

using polymio::capi::not_implemented;

miopenStatus_t miopenCreatePoolingDescriptor(miopenPoolingDescriptor_t*) {
  return not_implemented("miopenCreatePoolingDescriptor");
}

miopenStatus_t miopenSetPoolingIndexType(miopenPoolingDescriptor_t, miopenIndexType_t) {
  return not_implemented("miopenSetPoolingIndexType");
}

miopenStatus_t miopenGetPoolingIndexType(miopenPoolingDescriptor_t, miopenIndexType_t*) {
  return not_implemented("miopenGetPoolingIndexType");
}

miopenStatus_t miopenSetPoolingWorkSpaceIndexMode(miopenPoolingDescriptor_t, miopenPoolingWorkspaceIndexMode_t) {
  return not_implemented("miopenSetPoolingWorkSpaceIndexMode");
}

miopenStatus_t miopenGetPoolingWorkSpaceIndexMode(miopenPoolingDescriptor_t, miopenPoolingWorkspaceIndexMode_t*) {
  return not_implemented("miopenGetPoolingWorkSpaceIndexMode");
}

miopenStatus_t miopenSet2dPoolingDescriptor(miopenPoolingDescriptor_t, miopenPoolingMode_t, int, int, int, int, int,
                                            int) {
  return not_implemented("miopenSet2dPoolingDescriptor");
}

miopenStatus_t miopenGet2dPoolingDescriptor(const miopenPoolingDescriptor_t, miopenPoolingMode_t*, int*, int*, int*,
                                            int*, int*, int*) {
  return not_implemented("miopenGet2dPoolingDescriptor");
}

miopenStatus_t miopenGetPoolingForwardOutputDim(const miopenPoolingDescriptor_t, const miopenTensorDescriptor_t, int*,
                                                int*, int*, int*) {
  return not_implemented("miopenGetPoolingForwardOutputDim");
}

miopenStatus_t miopenSetNdPoolingDescriptor(miopenPoolingDescriptor_t, const miopenPoolingMode_t, int, const int*,
                                            const int*, const int*) {
  return not_implemented("miopenSetNdPoolingDescriptor");
}

miopenStatus_t miopenGetNdPoolingDescriptor(const miopenPoolingDescriptor_t, int, miopenPoolingMode_t*, int*, int*,
                                            int*, int*) {
  return not_implemented("miopenGetNdPoolingDescriptor");
}

miopenStatus_t miopenGetPoolingNdForwardOutputDim(const miopenPoolingDescriptor_t, const miopenTensorDescriptor_t, int,
                                                  int*) {
  return not_implemented("miopenGetPoolingNdForwardOutputDim");
}

miopenStatus_t miopenPoolingGetWorkSpaceSize(const miopenTensorDescriptor_t, size_t*) {
  return not_implemented("miopenPoolingGetWorkSpaceSize");
}

miopenStatus_t miopenPoolingGetWorkSpaceSizeV2(const miopenPoolingDescriptor_t, const miopenTensorDescriptor_t,
                                               size_t*) {
  return not_implemented("miopenPoolingGetWorkSpaceSizeV2");
}

miopenStatus_t miopenPoolingForward(miopenHandle_t, const miopenPoolingDescriptor_t, const void*,
                                    const miopenTensorDescriptor_t, const void*, const void*,
                                    const miopenTensorDescriptor_t, void*, bool, void*, size_t) {
  return not_implemented("miopenPoolingForward");
}

miopenStatus_t miopenPoolingBackward(miopenHandle_t, const miopenPoolingDescriptor_t, const void*,
                                     const miopenTensorDescriptor_t, const void*, const miopenTensorDescriptor_t,
                                     const void*, const miopenTensorDescriptor_t, const void*, const void*,
                                     const miopenTensorDescriptor_t, void*, void*) {
  return not_implemented("miopenPoolingBackward");
}

miopenStatus_t miopenDestroyPoolingDescriptor(miopenPoolingDescriptor_t) {
  return not_implemented("miopenDestroyPoolingDescriptor");
}
