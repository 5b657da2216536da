// Group `getitem`.
// SPDX-License-Identifier: MIT
#include "primitives/getitem/getitem.h"

#include <fmt/format.h>
#include <miopen/getitem.h>

#include <vector>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/common/log_call.h"
#include "capi/common/tensor.h"

using namespace polymio;
using capi::deref;
using capi::described;
using capi::guard;
using capi::not_null;
using getitem::Operand;

namespace {

const TensorDesc& index_desc(const miopenTensorDescriptor_t* descs, std::uint32_t i) {
  return described(not_null(descs, "indexDescs")[i], fmt::format("index tensor {}", i).c_str());
}

/// The driver's index tensors have one shape, and it sets no errors.
std::string command_of(const getitem::Backward& b) {
  std::string line = base_arg("getitem", b.dx.desc->type, 2) +
                     fmt::format(" -I {} -O {}", capi::shape_text(*b.dx.desc), capi::shape_text(*b.dy.desc));
  if (b.indices.empty()) line += " -D -";
  if (!b.indices.empty())
    line += fmt::format(" -N {} -D {}", capi::shape_text(*b.indices[0].desc), fmt::join(b.dims, ","));
  for (std::size_t i = 0; i < b.slices.size(); ++i) {
    const auto& [dim, begin, end, step] = b.slices[i];
    line += fmt::format("{}{},{},{},{}", i == 0 ? " --slices " : ",", dim, begin, end, step);
  }
  return line + (b.offset == 0 ? "" : fmt::format(" -f {}", b.offset));
}

}  // namespace

miopenStatus_t miopenGetGetitemWorkspaceSize(miopenHandle_t handle, uint32_t indexCount,
                                             const miopenTensorDescriptor_t* indexDescs, size_t* sizeInBytes) {
  return guard([&] {
    deref(handle);
    not_null(sizeInBytes, "sizeInBytes");
    std::int64_t count = 0;
    for (std::uint32_t i = 0; i < indexCount; ++i) count = std::max(count, index_desc(indexDescs, i).count());
    *sizeInBytes = indexCount == 0 ? 0 : getitem::workspace_bytes(count);
  });
}

miopenStatus_t miopenGetitemBackward(miopenHandle_t handle, void* workspace, size_t workspaceSizeInBytes,
                                     const miopenTensorDescriptor_t dyDesc, const void* dy, uint32_t indexCount,
                                     const miopenTensorDescriptor_t* indexDescs, const void* const* indexs,
                                     const miopenTensorDescriptor_t dxDesc, void* dx,
                                     const miopenTensorDescriptor_t errorDesc, void* error, uint32_t dimCount,
                                     const int32_t* dims, uint32_t sliceCount, const int32_t* slices, uint32_t offset) {
  return guard([&] {
    getitem::Backward b;
    b.dy = {&described(dyDesc, "dy"), const_cast<void*>(not_null(dy, "the buffer of dy"))};
    b.dx = {&described(dxDesc, "dx"), not_null(dx, "the buffer of dx")};
    require(indexCount <= kMaxRank, "{} index tensors are given: at most {} are possible", indexCount, kMaxRank);
    std::vector<Operand> indices;
    for (std::uint32_t i = 0; i < indexCount; ++i) {
      const TensorDesc& desc = index_desc(indexDescs, i);
      require(indexs && indexs[i], "the buffer of index tensor {} is null", i);
      indices.push_back({&desc, const_cast<void*>(indexs[i])});
    }
    b.indices = indices;
    require(dims || dimCount == 0, "dims is null, but dimCount is {}", dimCount);
    b.dims = {dims, dimCount};
    require(slices || sliceCount == 0, "slices is null, but sliceCount is {}", sliceCount);
    require(sliceCount <= kMaxRank, "{} slices are given: at most {} are possible", sliceCount, kMaxRank);
    std::vector<getitem::Slice> all;
    for (std::uint32_t i = 0; i < sliceCount; ++i, slices += 4)
      all.push_back({slices[0], slices[1], slices[2], slices[3]});
    b.slices = all;
    b.offset = offset;
    require(!errorDesc == !error, "error has a {}, but no {}: give both or neither",
            errorDesc ? "descriptor" : "buffer", errorDesc ? "buffer" : "descriptor");
    if (error) b.error = {&described(errorDesc, "error"), error};
    capi::log_call("miopenGetitemBackward", [&] { return command_of(b); });
    deref(handle).run([&](Stream& stream) { getitem::backward(stream, b, workspace, workspaceSizeInBytes); });
  });
}
