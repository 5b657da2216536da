// Long rows are cut into chunks, whose values are merged in order. Where columns are contiguous and rows are not, rows
// of columns are reduced instead, in chunks as well. Many short rows are reduced by one call. The second pass follows
// the first while a row or a group of columns is in the caches, unless that leaves threads idle.
// SPDX-License-Identifier: MIT
#include "primitives/common/reduce.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/math.h"
#include "kernels/cpu/caches.h"
#include "primitives/common/caches.h"
#include "primitives/common/copy.h"
#include "primitives/common/kept_vector.h"

namespace polymio::common {
namespace {

constexpr std::int64_t kLeastColumns = 16;    // fewest contiguous columns that are reduced as such
constexpr std::int64_t kCachedColumns = 128;  // fewest columns of a second pass: lines that follow each other
constexpr std::int64_t kCachedTasks = 4;      // task sizes that the caches keep until the second pass
constexpr std::int64_t kColumnChunks = 64;    // most chunks of columns, whose values one thread merges
constexpr std::int64_t kTasksPerThread = 2;   // tasks that suffice to reduce rows whole
constexpr std::int64_t kShortRow = 64;        // elements of rows that take longer than a transposed copy of them
constexpr std::int64_t kCopied = 2048;        // elements of such a copy
constexpr std::int64_t kLine = 64;            // bytes
constexpr std::int64_t kLeastRun = 24;        // elements of runs that are reduced for many rows at once
constexpr std::int64_t kLeastOfSeveral = 16;  // the same of several inputs, each of which would be copied
constexpr std::int64_t kMostRuns = 64;        // of such rows, whose values are merged run by run
constexpr std::int64_t kRowsElements = 8192;  // of such rows, which the L1 cache keeps until the second pass
constexpr std::int64_t kTermBytes = 1 << 16;  // of the terms of such rows
constexpr std::int64_t kVectorRows = 16;      // rows whose lanes kernels merge together
constexpr std::int64_t kMergedRow = 1024;     // most elements of such a row

__extension__ using Wide = __int128;
using Offsets = std::array<std::int64_t, kMaxOperands>;

Offsets offsets_of(const Cursor& at) {
  Offsets offsets{};
  for (std::size_t o = 0; o < offsets.size(); ++o) offsets[o] = at.offset(o);
  return offsets;
}

/// The operands that the kernel uses: without a second pass the reduced inputs alone.
struct Used {
  std::size_t first, end;
};
template <class A>
Used used_by(const Operands& operands, const kernels::Reduction<A>& kernel) {
  if (kernel.apply) return {0, operands.count};
  return {operands.outputs, operands.outputs + kernel.reads};
}

/// Whether neighbours in the innermost kept dimension are contiguous in every operand that the kernel uses, or equal in
/// inputs with one element per row, and neighbours in the innermost reduced one are not.
template <class A>
bool has_columns(const RowLoops& loops, const Operands& operands, const kernels::Reduction<A>& kernel) {
  if (loops.kept.inner().size < kLeastColumns) return false;
  const std::size_t reduced = operands.outputs + kernel.reads;
  const Used used = used_by(operands, kernel);
  const bool single = loops.reduced.count() == 1;
  for (std::size_t o = used.first; o < used.end; ++o) {
    const bool scalar = o < reduced && o + kernel.row_scalars >= reduced;
    if (loops.kept.inner().strides[o] != (scalar ? 0 : 1)) return false;
    if (!scalar && !single && loops.reduced.inner().strides[o] == 1) return false;
  }
  return true;
}

/// Values of parts of rows, and how rows are cut.
template <class A>
class Reducer {
 public:
  /// `copies`: the instruction set of copies of short rows; none: they are not copied. `task`: elements of a task.
  Reducer(const RowLoops& loops, const Operands& operands, const kernels::Reduction<A>& kernel, const void* job,
          std::optional<CpuIsa> copies, std::int64_t task = kReductionTask)
      : loops_(loops),
        operands_(operands),
        kernel_(kernel),
        job_(job),
        copies_(copies),
        runs_(loops.reduced, operands, RunShape::kRows, operands.outputs, operands.outputs + kernel.reads),
        applied_(loops.reduced, operands, RunShape::kRows),
        rows_(loops.kept.count()),
        length_(loops.reduced.count()),
        columns_(has_columns(loops, operands, kernel) && !has_short_columns()),
        together_(kernel.reduce_each && !columns_ && has_runs()),
        short_(!columns_ && !together_ && is_short()) {
    const std::int64_t width = loops.kept.inner().size, fitting = task / length_;
    const std::int64_t cached = std::clamp(fitting / kCachedColumns * kCachedColumns, kCachedColumns, kBlock);
    const bool stays_cached = length_ * cached <= kCachedTasks * task;
    // Rows of several runs have neighbours that are read with them.
    std::int64_t fitting_rows = together_ && loops.reduced.rank > 1 ? kCachedTasks * task / length_ : fitting;
    if (together_ && fitting_rows > kVectorRows) fitting_rows = fitting_rows / kVectorRows * kVectorRows;
    group_ = !columns_ ? std::clamp<std::int64_t>(fitting_rows, 1, rows_)
                       : std::min(width, kernel.apply && stays_cached ? cached : kBlock);
    const std::int64_t in_chunk = kernel.apply && stays_cached ? kCachedTasks * task : task;
    chunk_ = columns_ ? std::max(in_chunk / group_, ceil_div(length_, kColumnChunks)) : task;
    chunks_ = ceil_div(length_, chunk_);
    groups_in_width_ = ceil_div(columns_ ? width : rows_, group_);
    groups_ = groups_in_width_ * (columns_ ? rows_ / width : 1);
    std::int64_t bytes = 0;
    for (std::size_t k = 0; k < kernel.reads; ++k)
      bytes += rows_ * length_ * static_cast<std::int64_t>(operands.size[operands.outputs + k]);
    const bool streams = finishes_short_rows() ? prefetches_rows(length_ * static_cast<std::int64_t>(operands_.size[0]))
                         : kernel.apply        ? kernels::fetches_streams()
                                               : kernels::fetches_merged_rows();
    prefetches_ = streams && bytes > 2 * kernels::kResultCaches;
  }

