// Runs the built driver as a process.
// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <regex>
#include <sstream>
#include <string>

// stdout and stderr together, and the exit status.
struct Outcome {
  std::string text;
  int status = -1;
};

inline Outcome run(const std::string& command) {
  Outcome outcome;
  FILE* pipe = popen(("{ " + command + "; } 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  char part[4096];
  for (std::size_t n; (n = fread(part, 1, sizeof part, pipe)) > 0;) outcome.text.append(part, n);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.status = WEXITSTATUS(status);
  return outcome;
}

inline Outcome drive(const std::string& arguments) { return run(std::string(POLYMIO_DRIVER_PATH) + " " + arguments); }

// Whether a line matches.
inline ::testing::AssertionResult has(const Outcome& outcome, const std::string& pattern) {
  std::istringstream lines(outcome.text);
  const std::regex expression(pattern);
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, expression)) return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "no line matches " << pattern << " in\n" << outcome.text;
}

inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}
