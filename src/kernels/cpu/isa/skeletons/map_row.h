// Rows of few vectors, whose elements all differ: the loop of the map skeleton without what it prepares for each row.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/skeletons/map.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// RowInputs of a run without repeated elements.
template <class T, class... I>
class DistinctInputs {
 public:
  static constexpr std::size_t kInputs = sizeof...(I);

  DistinctInputs(const Run& run, i64 row) {
    for (std::size_t k = 0; k < kInputs; ++k)
      in_[k] = static_cast<const unsigned char*>(run.in[k]) + row * run.in_row_bytes[k];
  }
  explicit DistinctInputs(const void* const (&in)[kInputs]) {
    for (std::size_t k = 0; k < kInputs; ++k) in_[k] = in[k];
  }

  template <std::size_t K>
  [[gnu::always_inline]] Vec<T> load(i64 i) const {
    return Elements<typename TypeAt<K, I...>::type, T>::load(in_[K], i);
  }
  template <std::size_t K>
  [[gnu::always_inline]] Vec<T> load_part(i64 i, int n) const {
    return Elements<typename TypeAt<K, I...>::type, T>::load_part(in_[K], i, n);
  }

 private:
  const void* in_[kInputs];
};

template <class T, class Inputs, class Output>
class MapRow;

/// out = f(vectors of the inputs) for the n elements of a row.
template <class T, class... I, class O>
class MapRow<T, Types<I...>, Types<O>> {
 public:
  using Inputs = DistinctInputs<T, I...>;

  /// `separate`: no input is the output.
  MapRow(i64 n, bool separate) : n_(n), overlaps_(separate && n >= kStep) {}

  /// Whether non-temporal stores write whole lines only.
  bool fills_lines(const Run& run) const {
    constexpr i64 kLine = 64;
    return n_ * static_cast<i64>(sizeof(O)) % kLine == 0 && run.out_row_bytes[0] % kLine == 0 &&
           reinterpret_cast<std::uintptr_t>(run.out[0]) % kLine == 0;
  }

  /// kNonTemporal: only for rows that fill lines.
  template <bool kNonTemporal, class F>
  [[gnu::always_inline]] void compute(const F& f, const Inputs& in, void* out) const {
    const i64 n = n_;
    i64 i = 0;
    const auto at = [&](i64 j) { return whole(f, in, j, kNumbers); };
    if constexpr (E::kPairs)
      for (; i + 2 * kStep <= n; i += 2 * kStep)
        kNonTemporal ? E::store_non_temporal(out, i, at(i), at(i + kStep)) : E::store(out, i, at(i), at(i + kStep));
    for (; i + kStep <= n; i += kStep) kNonTemporal ? E::store_non_temporal(out, i, at(i)) : E::store(out, i, at(i));
    if (i == n) return;
    if (overlaps_) return E::store(out, n - kStep, at(n - kStep));
    const int rest = static_cast<int>(n - i);
    E::store_part(out, i, part(f, in, i, rest, kNumbers), rest);
  }

 private:
  using E = Elements<O, T>;
  static constexpr i64 kStep = kLanes<T>;
  static constexpr auto kNumbers = std::make_index_sequence<sizeof...(I)>{};

  template <class F, std::size_t... K>
  [[gnu::always_inline]] static Vec<T> whole(const F& f, const Inputs& in, i64 i, std::index_sequence<K...>) {
    return f(in.template load<K>(i)...);
  }
  template <class F, std::size_t... K>
  [[gnu::always_inline]] static Vec<T> part(const F& f, const Inputs& in, i64 i, int n, std::index_sequence<K...>) {
    return f(in.template load_part<K>(i, n)...);
  }

  i64 n_;
  bool overlaps_;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
