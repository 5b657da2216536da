// SPDX-License-Identifier: MIT
#include "reference/getitem.h"

#include <algorithm>
#include <cmath>

#include "reference/types.h"

namespace polymio::reference {
namespace {

std::vector<std::int64_t> position(std::int64_t dense, const std::vector<std::int64_t>& lens) {
  std::vector<std::int64_t> at(lens.size());
  for (std::size_t d = lens.size(); d-- > 0; dense /= lens[d]) at[d] = dense % lens[d];
  return at;
}

}  // namespace

Tensor Getitem::view() const {
  Tensor view = dx;
  for (const auto& [dim, begin, end, step] : slices) {
    const auto d = static_cast<std::size_t>(dim);
    view.lens[d] = (std::min(end, view.lens[d]) - begin + step - 1) / step;
    view.strides[d] *= step;
  }
  return view;
}

std::vector<std::int64_t> Getitem::selected() const {
  std::vector<std::int64_t> lens = view().lens;
  if (dims.empty()) return lens;
  const auto first = lens.begin() + dims[0];
  const auto at = lens.erase(first, first + static_cast<std::ptrdiff_t>(dims.size()));
  lens.insert(at, indices[0].lens.begin(), indices[0].lens.end());
  return lens;
}

GetitemResult getitem_backward(const Getitem& p, const void* dy, const std::vector<const void*>& indices,
                               const void* old) {
  const Tensor view = p.view();
  const std::int64_t count = p.dx.count();
  GetitemResult result;
  result.is_outside.resize(p.indices.size());
  std::vector<std::int64_t> dense_of(static_cast<std::size_t>(p.dx.space()), -1),
      added(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    dense_of[static_cast<std::size_t>(p.dx.offset(i))] = i;
    result.dx.value.push_back(load(p.dx.type, old, p.dx.offset(i)));
    result.dx.magnitude.push_back(std::fabs(result.dx.value.back()));
  }
  const auto first = p.dims.empty() ? 0 : static_cast<std::size_t>(p.dims[0]);
  const std::size_t index_rank = p.dims.empty() ? 0 : p.indices[0].lens.size();
  for (std::int64_t i = 0; i < p.dy.count(); ++i) {
    std::vector<std::int64_t> at = position(i, p.dy.lens);
    std::int64_t number = 0;  // of the element of the index tensors
    for (std::size_t d = 0; d < index_rank; ++d) number = number * p.indices[0].lens[d] + at[first + d];
    at.erase(at.begin() + static_cast<std::ptrdiff_t>(first),
             at.begin() + static_cast<std::ptrdiff_t>(first + index_rank));
    bool inside = true;
    for (std::size_t j = 0; j < p.dims.size(); ++j) {
      const std::int64_t size = view.lens[first + j];
      auto index = static_cast<std::int64_t>(load(Type::kInt32, indices[j], p.indices[j].offset(number)));
      if (index < 0) index += size;
      const bool fits = index >= 0 && index < size;
      if (!fits) result.is_outside[j] = true;
      inside = inside && fits;
      at.insert(at.begin() + static_cast<std::ptrdiff_t>(first + j), index);
    }
    if (!inside) continue;
    std::int64_t to = p.offset;
    for (std::size_t d = 0; d < at.size(); ++d) to += at[d] * view.strides[d];
    const auto dense = static_cast<std::size_t>(dense_of[static_cast<std::size_t>(to)]);
    const double given = load(p.dy.type, dy, p.dy.offset(i));
    result.dx.value[dense] += given;
    result.dx.magnitude[dense] += std::fabs(given);
    result.most = std::max(result.most, ++added[dense]);
  }
  return result;
}

Arithmetic arithmetic(const Getitem& p, const GetitemResult& result) {
  Arithmetic how;
  how.output = p.dx.type;
  how.accumulate = p.dx.type == Type::kDouble ? Type::kDouble : Type::kFloat;
  how.reduction_length = result.most + 1;
  return how;
}

}  // namespace polymio::reference
