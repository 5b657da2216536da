// SPDX-License-Identifier: MIT
#include "primitives/common/runs.h"

#include <algorithm>

#include "primitives/common/copy.h"

namespace polymio::common {
namespace {

constexpr std::int64_t kLongRun = 32;   // the shortest run that is passed on alone
constexpr std::int64_t kLeastRow = 16;  // the shortest row that is passed on in place

/// Elements between rows and between neighbours of a row.
struct RowStrides {
  std::int64_t row, element;
};

/// Copies rows of elements of `size` bytes; short ones column by column.
void copy_piece(std::size_t size, const void* from, RowStrides from_strides, void* to, RowStrides to_strides,
                const Cursor::Piece& piece) {
  constexpr std::int64_t kShortRun = 8, kRowsAtOnce = 128;  // whose lines stay in the L1 cache
  const bool contiguous = from_strides.element == 1 && to_strides.element == 1;
  const auto bytes = static_cast<std::int64_t>(size);
  const char* const src = static_cast<const char*>(from);
  char* const dst = static_cast<char*>(to);
  if (piece.rows == 1 || piece.width >= (contiguous ? kShortRun : kLongRun)) {
    for (std::int64_t r = 0; r < piece.rows; ++r)
      copy_elements(size, src + r * from_strides.row * bytes, from_strides.element, dst + r * to_strides.row * bytes,
                    to_strides.element, piece.width);
    return;
  }
  for (std::int64_t r = 0; r < piece.rows; r += kRowsAtOnce)
    for (std::int64_t i = 0; i < piece.width; ++i)
      copy_elements(size, src + (r * from_strides.row + i * from_strides.element) * bytes, from_strides.row,
                    dst + (r * to_strides.row + i * to_strides.element) * bytes, to_strides.row,
                    std::min(kRowsAtOnce, piece.rows - r));
}

}  // namespace

struct Runs::Buffers {
  struct Repeated {
    std::int64_t offset = -1, count = 0;  // the element that fills the buffer, and how often it is there
  };
  alignas(64) unsigned char bytes[kMaxOperands][kBlock * 8];
  std::array<Repeated, kMaxOperands> repeated;
};

Runs::Runs(const Loop& loop, const Operands& operands, RunShape shape, std::size_t first, std::size_t end)
    : loop_(loop), operands_(operands), first_(first), end_(std::min(end, operands.count)) {
  in_rows_ = shape == RunShape::kRows && loop.inner().size >= kLeastRow;
  for (std::size_t o = first_; o < end_; ++o) {
    const std::int64_t stride = loop.inner().strides[o];
    in_place_[o] = stride == 1;
    all_in_place_ = all_in_place_ && in_place_[o];
    dense_[o] = 1;
    for (std::size_t d = loop.rank; d-- > 0 && loop.dims[d].strides[o] == dense_[o];) dense_[o] *= loop.dims[d].size;
    repeats_row_[o] = std::all_of(loop.dims.begin(), loop.dims.begin() + loop.rank - 1,
                                  [o](const Loop::Dim& d) { return d.strides[o] == 0; });
    in_rows_ = in_rows_ && (in_place_[o] || (stride == 0 && o >= operands.outputs));
  }
}

kernels::Run Runs::run_of(const Pointers& pointers, std::int64_t n) const {
  kernels::Run run;
  std::copy_n(pointers.begin(), operands_.outputs, run.out);
  std::copy_n(pointers.begin() + operands_.outputs, operands_.count - operands_.outputs, run.in);
  run.n = n;
  return run;
}

void Runs::each(std::int64_t begin, std::int64_t end, Body body) const { each(begin, end, {}, body); }

void Runs::each(std::int64_t begin, std::int64_t end, const std::array<std::int64_t, kMaxOperands>& moved,
                Body body) const {
  if (loop_.rank > 1 || !all_in_place_)
    return in_rows_ ? each_rows(begin, end, moved, body) : each_block(begin, end, moved, body);
  Pointers pointers{};
  for (std::size_t o = first_; o < end_; ++o) pointers[o] = address(o, loop_.base[o] + begin + moved[o]);
  body(run_of(pointers, end - begin));
}

void Runs::each_rows(std::int64_t begin, std::int64_t end, const std::array<std::int64_t, kMaxOperands>& moved,
                     Body body) const {
  const std::int64_t width = loop_.inner().size;
  kernels::Run run;
  for (std::size_t o = std::max(first_, operands_.outputs); o < end_; ++o)
    if (!in_place_[o]) run.repeats |= 1u << (o - operands_.outputs);
  Pointers pointers{};
  for (std::int64_t i = begin; i < end; i += run.rows * run.n) {
    const Cursor cursor(loop_, i);
    const bool whole = cursor.run() == width && end - i >= width;
    run.n = std::min(cursor.run(), end - i);
    run.rows = whole ? std::min(cursor.rows(), (end - i) / width) : 1;
    for (std::size_t o = first_; o < end_; ++o) {
      pointers[o] = address(o, cursor.offset(o) + moved[o]);
      const std::int64_t bytes =
          loop_.rank > 1 ? loop_.dims[loop_.rank - 2].strides[o] * static_cast<std::int64_t>(operands_.size[o]) : 0;
      (o < operands_.outputs ? run.out_row_bytes[o] : run.in_row_bytes[o - operands_.outputs]) = bytes;
    }
    std::copy_n(pointers.begin(), operands_.outputs, run.out);
    std::copy_n(pointers.begin() + operands_.outputs, operands_.count - operands_.outputs, run.in);
    body(run);
  }
}

void Runs::each_block(std::int64_t begin, std::int64_t end, const std::array<std::int64_t, kMaxOperands>& moved,
                      Body body) const {
  Buffers buffers;
  Pointers pointers{};
  Cursor cursor(loop_, begin);
  const std::int64_t width = loop_.inner().size;
  for (std::int64_t i = begin; i < end;) {
    const std::int64_t run = std::min(cursor.run(), end - i);
    const bool one_run = run >= kLongRun || run == end - i, starts_row = i % width == 0;
    // Of short rows only whole ones, so that a repeated row is gathered once.
    const std::int64_t n = !one_run        ? std::min(end - i, starts_row ? kBlock / width * width : run)
                           : all_in_place_ ? run
                                           : std::min(run, kBlock);
    for (std::size_t o = first_; o < end_; ++o)
      pointers[o] = is_in_place(o, i, n)
                        ? address(o, cursor.offset(o) + moved[o])
                        : gather(o, cursor, n, one_run ? loop_.inner().strides[o] == 0 : starts_row && repeats_row_[o],
                                 moved[o], buffers);
    body(run_of(pointers, n));
    for (std::size_t o = first_; o < std::min(end_, operands_.outputs); ++o)
      if (!is_in_place(o, i, n)) scatter(o, cursor, n, moved[o], pointers[o]);
    for (std::int64_t done = 0; done < n;) {
      const Cursor::Piece piece = cursor.piece(n - done);
      cursor.advance(piece);
      done += piece.count();
    }
    i += n;
  }
}

void* Runs::gather(std::size_t o, Cursor at, std::int64_t n, bool repeats, std::int64_t moved, Buffers& buffers) const {
  unsigned char* const buffer = buffers.bytes[o];
  if (o < operands_.outputs && !operands_.reads_outputs) return buffer;
  auto& repeated = buffers.repeated[o];
  if (repeats && repeated.offset == at.offset(o) && n <= repeated.count) return buffer;
  repeated = {repeats ? at.offset(o) : -1, n};
  const RowStrides from{at.row_stride(o), loop_.inner().strides[o]};
  for (std::int64_t done = 0; done < n;) {
    const Cursor::Piece piece = at.piece(n - done);
    copy_piece(operands_.size[o], address(o, at.offset(o) + moved), from,
               buffer + done * static_cast<std::int64_t>(operands_.size[o]), {piece.width, 1}, piece);
    at.advance(piece);
    done += piece.count();
  }
  return buffer;
}

void Runs::scatter(std::size_t o, Cursor at, std::int64_t n, std::int64_t moved, const void* from) const {
  const auto* const bytes = static_cast<const unsigned char*>(from);
  const RowStrides to{at.row_stride(o), loop_.inner().strides[o]};
  for (std::int64_t done = 0; done < n;) {
    const Cursor::Piece piece = at.piece(n - done);
    copy_piece(operands_.size[o], bytes + done * static_cast<std::int64_t>(operands_.size[o]), {piece.width, 1},
               address(o, at.offset(o) + moved), to, piece);
    at.advance(piece);
    done += piece.count();
  }
}

}  // namespace polymio::common
