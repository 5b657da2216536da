// The flags of recurrent networks.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>

#include "driver/run/common_args.h"
#include "reference/rnn.h"

namespace polymio::driver {

inline constexpr Choice kRnnModes[] = {{"relu", 0}, {"tanh", 1}, {"lstm", 2}, {"gru", 3}};

struct RnnArgs {
  DataType type = kFloat;
  int mode = 1;
  std::int64_t layers = 1, steps = 10, hidden = 32, input = 32, bias = 0, skip = 0, algorithm = 0, inference = 0;
  std::int64_t both = 0, padded = 0, layout = 0, no_hx = 0, no_cx = 0, use_dropout = 0, seed_low = 0, seed_high = 0;
  std::int64_t directions = 0;
  std::vector<std::int64_t> batch{4};  // samples of the first steps; later ones have as many as the last of them
  double rate = 0;

  Flags rows() {
    constexpr std::int64_t kMost = (std::int64_t{1} << 32) - 1;
    return {{"F", "forw", Integer{&directions, 0, 7}, "sum of 1 forward, 2 backward data, 4 backward weights; 0: all",
             Part::kOption},
            {"m", "mode", Name{&mode, kRnnModes}, "relu, tanh, lstm, gru", Part::kShape},
            {"l", "num_layer", Integer{&layers, 1, kMaxInt}, "layers", Part::kShape},
            {"k", "seq_len", Integer{&steps, 1, kMaxInt}, "steps", Part::kShape},
            {"n", "batchsize", Integers{&batch},
             "samples of each step, not ascending; the last number stands for the steps that follow", Part::kShape},
            {"H", "hid_h", Integer{&hidden, 1, kMaxInt}, "hidden units", Part::kShape},
            {"W", "in_h", Integer{&input, 1, kMaxInt}, "elements of x at a step", Part::kShape},
            {"r", "bidirection", Integer{&both, 0, 1}, "1: both directions", Part::kShape},
            {"b", "bias", Integer{&bias, 0, 1}, "1: with biases", Part::kShape},
            {"p", "inputmode", Integer{&skip, 0, 1}, "1: x enters the first layer without a matrix", Part::kShape},
            {"a", "rnnalgo", Integer{&algorithm, 0, 2}, "the algorithm: all give the same results", Part::kOption},
            {"c", "fwdtype", Integer{&inference, 0, 1}, "1: forward is inference, and the only direction; 0: training",
             Part::kOption},
            {"q", "use_padding", Integer{&padded, 0, 1}, "1: x and y have all samples at every step", Part::kOption},
            {"I", "io_layout", Integer{&layout, 0, 3},
             "functions with sequence tensors: 1 packed, 2 steps first, 3 samples first; 0: those with arrays of "
             "descriptors",
             Part::kOption},
            {"", "nohx", Integer{&no_hx, 0, 1}, "1: no initial hidden state", Part::kOption},
            {"", "nocx", Integer{&no_cx, 0, 1}, "1: no initial cell state", Part::kOption},
            {"U", "use_dropout", Integer{&use_dropout, 0, 1}, "1: dropout between the layers", Part::kOption},
            {"P", "dropout", Real{&rate}, "its rate", Part::kOption},
            {"L", "seed_low", Integer{&seed_low, 0, kMost}, "the low 32 bits of its seed", Part::kOption},
            {"M", "seed_high", Integer{&seed_high, 0, kMost}, "the high 32 bits of its seed", Part::kOption}};
  }

  // Throws ArgError.
  void check() const {
    if (!std::is_sorted(batch.rbegin(), batch.rend()) || static_cast<std::int64_t>(batch.size()) > steps)
      throw ArgError("-n --batchsize: at most a number for each step, and they must not ascend");
    if (inference != 0 && (directions & ~kForward) != 0)
      throw ArgError("-F --forw: bad value '" + std::to_string(directions) +
                     "', allowed with -c --fwdtype 1: 0 or 1, since inference writes no reserve for the gradients");
    if (skip && input != hidden) throw ArgError("-p --inputmode 1: -W and -H must be equal");
  }

  reference::Rnn network() const {
    reference::Rnn n;
    n.cell = static_cast<reference::Rnn::Cell>(mode);
    n.skips_input = skip != 0;
    n.bidirectional = both != 0;
    n.has_bias = bias != 0;
    n.bias_of_first = no_hx == 0;
    n.layers = layers;
    n.hidden = hidden;
    n.input = input;
    n.steps = steps;
    n.lengths.assign(static_cast<std::size_t>(batch[0]), 0);
    for (std::int64_t t = 0; t < steps; ++t)
      for (std::int64_t s = 0; s < samples(t); ++s) ++n.lengths[static_cast<std::size_t>(s)];
    return n;
  }
  std::int64_t samples(std::int64_t t) const { return batch[std::min(static_cast<std::size_t>(t), batch.size() - 1)]; }
  reference::RnnOrder order() const {
    if (layout != 0) return static_cast<reference::RnnOrder>(layout);
    return padded ? reference::RnnOrder::kTimeMajor : reference::RnnOrder::kPacked;
  }
  bool lstm() const { return mode == 2; }
  bool drops() const { return use_dropout != 0 && rate > 0 && layers > 1; }
  std::uint64_t seed() const {
    return static_cast<std::uint64_t>(seed_high) << 32 | static_cast<std::uint64_t>(seed_low);
  }
};

}  // namespace polymio::driver
