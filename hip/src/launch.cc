// Kernels of the program: run in a stream of the CPU, refused elsewhere.
// SPDX-License-Identifier: MIT
#include <hip/hip_runtime.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <memory>

#include "state.h"

using namespace polymio::hip_layer;

__thread uint3 threadIdx __attribute__((visibility("default")));
__thread uint3 blockIdx __attribute__((visibility("default")));
__thread uint3 blockDim __attribute__((visibility("default")));
__thread uint3 gridDim __attribute__((visibility("default")));

extern "C" void polymioHipKeepLaunchError(hipError_t code);

namespace {

struct Unavailable {
  const char* what;
};

struct Launch {
  void (*body)(void*);
  void (*drop)(void*);
  void* data;
  ~Launch() { drop(data); }
  static void run(void* p) {
    const std::unique_ptr<Launch> launch(static_cast<Launch*>(p));
    try {
      launch->body(launch->data);
    } catch (const Unavailable& u) {
      std::fprintf(stderr, "polymio: a kernel uses %s, which kernels on the CPU device do not have\n", u.what);
      polymioHipKeepLaunchError(hipErrorNotSupported);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "polymio: a kernel has thrown: %s\n", e.what());
      polymioHipKeepLaunchError(hipErrorLaunchFailure);
    } catch (...) {
      std::fputs("polymio: a kernel has thrown\n", stderr);
      polymioHipKeepLaunchError(hipErrorLaunchFailure);
    }
  }
};

[[noreturn]] void refuse(const std::string& text) {
  static std::atomic<bool> told{false};
  if (!told.exchange(true)) std::fprintf(stderr, "polymio: %s\n", text.c_str());
  fail(hipErrorNotSupported, text);
}

void check_sizes(dim3 grid, dim3 block) {
  constexpr std::uint64_t kMostThreads = 1024;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  const auto text = [](dim3 d) {
    return std::to_string(d.x) + " x " + std::to_string(d.y) + " x " + std::to_string(d.z);
  };
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || threads == 0)
    fail(hipErrorInvalidConfiguration, "a grid of ", text(grid), " blocks of ", text(block), " threads");
  if (block.x > kMostThreads || block.y > kMostThreads || block.z > kMostThreads || threads > kMostThreads)
    fail(hipErrorInvalidConfiguration, "a block of ", text(block), " threads: at most 1024 are allowed");
}

}  // namespace

void polymioHipUnavailable(const char* what) { throw Unavailable{what}; }

hipError_t polymioHipLaunch(void (*run)(void*), void (*drop)(void*), void* data, dim3 grid, dim3 block, size_t shared,
                            hipStream_t stream) {
  return guard([&] {
    auto launch = std::unique_ptr<Launch>(new Launch{run, drop, data});
    check_sizes(grid, block);
    const StreamPlace at = place_of(stream);
    if (at.device != 0)
      refuse("a kernel of the program was launched, but such kernels run on the CPU device only (POLYMIO_DEVICE=cpu)");
    if (shared > 0)
      refuse("a kernel was launched with " + std::to_string(shared) +
             " bytes of shared memory, which kernels on the CPU device do not have");
    Runtime::get().call(&polymioRuntime::call, at.device, at.stream, &Launch::run, launch.get());
    static_cast<void>(launch.release());  // run() owns it
  });
}

hipError_t hipLaunchKernel(const void*, dim3, dim3, void**, size_t, hipStream_t) {
  return guard([] { refuse("hipLaunchKernel with an array of arguments: use hipLaunchKernelGGL"); });
}