  void run(Stream& stream) {
    table_->assign(static_cast<std::size_t>(chunks_ * rows_) * kernel_.accumulators, A{});
    stream.parallel_for(static_cast<std::size_t>(chunks_ * groups_), 0, [&](std::size_t i, void*) {
      const std::int64_t task = static_cast<std::int64_t>(i), c = task / groups_;
      const Group g = group(task % groups_);
      columns_ ? reduce_columns(c, g, at(c, 0, g.first), rows_) : reduce_rows(c, g);
    });
  }

  /// Merges the chunks and passes the values of every row on, rows in order.
  void finish(RowResult<A> result) {
    merge_chunks();
    for (std::int64_t row = 0; row < rows_; ++row) {
      A values[kernels::kMaxAccumulators];
      for (std::size_t k = 0; k < kernel_.accumulators; ++k) values[k] = *at(0, k, row);
      result(row, values);
    }
  }

  void run_and_apply(Stream& stream, RowResult<A> result) {
    run_and_apply(stream, RowsResult<A>([&](std::int64_t first, std::int64_t n, A* values, std::int64_t pitch) {
                    for (std::int64_t i = 0; i < n; ++i) {
                      A one[kernels::kMaxAccumulators];
                      for (std::size_t k = 0; k < kernel_.accumulators; ++k)
                        one[k] = values[static_cast<std::int64_t>(k) * pitch + i];
                      result(first + i, one);
                      for (std::size_t k = 0; k < kernel_.accumulators; ++k)
                        values[static_cast<std::int64_t>(k) * pitch + i] = one[k];
                    }
                  }));
  }

  void run_and_apply(Stream& stream, RowsResult<A> result) {
    if (chunks_ == 1 || groups_ >= kTasksPerThread * stream.threads()) {
      // Neighbours may share cache lines of what the callee writes: threads take several groups.
      const std::int64_t several = std::clamp<std::int64_t>(kReductionTask / (group_ * length_), 1,
                                                            1 + groups_ / (kTasksPerThread * stream.threads()));
      return for_ranges(stream, groups_, several, [&](std::int64_t first, std::int64_t end) {
        for (std::int64_t i = first; i < end; ++i) finish_group(group(i), result);
      });
    }
    run(stream);
    merge_chunks();
    for (std::int64_t row = 0; row < rows_; row += kBlock)
      result(row, std::min(kBlock, rows_ - row), at(0, 0, row), rows_);
    if (!kernel_.apply) return;
    stream.parallel_for(static_cast<std::size_t>(chunks_ * groups_), 0, [&](std::size_t i, void*) {
      const std::int64_t task = static_cast<std::int64_t>(i), c = task / groups_;
      const Group g = group(task % groups_);
      columns_ ? apply_columns(c, g, at(0, 0, g.first), rows_) : apply_rows(c, g);
    });
  }

