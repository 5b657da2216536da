// Vectors of channels of NHWC tiles: loaded in place, or permuted so that each lane has a channel of its group.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/transpose.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Accumulator type of a storage type.
template <class S>
struct SumType {
  using type = float;
};
template <>
struct SumType<double> {
  using type = double;
};
template <class S>
using Sum = typename SumType<S>::type;

/// Loads and stores a vector of channels: all of them (AllChannels) or the first n (SomeChannels). source(j) loads the
/// operand of the j-th of the `sources` weights of a tap.
template <class S>
struct AllChannels {
  using V = Vec<Sum<S>>;
  static constexpr i64 sources = 1;
  static constexpr bool kAll = true;
  AllChannels source(i64) const { return *this; }
  static int count() { return kLanes<Sum<S>>; }
  V operator()(const S* p) const { return fetch_vector<Sum<S>>(p); }
  void store(S* p, V v) const { put_vector<Sum<S>>(p, v); }
};

template <class S>
struct SomeChannels {
  using V = Vec<Sum<S>>;
  static constexpr i64 sources = 1;
  static constexpr bool kAll = false;
  int n;
  SomeChannels source(i64) const { return *this; }
  int count() const { return n; }
  V operator()(const S* p) const { return fetch_vector<Sum<S>>(p, n); }
  void store(S* p, V v) const { put_vector<Sum<S>>(p, v, n); }
};

/// Lane l is element index[l] of the vector that Channels loads.
template <class Channels>
struct Permuted {
  Channels channels;
  Vec<std::int32_t> index;
  Vec<float> operator()(const float* p) const {
    const Vec<float> v = channels(p);
#if defined(__AVX512F__)
    return (Vec<float>)_mm512_maskz_permutexvar_ps(0xffff, (__m512i)index, (__m512)v);
#elif defined(__AVX2__)
    return (Vec<float>)_mm256_permutevar8x32_ps((__m256)v, (__m256i)index);
#else
    Vec<float> result{};
    for (int l = 0; l < kLanes<float>; ++l) result[l] = v[index[l]];
    return result;
#endif
  }
};

/// A vector of whole groups.
template <class Channels>
struct WholeGroups : Channels {
  i64 sources;
  Vec<std::int32_t> start{};
  WholeGroups(const Channels& channels, i64 group) : Channels(channels), sources(group) {
    for (int l = 0; l < kLanes<float>; ++l) start[l] = static_cast<std::int32_t>(l / group * group);
  }
  Permuted<Channels> source(i64 j) const { return {*this, start + static_cast<std::int32_t>(j)}; }
};

/// A vector of channels `first` and up of one group.
struct GroupPart : AllChannels<float> {
  struct Repeated {
    i64 offset;
    Vec<float> operator()(const float* p) const { return broadcast(p[offset]); }
  };
  i64 sources, first;
  GroupPart(i64 group, i64 start) : sources(group), first(start) {}
  Repeated source(i64 j) const { return {j - first}; }
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
