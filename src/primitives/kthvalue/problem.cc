// The problem of kthvalue: its text, hash and validation.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "core/tensor_checks.h"
#include "primitives/kthvalue/solvers.h"

namespace polymio::kthvalue {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat,  DataType::kHalf,  DataType::kBFloat16,
                               DataType::kDouble, DataType::kInt32, DataType::kInt8};

}  // namespace

std::string Problem::key() const {
  return base_arg(x.type == DataType::kInt32 ? "kthvalueint32" : "kthvalue", x.type, 2) +
         fmt::format(" -D {} -k {} -d {}", fmt::join(x.sizes(), ","), selection.k, selection.dim) +
         strides_unless_dense(x, "--in_strides") + strides_unless_dense(y, "--out_strides") +
         strides_unless_dense(indices, "--indices_strides");
}

std::string Problem::family() const {
  const bool contiguous = x.strides[static_cast<std::size_t>(selection.dim)] == 1;
  return fmt::format("kthvalue {} {}", name_of(x.type), contiguous ? "rows" : "strided");
}

std::vector<float> Problem::log_sizes() const {
  return {std::log2(static_cast<float>(y.count())), std::log2(static_cast<float>(length()))};
}

double Problem::work() const {
  const auto size = static_cast<double>(size_of(x.type));
  return static_cast<double>(x.count()) * size + static_cast<double>(y.count()) * (size + sizeof(std::uint64_t));
}

void validate(const Problem& p) {
  const auto [dim, k] = p.selection;
  require(std::ranges::find(kTypes, p.x.type) != std::end(kTypes),
          "the input has type {}: allowed are fp32, fp16, bf16, fp64, int32 and int8", name_of(p.x.type));
  require(p.x.vector_length == 1 && !p.x.has_cast(),
          "the input has vectors of channels or a cast type: neither is "
          "allowed");
  require(dim >= 0 && dim < p.x.rank, "dimension {} is not one of the {} of the input", dim, p.x.rank);
  require(k >= 1 && k <= p.length(), "k is {}: allowed are 1 to {}, the size of dimension {}", k, p.length(), dim);
  require_same_type(p.y, "the output", p.x, "the input");
  require(size_of(p.indices.type) == sizeof(std::uint64_t), "the indices have type {}: a type of 64 bits is needed",
          name_of(p.indices.type));
  TensorDesc one = p.x;
  one.lens[static_cast<std::size_t>(dim)] = 1;
  require_same_sizes(p.y, "the output", one, "the input without its dimension");
  require_same_sizes(p.indices, "the tensor of indices", one, "the input without its dimension");
  require_separate(p.y, "y");
  require_separate(p.indices, "of positions");
}

Loop rows_of(const Problem& p) {
  TensorDesc rows = p.x;
  rows.lens[static_cast<std::size_t>(p.selection.dim)] = 1;
  const TensorDesc* const operands[] = {&rows, &p.y, &p.indices};
  return simplified_loop(operands);
}

}  // namespace polymio::kthvalue
