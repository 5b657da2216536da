// SPDX-License-Identifier: MIT
#include "search/settings.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/debug_flags.h"
#include "base/env.h"
#include "base/log.h"

namespace polymio::search {
namespace {

/// The 1-based index of `text` in `names`; `text` may also be that number.
std::optional<int> parse(std::string text, std::span<const char* const> names) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  for (std::size_t i = 0; i < names.size(); ++i)
    if (text == names[i] || text == std::to_string(i + 1)) return static_cast<int>(i + 1);
  return std::nullopt;
}

constexpr std::array kModes = {"NORMAL", "FAST", "HYBRID", "4", "DYNAMIC_HYBRID", "TRUST_VERIFY", "TRUST_VERIFY_FULL"};
constexpr std::array kEnforces = {"NONE", "DB_UPDATE", "SEARCH", "SEARCH_DB_UPDATE", "DB_CLEAN"};

template <class T, class Parse>
T read(const env::Variable& v, T fallback, const char* allowed, const Parse& parse_value) {
  const auto text = env::text(v);
  if (!text) return fallback;
  if (const auto value = parse_value(*text)) return *value;
  log::warn_once(v.name, "{}={} is unknown: allowed are {}; using {}", v.name, *text, allowed, v.fallback);
  return fallback;
}

}  // namespace

std::optional<FindMode> parse_find_mode(const std::string& text) {
  const auto number = parse(text, kModes);
  return number ? std::optional(static_cast<FindMode>(*number)) : std::nullopt;
}

std::optional<Enforce> parse_enforce(const std::string& text) {
  const auto number = parse(text, kEnforces);
  return number ? std::optional(static_cast<Enforce>(*number)) : std::nullopt;
}

FindMode default_find_mode() {
  static const FindMode mode =
      read(env::kFindMode, FindMode::kDynamicHybrid,
           "1 (NORMAL), 2 (FAST), 3 (HYBRID), 4 (as NORMAL), 5 (DYNAMIC_HYBRID), 6 (TRUST_VERIFY), "
           "7 (TRUST_VERIFY_FULL)",
           parse_find_mode);
  return mode;
}

Enforce enforce(const Handle& handle) {
  if (debug_flag(DebugFlag::kDisableFindEnforce)) return Enforce::kNone;
  if (handle.tuning_policy() != Enforce::kNone) return handle.tuning_policy();
  static const Enforce value =
      read(env::kFindEnforce, Enforce::kNone, "1 (NONE), 2 (DB_UPDATE), 3 (SEARCH), 4 (SEARCH_DB_UPDATE), 5 (DB_CLEAN)",
           parse_enforce);
  return value;
}

TuneLimits tune_limits(bool boxed) {
  static const auto time_ms = env::integer(env::kTuningTime, 1, INT64_MAX / 1000);
  static const auto iterations = env::integer(env::kTuningIterations, 1, INT64_MAX);
  static const auto patience = env::integer(env::kTuningPatience, 1, INT64_MAX);
  constexpr std::int64_t kTwoHoursMs = 7'200'000, kBoxMs = 1000, kBoxPatience = 6;
  const auto ms = time_ms.value_or(boxed ? kBoxMs : kTwoHoursMs);
  return {.time_us = 1e3 * static_cast<double>(ms),
          .iterations = iterations ? static_cast<std::size_t>(*iterations) : SIZE_MAX,
          .patience = patience || boxed ? static_cast<std::size_t>(patience.value_or(kBoxPatience)) : SIZE_MAX};
}

double verify_slack() {
  constexpr double kPercent = 20, kMost = 1e6;
  return 1 + 0.01 * env::number(env::kVerifyTolerance, 0, kMost).value_or(kPercent);
}

}  // namespace polymio::search
