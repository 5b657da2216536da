// System calls that fail on command, in this process and in its forked children.
// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <cstdint>

namespace polymio::fuzz {

enum class Fault : int { kThread, kMemory, kOpen, kWrite, kFsync, kRename };
inline constexpr int kFaults = 6;
inline constexpr const char* kFaultNames[kFaults] = {"pthread_create", "operator new", "open",
                                                     "write",          "fsync",        "rename"};

/// Shared with forked processes: the fault, and the number of calls while counting is on.
struct FaultPlan {
  std::atomic<int> kind{-1};               // of Fault; -1: nothing fails
  std::atomic<std::int64_t> at{0};         // the first call that fails, from 1
  std::atomic<bool> from_there_on{false};  // and all after it
  std::atomic<bool> counting{false};
  std::atomic<bool> reached{false};
  std::atomic<std::int64_t> calls[kFaults]{};
};
FaultPlan& fault_plan();

/// Whether calls of this thread belong to the test itself and never fail.
bool& thread_is_exempt();

}  // namespace polymio::fuzz
