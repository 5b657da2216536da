// SPDX-License-Identifier: MIT
#include "base/log.h"

#include <cstdio>
#include <set>
#include <string>

#include "base/debug_flags.h"
#include "base/env.h"
#include "base/process_mutex.h"

namespace polymio::log {
namespace {

ProcessMutex causes;

int threshold() {
  // Not by env::integer, whose warning would need this value.
  static const int level = [] {
    const auto value = env::text(env::kLogLevel);
    const int n = value && value->size() == 1 && (*value)[0] >= '0' && (*value)[0] <= '7' ? (*value)[0] - '0' : 0;
    return n == 0 ? static_cast<int>(Level::kWarning) : n;
  }();
  return level;
}

}  // namespace

bool enabled(Level level) { return static_cast<int>(level) <= threshold() && !debug_flag(DebugFlag::kQuietLogging); }

bool api_enabled() {
  static const bool on = env::flag(env::kLogApi, false);
  return on;
}

bool command_enabled() {
  static const bool on = env::flag(env::kLogCommand, false);
  return on;
}

void write(std::string_view level, std::string_view text) {
  if (debug_flag(DebugFlag::kQuietLogging)) return;
  const auto line = fmt::format("MIOpen({}): {}\n", level, text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

bool first_time(std::string_view cause) {
  static std::set<std::string, std::less<>> seen;
  const std::scoped_lock lock(causes);
  return seen.size() < 1000 && seen.emplace(cause).second;
}

}  // namespace polymio::log
