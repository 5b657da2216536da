// Which attributes each type of descriptor has, as a table.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/graph.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace polymio::capi {

/// What set and get do with an attribute.
enum class Access : std::uint8_t {
  kStored,
  kRead,            // get only
  kEmpty,           // set is ignored, get finds no elements
  kNotImplemented,  // refused with that status, or with UnsupportedOp
  kUnsupported,
};

/// What elements must be; checked by set.
enum class Check : std::uint8_t {
  kNone,
  kPositive,
  kNotNegative,
  kProbability,
  kDataType,
  kBelow,
  kNotNull,
  kUnique,
  kUniquePointers
};

struct Attribute {
  miopenBackendAttributeName_t name;
  miopenBackendAttributeType_t type;
  std::int8_t least = 1, most = 1;  // elements; most -1: any number
  bool required = false;
  Check check = Check::kNone;
  int limit = 0;   // of kBelow
  int child = -1;  // a descriptor's type; -1: any operation
  Access access = Access::kStored;
  int other_type = -1;  // the second type that is accepted, which converts
};

/// Those of a type of descriptor; empty for types that cannot be created.
std::span<const Attribute> attributes_of(int descriptor_type);
const char* name_of_descriptor(int descriptor_type);

/// Bytes of an element; 0 for types without.
std::size_t size_of_element(int attribute_type);

constexpr bool is_convolution(int type) {
  return type == MIOPEN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
         type == MIOPEN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
         type == MIOPEN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

constexpr bool is_operation(int type) {
  return is_convolution(type) || type == MIOPEN_BACKEND_OPERATION_MATMUL_DESCRIPTOR ||
         type == MIOPEN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ||
         type == MIOPEN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR || type == MIOPEN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR ||
         type == MIOPEN_BACKEND_OPERATION_RNG_DESCRIPTOR || type == MIOPEN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR ||
         type == MIOPEN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR;
}

}  // namespace polymio::capi
