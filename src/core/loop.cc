// SPDX-License-Identifier: MIT
#include "core/loop.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"

namespace polymio {
namespace {

constexpr std::size_t kChannel = 1;
constexpr std::int64_t kTile = 64;  // a few cache lines of the output, and as many as L1 holds of the input

bool mergeable(const Loop::Dim& outer, const Loop::Dim& inner, std::size_t operands) {
  for (std::size_t o = 0; o < operands; ++o)
    if (outer.strides[o] != inner.strides[o] * inner.size) return false;
  return true;
}

/// Whether the stride of every dimension exceeds the extent of the inner ones, so that no two elements share memory.
bool nested(const Loop& loop) {
  std::int64_t reach = 0;
  for (std::size_t d = loop.rank; d-- > 0;) {
    if (loop.dims[d].size > 1 && loop.dims[d].strides[0] <= reach) return false;
    reach += (loop.dims[d].size - 1) * loop.dims[d].strides[0];
  }
  return true;
}

/// The dimension in which a strided input is dense, or the innermost one if there is none.
std::size_t dense_input_dim(const Loop& loop) {
  const std::size_t inner = loop.rank - 1;
  for (std::size_t o = 1; o < loop.operands; ++o) {
    if (loop.dims[inner].strides[o] <= 1) continue;
    for (std::size_t d = inner; d-- > 0;)
      if (loop.dims[d].strides[o] == 1) return d;
  }
  return inner;
}

}  // namespace

TensorDesc unvectored(const TensorDesc& t) {
  TensorDesc plain = t;
  if (t.vector_length > 1) plain.lens[kChannel] *= t.vector_length;
  return plain;
}

std::int64_t Loop::count() const {
  std::int64_t n = 1;
  for (std::size_t d = 0; d < rank; ++d) n *= dims[d].size;
  return n;
}

bool Loop::contiguous() const {
  const auto& strides = inner().strides;
  return std::all_of(strides.begin(), strides.begin() + static_cast<std::ptrdiff_t>(operands),
                     [](std::int64_t s) { return s == 1; });
}

void Loop::simplify() {
  // Insertion, which unlike std::stable_sort allocates nothing.
  for (std::size_t d = 1; d < rank; ++d)
    for (std::size_t e = d; e > 0 && dims[e - 1].strides[0] < dims[e].strides[0]; --e) std::swap(dims[e - 1], dims[e]);
  merge();
}

void Loop::merge() {
  const std::size_t given = rank;
  rank = 0;
  for (std::size_t d = 0; d < given; ++d) {
    const Dim dim = dims[d];
    if (dim.size == 1) continue;
    if (rank > 0 && mergeable(dims[rank - 1], dim, operands)) {
      dims[rank - 1] = {dims[rank - 1].size * dim.size, dim.strides};
    } else {
      push(dim);
    }
  }
  if (rank == 0) {
    Dim one;
    one.strides.fill(1);
    push(one);
  }
  separate = nested(*this);
}

Tiles::Tiles(const Loop& loop) : main(loop) {
  const std::size_t inner = loop.rank - 1, dense = dense_input_dim(loop);
  if (dense == inner) return;
  const Loop::Dim transposed = loop.dims[dense], row = loop.dims[inner];
  std::copy(loop.dims.begin() + static_cast<std::ptrdiff_t>(dense) + 1,
            loop.dims.begin() + static_cast<std::ptrdiff_t>(inner),
            main.dims.begin() + static_cast<std::ptrdiff_t>(dense));
  main.rank -= 2;
  const Loop outer = main;
  const std::int64_t left = row.size % kTile, tiles = row.size / kTile;
  const auto push_rest = [&](Loop& rest) {
    for (std::size_t o = 0; o < loop.operands; ++o) rest.base[o] += tiles * kTile * row.strides[o];
    rest.push(transposed);
    rest.push({left, row.strides});
  };
  if (tiles == 0) {
    push_rest(main);
    return;
  }
  Loop::Dim steps{tiles, row.strides};
  for (auto& stride : steps.strides) stride *= kTile;
  main.push(steps);
  main.push(transposed);
  main.push({kTile, row.strides});
  if (left > 0) push_rest(rest.emplace(outer));
}

Loop make_loop(std::span<const TensorDesc* const> operands) {
  std::int64_t vector = 1;
  for (const auto* t : operands) vector = std::max<std::int64_t>(vector, t->vector_length);
  const TensorDesc sizes = unvectored(*operands[0]);
  Loop loop;
  loop.operands = operands.size();
  for (int i = 0; i < sizes.rank; ++i) loop.push({sizes.lens[static_cast<std::size_t>(i)], {}});
  if (vector > 1) {
    loop.dims[kChannel].size /= vector;
    loop.push({vector, {}});
  }
  const std::size_t dense = static_cast<std::size_t>(sizes.rank);
  for (std::size_t o = 0; o < operands.size(); ++o) {
    const TensorDesc& t = *operands[o];
    require(t.vector_length == 1 || t.vector_length == vector, "layouts with vectors of {} and {} channels do not mix",
            t.vector_length, vector);
    for (std::size_t d = 0; d < dense; ++d) loop.dims[d].strides[o] = t.lens[d] == 1 ? 0 : t.strides[d];
    if (vector == 1) continue;
    const bool plain = t.vector_length == 1;
    loop.dims[dense].strides[o] = plain ? loop.dims[kChannel].strides[o] : 1;
    if (plain) loop.dims[kChannel].strides[o] *= vector;
  }
  return loop;
}

Loop simplified_loop(std::span<const TensorDesc* const> operands) {
  Loop loop = make_loop(operands);
  loop.simplify();
  return loop;
}

Cursor::Cursor(const Loop& loop, std::int64_t start) : loop_(&loop), offsets_(loop.base) {
  for (std::size_t d = loop.rank; d-- > 0;) {
    index_[d] = start % loop.dims[d].size;
    start /= loop.dims[d].size;
    move(d, index_[d]);
  }
}

void Cursor::advance(std::int64_t n) {
  std::size_t d = loop_->rank - 1;
  index_[d] += n;
  move(d, n);
  for (std::int64_t size; d > 0 && index_[d] >= (size = loop_->dims[d].size); --d) {
    const std::int64_t carried = index_[d] == size ? 1 : index_[d] / size;
    index_[d] -= carried * size;
    move(d, -carried * size);
    index_[d - 1] += carried;
    move(d - 1, carried);
  }
}

void for_ranges(Stream& stream, std::int64_t count, std::int64_t part,
                FunctionRef<void(std::int64_t, std::int64_t)> body) {
  stream.parallel_for(static_cast<std::size_t>(ceil_div(count, part)), 0, [&](std::size_t i, void*) {
    const std::int64_t first = static_cast<std::int64_t>(i) * part;
    body(first, std::min(first + part, count));
  });
}

}  // namespace polymio
