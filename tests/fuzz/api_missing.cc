// The API fuzzer's calls of functions whose primitives do not exist: any arguments give NotImplemented.
// SPDX-License-Identifier: MIT
#include <type_traits>

#include "fuzz/api.h"

namespace polymio::fuzz {
namespace {

/// Any value, null or an address: unimplemented functions do not dereference their arguments.
template <class T>
T any(World& w) {
  if constexpr (std::is_pointer_v<T> && std::is_function_v<std::remove_pointer_t<T>>) {
    return nullptr;
  } else if constexpr (std::is_pointer_v<T>) {
    static std::array<unsigned char, 256> memory;
    void* const choices[] = {nullptr, memory.data(), memory.data() + 1, w.live(Kind::kTensor),
                             w.no_object(Kind::kTensor)};
    return static_cast<T>(choices[w.random.below(std::size(choices))]);
  } else if constexpr (std::is_same_v<T, bool>) {
    return w.random.one_in(2);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(w.random.pick({0.0, 1.0, -1e30, __builtin_nan("")}));
  } else if constexpr (std::is_enum_v<T>) {
    const int number = w.random.pick({0, 1, 7, -1, INT_MAX});
    T value{};
    std::memcpy(&value, &number, sizeof value);
    return value;
  } else {
    static_assert(std::is_integral_v<T>);
    return static_cast<T>(w.random.pick({0, 1, 3, -1, INT_MAX, INT_MIN}));
  }
}

template <class... Arguments>
Status call(World& w, Status (*function)(Arguments...)) {
  return function(any<std::remove_const_t<Arguments>>(w)...);
}

template <auto kFunction>
void missing(World& w) {
  Draw d(w);
  d.refuse({miopenStatusNotImplemented});
  d.check(call(w, kFunction));
}

Registration g_entries[] = {
    {"miopenBackendCreateDescriptor", missing<miopenBackendCreateDescriptor>, false},
    {"miopenBackendDestroyDescriptor", missing<miopenBackendDestroyDescriptor>, false},
    {"miopenBackendExecute", missing<miopenBackendExecute>, false},
    {"miopenBackendFinalize", missing<miopenBackendFinalize>, false},
    {"miopenBackendGetAttribute", missing<miopenBackendGetAttribute>, false},
    {"miopenBackendInitialize", missing<miopenBackendInitialize>, false},
    {"miopenBackendSetAttribute", missing<miopenBackendSetAttribute>, false},
};

}  // namespace
}  // namespace polymio::fuzz
