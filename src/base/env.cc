// SPDX-License-Identifier: MIT
#include "base/env.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "base/log.h"

namespace polymio::env {

const Variable kDevice{"POLYMIO_DEVICE", "a CUDA device in use, else cpu",
                       "Device of handles that do not name one: cpu, cuda:0, opencl:0, hip:0."};
const Variable kCpuIsa{"POLYMIO_CPU_ISA", "best",
                       "Highest instruction set CPU kernels may use: generic, avx2, avx512, avx512_bf16, avx512_amx."};
const Variable kThreads{"POLYMIO_NUM_THREADS", "0",
                        "Thread cap of new handles; 0 means all cores this process may use."};
const Variable kExecutor{"POLYMIO_EXECUTOR", "tbb",
                         "Thread pool of new handles: tbb (oneTBB arena) or threads (std::thread)."};
const Variable kUserDbPath{"MIOPEN_USER_DB_PATH", "$XDG_CONFIG_HOME/miopen, else ~/.config/miopen",
                           "Folder of the user's find database; created when missing."};
const Variable kSystemDbPath{"MIOPEN_SYSTEM_DB_PATH", "<prefix>/share/polymio/db",
                             "Folder of the read-only find database shipped with the library."};
const Variable kDisableFindDb{"MIOPEN_DEBUG_DISABLE_FIND_DB", "0", "1 neither reads nor writes the find database."};
const Variable kDisableUserDb{"MIOPEN_DEBUG_DISABLE_USER_DB", "0", "1 neither reads nor writes the user's database."};
const Variable kDisableSystemDb{"MIOPEN_DEBUG_DISABLE_SYSTEM_DB", "0", "1 does not read the installed database."};
const Variable kLogLevel{"MIOPEN_LOG_LEVEL", "0",
                         "0 default (warnings), 1 quiet, 2 fatal, 3 errors, 4 warnings, 5 info, "
                         "6 detailed info, 7 trace; to stderr."};
const Variable kLogApi{"MIOPEN_ENABLE_LOGGING", "0", "1 logs calls with their problems."};
const Variable kLogCommand{"MIOPEN_ENABLE_LOGGING_CMD", "0", "1 prints the MIOpenDriver line that repeats a call."};
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
const Variable kLegacyAlgorithms{"POLYMIO_LEGACY_ALGORITHMS", "0",
                                 "1: implicit GEMM is part of the Direct algorithm, in finds, runs and switches, for "
                                 "programs that know the algorithms 0 to 3 only."};
const Variable kFindMode{"MIOPEN_FIND_MODE", "DYNAMIC_HYBRID",
                         "Find mode of new convolution descriptors: 1 NORMAL, 2 FAST, 3 HYBRID, 4 (as NORMAL), "
                         "5 DYNAMIC_HYBRID, 6 TRUST_VERIFY, 7 TRUST_VERIFY_FULL; name or number."};
const Variable kVerifyTolerance{"MIOPEN_VERIFY_TOLERANCE_PCT", "20",
                                "Percent by which a time may exceed its record when TRUST_VERIFY verifies it."};
const Variable kFindEnforce{
    "MIOPEN_FIND_ENFORCE", "NONE",
    "Tuning forced on every find: 1 NONE, 2 DB_UPDATE, 3 SEARCH, 4 SEARCH_DB_UPDATE, 5 DB_CLEAN; "
    "name or number."};
const Variable kFindOnlySolver{"MIOPEN_DEBUG_FIND_ONLY_SOLVER", "all",
                               "Find considers only these solvers: names or ids, separated by semicolons."};
const Variable kImmediateFallback{"MIOPEN_DEBUG_CONV_IMMED_FALLBACK", "1",
                                  "0: immediate mode lists stored results only, never predictions."};
const Variable kLearnedFallback{"MIOPEN_DEBUG_ENABLE_AI_IMMED_MODE_FALLBACK", "1",
                                "0: predictions come from the roofline estimate, not from a learned model."};
const Variable kCheckNumerics{"MIOPEN_CHECK_NUMERICS", "0",
                              "Scans convolution tensors for NaN and infinity. Sum of: 1 info, 2 warning, 4 the call "
                              "fails with InternalError, 16 statistics."};
const Variable kTuningTime{"MIOPEN_TUNING_TIME_MS_MAX", "7200000", "Milliseconds that tuning one solver may take."};
const Variable kTuningPatience{"MIOPEN_TUNING_PATIENCE", "unlimited",
                               "Tuning a solver stops after so many candidates in a row without a better one."};
const Variable kTuningIterations{"MIOPEN_DEBUG_TUNING_ITERATIONS_MAX", "unlimited",
                                 "Candidates that tuning one solver tries at most."};
const Variable kFindBudget{"POLYMIO_FIND_BUDGET_MS", "0",
                           "Milliseconds that a find may take on new handles; 0: as long as it needs."};
const Variable kTuneWhileRunning{"POLYMIO_TUNE_WHILE_RUNNING", "0",
                                 "1: runs on new handles try other solvers in turn until the fastest is known."};
const Variable kRecord{"POLYMIO_RECORD", "off", "File that collects each distinct problem as a MIOpenDriver line."};
const Variable kCacheDir{"MIOPEN_CUSTOM_CACHE_DIR", "$XDG_CACHE_HOME/miopen, else ~/.cache/miopen",
                         "Folder of compiled GPU kernels; created when missing."};
const Variable kDisableCache{"MIOPEN_DISABLE_CACHE", "0", "1 keeps no compiled GPU kernels on disk."};
const Variable kCompileLevel{"MIOPEN_COMPILE_PARALLEL_LEVEL", "all cores", "Kernels that are compiled at a time."};
const Variable kKernelDir{"POLYMIO_KERNEL_DIR", "unset",
                          "Folder (src/ of the sources) that GPU kernels are read from, instead of the library."};

std::span<const Variable* const> all() {
  static const std::array list = {
      &kDevice,         &kCpuIsa,           &kThreads,           &kExecutor,         &kUserDbPath,    &kSystemDbPath,
      &kDisableFindDb,  &kDisableUserDb,    &kDisableSystemDb,   &kLogLevel,         &kLogApi,        &kLogCommand,
      &kDeterministic,  &kFp16Alt,          &kFp8Rounding,       &kFp8Seed,          &kConvGemm,      &kConvDirect,
      &kConvFft,        &kConvWinograd,     &kConvImplicitGemm,  &kLegacyAlgorithms, &kFindMode,      &kVerifyTolerance,
      &kFindEnforce,    &kFindOnlySolver,   &kImmediateFallback, &kLearnedFallback,  &kCheckNumerics, &kTuningTime,
      &kTuningPatience, &kTuningIterations, &kFindBudget,        &kTuneWhileRunning, &kRecord,        &kCacheDir,
      &kDisableCache,   &kCompileLevel,     &kKernelDir};
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

std::optional<double> number(const Variable& v, double least, double most) {
  const auto value = text(v);
  if (!value) return std::nullopt;
  double number = 0;
  const char* end = value->data() + value->size();
  const auto [rest, error] = std::from_chars(value->data(), end, number);
  if (error == std::errc{} && rest == end && number >= least && number <= most) return number;
  log::warn_once(v.name, "{}={} is not a number from {} to {}; using the default", v.name, *value, least, most);
  return std::nullopt;
}

}  // namespace polymio::env
