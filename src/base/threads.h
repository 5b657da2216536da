// Starting threads within the system's limits: a call that can run with fewer threads must not fail.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace polymio {

/// Starts threads that run `work(i)`, i in [0, count), or fewer if the system refuses more. Returns their number.
/// Thread is std::thread or std::jthread. Throws only if the vector cannot grow.
template <class Thread, class Work>
std::size_t start_threads(std::vector<Thread>& threads, std::size_t count, const Work& work) {
  threads.reserve(threads.size() + count);
  for (std::size_t i = 0; i < count; ++i) try {
      threads.emplace_back(work, i);
    } catch (const std::exception&) {  // limit on processes or memory
      return i;
    }
  return count;
}

}  // namespace polymio