 private:
  using Values = std::array<A, kernels::kMaxAccumulators* static_cast<std::size_t>(kBlock)>;
  struct Group {
    std::int64_t first, n;  // rows
  };
  struct Part {
    std::int64_t begin, end;  // elements of a row
  };
  Group group(std::int64_t number) const {
    const std::int64_t width = columns_ ? loops_.kept.inner().size : rows_;
    const std::int64_t at = number % groups_in_width_ * group_;
    return {number / groups_in_width_ * width + at, std::min(group_, width - at)};
  }
  bool is_short() const {
    if (!copies_ || rows_ < kLeastColumns) return false;
    return kernel_.apply ? kernel_.apply_columns && length_ <= kShortRow : length_ <= kCopied / kLeastColumns;
  }
  /// Whether the columns that are neighbours are too few for a call.
  bool has_short_columns() const {
    return !kernel_.apply && is_short() && length_ <= kShortRow && loops_.kept.inner().size < kCachedColumns;
  }
  /// Whether rows consist of a few long contiguous runs, or repeated elements of inputs.
  bool has_runs() const {
    const Loop::Dim& inner = loops_.reduced.inner();
    const std::int64_t least = kernel_.reads > 1 ? kLeastOfSeveral : kLeastRun;
    if (inner.size < least || length_ / inner.size > kMostRuns) return false;
    for (std::size_t o = 0; o < operands_.count; ++o)
      if (inner.strides[o] != 1 && (inner.strides[o] != 0 || o < operands_.outputs)) return false;
    return true;
  }
  Part part(std::int64_t chunk) const { return {chunk * chunk_, std::min((chunk + 1) * chunk_, length_)}; }

  A* at(std::int64_t chunk, std::size_t accumulator, std::int64_t row) {
    return table_->data() + (chunk * static_cast<std::int64_t>(kernel_.accumulators) + accumulator) * rows_ + row;
  }
  const A* at(std::int64_t chunk, std::size_t accumulator, std::int64_t row) const {
    return const_cast<Reducer*>(this)->at(chunk, accumulator, row);
  }

  /// Adds the values of later chunks to those of the first.
  void merge_chunks() {
    for (std::int64_t c = 1; c < chunks_; ++c) kernel_.merge(job_, rows_, at(c, 0, 0), at(0, 0, 0), rows_);
  }

  /// The values of a chunk of the row at `cursor`.
  void reduce_row(const Cursor& cursor, std::int64_t chunk, A* values) const {
    kernel_.start(job_, values);
    const auto [begin, end] = part(chunk);
    runs_.each(begin, end, offsets_of(cursor), [&, done = begin](const kernels::Run& run) mutable {
      kernel_.reduce(job_, run, done, values);
      done += run.n * run.rows;
    });
  }
  void apply_row(const Cursor& cursor, std::int64_t chunk, const A* values) const {
    if (!kernel_.apply) return;
    const auto [begin, end] = part(chunk);
    applied_.each(begin, end, offsets_of(cursor),
                  [&](const kernels::Run& run) { kernel_.apply(job_, run, values, 1, 0); });
  }

  void finish_group(const Group& g, RowsResult<A> result) const {
    if (columns_) return finish_columns(g, result);
    if (short_) return finish_short_rows(g, result);
    if (together_ && chunks_ == 1 && g.n > 1) return finish_rows_together(g, result);
    finish_rows(g, result);
  }

