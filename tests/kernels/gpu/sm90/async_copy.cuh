// Copies by the threads of the emulated multiprocessor, at once. Tests find this header before the one in src/.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#include "kernels/gpu/sm90/barrier.cuh"

namespace sm90 {

inline void copy_unit(u32 shared, const void* global, u32 bytes, u32 unit) {
  if (shared % unit != 0 || bytes > unit || (bytes > 0 && reinterpret_cast<std::uintptr_t>(global) % unit != 0))
    throw std::runtime_error("no unit of " + std::to_string(unit) + " bytes");
  unsigned char* const to = polymio::emulated::at_shared(shared, unit);
  std::memset(to, 0, unit);
  std::memcpy(to, global, bytes);
}
inline void copy_async(u32 shared, const void* global, u32 bytes) { copy_unit(shared, global, bytes, 16); }
inline void copy_async_8(u32 shared, const void* global, u32 bytes) { copy_unit(shared, global, bytes, 8); }
inline void commit_copies() {}
template <int kPending>
void wait_for_copies() {}

}  // namespace sm90
