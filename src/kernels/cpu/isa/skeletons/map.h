// The map skeleton: outputs = f(inputs), element by element, over rows of contiguous elements. The functor is written
// once, for vectors; the last vector of a row overlaps the one before, or is a part:
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
  bool non_temporal = false;  // where scale is 1 and keep 0
};

/// What is done with results: a plain or non-temporal store, or a blend with the old output.
enum class Storing { kPlain, kNonTemporal, kBlend };

/// The inputs of one row of a run. An element that repeats fills vectors in a buffer, which every index finds.
template <class T, class... I>
struct RowInputs {
  static constexpr int kInputs = sizeof...(I);
  template <int kVectors = 1>
  using Buffers = unsigned char[kInputs][kVectors * kVectorBytes];

  template <std::size_t kBytes>
  RowInputs(const Run& run, i64 row, unsigned char (&buffers)[kInputs][kBytes]) {
    int k = 0;
    ((select<I>(run, row, k, buffers[k]), ++k), ...);
  }
  /// Vector number `vector` from element i on.
  template <std::size_t K>
  [[gnu::always_inline]] Vec<T> load(i64 i, int vector = 0) const {
    return Elements<typename TypeAt<K, I...>::type, T>::load(in[K], (i & mask[K]) + vector * kLanes<T>);
  }

  /// The first n lanes.
  template <std::size_t K>
  [[gnu::always_inline]] Vec<T> load_part(i64 i, int n) const {
    return Elements<typename TypeAt<K, I...>::type, T>::load_part(in[K], i & mask[K], n);
  }

  /// A row of the first `reads` inputs.
  [[gnu::always_inline]] static void prefetch(const Run& run, i64 row, int reads) {
    constexpr i64 kLine = 64, kSizes[] = {sizeof(I)...};
    for (int k = 0; k < reads; ++k) {
      const char* const from = static_cast<const char*>(run.in[k]) + row * run.in_row_bytes[k];
      const i64 bytes = run.repeats >> k & 1 ? 0 : run.n * kSizes[k];
      for (i64 i = 0; i < bytes; i += kLine) __builtin_prefetch(from + i);
    }
  }

  const void* in[kInputs];
  i64 mask[kInputs];

 private:
  template <class S, std::size_t kBytes>
  [[gnu::always_inline]] void select(const Run& run, i64 row, int k, unsigned char (&buffer)[kBytes]) {
    in[k] = static_cast<const unsigned char*>(run.in[k]) + row * run.in_row_bytes[k];
    mask[k] = -1;
    if (!(run.repeats >> k & 1)) return;
    using Stored = typename Elements<S, T>::Stored;
    typename Elements<S, T>::Bits bits;
    __builtin_memcpy(&bits, in[k], sizeof bits);
    const Stored all = bits - Stored{};  // adding 0 would lose the sign of -0
    for (std::size_t v = 0; v < kBytes / kVectorBytes; ++v) __builtin_memcpy(buffer + v * sizeof all, &all, sizeof all);
    in[k] = buffer;
    mask[k] = 0;
  }
};

template <class T, class Inputs, class Outputs, class F>
class Map;

/// T: type of the arithmetic.
template <class T, class... I, class... O, class F>
class Map<T, Types<I...>, Types<O...>, F> {
 public:
  Map(const F& f, const Run& run, const Blend& blend)
      : f_(f), run_(run), scales_{static_cast<T>(blend.scale), static_cast<T>(blend.keep)}, separate_(is_separate()) {}

  template <Storing kStoring>
  void compute() const {
    alignas(64) typename Inputs::template Buffers<kVectors> repeated;
    F f = f_;
    for (i64 r = 0; r < run_.rows; ++r) {
      Row row{Inputs(run_, r, repeated), {}};
      for (std::size_t o = 0; o < sizeof...(O); ++o)
        row.out[o] = static_cast<unsigned char*>(run_.out[o]) + r * run_.out_row_bytes[o];
      if constexpr (requires { f.start_row(r); }) f.start_row(r);
      compute_row<kStoring>(f, row);
    }
  }

  /// Whether no output is an input.
  bool may_stream() const { return separate_; }

 private:
  static constexpr i64 kStep = kLanes<T>;
  // Two vectors of 16-bit results are one to store.
  static constexpr int kVectors = (Elements<O, T>::kPairs || ...) ? 2 : 1;
  static constexpr i64 kWide = kVectors * kStep;
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

  template <Storing kStoring>
  [[gnu::always_inline]] void compute_row(const F& function, const Row& given) const {
    // Copies, whose address no other function gets: the compiler keeps them in registers, since no store can change
    // them.
    const F f = function;
    const Row row = given;
    const Scales scales = scales_;
    const i64 n = run_.n;
    i64 i = 0;
    if constexpr (kStoring == Storing::kNonTemporal) i = align(function, given);
    // Blends are rare: they are computed vector by vector.
    if constexpr (kStoring != Storing::kBlend)
      for (; i + kWide <= n; i += kWide) vectors<kStoring, kVectors>(f, row, scales, i);
    constexpr Storing kRest = kStoring == Storing::kBlend ? kStoring : Storing::kPlain;
    for (; i + kStep <= n; i += kStep) vectors<kRest, 1>(f, row, scales, i);
    if (i == n) return;
    if (separate_ && n >= kStep) return vectors<kRest, 1>(f, row, scales, n - kStep);
    part<kRest>(function, given, i, static_cast<int>(n - i));
  }

