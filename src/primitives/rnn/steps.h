// What the devices implement: the steps of a layer, products of the state and cells. Pointers are device memory;
// states are sorted as the schedule is.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>

#include "primitives/rnn/schedule.h"

namespace polymio::rnn {

/// Tensors of all rows, [rows, width()] or [rows, all_gates()] of the network's type; of fp32 where it says so. States
/// are [directions, samples, hidden]. Null: absent.
struct LayerForward {
  std::int64_t layer = 0;
  const void* w = nullptr;         // the parameter buffer
  const void* products = nullptr;  // of the input, or the input itself: [rows, hidden] for all gates
  bool same_for_all_gates = false;
  const void *hx = nullptr, *cx = nullptr;
  void *y = nullptr, *hy = nullptr, *cy = nullptr;
  void *gates = nullptr, *previous_h = nullptr, *recurrent_n = nullptr;  // kept for the backward passes
  float* previous_c = nullptr;                                           // fp32
  void* workspace = nullptr;
};

struct LayerBackward {
  std::int64_t layer = 0;
  const void *w = nullptr, *dy = nullptr, *dhy = nullptr, *dcy = nullptr;
  void *dhx = nullptr, *dcx = nullptr;
  const void *gates = nullptr, *previous_h = nullptr, *recurrent_n = nullptr;
  const float* previous_c = nullptr;
  void *input_gradient = nullptr, *recurrent_gradient = nullptr;  // equal but for GRU
  void* workspace = nullptr;
};

/// Immutable; its functions only enqueue work.
class Steps {
 public:
  virtual ~Steps() = default;
  virtual void forward(Stream&, const LayerForward&) const = 0;
  virtual void backward(Stream&, const LayerBackward&) const = 0;
};

/// The schedule must outlive the steps. Reserves the scratch memory of the stream.
std::unique_ptr<const Steps> make_cpu_steps(Stream&, const Network&, const Schedule&, bool bias_of_first, Pass);
std::unique_ptr<const Steps> make_gpu_steps(Stream&, const Network&, const Schedule&, bool bias_of_first, Pass);

/// Bytes of LayerForward::workspace and LayerBackward::workspace for so many samples and steps, whatever the lengths.
std::size_t cpu_steps_workspace(const Network&, std::int64_t samples, Pass);
std::size_t gpu_steps_workspace(const DeviceInfo&, const Network&, std::int64_t samples, std::int64_t steps, Pass);

}  // namespace polymio::rnn