  void reduce_rows(std::int64_t chunk, const Group& g) {
    Cursor cursor(loops_.kept, g.first);
    for (std::int64_t row = g.first; row < g.first + g.n; ++row, cursor.advance(1)) {
      A values[kernels::kMaxAccumulators];
      reduce_row(cursor, chunk, values);
      for (std::size_t k = 0; k < kernel_.accumulators; ++k) *at(chunk, k, row) = values[k];
    }
  }
  void apply_rows(std::int64_t chunk, const Group& g) const {
    Cursor cursor(loops_.kept, g.first);
    for (std::int64_t row = g.first; row < g.first + g.n; ++row, cursor.advance(1)) {
      A values[kernels::kMaxAccumulators];
      for (std::size_t k = 0; k < kernel_.accumulators; ++k) values[k] = *at(0, k, row);
      apply_row(cursor, chunk, values);
    }
  }
  void finish_rows(const Group& g, RowsResult<A> result) const {
    Cursor cursor(loops_.kept, g.first);
    for (std::int64_t row = g.first; row < g.first + g.n; ++row, cursor.advance(1)) {
      A values[kernels::kMaxAccumulators], later[kernels::kMaxAccumulators];
      reduce_row(cursor, 0, values);
      for (std::int64_t c = 1; c < chunks_; ++c) {
        reduce_row(cursor, c, later);
        kernel_.merge(job_, 1, later, values, 1);
      }
      result(row, 1, values, 1);
      for (std::int64_t c = 0; c < chunks_; ++c) apply_row(cursor, c, values);
    }
  }

  /// Many rows of one chunk at a time, run by run, so that neighbouring rows are read together.
  void finish_rows_together(const Group& g, RowsResult<A> result) const {
    const std::int64_t term_row = round_up(length_ * static_cast<std::int64_t>(kernel_.term_bytes), kLine);
    const bool keeps = term_row > 0 && loops_.reduced.rank == 1 && term_row <= kTermBytes;
    const std::int64_t cached = kRowsElements / (keeps ? 2 * length_ : length_);
    // What no second pass reads again need not stay in a cache.
    const bool all = !kernel_.apply || loops_.reduced.rank > 1;
    std::int64_t most = all ? std::min(g.n, kBlock) : std::clamp<std::int64_t>(cached, 1, kBlock);
    if (most > kVectorRows) most = most / kVectorRows * kVectorRows;
    if (length_ <= kMergedRow && kVectorRows * term_row <= kTermBytes) most = std::max(most, kVectorRows);
    alignas(kLine) unsigned char terms[kTermBytes + kLine];
    Values values, later;
    const bool at_once = finishes_short_rows();
    Cursor cursor(loops_.kept, g.first);
    for (std::int64_t row = g.first, n; row < g.first + g.n; row += n, cursor.advance(n)) {
      n = std::min({cursor.run(), g.first + g.n - row, at_once ? g.n : most});
      if (at_once) {
        each_run(cursor, n, {}, [&](const kernels::Run& run, std::int64_t) { kernel_.finish_short(job_, run); });
        continue;
      }
      const kernels::Run kept{.terms = keeps ? terms : nullptr, .term_row_bytes = term_row};
      each_run(cursor, n, kept, [&](const kernels::Run& run, std::int64_t first) {
        kernel_.reduce_each(job_, run, first, (first == 0 ? values : later).data(), kBlock);
        if (first > 0) kernel_.merge(job_, n, later.data(), values.data(), kBlock);
      });
      result(row, n, values.data(), kBlock);
      if (!kernel_.apply) continue;
      each_run(cursor, n, kept,
               [&](const kernels::Run& run, std::int64_t) { kernel_.apply(job_, run, values.data(), kBlock, 1); });
    }
  }
  bool finishes_short_rows() const {
    const auto size = static_cast<std::int64_t>(operands_.size[0]);
    const std::int64_t most = size < 4 ? kernels::kShortRowBytes : kernels::kFinishedRowBytes;
    return kernel_.finish_short && loops_.reduced.flat() && length_ * size <= most && !operands_.reads_outputs;
  }
  /// Calls body(run, number of its first element) for each run of n neighbouring rows.
  template <class Body>
  void each_run(const Cursor& rows, std::int64_t n, kernels::Run run, const Body& body) const {
    run.rows = n;
    run.prefetches = prefetches_;
    Cursor at(loops_.reduced, 0);
    for (std::int64_t i = 0; i < length_; i += run.n, at.advance(run.n)) {
      run.n = at.run();
      for (std::size_t o = 0; o < operands_.count; ++o) {
        const auto bytes = static_cast<std::int64_t>(operands_.size[o]);
        char* const data = static_cast<char*>(operands_.data[o]) + (rows.offset(o) + at.offset(o)) * bytes;
        const std::int64_t apart = loops_.kept.inner().strides[o] * bytes;
        if (o < operands_.outputs) {
          run.out[o] = data;
          run.out_row_bytes[o] = apart;
        } else {
          const std::size_t k = o - operands_.outputs;
          run.in[k] = data;
          run.in_row_bytes[k] = apart;
          if (loops_.reduced.inner().strides[o] == 0) run.repeats |= 1u << k;
        }
      }
      body(run, i);
    }
  }

