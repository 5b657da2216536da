// A progress bar.
// SPDX-License-Identifier: MIT
#include "driver/base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace polymio::driver {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWidth = 20;
constexpr double kQuietSeconds = 10;  // between lines when stderr is no terminal
constexpr double kNoteSeconds = 0.1;  // between notes

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::string clock_text(double seconds) {
  const int whole = static_cast<int>(seconds + 0.5);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::size_t columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(std::string what, double total)
    : what_(std::move(what)),
      total_(std::max(total, 1e-9)),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(Clock::now()),
      last_(start_) {}

Progress::~Progress() { erase(); }

void Progress::advance(double work) {
  done_ += work;
  const auto now = Clock::now();
  if (!terminal_ && seconds_between(last_, now) < kQuietSeconds) return;
  last_ = now;
  draw();
}

void Progress::note(const std::string& text) {
  note_ = text;
  const auto now = Clock::now();
  if (!terminal_ || seconds_between(last_, now) < kNoteSeconds) return;
  last_ = now;
  draw();
}

void Progress::line(const std::string& text) {
  erase();
  fmt::print("{}\n", text);
  std::fflush(stdout);
  if (terminal_) draw();
}

void Progress::draw() {
  const double fraction = std::min(done_ / total_, 1.0);
  const double passed = seconds_between(start_, Clock::now());
  double seconds = fraction > 0 ? passed / fraction - passed : limit_;
  if (limit_ > 0) seconds = std::clamp(limit_ - passed, 0.0, seconds);
  const std::string left = fraction > 0 || limit_ > 0 ? clock_text(seconds) : std::string("?");
  if (!terminal_) {
    fmt::print(stderr, "{} {:.0f}%, {} passed, {} left\n", what_, 100 * fraction, clock_text(passed), left);
    return;
  }
  const int full = static_cast<int>(fraction * kWidth);
  const std::string text = fmt::format("{} [{:#<{}}{:.<{}}] {:.0f}% ETA {}  {}", what_, "", full, "", kWidth - full,
                                       100 * fraction, left, note_);
  fmt::print(stderr, "\r\x1b[K{}", text.substr(0, columns() - 1));
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::erase() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace polymio::driver
