// The map skeleton: outputs = f(inputs), element by element, over contiguous runs. The functor is written once, for
// vectors; remainders of runs pass through full vectors on the stack:
//
//   template <class T>
//   struct Scaled {
//     Vec<T> operator()(Vec<T> a, Vec<T> b) const { return a * factor + b; }   // or Vectors<T, 2> for two outputs
//     T factor;
//   };
//   map<float, Types<Bfloat16, float>, Types<Bfloat16>>(Scaled<float>{2}, run);
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/skeletons/elements.h"
#include "kernels/cpu/skeletons.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// What a functor with several outputs returns.
template <class T, int kCount>
struct Vectors {
  Vec<T> v[kCount];
};

/// output = scale * f(inputs) + keep * output. The old output is not read if keep is 0.
struct Blend {
  double scale = 1, keep = 0;
  bool non_temporal = false;  // streaming stores of the first output; ignored if it is an input or kept
};

template <class T, class Inputs, class Outputs, class F>
class Map;

/// T: type of the arithmetic. kBlends: outputs are blended, else they are f(inputs).
template <class T, class... I, class... O, class F>
class Map<T, Types<I...>, Types<O...>, F> {
 public:
  Map(const F& f, const Run& run, const Blend& blend)
      : f_(f), run_(run), scales_{static_cast<T>(blend.scale), static_cast<T>(blend.keep)} {}

  template <bool kBlends, bool kNonTemporal>
  void compute() const {
    // Copies: the compiler keeps them in registers, since no store can change them.
    const F f = f_;
    const Run run = run_;
    const Scales scales = scales_;
    i64 i = 0;
    if constexpr (kNonTemporal) {
      i = align();
      for (; i + kStep <= run.n; i += kStep) vector<kBlends, true>(f, run, scales, i);
    }
    for (; i + kStep <= run.n; i += kStep) vector<kBlends, false>(f, run, scales, i);
    if (i < run.n) part<kBlends>(i, run.n - i);
  }

  bool may_stream() const {
    bool separate = scales_.keep == 0;
    for (std::size_t k = 0; k < sizeof...(I); ++k) separate = separate && run_.in[k] != run_.out[0];
    return separate;
  }

 private:
  static constexpr i64 kStep = kLanes<T>;
  struct Scales {
    T scale, keep;
  };
  template <class S>
  using Stored = typename Elements<S, T>::Stored;

  template <bool kBlends, bool kNonTemporal>
  [[gnu::always_inline]] static void vector(const F& f, const Run& run, const Scales& scales, i64 i) {
    const auto values = inputs(f, run, i, std::make_index_sequence<sizeof...(I)>{});
    if constexpr (sizeof...(O) == 1) {
      output<kBlends, kNonTemporal, O...>(run.out[0], i, values, scales);
    } else {
      std::size_t o = 0;
      ((output<kBlends, false, O>(run.out[o], i, values.v[o], scales), ++o), ...);
    }
  }
  template <std::size_t... K>
  [[gnu::always_inline]] static auto inputs(const F& f, const Run& run, i64 i, std::index_sequence<K...>) {
    return f(Elements<I, T>::load(run.in[K], i)...);
  }
  template <bool kBlends, bool kNonTemporal, class S>
  [[gnu::always_inline]] static void output(void* out, i64 i, Vec<T> v, const Scales& scales) {
    if constexpr (kBlends) {
      v = v * scales.scale;
      if (scales.keep != 0) v = v + Elements<S, T>::load(out, i) * scales.keep;
    }
    if constexpr (kNonTemporal)
      Elements<S, T>::store_non_temporal(out, i, v);
    else
      Elements<S, T>::store(out, i, v);
  }

  /// n < kStep elements, through full vectors on the stack.
  template <bool kBlends>
  [[gnu::noinline]] void part(i64 i, i64 n) const {
    alignas(64) unsigned char buffers[sizeof...(I) + sizeof...(O)][kVectorBytes] = {};
    Run vectors;
    const bool reads_outputs = kBlends && scales_.keep != 0;
    int used = 0;
    const auto buffer = [&]<class S>(const S* from, bool reads) {
      unsigned char* const to = buffers[used++];
      if (reads) copy<S>(to, from, n);
      return to;
    };
    int k = 0;
    ((vectors.in[k] = buffer(static_cast<const I*>(run_.in[k]) + i, true), ++k), ...);
    int o = 0;
    ((vectors.out[o] = buffer(static_cast<const O*>(run_.out[o]) + i, reads_outputs), ++o), ...);
    vector<kBlends, false>(f_, vectors, scales_, 0);
    o = 0;
    ((copy<O>(static_cast<O*>(run_.out[o]) + i, vectors.out[o], n), ++o), ...);
  }
  template <class S>
  static void copy(void* to, const void* from, i64 n) {
    __builtin_memcpy(to, from, static_cast<std::size_t>(n) * sizeof(S));
  }

  /// Computes the elements up to the first aligned vector of the output; returns its index.
  i64 align() const {
    constexpr std::size_t kSizes[] = {sizeof(Stored<O>)...}, kElements[] = {sizeof(O)...};
    const auto past = reinterpret_cast<std::uintptr_t>(run_.out[0]) % kSizes[0];
    const i64 n = past == 0 ? 0 : min_of<i64>(run_.n, static_cast<i64>((kSizes[0] - past) / kElements[0]));
    if (n > 0) part<true>(0, n);
    return n;
  }

  const F& f_;
  const Run& run_;
  Scales scales_;
};

template <class T, class Inputs, class Outputs, class F>
void map(const F& f, const Run& run) {
  Map<T, Inputs, Outputs, F>(f, run, {}).template compute<false, false>();
}
/// The caller calls finish_non_temporal_stores() at the end.
template <class T, class Inputs, class Outputs, class F>
void map_unfinished(const F& f, const Run& run, const Blend& blend) {
  const Map<T, Inputs, Outputs, F> m(f, run, blend);
  if (blend.non_temporal && m.may_stream()) return m.template compute<true, true>();
  m.template compute<true, false>();
}
template <class T, class Inputs, class Outputs, class F>
void map(const F& f, const Run& run, const Blend& blend) {
  map_unfinished<T, Inputs, Outputs>(f, run, blend);
  if (blend.non_temporal) finish_non_temporal_stores();
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
