// SPDX-License-Identifier: MIT
#include "primitives/mha/gpu/call.h"

#include <cstddef>

#include "base/math.h"
#include "kernels/gpu/portable/attention_scalars.h"

namespace polymio::mha::gpu {
namespace {

constexpr std::int64_t kThreads = 256;                       // as in the kernels
constexpr std::size_t kScalarBytes = 1024, kAlignment = 16;  // of the workspace: scalars, alignment
static_assert(sizeof(kernels::Scalars) <= kScalarBytes && static_cast<std::size_t>(kernels::SCALARS) == kScalars);

}  // namespace

std::vector<KernelSpec> call_specs() {
  return {{"primitives/mha/gpu/scalars.cl", "collect", {}}, {"primitives/mha/gpu/scalars.cl", "finish", {}}};
}

std::int64_t blocks_of(std::int64_t tokens, std::int64_t rows, const Problem& p) {
  return ceil_div(tokens, rows) * p.batch() * p.heads();
}

std::int64_t parts_of_head(const Problem& p) { return ceil_div(p.head_size(), kPartOfHead); }

std::int64_t padded_rows(const Problem& p) { return round_up(p.queries(), std::int64_t{128}) * p.batch() * p.heads(); }

std::size_t workspace_size(const Problem& p) {
  constexpr std::int64_t kRows = 64;
  const std::int64_t each = 2 * parts_of_head(p);
  std::int64_t floats = each * blocks_of(p.queries(), kRows, p);
  if (!p.forward()) floats += 4 * padded_rows(p) + each * blocks_of(p.keys(), kRows, p);
  return kAlignment + kScalarBytes + static_cast<std::size_t>(floats) * sizeof(float);
}

Buffer Call::scalars() const {
  return {a_.workspace, (kAlignment - reinterpret_cast<std::uintptr_t>(a_.workspace) % kAlignment) % kAlignment};
}

Buffer Call::taken(int kernel) const {
  Buffer counter = scalars();
  counter.offset += offsetof(kernels::Scalars, taken) + static_cast<std::size_t>(kernel) * sizeof(kernels::u32);
  return counter;
}

Buffer Call::part(std::int64_t floats) const {
  Buffer part = scalars();
  part.offset += kScalarBytes + static_cast<std::size_t>(floats) * sizeof(float);
  return part;
}

void Call::collect() const {
  int bits = a_.probability ? 1 << kScalars : 0;
  for (std::size_t i = 0; i < kScalars; ++i) bits |= a_.scalars[i] ? 1 << i : 0;
  const auto& s = a_.scalars;
  launch(stream_, *kernels_[0], launch_shape(kThreads, 1), scalars(), given(s[0]), given(s[1]), given(s[2]),
         given(s[3]), given(s[4]), given(s[5]), given(s[6]), given(s[7]), given(s[8]), given(s[9]), given(s[10]),
         given(s[11]), given(s[12]), given(a_.probability), given(a_.seed), given(a_.offset), bits);
}

void Call::finish(const Buffer& magnitudes, std::int64_t blocks, std::array<Amax, 2> results) const {
  void* const first = a_.largest(results[0]);
  void* const second = a_.largest(results[1]);
  if (!first && !second) return;
  const int bits = (first ? 1 : 0) | (second ? 2 : 0);
  launch(stream_, *kernels_[1], launch_shape(kThreads, 2), magnitudes, blocks, given(first), given(second), bits);
}

}  // namespace polymio::mha::gpu
