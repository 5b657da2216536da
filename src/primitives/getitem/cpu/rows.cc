// Sorts the numbers of positions in pieces by their digits, and merges these; then adds the rows of each place, in
// blocks of a row.
// SPDX-License-Identifier: MIT
#include "primitives/getitem/rows.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <utility>

#include "base/math.h"
#include "kernels/cpu/kernels_of.h"
#include "kernels/cpu/tensor_ops.h"
#include "primitives/common/runs.h"

namespace polymio::getitem {
namespace {

using common::kBlock;

constexpr std::int64_t kTaskElements = std::int64_t{1} << 15;  // about 10 us
constexpr std::int64_t kPrefetchDistance = 4, kPrefetchBytes = 1024,
                       kLine = 64;  // rows; bytes of each; of a cache line
constexpr int kDigit = 11;          // bits: counters stay in the L1 cache

void number_positions(Stream& stream, const Rows& rows) {
  std::array<const TensorDesc*, kMaxRank> tensors{};
  for (std::size_t j = 0; j < rows.indices.size(); ++j) tensors[j] = rows.indices[j].desc;
  const Loop loop = make_loop(std::span(tensors).first(rows.indices.size()));
  const std::int64_t count = rows.positions.count(), outside = rows.places.count();
  std::array<std::atomic<bool>, kMaxRank> failed{};
  for_ranges(stream, count, kTaskElements, [&](std::int64_t begin, std::int64_t end) {
    Cursor cursor(loop, begin);
    for (std::int64_t i = begin; i < end; ++i, cursor.advance(1)) {
      std::int64_t place = 0;
      for (std::size_t j = 0; j < rows.indices.size(); ++j) {
        const std::int64_t size = rows.places.size[j];
        std::int64_t index = static_cast<const std::int32_t*>(rows.indices[j].data)[cursor.offset(j)];
        if (index < 0) index += size;
        const bool inside = index >= 0 && index < size;
        if (!inside) failed[j].store(true, std::memory_order_relaxed);
        place = inside && place != outside ? place * size + index : outside;
      }
      rows.numbers[i] = static_cast<std::uint64_t>(place << rows.shift | i);
    }
  });
  for (std::size_t j = 0; j < rows.indices.size(); ++j)
    if (rows.error && failed[j]) rows.error[j] = -1;
}

/// Sorts numbers whose positions ascend by their places, kDigit bits at a time; they are back in `from` if the number
/// of digits is even.
void sort_by_place(std::uint64_t* from, std::uint64_t* to, std::int64_t count, int shift, int digits) {
  constexpr std::uint64_t kMask = (std::uint64_t{1} << kDigit) - 1;
  for (int d = 0; d < digits; ++d, std::swap(from, to)) {
    const int low = shift + d * kDigit;
    std::array<std::int64_t, kMask + 2> begin{};
    for (std::int64_t i = 0; i < count; ++i) ++begin[(from[i] >> low & kMask) + 1];
    for (std::size_t k = 1; k < begin.size(); ++k) begin[k] += begin[k - 1];
    for (std::int64_t i = 0; i < count; ++i) to[begin[from[i] >> low & kMask]++] = from[i];
  }
}

/// Returns the sorted numbers, in one of the two buffers. They are distinct: their order is that of no number of
/// threads.
const std::uint64_t* sort(Stream& stream, const Rows& rows) {
  std::uint64_t *from = rows.numbers, *to = rows.other_numbers;
  const std::int64_t count = rows.positions.count();
  const int bits = std::bit_width(static_cast<std::uint64_t>(rows.places.count())),
            digits = (bits + kDigit - 1) / kDigit;
  std::int64_t run = std::max(kTaskElements, ceil_div(count, std::int64_t{stream.threads()}));
  for_ranges(stream, count, run, [&](std::int64_t begin, std::int64_t end) {
    sort_by_place(from + begin, to + begin, end - begin, rows.shift, digits);
  });
  if (digits % 2 == 1) std::swap(from, to);
  for (; run < count; run *= 2, std::swap(from, to))
    for_ranges(stream, count, 2 * run, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t middle = std::min(begin + run, end);
      std::merge(from + begin, from + middle, from + middle, from + end, to + begin);
    });
  return from;
}

/// Kernels that convert and add rows: A is the type of the sums.
template <class A>
class Adder {
 public:
  Adder(const Stream& stream, const Rows& rows, const std::uint64_t* sorted)
      : rows_(rows),
        sorted_(sorted),
        runs_dx_(rows.row, operands_, common::RunShape::kOneRow, 0, 1),
        runs_dy_(rows.row, operands_, common::RunShape::kOneRow, 1, 2) {
    const auto& kernels = kernels::kernels_of<kernels::TensorOpsKernels>(stream.info().isa);
    first_ = {kernels::BinaryFunction::kFirst, rows.type, kSum, 1, 0, 0};
    later_ = {kernels::BinaryFunction::kFirst, rows.type, kSum, 1, 0, 1};
    last_ = {kernels::BinaryFunction::kFirst, kSum, rows.type, 1, 0, 1};
    to_sum_ = kernels.binary(first_);
    add_to_sum_ = kernels.binary(later_);
    add_to_dx_ = kernels.binary(last_);
  }

