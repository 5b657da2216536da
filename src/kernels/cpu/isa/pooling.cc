// Pooling and its gradient for every type.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/pooling_backward.h"
#include "kernels/cpu/isa/pooling_planes_backward.h"
#include "kernels/cpu/isa/pooling_planes_forward.h"
#include "kernels/cpu/isa/pooling_scatter.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

template <template <class> class F, class S, bool kNumbers>
void reduce_windows(const Pooling& p, i64 first, i64 end, void* scratch) {
  if (p.planes > 0) return pooling_planes<PlanesForward<F, S, kNumbers>>(p, first, end, scratch);
  pooling_forward<F, S, kNumbers>(p, first, end, scratch);
}

template <class S>
void forward_of(const Pooling& p, i64 first, i64 end, void* scratch) {
  if (!p.maximum) return reduce_windows<Mean, S, false>(p, first, end, scratch);
  if (p.index_bytes == 0) return reduce_windows<Largest, S, false>(p, first, end, scratch);
  reduce_windows<Largest, S, true>(p, first, end, scratch);
}

template <class S, bool kMaximum>
void gather_gradients(const Pooling& p, i64 first, i64 end, void* scratch) {
  if (p.planes > 0) return pooling_planes<PlanesBackward<S, kMaximum>>(p, first, end, scratch);
  pooling_backward<S, kMaximum>(p, first, end, scratch);
}

template <class S>
void backward_of(const Pooling& p, i64 first, i64 end, void* scratch) {
  if (p.maximum) return gather_gradients<S, true>(p, first, end, scratch);
  gather_gradients<S, false>(p, first, end, scratch);
}

void forward(const Pooling& p, i64 first, i64 end, void* scratch) {
  switch (p.type) {
    case DataType::kHalf: return forward_of<Half>(p, first, end, scratch);
    case DataType::kBFloat16: return forward_of<Bfloat16>(p, first, end, scratch);
    case DataType::kDouble: return forward_of<double>(p, first, end, scratch);
    case DataType::kInt8: return forward_of<std::int8_t>(p, first, end, scratch);
    default: return forward_of<float>(p, first, end, scratch);
  }
}

void backward(const Pooling& p, i64 first, i64 end, void* scratch) {
  switch (p.type) {
    case DataType::kHalf: return backward_of<Half>(p, first, end, scratch);
    case DataType::kBFloat16: return backward_of<Bfloat16>(p, first, end, scratch);
    case DataType::kDouble: return backward_of<double>(p, first, end, scratch);
    default: return backward_of<float>(p, first, end, scratch);
  }
}

/// Of data of type S: it differs with the arithmetic's type only.
template <class S>
std::size_t scratch_of(const Pooling& p, bool backward) {
  Scratch scratch(nullptr);
  if (p.planes > 0 && backward) {
    const PlanesBackward<S, true> planes(p, scratch);
  } else if (p.planes > 0) {
    const PlanesForward<Largest, S, true> planes(p, scratch);
  } else if (backward && !p.maximum) {
    const PoolingBackward<S, false> gather(p, scratch);
  } else if (backward) {
    const PoolingBackward<S, true> gather(p, scratch);
    if (p.index_bytes == 0) {
      const FoundIndices found(p, scratch);
      const PoolingForward<Largest, S, true> finder(p, scratch);
    }
  } else {
    const PoolingForward<Largest, S, true> reduce(p, scratch);
  }
  return scratch.end();
}

std::size_t scratch(const Pooling& p, bool backward) {
  return p.type == DataType::kDouble ? scratch_of<double>(p, backward) : scratch_of<float>(p, backward);
}

void scatter(const Pooling& p, i64 first, i64 end, void* memory) {
  switch (p.type) {
    case DataType::kHalf: return pooling_scatter<Half>(p, first, end, memory);
    case DataType::kBFloat16: return pooling_scatter<Bfloat16>(p, first, end, memory);
    case DataType::kDouble: return pooling_scatter<double>(p, first, end, memory);
    default: return pooling_scatter<float>(p, first, end, memory);
  }
}

std::size_t scatter_scratch(const Pooling& p) {
  Scratch scratch(nullptr);
  const auto measure = [](const auto&) {};
  if (p.type == DataType::kDouble)
    with_scatter<double>(p, scratch, measure);
  else
    with_scatter<float>(p, scratch, measure);
  return scratch.end();
}

}  // namespace

template <>
const PoolingKernels& entry_points<PoolingKernels>() {
  static constexpr PoolingKernels kKernels{.scratch = scratch,
                                           .forward = forward,
                                           .backward = backward,
                                           .scatter_scratch = scatter_scratch,
                                           .scatter = scatter};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
