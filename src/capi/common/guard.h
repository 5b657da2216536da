// Shared by all exported functions: exceptions become status codes, the text of an error is stored.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/types.h>

#include <exception>
#include <new>

#include "base/error.h"

namespace polymio::capi {

/// Stores `text` for polymioGetLastError and returns `status` as the C type.
miopenStatus_t keep_error(Status status, const char* text) noexcept;

/// The last stored text of this thread.
const char* last_error() noexcept;

/// Runs `body` and returns its status; every exported function is one call of guard().
template <class Body>
miopenStatus_t guard(Body&& body) noexcept {
  try {
    body();
    return miopenStatusSuccess;
  } catch (const Error& e) {
    return keep_error(e.status, e.what());
  } catch (const std::bad_alloc&) {
    return keep_error(Status::kAllocFailed, "out of memory");
  } catch (const std::exception& e) {
    return keep_error(Status::kInternalError, e.what());
  } catch (...) {
    return keep_error(Status::kUnknownError, "unknown exception");
  }
}

}  // namespace polymio::capi
