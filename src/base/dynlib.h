// Libraries that are opened when they are first needed, and may be missing.
// SPDX-License-Identifier: MIT
#pragma once
#include <initializer_list>
#include <string>

namespace polymio {

/// A shared library, open until the process ends.
class DynamicLibrary {
 public:
  /// The first of these names that opens.
  explicit DynamicLibrary(std::initializer_list<const char*> names);
  explicit operator bool() const { return handle_ != nullptr; }

  /// Sets `function` to the symbol; a missing one is kept as the problem.
  template <class Function>
  bool find(Function*& function, const char* symbol) {
    return (function = reinterpret_cast<Function*>(address(symbol))) != nullptr;
  }

  /// Why the library, or a symbol of it, is not there; "" if nothing is missing.
  const std::string& problem() const { return problem_; }

 private:
  void* address(const char* symbol);
  void* handle_ = nullptr;
  std::string problem_;
};

/// Whether this process has the library open already, by whatever path.
bool is_loaded(const char* name);

}  // namespace polymio
