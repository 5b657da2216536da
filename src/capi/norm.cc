// Groups `layernorm` and `groupnorm`.
// SPDX-License-Identifier: MIT
#include "primitives/norm/norm.h"

#include <miopen/groupnorm.h>
#include <miopen/layernorm.h>

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
using norm::Affine;
using norm::Direction;
using norm::Kind;
using norm::Problem;
using norm::Tensors;

namespace {

/// Whether weight and bias are used; `first` is the mode of the function without them.
Affine affine_of(miopenNormMode_t mode, miopenNormMode_t first) {
  int number = 0;  // memcpy: a C caller's value may be outside the enumeration
  std::memcpy(&number, &mode, sizeof number);
  require(number == first || number == first + 1,
          "mode is {}: this function takes {} (without weight and bias) and {} (with them)", number,
          static_cast<int>(first), first + 1);
  return number == first ? Affine::kNo : Affine::kYes;
}

/// Logs the MIOpenDriver line of the call, then runs it.
void run(Handle& handle, const Problem& problem, const Problem::Args& args, const char* function) {
  capi::log_call(function, [&] { return fmt::format("{} -e {}", problem.key(), args.epsilon); });
  norm::run(handle, problem, args);
}

/// The descriptors of weight and bias, which need only fit where they are used.
void describe_parameters(Tensors& t, Affine affine, miopenTensorDescriptor_t weight, miopenTensorDescriptor_t bias) {
  const TensorDesc *const w = &described(weight, "weight"), *const b = &described(bias, "bias");
  if (affine == Affine::kNo) return;
  t.weight = w;
  t.bias = b;
}

void forward(Kind kind, Affine affine, const norm::Extent& extent, const Tensors& tensors, const Problem::Args& given,
             Handle& handle, const char* function) {
  Problem::Args args = given;
  not_null(args.x, "the buffer of x");
  not_null(args.y, "the buffer of y");
  if (affine == Affine::kNo) args.weight = args.bias = nullptr;
  if (affine == Affine::kYes) not_null(args.weight, "the buffer of weight");
  if (affine == Affine::kYes && kind != Kind::kRms) not_null(args.bias, "the buffer of bias");
  run(handle, norm::make_problem(kind, Direction::kForward, affine, extent, tensors), args, function);
}

/// Checks the descriptors of a backward call by making its problem.
Problem layer_backward(miopenNormMode_t mode, miopenTensorDescriptor_t dy, miopenTensorDescriptor_t x,
                       miopenTensorDescriptor_t weight, miopenTensorDescriptor_t mean, miopenTensorDescriptor_t rstd,
                       std::int32_t normalized_dim, miopenTensorDescriptor_t dx, miopenTensorDescriptor_t dw,
                       miopenTensorDescriptor_t db) {
  const Affine affine = affine_of(mode, MIOPEN_ELEMENTWISE_AFFINE);
  const TensorDesc* const of_weight = &described(weight, "weight");
  const Tensors tensors{.x = &described(x, "x"),
                        .dy = &described(dy, "dy"),
                        .dx = &described(dx, "dx"),
                        .weight = affine == Affine::kYes ? of_weight : nullptr,
                        .mean = &described(mean, "mean"),
                        .rstd = &described(rstd, "rstd"),
                        .dw = &described(dw, "dw"),
                        .db = &described(db, "db")};
  return norm::make_problem(Kind::kLayer, Direction::kBackward, affine, {normalized_dim}, tensors);
}

Problem t5_backward(miopenNormMode_t mode, miopenTensorDescriptor_t dy, miopenTensorDescriptor_t x,
                    miopenTensorDescriptor_t weight, miopenTensorDescriptor_t rstd, miopenTensorDescriptor_t dx,
                    miopenTensorDescriptor_t dw) {
  const Affine affine = affine_of(mode, MIOPEN_ELEMENTWISE_AFFINE_T5);
  const TensorDesc* const of_weight = &described(weight, "weight");
  const Tensors tensors{.x = &described(x, "x"),
                        .dy = &described(dy, "dy"),
                        .dx = &described(dx, "dx"),
                        .weight = affine == Affine::kYes ? of_weight : nullptr,
                        .rstd = &described(rstd, "rstd"),
                        .dw = &described(dw, "dw")};
  return norm::make_problem(Kind::kRms, Direction::kBackward, affine, {}, tensors);
}

/// No solver needs workspace; the problem must be valid.
void put_workspace_size(miopenHandle_t handle, const Problem& problem, std::size_t* size) {
  deref(handle);
  norm::validate(problem);
  *not_null(size, "sizeInBytes") = 0;
}

void backward(const Problem& problem, Problem::Args args, Handle& handle, const char* function) {
  const bool rms = problem.kind == Kind::kRms;
  for (const auto& [data, name] : {std::pair<const void*, const char*>{args.dy, "the buffer of dy"},
                                   {args.x, "the buffer of x"},
                                   {args.rstd, "the buffer of rstd"},
                                   {args.dx, "the buffer of dx"},
                                   {args.dw, "the buffer of dw"}})
    not_null(data, name);
  if (!rms) not_null(args.mean, "the buffer of mean");
  if (!rms) not_null(args.db, "the buffer of db");
  if (problem.affine == Affine::kNo) args.weight = nullptr;
  if (problem.affine == Affine::kYes) not_null(args.weight, "the buffer of weight");
  run(handle, problem, args, function);
}

}  // namespace

