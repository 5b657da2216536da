// SPDX-License-Identifier: MIT
#include "base/dynlib.h"

#include <dlfcn.h>

namespace polymio {

DynamicLibrary::DynamicLibrary(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    handle_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle_) {
      problem_.clear();
      return;
    }
    const char* text = ::dlerror();
    if (problem_.empty()) problem_ = text ? text : std::string("cannot open ") + name;
  }
}

void* DynamicLibrary::address(const char* symbol) {
  void* const found = handle_ ? ::dlsym(handle_, symbol) : nullptr;
  if (!found && problem_.empty()) problem_ = std::string("there is no ") + symbol + " in it";
  return found;
}

bool is_loaded(const char* name) {
  void* const handle = ::dlopen(name, RTLD_NOW | RTLD_NOLOAD);
  if (handle) ::dlclose(handle);
  return handle != nullptr;
}

}  // namespace polymio
