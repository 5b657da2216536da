// Launches of the GPU skeletons of kernels/gpu/portable: which entry point the sizes, strides and addresses of a call
// admit, how many blocks, which arguments. A plan depends on no data and may be kept.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "base/function_ref.h"
#include "core/loop.h"
#include "kernels/gpu/nest.h"
#include "kernels/gpu/portable/column_shape.h"
#include "kernels/gpu/portable/row_shape.h"
#include "runtime/device.h"

namespace polymio::gpu_skeletons {

/// A struct that a kernel takes by value.
template <class T>
Argument value_argument(const T& value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 128);
  return {Argument::Kind::kValue, &value, sizeof(T)};
}

/// The loop's iteration space for these of its operands, inputs first.
kernels::Nest nest_of(const Loop&, int inputs, std::span<const std::size_t> operands);
kernels::Nest nest_of(const Loop&, int inputs, std::initializer_list<std::size_t> operands);
/// The same for all operands of a loop that has its `outputs` first.
kernels::Nest nest_of(const Loop&, std::size_t outputs);

/// Entry points of a program that includes map.h.
enum class MapEntry { kElements, kVectors, kRows };
inline constexpr std::array<const char*, 3> kMapEntries = {"map_elements", "map_vectors", "map_rows"};

struct MapPlan {
  MapEntry entry = MapEntry::kElements;
  kernels::Nest nest{};  // in units of the entry point
  std::int64_t units_per_block = 1;
};
/// `group`: GROUP of the program.
MapPlan plan_map(const kernels::Nest&, const kernels::Sides&, int group = 1);

/// Launches the plan's entry point; `formula` has the program's FORMULA_PARAMETERS, up to 4, or is its Formula. Absent
/// inputs must not be read.
void launch_map(Stream&, const Kernel&, const MapPlan&, const kernels::Sides&, std::span<const Argument> formula);
inline void launch_map(Stream& stream, const Kernel& kernel, const MapPlan& plan, const kernels::Sides& sides,
                       Argument formula) {
  launch_map(stream, kernel, plan, sides, {&formula, 1});
}

/// Entry points of a program that includes column.h, then of one that includes column_partials.h.
enum class ColumnEntry {
  kElements,
  kUnits,
  kVectors,
  kAcross,
  kAcrossClusters,
  kPlanes,
  kPartialElements,
  kPartialVectors,
  kPartialAcross,
  kFinish
};
inline constexpr std::array<const char*, 10> kColumnEntries = {
    "column_elements", "column_units",     "column_vectors",  "column_across",  "column_across_clusters",
    "column_planes",   "partial_elements", "partial_vectors", "partial_across", "column_finish"};
inline constexpr std::size_t kWholeColumnEntries = static_cast<std::size_t>(ColumnEntry::kPartialElements);

/// Columns to reduce: the nest iterates over the elements of one of them, in the inputs. The planner sets
/// shape.together.
struct Columns {
  kernels::Nest nest{};
  kernels::Sides sides{};
  kernels::ColumnShape shape{};
  int equal_across = 0;        // the last so many inputs have one element for all columns, EQUAL_ACROSS of the program
  bool any_alignment = false;  // whether the program defines ANY_ALIGNMENT
};

struct ColumnPlan {
  ColumnEntry entry = ColumnEntry::kElements;
  kernels::Nest nest{};  // in units of the entry point
  kernels::ColumnShape shape{};
  std::int64_t blocks = 1;
  int plane_vectors = 0;  // kPlanes: vectors of a block's planes
  int parts = 1;          // blocks that share a column, for each launch
  int launches = 1;       // of the first stage: columns of more than 2^30 units take several
  bool is_whole() const { return parts * launches == 1; }
  /// Bytes that launch_column_partials() needs; 0 if one block has all of a column, which takes no second stage.
  std::size_t workspace(std::size_t accumulator_bytes) const {
    return is_whole() ? 0 : static_cast<std::size_t>(shape.columns * parts * launches) * accumulator_bytes;
  }
};
ColumnPlan plan_column(const DeviceInfo&, const Columns&);
ColumnPlan plan_column_partials(const DeviceInfo&, const Columns&);
/// What the workspace of plan_column_partials() does not exceed, whatever the strides and alignment of the columns.
std::size_t max_column_workspace(const DeviceInfo&, std::int64_t columns, std::int64_t elements_per_column,
                                 std::size_t accumulator_bytes);

/// Launches the entry point of plan_column(). Columns of more than 2^30 units take several launches: `formula` gives
/// that of the first or of a later one, which must add to the results of those before.
using FormulaOfPart = FunctionRef<Argument(bool first)>;
void launch_column(Stream&, const Kernel&, const ColumnPlan&, const kernels::Sides&, FormulaOfPart formula);

/// Launches the stages of plan_column_partials(). `workspace` has plan.workspace(sizeof(Accumulator)) bytes, aligned
/// as Accumulator is.
void launch_column_partials(Stream&, const Kernel& partial, const Kernel& finish, const ColumnPlan&,
                            const kernels::Sides&, Argument formula, Buffer workspace);

/// Entry points of a program that includes row.h.
enum class RowEntry { kElements, kVectors, kPartialElements, kPartialVectors, kApplyElements, kApplyVectors };
inline constexpr std::array<const char*, 6> kRowEntries = {"row_elements",         "row_vectors",
                                                           "partial_row_elements", "partial_row_vectors",
                                                           "apply_row_elements",   "apply_row_vectors"};

inline constexpr int kRowThreads = 256;  // THREADS of row.h, unless a program defines it

/// Rows to reduce: the innermost `column_rank` dimensions of the nest are those of a row. Operands are the inputs, the
/// `mapped` outputs that have elements of rows, then those with one element per row, which have stride 0 in a row.
struct Rows {
  kernels::Nest nest{};
  kernels::Sides sides{};
  int column_rank = 1;
  int mapped = 0;
  int threads = kRowThreads;  // THREADS of the program
  int vector = 0;             // VECTOR of the program, 0: the usual one
};

struct RowPlan {
  kernels::Nest nest{};  // in units
  kernels::RowShape shape{};
  bool vectors = false;
  int threads = kRowThreads;
  std::int64_t rows() const;
  /// Bytes that launch_row() needs; 0 unless several blocks share a row.
  std::size_t workspace(std::size_t accumulator_bytes) const;
};
/// Throws NotImplemented for rows of more than 2^30 units.
RowPlan plan_row(const DeviceInfo&, const Rows&);
/// Threads per block, from kRowThreads up to `most`, that keep rows of so many units in registers; few enough that
/// several blocks fit a multiprocessor if rows are more than those.
int row_threads(const DeviceInfo&, std::int64_t rows, std::int64_t units, int most);
/// What the workspace of plan_row() does not exceed, whatever the strides and alignment of the rows.
std::size_t max_row_workspace(const DeviceInfo&, std::int64_t rows, std::int64_t elements_per_row,
                              std::size_t accumulator_bytes);

/// Launches the plan's entry points. `workspace` has plan.workspace(sizeof(Accumulator)) bytes, aligned to 16.
using KernelOfRow = FunctionRef<const Kernel&(RowEntry)>;
void launch_row(Stream&, KernelOfRow, const RowPlan&, const kernels::Sides&, Argument formula, Buffer workspace);

}  // namespace polymio::gpu_skeletons
