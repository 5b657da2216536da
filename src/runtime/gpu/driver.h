// The CUDA driver API and the HIP runtime correspond function by function: one function table, one stream and one
// run-time compiler serve both. runtime/cuda and runtime/hip fill the tables.
// SPDX-License-Identifier: MIT
#pragma once
#include "runtime/gpu/gpu_stream.h"
#include "runtime/queue.h"

namespace polymio::gpu {

using Address = unsigned long long;  // of device memory
struct LaunchConfig;

/// Functions return 0 or an error. Handles of contexts, streams, events, modules and functions are pointers.
struct Driver {
  int (*initialise)(unsigned);
  int (*device_count)(int*);
  int (*device)(int*, int);
  int (*device_name)(char*, int, int);
  int (*total_memory)(std::size_t*, int);
  int (*attribute)(int*, int, int);
  int (*retain_context)(void**, int);
  int (*context_state)(int, unsigned*, int*);
  int (*current_context)(void**);
  int (*set_context)(void*);
  int (*allocate)(Address*, std::size_t);
  int (*free)(Address);
  int (*upload)(Address, const void*, std::size_t, void*);
  int (*download)(void*, Address, std::size_t, void*);
  int (*copy)(Address, Address, std::size_t, void*);
  int (*synchronize)(void*);
  int (*clear)(Address, unsigned char, std::size_t, void*);
  int (*is_capturing)(void*, int*);
  int (*create_event)(void**, unsigned);
  int (*record)(void*, void*);
  int (*wait)(void*);
  int (*elapsed)(float*, void*, void*);
  int (*destroy_event)(void*);
  int (*load)(void**, const void*);
  int (*unload)(void*);
  int (*function)(void**, void*, const char*);
  int (*function_attribute)(void*, int, int);
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
  int (*launch_with)(const LaunchConfig*, void*, void**, void**);  // null without launch attributes
  int (*pointer_attribute)(void*, int, Address);
  int (*error_text)(int, const char**);
  int (*stream_context)(void*, void**);  // null without such a function
  std::unique_ptr<Multiplier> (*multiplier)(void* context, const MatrixProduct&, int choice);  // null without library
  struct TensorMaps {  // both null without such functions
    int (*tiled)(TensorMap*, int element, unsigned rank, void* address, const std::uint64_t* sizes,
                 const std::uint64_t* strides, const unsigned* box, const unsigned* steps, int interleave, int swizzle,
                 int promotion, int fill);
    int (*im2col)(TensorMap*, int element, unsigned rank, void* address, const std::uint64_t* sizes,
                  const std::uint64_t* strides, const int* lower, const int* upper, unsigned channels, unsigned pixels,
                  const unsigned* steps, int interleave, int swizzle, int promotion, int fill);
    bool small_are_wrong;  // those of less than 128 KiB: see tensor_map.cc
  } tensor_maps;
  struct Queues {  // may all be null
    int (*create)(void**, unsigned);
    int (*destroy)(void*);
    int (*ready)(void*);
    int (*wait)(void*, void*, unsigned);
    int (*event_ready)(void*);
    int (*copy)(Address, Address, std::size_t, void*);
    int (*fill)(Address, unsigned char, std::size_t, void*);
    int (*memory)(std::size_t*, std::size_t*);
    int (*synchronize_all)();
  } queues;
};

/// The same for NVRTC and hipRTC.
struct RuntimeCompiler {
  int (*version)(int*, int*);
  int (*create)(void**, const char*, const char*, int, const char* const*, const char* const*);
  int (*compile)(void*, int, const char* const*);
  int (*code_size)(void*, std::size_t*);
  int (*code)(void*, char*);
  int (*log_size)(void*, std::size_t*);
  int (*log)(void*, char*);
  int (*destroy)(void**);
  const char* name;
  const char* spill_option;  // makes the compiler report register spills; may be null
};

/// Throws unless `code` is 0: AllocFailed if out of memory, else InternalError.
void check(const Driver&, int code, const char* what);

/// Makes a context current on this thread for a scope.
class Current {
 public:
  Current(const Driver& driver, void* context) : driver_(driver) {
    if (driver_.current_context(&before_) != 0) before_ = nullptr;
    changed_ = before_ != context;
    if (changed_) check(driver_, driver_.set_context(context), "choosing the device");
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current() {
    if (changed_) driver_.set_context(before_);
  }

 private:
  const Driver& driver_;
  void* before_ = nullptr;
  bool changed_;
};

/// The map of a tensor at this address; InternalError if the driver refuses it. A thread keeps its last few maps, since
/// the driver takes half a microsecond for one.
TensorMap tensor_map(const Driver&, const TensorMapSpec&, Address);

/// `target` is the option that names the architecture.
std::unique_ptr<Compiler> make_compiler(const RuntimeCompiler&, const std::string& target);

/// A stream in the context of the device; `native` null is the default stream. All referenced objects must outlive it.
std::unique_ptr<Stream> make_stream(const Driver&, const DeviceInfo&, void* context, void* native,
                                    std::unique_ptr<Compiler> (*compiler)(const std::string& architecture));

/// Memory and queues of the device; NotInitialized without the functions for them.
std::unique_ptr<DeviceAccess> make_access(const Driver&, const DeviceInfo&, void* context);

}  // namespace polymio::gpu