  /// Calls body(rows, number of the first row) for the rows of a chunk of the columns.
  template <class Body>
  void each_rows(std::int64_t chunk, const Group& g, const Body& body) const {
    const auto [begin, end] = part(chunk);
    const Cursor column(loops_.kept, g.first);
    Cursor cursor(loops_.reduced, begin);
    kernels::Rows rows;
    rows.n = g.n;
    for (std::int64_t i = begin; i < end; i += rows.rows) {
      rows.rows = std::min(cursor.run(), end - i);
      for (std::size_t o = 0; o < operands_.count; ++o) {
        const auto bytes = static_cast<std::int64_t>(operands_.size[o]);
        char* const data = static_cast<char*>(operands_.data[o]) + (cursor.offset(o) + column.offset(o)) * bytes;
        const std::int64_t apart = loops_.reduced.inner().strides[o] * bytes;
        if (o < operands_.outputs) {
          rows.out[o] = data;
          rows.out_row_bytes[o] = apart;
        } else {
          rows.in[o - operands_.outputs] = data;
          rows.row_bytes[o - operands_.outputs] = apart;
        }
      }
      body(rows, i);
      cursor.advance(rows.rows);
    }
  }

  /// The values of no elements; values[accumulator * pitch + column].
  void set_none(std::int64_t columns, A* values, std::int64_t pitch) const {
    A none[kernels::kMaxAccumulators];
    kernel_.start(job_, none);
    for (std::size_t k = 0; k < kernel_.accumulators; ++k)
      std::fill_n(values + static_cast<std::int64_t>(k) * pitch, columns, none[k]);
  }
  void reduce_columns(std::int64_t chunk, const Group& g, A* values, std::int64_t pitch) const {
    set_none(g.n, values, pitch);
    each_rows(chunk, g, [&](const kernels::Rows& rows, std::int64_t first) {
      kernel_.reduce_columns(job_, rows, first, values, pitch);
    });
  }
  void apply_columns(std::int64_t chunk, const Group& g, const A* values, std::int64_t pitch) const {
    if (!kernel_.apply) return;
    each_rows(chunk, g,
              [&](const kernels::Rows& rows, std::int64_t) { kernel_.apply_columns(job_, rows, values, pitch); });
  }
  void finish_columns(const Group& g, RowsResult<A> result) const {
    Values values, later;
    reduce_columns(0, g, values.data(), kBlock);
    for (std::int64_t c = 1; c < chunks_; ++c) {
      reduce_columns(c, g, later.data(), kBlock);
      kernel_.merge(job_, g.n, later.data(), values.data(), kBlock);
    }
    result(g.first, g.n, values.data(), kBlock);
    for (std::int64_t c = 0; c < chunks_; ++c) apply_columns(c, g, values.data(), kBlock);
  }

