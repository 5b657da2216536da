// Launches of getitem.cl: kernels are cached by type.
// SPDX-License-Identifier: MIT
#include "primitives/getitem/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"
#include "base/math.h"
#include "core/kernel_builder.h"
#include "kernels/gpu/nest.h"
#include "primitives/common/gpu/skeletons.h"

namespace polymio::getitem {
namespace {

using gpu_skeletons::nest_of;
using kernels::Nest;

constexpr std::int64_t kThreads = 256, kSorted = 512, kMaxBlocks = std::int64_t{1} << 30;  // as in getitem.cl

enum Entry : std::size_t { kNumberPlaces, kSortBlocks, kMergeRuns, kAddRows, kEntries };
constexpr const char* kNames[] = {"number_places", "sort_blocks", "merge_runs", "add_rows"};

KernelSpec spec_of(const DeviceInfo& device, DataType type, std::size_t entry) {
  KernelSpec spec{"primitives/getitem/gpu/getitem.cl", kNames[entry], {}};
  spec.options = {fmt::format("-DIN={}", name_of(type)), fmt::format("-DOUT={}", name_of(type)),
                  fmt::format("-DNUM={}", type == DataType::kDouble ? "double" : "float")};
  if (device.gpu.fp64) spec.options.emplace_back("-DFP64");
  return spec;
}

SharedKernels& shared = *new SharedKernels;

const Kernel& kernel(Stream& stream, const Rows& rows, Entry entry) {
  return shared.get(stream, static_cast<std::uint64_t>(rows.type) << 9 | entry,
                    [&] { return spec_of(stream.info(), rows.type, entry); });
}

/// As in getitem.cl.
struct Dims {
  std::int64_t of[kMaxRank] = {};
  int rank = 0;
};
Dims dims_of(const std::array<std::int64_t, kMaxRank>& values, int rank) {
  Dims dims;
  std::copy(values.begin(), values.end(), dims.of);
  dims.rank = rank;
  return dims;
}

void number_places(Stream& stream, const Rows& rows) {
  for (std::size_t j = 0; j < rows.indices.size(); ++j) {
    const TensorDesc* const desc = rows.indices[j].desc;
    Nest nest = nest_of(make_loop({&desc, 1}), 1, {0});
    nest.group(1);
    std::int64_t first = 0;
    const Buffer error(rows.error ? rows.error : rows.indices[j].data);
    each_part(nest, [&](const Nest& part) {
      launch(stream, kernel(stream, rows, kNumberPlaces), launch_shape(kThreads, ceil_div(part.count(), kThreads)),
             part.walk(), Buffer(rows.indices[j].data), part.strides(0), Buffer(rows.numbers), first,
             rows.places.size[j], static_cast<int>(j), error, static_cast<int>(rows.error != nullptr));
      first += part.count();
    });
  }
}

/// Returns the sorted numbers, in one of the two buffers.
const std::uint64_t* sort(Stream& stream, const Rows& rows) {
  const std::int64_t count = rows.positions.count();
  std::uint64_t *from = rows.numbers, *to = rows.other_numbers;
  launch(stream, kernel(stream, rows, kSortBlocks), launch_shape(kThreads, ceil_div(count, kSorted)), Buffer(from),
         count, rows.places.count(), rows.shift);
  for (std::int64_t run = kSorted; run < count; run *= 2, std::swap(from, to))
    launch(stream, kernel(stream, rows, kMergeRuns), launch_shape(kThreads, ceil_div(count, kThreads)), Buffer(from),
           Buffer(to), count, run);
  return from;
}

void add_sorted(Stream& stream, const Rows& rows, const std::uint64_t* sorted) {
  const std::int64_t count = rows.positions.count();
  Nest nest = nest_of(rows.row, 0, {0, 1});
  nest.group(1);
  each_part(nest, [&](const Nest& part) {
    const auto width = static_cast<std::uint64_t>(std::min(part.count(), kThreads));
    const auto lanes = static_cast<std::int64_t>(std::bit_ceil(width));
    const std::int64_t per_block = kThreads / lanes, row_blocks = ceil_div(part.count(), lanes);
    const std::int64_t step = kMaxBlocks / row_blocks * per_block;
    for (std::int64_t first = 0; first < count; first += step) {
      const std::int64_t blocks = ceil_div(std::min(step, count - first), per_block) * row_blocks;
      launch(stream, kernel(stream, rows, kAddRows), launch_shape(kThreads, blocks), part.walk(), Buffer(rows.dx),
             part.strides(0), Buffer(rows.dy), part.strides(1), Buffer(sorted), first, count, rows.shift,
             static_cast<int>(lanes), dims_of(rows.places.size, rows.places.rank),
             dims_of(rows.places.stride, rows.places.rank), dims_of(rows.positions.size, rows.positions.rank),
             dims_of(rows.positions.stride, rows.positions.rank));
    }
  });
}

}  // namespace

void add_rows_on_gpu(Stream& stream, const Rows& rows) {
  if (rows.type == DataType::kDouble && !stream.info().gpu.fp64)
    fail(Status::kNotImplemented, "{} has no double-precision arithmetic", stream.info().name);
  stream.check_memory(rows.dx, "the buffer of dx");
  stream.check_memory(rows.dy, "the buffer of dy");
  stream.check_memory(rows.numbers, "the workspace");
  for (const Operand& index : rows.indices) stream.check_memory(index.data, "an index tensor");
  if (rows.error) stream.check_memory(rows.error, "error");
  number_places(stream, rows);
  add_sorted(stream, rows, sort(stream, rows));
}

std::vector<KernelSpec> programs(const DeviceInfo& device, DataType type) {
  std::vector<KernelSpec> specs;
  for (std::size_t entry = 0; entry < kEntries && (type != DataType::kDouble || device.gpu.fp64); ++entry)
    specs.push_back(spec_of(device, type, entry));
  return specs;
}

}  // namespace polymio::getitem
