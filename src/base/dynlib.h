// Shared libraries that are opened on first use and may be missing.
// SPDX-License-Identifier: MIT
#pragma once
#include <initializer_list>
#include <string>

namespace polymio {

/// A shared library, open until the process ends.
class DynamicLibrary {
 public:
  /// Opens the first of these names that exists.
  explicit DynamicLibrary(std::initializer_list<const char*> names);
  explicit operator bool() const { return handle_ != nullptr; }

  /// Sets `function` to the symbol; a missing one is reported by problem().
  template <class Function>
  bool find(Function*& function, const char* symbol) {
    return (function = reinterpret_cast<Function*>(address(symbol))) != nullptr;
  }

  /// Why the library or a symbol is missing; "" if none is.
  const std::string& problem() const { return problem_; }

 private:
  void* address(const char* symbol);
  void* handle_ = nullptr;
  std::string problem_;
};

/// Whether the library is loaded in this process, from any path.
bool is_loaded(const char* name);

}  // namespace polymio
