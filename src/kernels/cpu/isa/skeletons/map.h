// The map skeleton: outputs = f(inputs), element by element, over rows of contiguous elements. The functor is written
// once, for vectors; the last vector of a row overlaps the one before, or passes through the stack:
//
//   template <class T>
//   struct Scaled {
//     Vec<T> operator()(Vec<T> a, Vec<T> b) const { return a * factor + b; }   // or Vectors<T, 2> for two outputs
//     T factor;
//   };
//   map<float, Types<Bfloat16, float>, Types<Bfloat16>>(Scaled<float>{2}, run);
// A functor with start_row(i64 row) is told the number of each row before its elements.
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

/// Whether the first output is stored with streaming stores; ignored if it is an input or kept.
struct Streaming {
  bool non_temporal = false;
};
/// output = scale * f(inputs) + keep * output. The old output is not read if keep is 0.
struct Blend {
  double scale = 1, keep = 0;
  bool non_temporal = false;
};

/// The inputs of one row of a run. An element that repeats fills a vector, which every index finds.
template <class T, class... I>
struct RowInputs {
  static constexpr int kInputs = sizeof...(I);
  using Buffers = unsigned char[kInputs][kVectorBytes];

  RowInputs(const Run& run, i64 row, Buffers& buffers) {
    int k = 0;
    (select<I>(run, row, k++, buffers), ...);
  }
  template <std::size_t K>
  [[gnu::always_inline]] Vec<T> load(i64 i) const {
    return Elements<typename TypeAt<K, I...>::type, T>::load(in[K], i & mask[K]);
  }

  /// The first n lanes.
  template <std::size_t K>
  [[gnu::always_inline]] Vec<T> load_part(i64 i, int n) const {
    using S = typename TypeAt<K, I...>::type;
    const S* const from = static_cast<const S*>(in[K]) + (i & mask[K]);
    if constexpr (__is_same(T, float) && (__is_same(S, float) || kIs16BitFloat<S>)) {
      return load_widened(from, n);
    } else {
      alignas(64) unsigned char line[kVectorBytes] = {};
      __builtin_memcpy(line, from, static_cast<std::size_t>(n) * sizeof(S));
      return Elements<S, T>::load(line, 0);
    }
  }

  const void* in[kInputs];
  i64 mask[kInputs];

 private:
  template <class S>
  [[gnu::always_inline]] void select(const Run& run, i64 row, int k, Buffers& buffers) {
    in[k] = static_cast<const unsigned char*>(run.in[k]) + row * run.in_row_bytes[k];
    mask[k] = -1;
    if (!(run.repeats >> k & 1)) return;
    using Stored = typename Elements<S, T>::Stored;
    typename Elements<S, T>::Bits bits;
    __builtin_memcpy(&bits, in[k], sizeof bits);
    const Stored all = bits - Stored{};  // adding 0 would lose the sign of -0
    __builtin_memcpy(buffers[k], &all, sizeof all);
    in[k] = buffers[k];
    mask[k] = 0;
  }
};

template <class T, class Inputs, class Outputs, class F>
class Map;

/// T: type of the arithmetic. kBlends: outputs are blended, else they are f(inputs).
template <class T, class... I, class... O, class F>
class Map<T, Types<I...>, Types<O...>, F> {
 public:
  Map(const F& f, const Run& run, const Blend& blend)
      : f_(f), run_(run), scales_{static_cast<T>(blend.scale), static_cast<T>(blend.keep)}, separate_(is_separate()) {}

  template <bool kBlends, bool kNonTemporal>
  void compute() const {
    alignas(64) typename Inputs::Buffers repeated;
    F f = f_;
    for (i64 r = 0; r < run_.rows; ++r) {
      Row row{Inputs(run_, r, repeated), {}};
      for (std::size_t o = 0; o < sizeof...(O); ++o)
        row.out[o] = static_cast<unsigned char*>(run_.out[o]) + r * run_.out_row_bytes[o];
      if constexpr (requires { f.start_row(r); }) f.start_row(r);
      compute_row<kBlends, kNonTemporal>(f, row);
    }
  }

  /// Whether no output is an input.
  bool may_stream() const { return separate_; }

 private:
  static constexpr i64 kStep = kLanes<T>;
  static constexpr auto kNumbers = std::make_index_sequence<sizeof...(I)>{};
  using Inputs = RowInputs<T, I...>;
  struct Row {
    Inputs in;
    void* out[sizeof...(O)];
  };
  struct Scales {
    T scale, keep;
  };
  template <class S>
  using Stored = typename Elements<S, T>::Stored;

