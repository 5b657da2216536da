// Launches of cat.cl.
// SPDX-License-Identifier: MIT
#include "primitives/cat/parts.h"

#include <algorithm>
#include <limits>

#include "base/math.h"
#include "core/loop.h"
#include "primitives/cat/cat.h"

namespace polymio::cat {
namespace {

using kernels::CatPart;

KernelSpec spec() { return {"primitives/cat/gpu/cat.cl", "cat", {"-DIN=int8", "-DOUT=int8", "-DNUM=bits"}}; }

SharedKernels& shared = *new SharedKernels;

/// Whether the input is contiguous in a dimension of some size, but not in the one in which the part is.
bool is_transposed(const Loop& loop) {
  constexpr std::int64_t kLeastTile = 8;
  if (loop.inner().strides[1] <= 1) return false;
  for (std::size_t d = 0; d + 1 < loop.rank; ++d)
    if (loop.dims[d].strides[1] == 1 && loop.dims[d].size >= kLeastTile) return true;
  return false;
}

/// The bytes of units that both tensors consist of.
int unit_bytes(const Loop& loop, std::int64_t size, const void* from, const void* to) {
  constexpr std::uintptr_t kMost = 16;
  const Loop::Dim& inner = loop.inner();
  if (inner.strides[0] != 1 || inner.strides[1] != 1) return static_cast<int>(size);
  std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to) |
                        static_cast<std::uintptr_t>(inner.size * size) | kMost;
  for (std::size_t d = 0; d + 1 < loop.rank; ++d)
    for (const std::int64_t stride : {loop.dims[d].strides[0], loop.dims[d].strides[1]})
      bits |= static_cast<std::uintptr_t>(stride * size);
  return static_cast<int>(bits & (0 - bits));
}

}  // namespace

bool PartCopies::add(const TensorDesc& x, const void* from, const TensorDesc& part, void* to) {
  const TensorDesc* const operands[] = {&part, &x};
  Loop loop = simplified_loop(operands);
  const auto size = static_cast<std::int64_t>(size_of(x.type));
  const std::int64_t bytes = unit_bytes(loop, size, from, to);
  const std::int64_t units = loop.count() * size / bytes;
  if (loop.rank > kernels::kCatDims || is_transposed(loop) || units > std::int64_t{1} << 30) return false;
  stream_.check_memory(from, "an input");
  stream_.check_memory(to, "y");
  if (count_ == copies_.size()) launch();
  CatPart p{static_cast<int>(blocks_),
            static_cast<int>(units),
            static_cast<int>(bytes),
            static_cast<int>(loop.rank),
            {},
            {},
            {}};
  for (std::size_t d = 0; d < loop.rank; ++d) {
    const Loop::Dim& dim = loop.dims[loop.rank - 1 - d];
    const std::int64_t elements = d == 0 ? bytes / size : 1;  // of a unit
    if (d + 1 < loop.rank) p.size[d] = kernels::make_divider(dim.size / elements);
    p.to[d] = dim.strides[0] * elements * size;
    p.from[d] = dim.strides[1] * elements * size;
  }
  blocks_ += ceil_div(units, std::int64_t{kernels::kCatThreads} * CAT_UNITS(bytes));
  copies_[count_++] = {p, Buffer(from), Buffer(to)};
  return true;
}

void PartCopies::launch() {
  if (count_ == 0) return;
  Copy none = copies_[0];
  none.part.first_block = std::numeric_limits<int>::max();
  std::fill(copies_.begin() + static_cast<std::ptrdiff_t>(count_), copies_.end(), none);
  const Kernel& kernel = shared.get(stream_, 0, [] { return spec(); });
  const auto& c = copies_;
  polymio::launch(stream_, kernel, launch_shape(kernels::kCatThreads, blocks_), c[0].part, c[0].from, c[0].to,
                  c[1].part, c[1].from, c[1].to, c[2].part, c[2].from, c[2].to, c[3].part, c[3].from, c[3].to,
                  c[4].part, c[4].from, c[4].to, c[5].part, c[5].from, c[5].to, c[6].part, c[6].from, c[6].to,
                  c[7].part, c[7].from, c[7].to);
  count_ = 0;
  blocks_ = 0;
}

std::vector<KernelSpec> programs() { return {spec()}; }

}  // namespace polymio::cat
