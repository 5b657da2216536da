// Arguments of every kind of function: pointers, scalars, texts, and structs that may be of another version.
// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstring>
#include <string>

#include "base/dtype.h"
#include "base/error.h"

namespace polymio::capi {

/// A pointer argument that must not be null.
template <class T>
T* not_null(T* p, const char* name) {
  if (!p) fail(Status::kBadParm, "{} is null", name);
  return p;
}

/// The value of alpha or beta: a double if `output` is double, else a float.
double scalar(const void* p, DataType output, const char* name);

/// Copies a text to a buffer of `*size` bytes and sets `*size` to the bytes needed; a null buffer only gets the size.
void put_text(const std::string& text, char* buffer, std::size_t* size);

/// The size that the caller has set in a struct, of an older or newer version. BadParm if no version has such a size.
template <class T>
std::size_t struct_size(const T& given, const char* name) {
  constexpr std::size_t kMost = 4096;
  const std::size_t size = given.size;
  require(size >= sizeof(std::size_t) && size <= kMost && size % alignof(T) == 0,
          "{}->size is {}: set it to sizeof({}), {} in this version, first", name, size, name, sizeof(T));
  return size;
}

/// Writes as much of `value` as fits the caller's (older or newer) struct; its size field stays.
template <class T>
void put_sized(T* out, T value, const char* name) {
  const std::size_t size = struct_size(*not_null(out, name), name);
  value.size = size;
  std::memcpy(static_cast<void*>(out), &value, std::min(size, sizeof(T)));
}

}  // namespace polymio::capi
