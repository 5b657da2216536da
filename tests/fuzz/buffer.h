// Memory with bounds checks: on the CPU between two inaccessible pages, with the unused rest of its own pages checked;
// on a GPU with checked bytes on both sides.
// SPDX-License-Identifier: MIT
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <span>

#include "core/handle.h"
#include "fuzz.h"

namespace polymio::fuzz {

inline constexpr unsigned char kUnused = 0xff;  // a NaN or, in FNUZ formats, the least number

class Buffer {
 public:
  /// Aligned to `alignment` and as close as possible to one of the two pages, which `random` selects.
  Buffer(Handle& handle, std::size_t bytes, std::size_t alignment, Random& random)
      : handle_(handle), bytes_(bytes), page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
    size_ = (bytes + kRoom + page_ - 1) / page_ * page_;
    mapped_ = ::mmap(nullptr, size_ + 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped_ == MAP_FAILED) throw std::bad_alloc();
    all_ = static_cast<unsigned char*>(mapped_) + page_;
    ::mprotect(mapped_, page_, PROT_NONE);
    ::mprotect(all_ + size_, page_, PROT_NONE);
    const std::size_t end = (size_ - bytes) / alignment * alignment;
    first_ = random.one_in(3) ? alignment % 64 * random.below(2) : end;
    if (!on_cpu()) memory_.emplace(handle, size_);
    std::memset(all_, kUnused, size_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { ::munmap(mapped_, size_ + 2 * page_); }

  std::size_t bytes() const { return bytes_; }
  unsigned char* host() { return all_ + first_; }
  /// The device pointer for the solver; null for 0 bytes.
  void* device() {
    if (bytes_ == 0) return nullptr;
    return on_cpu() ? host() : static_cast<unsigned char*>(memory_->data()) + first_;
  }
  void fill(std::span<const unsigned char> content) { std::copy(content.begin(), content.end(), host()); }
  void upload() {
    if (!on_cpu()) handle_.stream().upload(memory_->data(), all_, size_);
  }
  void download() {
    if (!on_cpu()) handle_.stream().download(all_, memory_->data(), size_);
  }
  /// Whether the bytes outside the buffer are unchanged.
  bool is_intact() const {
    const auto unused = [](unsigned char c) { return c == kUnused; };
    return std::all_of(all_, all_ + first_, unused) && std::all_of(all_ + first_ + bytes_, all_ + size_, unused);
  }
  bool holds(std::span<const unsigned char> content) const {
    return std::equal(content.begin(), content.end(), all_ + first_);
  }

 private:
  static constexpr std::size_t kRoom = 256;
  bool on_cpu() const { return handle_.device().kind == DeviceKind::kCpu; }

  Handle& handle_;
  std::size_t bytes_, page_, size_ = 0, first_ = 0;
  void* mapped_ = nullptr;
  unsigned char* all_ = nullptr;
  std::optional<Memory> memory_;
};

}  // namespace polymio::fuzz
