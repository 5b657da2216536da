// Table of all environment variables of the library; docs/env.md is generated from it. Values are read on use, always
// on cold paths.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace polymio::env {

struct Variable {
  const char* name;
  const char* fallback;  // the default, as text for the documentation
  const char* help;
};

extern const Variable kDevice, kCpuIsa, kThreads, kExecutor, kUserDbPath, kSystemDbPath, kDisableFindDb, kDisableUserDb,
    kDisableSystemDb, kLogLevel, kLogApi, kLogCommand, kDeterministic, kFp16Alt, kFp8Rounding, kFp8Seed, kConvGemm,
    kConvDirect, kConvFft, kConvWinograd, kConvImplicitGemm, kLegacyAlgorithms, kFindMode, kVerifyTolerance,
    kFindEnforce, kFindOnlySolver, kImmediateFallback, kLearnedFallback, kCheckNumerics, kTuningTime, kTuningPatience,
    kTuningIterations, kFindBudget, kTuneWhileRunning, kRecord, kCacheDir, kDisableCache, kCompileLevel, kKernelDir;

std::span<const Variable* const> all();

/// The variable's text; nothing if unset or empty.
std::optional<std::string> text(const Variable&);

/// 1/0, yes/no, on/off, true/false, enable(d)/disable(d) in any case. Other values give one warning and the default.
bool flag(const Variable&, bool fallback);

/// An integer in [least, most]; other values give one warning and no result.
std::optional<std::int64_t> integer(const Variable&, std::int64_t least, std::int64_t most);

/// The same for a floating-point number.
std::optional<double> number(const Variable&, double least, double most);

}  // namespace polymio::env
