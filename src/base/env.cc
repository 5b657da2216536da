// SPDX-License-Identifier: MIT
#include "base/env.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "base/log.h"

namespace polymio::env {

const Variable kDevice{"POLYMIO_DEVICE", "cpu", "Device of handles that do not name one: cpu."};
const Variable kCpuIsa{"POLYMIO_CPU_ISA", "best",
                       "Highest instruction set CPU kernels may use: generic, avx2, avx512."};
const Variable kThreads{"POLYMIO_NUM_THREADS", "0",
                        "Thread cap of new handles; 0 means all cores this process may use."};
const Variable kExecutor{"POLYMIO_EXECUTOR", "tbb",
                         "Thread pool of new handles: tbb (oneTBB arena) or threads (std::thread)."};
const Variable kUserDbPath{"MIOPEN_USER_DB_PATH", "$XDG_CONFIG_HOME/miopen, else ~/.config/miopen",
                           "Folder of the user's find database; created when missing."};
const Variable kSystemDbPath{"MIOPEN_SYSTEM_DB_PATH", "<library>/../share/miopen/db",
                             "Folder of the read-only find database shipped with the library."};
const Variable kDisableFindDb{"MIOPEN_DEBUG_DISABLE_FIND_DB", "0", "1 neither reads nor writes the find database."};
const Variable kLogLevel{"MIOPEN_LOG_LEVEL", "0",
                         "0 default (warnings), 1 quiet, 2 fatal, 3 errors, 4 warnings, 5 info, "
                         "6 detailed info, 7 trace; to stderr."};
const Variable kLogApi{"MIOPEN_ENABLE_LOGGING", "0", "1 logs every convolution call with its problem."};
const Variable kLogCommand{"MIOPEN_ENABLE_LOGGING_CMD", "0",
                           "1 prints the MIOpenDriver line that replays each convolution call."};
const Variable kDeterministic{"MIOPEN_DEBUG_CONVOLUTION_DETERMINISTIC", "unset",
                              "0 or 1 overrides the DETERMINISTIC convolution attribute."};
const Variable kFp16Alt{"MIOPEN_DEBUG_CONVOLUTION_ATTRIB_FP16_ALT_IMPL", "unset",
                        "Accepted for compatibility: no solver here has an alternative fp16 path."};
const Variable kFp8Rounding{"MIOPEN_DEBUG_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE", "unset",
                            "0 (standard) or 1 (stochastic) overrides FP8_ROUNDING_MODE."};
const Variable kFp8Seed{"MIOPEN_DEBUG_CONVOLUTION_ATTRIB_FP8_ROUNDING_SEED", "unset",
                        "Seed of stochastic rounding; unset draws one per descriptor."};
const Variable kConvGemm{"MIOPEN_DEBUG_CONV_GEMM", "1", "0 disables the GEMM algorithm."};
const Variable kConvDirect{"MIOPEN_DEBUG_CONV_DIRECT", "1", "0 disables the Direct algorithm."};
const Variable kConvFft{"MIOPEN_DEBUG_CONV_FFT", "1", "0 disables the FFT algorithm."};
const Variable kConvWinograd{"MIOPEN_DEBUG_CONV_WINOGRAD", "1", "0 disables the Winograd algorithm."};
const Variable kConvImplicitGemm{"MIOPEN_DEBUG_CONV_IMPLICIT_GEMM", "1", "0 disables the ImplicitGEMM algorithm."};

std::span<const Variable* const> all() {
  static const std::array list = {&kDevice,        &kCpuIsa,        &kThreads,      &kExecutor,        &kUserDbPath,
                                  &kSystemDbPath,  &kDisableFindDb, &kLogLevel,     &kLogApi,          &kLogCommand,
                                  &kDeterministic, &kFp16Alt,       &kFp8Rounding,  &kFp8Seed,         &kConvGemm,
                                  &kConvDirect,    &kConvFft,       &kConvWinograd, &kConvImplicitGemm};
  return list;
}

std::optional<std::string> text(const Variable& v) {
  const char* value = std::getenv(v.name);
  if (!value || !*value) return std::nullopt;
  return std::string(value);
}

bool flag(const Variable& v, bool fallback) {
  auto value = text(v);
  if (!value) return fallback;
  std::transform(value->begin(), value->end(), value->begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* yes : {"1", "yes", "on", "true", "enable", "enabled"})
    if (*value == yes) return true;
  for (const char* no : {"0", "no", "off", "false", "disable", "disabled"})
    if (*value == no) return false;
  log::warn_once(v.name, "{}={} is not a boolean (1/0, yes/no, on/off, true/false, enable/disable); using {}", v.name,
                 *value, fallback ? 1 : 0);
  return fallback;
}

std::optional<std::int64_t> integer(const Variable& v, std::int64_t least, std::int64_t most) {
  const auto value = text(v);
  if (!value) return std::nullopt;
  std::int64_t number = 0;
  const char* end = value->data() + value->size();
  const auto [rest, error] = std::from_chars(value->data(), end, number);
  if (error == std::errc{} && rest == end && number >= least && number <= most) return number;
  log::warn_once(v.name, "{}={} is not an integer from {} to {}; using the default", v.name, *value, least, most);
  return std::nullopt;
}

}  // namespace polymio::env
