// Base of the objects behind the opaque handles of the C API: a magic number per kind, memory that outlives the object,
// and checked access, which refuses null, foreign and destroyed objects.
// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include "base/error.h"
#include "base/process_mutex.h"

namespace polymio::capi {

/// Distinguishes live objects of one kind from other pointers that a caller may pass; cleared on destruction.
template <std::uint64_t kTag>
class Magic {
 public:
  Magic() = default;
  ~Magic() { *const_cast<volatile std::uint64_t*>(&value_) = 0; }
  bool alive() const { return value_ == kTag; }

 private:
  std::uint64_t value_ = kTag;
};

/// Memory for objects of one kind. Memory of destroyed objects is reused, oldest first, for objects of the same kind
/// only and never returned to the system, so that a stale handle can be checked at any time.
class Slots {
 public:
  void* take(std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    if (!oldest_) return ::operator new(std::max(bytes, sizeof(Free)));
    Free* const slot = oldest_;
    oldest_ = slot->next;
    if (!oldest_) newest_ = nullptr;
    unpoison(slot, bytes);
    return slot;
  }

  void give(void* memory, std::size_t bytes) noexcept {
    const std::scoped_lock lock(mutex_);
    auto* const slot = ::new (memory) Free;
    (newest_ ? newest_->next : oldest_) = slot;
    newest_ = slot;
    poison(slot, bytes);
  }

 private:
  struct Free {
    std::uint64_t no_magic = 0;
    Free* next = nullptr;
  };

#if defined(__SANITIZE_ADDRESS__)
  static void poison(Free* slot, std::size_t bytes) {
    if (bytes > sizeof(Free)) __asan_poison_memory_region(slot + 1, bytes - sizeof(Free));
  }
  static void unpoison(Free* slot, std::size_t bytes) { __asan_unpoison_memory_region(slot, bytes); }
#else
  static void poison(Free*, std::size_t) {}
  static void unpoison(Free*, std::size_t) {}
#endif

  ProcessMutex mutex_;
  Free* oldest_ = nullptr;
  Free* newest_ = nullptr;
};

/// Base class of objects that are allocated from the slots of their kind.
template <class Object>
class InSlots {
 public:
  static void* operator new(std::size_t bytes) { return slots_.take(bytes); }
  static void operator delete(void* memory, std::size_t bytes) noexcept { slots_.give(memory, bytes); }

 private:
  inline static Slots slots_;
};

/// The object of a handle; BadParm for null, foreign and destroyed ones. The magic is the first member, so that reading
/// it stays within a smaller foreign object.
template <class Object, class Base>
Object& checked(Base* base) {
  // Every warm call comes here: fail() stays out of its way, where require() would be called with its text.
  if (!base) fail(Status::kBadParm, "the {} is null", Object::kKind);
  if (reinterpret_cast<std::uintptr_t>(base) % alignof(Object) != 0 || !static_cast<Object*>(base)->magic.alive())
    fail(Status::kBadParm, "the given pointer is not a live {}", Object::kKind);
  return *static_cast<Object*>(base);
}

}  // namespace polymio::capi
