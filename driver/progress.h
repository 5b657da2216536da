// A progress bar with the time left on stderr: redrawn in place on a terminal, a line now and then
// elsewhere. SPDX-License-Identifier: MIT
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
  // A line on stdout that does not tear the bar.
  void line(const std::string& text);

 private:
  void draw();
  void erase();

  std::string what_;
  double total_;
  double done_ = 0;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace polymio::driver
