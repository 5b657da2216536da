// SPDX-License-Identifier: MIT
#include "search/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace polymio::search {
namespace {

// Limit of a first run: cold caches make it slow even for the fastest candidate.
constexpr double kColdRatio = 10, kColdUs = 20e3;

constexpr double kShortUs = 5000;
constexpr std::size_t kSureSamples = 3;

class SteadyClock final : public Clock {
 public:
  double now_us() override {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
};

class DeviceClock final : public Clock {
 public:
  explicit DeviceClock(Stream& stream) : stream_(stream) {}
  double now_us() override {
    auto now = stream_.record();
    total_us_ += stream_.elapsed_us(last_ ? *last_ : *now, *now);
    last_ = std::move(now);
    return total_us_;
  }
  void start_sample() override { sample_ = stream_.record(); }
  double end_sample() override { return stream_.elapsed_us(*sample_, *stream_.record()); }
  bool leads_in() const override { return true; }
  bool first_run_counts() const override { return false; }
  double sample_us() const override { return 300; }

 private:
  Stream& stream_;
  std::unique_ptr<Event> last_, sample_;
  double total_us_ = 0;  // a sum of short intervals: device events are more precise for these than for long ones
};

/// The samples of one candidate.
struct Series {
  const Trial* trial;
  std::vector<double> samples{};
  int repeats = 1;
  Timing::State state = Timing::State::kMeasured;
  double us = 0;  // when stopped or skipped
  double warm_us = 0;

  bool gave_up = false;  // measured and dropped: too slow

  bool alive() const { return state == Timing::State::kMeasured && !gave_up; }
  double fastest() const { return *std::min_element(samples.begin(), samples.end()); }
  double slowest() const { return *std::max_element(samples.begin(), samples.end()); }
  double median() const {
    auto s = samples;
    std::sort(s.begin(), s.end());
    const std::size_t half = s.size() / 2;
    return s.size() % 2 ? s[half] : 0.5 * (s[half - 1] + s[half]);
  }
};

class Measurement {
 public:
  Measurement(Clock& clock, const std::vector<Trial>& trials, const Budget& budget)
      : clock_(clock), budget_(budget), start_(clock.now_us()) {
    for (const auto& c : trials) series_.push_back({&c});
  }

  std::vector<Timing> run() {
    for (auto& r : series_) begin(r);
    // Compilation and checks on the host take a GPU's candidates much longer than samples.
    if (!budget_.strict && !clock_.first_run_counts()) start_ = clock_.now_us();
    for (int round = 1; round < budget_.rounds; ++round) {
      drop_slow();
      if (left() <= 0 || (round >= 3 && separated())) break;
      for (auto& r : series_)
        if (r.alive() && left() > 0 && fits(r.repeats * r.median())) sample(r);
    }
    std::vector<Timing> result;
    for (const auto& r : series_) result.push_back(timing(r));
    return result;
  }

 private:
  double left() const { return budget_.total_us - (clock_.now_us() - start_); }

  /// Whether a run of this predicted time may start.
  bool fits(double predicted_us) const { return !budget_.strict || 2 * predicted_us <= left(); }

  double allowed(double slow_us) const { return budget_.strict ? std::clamp(left(), 0.0, slow_us) : slow_us; }

  double best() const {
    double us = budget_.best_known_us;
    for (const auto& r : series_)
      if (!r.samples.empty()) us = std::min(us, r.median());
    return us;
  }

  /// Starts a candidate and takes its first sample.
  void begin(Series& r) {
    if (!fits(r.trial->predicted_us)) return skip(r);
    const double most = allowed(kColdRatio * best() + kColdUs);
    const Run started = r.trial->start(most, r.warm_us);
    if (started != Run::kDone) return leave(r, started, most);
    const bool counts = clock_.first_run_counts();
    if (!fits(counts ? r.warm_us : r.trial->predicted_us)) return counts ? r.samples.push_back(r.warm_us) : skip(r);
    sample(r);
    const double least_us = budget_.sample_us > 0 ? budget_.sample_us : clock_.sample_us();
    if (r.samples.empty() || r.samples[0] >= least_us) return;
    // Too short for the clock: the first sample only gives the number of repeats.
    r.repeats = static_cast<int>(std::min(1000.0, std::ceil(least_us / std::max(r.samples[0], 0.1))));
    r.samples.clear();
    sample(r);
  }

  void skip(Series& r) {
    r.state = Timing::State::kSkipped;
    r.us = std::max(left(), 0.0);
  }

  static void leave(Series& r, Run how, double after_us) {
    r.state = how == Run::kStopped ? Timing::State::kStopped : Timing::State::kOut;
    r.us = after_us;
  }

  void sample(Series& r) {
    const double most = allowed(std::max(2 * budget_.give_up_ratio * best(), kShortUs));
    const double known_us = r.samples.empty() ? r.warm_us : r.samples.back();
    const bool lead_in = clock_.leads_in() && (r.repeats > 1 || known_us < kShortUs);
    for (int i = lead_in ? -1 : 0; i < r.repeats; ++i) {
      if (i == 0) clock_.start_sample();
      const Run ended = r.trial->run(most);
      if (ended == Run::kDone) continue;
      // Earlier samples stay, or else the time of the warm-up.
      const bool interrupted = r.samples.empty() && r.warm_us < most;
      if (ended == Run::kStopped && interrupted)
        r.samples.push_back(r.warm_us);
      else if (ended == Run::kStopped && !r.samples.empty())
        r.gave_up = true;
      else
        leave(r, ended, most);
      return;
    }
    r.samples.push_back(clock_.end_sample() / r.repeats);
  }

  /// Short runs get kSureSamples samples: the system may have interrupted one for longer than it takes.
  void drop_slow() {
    const double limit = budget_.give_up_ratio * best();
    for (auto& r : series_) {
      const bool slow = !r.samples.empty() && std::min(r.fastest(), r.warm_us) > kShortUs;
      const bool sure = slow || r.samples.size() >= kSureSamples;
      r.gave_up = r.gave_up || (sure && r.fastest() > limit);
    }
  }

  /// True when all samples of the fastest candidate are below those of every other one.
  bool separated() const {
    const Series* fastest = nullptr;
    for (const auto& r : series_)
      if (r.alive() && (!fastest || r.median() < fastest->median())) fastest = &r;
    return std::all_of(series_.begin(), series_.end(), [&](const Series& r) {
      return &r == fastest || !r.alive() || r.fastest() > fastest->slowest();
    });
  }

  static Timing timing(const Series& r) {
    const bool seen = r.state == Timing::State::kMeasured;
    return {r.state, seen ? r.median() : r.us, static_cast<int>(r.samples.size())};
  }

  Clock& clock_;
  const Budget& budget_;
  double start_;
  std::vector<Series> series_;
};

}  // namespace

Clock& steady_clock() {
  static SteadyClock clock;
  return clock;
}

std::unique_ptr<Clock> device_clock(Stream& stream) { return std::make_unique<DeviceClock>(stream); }

std::vector<Timing> measure(Clock& clock, const std::vector<Trial>& trials, const Budget& budget) {
  return Measurement(clock, trials, budget).run();
}

}  // namespace polymio::search
