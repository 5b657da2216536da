// Group `prelu`.
// SPDX-License-Identifier: MIT
#include <miopen/prelu.h>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/common/log_call.h"
#include "capi/common/tensor.h"
#include "primitives/prelu/prelu.h"

using namespace polymio;
using capi::deref;
using capi::described;
using capi::guard;
using capi::not_null;

miopenStatus_t miopenGetPReLUBackwardWorkspaceSize(miopenHandle_t handle, miopenTensorDescriptor_t inputDesc,
                                                   miopenTensorDescriptor_t weightDesc, size_t* sizeInBytes) {
  return guard([&] {
    not_null(sizeInBytes, "sizeInBytes");
    *sizeInBytes = prelu::workspace_size(deref(handle).device(), described(inputDesc, "the input"),
                                         described(weightDesc, "the weight"));
  });
}

miopenStatus_t miopenPReLUBackward(miopenHandle_t handle, void* workspace, size_t workspaceSizeInBytes,
                                   miopenTensorDescriptor_t inputDesc, const void* input,
                                   miopenTensorDescriptor_t weightDesc, const void* weight,
                                   miopenTensorDescriptor_t doutputDesc, const void* doutput,
                                   miopenTensorDescriptor_t dinputDesc, void* dinput,
                                   miopenTensorDescriptor_t dweightDesc, void* dweight) {
  return guard([&] {
    prelu::Backward p{{described(inputDesc, "the input"), not_null(input, "the buffer of the input")},
                      {described(weightDesc, "the weight"), not_null(weight, "the buffer of the weight")},
                      {described(doutputDesc, "doutput"), not_null(doutput, "the buffer of doutput")},
                      {},
                      {}};
    if (dinput) p.dx = {described(dinputDesc, "dinput"), dinput};
    if (dweight) p.dweight = {described(dweightDesc, "dweight"), dweight};
    capi::log_call("miopenPReLUBackward", [&] {
      return base_arg("prelu", p.x.desc.type, 2) + capi::list_flags("-D", p.x.desc) +
             fmt::format(" -P {} -F 2", p.weight.desc.count()) + strides_unless_dense(p.dy.desc, "--dout_strides") +
             (dinput ? capi::gradient_strides(p.dx.desc, p.x.desc) : "");
    });
    deref(handle).run([&](Stream& stream) { prelu::backward(stream, p, workspace, workspaceSizeInBytes); });
  });
}
