// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>
#include <numeric>

#include "base/error.h"
#include "base/math.h"
#include "primitives/common/gpu/arguments.h"
#include "primitives/common/gpu/skeletons.h"

namespace polymio::gpu_skeletons {
namespace {

using kernels::i64;
using kernels::Nest;

constexpr i64 kThreads = 512, kMaxCluster = 8, kPixels = 4;  // as in column.h
constexpr i64 kMaxParts = 64, kMinUnitsPerThread = 4, kMaxColumnsPerBlock = 64;

/// What a plan asks about the inputs. Outputs have one element per column.
class Inputs {
 public:
  explicit Inputs(const Columns& columns) : columns_(columns), nest_(columns.nest) {
    nest_.operands = nest_.inputs;
    vector_ = kernels::vector_of(columns.sides[0].size,
                                 columns.sides[static_cast<std::size_t>(columns.nest.operands) - 1].size);
  }

  const Nest& nest() const { return nest_; }
  int vector() const { return vector_; }

  bool contiguous() const {
    return all([&](std::size_t o) { return nest_.inner().strides[o] == 1; });
  }
  /// Whether columns have the stride and no vectors (NCHWc).
  bool have_stride(i64 stride) const {
    return all([&](std::size_t o) { return columns_.shape.stride[o] == stride && columns_.shape.vector[o] == 1; });
  }
  /// Whether columns are neighbours in vectors, in all inputs that differ between columns, that are aligned, or would
  /// be in aligned buffers if the program takes others; and whether they are.
  bool have_vectors_across() const { return have_vectors_across(true); }
  bool aligned_across() const { return have_vectors_across(false); }
  /// Whether vectors along dimension `along`, or across columns if negative, are aligned.
  bool aligned(int along) const {
    return all([&](std::size_t o) {
      return kernels::is_aligned(nest_, static_cast<int>(o), columns_.sides[o], along, vector_);
    });
  }
  bool have_units() const { return contiguous() && has_units(nest_, columns_.sides, vector_); }
  /// Whether vectors of a column are aligned in every column.
  bool have_vectors() const {
    return have_units() && takes_vectors(nest_, columns_.sides, vector_) && all([&](std::size_t o) {
             return columns_.shape.stride[o] * static_cast<i64>(columns_.sides[o].size) % 16 == 0;
           });
  }

 private:
  bool have_vectors_across(bool in_aligned_buffers) const {
    alignas(16) static constexpr char kAligned = 0;
    return all([&](std::size_t o) {
      const auto i = static_cast<int>(o);
      kernels::Side side = columns_.sides[o];
      if (in_aligned_buffers && columns_.any_alignment) side.data = &kAligned;
      const i64 stride = columns_.shape.stride[o], neighbours = columns_.shape.vector[o];
      const bool divides = neighbours == 1 ? stride == 1 : neighbours % vector_ == 0 && stride % vector_ == 0;
      return i >= nest_.inputs - columns_.equal_across || (divides && kernels::is_aligned(nest_, i, side, -1, vector_));
    });
  }
  template <class Condition>
  bool all(const Condition& condition) const {
    for (std::size_t o = 0; o < static_cast<std::size_t>(nest_.inputs); ++o)
      if (!condition(o)) return false;
    return true;
  }

