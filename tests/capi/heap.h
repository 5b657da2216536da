// Counts allocations of the calling thread.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <optional>

#include "api.h"

namespace polymio::test {

/// Calls of operator new by this thread, in the library too; nothing under a sanitizer, which has an allocator of its
/// own.
std::optional<std::size_t> heap_allocations();

/// Those of a call of the API after three others.
template <class Call>
std::size_t warm_allocations(const Call& call) {
  for (int i = 0; i < 3; ++i) expect_ok(call());
  const auto before = heap_allocations();
  const miopenStatus_t status = call();
  const auto after = heap_allocations();
  expect_ok(status);
  return before ? *after - *before : 0;
}

}  // namespace polymio::test
