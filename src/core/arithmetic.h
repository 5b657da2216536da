// A solver that computes otherwise than in the types of its tensors says so.
// SPDX-License-Identifier: MIT
#pragma once

namespace polymio {

/// Of solvers whose arithmetic their error class does not tell; explain() shows it.
class NamesArithmetic {
 public:
  virtual const char* arithmetic() const = 0;

 protected:
  ~NamesArithmetic() = default;
};

}  // namespace polymio
