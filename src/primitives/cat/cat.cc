// SPDX-License-Identifier: MIT
#include "primitives/cat/cat.h"

#include <fmt/format.h>

#include "base/error.h"
#include "core/problem_text.h"
#include "core/tensor_checks.h"
#include "primitives/cat/parts.h"
#include "primitives/tensor_ops/tensor_ops.h"

namespace polymio::cat {
namespace {

/// The part of y that an input is copied to.
struct Part {
  TensorDesc desc;
  void* data;
};

Part part_of(const TensorDesc& y, void* data, const TensorDesc& input, std::size_t dim, std::int64_t begin) {
  Part part{y, static_cast<char*>(data) + begin * y.strides[dim] * static_cast<std::int64_t>(size_of(y.type))};
  part.desc.lens[dim] = input.lens[dim];
  return part;
}

/// The input is the part, or at least not within y.
void require_no_overlap(const Input& x, const std::string& name, const Part& part, const TensorDesc& y, void* y_data) {
  if (x.data == part.data && same_strides(*x.desc, part.desc)) return;
  const auto x_begin = reinterpret_cast<std::uintptr_t>(x.data), y_begin = reinterpret_cast<std::uintptr_t>(y_data);
  const bool separate = x_begin + x.desc->bytes() <= y_begin || y_begin + y.bytes() <= x_begin;
  require(separate || !x.desc->packed() || !y.packed(),
          "{} overlaps y: it must be its part of y, with the strides of y, or other memory", name);
}

void require_fitting(const Input& x, const std::string& name, const TensorDesc& y, std::size_t dim) {
  require_same_type(*x.desc, name.c_str(), y, "y");
  require(x.desc->vector_length == 1, "{} has a layout with vectors of {} channels, which cannot be concatenated", name,
          x.desc->vector_length);
  TensorDesc wanted = y;
  wanted.lens[dim] = x.desc->rank > static_cast<int>(dim) ? x.desc->lens[dim] : 0;
  require(x.desc->rank == y.rank && x.desc->lens == wanted.lens,
          "{} has sizes {}, y has {}: they may differ in dimension {} only", name, sizes_text(*x.desc), sizes_text(y),
          dim);
}

}  // namespace

void forward(Stream& stream, std::span<const Input> inputs, const TensorDesc& y, void* y_data, std::int64_t dim) {
  require(dim >= -y.rank && dim < y.rank, "dim is {}: {} to {} are allowed for y of rank {}", dim, -y.rank, y.rank - 1,
          y.rank);
  require(y.vector_length == 1, "y has a layout with vectors of {} channels, which cannot be concatenated",
          y.vector_length);
  require_separate(y, "y");
  const auto d = static_cast<std::size_t>(dim < 0 ? dim + y.rank : dim);
  std::int64_t size = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].desc) continue;
    const std::string name = fmt::format("input {}", i);
    require_fitting(inputs[i], name, y, d);
    require_no_overlap(inputs[i], name, part_of(y, y_data, *inputs[i].desc, d, size), y, y_data);
    size += inputs[i].desc->lens[d];
  }
  require(size == y.lens[d], "the inputs have size {} in all along dimension {}, y has {}: they must be equal", size, d,
          y.lens[d]);
  const bool on_gpu = stream.info().kind != DeviceKind::kCpu;
  PartCopies copies(stream);
  std::int64_t begin = 0;
  for (const Input& x : inputs) {
    if (!x.desc) continue;
    const Part part = part_of(y, y_data, *x.desc, d, begin);
    begin += x.desc->lens[d];
    if (x.data == part.data || (on_gpu && copies.add(*x.desc, x.data, part.desc, part.data))) continue;
    tensor_ops::transform(stream, 1, {*x.desc, x.data}, 0, {part.desc, part.data});
  }
  copies.launch();
}

}  // namespace polymio::cat
