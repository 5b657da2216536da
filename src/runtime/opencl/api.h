// The OpenCL functions in use, declared by hand: building needs no OpenCL header.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace polymio::opencl {

using Code = std::int32_t;  // 0 is success
using Bits = std::uint64_t;
struct Platform;
struct Device;
struct Context;
struct Queue;
struct Memory;
struct Program;
struct Function;
struct EventHandle;  // cl_event
using Size = std::size_t;

constexpr Code kDeviceNotFound = -1, kNoMemory = -4, kNoResources = -5, kNoHostMemory = -6;

struct Api {
  Code (*platforms)(unsigned, Platform**, unsigned*);
  Code (*platform_info)(Platform*, unsigned, Size, void*, Size*);
  Code (*devices)(Platform*, Bits, unsigned, Device**, unsigned*);
  Code (*device_info)(Device*, unsigned, Size, void*, Size*);
  Context* (*create_context)(const std::intptr_t*, unsigned, Device* const*,
                             void (*)(const char*, const void*, Size, void*), void*, Code*);
  Queue* (*create_queue)(Context*, Device*, Bits, Code*);
  Code (*retain_queue)(Queue*);
  Code (*release_queue)(Queue*);
  Code (*queue_info)(Queue*, unsigned, Size, void*, Size*);
  Program* (*program_of_source)(Context*, unsigned, const char**, const Size*, Code*);
  Program* (*program_of_binary)(Context*, unsigned, Device* const*, const Size*, const unsigned char**, Code*, Code*);
  Code (*build)(Program*, unsigned, Device* const*, const char*, void (*)(Program*, void*), void*);
  Code (*build_info)(Program*, Device*, unsigned, Size, void*, Size*);
  Code (*program_info)(Program*, unsigned, Size, void*, Size*);
  Code (*release_program)(Program*);
  Function* (*create_function)(Program*, const char*, Code*);
  Code (*release_function)(Function*);
  Code (*set_argument)(Function*, unsigned, Size, const void*);
  Code (*set_pointer)(Function*, unsigned, const void*);
  Code (*launch)(Queue*, Function*, unsigned, const Size*, const Size*, const Size*, unsigned, EventHandle* const*,
                 EventHandle**);
  Code (*flush)(Queue*);
  Code (*finish)(Queue*);
  Code (*marker)(Queue*, unsigned, EventHandle* const*, EventHandle**);
  Code (*barrier)(Queue*, unsigned, EventHandle* const*, EventHandle**);
  Code (*wait)(unsigned, EventHandle* const*);
  Code (*event_info)(EventHandle*, unsigned, Size, void*, Size*);
  Code (*profile)(EventHandle*, unsigned, Size, void*, Size*);
  Code (*release_event)(EventHandle*);
  void* (*svm_allocate)(Context*, Bits, Size, unsigned);
  void (*svm_free)(Context*, void*);
  Code (*svm_copy)(Queue*, unsigned, void*, const void*, Size, unsigned, EventHandle* const*, EventHandle**);
  Code (*svm_fill)(Queue*, void*, const void*, Size, Size, unsigned, EventHandle* const*, EventHandle**);
  Memory* (*create_buffer)(Context*, Bits, Size, void*, Code*);
  Code (*release_memory)(Memory*);
  Code (*read)(Queue*, Memory*, unsigned, Size, Size, void*, unsigned, EventHandle* const*, EventHandle**);
  Code (*write)(Queue*, Memory*, unsigned, Size, Size, const void*, unsigned, EventHandle* const*, EventHandle**);
  Code (*fill)(Queue*, Memory*, const void*, Size, Size, Size, unsigned, EventHandle* const*, EventHandle**);
  Code (*copy)(Queue*, Memory*, Memory*, Size, Size, Size, unsigned, EventHandle* const*, EventHandle**);
};

/// The functions; null, with the reason, if OpenCL is missing. The SVM functions may be null.
const Api* api(std::string& problem);

/// Throws unless `code` is 0: AllocFailed if out of memory, else InternalError.
void check(Code code, const char* what);

}  // namespace polymio::opencl
