// SPDX-License-Identifier: MIT
#include "capi/graph/attributes.h"

namespace polymio::capi {
namespace {

using Name = miopenBackendAttributeName_t;
using Type = miopenBackendAttributeType_t;

constexpr int kModes = 50, kHeuristics = 4, kReductions = 8, kDistributions = 3, kTwo = 2, kConvolutions = 4,
              kNorms = 4;

// Kinds of rows.
constexpr Attribute one(Name name, Type type, bool required = false, Check check = Check::kNone, int limit = 0) {
  return {.name = name, .type = type, .required = required, .check = check, .limit = limit};
}
constexpr Attribute need(Name name, Type type, Check check = Check::kNone, int limit = 0) {
  return one(name, type, true, check, limit);
}
constexpr Attribute many(Name name, Type type, bool required, Check check = Check::kNone, std::int8_t least = 1) {
  return {.name = name, .type = type, .least = least, .most = -1, .required = required, .check = check};
}
constexpr Attribute child(Name name, int of, bool required = true) {
  return {.name = name, .type = MIOPEN_TYPE_BACKEND_DESCRIPTOR, .required = required, .child = of};
}
constexpr Attribute tensor(Name name, bool required = true) {
  return child(name, MIOPEN_BACKEND_TENSOR_DESCRIPTOR, required);
}
/// A double or a float.
constexpr Attribute real(Name name) {
  return {.name = name, .type = MIOPEN_TYPE_DOUBLE, .other_type = MIOPEN_TYPE_FLOAT};
}
constexpr Attribute with(Name name, Type type, Access access) {
  return {.name = name, .type = type, .least = 0, .most = -1, .access = access};
}

constexpr Attribute kTensor[] = {
    need(MIOPEN_ATTR_TENSOR_UNIQUE_ID, MIOPEN_TYPE_INT64),
    need(MIOPEN_ATTR_TENSOR_DATA_TYPE, MIOPEN_TYPE_DATA_TYPE, Check::kDataType),
    many(MIOPEN_ATTR_TENSOR_DIMENSIONS, MIOPEN_TYPE_INT64, true, Check::kPositive),
    many(MIOPEN_ATTR_TENSOR_STRIDES, MIOPEN_TYPE_INT64, true, Check::kPositive),
    one(MIOPEN_ATTR_TENSOR_IS_VIRTUAL, MIOPEN_TYPE_BOOLEAN),
    one(MIOPEN_ATTR_TENSOR_BYTE_ALIGNMENT, MIOPEN_TYPE_INT64, false, Check::kPositive),
    with(MIOPEN_ATTR_TENSOR_VECTOR_COUNT, MIOPEN_TYPE_INT64, Access::kNotImplemented),
    with(MIOPEN_ATTR_TENSOR_VECTORIZED_DIMENSION, MIOPEN_TYPE_INT64, Access::kNotImplemented),
    with(MIOPEN_ATTR_TENSOR_RAGGED_OFFSET_DESC, MIOPEN_TYPE_BACKEND_DESCRIPTOR, Access::kNotImplemented),
    with(MIOPEN_ATTR_TENSOR_REORDERING_MODE, MIOPEN_TYPE_TENSOR_REORDERING_MODE, Access::kNotImplemented),
};

constexpr Attribute kConvolution[] = {
    need(MIOPEN_ATTR_CONVOLUTION_COMP_TYPE, MIOPEN_TYPE_DATA_TYPE, Check::kDataType),
    need(MIOPEN_ATTR_CONVOLUTION_CONV_MODE, MIOPEN_TYPE_CONVOLUTION_MODE, Check::kBelow, kConvolutions),
    need(MIOPEN_ATTR_CONVOLUTION_SPATIAL_DIMS, MIOPEN_TYPE_INT64, Check::kPositive),
    many(MIOPEN_ATTR_CONVOLUTION_DILATIONS, MIOPEN_TYPE_INT64, true, Check::kPositive),
    many(MIOPEN_ATTR_CONVOLUTION_FILTER_STRIDES, MIOPEN_TYPE_INT64, true, Check::kPositive),
    many(MIOPEN_ATTR_CONVOLUTION_PRE_PADDINGS, MIOPEN_TYPE_INT64, true, Check::kNotNegative),
    many(MIOPEN_ATTR_CONVOLUTION_POST_PADDINGS, MIOPEN_TYPE_INT64, true, Check::kNotNegative),
};

constexpr Attribute kForward[] = {
    child(MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, MIOPEN_BACKEND_CONVOLUTION_DESCRIPTOR),
    tensor(MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_X),
    tensor(MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_W),
    tensor(MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y),
    real(MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA),
    real(MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA),
};
constexpr Attribute kBackwardData[] = {
    child(MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, MIOPEN_BACKEND_CONVOLUTION_DESCRIPTOR),
    tensor(MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX),
    tensor(MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W),
    tensor(MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY),
    real(MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA),
    real(MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA),
};
constexpr Attribute kBackwardFilter[] = {
    child(MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, MIOPEN_BACKEND_CONVOLUTION_DESCRIPTOR),
    tensor(MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X),
    tensor(MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW),
    tensor(MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY),
    real(MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA),
    real(MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA),
};

constexpr Attribute kPointwise[] = {
    need(MIOPEN_ATTR_POINTWISE_MODE, MIOPEN_TYPE_POINTWISE_MODE, Check::kBelow, kModes),
    need(MIOPEN_ATTR_POINTWISE_MATH_PREC, MIOPEN_TYPE_DATA_TYPE, Check::kDataType),
    one(MIOPEN_ATTR_POINTWISE_NAN_PROPAGATION, MIOPEN_TYPE_NAN_PROPOGATION, false, Check::kBelow, kTwo),
    real(MIOPEN_ATTR_POINTWISE_RELU_LOWER_CLIP),
    real(MIOPEN_ATTR_POINTWISE_RELU_UPPER_CLIP),
    real(MIOPEN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE),
    real(MIOPEN_ATTR_POINTWISE_ELU_ALPHA),
    real(MIOPEN_ATTR_POINTWISE_SOFTPLUS_BETA),
    real(MIOPEN_ATTR_POINTWISE_SWISH_BETA),
    one(MIOPEN_ATTR_POINTWISE_AXIS, MIOPEN_TYPE_INT64),
};
constexpr Attribute kPointwiseOperation[] = {
    child(MIOPEN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, MIOPEN_BACKEND_POINTWISE_DESCRIPTOR),
    tensor(MIOPEN_ATTR_OPERATION_POINTWISE_XDESC, false),
    tensor(MIOPEN_ATTR_OPERATION_POINTWISE_BDESC, false),
    tensor(MIOPEN_ATTR_OPERATION_POINTWISE_YDESC, false),
    tensor(MIOPEN_ATTR_OPERATION_POINTWISE_TDESC, false),
    tensor(MIOPEN_ATTR_OPERATION_POINTWISE_DXDESC, false),
    tensor(MIOPEN_ATTR_OPERATION_POINTWISE_DYDESC, false),
    real(MIOPEN_ATTR_OPERATION_POINTWISE_ALPHA1),
    real(MIOPEN_ATTR_OPERATION_POINTWISE_ALPHA2),
};

constexpr Attribute kMatmul[] = {need(MIOPEN_ATTR_MATMUL_COMP_TYPE, MIOPEN_TYPE_DATA_TYPE, Check::kDataType)};
constexpr Attribute kMatmulOperation[] = {
    child(MIOPEN_ATTR_OPERATION_MATMUL_DESC, MIOPEN_BACKEND_MATMUL_DESCRIPTOR),
    tensor(MIOPEN_ATTR_OPERATION_MATMUL_ADESC),
    tensor(MIOPEN_ATTR_OPERATION_MATMUL_BDESC),
    tensor(MIOPEN_ATTR_OPERATION_MATMUL_CDESC),
    tensor(MIOPEN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, false),
    tensor(MIOPEN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, false),
    tensor(MIOPEN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, false),
    one(MIOPEN_ATTR_OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT, MIOPEN_TYPE_INT64, false, Check::kPositive),
};

constexpr Attribute kReduction[] = {
    need(MIOPEN_ATTR_REDUCTION_OPERATOR, MIOPEN_TYPE_REDUCTION_OPERATOR_TYPE, Check::kBelow, kReductions),
    need(MIOPEN_ATTR_REDUCTION_COMP_TYPE, MIOPEN_TYPE_DATA_TYPE, Check::kDataType),
};
constexpr Attribute kReductionOperation[] = {
    child(MIOPEN_ATTR_OPERATION_REDUCTION_DESC, MIOPEN_BACKEND_REDUCTION_DESCRIPTOR),
    tensor(MIOPEN_ATTR_OPERATION_REDUCTION_XDESC),
    tensor(MIOPEN_ATTR_OPERATION_REDUCTION_YDESC),
};
constexpr Attribute kReshapeOperation[] = {tensor(MIOPEN_ATTR_OPERATION_RESHAPE_XDESC),
                                           tensor(MIOPEN_ATTR_OPERATION_RESHAPE_YDESC)};

constexpr Attribute kNormForward[] = {
    need(MIOPEN_ATTR_OPERATION_NORM_FWD_MODE, MIOPEN_TYPE_NORM_MODE, Check::kBelow, kNorms),
    need(MIOPEN_ATTR_OPERATION_NORM_FWD_PHASE, MIOPEN_TYPE_NORM_FWD_PHASE, Check::kBelow, kTwo),
    tensor(MIOPEN_ATTR_OPERATION_NORM_FWD_XDESC),
    tensor(MIOPEN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, false),
    tensor(MIOPEN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, false),
    tensor(MIOPEN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, false),
    tensor(MIOPEN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, false),
    tensor(MIOPEN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, false),
    tensor(MIOPEN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, false),
    tensor(MIOPEN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, false),
    tensor(MIOPEN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, false),
    tensor(MIOPEN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, false),
    tensor(MIOPEN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, false),
    tensor(MIOPEN_ATTR_OPERATION_NORM_FWD_YDESC),
};
constexpr Attribute kNormBackward[] = {
    need(MIOPEN_ATTR_OPERATION_NORM_BWD_MODE, MIOPEN_TYPE_NORM_MODE, Check::kBelow, kNorms),
    tensor(MIOPEN_ATTR_OPERATION_NORM_BWD_XDESC),
    tensor(MIOPEN_ATTR_OPERATION_NORM_BWD_MEAN_DESC),
    tensor(MIOPEN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC),
    tensor(MIOPEN_ATTR_OPERATION_NORM_BWD_DYDESC),
    tensor(MIOPEN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, false),
    tensor(MIOPEN_ATTR_OPERATION_NORM_BWD_EPSILON_DESC, false),
    tensor(MIOPEN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, false),
    tensor(MIOPEN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, false),
    tensor(MIOPEN_ATTR_OPERATION_NORM_BWD_DXDESC),
};

constexpr Attribute kRng[] = {
    need(MIOPEN_ATTR_RNG_DISTRIBUTION, MIOPEN_TYPE_RNG_DISTRIBUTION, Check::kBelow, kDistributions),
    one(MIOPEN_ATTR_RNG_NORMAL_DIST_MEAN, MIOPEN_TYPE_DOUBLE),
    one(MIOPEN_ATTR_RNG_NORMAL_DIST_STANDARD_DEVIATION, MIOPEN_TYPE_DOUBLE, false, Check::kPositive),
    one(MIOPEN_ATTR_RNG_UNIFORM_DIST_MINIMUM, MIOPEN_TYPE_DOUBLE),
    one(MIOPEN_ATTR_RNG_UNIFORM_DIST_MAXIMUM, MIOPEN_TYPE_DOUBLE),
    one(MIOPEN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, MIOPEN_TYPE_DOUBLE, false, Check::kProbability),
};
constexpr Attribute kRngOperation[] = {
    child(MIOPEN_ATTR_OPERATION_RNG_DESC, MIOPEN_BACKEND_RNG_DESCRIPTOR),
    tensor(MIOPEN_ATTR_OPERATION_RNG_YDESC),
    tensor(MIOPEN_ATTR_OPERATION_RNG_OFFSET_DESC),
    {.name = MIOPEN_ATTR_OPERATION_RNG_SEED,
     .type = MIOPEN_TYPE_INT64,
     .child = MIOPEN_BACKEND_TENSOR_DESCRIPTOR,
     .other_type = MIOPEN_TYPE_BACKEND_DESCRIPTOR},
};

constexpr Attribute kGraph[] = {
    need(MIOPEN_ATTR_OPERATIONGRAPH_HANDLE, MIOPEN_TYPE_HANDLE, Check::kNotNull),
    many(MIOPEN_ATTR_OPERATIONGRAPH_OPS, MIOPEN_TYPE_BACKEND_DESCRIPTOR, true, Check::kUnique),
    {.name = MIOPEN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, .type = MIOPEN_TYPE_INT64, .access = Access::kRead},
};
constexpr Attribute kEngine[] = {
    child(MIOPEN_ATTR_ENGINE_OPERATION_GRAPH, MIOPEN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
    need(MIOPEN_ATTR_ENGINE_GLOBAL_INDEX, MIOPEN_TYPE_INT64, Check::kNotNegative),
    one(MIOPEN_ATTR_ENGINE_SM_COUNT_TARGET, MIOPEN_TYPE_INT32, false, Check::kPositive),
    with(MIOPEN_ATTR_ENGINE_KNOB_INFO, MIOPEN_TYPE_BACKEND_DESCRIPTOR, Access::kEmpty),
    with(MIOPEN_ATTR_ENGINE_NUMERICAL_NOTE, MIOPEN_TYPE_NUMERICAL_NOTE, Access::kEmpty),
    with(MIOPEN_ATTR_ENGINE_LAYOUT_INFO, MIOPEN_TYPE_BACKEND_DESCRIPTOR, Access::kEmpty),
    with(MIOPEN_ATTR_ENGINE_BEHAVIOR_NOTE, MIOPEN_TYPE_BEHAVIOR_NOTE, Access::kEmpty),
};
constexpr Attribute kConfig[] = {
    child(MIOPEN_ATTR_ENGINECFG_ENGINE, MIOPEN_BACKEND_ENGINE_DESCRIPTOR),
    with(MIOPEN_ATTR_ENGINECFG_KNOB_CHOICES, MIOPEN_TYPE_BACKEND_DESCRIPTOR, Access::kEmpty),
    with(MIOPEN_ATTR_ENGINECFG_INTERMEDIATE_INFO, MIOPEN_TYPE_BACKEND_DESCRIPTOR, Access::kUnsupported),
};
constexpr Attribute kHeuristic[] = {
    child(MIOPEN_ATTR_ENGINEHEUR_OPERATION_GRAPH, MIOPEN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
    need(MIOPEN_ATTR_ENGINEHEUR_MODE, MIOPEN_TYPE_HEUR_MODE, Check::kBelow, kHeuristics),
    one(MIOPEN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, MIOPEN_TYPE_INT32, false, Check::kPositive),
    with(MIOPEN_ATTR_ENGINEHEUR_RESULTS, MIOPEN_TYPE_BACKEND_DESCRIPTOR, Access::kRead),
};
constexpr Attribute kPlan[] = {
    need(MIOPEN_ATTR_EXECUTION_PLAN_HANDLE, MIOPEN_TYPE_HANDLE, Check::kNotNull),
    child(MIOPEN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, MIOPEN_BACKEND_ENGINECFG_DESCRIPTOR, false),
    {.name = MIOPEN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, .type = MIOPEN_TYPE_INT64, .access = Access::kRead},
    with(MIOPEN_ATTR_EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS, MIOPEN_TYPE_INT64, Access::kEmpty),
    many(MIOPEN_ATTR_EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS, MIOPEN_TYPE_INT64, false, Check::kNone, 0),
    many(MIOPEN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, MIOPEN_TYPE_CHAR, false, Check::kNone, 0),
};
constexpr Attribute kPack[] = {
    many(MIOPEN_ATTR_VARIANT_PACK_UNIQUE_IDS, MIOPEN_TYPE_INT64, true, Check::kUnique, 0),
    many(MIOPEN_ATTR_VARIANT_PACK_DATA_POINTERS, MIOPEN_TYPE_VOID_PTR, true, Check::kUniquePointers, 0),
    need(MIOPEN_ATTR_VARIANT_PACK_WORKSPACE, MIOPEN_TYPE_VOID_PTR),
    with(MIOPEN_ATTR_VARIANT_PACK_INTERMEDIATES, MIOPEN_TYPE_VOID_PTR, Access::kNotImplemented),
};

struct Kind {
  int type;
  const char* name;
  std::span<const Attribute> attributes;
};
constexpr Kind kKinds[] = {
    {MIOPEN_BACKEND_CONVOLUTION_DESCRIPTOR, "convolution", kConvolution},
    {MIOPEN_BACKEND_ENGINE_DESCRIPTOR, "engine", kEngine},
    {MIOPEN_BACKEND_ENGINECFG_DESCRIPTOR, "engine configuration", kConfig},
    {MIOPEN_BACKEND_ENGINEHEUR_DESCRIPTOR, "engine heuristic", kHeuristic},
    {MIOPEN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "execution plan", kPlan},
    {MIOPEN_BACKEND_MATMUL_DESCRIPTOR, "matrix product", kMatmul},
    {MIOPEN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, "backward data operation", kBackwardData},
    {MIOPEN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, "backward filter operation", kBackwardFilter},
    {MIOPEN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, "forward convolution operation", kForward},
    {MIOPEN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, "matrix product operation", kMatmulOperation},
    {MIOPEN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR, "normalization backward operation", kNormBackward},
    {MIOPEN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, "normalization operation", kNormForward},
    {MIOPEN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "pointwise operation", kPointwiseOperation},
    {MIOPEN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, "reduction operation", kReductionOperation},
    {MIOPEN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, "reshape operation", kReshapeOperation},
    {MIOPEN_BACKEND_OPERATION_RNG_DESCRIPTOR, "random number operation", kRngOperation},
    {MIOPEN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "operation graph", kGraph},
    {MIOPEN_BACKEND_POINTWISE_DESCRIPTOR, "pointwise", kPointwise},
    {MIOPEN_BACKEND_REDUCTION_DESCRIPTOR, "reduction", kReduction},
    {MIOPEN_BACKEND_RNG_DESCRIPTOR, "random number", kRng},
    {MIOPEN_BACKEND_TENSOR_DESCRIPTOR, "tensor", kTensor},
    {MIOPEN_BACKEND_VARIANT_PACK_DESCRIPTOR, "variant pack", kPack},
};

}  // namespace

std::span<const Attribute> attributes_of(int type) {
  for (const Kind& k : kKinds)
    if (k.type == type) return k.attributes;
  return {};
}

const char* name_of_descriptor(int type) {
  for (const Kind& k : kKinds)
    if (k.type == type) return k.name;
  return "unknown";
}

std::size_t size_of_element(int type) {
  switch (type) {
    case MIOPEN_TYPE_BOOLEAN:
    case MIOPEN_TYPE_CHAR: return 1;
    case MIOPEN_TYPE_HANDLE:
    case MIOPEN_TYPE_VOID_PTR:
    case MIOPEN_TYPE_BACKEND_DESCRIPTOR:
    case MIOPEN_TYPE_INT64:
    case MIOPEN_TYPE_DOUBLE: return 8;
    default: return 4;
  }
}

}  // namespace polymio::capi
