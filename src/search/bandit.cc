// SPDX-License-Identifier: MIT
#include "search/bandit.h"

#include <algorithm>

namespace polymio::search {
namespace {

// The budget is a share of kHorizon calls of the best candidate. kAllowance is a quarter below the promised 2%, since
// the last sample may cost more than predicted.
constexpr double kHorizon = 1000, kAllowance = 0.015;
constexpr std::size_t kSamples = 3;  // per candidate that may still win
constexpr double kHopeless = 1.5;    // a candidate this many times slower than the best gets one sample

}  // namespace

double Bandit::Arm::us() const {
  if (samples.empty()) return predicted_us;
  auto s = samples;
  std::sort(s.begin(), s.end());
  return s[s.size() / 2];
}

Bandit::Bandit(const std::vector<double>& predicted_us) {
  for (const double us : predicted_us) arms_.push_back({us});
  settled_ = arms_.size() <= 1;
}

std::size_t Bandit::best() const {
  std::size_t best = arms_.size();
  for (std::size_t i = 0; i < arms_.size(); ++i) {
    if (arms_[i].out || arms_[i].samples.empty()) continue;
    if (best == arms_.size() || arms_[i].us() < arms_[best].us()) best = i;
  }
  if (best < arms_.size()) return best;
  const auto first = std::find_if(arms_.begin(), arms_.end(), [](const Arm& a) { return !a.out; });
  return first == arms_.end() ? 0 : static_cast<std::size_t>(first - arms_.begin());
}

/// Whether another sample of the arm could change the choice and fits the exploration budget.
bool Bandit::open(const Arm& arm) const {
  if (arm.out || arm.samples.size() >= kSamples) return false;
  const double best_us = us(best());
  if (!arm.samples.empty() && arm.us() > kHopeless * best_us) return false;
  return spent_us_ + std::max(arm.us() - best_us, 0.0) <= kAllowance * kHorizon * best_us;
}

std::size_t Bandit::next() const {
  if (settled_ || calls_ == 0) return best();
  std::size_t choice = arms_.size();
  for (std::size_t i = 0; i < arms_.size(); ++i) {
    if (!open(arms_[i])) continue;
    const bool better = choice == arms_.size() || arms_[i].samples.size() < arms_[choice].samples.size();
    if (better) choice = i;
  }
  return choice == arms_.size() ? best() : choice;
}

void Bandit::took(std::size_t candidate, double us) {
  if (calls_++ == 0) first_ = candidate;
  if (settled_) return;
  arms_[candidate].samples.push_back(us);
  update();
}

void Bandit::discard(std::size_t candidate) {
  arms_[candidate].out = true;
  update();
}

void Bandit::update() {
  spent_us_ = 0;
  const double best_us = us(best());
  for (std::size_t i = 0; i < arms_.size(); ++i) {
    // The first call is not exploration: without tuning it would run the same candidate.
    const std::size_t free = i == first_ && calls_ > 0 ? 1 : 0;
    for (std::size_t s = free; s < arms_[i].samples.size(); ++s)
      spent_us_ += std::max(arms_[i].samples[s] - best_us, 0.0);
  }
  settled_ = std::none_of(arms_.begin(), arms_.end(), [this](const Arm& a) { return open(a); });
}

}  // namespace polymio::search
