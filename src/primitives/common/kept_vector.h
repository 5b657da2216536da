// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <utility>
#include <vector>

namespace polymio::common {

/// A vector whose memory, up to 1 MiB, its thread keeps for the next one with the same `Use`, so that warm calls do not
/// allocate.
template <class T, class Use>
class KeptVector {
 public:
  explicit KeptVector(std::size_t count = 0) : values_(std::move(kept())) { values_.assign(count, T{}); }
  KeptVector(const KeptVector&) = delete;
  KeptVector& operator=(const KeptVector&) = delete;
  ~KeptVector() {
    constexpr std::size_t kMostKept = (std::size_t{1} << 20) / sizeof(T);
    if (values_.capacity() > 0 && values_.capacity() <= kMostKept) kept() = std::move(values_);
  }
  std::vector<T>& operator*() { return values_; }
  const std::vector<T>& operator*() const { return values_; }
  std::vector<T>* operator->() { return &values_; }

 private:
  static std::vector<T>& kept() {
    thread_local std::vector<T> values;
    return values;
  }

  std::vector<T> values_;
};

}  // namespace polymio::common
