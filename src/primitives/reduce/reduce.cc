// SPDX-License-Identifier: MIT
#include "primitives/reduce/reduce.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "core/aligned_buffer.h"
#include "core/problem_text.h"
#include "core/tensor_checks.h"
#include "primitives/reduce/passes.h"

namespace polymio::reduce {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat,  DataType::kHalf,  DataType::kBFloat16,
                               DataType::kDouble, DataType::kInt32, DataType::kInt8};

void require_tensor(const TensorDesc& t, const char* name) {
  require(std::ranges::find(kTypes, t.type) != std::end(kTypes),
          "{} has type {}: reductions take fp32, fp16, bf16, fp64, int32 and int8", name, name_of(t.type));
  require(t.vector_length == 1, "{} has vectors of {} channels: reductions take layouts without vectors", name,
          t.vector_length);
  require(!t.has_cast(), "{} has the cast type {}: reductions take tensors without cast", name, name_of(t.cast));
}

bool is_reduced(const Problem& p, std::size_t d) { return p.a.lens[d] != p.c.lens[d]; }

/// Elements per row.
std::int64_t length_of(const Problem& p) { return p.a.count() / p.c.count(); }

void require_separate_buffers(const Problem& p, const Args& args) {
  const auto check = [](const TensorDesc& in, const void* data, const char* name, const TensorDesc& out,
                        const void* result, const char* out_name) {
    if (!in.packed() || !out.packed()) return;
    const auto first = reinterpret_cast<std::uintptr_t>(data), begin = reinterpret_cast<std::uintptr_t>(result);
    require(first + in.bytes() <= begin || begin + out.bytes() <= first,
            "{} overlaps {}: it starts {} bytes from it, and must be another buffer", out_name, name,
            static_cast<std::int64_t>(begin - first));
  };
  const bool in_place = args.a == args.c && p.a == p.c;
  if (p.values && !in_place) check(p.a, args.a, "a", p.c, args.c, "c");
  if (p.has_positions()) check(p.a, args.a, "a", p.positions, args.positions, "the buffer of indices");
  if (p.values && p.has_positions()) check(p.c, args.c, "c", p.positions, args.positions, "the buffer of indices");
}

}  // namespace

bool is_extreme(Op op) { return op == Op::kMin || op == Op::kMax || op == Op::kAmax; }

TensorDesc positions_of(const TensorDesc& c) {
  TensorDesc t = c;
  t.type = t.cast = DataType::kInt32;
  std::array<std::size_t, kMaxRank> order;
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto end = order.begin() + c.rank;
  std::stable_sort(order.begin(), end, [&](std::size_t d, std::size_t e) { return c.strides[d] > c.strides[e]; });
  std::int64_t stride = 1;
  for (auto at = end; at != order.begin();) {
    t.strides[*--at] = stride;
    stride *= c.lens[*at];
  }
  return t;
}

void validate(const Problem& p) {
  require(static_cast<int>(p.op) >= 0 && static_cast<int>(p.op) < kOps,
          "operation {} is unknown: allowed are 0 (add) to 7 (norm2)", static_cast<int>(p.op));
  require_tensor(p.a, "a");
  require_tensor(p.c, "c");
  bool fits = p.a.rank == p.c.rank;
  for (std::size_t d = 0; fits && d < static_cast<std::size_t>(p.a.rank); ++d)
    fits = p.c.lens[d] == 1 || p.c.lens[d] == p.a.lens[d];
  if (!fits)
    fail(Status::kUnknownError, "c has sizes {}, a has {}: each size of c must be 1 or that of a", sizes_text(p.c),
         sizes_text(p.a));
  require_separate(p.c, "c");
  if (!p.has_positions()) return;
  require(length_of(p) <= INT32_MAX,
          "{} elements are reduced: their positions must be less than 2^31, as int32 indices are", length_of(p));
  require(p.positions.type == DataType::kInt32, "the indices have type {}: they must be int32",
          name_of(p.positions.type));
  require_same_sizes(p.positions, "the tensor of indices", p.c, "c");
  require_separate(p.positions, "the tensor of indices");
}

Loops::Loops(const Problem& p) {
  const TensorDesc* const operands[] = {&p.a, &p.c, p.has_positions() ? &p.positions : &p.c};
  const Loop all = make_loop(operands);
  kept.operands = reduced.operands = all.operands;
  for (std::size_t d = 0; d < all.rank; ++d) (is_reduced(p, d) ? reduced : kept).push(all.dims[d]);
  kept.simplify();
  p.has_positions() ? reduced.merge() : reduced.simplify();
}

std::size_t workspace_bytes(const DeviceInfo& device, const Problem& p) {
  return device.kind == DeviceKind::kCpu ? 0 : gpu_workspace(device, p);
}

void run(Stream& stream, const Problem& p, const Args& given) {
  require_separate_buffers(p, given);
  const std::size_t needed = workspace_bytes(stream.info(), p);
  if (given.workspace_bytes < needed || (needed > 0 && !given.workspace))
    fail(Status::kUnknownError, "the workspace has {} bytes, which is not enough: the reduction needs {}",
         given.workspace ? given.workspace_bytes : 0, needed);
  const AlignedBuffer a(stream.info(), p.a, given.a, "the buffer of a"),
      c(stream.info(), p.c, given.c, "the buffer of c"),
      indices(stream.info(), p.positions, given.positions, "the buffer of indices");
  Args args = given;
  args.a = a.data();
  args.c = c.data();
  args.positions = static_cast<std::int32_t*>(indices.data());
  (stream.info().kind == DeviceKind::kCpu ? run_cpu : run_gpu)(stream, p, args);
  c.write_back();
  indices.write_back();
}

}  // namespace polymio::reduce
