// A progress bar with the time left on stderr: redrawn in place on a terminal, a line now and then
// elsewhere.
// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <string>

namespace polymio::driver {

class Progress {
 public:
  // `total` in any unit of work.
  Progress(std::string what, double total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(double work);
  // What is going on, behind the bar; shown on a terminal only.
  void note(const std::string& text);
  // The time left is never shown as more than what remains of this.
  void limit(double seconds) { limit_ = seconds; }
  // A line on stdout that does not tear the bar.
  void line(const std::string& text);

 private:
  void draw();
  void erase();

  std::string what_;
  double total_;
  double done_ = 0;
  double limit_ = 0;
  std::string note_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace polymio::driver