  /// Rows of few elements as columns of a transposed copy.
  void finish_short_rows(const Group& all, RowsResult<A> result) const {
    alignas(64) unsigned char copies[kMaxOperands][kCopied * sizeof(double)];
    const std::int64_t most = std::min({kCopied / length_, kBlock, all.n});
    const Used used = used_by(operands_, kernel_);
    for (std::int64_t first = 0; first < all.n; first += most) {
      const Group g{all.first + first, std::min(most, all.n - first)};
      kernels::Rows rows;
      rows.rows = length_;
      rows.n = g.n;
      for (std::size_t o = used.first; o < used.end; ++o) {
        const bool repeats = o >= operands_.outputs && has_only_strides_of_0(loops_.reduced, o);
        const std::int64_t row_bytes = repeats ? 0 : most * static_cast<std::int64_t>(operands_.size[o]);
        const bool is_read = o >= operands_.outputs || operands_.reads_outputs;
        if (is_read && (first == 0 || !has_only_strides_of_0(loops_.kept, o)))
          copy_rows<true>(o, g, repeats ? 1 : length_, copies[o], most);
        if (o < operands_.outputs) {
          rows.out[o] = copies[o];
          rows.out_row_bytes[o] = row_bytes;
        } else {
          rows.in[o - operands_.outputs] = copies[o];
          rows.row_bytes[o - operands_.outputs] = row_bytes;
        }
      }
      Values values;
      set_none(g.n, values.data(), kBlock);
      kernel_.reduce_columns(job_, rows, 0, values.data(), kBlock);
      result(g.first, g.n, values.data(), kBlock);
      if (!kernel_.apply) continue;
      kernel_.apply_columns(job_, rows, values.data(), kBlock);
      for (std::size_t o = 0; o < operands_.outputs; ++o) copy_rows<false>(o, g, length_, copies[o], most);
    }
  }
  static bool has_only_strides_of_0(const Loop& loop, std::size_t o) {
    return std::all_of(loop.dims.begin(), loop.dims.begin() + loop.rank,
                       [o](const Loop::Dim& d) { return d.size == 1 || d.strides[o] == 0; });
  }
  /// Copies the first `length` elements of an operand's rows to columns, whose elements are `pitch` apart, or back.
  template <bool kToColumns>
  void copy_rows(std::size_t o, const Group& g, std::int64_t length, unsigned char* columns, std::int64_t pitch) const {
    const auto bytes = static_cast<std::int64_t>(operands_.size[o]);
    const MatrixCopy copy(*copies_, operands_.size[o]);
    Cursor row(loops_.kept, g.first);
    for (std::int64_t r = 0, m; r < g.n; r += m, row.advance(m)) {
      m = std::min(row.run(), g.n - r);
      Cursor at(loops_.reduced, 0);
      for (std::int64_t i = 0, n; i < length; i += n, at.advance(n)) {
        n = std::min(at.run(), length - i);
        const MatrixCopy::Side memory{static_cast<char*>(operands_.data[o]) + (row.offset(o) + at.offset(o)) * bytes,
                                      loops_.kept.inner().strides[o], loops_.reduced.inner().strides[o]};
        const MatrixCopy::Side column{columns + (i * pitch + r) * bytes, 1, pitch};
        kToColumns ? copy(memory, column, m, n) : copy(column, memory, m, n);
      }
    }
  }

  const RowLoops& loops_;
  const Operands& operands_;
  const kernels::Reduction<A>& kernel_;
  const void* const job_;
  const std::optional<CpuIsa> copies_;
  const Runs runs_, applied_;  // of the reduced inputs, of all operands
  std::int64_t rows_, length_;
  bool columns_, together_, short_, prefetches_;
  std::int64_t group_ = 1, chunk_ = 1, chunks_ = 1, groups_in_width_ = 1, groups_ = 1;
  KeptVector<A, Reducer> table_;  // [chunk][accumulator][row]
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
            const void* job, RowResult<A> result) {
  Reducer<A> reducer(loops, inputs, kernel, job, {});
  reducer.run(stream);
  reducer.finish(result);
}

template void reduce(Stream&, const RowLoops&, const Operands&, const kernels::Reduction<double>&, const void*,
                     RowResult<double>);
template void reduce(Stream&, const RowLoops&, const Operands&, const kernels::Reduction<Wide>&, const void*,
                     RowResult<Wide>);

void reduce_and_apply(Stream& stream, const RowLoops& loops, const Operands& operands,
                      const kernels::Reduction<>& kernel, const void* job, RowResult<double> result) {
  Reducer<double>(loops, operands, kernel, job, stream.info().isa).run_and_apply(stream, result);
}

void reduce_and_apply_many(Stream& stream, const RowLoops& loops, const Operands& operands,
                           const kernels::Reduction<>& kernel, const void* job, RowsResult<double> result) {
  Reducer<double>(loops, operands, kernel, job, stream.info().isa).run_and_apply(stream, result);
}

void reduce_many(Stream& stream, const RowLoops& loops, const Operands& inputs, const kernels::Reduction<>& kernel,
                 const void* job, RowsResult<double> result, std::int64_t task) {
  Reducer<double>(loops, inputs, kernel, job, stream.info().isa, task).run_and_apply(stream, result);
}

}  // namespace polymio::common
