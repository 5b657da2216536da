// Element-aligned access to callers' buffers, which may be at any address.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "base/function_ref.h"
#include "core/tensor.h"
#include "runtime/device.h"

namespace polymio {

/// Whether the address is a multiple of the element size, which is a power of two.
inline bool is_element_aligned(const void* data, DataType type) {
  return (reinterpret_cast<std::uintptr_t>(data) & (size_of(type) - 1)) == 0;
}

/// A tensor's buffer with aligned elements: the caller's, or, if that is not aligned, a copy on a CPU. On a GPU an
/// unaligned buffer is BadParm, with `name` in the text. Null stays null.
class AlignedBuffer {
 public:
  AlignedBuffer(const DeviceInfo& device, const TensorDesc& desc, const void* data, const char* name)
      : desc_(desc), given_(const_cast<void*>(data)) {
    if (!is_element_aligned(data, desc.type)) copy(device, name);
  }
  void* data() const { return copy_ ? copy_.get() : given_; }
  /// Copies the elements, without the gaps between them, to the caller's buffer.
  void write_back() const {
    if (copy_) store();
  }

 private:
  void copy(const DeviceInfo& device, const char* name);
  void store() const;

  const TensorDesc& desc_;
  void* given_;
  std::unique_ptr<unsigned char[]> copy_;
};

struct CallerBuffer {
  const TensorDesc& desc;
  const void* data;
  const char* name;
  bool is_output = false;
};

inline bool are_aligned(std::span<const CallerBuffer> buffers) {
  for (const CallerBuffer& b : buffers)
    if (!is_element_aligned(b.data, b.desc.type)) return false;
  return true;
}

/// Calls run(data) with buffers of aligned elements in the order of those given, then writes copied outputs back.
void run_on_aligned(const DeviceInfo&, std::span<const CallerBuffer>, FunctionRef<void(void* const* data)> run);

}  // namespace polymio
