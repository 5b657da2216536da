// SPDX-License-Identifier: MIT
#include "primitives/common/runs.h"

#include <algorithm>

#include "primitives/common/copy.h"

namespace polymio::common {
namespace {

constexpr std::int64_t kLongRun = 32;    // the shortest run that is passed on alone
constexpr std::int64_t kLeastRow = 16;   // the shortest row that is passed on in place
constexpr std::int64_t kLeastLines = 8;  // fewest lines that are copied column by column where columns are contiguous

/// Calls copy(offset, stride, first, step, count) for parts of n elements of an operand from `at` on: `count` elements
/// `stride` apart are number `first` and every `step`-th after it.
template <class Copy>
void each_part(const Loop& loop, std::size_t operand, Cursor at, std::int64_t n, const Copy& copy) {
  const std::int64_t width = loop.inner().size, stride = loop.inner().strides[operand];
  const std::int64_t line_stride = loop.rank > 1 ? loop.dims[loop.rank - 2].strides[operand] : 0;
  for (std::int64_t first = 0, part; first < n; first += part, at.advance(part)) {
    const std::int64_t run = std::min(at.run(), n - first), offset = at.offset(operand);
    const std::int64_t lines = run < width ? 1 : std::min(at.rows(), (n - first) / width);
    part = run * lines;
    if (lines == 1 || line_stride == stride * width) {
      copy(offset, stride, first, std::int64_t{1}, part);
    } else if (lines > width || (line_stride == 1 && lines >= kLeastLines)) {
      for (std::int64_t i = 0; i < width; ++i) copy(offset + i * stride, line_stride, first + i, width, lines);
    } else {
      for (std::int64_t i = 0; i < lines; ++i)
        copy(offset + i * line_stride, stride, first + i * width, std::int64_t{1}, width);
    }
  }
}

}  // namespace

void gather(const Loop& loop, std::size_t operand, std::size_t size, const void* data, const Cursor& at, std::int64_t n,
            void* dense) {
  const auto bytes = static_cast<std::int64_t>(size);
  each_part(loop, operand, at, n,
            [&](std::int64_t offset, std::int64_t stride, std::int64_t first, std::int64_t step, std::int64_t count) {
              copy_elements(size, static_cast<const char*>(data) + offset * bytes, stride,
                            static_cast<char*>(dense) + first * bytes, step, count);
            });
}

void scatter(const Loop& loop, std::size_t operand, std::size_t size, void* data, const Cursor& at, std::int64_t n,
             const void* dense) {
  const auto bytes = static_cast<std::int64_t>(size);
  each_part(loop, operand, at, n,
            [&](std::int64_t offset, std::int64_t stride, std::int64_t first, std::int64_t step, std::int64_t count) {
              copy_elements(size, static_cast<const char*>(dense) + first * bytes, step,
                            static_cast<char*>(data) + offset * bytes, stride, count);
            });
}

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
  for (std::int64_t i = begin; i < end;) {
    const std::int64_t run = std::min(cursor.run(), end - i);
    const bool one_run = run >= kLongRun || run == end - i;
    const std::int64_t n = !one_run ? std::min(end - i, kBlock) : all_in_place_ ? run : std::min(run, kBlock);
    for (std::size_t o = first_; o < end_; ++o)
      pointers[o] = is_in_place(o, cursor, n) ? address(o, cursor.offset(o) + moved[o])
                                              : gathered(o, cursor, n, moved[o], buffers);
    body(run_of(pointers, n));
    for (std::size_t o = first_; o < std::min(end_, operands_.outputs); ++o)
      if (!is_in_place(o, cursor, n))
        scatter(loop_, o, operands_.size[o], address(o, moved[o]), cursor, n, pointers[o]);
    cursor.advance(n);
    i += n;
  }
}

bool Runs::is_in_place(std::size_t o, const Cursor& at, std::int64_t n) const {
  if (!in_place_[o]) return false;
  const std::int64_t width = loop_.inner().size, run = at.run();
  if (n <= run) return true;
  return loop_.dims[loop_.rank - 2].strides[o] == width && n <= run + (at.rows() - 1) * width;
}

void* Runs::gathered(std::size_t o, const Cursor& at, std::int64_t n, std::int64_t moved, Buffers& buffers) const {
  unsigned char* const buffer = buffers.bytes[o];
  if (o < operands_.outputs && !operands_.reads_outputs) return buffer;
  auto& repeated = buffers.repeated[o];
  const bool repeats = n <= at.run() && loop_.inner().strides[o] == 0;
  if (repeats && repeated.offset == at.offset(o) && n <= repeated.count) return buffer;
  repeated = {repeats ? at.offset(o) : -1, n};
  gather(loop_, o, operands_.size[o], address(o, moved), at, n, buffer);
  return buffer;
}

}  // namespace polymio::common
