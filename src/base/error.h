// The library's one exception type, and the status that it carries to the C API. Expected refusals are values (Verdict,
// optional); only errors that end the call throw.
// SPDX-License-Identifier: MIT
#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace polymio {

/// Numbers equal miopenStatus_t.
enum class Status : int {
  kSuccess = 0,
  kNotInitialized = 1,
  kInvalidValue = 2,
  kBadParm = 3,
  kAllocFailed = 4,
  kInternalError = 5,
  kNotImplemented = 6,
  kUnknownError = 7,
  kUnsupportedOp = 8,
  kGpuOperationsSkipped = 9,
  kVersionMismatch = 10,
};

struct Error : std::runtime_error {
  Error(Status s, const std::string& text) : std::runtime_error(text), status(s) {}
  Status status;
};

template <class... Args>
[[noreturn]] void fail(Status status, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(status, fmt::format(text, std::forward<Args>(args)...));
}

/// Throws BadParm with the text unless `condition` holds.
template <class... Args>
void require(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) throw Error(Status::kBadParm, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace polymio
