// Group `tensor`, descriptors: create, set, get, destroy. Arithmetic is in tensor_ops.cc.
// SPDX-License-Identifier: MIT
#include "capi/common/tensor.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/sequence.h"

using namespace polymio;
using capi::deref;
using capi::guard;
using capi::not_null;

namespace {

template <class T>
std::vector<std::int64_t> widen(const T* values, int count, const char* name) {
  if (!values) fail(Status::kInvalidValue, "{} is null", name);
  if (count <= 0) fail(Status::kInvalidValue, "the number of dimensions must be positive, {} was given", count);
  require(count <= kMaxRank, "{} dimensions were given, at most {} are supported", count, kMaxRank);
  std::vector<std::int64_t> wide;
  for (int i = 0; i < count; ++i) {
    if constexpr (std::is_unsigned_v<T>)
      require(values[i] <= static_cast<T>(std::numeric_limits<std::int64_t>::max()), "{}[{}] exceeds 2^63 - 1", name,
              i);
    wide.push_back(static_cast<std::int64_t>(values[i]));
  }
  return wide;
}

/// The tensor of a descriptor that has been set; else BadParm.
const TensorDesc& filled(miopenTensorDescriptor_t tensor) { return capi::described(tensor, "the tensor"); }

template <class T>
void set(miopenTensorDescriptor_t tensor, miopenDataType_t type, int count, const T* lens, const T* strides) {
  auto& object = capi::checked<capi::TensorObject>(tensor);
  const auto wide = widen(lens, count, "dimsA");
  object.desc = make_tensor(static_cast<DataType>(type), wide,
                            strides ? widen(strides, count, "stridesA") : std::vector<std::int64_t>{});
  object.layout.reset();
}

void narrow(int* out, std::int64_t value, const char* what) {
  if (!out) return;
  require(value <= std::numeric_limits<int>::max(), "{} is {}, which does not fit an int", what, value);
  *out = static_cast<int>(value);
}

}  // namespace

miopenStatus_t miopenCreateTensorDescriptor(miopenTensorDescriptor_t* tensorDesc) {
  return guard([&] {
    not_null(tensorDesc, "tensorDesc");
    *tensorDesc = new capi::TensorObject;
  });
}

miopenStatus_t miopenDestroyTensorDescriptor(miopenTensorDescriptor_t tensorDesc) {
  return guard([&] { delete &capi::checked<capi::TensorObject>(tensorDesc); });
}

miopenStatus_t miopenSet4dTensorDescriptor(miopenTensorDescriptor_t tensorDesc, miopenDataType_t dataType, int n, int c,
                                           int h, int w) {
  return guard([&] {
    const int lens[] = {n, c, h, w};
    if (std::ranges::any_of(lens, [](int size) { return size != 0; }))
      return set<int>(tensorDesc, dataType, 4, lens, nullptr);
    // Older programs do so in a default constructor; described() refuses to use it.
    const int one = 1;
    set<int>(tensorDesc, dataType, 1, &one, nullptr);  // checks the type
    deref(tensorDesc) = TensorDesc();
  });
}

miopenStatus_t miopenSet4dTensorDescriptorEx(miopenTensorDescriptor_t tensorDesc, miopenDataType_t dataType, int n,
                                             int c, int h, int w, int nStride, int cStride, int hStride, int wStride) {
  return guard([&] {
    const int lens[] = {n, c, h, w}, strides[] = {nStride, cStride, hStride, wStride};
    set<int>(tensorDesc, dataType, 4, lens, strides);
  });
}

miopenStatus_t miopenSetNdTensorDescriptorWithLayout(miopenTensorDescriptor_t tensorDesc, miopenDataType_t dataType,
                                                     miopenTensorLayout_t tensorLayout, const int* lens, int num_lens) {
  return guard([&] {
    auto& object = capi::checked<capi::TensorObject>(tensorDesc);
    const auto layout = static_cast<Layout>(tensorLayout);
    object.desc = make_tensor(static_cast<DataType>(dataType), layout, widen(lens, num_lens, "lens"));
    object.layout = layout;
  });
}

miopenStatus_t miopenSetTensorDescriptor(miopenTensorDescriptor_t tensorDesc, miopenDataType_t dataType, int nbDims,
                                         const int* dimsA, const int* stridesA) {
  return guard([&] { set(tensorDesc, dataType, nbDims, dimsA, stridesA); });
}

miopenStatus_t miopenSetTensorDescriptorV2(miopenTensorDescriptor_t tensorDesc, miopenDataType_t dataType, int nbDims,
                                           const size_t* dimsA, const size_t* stridesA) {
  return guard([&] { set(tensorDesc, dataType, nbDims, dimsA, stridesA); });
}

miopenStatus_t miopenSetTensorCastType(miopenTensorDescriptor_t tensorDesc, miopenDataType_t cast_type) {
  return guard([&] {
    TensorDesc& desc = deref(tensorDesc);
    const auto type = static_cast<DataType>(cast_type);
    require(desc.rank > 0, "set the tensor descriptor before its cast type");
    require(
        is_valid(type) && (is_fp8(type) || type == desc.type),
        "cast type {} is not allowed: float8 7, bfloat8 8, e4m3fn 256, e5m2 257, or the tensor's own type for no casts",
        static_cast<int>(cast_type));
    require(!is_integer(desc.type) || type == desc.type, "integer tensors have no cast type");
    desc.cast = type;
  });
}

