// The connectionist temporal classification (CTC) loss of sequences and its gradient, after Graves et al.,
// "Connectionist Temporal Classification: Labelling Unsegmented Sequence Data with Recurrent Neural Networks" (2006).
// Path probabilities are logarithms; passes over memory, without find. Results do not depend on threads.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "base/error.h"
#include "core/solver.h"
#include "core/tensor.h"
#include "runtime/device.h"

namespace polymio::ctc {

/// `probs` and `gradients`: [steps, batch, classes] of fp32, fp16 or bf16, any strides.
struct Problem {
  TensorDesc probs, gradients;
  std::int64_t blank = 0;  // the nearest class is used
  bool softmax = true;     // of probs over the classes first; else probs are logarithms of probabilities

  std::int64_t steps() const { return probs.lens[0]; }
  std::int64_t batch() const { return probs.lens[1]; }
  std::int64_t classes() const { return probs.lens[2]; }
  std::int64_t blank_class() const;
};

/// Host memory: the labels of all sequences, one after the other, and for each sequence their number and how many steps
/// of it count.
struct Sequences {
  const int* labels = nullptr;
  const int* label_lengths = nullptr;
  const int* input_lengths = nullptr;
};

struct Args {
  const void* probs = nullptr;
  void* losses = nullptr;     // [batch], in the type of probs
  void* gradients = nullptr;  // null: not computed
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

constexpr bool has_type(DataType t) {
  return t == DataType::kFloat || t == DataType::kHalf || t == DataType::kBFloat16;
}

/// Throws `wrong` for sizes and sequences that do not fit (lengths are checked before labels are read), BadParm for
/// other types.
void validate(const Problem&, const Sequences&, Status wrong);

/// Validated before.
std::size_t workspace_size(const DeviceInfo&, const Problem&, const Sequences&);

/// losses[n] = -log of the probability of all paths that read as the labels of sequence n; gradients are the
/// derivatives of its loss, with respect to the probability itself where there is no softmax, and 0 in steps that do
/// not count. Validated before; BadParm for too little workspace and overlapping buffers.
void run(Stream&, const Problem&, const Sequences&, const Args&);

/// The GPU kernels for tensors of a type.
std::vector<KernelSpec> programs(const DeviceInfo&, DataType);

}  // namespace polymio::ctc
