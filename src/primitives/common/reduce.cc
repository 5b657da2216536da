// Long rows are cut into chunks, whose values are merged in order. Where columns are contiguous and rows are not, rows
// of columns are reduced instead, in chunks as well.
// SPDX-License-Identifier: MIT
#include "primitives/common/reduce.h"

#include <algorithm>
#include <vector>

#include "base/math.h"

namespace polymio::common {
namespace {

constexpr std::int64_t kTaskElements = std::int64_t{1} << 15;  // about 10 us, and within the L2 cache
constexpr std::int64_t kLeastColumns = 16;                     // fewest contiguous columns that are reduced as such

__extension__ using Wide = __int128;
using Offsets = std::array<std::int64_t, kMaxOperands>;

Offsets offsets_of(const Cursor& at) {
  Offsets offsets{};
  for (std::size_t o = 0; o < offsets.size(); ++o) offsets[o] = at.offset(o);
  return offsets;
}

/// Whether neighbours in the innermost kept dimension are contiguous in every input that is reduced, and neighbours in
/// the innermost reduced one are not.
template <class A>
bool has_columns(const RowLoops& loops, const Operands& operands, const kernels::Reduction<A>& kernel) {
  if (loops.kept.inner().size < kLeastColumns) return false;
  for (std::size_t o = operands.outputs; o < operands.outputs + kernel.reads; ++o)
    if (loops.kept.inner().strides[o] != 1 || loops.reduced.inner().strides[o] == 1) return false;
  return true;
}

/// Values of parts of rows, and how rows are cut.
template <class A>
class Reducer {
 public:
  Reducer(const RowLoops& loops, const Operands& operands, const kernels::Reduction<A>& kernel, const void* job)
      : loops_(loops),
        operands_(operands),
        kernel_(kernel),
        job_(job),
        runs_(loops.reduced, operands, operands.outputs, operands.outputs + kernel.reads),
        rows_(loops.kept.count()),
        length_(loops.reduced.count()),
        columns_(has_columns(loops, operands, kernel)) {
    const std::int64_t width = loops.kept.inner().size;
    group_ = columns_ ? std::min(width, kBlock) : std::clamp<std::int64_t>(kTaskElements / length_, 1, rows_);
    chunk_ = columns_ ? std::max<std::int64_t>(1, kTaskElements / group_) : kTaskElements;
    chunks_ = ceil_div(length_, chunk_);
    groups_in_width_ = ceil_div(columns_ ? width : rows_, group_);
  }

  std::int64_t rows() const { return rows_; }
  std::int64_t chunks() const { return chunks_; }
  std::int64_t chunk() const { return chunk_; }
  std::int64_t length() const { return length_; }
  std::int64_t group() const { return group_; }

  void run(Stream& stream) {
    const std::size_t k = kernel_.accumulators;
    table_.resize(static_cast<std::size_t>(chunks_ * rows_) * k);
    const std::int64_t widths = columns_ ? rows_ / loops_.kept.inner().size : 1;
    const std::int64_t groups = widths * groups_in_width_;
    stream.parallel_for(static_cast<std::size_t>(chunks_ * groups), 0, [&](std::size_t i, void*) {
      const std::int64_t task = static_cast<std::int64_t>(i), c = task / groups, g = task % groups;
      columns_ ? reduce_columns(c, g / groups_in_width_, g % groups_in_width_) : reduce_rows(c, g);
    });
  }

  /// The values of a row, all chunks merged.
  void values(std::int64_t row, A* out) const {
    for (std::size_t k = 0; k < kernel_.accumulators; ++k) out[k] = *at(0, k, row);
    for (std::int64_t c = 1; c < chunks_; ++c) {
      A part[kernels::kMaxAccumulators];
      for (std::size_t k = 0; k < kernel_.accumulators; ++k) part[k] = *at(c, k, row);
      kernel_.merge(job_, part, out);
    }
  }

  /// Adds elements [begin, end) of the row at `cursor` to the values.
  void add(const Cursor& cursor, std::int64_t begin, std::int64_t end, A* values) const {
    std::int64_t done = begin;
    runs_.each(begin, end, offsets_of(cursor), [&](const kernels::Run& run) {
      kernel_.reduce(job_, run, done, values);
      done += run.n;
    });
  }

 private:
  const A* at(std::int64_t chunk, std::size_t accumulator, std::int64_t row) const {
    return table_.data() + (chunk * static_cast<std::int64_t>(kernel_.accumulators) + accumulator) * rows_ + row;
  }
  A* at(std::int64_t chunk, std::size_t accumulator, std::int64_t row) {
    return const_cast<A*>(std::as_const(*this).at(chunk, accumulator, row));
  }

  void reduce_rows(std::int64_t chunk, std::int64_t group) {
    const std::int64_t first = group * group_, last = std::min(first + group_, rows_);
    const std::int64_t begin = chunk * chunk_, end = std::min(begin + chunk_, length_);
    Cursor cursor(loops_.kept, first);
    for (std::int64_t row = first; row < last; ++row, cursor.advance(1)) {
      A values[kernels::kMaxAccumulators];
      kernel_.start(job_, values);
      add(cursor, begin, end, values);
      for (std::size_t k = 0; k < kernel_.accumulators; ++k) *at(chunk, k, row) = values[k];
    }
  }

