// Group `kthvalue`.
// SPDX-License-Identifier: MIT
#include "primitives/kthvalue/kthvalue.h"

#include <miopen/kthvalue.h>

#include "capi/common/arguments.h"
#include "capi/common/dimension.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/common/log_call.h"
#include "capi/common/tensor.h"

using namespace polymio;
using capi::deref;
using capi::described;
using capi::guard;
using capi::not_null;

miopenStatus_t miopenKthvalueForward(miopenHandle_t handle, miopenTensorDescriptor_t inputDesc, const void* input,
                                     miopenTensorDescriptor_t outputDesc, void* output,
                                     miopenTensorDescriptor_t indicesDesc, size_t* indices, size_t k, int32_t dim,
                                     bool keepDim) {
  return guard([&] {
    kthvalue::Problem p;
    p.x = described(inputDesc, "the input");
    p.selection.dim = dim < 0 ? dim + p.x.rank : dim;
    require(p.selection.dim >= 0 && p.selection.dim < p.x.rank,
            "dimension {} is not one of the {} of the input: allowed are {} to {}", dim, p.x.rank, -p.x.rank,
            p.x.rank - 1);
    const auto wide = [&](miopenTensorDescriptor_t desc, const char* name) {
      const TensorDesc& t = described(desc, name);
      return keepDim ? t : capi::with_dimension(p.x, "the input", t, name, static_cast<int>(p.selection.dim));
    };
    p.y = wide(outputDesc, "the output");
    p.indices = wide(indicesDesc, "the indices");
    require(k >= 1 && k <= static_cast<std::size_t>(p.length()),
            "k is {}: allowed are 1 to {}, the size of dimension {}", k, p.length(), p.selection.dim);
    p.selection.k = static_cast<std::int64_t>(k);
    capi::log_call("miopenKthvalueForward", [&] { return p.key() + (keepDim ? " -K 1" : ""); });
    static_assert(sizeof(size_t) == sizeof(std::uint64_t));
    kthvalue::run(deref(handle), p,
                  {not_null(input, "the buffer of the input"), not_null(output, "the buffer of the output"),
                   not_null(indices, "the buffer of indices")});
  });
}
