// SPDX-License-Identifier: MIT
#include "primitives/rnn/memory.h"

#include <algorithm>

#include "base/math.h"
#include "primitives/rnn/products.h"
#include "primitives/rnn/steps.h"

namespace polymio::rnn {
namespace {

constexpr std::size_t kAlignment = 256;

class Regions {
 public:
  Region take(std::int64_t elements, std::size_t size) {
    const Region region{end_, static_cast<std::size_t>(elements) * size};
    end_ += (region.bytes + kAlignment - 1) / kAlignment * kAlignment;
    return region;
  }
  std::size_t bytes() const { return end_ ? end_ + kAlignment : 0; }

 private:
  std::size_t end_ = 0;
};

}  // namespace

void* aligned_start(void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return static_cast<char*>(memory) + (kAlignment - address % kAlignment) % kAlignment;
}

// Measured: with fewer rows transposing costs more than it saves.
bool transposes_weights(const DeviceInfo& device, const Network& n, std::int64_t layer, std::int64_t rows) {
  return device.kind == DeviceKind::kCpu && n.columns(layer) > 0 && rows >= n.columns(layer);
}

Memory::Memory(const DeviceInfo& device, const Problem& p, std::int64_t samples, std::int64_t rows, bool sorted,
               bool converts_x, bool converts_y) {
  const Network& n = p.network;
  const std::size_t size = size_of(n.type);
  const bool lstm = n.mode == Mode::kLstm, gru = n.mode == Mode::kGru;
  const bool backward = p.pass == Pass::kBackwardData || p.pass == Pass::kBackwardWeights;
  const std::int64_t gates = rows * n.all_gates(), outputs_of_layer = rows * n.width();
  if (p.pass != Pass::kInference) {
    Regions reserve;
    for (std::int64_t l = 0; l < n.layers; ++l) {
      const bool last = l + 1 == n.layers, drops = !last && p.drops == Problem::Drops::kBetweenLayers;
      Kept k;
      k.gates = reserve.take(gates, size);
      k.previous_h = reserve.take(outputs_of_layer, size);
      k.previous_c = reserve.take(lstm ? outputs_of_layer : 0, sizeof(float));
      k.recurrent_n = reserve.take(gru ? outputs_of_layer : 0, size);
      k.output = reserve.take(last ? 0 : outputs_of_layer, size);
      k.mask = reserve.take(drops ? outputs_of_layer : 0, 1);
      kept.push_back(k);
    }
    sizes.reserve = reserve.bytes();
  }
  Regions space;
  for (std::int64_t l = 0; backward && l < n.layers; ++l) {
    const Region input = space.take(gates, size);
    gradients.push_back({input, gru ? space.take(gates, size) : input});
  }
  x = space.take(converts_x ? rows * n.input : 0, size);
  y = space.take(converts_y ? outputs_of_layer : 0, size);
  if (!sorted)
    for (Region& r : states) r = space.take(n.layers * n.directions() * samples * n.hidden, size);
  if (p.pass == Pass::kInference) {
    products = space.take(gates, size);
    if (n.layers > 1) outputs[0] = space.take(outputs_of_layer, size);
    if (n.layers > 2) outputs[1] = space.take(outputs_of_layer, size);
  }
  for (std::int64_t l = 0; !backward && l < std::min<std::int64_t>(n.layers, 2); ++l)
    if (transposes_weights(device, n, l, rows))
      weights.bytes = std::max(weights.bytes, static_cast<std::size_t>(n.columns(l) * n.all_gates()) * size);
  weights = space.take(static_cast<std::int64_t>(weights.bytes), 1);
  if (p.pass == Pass::kBackwardData && n.layers > 1) outputs[0] = space.take(outputs_of_layer, size);
  if (p.pass != Pass::kBackwardWeights) {
    const bool cpu = device.kind == DeviceKind::kCpu;
    const std::size_t bytes = cpu ? cpu_steps_workspace(n, samples, p.pass)
                                  : gpu_steps_workspace(device, n, samples, p.sequences.steps, p.pass);
    steps = space.take(static_cast<std::int64_t>(bytes), 1);
  }
  multiplier = space.take(static_cast<std::int64_t>(multiplier_bytes(device)), 1);
  sizes.workspace = space.bytes();
}

}  // namespace polymio::rnn