  template <Storing kStoring, int kCount>
  [[gnu::always_inline]] static void vectors(const F& f, const Row& row, const Scales& scales, i64 i) {
    if constexpr (kStoring == Storing::kNonTemporal && requires { f.prefetch(row.in, i); }) f.prefetch(row.in, i);
    const auto first = results(f, row.in, i, 0, kNumbers);
    if constexpr (kCount == 1) {
      output<kStoring>(row, i, scales, first);
    } else {
      output<kStoring>(row, i, scales, first, results(f, row.in, i, 1, kNumbers));
    }
  }
  template <std::size_t... K>
  [[gnu::always_inline]] static auto results(const F& f, const Inputs& in, i64 i, int vector,
                                             std::index_sequence<K...>) {
    return f(in.template load<K>(i, vector)...);
  }
  /// v: results of consecutive vectors.
  template <Storing kStoring, class... V>
  [[gnu::always_inline]] static void output(const Row& row, i64 i, const Scales& scales, V... v) {
    if constexpr (sizeof...(O) == 1) {
      put<kStoring, O...>(row.out[0], i, scales, v...);
    } else {
      std::size_t o = 0;
      constexpr Storing kEach = kStoring == Storing::kNonTemporal ? Storing::kPlain : kStoring;
      ((put<kEach, O>(row.out[o], i, scales, v.v[o]...), ++o), ...);
    }
  }
  template <Storing kStoring, class S>
  [[gnu::always_inline]] static void put(void* out, i64 i, const Scales& scales, Vec<T> v) {
    if constexpr (kStoring == Storing::kBlend) {
      v = v * scales.scale;
      if (scales.keep != 0) v = v + Elements<S, T>::load(out, i) * scales.keep;
    }
    if constexpr (kStoring == Storing::kNonTemporal)
      Elements<S, T>::store_non_temporal(out, i, v);
    else
      Elements<S, T>::store(out, i, v);
  }
  template <Storing kStoring, class S>
  [[gnu::always_inline]] static void put(void* out, i64 i, const Scales&, Vec<T> low, Vec<T> high) {
    static_assert(kStoring != Storing::kBlend);
    if constexpr (kStoring == Storing::kNonTemporal)
      Elements<S, T>::store_non_temporal(out, i, low, high);
    else
      Elements<S, T>::store(out, i, low, high);
  }

  /// n < kStep elements.
  template <Storing kStoring>
  [[gnu::noinline]] void part(const F& f, const Row& row, i64 i, int n) const {
    put_part<kStoring>(row, i, n, results_of_part(f, row.in, i, n, kNumbers));
  }
  template <std::size_t... K>
  static auto results_of_part(const F& f, const Inputs& in, i64 i, int n, std::index_sequence<K...>) {
    return f(in.template load_part<K>(i, n)...);
  }
  template <Storing kStoring, class V>
  void put_part(const Row& row, i64 i, int n, const V& v) const {
    int o = 0;
    const auto put = [&]<class S>(const S*) {
      Vec<T> result;
      if constexpr (sizeof...(O) == 1)
        result = v;
      else
        result = v.v[o];
      if constexpr (kStoring == Storing::kBlend) {
        result = result * scales_.scale;
        if (scales_.keep != 0) result = result + Elements<S, T>::load_part(row.out[o], i, n) * scales_.keep;
      }
      Elements<S, T>::store_part(row.out[o++], i, result, n);
    };
    (put(static_cast<const O*>(nullptr)), ...);
  }

  /// Computes the elements up to the first aligned vectors of the output; returns their index.
  i64 align(const F& f, const Row& row) const {
    constexpr std::size_t kSizes[] = {kVectors * sizeof(Stored<O>)...}, kElements[] = {sizeof(O)...};
    const auto past = reinterpret_cast<std::uintptr_t>(row.out[0]) % kSizes[0];
    const i64 n = past == 0 ? 0 : static_cast<i64>((kSizes[0] - past) / kElements[0]);
    if (n == 0 || run_.n < kWide) return 0;
    vectors<Storing::kPlain, kVectors>(f, row, scales_, 0);
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
  Map<T, Inputs, Outputs, F>(f, run, {}).template compute<Storing::kPlain>();
}
/// The caller calls finish_non_temporal_stores() at the end.
template <class T, class Inputs, class Outputs, class F>
void map_unfinished(const F& f, const Run& run, Streaming streaming) {
  const Map<T, Inputs, Outputs, F> m(f, run, {});
  if (streaming.non_temporal && m.may_stream()) return m.template compute<Storing::kNonTemporal>();
  m.template compute<Storing::kPlain>();
}
template <class T, class Inputs, class Outputs, class F>
void map_unfinished(const F& f, const Run& run, const Blend& blend) {
  if (blend.scale == 1 && blend.keep == 0)
    return map_unfinished<T, Inputs, Outputs>(f, run, Streaming{blend.non_temporal});
  Map<T, Inputs, Outputs, F>(f, run, blend).template compute<Storing::kBlend>();
}
/// `how`: Blend or Streaming.
template <class T, class Inputs, class Outputs, class F, class How>
void map(const F& f, const Run& run, const How& how) {
  map_unfinished<T, Inputs, Outputs>(f, run, how);
  if (how.non_temporal) finish_non_temporal_stores();
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
