// SPDX-License-Identifier: MIT
#include "primitives/getitem/getitem.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "core/aligned_buffer.h"
#include "core/problem_text.h"
#include "core/tensor_checks.h"
#include "primitives/getitem/rows.h"
#include "primitives/tensor_ops/tensor_ops.h"

namespace polymio::getitem {
namespace {

constexpr std::int64_t kAlignment = 64;

/// dx after the slices. Its elements begin `offset` after those of dx.
TensorDesc view_of(const Backward& b) {
  TensorDesc view = *b.dx.desc;
  for (const Slice& s : b.slices) {
    require(s.dim >= 0 && s.dim < view.rank, "a slice is of dimension {}: dx has the dimensions 0 to {}", s.dim,
            view.rank - 1);
    const auto d = static_cast<std::size_t>(s.dim);
    const std::int64_t end = std::min(s.end, view.lens[d]);
    require(
        s.begin >= 0 && s.begin < end && s.step > 0,
        "the slice from {} to {} with step {} of dimension {} of size {} has no elements: 0 <= begin < end, step > 0 "
        "is allowed",
        s.begin, s.end, s.step, s.dim, view.lens[d]);
    view.lens[d] = ceil_div(end - s.begin, s.step);
    view.strides[d] *= s.step;
  }
  require(b.offset + view.space() <= b.dx.desc->space(),
          "the slices from offset {} need {} elements, dx has {}: they must be inside of dx", b.offset, view.space(),
          b.dx.desc->space());
  return view;
}

void require_indices(const Backward& b) {
  require(b.dims.size() == b.indices.size(), "{} dimensions are given for {} index tensors: the numbers must be equal",
          b.dims.size(), b.indices.size());
  for (std::size_t i = 0; i < b.dims.size(); ++i) {
    const std::string name = fmt::format("index tensor {}", i);
    require(b.dims[i] == b.dims[0] + static_cast<std::int32_t>(i) && b.dims[i] >= 0 && b.dims[i] < b.dx.desc->rank,
            "dims[{}] is {}: the indexed dimensions must be consecutive, from 0 to {}", i, b.dims[i],
            b.dx.desc->rank - 1);
    const TensorDesc& index = *b.indices[i].desc;
    require(index.type == DataType::kInt32, "{} is {}: it must be int32", name, name_of(index.type));
    require_same_sizes(index, name.c_str(), *b.indices[0].desc, "index tensor 0");
  }
  if (!b.error.desc) return;
  require(b.error.desc->type == DataType::kInt32, "error is {}: it must be int32", name_of(b.error.desc->type));
  const auto count = static_cast<std::int64_t>(b.indices.size());
  require(b.error.desc->count() == count && b.error.desc->packed(),
          "error has {} elements for {} index tensors: it must have one for each, without gaps", b.error.desc->count(),
          count);
}

/// The rows, and the sizes that dy must have.
Rows rows_of(const Backward& b, const TensorDesc& view, TensorDesc& wanted) {
  const TensorDesc &dy = *b.dy.desc, &index = *b.indices[0].desc;
  const auto first = static_cast<std::size_t>(b.dims[0]), end = first + b.dims.size();
  const auto index_rank = static_cast<std::size_t>(index.rank), rank = static_cast<std::size_t>(view.rank);
  const auto dy_rank = rank - b.dims.size() + index_rank;
  require(dy_rank == static_cast<std::size_t>(dy.rank), "dy has rank {}: for these indices it must be {}", dy.rank,
          dy_rank);
  wanted = dy;
  Rows rows;
  rows.row.operands = 2;
  rows.row.base[0] = b.offset;
  for (std::size_t d = 0; d < rank; ++d) {
    if (d >= first && d < end) {
      rows.places.push(view.lens[d], view.strides[d]);
      continue;
    }
    const std::size_t in_dy = d < first ? d : d - b.dims.size() + index_rank;
    wanted.lens[in_dy] = view.lens[d];
    rows.row.push({view.lens[d], {view.strides[d], dy.strides[in_dy]}});
  }
  for (std::size_t d = 0; d < index_rank; ++d) {
    wanted.lens[first + d] = index.lens[d];
    rows.positions.push(index.lens[d], dy.strides[first + d]);
  }
  rows.row.simplify();
  return rows;
}

void run(Stream& stream, const Backward& b, const TensorDesc& view, void* workspace, std::size_t bytes) {
  TensorDesc wanted;
  Rows rows = rows_of(b, view, wanted);
  require_same_sizes(*b.dy.desc, "dy", wanted, "what these indices select");
  const std::int64_t count = rows.positions.count();
  const auto width = [](std::int64_t n) { return std::bit_width(static_cast<std::uint64_t>(n)); };
  rows.shift = width(count - 1);
  if (rows.shift + width(rows.places.count()) > 63)
    fail(Status::kNotImplemented, "{} indices of {} places are more than 2^63 pairs", count, rows.places.count());
  require(workspace && bytes >= workspace_bytes(count), "the workspace has {} bytes: {} are needed",
          workspace ? bytes : 0, workspace_bytes(count));
  const auto begin = round_up(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(workspace)), kAlignment);
  rows.numbers = reinterpret_cast<std::uint64_t*>(begin);
  rows.other_numbers = rows.numbers + count;
  const AlignedBuffer dy(stream.info(), *b.dy.desc, b.dy.data, "dy"), dx(stream.info(), *b.dx.desc, b.dx.data, "dx");
  rows.type = b.dx.desc->type;
  rows.dx = dx.data();
  rows.dy = dy.data();
  std::vector<AlignedBuffer> indices;
  std::vector<Operand> aligned;
  for (const Operand& index : b.indices)
    aligned.push_back({index.desc, indices.emplace_back(stream.info(), *index.desc, index.data, "an index").data()});
  rows.indices = aligned;
  std::optional<AlignedBuffer> error;
  if (b.error.desc) error.emplace(stream.info(), *b.error.desc, b.error.data, "error");
  rows.error = error ? static_cast<std::int32_t*>(error->data()) : nullptr;
  stream.info().kind == DeviceKind::kCpu ? add_rows_on_cpu(stream, rows) : add_rows_on_gpu(stream, rows);
  dx.write_back();
  if (error) error->write_back();
}

}  // namespace

std::size_t workspace_bytes(std::int64_t count) {
  return 2 * sizeof(std::uint64_t) * static_cast<std::size_t>(count) + static_cast<std::size_t>(kAlignment);
}

void backward(Stream& stream, const Backward& b, void* workspace, std::size_t bytes) {
  require_float_tensor(*b.dx.desc, "dx", kMaxRank, "gradients of indexing");
  require_float_tensor(*b.dy.desc, "dy", kMaxRank, "gradients of indexing");
  require_same_type(*b.dy.desc, "dy", *b.dx.desc, "dx");
  require_separate(*b.dx.desc, "dx");
  require(b.dy.data != b.dx.data, "dy and dx are the same memory: they must differ");
  require_no_overlap(*b.dy.desc, b.dy.data, "dy", *b.dx.desc, b.dx.data);
  require_indices(b);
  const TensorDesc view = view_of(b);
  if (!b.indices.empty()) return run(stream, b, view, workspace, bytes);
  require_same_sizes(*b.dy.desc, "dy", view, "what the slices select");
  char* const begin = static_cast<char*>(b.dx.data) + b.offset * static_cast<std::int64_t>(size_of(view.type));
  tensor_ops::transform(stream, 1, {*b.dy.desc, b.dy.data}, 1, {view, begin});
}

}  // namespace polymio::getitem
