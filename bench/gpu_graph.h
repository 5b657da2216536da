// CUDA graphs of a stream's work, through the driver's own functions.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>

#include "base/dynlib.h"
#include "base/error.h"
#include "runtime/device.h"
#include "runtime/queue.h"

namespace polymio {

/// A new queue of a CUDA device; null on other devices. A handle on it can be recorded.
inline std::shared_ptr<Queue> queue_for_graphs(const std::string& device) {
  const int number = device_number(device);
  if (number >= static_cast<int>(devices().size()) ||
      devices()[static_cast<std::size_t>(number)].kind != DeviceKind::kCuda)
    return nullptr;
  return known_queue(create_queue(number, false).native()).queue;
}

class Graphs {
 public:
  /// Makes the stream's context current on this thread. Only CUDA devices have graphs; their stream must not be the
  /// default one.
  explicit Graphs(Stream& stream) : stream_(stream) {
    if (stream.info().kind != DeviceKind::kCuda) return;
    static DynamicLibrary driver{"libcuda.so.1"};
    int (*set_context)(void*) = nullptr;
    available_ = driver.find(set_context, "cuCtxSetCurrent") && driver.find(begin_, "cuStreamBeginCapture_v2") &&
                 driver.find(end_, "cuStreamEndCapture") && driver.find(instantiate_, "cuGraphInstantiateWithFlags") &&
                 driver.find(launch_, "cuGraphLaunch") && driver.find(destroy_graph_, "cuGraphDestroy") &&
                 driver.find(destroy_, "cuGraphExecDestroy");
    if (!available_) fail(Status::kNotInitialized, "CUDA graphs: {}", driver.problem());
    check(set_context(const_cast<void*>(stream.context())), "choosing the device");
  }
  explicit operator bool() const { return available_; }

  /// A graph of what `work` enqueues.
  std::shared_ptr<void> record(FunctionRef<void()> work) const {
    constexpr int kThisThread = 1;
    void *graph = nullptr, *ready = nullptr;
    check(begin_(stream_.native(), kThisThread), "beginning a capture");
    try {
      work();
    } catch (...) {
      if (end_(stream_.native(), &graph) == 0 && graph) destroy_graph_(graph);
      throw;
    }
    check(end_(stream_.native(), &graph), "ending a capture");
    const int code = instantiate_(&ready, graph, 0);
    destroy_graph_(graph);
    check(code, "making a graph");
    return {ready, destroy_};
  }
  void replay(void* graph) const { check(launch_(graph, stream_.native()), "replaying a graph"); }

 private:
  static void check(int code, const char* what) {
    if (code != 0) fail(Status::kInternalError, "{}: error {} of the device", what, code);
  }

  Stream& stream_;
  bool available_ = false;
  int (*begin_)(void*, int) = nullptr;
  int (*end_)(void*, void**) = nullptr;
  int (*instantiate_)(void**, void*, unsigned long long) = nullptr;
  int (*launch_)(void*, void*) = nullptr;
  int (*destroy_graph_)(void*) = nullptr;
  int (*destroy_)(void*) = nullptr;
};

}  // namespace polymio
