// Online tuning as a bandit: chooses the candidate that the application's next call of a problem runs. The cost of
// exploration is at most 2% of 1000 calls of the best candidate. It settles when no other candidate can win.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <vector>

namespace polymio::search {

/// Not thread-safe.
class Bandit {
 public:
  /// Predicted microseconds per candidate, fastest first; without tuning the first candidate would serve all calls.
  explicit Bandit(const std::vector<double>& predicted_us);

  /// The candidate of the next call.
  std::size_t next() const;

  /// Reports the measured time of a call.
  void took(std::size_t candidate, double us);

  /// Removes a candidate whose result is wrong or which cannot be built.
  void discard(std::size_t candidate);

  bool settled() const { return settled_; }

  /// The fastest candidate so far.
  std::size_t best() const;
  double us(std::size_t candidate) const { return arms_[candidate].us(); }  // measured, else predicted
  bool measured(std::size_t candidate) const { return !arms_[candidate].samples.empty(); }

 private:
  struct Arm {
    double predicted_us;
    std::vector<double> samples{};
    bool out = false;
    double us() const;  // the median, else the prediction
  };

  bool open(const Arm&) const;
  void update();

  std::vector<Arm> arms_;
  std::size_t calls_ = 0, first_ = 0;
  double spent_us_ = 0;  // cost of exploration: time of the other candidates beyond that of the best
  bool settled_ = false;
};

}  // namespace polymio::search
