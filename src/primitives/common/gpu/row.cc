// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>
#include <span>

#include "base/error.h"
#include "base/math.h"
#include "primitives/common/gpu/arguments.h"
#include "primitives/common/gpu/skeletons.h"

namespace polymio::gpu_skeletons {
namespace {

using kernels::i64;
using kernels::Nest;

constexpr i64 kKeptUnits = 4, kSubgroup = 32;                   // as in row.h and row_combine.h
constexpr i64 kMaxParts = kRowThreads, kMinUnitsPerThread = 4;  // a thread of row.h for each part
constexpr int kSharedThreads = 512;                             // per block, most of which two fit a multiprocessor

i64 power(i64 n) { return static_cast<i64>(std::bit_ceil(static_cast<std::uint64_t>(n))); }

/// Elements of the dimensions [first, end).
i64 count_of(const Nest& nest, int first, int end) {
  i64 n = 1;
  for (int d = first; d < end; ++d) n *= nest.dim(d).size;
  return n;
}

/// Whether the elements of a row are farther apart than those of neighbouring rows.
bool has_near_rows(const Nest& nest, int row_dims) {
  return row_dims > 0 && std::abs(nest.dim(row_dims - 1).strides[0]) < std::abs(nest.inner().strides[0]);
}

/// Threads per row if consecutive threads have neighbouring rows: few, while they keep a row in registers and rows fill
/// the device.
i64 lanes_of_near_rows(const DeviceInfo& device, i64 rows, i64 units) {
  constexpr i64 kMaxLanes = 16, kThreadsPerUnit = 512;
  i64 lanes = 1;
  const auto suffice = [&] { return rows * lanes >= kThreadsPerUnit * device.units && lanes * kKeptUnits >= units; };
  while (lanes < kMaxLanes && 2 * lanes <= units && !suffice()) lanes *= 2;
  return lanes;
}

/// Otherwise, if outputs are mapped: what keeps a row in registers, up to a block; at least a subgroup, or fewer
/// threads that share cache lines while rows fill the device; more while most of it idles.
i64 lanes_of_mapped_row(const DeviceInfo& device, i64 rows, i64 units, i64 unit_bytes, i64 threads) {
  constexpr i64 kThreadsPerUnit = 1024, kLeastThreadsPerUnit = 64;
  const i64 keeping = power(ceil_div(units, kKeptUnits)), most = std::min(power(units), threads);
  const i64 coalesced = power(ceil_div(i64{unit_bytes < 16 ? 32 : 128}, unit_bytes));
  const bool fills = rows * std::max(keeping, coalesced) >= kThreadsPerUnit * device.units;
  i64 lanes = std::min(std::max(fills ? coalesced : kSubgroup, keeping), most);
  while (lanes < most && rows * lanes < kLeastThreadsPerUnit * device.units) lanes *= 2;
  return lanes;
}

/// Else few, each of which reads several units in turn, as long as rows fill the device.
i64 lanes_of_row(const DeviceInfo& device, i64 rows, i64 units, i64 threads) {
  constexpr i64 kThreadsPerUnit = 512, kReadUnits = 32, kLeastLanes = 8;
  const i64 most = std::min(power(units), threads);
  i64 lanes = std::min(std::max(power(ceil_div(units, kReadUnits)), kLeastLanes), most);
  while (lanes < most && rows * lanes < kThreadsPerUnit * device.units) lanes *= 2;
  return lanes;
}

/// Whether vectors are aligned if buffers are. Units depend on that, so that sums do not depend on addresses.
bool may_take_vectors(const Nest& nest, kernels::Sides sides, int vector) {
  alignas(16) static constexpr char kAligned = 0;
  for (kernels::Side& side : sides)
    if (side.data) side.data = &kAligned;
  return takes_vectors(nest, sides, vector);
}

RowPlan plan_lanes(const DeviceInfo& device, const Rows& rows) {
  const int row_dims = rows.nest.rank - rows.column_rank;
  RowPlan plan{rows.nest, {}, false, rows.threads};
  Nest mapped = rows.nest;
  mapped.operands = rows.nest.inputs + rows.mapped;
  const std::size_t out = rows.sides[static_cast<std::size_t>(rows.nest.operands) - 1].size;
  const int vector = rows.vector > 0 ? rows.vector : kernels::vector_of(rows.sides[0].size, out);
  plan.vectors = may_take_vectors(mapped, rows.sides, vector);
  plan.nest.group(plan.vectors ? vector : 1);
  const i64 units = count_of(plan.nest, row_dims, plan.nest.rank);
  if (units > kernels::kMaxPartUnits)
    fail(Status::kNotImplemented, "a row has {} elements, at most {} are supported", units, kernels::kMaxPartUnits);
  const i64 count = count_of(plan.nest, 0, row_dims);
  const bool neighbours = !plan.vectors && has_near_rows(rows.nest, row_dims);
  const i64 unit_bytes = static_cast<i64>(rows.sides[0].size) * (plan.vectors ? vector : 1);
  const i64 lanes = neighbours        ? lanes_of_near_rows(device, count, units)
                    : rows.mapped > 0 ? lanes_of_mapped_row(device, count, units, unit_bytes, rows.threads)
                                      : lanes_of_row(device, count, units, rows.threads);
  plan.shape = {0, static_cast<int>(units), rows.column_rank, static_cast<int>(lanes), neighbours, 1, 1, 0};
  if (plan.vectors) plan.shape.aligned = takes_vectors(mapped, rows.sides, vector);
  const auto steps = std::span(plan.nest.step).first(static_cast<std::size_t>(mapped.operands));
  const bool dense = !plan.vectors || std::ranges::all_of(steps, [](i64 step) { return step == 1; });
  plan.shape.plain = rows.column_rank == 1 && plan.shape.aligned && dense;
  return plan;
}

/// Blocks per row: several if rows are long and too few to fill the device.
int count_parts(const DeviceInfo& device, i64 rows, i64 units, i64 threads) {
  const i64 filling = 2 * device.units / std::max<i64>(rows, 1);
  const i64 useful = units / (threads * kMinUnitsPerThread);
  return static_cast<int>(std::clamp<i64>(std::min(filling, useful), 1, kMaxParts));
}

}  // namespace

RowPlan plan_row(const DeviceInfo& device, const Rows& rows) {
  RowPlan plan = plan_lanes(device, rows);
  if (plan.shape.lanes == plan.threads)
    plan.shape.parts = count_parts(device, plan.rows(), plan.shape.columns, plan.threads);
  return plan;
}

int row_threads(const DeviceInfo& device, i64 rows, i64 units, int most) {
  const i64 at_once = rows < device.units ? most : std::min(most, kSharedThreads);
  const i64 limit = std::min<i64>(at_once, std::max(device.gpu.block_threads, kRowThreads));
  i64 threads = kRowThreads;
  while (2 * threads <= limit && threads < ceil_div(units, kKeptUnits)) threads *= 2;
  return static_cast<int>(threads);
}

std::size_t max_row_workspace(const DeviceInfo& device, i64 rows, i64 elements_per_row, std::size_t accumulator_bytes) {
  const int parts = count_parts(device, rows, elements_per_row, kRowThreads);
  return parts == 1 ? 0 : static_cast<std::size_t>(rows * parts) * accumulator_bytes;
}

std::int64_t RowPlan::rows() const { return count_of(nest, 0, nest.rank - shape.column_rank); }

std::size_t RowPlan::workspace(std::size_t accumulator_bytes) const {
  if (shape.parts == 1) return 0;
  return static_cast<std::size_t>(rows() * shape.parts) * accumulator_bytes;
}

void launch_row(Stream& stream, KernelOfRow kernel_of, const RowPlan& plan, const kernels::Sides& sides,
                Argument formula, Buffer workspace) {
  const auto entry = [&](RowEntry of_elements) -> const Kernel& {
    return kernel_of(static_cast<RowEntry>(static_cast<int>(of_elements) + (plan.vectors ? 1 : 0)));
  };
  const Argument partials{Argument::Kind::kBuffer, &workspace, sizeof(workspace)};
  each_part(plan.nest, [&](const Nest& part) {
    kernels::RowShape shape = plan.shape;
    shape.rows = static_cast<int>(part.count() / shape.columns);
    const std::array added = {value_argument(shape), formula, partials};
    const bool whole = shape.parts == 1;
    const Arguments arguments(part, sides, std::span(added).first(whole ? 2 : 3));
    if (whole) {
      const i64 blocks = ceil_div(shape.rows, plan.threads / shape.lanes);
      return stream.launch(entry(RowEntry::kElements), launch_shape(plan.threads, blocks), arguments.list());
    }
    const Launch launched = launch_shape(plan.threads, i64{shape.rows} * shape.parts);
    stream.launch(entry(RowEntry::kPartialElements), launched, arguments.list());
    stream.launch(entry(RowEntry::kApplyElements), launched, arguments.list());
  });
}

}  // namespace polymio::gpu_skeletons
