// Rotary position embeddings: maps whose functors exchange the neighbours of each pair within a vector. Runs begin
// with a pair, and vectors have an even number of lanes.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/rope.h"

#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/skeletons/map.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

template <class T, std::size_t... L>
Vec<T> exchanged(Vec<T> v, std::index_sequence<L...>) {
  return __builtin_shufflevector(v, v, static_cast<int>(L ^ 1)...);
}

/// (a, b) becomes (b, a).
template <class T>
Vec<T> exchanged(Vec<T> v) {
  return exchanged<T>(v, std::make_index_sequence<static_cast<std::size_t>(kLanes<T>)>{});
}

/// -1 for the first element of each pair, 1 for the second.
template <class T>
Vec<T> signs() {
  Vec<T> v;
  for (int i = 0; i < kLanes<T>; ++i) v[i] = static_cast<T>(i % 2 == 0 ? -1 : 1);
  return v;
}

template <class T>
struct Forward {
  Vec<T> operator()(Vec<T> x, Vec<T> cos, Vec<T> sin) const { return x * cos + signs<T>() * (exchanged<T>(x) * sin); }
};

template <class T>
struct Backward {
  Vec<T> operator()(Vec<T> dy, Vec<T> cos, Vec<T> sin) const { return dy * cos - signs<T>() * exchanged<T>(dy * sin); }
};

template <class S>
void run_of(bool backward, const Run& run) {
  using T = std::conditional_t<__is_same(S, double), double, float>;
  if (backward) return map<T, Types<S, S, S>, Types<S>>(Backward<T>{}, run);
  map<T, Types<S, S, S>, Types<S>>(Forward<T>{}, run);
}

void run(DataType type, bool backward, const Run& run) {
  switch (type) {
    case DataType::kHalf: return run_of<Half>(backward, run);
    case DataType::kBFloat16: return run_of<Bfloat16>(backward, run);
    case DataType::kDouble: return run_of<double>(backward, run);
    default: return run_of<float>(backward, run);
  }
}

}  // namespace

template <>
const RopeKernels& entry_points<RopeKernels>() {
  static constexpr RopeKernels kKernels{.run = run};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
