// Shared by all fuzzers: the command line, and random numbers that replay a finding.
// Case `i` of seed `s` draws from its own generator, so `--seed s --only i` runs that case alone.
// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <random>
#include <vector>

namespace polymio::fuzz {

/// Random numbers that depend only on the seed and the case.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t index) : engine_(seed * 0x9e3779b97f4a7c15ull ^ index) {}

  /// In [0, count).
  std::uint64_t below(std::uint64_t count) { return engine_() % count; }
  /// In [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }
  /// True with probability 1 / `times`.
  bool one_in(std::uint64_t times) { return below(times) == 0; }
  template <class T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }
  template <class T>
  const T& pick(const std::vector<T>& values) {
    return values[below(values.size())];
  }
  std::uint64_t bits() { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

/// --seed N, and one of --cases N, --seconds S and --only I.
struct Options {
  std::uint64_t seed = 1, cases = 1000, only = 0;
  double seconds = 0;
  bool single = false;
};

inline Options parse_options(int argc, char** argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const char *flag = argv[i], *value = argv[i + 1];
    if (std::strcmp(flag, "--seed") == 0) {
      o.seed = std::strtoull(value, nullptr, 10);
    } else if (std::strcmp(flag, "--cases") == 0) {
      o.cases = std::strtoull(value, nullptr, 10);
    } else if (std::strcmp(flag, "--seconds") == 0) {
      o.seconds = std::strtod(value, nullptr);
    } else if (std::strcmp(flag, "--only") == 0) {
      o.only = std::strtoull(value, nullptr, 10);
      o.single = true;
    } else {
      argc = 0;
    }
  }
  if (argc % 2 == 0) {
    std::fprintf(stderr, "usage: %s [--seed N] [--cases N | --seconds S | --only I]\n", argv[0]);
    std::exit(2);
  }
  return o;
}

/// Runs cases until their number or the time is reached. `run(random, index)` returns whether a case passed, and prints
/// the finding if not. Returns the number of findings; stops after ten.
template <class Run>
int run_cases(const char* name, const Options& o, const Run& run) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  std::uint64_t done = 0;
  int findings = 0;
  for (std::uint64_t i = o.single ? o.only : 0; findings < 10; ++i) {
    if (o.single ? done == 1 : o.seconds > 0 ? elapsed() >= o.seconds : i >= o.cases) break;
    Random random(o.seed, i);
    if (!run(random, i)) {
      ++findings;
      std::printf("FAILED: %s --seed %llu --only %llu\n", name, static_cast<unsigned long long>(o.seed),
                  static_cast<unsigned long long>(i));
      std::fflush(stdout);
    }
    ++done;
  }
  std::printf("%s: seed %llu, %llu cases in %.1f s, %d findings\n", name, static_cast<unsigned long long>(o.seed),
              static_cast<unsigned long long>(done), elapsed(), findings);
  return findings;
}

}  // namespace polymio::fuzz