miopenStatus_t miopenGet4dTensorDescriptor(miopenTensorDescriptor_t tensorDesc, miopenDataType_t* dataType, int* n,
                                           int* c, int* h, int* w, int* nStride, int* cStride, int* hStride,
                                           int* wStride) {
  return guard([&] {
    const TensorDesc& desc = deref(tensorDesc);
    require(desc.rank == 4, "the tensor has rank {}, this function is for rank 4", desc.rank);
    if (dataType) *dataType = static_cast<miopenDataType_t>(desc.type);
    int* const lens[] = {n, c, h, w};
    int* const strides[] = {nStride, cStride, hStride, wStride};
    for (std::size_t i = 0; i < 4; ++i) {
      narrow(lens[i], desc.lens[i], "a length");
      narrow(strides[i], desc.strides[i], "a stride");
    }
  });
}

miopenStatus_t miopenGetTensorDescriptorSize(miopenTensorDescriptor_t tensorDesc, int* size) {
  return guard([&] { *not_null(size, "size") = deref(tensorDesc).rank; });
}

miopenStatus_t miopenGetTensorDescriptor(miopenTensorDescriptor_t tensorDesc, miopenDataType_t* dataType, int* dimsA,
                                         int* stridesA) {
  return guard([&] {
    const TensorDesc& desc = deref(tensorDesc);
    if (dataType) *dataType = static_cast<miopenDataType_t>(desc.type);
    for (std::size_t i = 0; i < static_cast<std::size_t>(desc.rank); ++i) {
      narrow(dimsA ? dimsA + i : nullptr, desc.lens[i], "a length");
      narrow(stridesA ? stridesA + i : nullptr, desc.strides[i], "a stride");
    }
  });
}

miopenStatus_t miopenGetTensorDescriptorV2(miopenTensorDescriptor_t tensorDesc, miopenDataType_t* dataType,
                                           size_t* dimsA, size_t* stridesA) {
  return guard([&] {
    const TensorDesc& desc = deref(tensorDesc);
    if (dataType) *dataType = static_cast<miopenDataType_t>(desc.type);
    for (std::size_t i = 0; i < static_cast<std::size_t>(desc.rank); ++i) {
      if (dimsA) dimsA[i] = static_cast<size_t>(desc.lens[i]);
      if (stridesA) stridesA[i] = static_cast<size_t>(desc.strides[i]);
    }
  });
}

miopenStatus_t miopenGetTensorLayout(miopenTensorDescriptor_t tensorDesc, miopenTensorLayout_t* layout) {
  return guard([&] {
    const TensorDesc& desc = filled(tensorDesc);
    not_null(layout, "layout");
    const auto given = capi::checked<capi::TensorObject>(tensorDesc).layout;
    const auto found = given ? given : layout_of(desc);
    if (!found)
      fail(Status::kNotImplemented, "no layout has the sizes [{}] and the strides [{}]", fmt::join(desc.sizes(), ", "),
           fmt::join(std::span(desc.strides).first(static_cast<std::size_t>(desc.rank)), ", "));
    *layout = static_cast<miopenTensorLayout_t>(*found);
  });
}

miopenStatus_t miopenGetTensorElementSpace(miopenTensorDescriptor_t tensorDesc, size_t* elementSpace) {
  return guard([&] {
    const TensorDesc& desc = deref(tensorDesc);
    *not_null(elementSpace, "elementSpace") = desc.rank ? static_cast<size_t>(desc.space()) : 0;
  });
}

miopenStatus_t miopenIsTensorPacked(miopenTensorDescriptor_t tensorDesc, bool* isPacked) {
  return guard([&] { *not_null(isPacked, "isPacked") = filled(tensorDesc).packed(); });
}

miopenStatus_t miopenGetTensorVectorLength(miopenTensorDescriptor_t tensorDesc, size_t* vectorLength) {
  return guard([&] { *not_null(vectorLength, "vectorLength") = static_cast<size_t>(deref(tensorDesc).vector_length); });
}

miopenStatus_t miopenGetTensorNumBytes(miopenTensorDescriptor_t tensorDesc, size_t* numBytes) {
  return guard([&] {
    const TensorDesc& desc = deref(tensorDesc);
    *not_null(numBytes, "numBytes") = desc.rank ? desc.bytes() : 0;
  });
}

miopenStatus_t miopenCreateSeqTensorDescriptor(miopenSeqTensorDescriptor_t* tensorDesc) {
  return guard([&] {
    not_null(tensorDesc, "tensorDesc");
    *tensorDesc = new capi::SeqTensorObject;
  });
}

miopenStatus_t miopenDestroySeqTensorDescriptor(miopenSeqTensorDescriptor_t tensorDesc) {
  return guard([&] { delete &deref(tensorDesc); });
}