  template <bool kBlends, bool kNonTemporal>
  [[gnu::always_inline]] void compute_row(const F& function, const Row& given) const {
    // Copies, whose address no other function gets: the compiler keeps them in registers, since no store can change
    // them.
    const F f = function;
    const Row row = given;
    const Scales scales = scales_;
    const i64 n = run_.n;
    i64 i = 0;
    if constexpr (kNonTemporal) {
      i = align<kBlends>(function, given);
      for (; i + kStep <= n; i += kStep) vector<kBlends, true>(f, row, scales, i);
    }
    for (; i + kStep <= n; i += kStep) vector<kBlends, false>(f, row, scales, i);
    if (i == n) return;
    if (separate_ && n >= kStep) return vector<kBlends, false>(f, row, scales, n - kStep);
    part<kBlends>(function, given, i, n - i);
  }

  template <bool kBlends, bool kNonTemporal>
  [[gnu::always_inline]] static void vector(const F& f, const Row& row, const Scales& scales, i64 i) {
    if constexpr (kNonTemporal && requires { f.prefetch(row.in, i); }) f.prefetch(row.in, i);
    const auto values = inputs(f, row.in, i, kNumbers);
    if constexpr (sizeof...(O) == 1) {
      output<kBlends, kNonTemporal, O...>(row.out[0], i, values, scales);
    } else {
      std::size_t o = 0;
      ((output<kBlends, false, O>(row.out[o], i, values.v[o], scales), ++o), ...);
    }
  }
  template <std::size_t... K>
  [[gnu::always_inline]] static auto inputs(const F& f, const Inputs& in, i64 i, std::index_sequence<K...>) {
    return f(in.template load<K>(i)...);
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
  [[gnu::noinline]] void part(const F& f, const Row& row, i64 i, i64 n) const {
    alignas(64) unsigned char buffers[sizeof...(I) + sizeof...(O)][kVectorBytes] = {};
    Row vectors = row;
    const bool reads_outputs = kBlends && scales_.keep != 0;
    int used = 0;
    const auto buffer = [&]<class S>(const S* from, bool reads) {
      unsigned char* const to = buffers[used++];
      if (reads) copy<S>(to, from, n);
      return to;
    };
    int k = 0;
    ((vectors.in.in[k] = buffer(static_cast<const I*>(row.in.in[k]) + (i & row.in.mask[k]), true), ++k), ...);
    int o = 0;
    ((vectors.out[o] = buffer(static_cast<const O*>(row.out[o]) + i, reads_outputs), ++o), ...);
    vector<kBlends, false>(f, vectors, scales_, 0);
    o = 0;
    ((copy<O>(static_cast<O*>(row.out[o]) + i, vectors.out[o], n), ++o), ...);
  }
  template <class S>
  static void copy(void* to, const void* from, i64 n) {
    __builtin_memcpy(to, from, static_cast<std::size_t>(n) * sizeof(S));
  }

  /// Computes the elements up to the first aligned vector of the output; returns its index.
  template <bool kBlends>
  i64 align(const F& f, const Row& row) const {
    constexpr std::size_t kSizes[] = {sizeof(Stored<O>)...}, kElements[] = {sizeof(O)...};
    const auto past = reinterpret_cast<std::uintptr_t>(row.out[0]) % kSizes[0];
    const i64 n = past == 0 ? 0 : min_of<i64>(run_.n, static_cast<i64>((kSizes[0] - past) / kElements[0]));
    if (n == 0) return 0;
    if (run_.n >= kStep)
      vector<kBlends, false>(f, row, scales_, 0);
    else
      part<kBlends>(f, row, 0, n);
    return n;
  }

  bool is_separate() const {
    bool separate = scales_.keep == 0;
    for (std::size_t k = 0; k < sizeof...(I); ++k)
      for (std::size_t o = 0; o < sizeof...(O); ++o) separate = separate && run_.in[k] != run_.out[o];
    return separate;
  }

  const F& f_;
  const Run& run_;
  Scales scales_;
  bool separate_;
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
void map_unfinished(const F& f, const Run& run, Streaming streaming) {
  const Map<T, Inputs, Outputs, F> m(f, run, {});
  if (streaming.non_temporal && m.may_stream()) return m.template compute<false, true>();
  m.template compute<false, false>();
}
/// `how`: Blend or Streaming.
template <class T, class Inputs, class Outputs, class F, class How>
void map(const F& f, const Run& run, const How& how) {
  map_unfinished<T, Inputs, Outputs>(f, run, how);
  if (how.non_temporal) finish_non_temporal_stores();
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
