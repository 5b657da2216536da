// Reductions of tensors: every function answers that it is not implemented.
// SPDX-License-Identifier: MIT
#include <miopen/reduce_tensor.h>

#include "capi/guard.h"

using polymio::capi::not_implemented;

miopenStatus_t miopenCreateReduceTensorDescriptor(miopenReduceTensorDescriptor_t*) {
  return not_implemented("miopenCreateReduceTensorDescriptor");
}

miopenStatus_t miopenDestroyReduceTensorDescriptor(miopenReduceTensorDescriptor_t) {
  return not_implemented("miopenDestroyReduceTensorDescriptor");
}

miopenStatus_t miopenSetReduceTensorDescriptor(miopenReduceTensorDescriptor_t, miopenReduceTensorOp_t, miopenDataType_t,
                                               miopenNanPropagation_t, miopenReduceTensorIndices_t,
                                               miopenIndicesType_t) {
  return not_implemented("miopenSetReduceTensorDescriptor");
}

miopenStatus_t miopenGetReduceTensorDescriptor(const miopenReduceTensorDescriptor_t, miopenReduceTensorOp_t*,
                                               miopenDataType_t*, miopenNanPropagation_t*, miopenReduceTensorIndices_t*,
                                               miopenIndicesType_t*) {
  return not_implemented("miopenGetReduceTensorDescriptor");
}

miopenStatus_t miopenGetReductionIndicesSize(miopenHandle_t, const miopenReduceTensorDescriptor_t,
                                             const miopenTensorDescriptor_t, const miopenTensorDescriptor_t, size_t*) {
  return not_implemented("miopenGetReductionIndicesSize");
}

miopenStatus_t miopenGetReductionWorkspaceSize(miopenHandle_t, const miopenReduceTensorDescriptor_t,
                                               const miopenTensorDescriptor_t, const miopenTensorDescriptor_t,
                                               size_t*) {
  return not_implemented("miopenGetReductionWorkspaceSize");
}

miopenStatus_t miopenReduceTensor(miopenHandle_t, const miopenReduceTensorDescriptor_t, void*, size_t, void*, size_t,
                                  const void*, const miopenTensorDescriptor_t, const void*, const void*,
                                  const miopenTensorDescriptor_t, void*) {
  return not_implemented("miopenReduceTensor");
}
