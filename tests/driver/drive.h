// Runs the built driver as a process.
// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

// Merged stdout and stderr, and the exit status.
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

// Whether a line matches the regular expression.
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

// A folder with a find database of its own.
class InFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    if (const char* outer = std::getenv("MIOPEN_USER_DB_PATH")) outer_ = outer;
    setenv("MIOPEN_USER_DB_PATH", (folder_ / "db").c_str(), 1);
  }
  void TearDown() override {
    // Restore the environment for other suites of this process.
    outer_.empty() ? unsetenv("MIOPEN_USER_DB_PATH") : setenv("MIOPEN_USER_DB_PATH", outer_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name), std::ios::binary) << text;
    return file(name);
  }
  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(file(name), std::ios::binary).rdbuf();
    return text.str();
  }

  std::string outer_;
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("polymio_driver_" + std::to_string(static_cast<long>(getpid())));
};
