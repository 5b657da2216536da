// Groups `TensorReduce`, `reducecalculation` and `ReduceExtreme`.
// SPDX-License-Identifier: MIT
#include "capi/reduce.h"

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
using capi::ReduceObject;
using capi::scalar;
using reduce::Nan;
using reduce::Op;
using reduce::Problem;

namespace {

/// The number of an enumerator; a C caller's value may be outside the enumeration.
template <class Enum>
int number_in(Enum value, int first, int last, const char* what, const char* allowed) {
  int number;
  static_assert(sizeof number == sizeof value);
  std::memcpy(&number, &value, sizeof number);
  require(number >= first && number <= last, "{} {} is unknown: allowed are {}", what, number, allowed);
  return number;
}

Problem problem_of(const ReduceObject& r, const miopenTensorDescriptor_t a, const miopenTensorDescriptor_t c) {
  Problem p;
  p.op = r.op;
  p.nan = r.nan;
  p.a = described(a, "A");
  p.c = described(c, "C");
  if (r.indices == MIOPEN_REDUCE_TENSOR_FLATTENED_INDICES && is_extreme(p.op)) p.positions = reduce::positions_of(p.c);
  return p;
}

/// The tensor of a result of x without dimension `dim`.
TensorDesc result_of(const TensorDesc& x, std::int32_t dim, const miopenTensorDescriptor_t out, const char* name) {
  require(dim >= 0 && dim < x.rank, "dimension {} is not one of the {} of x", dim, x.rank);
  return capi::with_dimension(x, "x", described(out, name), name, dim);
}

Problem calculation(const miopenTensorDescriptor_t x, std::int32_t dim, miopenReduceCalculationOp_t op,
                    miopenReduceCalculationNanPropagation_t nan, const miopenTensorDescriptor_t y) {
  Problem p;
  p.kind = reduce::Kind::kCalculation;
  const int product = number_in(op, 1, 2, "operation", "1 (product) and 2 (sum)") == 1;
  p.op = product ? Op::kMul : Op::kAdd;
  p.nan = number_in(nan, 0, 1, "NaN propagation", "0 and 1") == 1 ? Nan::kZero : Nan::kPropagate;
  p.a = described(x, "x");
  p.c = result_of(p.a, dim, y, "y");
  return p;
}

void run(miopenHandle_t handle, const Problem& p, const Problem::Args& args, const char* function) {
  capi::log_call(function, [&] { return p.key() + capi::scale_flags(args.alpha, args.beta, "-A", "-B"); });
  reduce::run(deref(handle), p, args);
}

}  // namespace

miopenStatus_t miopenCreateReduceTensorDescriptor(miopenReduceTensorDescriptor_t* reduceTensorDesc) {
  return guard([&] {
    not_null(reduceTensorDesc, "reduceTensorDesc");
    *reduceTensorDesc = new ReduceObject;
  });
}

miopenStatus_t miopenDestroyReduceTensorDescriptor(miopenReduceTensorDescriptor_t reduceTensorDesc) {
  return guard([&] { delete &deref(reduceTensorDesc); });
}

miopenStatus_t miopenSetReduceTensorDescriptor(miopenReduceTensorDescriptor_t reduceTensorDesc,
                                               miopenReduceTensorOp_t reduceTensorOp,
                                               miopenDataType_t reduceTensorCompType,
                                               miopenNanPropagation_t reduceTensorNanOpt,
                                               miopenReduceTensorIndices_t reduceTensorIndices,
                                               miopenIndicesType_t reduceTensorIndicesType) {
  return guard([&] {
    ReduceObject& r = deref(reduceTensorDesc);
    const int op = number_in(reduceTensorOp, 0, reduce::kOps - 1, "operation", "0 (add) to 7 (norm2)");
    const int nan = number_in(reduceTensorNanOpt, 0, 1, "NaN propagation", "0 and 1");
    const int indices = number_in(reduceTensorIndices, 0, 1, "indices option", "0 (none) and 1 (flattened)");
    const int bits = number_in(reduceTensorIndicesType, 0, 3, "indices type", "0 (32 bits) to 3 (8 bits)");
    require(is_valid(static_cast<DataType>(reduceTensorCompType)),
            "computation type {} is unknown: allowed are the "
            "values of miopenDataType_t",
            static_cast<int>(reduceTensorCompType));
    if (indices != 0 && bits != 0)
      fail(Status::kUnknownError, "indices type {} is not supported: flattened indices must be 0 (32 bits)", bits);
    r.op = static_cast<Op>(op);
    r.nan = static_cast<Nan>(nan);
    r.computation = reduceTensorCompType;
    r.indices = static_cast<miopenReduceTensorIndices_t>(indices);
    r.indices_type = static_cast<miopenIndicesType_t>(bits);
  });
}

miopenStatus_t miopenGetReduceTensorDescriptor(const miopenReduceTensorDescriptor_t reduceTensorDesc,
                                               miopenReduceTensorOp_t* reduceTensorOp,
                                               miopenDataType_t* reduceTensorCompType,
                                               miopenNanPropagation_t* reduceTensorNanOpt,
                                               miopenReduceTensorIndices_t* reduceTensorIndices,
                                               miopenIndicesType_t* reduceTensorIndicesType) {
  return guard([&] {
    const ReduceObject& r = deref(reduceTensorDesc);
    not_null(reduceTensorOp, "reduceTensorOp");
    not_null(reduceTensorCompType, "reduceTensorCompType");
    not_null(reduceTensorNanOpt, "reduceTensorNanOpt");
    not_null(reduceTensorIndices, "reduceTensorIndices");
    not_null(reduceTensorIndicesType, "reduceTensorIndicesType");
    *reduceTensorOp = static_cast<miopenReduceTensorOp_t>(r.op);
    *reduceTensorCompType = r.computation;
    *reduceTensorNanOpt = static_cast<miopenNanPropagation_t>(r.nan);
    *reduceTensorIndices = r.indices;
    *reduceTensorIndicesType = r.indices_type;
  });
}

