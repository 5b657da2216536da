// Recurrent networks: the interface of this folder. Plain (ReLU, tanh), LSTM and GRU in layers and one or two
// directions, on sequences of different lengths.
//   plain: h' = f(x W + bW + h R + bR)
//   LSTM:  i, f, o = logistic(..), g = tanh(..), c' = f c + i g, h' = o tanh(c')
//   GRU:   z, r = logistic(..), n = tanh(x Wn + bWn + r (h Rn + bRn)), h' = (1 - z) n + z h
// As in MIOpen the recurrent biases are left out at the first step of each sequence if there is no hx.
// Source of LSTM: Hochreiter and Schmidhuber, 1997, with the forget gate of Gers et al., 2000; of GRU: Cho et al.,
// 2014, with the reset gate applied to the product.
// SPDX-License-Identifier: MIT
#pragma once
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/handle.h"
#include "core/problem_text.h"
#include "primitives/dropout/dropout.h"
#include "primitives/rnn/network.h"

namespace polymio::rnn {

enum class Pass : int { kInference = 0, kTraining = 1, kBackwardData = 2, kBackwardWeights = 3 };

/// Order of a sequence tensor in memory; numbers equal miopenRNNBaseLayout_t. Packed: step by step, each step has the
/// samples that are long enough, which come first. The others have all samples of every step.
enum class Order : int { kPacked = 1, kTimeMajor = 2, kBatchMajor = 3 };

/// The lengths of the samples. A view of the caller's until it is copied: then it owns them.
class Lengths {
 public:
  Lengths() = default;
  Lengths(const Lengths& o) : own_(o.view_.begin(), o.view_.end()), view_(own_) {}
  Lengths& operator=(const Lengths& o) {
    if (this != &o) own_.assign(o.view_.begin(), o.view_.end());
    view_ = own_;
    return *this;
  }
  /// Refers to the caller's numbers.
  void view(std::span<const std::int64_t> numbers) { view_ = numbers; }
  std::span<const std::int64_t> all() const { return view_; }
  bool operator==(const Lengths& o) const;
  std::uint64_t hash(std::uint64_t seed) const;

 private:
  std::vector<std::int64_t> own_;
  std::span<const std::int64_t> view_;
};

struct Sequences {
  Lengths lengths;         // of each sample, from 0 to `steps`; descending if a tensor is packed
  std::int64_t steps = 0;  // of the padded tensors
  bool operator==(const Sequences&) const = default;
  std::uint64_t hash(std::uint64_t seed) const;
};

struct Problem final : ProblemOf<Problem> {
  /// Device memory. Absent initial states and gradients of final states are 0, absent outputs are not computed.
  /// x [.., input], y [.., width]; states [layers * directions, samples, hidden], c of LSTM only.
  struct Args {
    const void *x = nullptr, *w = nullptr, *hx = nullptr, *cx = nullptr;
    void *y = nullptr, *hy = nullptr, *cy = nullptr;
    const void *dy = nullptr, *dhy = nullptr, *dcy = nullptr;
    void *dx = nullptr, *dhx = nullptr, *dcx = nullptr;
    void* dw = nullptr;  // all of it is overwritten
    void *workspace = nullptr, *reserve = nullptr;
    std::size_t workspace_bytes = 0, reserve_bytes = 0;
    dropout::Choice dropout;        // its mask is ignored: the reserve space has it
    const void* padding = nullptr;  // host: the value of y's padding, or dx's, null: 0
  };

  Pass pass = Pass::kInference;
  Order x_order = Order::kPacked, y_order = Order::kPacked;
  enum class Initial : int { kAbsent = 0, kGiven = 1 } hx = Initial::kAbsent;
  enum class Drops : int { kNever = 0, kBetweenLayers = 1 } drops = Drops::kNever;
  Network network;
  Sequences sequences;

  auto fields() const { return std::tie(pass, x_order, y_order, hx, drops, network, sequences); }
  std::string key() const override;
  std::string family() const override;
  std::vector<float> log_sizes() const override;
  double work() const override;  // operations
};

/// Throws BadParm unless so many bytes are less than 2^62.
void require_addressable(double bytes, const char* what);

/// Bytes. The workspace serves every pass; gradients of the gates stay in it between the two backward passes.
struct Sizes {
  std::size_t workspace = 0, reserve = 0;
};
Sizes sizes(const DeviceInfo&, const Problem&);
/// The same for sequences of any lengths and y in any order.
Sizes largest_sizes(const DeviceInfo&, const Problem&);

/// Throws BadParm, naming what is wrong.
void validate(const Problem&);

/// Runs a pass. UnknownError, as MIOpen, if the workspace or the reserve space is too small. Backward data needs the
/// reserve space of a training pass, backward weights also the workspace of backward data. Asynchronous on GPUs; safe
/// from several threads with memory of their own.
void run(Handle&, const Problem&, const Problem::Args&);

/// The GPU kernels for this type, without those of matrix products.
std::vector<KernelSpec> programs(const DeviceInfo&, DataType);

}  // namespace polymio::rnn
