// Find 2.0, options of a find.
// SPDX-License-Identifier: MIT
#include "capi/find2/options.h"

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/find2/problem.h"

using namespace polymio;
using capi::deref;
using capi::FindOptionsState;
using capi::guard;
using capi::not_null;

miopenStatus_t miopenCreateFindOptions(miopenFindOptions_t* options) {
  return guard([&] {
    *not_null(options, "options") = nullptr;
    *options = new capi::FindOptionsObject;
  });
}

miopenStatus_t miopenDestroyFindOptions(miopenFindOptions_t options) {
  return guard([&] { delete &capi::checked<capi::FindOptionsObject>(options); });
}

miopenStatus_t miopenSetFindOptionTuning(miopenFindOptions_t options, int value) {
  return guard([&] { deref(options).tune = value != 0; });
}

miopenStatus_t miopenSetFindOptionResultsOrder(miopenFindOptions_t options, miopenFindResultsOrder_t value) {
  return guard([&] {
    require(value == miopenFindResultsOrderByTime || value == miopenFindResultsOrderByWorkspaceSize,
            "results order {} is unknown: allowed are 0 (by time), 1 (by workspace size)", static_cast<int>(value));
    deref(options).order = value;
  });
}

miopenStatus_t miopenSetFindOptionWorkspaceLimit(miopenFindOptions_t options, size_t value) {
  return guard([&] { deref(options).workspace_limit = value; });
}

miopenStatus_t miopenSetFindOptionPreallocatedWorkspace(miopenFindOptions_t options, void* buffer, size_t size) {
  return guard([&] {
    FindOptionsState& o = deref(options);
    require(buffer || size == 0, "a workspace of {} bytes was given, but its buffer is null", size);
    o.workspace = {buffer, size};
  });
}

miopenStatus_t miopenSetFindOptionPreallocatedTensor(miopenFindOptions_t options, miopenTensorArgumentId_t id,
                                                     void* buffer) {
  return guard([&] {
    FindOptionsState& o = deref(options);
    capi::check_no_scalar(id);
    require(id != miopenTensorArgumentIdInvalid, "tensor id 0 is not a tensor");
    o.tensors[id] = not_null(buffer, "buffer");
  });
}

miopenStatus_t miopenSetFindOptionAttachBinaries(miopenFindOptions_t options, unsigned attach) {
  return guard([&] {
    deref(options);
    require(attach <= 1, "attach is {}: allowed are 0 and 1", attach);
  });
}