miopenStatus_t miopenLayerNormForward(miopenHandle_t handle, miopenNormMode_t mode,
                                      const miopenTensorDescriptor_t xDesc, const void* x,
                                      const miopenTensorDescriptor_t weightDesc, const void* weight,
                                      const miopenTensorDescriptor_t biasDesc, const void* bias, const float epsilon,
                                      const int32_t normalized_dim, const miopenTensorDescriptor_t yDesc, void* y,
                                      const miopenTensorDescriptor_t meanDesc, void* mean,
                                      const miopenTensorDescriptor_t rstdDesc, void* rstd) {
  return guard([&] {
    const Affine affine = affine_of(mode, MIOPEN_ELEMENTWISE_AFFINE);
    Tensors t{.x = &described(xDesc, "x"),
              .y = &described(yDesc, "y"),
              .mean = &described(meanDesc, "mean"),
              .rstd = &described(rstdDesc, "rstd")};
    describe_parameters(t, affine, weightDesc, biasDesc);
    forward(Kind::kLayer, affine, {normalized_dim}, t,
            {.x = x, .weight = weight, .bias = bias, .y = y, .mean = mean, .rstd = rstd, .epsilon = epsilon},
            deref(handle), "miopenLayerNormForward");
  });
}

miopenStatus_t miopenAddLayerNormForward(miopenHandle_t handle, miopenNormMode_t mode,
                                         const miopenTensorDescriptor_t xDesc, const void* x,
                                         const miopenTensorDescriptor_t x2Desc, const void* x2,
                                         const miopenTensorDescriptor_t weightDesc, const void* weight,
                                         const miopenTensorDescriptor_t biasDesc, const void* bias, const float epsilon,
                                         const int32_t normalized_dim, const miopenTensorDescriptor_t yDesc, void* y,
                                         const miopenTensorDescriptor_t meanDesc, void* mean,
                                         const miopenTensorDescriptor_t rstdDesc, void* rstd) {
  return guard([&] {
    const Affine affine = affine_of(mode, MIOPEN_ELEMENTWISE_AFFINE_FUSED_ADD);
    Tensors t{.x = &described(xDesc, "x"),
              .x2 = &described(x2Desc, "x2"),
              .y = &described(yDesc, "y"),
              .mean = &described(meanDesc, "mean"),
              .rstd = &described(rstdDesc, "rstd")};
    describe_parameters(t, affine, weightDesc, biasDesc);
    not_null(x2, "the buffer of x2");
    forward(Kind::kAddLayer, affine, {normalized_dim}, t,
            {.x = x, .x2 = x2, .weight = weight, .bias = bias, .y = y, .mean = mean, .rstd = rstd, .epsilon = epsilon},
            deref(handle), "miopenAddLayerNormForward");
  });
}

miopenStatus_t miopenT5LayerNormForward(miopenHandle_t handle, miopenNormMode_t mode,
                                        const miopenTensorDescriptor_t xDesc, const void* x,
                                        const miopenTensorDescriptor_t weightDesc, const void* weight,
                                        const float epsilon, const miopenTensorDescriptor_t yDesc, void* y,
                                        const miopenTensorDescriptor_t rstdDesc, void* rstd) {
  return guard([&] {
    const Affine affine = affine_of(mode, MIOPEN_ELEMENTWISE_AFFINE_T5);
    const TensorDesc* const of_weight = &described(weightDesc, "weight");
    const Tensors t{.x = &described(xDesc, "x"),
                    .y = &described(yDesc, "y"),
                    .weight = affine == Affine::kYes ? of_weight : nullptr,
                    .rstd = &described(rstdDesc, "rstd")};
    forward(Kind::kRms, affine, {}, t, {.x = x, .weight = weight, .y = y, .rstd = rstd, .epsilon = epsilon},
            deref(handle), "miopenT5LayerNormForward");
  });
}