miopenStatus_t miopenGetReductionIndicesSize(miopenHandle_t handle,
                                             const miopenReduceTensorDescriptor_t reduceTensorDesc,
                                             const miopenTensorDescriptor_t aDesc, const miopenTensorDescriptor_t cDesc,
                                             size_t* sizeInBytes) {
  return guard([&] {
    deref(handle);
    not_null(sizeInBytes, "sizeInBytes");
    const Problem p = problem_of(deref(reduceTensorDesc), aDesc, cDesc);
    reduce::validate(p);
    *sizeInBytes = p.has_positions() ? p.positions.bytes() : 0;
  });
}

miopenStatus_t miopenGetReductionWorkspaceSize(miopenHandle_t handle,
                                               const miopenReduceTensorDescriptor_t reduceTensorDesc,
                                               const miopenTensorDescriptor_t aDesc,
                                               const miopenTensorDescriptor_t cDesc, size_t* sizeInBytes) {
  return guard([&] {
    not_null(sizeInBytes, "sizeInBytes");
    const Problem p = problem_of(deref(reduceTensorDesc), aDesc, cDesc);
    *sizeInBytes = reduce::workspace_bytes(deref(handle), p);
  });
}

miopenStatus_t miopenReduceTensor(miopenHandle_t handle, const miopenReduceTensorDescriptor_t reduceTensorDesc,
                                  void* indices, size_t indicesSizeInBytes, void* workspace,
                                  size_t workspaceSizeInBytes, const void* alpha, const miopenTensorDescriptor_t aDesc,
                                  const void* A, const void* beta, const miopenTensorDescriptor_t cDesc, void* C) {
  return guard([&] {
    const Problem p = problem_of(deref(reduceTensorDesc), aDesc, cDesc);
    Problem::Args args;
    args.alpha = scalar(alpha, p.c.type, "alpha");
    args.beta = scalar(beta, p.c.type, "beta");
    args.a = not_null(A, "the buffer of A");
    args.c = not_null(C, "the buffer of C");
    if (p.has_positions()) {
      const bool fits = indicesSizeInBytes >= p.positions.bytes();
      if (!indices || !fits) reduce::validate(p);  // wrong tensors are named first
      args.positions = not_null(indices, "the buffer of indices");
      if (!fits)
        fail(Status::kUnknownError, "the buffer of indices has {} bytes, which is not enough: they need {}",
             indicesSizeInBytes, p.positions.bytes());
    }
    args.workspace = workspace;
    args.workspace_bytes = workspaceSizeInBytes;
    run(handle, p, args, "miopenReduceTensor");
  });
}

miopenStatus_t miopenGetReduceCalculationWorkspaceSize(miopenHandle_t handle, const miopenTensorDescriptor_t xDesc,
                                                       const int32_t dim,
                                                       const miopenReduceCalculationOp_t reduceCalculationOp,
                                                       const miopenTensorDescriptor_t reduceDesc, size_t* sizeInBytes) {
  return guard([&] {
    not_null(sizeInBytes, "sizeInBytes");
    const Problem p = calculation(xDesc, dim, reduceCalculationOp, MIOPEN_REDUCE_CALCULATION_PROPAGATE_NAN, reduceDesc);
    *sizeInBytes = reduce::workspace_bytes(deref(handle), p);
  });
}

miopenStatus_t miopenReduceCalculationForward(miopenHandle_t handle,
                                              miopenReduceCalculationNanPropagation_t nanPropagation, void* workspace,
                                              size_t workspaceSizeInBytes, const miopenTensorDescriptor_t xDesc,
                                              const void* x, const int32_t dim,
                                              const miopenReduceCalculationOp_t reduceCalculationOp,
                                              const miopenTensorDescriptor_t reduceDesc, void* y) {
  return guard([&] {
    const Problem p = calculation(xDesc, dim, reduceCalculationOp, nanPropagation, reduceDesc);
    Problem::Args args;
    args.a = not_null(x, "the buffer of x");
    args.c = not_null(y, "the buffer of y");
    args.workspace = workspace;
    args.workspace_bytes = workspaceSizeInBytes;
    run(handle, p, args, "miopenReduceCalculationForward");
  });
}

miopenStatus_t miopenReduceExtremeForward(miopenHandle_t handle, const miopenTensorDescriptor_t xDesc, const void* x,
                                          const int32_t dim, const miopenReduceExtremeOp_t reduceExtremeOp,
                                          const miopenTensorDescriptor_t yDesc, void* y,
                                          const miopenTensorDescriptor_t indiceDesc, void* indice) {
  return guard([&] {
    Problem p;
    const int op = number_in(reduceExtremeOp, 1, 4, "operation", "1 (argmin), 2 (argmax), 3 (min) and 4 (max)");
    p.kind = op > 2 ? reduce::Kind::kExtreme : reduce::Kind::kPosition;
    p.op = op % 2 == 1 ? Op::kMin : Op::kMax;
    p.nan = Nan::kFirst;
    p.a = described(xDesc, "x");
    p.positions = result_of(p.a, dim, indiceDesc, "indice");
    p.c = p.has_values() ? result_of(p.a, dim, yDesc, "y") : p.positions;
    Problem::Args args;
    args.a = not_null(x, "the buffer of x");
    if (p.has_values()) args.c = not_null(y, "the buffer of y");
    args.positions = not_null(indice, "the buffer of indice");
    run(handle, p, args, "miopenReduceExtremeForward");
  });
}
