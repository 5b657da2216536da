// Switches of the whole process that a program sets while it runs, as miopenSetDebugFlag.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <atomic>
#include <cstddef>

namespace polymio {

/// Numbers equal miopenDebugFlag_t.
enum class DebugFlag : int {
  kQuietLogging = 0,           // log::write writes nothing
  kDisableFindEnforce = 1,     // neither MIOPEN_FIND_ENFORCE nor a handle's tuning policy acts
  kWarmupOngoing = 2,          // stored only
  kAlwaysEnableReference = 3,  // stored only: the reference solvers are never disabled
};
inline constexpr std::size_t kDebugFlags = 4;

inline std::array<std::atomic<bool>, kDebugFlags> g_debug_flags{};

inline bool debug_flag(DebugFlag flag) { return g_debug_flags[static_cast<std::size_t>(flag)]; }
inline void set_debug_flag(DebugFlag flag, bool on) { g_debug_flags[static_cast<std::size_t>(flag)] = on; }

}  // namespace polymio