miopenStatus_t miopenGetT5LayerNormBackwardWorkspaceSize(miopenHandle_t handle, miopenNormMode_t mode,
                                                         const miopenTensorDescriptor_t dyDesc,
                                                         const miopenTensorDescriptor_t xDesc,
                                                         const miopenTensorDescriptor_t weightDesc,
                                                         const miopenTensorDescriptor_t rstdDesc,
                                                         const miopenTensorDescriptor_t dxDesc,
                                                         const miopenTensorDescriptor_t dwDesc, size_t* sizeInBytes) {
  return guard([&] {
    put_workspace_size(handle, t5_backward(mode, dyDesc, xDesc, weightDesc, rstdDesc, dxDesc, dwDesc), sizeInBytes);
  });
}

miopenStatus_t miopenT5LayerNormBackward(miopenHandle_t handle, miopenNormMode_t mode, void*, size_t,
                                         const miopenTensorDescriptor_t dyDesc, const void* dy,
                                         const miopenTensorDescriptor_t xDesc, const void* x,
                                         const miopenTensorDescriptor_t weightDesc, const void* weight,
                                         const miopenTensorDescriptor_t rstdDesc, const void* rstd,
                                         const miopenTensorDescriptor_t dxDesc, void* dx,
                                         const miopenTensorDescriptor_t dwDesc, void* dw) {
  return guard([&] {
    backward(t5_backward(mode, dyDesc, xDesc, weightDesc, rstdDesc, dxDesc, dwDesc),
             {.x = x, .weight = weight, .dy = dy, .rstd = const_cast<void*>(rstd), .dx = dx, .dw = dw}, deref(handle),
             "miopenT5LayerNormBackward");
  });
}

miopenStatus_t miopenGetLayerNormBackwardWorkspaceSize(
    miopenHandle_t handle, miopenNormMode_t mode, const miopenTensorDescriptor_t dyDesc,
    const miopenTensorDescriptor_t xDesc, const miopenTensorDescriptor_t weightDesc,
    const miopenTensorDescriptor_t meanDesc, const miopenTensorDescriptor_t rstdDesc, const int32_t normalized_dim,
    const miopenTensorDescriptor_t dxDesc, const miopenTensorDescriptor_t dwDesc, const miopenTensorDescriptor_t dbDesc,
    size_t* sizeInBytes) {
  return guard([&] {
    put_workspace_size(
        handle,
        layer_backward(mode, dyDesc, xDesc, weightDesc, meanDesc, rstdDesc, normalized_dim, dxDesc, dwDesc, dbDesc),
        sizeInBytes);
  });
}

miopenStatus_t miopenLayerNormBackward(
    miopenHandle_t handle, miopenNormMode_t mode, void*, size_t, const miopenTensorDescriptor_t dyDesc, const void* dy,
    const miopenTensorDescriptor_t xDesc, const void* x, const miopenTensorDescriptor_t weightDesc, const void* weight,
    const miopenTensorDescriptor_t meanDesc, const void* mean, const miopenTensorDescriptor_t rstdDesc,
    const void* rstd, const int32_t normalized_dim, const miopenTensorDescriptor_t dxDesc, void* dx,
    const miopenTensorDescriptor_t dwDesc, void* dw, const miopenTensorDescriptor_t dbDesc, void* db) {
  return guard([&] {
    backward(
        layer_backward(mode, dyDesc, xDesc, weightDesc, meanDesc, rstdDesc, normalized_dim, dxDesc, dwDesc, dbDesc),
        {.x = x,
         .weight = weight,
         .dy = dy,
         .mean = const_cast<void*>(mean),
         .rstd = const_cast<void*>(rstd),
         .dx = dx,
         .dw = dw,
         .db = db},
        deref(handle), "miopenLayerNormBackward");
  });
}

miopenStatus_t miopenGroupNormForward(
    miopenHandle_t handle, miopenNormMode_t mode, const miopenTensorDescriptor_t xDesc, const void* x,
    const miopenTensorDescriptor_t weightDesc, const void* weight, const miopenTensorDescriptor_t biasDesc,
    const void* bias, const uint64_t num_groups, const float epsilon, const miopenTensorDescriptor_t yDesc, void* y,
    const miopenTensorDescriptor_t meanDesc, void* mean, const miopenTensorDescriptor_t rstdDesc, void* rstd) {
  return guard([&] {
    const Affine affine = affine_of(mode, MIOPEN_ELEMENTWISE_AFFINE);
    Tensors t{.x = &described(xDesc, "x"),
              .y = &described(yDesc, "y"),
              .mean = &described(meanDesc, "mean"),
              .rstd = &described(rstdDesc, "rstd")};
    describe_parameters(t, affine, weightDesc, biasDesc);
    forward(Kind::kGroup, affine, {1, static_cast<std::int64_t>(num_groups)}, t,
            {.x = x, .weight = weight, .bias = bias, .y = y, .mean = mean, .rstd = rstd, .epsilon = epsilon},
            deref(handle), "miopenGroupNormForward");
  });
}
