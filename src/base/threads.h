// Threads as far as there are any: a limit on processes must not end a call that can do with fewer.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace polymio {

/// Starts threads, each with `work(i)` for i from 0 to count, or as many as the system gives. Returns how many. Thread
/// is std::thread or std::jthread; only the memory of the vector is thrown for.
template <class Thread, class Work>
std::size_t start_threads(std::vector<Thread>& threads, std::size_t count, const Work& work) {
  threads.reserve(threads.size() + count);
  for (std::size_t i = 0; i < count; ++i) try {
      threads.emplace_back(work, i);
    } catch (const std::exception&) {  // the limit of processes, or of memory
      return i;
    }
  return count;
}

}  // namespace polymio
