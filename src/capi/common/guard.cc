// SPDX-License-Identifier: MIT
#include "capi/common/guard.h"

#include <cstdio>
#include <cstring>
#include <string>

#include "base/log.h"

namespace polymio::capi {
namespace {

constexpr std::size_t kTextBytes = 8192;
thread_local char t_text[kTextBytes] = "";

}  // namespace

miopenStatus_t keep_error(Status status, const char* text) noexcept {
  std::snprintf(t_text, kTextBytes, "%s", text);
  for (char* c = t_text; *c; ++c)  // removes control characters of callers' texts, which could control a terminal
    if ((static_cast<unsigned char>(*c) < 0x20 && *c != '\n') || *c == 0x7f) *c = '?';
  try {
    if (log::enabled(log::Level::kInfo)) log::write("info", t_text);
  } catch (...) {  // no memory for a log line; the text is stored already
  }
  return static_cast<miopenStatus_t>(status);
}

const char* last_error() noexcept { return t_text; }

}  // namespace polymio::capi
