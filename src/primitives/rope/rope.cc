// SPDX-License-Identifier: MIT
#include "primitives/rope/rope.h"

#include <algorithm>

#include "base/error.h"
#include "core/aligned_buffer.h"
#include "core/problem_text.h"
#include "core/tensor_checks.h"
#include "kernels/cpu/kernels_of.h"
#include "kernels/cpu/rope.h"
#include "primitives/common/map.h"
#include "primitives/rope/gpu/rope.h"

namespace polymio::rope {
namespace {

/// The dimensions of a tensor from the innermost on, neighbours merged where they are contiguous.
class Dimensions {
 public:
  explicit Dimensions(const TensorDesc& t) {
    for (auto d = static_cast<std::size_t>(t.rank); d-- > 0;) push(t.lens[d], t.strides[d]);
  }
  void push(std::int64_t size, std::int64_t stride) {
    if (size == 1) return;
    if (count_ > 0 && stride == sizes_[count_ - 1] * strides_[count_ - 1])
      sizes_[count_ - 1] *= size;
    else
      sizes_[count_] = size, strides_[count_++] = stride;
  }
  bool done() const { return at_ == count_; }
  std::int64_t size() const { return sizes_[at_]; }
  std::int64_t stride() const { return strides_[at_]; }
  /// Takes the n innermost elements, where n divides size().
  void take(std::int64_t n) {
    sizes_[at_] /= n;
    strides_[at_] *= n;
    if (sizes_[at_] == 1) ++at_;
  }

 private:
  std::array<std::int64_t, kMaxRank + 1> sizes_{}, strides_{};
  std::size_t count_ = 0, at_ = 0;
};

[[noreturn]] void refuse(const Tensors& p) {
  fail(Status::kBadParm,
       "cos has sizes {} and x has {}, with strides {}: unless all are packed, cos and sin must have the last sizes of "
       "x",
       sizes_text(p.cos.desc), sizes_text(p.x.desc), strides_text(p.x.desc));
}

/// The loop over y, x, cos and sin in the order of x's sizes, so that pairs stay neighbours.
Loop loop_of(const Tensors& p) {
  const std::int64_t count = p.x.desc.count(), repeated = count / p.cos.desc.count();
  std::array<Dimensions, 4> tensors = {Dimensions(p.y_desc), Dimensions(p.x.desc), Dimensions(p.cos.desc),
                                       Dimensions(p.sin.desc)};
  for (const std::size_t o : {2, 3}) tensors[o].push(repeated, 0);
  std::array<Loop::Dim, kMaxRank + 1> dims;  // as many as GPU kernels take
  std::size_t rank = 0;
  while (!tensors[0].done()) {
    std::int64_t size = count;
    for (const Dimensions& t : tensors) size = std::min(size, t.size());
    if (rank == dims.size() || (rank == 0 && size % 2 != 0)) refuse(p);
    dims[rank].size = size;
    for (std::size_t o = 0; o < tensors.size(); ++o) {
      if (tensors[o].size() % size != 0) refuse(p);
      dims[rank].strides[o] = tensors[o].stride();
      tensors[o].take(size);
    }
    ++rank;
  }
  Loop loop;
  loop.operands = tensors.size();
  while (rank > 0) loop.push(dims[--rank]);
  loop.merge();
  loop.separate = true;  // checked, though addresses need not ascend
  return loop;
}

void check(const Tensors& p, const char* x, const char* y) {
  const auto &in = p.x.desc, &cos = p.cos.desc, &sin = p.sin.desc;
  require_float_tensor(in, x, kMaxRank, "rotary embeddings");
  for (const auto& [desc, name] : {std::pair{&cos, "cos"}, {&sin, "sin"}, {&p.y_desc, y}}) {
    require_float_tensor(*desc, name, kMaxRank, "rotary embeddings");
    require_same_type(*desc, name, in, x);
  }
  require_same_sizes(p.y_desc, y, in, x);
  require_same_sizes(sin, "sin", cos, "cos");
  require(in.lens[static_cast<std::size_t>(in.rank) - 1] % 2 == 0, "{} has sizes {}: the last must be even", x,
          sizes_text(in));
  require(cos.count() % 2 == 0 && in.count() % cos.count() == 0,
          "cos has sizes {}, {} elements: their number must be even and divide the {} elements of {}", sizes_text(cos),
          cos.count(), in.count(), x);
  require_separate(p.y_desc, y);
  require_no_overlap(in, p.x.data, x, p.y_desc, p.y);
  require_apart(cos, p.cos.data, "cos", p.y_desc, p.y, y);
  require_apart(sin, p.sin.data, "sin", p.y_desc, p.y, y);
}

void run(Stream& stream, const Tensors& p, bool backward) {
  const Loop loop = loop_of(p);
  const DataType type = p.x.desc.type;
  if (stream.info().kind != DeviceKind::kCpu) return run_on_gpu(stream, p, loop, backward);
  const auto& table = kernels::kernels_of<kernels::RopeKernels>(stream.info().isa);
  common::Operands operands;
  for (const void* data : {static_cast<const void*>(p.y), p.x.data, p.cos.data, p.sin.data})
    operands.push(data, size_of(type));
  common::map(stream, Tiles(loop), operands, [&](const kernels::Run& run) { table.run(type, backward, run); });
}

void run_aligned(Stream& stream, const Tensors& given, bool backward, const char* x, const char* y) {
  const CallerBuffer buffers[] = {{given.x.desc, given.x.data, x},
                                  {given.cos.desc, given.cos.data, "cos"},
                                  {given.sin.desc, given.sin.data, "sin"},
                                  {given.y_desc, given.y, y, true}};
  if (are_aligned(buffers)) return run(stream, given, backward);
  run_on_aligned(stream.info(), buffers, [&](void* const* data) {
    Tensors p = given;
    p.x.data = data[0];
    p.cos.data = data[1];
    p.sin.data = data[2];
    p.y = data[3];
    run(stream, p, backward);
  });
}

}  // namespace

void forward(Stream& stream, const Tensors& p) {
  check(p, "x", "y");
  run_aligned(stream, p, false, "x", "y");
}

void backward(Stream& stream, const Tensors& p) {
  check(p, "dy", "dx");
  run_aligned(stream, p, true, "dy", "dx");
}

}  // namespace polymio::rope
