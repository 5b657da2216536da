// SPDX-License-Identifier: MIT
#include "primitives/activation/grid.h"

#include <algorithm>

namespace polymio::activation {
namespace {

bool mergeable(const Grid::Dim& outer, const Grid::Dim& inner, std::size_t operands) {
  for (std::size_t o = 0; o < operands; ++o)
    if (outer.strides[o] != inner.strides[o] * inner.size) return false;
  return true;
}

}  // namespace

Grid::Grid(std::span<const TensorDesc* const> tensors) : operands(tensors.size()) {
  std::size_t used = 0;
  for (std::size_t d = 0; d < static_cast<std::size_t>(tensors[0]->rank); ++d) {
    if (tensors[0]->lens[d] == 1) continue;
    Dim& dim = dims[used++];
    dim.size = tensors[0]->lens[d];
    for (std::size_t o = 0; o < operands; ++o) dim.strides[o] = tensors[o]->strides[d];
  }
  const auto end = dims.begin() + static_cast<std::ptrdiff_t>(used);
  std::sort(dims.begin(), end, [](const Dim& a, const Dim& b) { return a.strides[0] > b.strides[0]; });
  rank = 0;
  for (std::size_t d = 0; d < used; ++d) {
    const Dim dim = dims[d];
    if (rank > 0 && mergeable(dims[rank - 1], dim, operands))
      dims[rank - 1] = {dims[rank - 1].size * dim.size, dim.strides};
    else
      dims[rank++] = dim;
  }
  if (rank > 0) return;
  dims[0].strides.fill(1);
  rank = 1;
}

std::int64_t Grid::count() const {
  std::int64_t n = 1;
  for (std::size_t d = 0; d < rank; ++d) n *= dims[d].size;
  return n;
}

bool Grid::contiguous() const {
  return std::all_of(inner().strides.begin(), inner().strides.begin() + static_cast<std::ptrdiff_t>(operands),
                     [](std::int64_t s) { return s == 1; });
}

bool Grid::separate() const {
  std::int64_t reach = 0;
  for (std::size_t d = rank; d-- > 0;) {
    if (dims[d].strides[0] <= reach) return false;
    reach += (dims[d].size - 1) * dims[d].strides[0];
  }
  return true;
}

Grid grid_of(const Problem& p) {
  const TensorDesc* const forward[] = {&p.y, &p.x};
  const TensorDesc* const backward[] = {&p.dx, &p.x, &p.dy};
  return p.forward() ? Grid(forward) : Grid(backward);
}

bool same_memory(const TensorDesc& a, const TensorDesc& b) {
  for (std::size_t d = 0; d < static_cast<std::size_t>(a.rank); ++d)
    if (a.lens[d] != 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

Cursor::Cursor(const Grid& grid, std::int64_t start) : grid_(&grid) {
  for (std::size_t d = grid.rank; d-- > 0;) {
    index_[d] = start % grid.dims[d].size;
    start /= grid.dims[d].size;
    move(d, index_[d]);
  }
}

void Cursor::move(std::size_t dim, std::int64_t steps) {
  for (std::size_t o = 0; o < grid_->operands; ++o) offsets_[o] += steps * grid_->dims[dim].strides[o];
}

void Cursor::advance(std::int64_t n) {
  std::size_t d = grid_->rank - 1;
  index_[d] += n;
  move(d, n);
  while (d > 0 && index_[d] == grid_->dims[d].size) {
    move(d, -index_[d]);
    index_[d--] = 0;
    ++index_[d];
    move(d, 1);
  }
}

}  // namespace polymio::activation