  void reduce_columns(std::int64_t chunk, std::int64_t outer, std::int64_t group) {
    const std::int64_t width = loops_.kept.inner().size, first = outer * width + group * group_;
    const std::int64_t begin = chunk * chunk_, end = std::min(begin + chunk_, length_);
    A none[kernels::kMaxAccumulators];
    kernel_.start(job_, none);
    kernels::Rows rows;
    rows.n = std::min(group_, width - group * group_);
    for (std::size_t k = 0; k < kernel_.accumulators; ++k) std::fill_n(at(chunk, k, first), rows.n, none[k]);
    const Cursor column(loops_.kept, first);
    Cursor cursor(loops_.reduced, begin);
    for (std::int64_t i = begin; i < end; i += rows.rows) {
      rows.rows = std::min(cursor.run(), end - i);
      for (std::size_t r = 0; r < kernel_.reads; ++r) {
        const std::size_t o = operands_.outputs + r;
        const auto bytes = static_cast<std::int64_t>(operands_.size[o]);
        rows.in[r] = static_cast<const char*>(operands_.data[o]) + (cursor.offset(o) + column.offset(o)) * bytes;
        rows.row_bytes[r] = loops_.reduced.inner().strides[o] * bytes;
      }
      kernel_.reduce_columns(job_, rows, i, at(chunk, 0, first), rows_);
      cursor.advance(rows.rows);
    }
  }

  const RowLoops& loops_;
  const Operands& operands_;
  const kernels::Reduction<A>& kernel_;
  const void* job_;
  const Runs runs_;
  std::int64_t rows_, length_;
  bool columns_;
  std::int64_t group_ = 1, chunk_ = 1, chunks_ = 1, groups_in_width_ = 1;
  std::vector<A> table_;  // [chunk][accumulator][row]
};

}  // namespace

RowLoops row_loops(const Loop& all, FunctionRef<bool(std::size_t dim)> reduced) {
  RowLoops loops;
  loops.kept.operands = loops.reduced.operands = all.operands;
  loops.kept.base = all.base;
  for (std::size_t d = 0; d < all.rank; ++d) {
    const bool is_reduced = reduced(d);
    (is_reduced ? loops.reduced : loops.kept).push(all.dims[d]);
  }
  loops.reduced.simplify();
  loops.kept.merge();
  return loops;
}

template <class A>
void reduce(Stream& stream, const RowLoops& loops, const Operands& inputs, const kernels::Reduction<A>& kernel,
            const void* job, RowResult<A> result, Results results) {
  constexpr std::int64_t kTaskRows = 2048;
  Reducer<A> reducer(loops, inputs, kernel, job);
  reducer.run(stream);
  const bool concurrent = results == Results::kConcurrent;
  for_ranges(stream, reducer.rows(), concurrent ? kTaskRows : reducer.rows(),
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t row = first; row < last; ++row) {
                 A values[kernels::kMaxAccumulators];
                 reducer.values(row, values);
                 result(row, values);
               }
             });
}

template void reduce(Stream&, const RowLoops&, const Operands&, const kernels::Reduction<double>&, const void*,
                     RowResult<double>, Results);
template void reduce(Stream&, const RowLoops&, const Operands&, const kernels::Reduction<Wide>&, const void*,
                     RowResult<Wide>, Results);

void reduce_and_apply(Stream& stream, const RowLoops& loops, const Operands& operands,
                      const kernels::Reduction<>& kernel, const void* job, RowResult<double> result) {
  Reducer<double> reducer(loops, operands, kernel, job);
  const Runs runs(loops.reduced, operands);
  const auto apply = [&](const Cursor& cursor, std::int64_t begin, std::int64_t end, const double* values) {
    runs.each(begin, end, offsets_of(cursor), [&](const kernels::Run& run) { kernel.apply(job, run, values); });
  };
  using Values = std::array<double, kernels::kMaxAccumulators>;
  const std::int64_t rows = reducer.rows(), length = reducer.length();
  if (reducer.chunks() == 1) {
    for_ranges(stream, rows, std::clamp<std::int64_t>(kTaskElements / length, 1, rows),
               [&](std::int64_t first, std::int64_t last) {
                 Cursor cursor(loops.kept, first);
                 for (std::int64_t row = first; row < last; ++row, cursor.advance(1)) {
                   Values values;
                   kernel.start(job, values.data());
                   reducer.add(cursor, 0, length, values.data());
                   result(row, values.data());
                   apply(cursor, 0, length, values.data());
                 }
               });
    return;
  }
  reducer.run(stream);
  std::vector<Values> values(static_cast<std::size_t>(rows));
  for (std::int64_t row = 0; row < rows; ++row) {
    double* const of_row = values[static_cast<std::size_t>(row)].data();
    reducer.values(row, of_row);
    result(row, of_row);
  }
  const std::int64_t chunk = reducer.chunk(), chunks = reducer.chunks();
  stream.parallel_for(static_cast<std::size_t>(rows * chunks), 0, [&](std::size_t i, void*) {
    const std::int64_t task = static_cast<std::int64_t>(i), row = task / chunks, begin = task % chunks * chunk;
    apply(Cursor(loops.kept, row), begin, std::min(begin + chunk, length),
          values[static_cast<std::size_t>(row)].data());
  });
}

}  // namespace polymio::common
