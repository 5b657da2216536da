// SPDX-License-Identifier: MIT
#include "primitives/common/copy.h"

#include <algorithm>
#include <cstring>

#include "base/math.h"
#include "kernels/cpu/kernels_of.h"
#include "primitives/common/map.h"

namespace polymio::common {
namespace {

constexpr std::int64_t kTile = 64;            // rows, and elements of them, that are copied together
constexpr std::int64_t kTileElements = 4096;  // of longer tiles
constexpr std::size_t kLongRow = 128;         // bytes, from which on a row is a call
constexpr std::size_t kPiece = 16;            // bytes of shorter rows

template <class T>
void copy_as(const MatrixCopy::Side& from, const MatrixCopy::Side& to, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* const src = static_cast<const T*>(from.data) + r * from.row;
    T* const dst = static_cast<T*>(to.data) + r * to.row;
    if (to.element == 1 && from.element == 0) {
      std::fill_n(dst, n, *src);
    } else if (to.element == 1) {
      for (std::int64_t i = 0; i < n; ++i) dst[i] = src[i * from.element];
    } else {
      for (std::int64_t i = 0; i < n; ++i) dst[i * to.element] = src[i * from.element];
    }
  }
}

/// At least kPiece bytes. The last piece overlaps the one before it.
void copy_bytes(const char* from, char* to, std::size_t bytes) {
  if (bytes >= kLongRow) {
    std::memmove(to, from, bytes);
    return;
  }
  for (std::size_t i = 0; i < bytes; i += kPiece) {
    const std::size_t at = std::min(i, bytes - kPiece);
    std::memcpy(to + at, from + at, kPiece);
  }
}

/// Neither side is transposed.
void copy_rows(std::size_t size, const MatrixCopy::Side& from, const MatrixCopy::Side& to, std::int64_t rows,
               std::int64_t n) {
  const std::size_t bytes = static_cast<std::size_t>(n) * size;
  if (from.element == 1 && to.element == 1 && bytes >= kPiece) {
    const auto apart = static_cast<std::int64_t>(size);
    for (std::int64_t r = 0; r < rows; ++r)
      copy_bytes(static_cast<const char*>(from.data) + r * from.row * apart,
                 static_cast<char*>(to.data) + r * to.row * apart, bytes);
    return;
  }
  switch (size) {
    case 1: return copy_as<std::uint8_t>(from, to, rows, n);
    case 2: return copy_as<std::uint16_t>(from, to, rows, n);
    case 4: return copy_as<std::uint32_t>(from, to, rows, n);
    default: return copy_as<std::uint64_t>(from, to, rows, n);
  }
}

/// The dimension whose elements are the rows of matrices: one in which the input is contiguous, if it is not so in the
/// innermost one, else the one before that.
std::size_t row_dim(const Loop& loop) {
  const std::size_t inner = loop.rank - 1;
  if (loop.inner().strides[1] > 1)
    for (std::size_t d = inner; d-- > 0;)
      if (loop.dims[d].strides[1] == 1) return d;
  return inner - 1;
}

Loop::Dim tiled(const Loop::Dim& dim, std::int64_t tile) {
  Loop::Dim tiles{ceil_div(dim.size, tile), dim.strides};
  for (auto& stride : tiles.strides) stride *= tile;
  return tiles;
}

}  // namespace

void copy_elements(std::size_t size, const void* from, std::int64_t from_stride, void* to, std::int64_t to_stride,
                   std::int64_t n) {
  copy_rows(size, {const_cast<void*>(from), 0, from_stride}, {to, 0, to_stride}, 1, n);
}

MatrixCopy::MatrixCopy(CpuIsa isa, std::size_t size)
    : size_(size), transpose_(kernels::kernels_of<kernels::CopyKernels>(isa).transpose(size)) {}

void MatrixCopy::operator()(const Side& from, const Side& to, std::int64_t rows, std::int64_t n) const {
  if (from.row == 1 && to.row == 1 && (from.element != 1 || to.element != 1))
    return (*this)({from.data, from.element, 1}, {to.data, to.element, 1}, n, rows);
  if (from.element == 1 && to.row == 1) return transpose_(from.data, from.row, to.data, to.element, rows, n);
  if (from.row == 1 && to.element == 1) return transpose_(from.data, from.element, to.data, to.row, n, rows);
  copy_rows(size_, from, to, rows, n);
}

void copy(Stream& stream, const Loop& loop, std::size_t size, const void* from, void* to) {
  const MatrixCopy copy_matrix(stream.info().isa, size);
  const auto bytes = static_cast<std::int64_t>(size);
  const auto side = [&](const void* data, std::int64_t offset, std::int64_t row, std::int64_t element) {
    return MatrixCopy::Side{static_cast<char*>(const_cast<void*>(data)) + offset * bytes, row, element};
  };
  if (loop.rank == 1) {
    const auto& strides = loop.inner().strides;
    return split(stream, loop, kTaskElements, [&](std::int64_t begin, std::int64_t end) {
      copy_matrix(side(from, loop.base[1] + begin * strides[1], 0, strides[1]),
                  side(to, loop.base[0] + begin * strides[0], 0, strides[0]), 1, end - begin);
    });
  }
  const std::size_t d = row_dim(loop);
  const Loop::Dim &rows = loop.dims[d], &row = loop.inner();
  const std::int64_t least = std::max(kTileElements / std::min(rows.size, kTile), kTile);
  const std::int64_t width = std::min(row.size, least);
  const std::int64_t height = std::clamp<std::int64_t>(kTileElements / width, 1, rows.size);
  Loop tiles = loop;
  tiles.rank = 0;
  for (std::size_t e = 0; e + 1 < loop.rank; ++e)
    if (e != d) tiles.push(loop.dims[e]);
  tiles.push(tiled(rows, height));
  tiles.push(tiled(row, width));
  const std::int64_t count = tiles.count(), in_rows = tiles.dims[tiles.rank - 2].size, in_row = tiles.inner().size;
  const std::int64_t part = loop.separate ? std::max<std::int64_t>(kTaskElements / (width * height), 1) : count;
  for_ranges(stream, count, part, [&](std::int64_t begin, std::int64_t end) {
    Cursor at(tiles, begin);
    for (std::int64_t i = begin; i < end; ++i, at.advance(1))
      copy_matrix(side(from, at.offset(1), rows.strides[1], row.strides[1]),
                  side(to, at.offset(0), rows.strides[0], row.strides[0]),
                  std::min(height, rows.size - i / in_row % in_rows * height),
                  std::min(width, row.size - i % in_row * width));
  });
}

}  // namespace polymio::common
