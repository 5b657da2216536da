// Buffers of a task, and results of the arithmetic's type on their way to memory of the storage type.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/skeletons/map.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Memory of a task, cut into pieces; with null only their bytes are counted.
class Scratch {
 public:
  explicit Scratch(void* memory) : at_(reinterpret_cast<std::uintptr_t>(memory)) {}
  /// Room for n elements and a vector after them.
  template <class T>
  T* take(i64 n) {
    T* const piece = reinterpret_cast<T*>(at_);
    at_ += static_cast<std::uintptr_t>(round_up(n * static_cast<i64>(sizeof(T)) + kVectorBytes, kVectorBytes));
    return piece;
  }
  std::uintptr_t end() const { return at_; }

 private:
  std::uintptr_t at_;
};

inline constexpr i64 kWriterElements = 2048;  // 8 KiB of floats

template <class T>
struct Same {
  Vec<T> operator()(Vec<T> v) const { return v; }
};

/// Collects results of contiguous elements, then stores many at once.
template <class S, class T>
class Writer {
 public:
  Writer(Scratch& scratch, const Blend& blend, i64 step)
      : values_(scratch.take<T>(kWriterElements + kLanes<T>)), blend_(blend), step_(step) {}
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() { flush(); }

  /// Where the next n <= kWriterElements results, which are for `to`, belong; up to two vectors may be written after
  /// them.
  T* reserve(S* to, i64 n) {
    if (used_ > 0 && (step_ != 1 || to != to_ + used_ || used_ + n > kWriterElements)) flush();
    if (used_ == 0) to_ = to;
    T* const place = values_ + used_;
    used_ += n;
    return place;
  }

 private:
  void flush() {
    if (used_ == 0) return;
    if (step_ == 1)
      store(values_, to_, used_);
    else
      store_strided();
    used_ = 0;
  }
  void store(const T* values, S* to, i64 n) const {
    Run run;
    run.in[0] = values;
    run.out[0] = to;
    run.n = n;
    map<T, Types<T>, Types<S>>(Same<T>{}, run, blend_);
  }
  void store_strided() const {
    S block[kLanes<T>];
    for (i64 i = 0; i < used_; i += kLanes<T>) {
      const i64 n = min_of<i64>(used_ - i, kLanes<T>);
      for (i64 k = 0; k < n; ++k) block[k] = to_[(i + k) * step_];
      store(values_ + i, block, n);
      for (i64 k = 0; k < n; ++k) to_[(i + k) * step_] = block[k];
    }
  }

  T* values_;
  Blend blend_;
  i64 step_;
  S* to_ = nullptr;
  i64 used_ = 0;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
