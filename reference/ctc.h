// The CTC loss and its gradient by definition, in double: sums over all paths, as logarithms.
// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "reference/convolution.h"
#include "reference/tensor.h"
#include "reference/tolerance.h"

namespace polymio::reference {

struct Ctc {
  Tensor probs, gradients;  // [steps, batch, classes]
  std::vector<int> labels;  // of all sequences, one after the other
  std::vector<int> label_lengths, input_lengths;
  std::int64_t blank = 0;  // a class
  bool softmax = true;     // of probs first; else they are logarithms of probabilities
};

struct CtcResults {
  Result losses, gradients;
};

// The gradient with respect to probs before the softmax, else to the probabilities; 0 after a sequence's last step.
CtcResults evaluate(const Ctc& problem, const void* probs);

// The error bound of an implementation in float, for either result.
Arithmetic arithmetic(const Ctc& problem);

}  // namespace polymio::reference
