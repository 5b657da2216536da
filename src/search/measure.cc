// SPDX-License-Identifier: MIT
#include "search/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace polymio::search {
namespace {

class SteadyClock final : public Clock {
 public:
  double now_us() override {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
};

struct Runner {
  const std::function<void()>* run;
  std::vector<double> samples;
  int repeats = 1;
  bool alive = true;

  double fastest() const { return *std::min_element(samples.begin(), samples.end()); }
  double slowest() const { return *std::max_element(samples.begin(), samples.end()); }
  double median() const {
    auto s = samples;
    std::sort(s.begin(), s.end());
    const std::size_t half = s.size() / 2;
    return s.size() % 2 ? s[half] : 0.5 * (s[half - 1] + s[half]);
  }
};

double sample(Clock& clock, const Runner& r) {
  const double start = clock.now_us();
  for (int i = 0; i < r.repeats; ++i) (*r.run)();
  return (clock.now_us() - start) / r.repeats;
}

void warm_up(Clock& clock, Runner& r, const Budget& budget) {
  const double us = sample(clock, r);
  if (us > 0.5 * budget.total_us) r.samples.push_back(us);
  if (us < budget.sample_us)
    r.repeats = static_cast<int>(std::min(1000.0, std::ceil(budget.sample_us / std::max(us, 0.1))));
}

double best_median(const std::vector<Runner>& runners) {
  double best = std::numeric_limits<double>::infinity();
  for (const auto& r : runners)
    if (!r.samples.empty()) best = std::min(best, r.median());
  return best;
}

void drop_losers(std::vector<Runner>& runners, double ratio) {
  const double best = best_median(runners);
  for (auto& r : runners) r.alive = r.alive && r.fastest() <= ratio * best;
}

/// True when one contestant's samples all lie below everybody else's.
bool separated(const std::vector<Runner>& runners) {
  const Runner* winner = nullptr;
  for (const auto& r : runners)
    if (r.alive && (!winner || r.median() < winner->median())) winner = &r;
  return std::all_of(runners.begin(), runners.end(),
                     [&](const Runner& r) { return &r == winner || !r.alive || r.fastest() > winner->slowest(); });
}

}  // namespace

Clock& steady_clock() {
  static SteadyClock clock;
  return clock;
}

std::vector<Timing> measure(Clock& clock, const std::vector<std::function<void()>>& contestants, const Budget& budget) {
  std::vector<Runner> runners;
  for (const auto& c : contestants) runners.push_back({&c, {}});
  const double start = clock.now_us();
  for (auto& r : runners) warm_up(clock, r, budget);
  for (int round = 0; round < budget.rounds; ++round) {
    for (auto& r : runners) {
      const bool in_time = clock.now_us() - start < budget.total_us;
      if (r.alive && (in_time || r.samples.empty())) r.samples.push_back(sample(clock, r));
    }
    drop_losers(runners, budget.give_up_ratio);
    if (clock.now_us() - start >= budget.total_us || (round >= 2 && separated(runners))) break;
  }
  std::vector<Timing> result;
  for (const auto& r : runners) result.push_back({r.median(), static_cast<int>(r.samples.size())});
  return result;
}

}  // namespace polymio::search