  const Columns& columns_;
  Nest nest_;
  int vector_;
};

/// Columns per block: those that share cache lines, fewer if multiprocessors would idle. `blocks` can share a column.
int columns_together(const DeviceInfo& device, const Columns& columns, i64 blocks) {
  const int vector = columns.shape.vector[0];
  if (vector == 1 && columns.shape.stride[0] >= columns.nest.inner().strides[0]) return 1;
  int together = 32;
  if (vector > 1 && together % vector == 0) return vector;
  while (together > 1 && columns.shape.columns * blocks < i64{together} * device.units) together /= 2;
  return together;
}

/// Columns that are neighbours in vectors: vectors of columns per block, 0 if they are not, and blocks per column.
struct Across {
  int together = 0;
  int blocks = 1;
};

/// Few threads share a column where columns fill the device, fewer if each loads several tensors: partial sums cost
/// more than elements. A thread has at least two rounds of elements to load at once, if columns are long enough.
Across share_across(const DeviceInfo& device, const Columns& columns, const Inputs& inputs, i64 most_blocks) {
  constexpr i64 kLoadsPerUnit = 1024, kMostRows = 64, kNeighbours = 4;
  const i64 vectors = columns.shape.columns / inputs.vector();
  if (columns.shape.columns % inputs.vector() != 0 || !inputs.have_vectors_across()) return {};
  const auto power_below = [](i64 n) { return static_cast<i64>(std::bit_floor(static_cast<std::uint64_t>(n))); };
  const int tensors = std::clamp(columns.nest.inputs - columns.equal_across, 1, 2);
  const i64 filling = kLoadsPerUnit / tensors * device.units / vectors;
  const i64 sharing = std::max<i64>(std::min(filling, columns.nest.count() / (2 * kPixels)), 1);
  i64 together = kThreads / std::min(power_below(sharing), kMostRows);
  while (together > 1 && together / 2 >= vectors) together /= 2;
  i64 blocks = std::clamp<i64>(sharing * together / kThreads, 1, most_blocks);
  if (most_blocks == kMaxCluster && 2 * blocks < kMaxCluster) blocks = 1;  // clusters have all their blocks
  while (together > kNeighbours && 2 * ceil_div(vectors, together) * blocks < device.units &&
         columns.nest.count() >= kPixels * kThreads / together)
    together /= 2;
  return {static_cast<int>(together), static_cast<int>(blocks)};
}

/// Plan of column_planes for contiguous planes of columns. plane_vectors is 0 if the kernel does not apply.
ColumnPlan plan_planes(const DeviceInfo& device, const Columns& columns, const Inputs& inputs) {
  const int vector = inputs.vector();
  const int rank = columns.nest.rank;
  const i64 plane = columns.nest.inner().size;
  ColumnPlan plan{ColumnEntry::kPlanes, columns.nest, columns.shape};
  plan.shape.together = static_cast<int>(vector / std::gcd(plane, i64{vector}));
  plan.shape.aligned = 1;
  const i64 groups = columns.shape.columns / plan.shape.together;
  if (rank > 2 || plane < vector || columns.shape.columns % plan.shape.together != 0 || !inputs.contiguous() ||
      !inputs.have_stride(plane) || 2 * groups * kMaxCluster < device.units || !inputs.aligned(rank - 1))
    return plan;
  const i64 vectors = plan.shape.together * plane / vector;
  const i64 least = ceil_div(vectors, kThreads);
  i64 pieces = least;
  while (vectors % pieces != 0 && pieces < 8 * least) ++pieces;
  if (vectors % pieces != 0 || (pieces > 1 && plan.shape.together > 1)) return plan;
  plan.plane_vectors = static_cast<int>(vectors / pieces);
  while (plan.parts < kMaxCluster && groups * plan.parts < 2 * device.units) plan.parts *= 2;
  plan.nest.inner().size = pieces;
  plan.nest.inner().strides.fill(vectors / pieces * vector);
  if (rank > 1 && pieces == 1) --plan.nest.rank;
  plan.blocks = round_up(groups * plan.parts, kMaxCluster);
  return plan;
}

/// Blocks that share a column, so that they fill the device at once and each has something to do. Registers admit
/// three of a multiprocessor's blocks, or two that read vectors.
constexpr i64 kBlocksPerUnit = 3, kVectorBlocksPerUnit = 2;
int count_parts(const DeviceInfo& device, i64 blocks_per_unit, i64 groups, i64 units, i64 rows) {
  const i64 filling = blocks_per_unit * device.units / std::max<i64>(groups, 1);
  return static_cast<int>(std::clamp<i64>(std::min(filling, units / (rows * kMinUnitsPerThread)), 1, kMaxParts));
}

}  // namespace

ColumnPlan plan_column(const DeviceInfo& device, const Columns& columns) {
  const Inputs inputs(columns);
  ColumnPlan plan{ColumnEntry::kElements, columns.nest, columns.shape};
  if (const Across across = share_across(device, columns, inputs, kMaxCluster); across.together > 0) {
    const bool clusters = across.blocks > 1;
    plan.entry = clusters ? ColumnEntry::kAcrossClusters : ColumnEntry::kAcross;
    plan.shape.aligned = inputs.aligned_across();
    plan.shape.together = across.together;
    plan.nest.group(1);
    plan.blocks = ceil_div(plan.shape.columns, across.together * inputs.vector()) * (clusters ? kMaxCluster : 1);
    return plan;
  }
  if (const ColumnPlan planes = plan_planes(device, columns, inputs); planes.plane_vectors > 0) return planes;
  plan.shape.together = columns_together(device, columns, 1);
  const bool units = plan.shape.together == 1 && inputs.have_units();
  if (units) plan.entry = inputs.have_vectors() ? ColumnEntry::kVectors : ColumnEntry::kUnits;
  plan.nest.group(units ? inputs.vector() : 1);
  plan.blocks = ceil_div(plan.shape.columns, plan.shape.together);
  return plan;
}

ColumnPlan plan_column_partials(const DeviceInfo& device, const Columns& columns) {
  const Inputs inputs(columns);
  ColumnPlan plan{ColumnEntry::kPartialElements, columns.nest, columns.shape};
  if (const Across across = share_across(device, columns, inputs, kMaxParts); across.together > 0) {
    plan.entry = ColumnEntry::kPartialAcross;
    plan.shape.aligned = inputs.aligned_across();
    plan.shape.together = across.together;
    plan.nest.group(1);
    plan.parts = across.blocks;
    plan.blocks = ceil_div(plan.shape.columns, across.together * inputs.vector()) * plan.parts;
  } else {
    constexpr i64 kElementsPerBlock = kThreads / 32 * kMinUnitsPerThread;  // of 32 columns
    constexpr i64 kShortColumn = 1024, kFewestTogether = 4;
    // A second launch takes longer than short columns that fill the device, even if they share no cache lines.
    const bool whole = plan.nest.count() <= kShortColumn && columns.shape.columns >= kFewestTogether * device.units;
    const i64 sharing = whole ? 1 : std::clamp<i64>(plan.nest.count() / kElementsPerBlock, 1, kMaxParts);
    plan.shape.together = columns_together(device, columns, sharing);
    const bool vectors = plan.shape.together == 1 && inputs.have_vectors();
    if (vectors) plan.entry = ColumnEntry::kPartialVectors;
    plan.nest.group(vectors ? inputs.vector() : 1);
    const i64 groups = ceil_div(plan.shape.columns, plan.shape.together);
    plan.parts = whole ? 1
                       : count_parts(device, vectors ? kVectorBlocksPerUnit : kBlocksPerUnit, groups, plan.nest.count(),
                                     kThreads / plan.shape.together);
    plan.blocks = groups * plan.parts;
  }
  plan.launches = 0;
  each_part(plan.nest, [&](const Nest&) { ++plan.launches; });
  return plan;
}

std::size_t max_column_workspace(const DeviceInfo& device, i64 columns, i64 elements_per_column,
                                 std::size_t accumulator_bytes) {
  const i64 groups = ceil_div(columns, kMaxColumnsPerBlock);
  const i64 parts = count_parts(device, kBlocksPerUnit, groups, elements_per_column, 1);
  const i64 launches =
      3 * elements_per_column / kernels::kMaxPartUnits + 1;  // each_part fills a third of each at least
  return static_cast<std::size_t>(columns * parts * launches) * accumulator_bytes;
}

void launch_column(Stream& stream, const Kernel& kernel, const ColumnPlan& plan, const kernels::Sides& sides,
                   FormulaOfPart formula) {
  bool first = true;
  each_part(plan.nest, [&](const Nest& part) {
    const bool planes = plan.entry == ColumnEntry::kPlanes;
    const std::array added = {value_argument(plan.shape), formula(first), value_argument(plan.plane_vectors),
                              value_argument(plan.parts)};
    const Arguments arguments(part, sides, std::span(added).first(planes ? 4 : 2));
    stream.launch(kernel, launch_shape(kThreads, plan.blocks), arguments.list());
    first = false;
  });
}

void launch_column_partials(Stream& stream, const Kernel& partial, const Kernel& finish, const ColumnPlan& plan,
                            const kernels::Sides& sides, Argument formula, Buffer workspace) {
  if (plan.is_whole()) workspace = Buffer(sides[static_cast<std::size_t>(plan.nest.operands) - 1].data);  // not null
  const Argument partials{Argument::Kind::kBuffer, &workspace, sizeof(workspace)};
  int done = plan.is_whole() ? -1 : 0;
  each_part(plan.nest, [&](const Nest& part) {
    const std::array added = {value_argument(plan.shape), formula, partials, value_argument(plan.parts),
                              value_argument(done)};
    const Arguments arguments(part, sides, added);
    stream.launch(partial, launch_shape(kThreads, plan.blocks), arguments.list());
    done += plan.parts;
  });
  if (plan.is_whole()) return;
  const int lanes = static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::min<i64>(done, kMaxParts))));
  const std::array added = {value_argument(plan.shape), formula, partials, value_argument(done), value_argument(lanes)};
  const Arguments arguments(plan.nest, sides, added);
  stream.launch(finish, launch_shape(kThreads, ceil_div(plan.shape.columns, kThreads / lanes)), arguments.list());
}

}  // namespace polymio::gpu_skeletons
