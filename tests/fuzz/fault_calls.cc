// The functions that fail: definitions in the executable take precedence over those of the C and C++ libraries.
// SPDX-License-Identifier: MIT
#include "fuzz/fault_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

namespace polymio::fuzz {

FaultPlan& fault_plan() {
  static FaultPlan* const plan = [] {
    void* p = ::mmap(nullptr, sizeof(FaultPlan), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) std::abort();
    return new (p) FaultPlan;
  }();
  return *plan;
}

bool& thread_is_exempt() {
  static thread_local bool exempt = false;
  return exempt;
}

namespace {

bool fails(Fault kind) {
  FaultPlan& plan = fault_plan();
  if (!plan.counting || thread_is_exempt()) return false;
  const std::int64_t call = ++plan.calls[static_cast<int>(kind)];
  if (plan.kind != static_cast<int>(kind) || (plan.from_there_on ? call < plan.at : call != plan.at)) return false;
  plan.reached = true;
  return true;
}

int fail_with(int error) {
  errno = error;
  return -1;
}

void* take(std::size_t bytes, std::size_t alignment) noexcept {
  if (fails(Fault::kMemory)) return nullptr;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes ? bytes : 1);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* take_or_throw(std::size_t bytes, std::size_t alignment) {
  void* p = take(bytes, alignment);
  if (!p) throw std::bad_alloc();
  return p;
}

}  // namespace
}  // namespace polymio::fuzz

using polymio::fuzz::Fault;

#pragma GCC visibility push(default)  // the library calls them
extern "C" {

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  // oneTBB aborts when one of its threads does not start, see docs/safety.md.
  Dl_info caller{};
  const bool known = ::dladdr(__builtin_return_address(0), &caller) != 0 && caller.dli_fname != nullptr;
  const bool onetbb = known && std::strstr(caller.dli_fname, "libtbb") != nullptr;
  return !onetbb && polymio::fuzz::fails(Fault::kThread) ? EAGAIN : create(thread, attributes, start, argument);
}

int open(const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(rest, unsigned) : 0;
  va_end(rest);
  if (polymio::fuzz::fails(Fault::kOpen)) return polymio::fuzz::fail_with(EMFILE);
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

ssize_t write(int fd, const void* data, std::size_t bytes) {
  if (polymio::fuzz::fails(Fault::kWrite)) return polymio::fuzz::fail_with(ENOSPC);
  return ::syscall(SYS_write, fd, data, bytes);
}

int fsync(int fd) {
  if (polymio::fuzz::fails(Fault::kFsync)) return polymio::fuzz::fail_with(EIO);
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

int rename(const char* from, const char* to) noexcept {
  if (polymio::fuzz::fails(Fault::kRename)) return polymio::fuzz::fail_with(EROFS);
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

}  // extern "C"
#pragma GCC visibility pop

namespace fuzz = polymio::fuzz;
constexpr std::size_t kUsual = alignof(std::max_align_t);

void* operator new(std::size_t n) { return fuzz::take_or_throw(n, kUsual); }
void* operator new[](std::size_t n) { return fuzz::take_or_throw(n, kUsual); }
void* operator new(std::size_t n, std::align_val_t a) { return fuzz::take_or_throw(n, static_cast<std::size_t>(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return fuzz::take_or_throw(n, static_cast<std::size_t>(a)); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return fuzz::take(n, kUsual); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return fuzz::take(n, kUsual); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return fuzz::take(n, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return fuzz::take(n, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
