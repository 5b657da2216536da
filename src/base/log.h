// Logging: one line on stderr per event. Nothing without problems by default; warnings once per cause.
// SPDX-License-Identifier: MIT
#pragma once
#include <fmt/format.h>

#include <string_view>

namespace polymio::log {

/// Numbers equal those of MIOPEN_LOG_LEVEL.
enum class Level : int { kFatal = 2, kError = 3, kWarning = 4, kInfo = 5, kInfo2 = 6, kTrace = 7 };

bool enabled(Level);
bool api_enabled();      // MIOPEN_ENABLE_LOGGING
bool command_enabled();  // MIOPEN_ENABLE_LOGGING_CMD

/// Writes "MIOpen(level): text" at any log level, unless DebugFlag::kQuietLogging is set.
void write(std::string_view level, std::string_view text);

template <class... Args>
void info(fmt::format_string<Args...> text, Args&&... args) {
  if (enabled(Level::kInfo)) write("info", fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void detail(fmt::format_string<Args...> text, Args&&... args) {
  if (enabled(Level::kInfo2)) write("info2", fmt::format(text, std::forward<Args>(args)...));
}

/// True the first time `cause` is seen in this process.
bool first_time(std::string_view cause);

template <class... Args>
void warn_once(std::string_view cause, fmt::format_string<Args...> text, Args&&... args) {
  if (enabled(Level::kWarning) && first_time(cause)) write("warning", fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace polymio::log
