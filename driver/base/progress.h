// A progress bar with the estimated time left, on stderr: redrawn in place on a terminal, else a line every 10 s.
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
  // Text after the bar; shown on a terminal only.
  void note(const std::string& text);
  // Caps the shown time left at what remains of this many seconds.
  void limit(double seconds) { limit_ = seconds; }
  // Prints a line on stdout above the bar.
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
