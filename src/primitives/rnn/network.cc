// SPDX-License-Identifier: MIT
#include "primitives/rnn/network.h"

#include "base/hash.h"

namespace polymio::rnn {

std::uint64_t Network::hash(std::uint64_t seed) const {
  const int kind = static_cast<int>(mode) * 8 + skips_input * 4 + bidirectional * 2 + has_bias;
  std::uint64_t h = mix(seed, static_cast<std::uint64_t>(kind) << 32 ^ static_cast<std::uint64_t>(type));
  for (const std::int64_t n : {layers, hidden, input}) h = mix(h, static_cast<std::uint64_t>(n));
  return h;
}

Part Network::matrix(std::int64_t layer, std::int64_t direction, std::int64_t id) const {
  const std::int64_t in = columns(layer), all = all_gates();
  const std::int64_t begin = layer == 0 ? 0 : all * (columns(0) + hidden) + (layer - 1) * all * (width() + hidden);
  if (id < gates()) return {begin + (direction * gates() + id) * hidden * in, hidden, in};
  return {begin + all * in + (direction * gates() + id - gates()) * hidden * hidden, hidden, hidden};
}

Part Network::bias(std::int64_t layer, std::int64_t direction, std::int64_t id) const {
  const std::int64_t recurrent = id / gates(), gate = id % gates();
  const std::int64_t vectors = (2 * layer + recurrent) * directions() * gates() + direction * gates() + gate;
  return {matrix_elements() + vectors * hidden, hidden};
}

std::int64_t Network::matrix_elements() const {
  return all_gates() * (columns(0) + hidden + (layers - 1) * (width() + hidden));
}

std::int64_t Network::elements() const { return matrix_elements() + (has_bias ? 2 * all_gates() * layers : 0); }

}  // namespace polymio::rnn
