// Group `pooling`.
// SPDX-License-Identifier: MIT
#include "capi/pooling.h"

#include <algorithm>
#include <cstring>

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
using capi::PoolingObject;
using capi::scalar;
using pooling::Index;
using pooling::Problem;

namespace {

/// A C caller's value may be outside the enumeration.
template <class Enum>
int number_of(Enum value) {
  int number = 0;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

void set(PoolingObject& p, int mode, std::span<const int> lengths, const int* pads, const int* strides) {
  p.mode = static_cast<pooling::Mode>(mode);
  p.window = {};
  p.window.rank = static_cast<int>(lengths.size());
  std::ranges::copy(lengths, p.window.length.begin());
  std::copy_n(pads, lengths.size(), p.window.pad.begin());
  std::copy_n(strides, lengths.size(), p.window.stride.begin());
  p.index = miopenIndexUint8;
  p.position = lengths.size() == 3 ? miopenPoolingWorkspaceIndexImage : miopenPoolingWorkspaceIndexMask;
}

/// The sizes of y, in `sizes` of x's rank.
void output_sizes(const PoolingObject& p, const TensorDesc& x, int* sizes) {
  pooling::validate(p.mode, p.window);
  require(x.rank == p.window.rank + 2, "the tensor has rank {}, the pooling descriptor has {} spatial dimensions",
          x.rank, p.window.rank);
  for (std::size_t d = 0; d < static_cast<std::size_t>(x.rank); ++d)
    sizes[d] = static_cast<int>(d < 2 ? x.lens[d] : p.window.outputs(d - 2, x.lens[d]));
}

Problem problem_of(const PoolingObject& p, bool indexed, const TensorDesc& x, const TensorDesc& y) {
  Problem problem;
  problem.mode = p.mode;
  problem.window = p.window;
  problem.x = x;
  problem.y = y;
  if (p.mode != pooling::Mode::kMax || !indexed) return problem;
  require(p.index >= miopenIndexUint8 && p.index <= miopenIndexUint64,
          "index type {} is unknown: allowed are 0 (uint8) to 3 (uint64)", p.index);
  problem.index = static_cast<Index>(p.index + 1);
  problem.position = static_cast<pooling::Position>(p.position);
  return problem;
}

void run(miopenHandle_t handle, const Problem& problem, const Problem::Args& args, const char* function) {
  capi::log_call(function, [&] {
    pooling::validate(problem);  // a key names valid values
    return problem.key() + capi::scale_flags(args.scale, args.keep);
  });
  pooling::run(deref(handle), problem, args);
}

}  // namespace

miopenStatus_t miopenCreatePoolingDescriptor(miopenPoolingDescriptor_t* poolDesc) {
  return guard([&] {
    not_null(poolDesc, "poolDesc");
    *poolDesc = new PoolingObject;
  });
}

miopenStatus_t miopenSetPoolingIndexType(miopenPoolingDescriptor_t poolDesc, miopenIndexType_t index_type) {
  return guard([&] { deref(poolDesc).index = number_of(index_type); });
}

miopenStatus_t miopenGetPoolingIndexType(miopenPoolingDescriptor_t poolDesc, miopenIndexType_t* index_type) {
  return guard([&] { *not_null(index_type, "index_type") = static_cast<miopenIndexType_t>(deref(poolDesc).index); });
}

miopenStatus_t miopenSetPoolingWorkSpaceIndexMode(miopenPoolingDescriptor_t poolDesc,
                                                  miopenPoolingWorkspaceIndexMode_t workspace_index) {
  return guard([&] { deref(poolDesc).position = number_of(workspace_index); });
}

miopenStatus_t miopenGetPoolingWorkSpaceIndexMode(miopenPoolingDescriptor_t poolDesc,
                                                  miopenPoolingWorkspaceIndexMode_t* workspace_index) {
  return guard([&] {
    *not_null(workspace_index, "workspace_index") =
        static_cast<miopenPoolingWorkspaceIndexMode_t>(deref(poolDesc).position);
  });
}

miopenStatus_t miopenSet2dPoolingDescriptor(miopenPoolingDescriptor_t poolDesc, miopenPoolingMode_t mode,
                                            int windowHeight, int windowWidth, int pad_h, int pad_w, int stride_h,
                                            int stride_w) {
  return guard([&] {
    const int lengths[] = {windowHeight, windowWidth}, pads[] = {pad_h, pad_w}, strides[] = {stride_h, stride_w};
    set(deref(poolDesc), number_of(mode), lengths, pads, strides);
  });
}

miopenStatus_t miopenGet2dPoolingDescriptor(const miopenPoolingDescriptor_t poolDesc, miopenPoolingMode_t* mode,
                                            int* windowHeight, int* windowWidth, int* pad_h, int* pad_w, int* stride_h,
                                            int* stride_w) {
  return guard([&] {
    const PoolingObject& p = deref(poolDesc);
    require(p.window.rank == 2, "the pooling descriptor has {} spatial dimensions, this function returns 2",
            p.window.rank);
    not_null(mode, "mode");
    int* const values[] = {not_null(windowHeight, "windowHeight"),
                           not_null(windowWidth, "windowWidth"),
                           not_null(pad_h, "pad_h"),
                           not_null(pad_w, "pad_w"),
                           not_null(stride_h, "stride_h"),
                           not_null(stride_w, "stride_w")};
    *mode = static_cast<miopenPoolingMode_t>(p.mode);
    for (std::size_t i = 0; i < 6; ++i)
      *values[i] = static_cast<int>((i < 2 ? p.window.length : i < 4 ? p.window.pad : p.window.stride)[i % 2]);
  });
}

miopenStatus_t miopenGetPoolingForwardOutputDim(const miopenPoolingDescriptor_t poolDesc,
                                                const miopenTensorDescriptor_t tensorDesc, int* n, int* c, int* h,
                                                int* w) {
  return guard([&] {
    const PoolingObject& p = deref(poolDesc);
    const TensorDesc& x = described(tensorDesc, "the tensor");
    require(x.rank == 4, "the tensor has rank {}, this function takes 4 dimensions: N, C, H, W", x.rank);
    int* const results[] = {not_null(n, "n"), not_null(c, "c"), not_null(h, "h"), not_null(w, "w")};
    int sizes[4];
    output_sizes(p, x, sizes);
    for (std::size_t d = 0; d < 4; ++d) *results[d] = sizes[d];
  });
}

miopenStatus_t miopenSetNdPoolingDescriptor(miopenPoolingDescriptor_t poolDesc, const miopenPoolingMode_t mode,
                                            int nbDims, const int* windowDimA, const int* padA, const int* stridesA) {
  return guard([&] {
    PoolingObject& p = deref(poolDesc);
    require(nbDims >= 1 && nbDims <= pooling::kMostSpatial, "nbDims is {}: 1 to 3 spatial dimensions are allowed",
            nbDims);
    const std::span lengths(not_null(windowDimA, "windowDimA"), static_cast<std::size_t>(nbDims));
    set(p, number_of(mode), lengths, not_null(padA, "padA"), not_null(stridesA, "stridesA"));
  });
}

miopenStatus_t miopenGetNdPoolingDescriptor(const miopenPoolingDescriptor_t poolDesc, int nbDimsRequested,
                                            miopenPoolingMode_t* mode, int* nbDims, int* windowDimA, int* padA,
                                            int* stridesA) {
  return guard([&] {
    const PoolingObject& p = deref(poolDesc);
    require(nbDimsRequested >= 0, "nbDimsRequested is {}: it must be at least 0", nbDimsRequested);
    if (mode) *mode = static_cast<miopenPoolingMode_t>(p.mode);
    if (nbDims) *nbDims = p.window.rank;
    const auto n = static_cast<std::size_t>(std::min(nbDimsRequested, p.window.rank));
    for (std::size_t d = 0; d < n; ++d) {
      if (windowDimA) windowDimA[d] = static_cast<int>(p.window.length[d]);
      if (padA) padA[d] = static_cast<int>(p.window.pad[d]);
      if (stridesA) stridesA[d] = static_cast<int>(p.window.stride[d]);
    }
  });
}

miopenStatus_t miopenGetPoolingNdForwardOutputDim(const miopenPoolingDescriptor_t poolDesc,
                                                  const miopenTensorDescriptor_t tensorDesc, int dims,
                                                  int* tensorDimArr) {
  return guard([&] {
    const PoolingObject& p = deref(poolDesc);
    const TensorDesc& x = described(tensorDesc, "the tensor");
    require(dims == x.rank && x.rank >= 3 && x.rank <= 5,
            "dims is {} and the tensor has rank {}: they must be equal, from 3 to 5", dims, x.rank);
    output_sizes(p, x, not_null(tensorDimArr, "tensorDimArr"));
  });
}

miopenStatus_t miopenPoolingGetWorkSpaceSize(const miopenTensorDescriptor_t yDesc, size_t* workSpaceSize) {
  return guard(
      [&] { *not_null(workSpaceSize, "workSpaceSize") = static_cast<std::size_t>(described(yDesc, "y").count()); });
}

miopenStatus_t miopenPoolingGetWorkSpaceSizeV2(const miopenPoolingDescriptor_t poolDesc,
                                               const miopenTensorDescriptor_t yDesc, size_t* workSpaceSize) {
  return guard([&] {
    const PoolingObject& p = deref(poolDesc);
    const TensorDesc& y = described(yDesc, "y");
    *not_null(workSpaceSize, "workSpaceSize") = index_bytes(problem_of(p, true, y, y));
  });
}

miopenStatus_t miopenPoolingForward(miopenHandle_t handle, const miopenPoolingDescriptor_t poolDesc, const void* alpha,
                                    const miopenTensorDescriptor_t xDesc, const void* x, const void* beta,
                                    const miopenTensorDescriptor_t yDesc, void* y, bool do_backward, void* workSpace,
                                    size_t workSpaceSize) {
  return guard([&] {
    const Problem problem = problem_of(deref(poolDesc), do_backward, described(xDesc, "x"), described(yDesc, "y"));
    Problem::Args args;
    args.x = not_null(x, "the buffer of x");
    args.result = not_null(y, "the buffer of y");
    args.scale = scalar(alpha, problem.y.type, "alpha");
    args.keep = scalar(beta, problem.y.type, "beta");
    args.index = workSpace;
    if (problem.index != Index::kNone) {
      const std::size_t bytes = index_bytes(problem);
      if (!workSpace)
        fail(Status::kUnknownError,
             "the workspace is null: with do_backward a maximum pooling writes {} bytes of indices", bytes);
      // MIOpen ignores the size, and its driver passes 0.
      require(workSpaceSize == 0 || workSpaceSize >= bytes, "the workspace has {} bytes, the indices need {}",
              workSpaceSize, bytes);
    }
    run(handle, problem, args, "miopenPoolingForward");
  });
}

miopenStatus_t miopenPoolingBackward(miopenHandle_t handle, const miopenPoolingDescriptor_t poolDesc, const void* alpha,
                                     const miopenTensorDescriptor_t yDesc, const void*,
                                     const miopenTensorDescriptor_t dyDesc, const void* dy,
                                     const miopenTensorDescriptor_t xDesc, const void* x, const void* beta,
                                     const miopenTensorDescriptor_t dxDesc, void* dx, void* workSpace) {
  return guard([&] {
    Problem problem = problem_of(deref(poolDesc), workSpace != nullptr, described(xDesc, "x"), described(yDesc, "y"));
    problem.direction = pooling::Direction::kBackward;
    problem.dy = described(dyDesc, "dy");
    problem.dx = described(dxDesc, "dx");
    Problem::Args args;
    if (problem.searches_x()) args.x = not_null(x, "the workspace has no indices and the buffer of x");
    args.dy = not_null(dy, "the buffer of dy");
    args.result = not_null(dx, "the buffer of dx");
    args.scale = scalar(alpha, problem.dx.type, "alpha");
    args.keep = scalar(beta, problem.dx.type, "beta");
    args.index = workSpace;
    run(handle, problem, args, "miopenPoolingBackward");
  });
}

miopenStatus_t miopenDestroyPoolingDescriptor(miopenPoolingDescriptor_t poolDesc) {
  return guard([&] { delete &deref(poolDesc); });
}
