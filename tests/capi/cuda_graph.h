// Calls of the API from CUDA graphs.
// SPDX-License-Identifier: MIT
#pragma once
#include <dlfcn.h>

#include "on_device.h"

namespace polymio::test {

/// Records calls of a handle into CUDA graphs. For its lifetime the handle is on a stream of its own, as the default
/// one cannot be recorded. Other devices have none.
class CudaGraph {
 public:
  explicit CudaGraph(miopenHandle_t handle) : handle_(handle) {
    if (!device_name().starts_with("cuda")) return;
    find(init_, "cuInit");
    find(retain_, "cuDevicePrimaryCtxRetain");
    find(choose_, "cuCtxSetCurrent");
    find(create_, "cuStreamCreate");
    find(wait_, "cuStreamSynchronize");
    find(begin_, "cuStreamBeginCapture_v2");
    find(end_, "cuStreamEndCapture");
    find(instantiate_, "cuGraphInstantiateWithFlags");
    find(launch_, "cuGraphLaunch");
    find(destroy_ready_, "cuGraphExecDestroy");
    find(destroy_graph_, "cuGraphDestroy");
    find(destroy_, "cuStreamDestroy_v2");
    find(release_, "cuDevicePrimaryCtxRelease_v2");
    expect_ok(miopenGetStream(handle, &before_));
    void* context = nullptr;
    expect(init_(0), "cuInit");
    expect(retain_(&context, 0), "cuDevicePrimaryCtxRetain");
    expect(choose_(context), "cuCtxSetCurrent");
    expect(create_(&stream_, 0), "cuStreamCreate");
    expect_ok(miopenSetStream(handle, reinterpret_cast<miopenAcceleratorQueue_t>(stream_)));
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() {
    if (!stream_) return;
    expect_ok(miopenSetStream(handle_, before_));
    expect(destroy_(stream_), "cuStreamDestroy");
    expect(release_(0), "cuDevicePrimaryCtxRelease");
  }

  explicit operator bool() const { return stream_ != nullptr; }

  /// Records the call, and waits for a replay of the record.
  template <class Call>
  void replay(const Call& call) const {
    constexpr int kThisThread = 1;
    void *graph = nullptr, *ready = nullptr;
    expect(begin_(stream_, kThisThread), "cuStreamBeginCapture");
    expect_ok(call());
    expect(end_(stream_, &graph), "cuStreamEndCapture");
    expect(instantiate_(&ready, graph, 0), "cuGraphInstantiateWithFlags");
    expect(launch_(ready, stream_), "cuGraphLaunch");
    expect(wait_(stream_), "cuStreamSynchronize");
    expect(destroy_ready_(ready), "cuGraphExecDestroy");
    expect(destroy_graph_(graph), "cuGraphDestroy");
  }

 private:
  template <class Function>
  static void find(Function& function, const char* name) {
    static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
    function = reinterpret_cast<Function>(driver ? dlsym(driver, name) : nullptr);
    ASSERT_NE(function, nullptr) << name;
  }
  static void expect(int code, const char* name) { EXPECT_EQ(code, 0) << name; }

  miopenHandle_t handle_;
  miopenAcceleratorQueue_t before_ = nullptr;
  void* stream_ = nullptr;
  int (*init_)(unsigned) = nullptr;
  int (*retain_)(void**, int) = nullptr;
  int (*choose_)(void*) = nullptr;
  int (*create_)(void**, unsigned) = nullptr;
  int (*wait_)(void*) = nullptr;
  int (*begin_)(void*, int) = nullptr;
  int (*end_)(void*, void**) = nullptr;
  int (*instantiate_)(void**, void*, unsigned long long) = nullptr;
  int (*launch_)(void*, void*) = nullptr;
  int (*destroy_ready_)(void*) = nullptr;
  int (*destroy_graph_)(void*) = nullptr;
  int (*destroy_)(void*) = nullptr;
  int (*release_)(int) = nullptr;
};

}  // namespace polymio::test
