// Tune while running: decides which candidate the next real call of a problem uses, such that a thousand
// calls cost at most 2% more than the best candidate would. After enough samples it settles.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <vector>

namespace polymio::search {

/// Not thread-safe.
class Bandit {
 public:
  /// Candidates in the order of their predicted times; the first one is what would be used without tuning.
  explicit Bandit(const std::vector<double>& predicted_us);

  /// The candidate of the next call.
  std::size_t next() const;

  /// The call took so long.
  void took(std::size_t candidate, double us);

  /// The candidate is wrong or cannot be built.
  void discard(std::size_t candidate);

  bool settled() const { return settled_; }

  /// The fastest so far.
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
  double spent_us_ = 0;  // by candidates other than the best, beyond its time
  bool settled_ = false;
};

}  // namespace polymio::search