  /// Adds block [begin, end) of the rows of the places that begin among the sorted numbers [from, to).
  void add(std::int64_t from, std::int64_t to, std::int64_t begin, std::int64_t end) const {
    const std::int64_t count = rows_.positions.count();
    while (from < to) {
      const std::int64_t place = rows_.place_of(sorted_[from]);
      if (place >= rows_.places.count()) return;
      const bool begins = from == 0 || rows_.place_of(sorted_[from - 1]) != place;
      const std::int64_t last = begins ? count : to;  // a place may end in a later part
      std::int64_t next = from + 1;
      while (next < last && rows_.place_of(sorted_[next]) == place) ++next;
      if (begins) add_place(place, from, next, begin, end);
      from = next;
    }
  }

 private:
  static constexpr DataType kSum = sizeof(A) == 8 ? DataType::kDouble : DataType::kFloat;
  using Moved = std::array<std::int64_t, kMaxOperands>;

  static common::Operands operands_of(const Rows& rows) {
    common::Operands operands;
    operands.push(rows.dx, size_of(rows.type));
    operands.push(rows.dy, size_of(rows.type));
    operands.reads_outputs = true;
    return operands;
  }

  std::int64_t offset_in_dy(std::int64_t s) const { return rows_.positions.offset(rows_.position_of(sorted_[s])); }

  /// Rows of dy are read in the order of the places: the processor cannot foresee their addresses.
  void prefetch(std::int64_t first, std::int64_t elements) const {
    if (!rows_.row.flat()) return;
    const auto size = static_cast<std::int64_t>(size_of(rows_.type));
    const char* const row = static_cast<const char*>(rows_.dy) + first * size;
    for (std::int64_t i = 0; i < std::min(elements * size, kPrefetchBytes); i += kLine) __builtin_prefetch(row + i);
  }

  void add_place(std::int64_t place, std::int64_t from, std::int64_t to, std::int64_t begin, std::int64_t end) const {
    alignas(64) A sum[kBlock];
    Moved moved{};
    for (std::int64_t s = from; s < to; ++s) {
      moved[1] = offset_in_dy(s);
      if (s + kPrefetchDistance < rows_.positions.count())
        prefetch(offset_in_dy(s + kPrefetchDistance) + begin, end - begin);
      A* at = sum;
      runs_dy_.each(begin, end, moved, [&](const kernels::Run& given) {
        kernels::Run run = given;
        run.out[0] = at;
        s == from ? to_sum_(first_, run) : add_to_sum_(later_, run);
        at += run.n;
      });
    }
    moved[0] = rows_.places.offset(place);
    const A* at = sum;
    runs_dx_.each(begin, end, moved, [&](const kernels::Run& given) {
      kernels::Run run = given;
      run.in[0] = at;
      add_to_dx_(last_, run);
      at += run.n;
    });
  }

  const Rows& rows_;
  const std::uint64_t* sorted_;
  const common::Operands operands_ = operands_of(rows_);
  const common::Runs runs_dx_, runs_dy_;
  kernels::Binary first_, later_, last_;
  kernels::BinaryKernel to_sum_, add_to_sum_, add_to_dx_;
};

template <class A>
void add_sorted(Stream& stream, const Rows& rows, const std::uint64_t* sorted) {
  const Adder<A> adder(stream, rows, sorted);
  const std::int64_t count = rows.positions.count(), length = rows.row.count();
  const std::int64_t blocks = ceil_div(length, kBlock);
  const std::int64_t part = std::max<std::int64_t>(1, kTaskElements / std::min(length, kBlock));
  stream.parallel_for(static_cast<std::size_t>(ceil_div(count, part) * blocks), 0, [&](std::size_t i, void*) {
    const std::int64_t task = static_cast<std::int64_t>(i), from = task / blocks * part, begin = task % blocks * kBlock;
    adder.add(from, std::min(from + part, count), begin, std::min(begin + kBlock, length));
  });
}

}  // namespace

void add_rows_on_cpu(Stream& stream, const Rows& rows) {
  number_positions(stream, rows);
  const std::uint64_t* const sorted = sort(stream, rows);
  if (rows.type == DataType::kDouble) return add_sorted<double>(stream, rows, sorted);
  add_sorted<float>(stream, rows, sorted);
}

}  // namespace polymio::getitem
