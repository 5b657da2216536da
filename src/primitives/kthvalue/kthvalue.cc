// SPDX-License-Identifier: MIT
#include "primitives/kthvalue/kthvalue.h"

#include <algorithm>

#include "base/error.h"
#include "core/aligned_buffer.h"
#include "core/problem_text.h"
#include "core/tensor_checks.h"

namespace polymio::kthvalue {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat,  DataType::kHalf,  DataType::kBFloat16,
                               DataType::kDouble, DataType::kInt32, DataType::kInt8};

void require_separate_buffers(const Problem& p, const Args& args) {
  const auto check = [](const TensorDesc& a, const void* a_data, const char* a_name, const TensorDesc& b,
                        const void* b_data, const char* b_name) {
    if (!a.packed() || !b.packed()) return;
    const auto first = reinterpret_cast<std::uintptr_t>(a_data), begin = reinterpret_cast<std::uintptr_t>(b_data);
    require(first + a.bytes() <= begin || begin + b.bytes() <= first,
            "{} overlaps {}: it starts {} bytes from it, and must be another buffer", b_name, a_name,
            static_cast<std::int64_t>(begin - first));
  };
  check(p.x, args.x, "the input", p.y, args.y, "the output");
  check(p.x, args.x, "the input", p.indices, args.indices, "the buffer of indices");
  check(p.y, args.y, "the output", p.indices, args.indices, "the buffer of indices");
}

}  // namespace

void validate(const Problem& p) {
  require(std::ranges::find(kTypes, p.x.type) != std::end(kTypes),
          "the input has type {}: allowed are fp32, fp16, bf16, fp64, int32 and int8", name_of(p.x.type));
  require(p.x.vector_length == 1 && !p.x.has_cast(),
          "the input has vectors of channels or a cast type: neither is "
          "allowed");
  require(p.dim >= 0 && p.dim < p.x.rank, "dimension {} is not one of the {} of the input", p.dim, p.x.rank);
  require(p.k >= 1 && p.k <= p.length(), "k is {}: allowed are 1 to {}, the size of dimension {}", p.k, p.length(),
          p.dim);
  require_same_type(p.y, "the output", p.x, "the input");
  require(size_of(p.indices.type) == sizeof(std::uint64_t), "the indices have type {}: a type of 64 bits is needed",
          name_of(p.indices.type));
  TensorDesc one = p.x;
  one.lens[static_cast<std::size_t>(p.dim)] = 1;
  require_same_sizes(p.y, "the output", one, "the input without its dimension");
  require_same_sizes(p.indices, "the tensor of indices", one, "the input without its dimension");
  require_separate(p.y, "y");
  require_separate(p.indices, "of positions");
}

void run(Stream& stream, const Problem& p, const Args& given) {
  require_separate_buffers(p, given);
  TensorDesc rows = p.x;
  rows.lens[static_cast<std::size_t>(p.dim)] = 1;
  const TensorDesc* const operands[] = {&rows, &p.y, &p.indices};
  const Loop loop = simplified_loop(operands);
  const AlignedBuffer x(stream.info(), p.x, given.x, "the buffer of the input"),
      y(stream.info(), p.y, given.y, "the buffer of the output"),
      indices(stream.info(), p.indices, given.indices, "the buffer of indices");
  const Args args{x.data(), y.data(), static_cast<std::uint64_t*>(indices.data())};
  (stream.info().kind == DeviceKind::kCpu ? run_cpu : run_gpu)(stream, p, loop, args);
  y.write_back();
  indices.write_back();
}

}  // namespace polymio::kthvalue
