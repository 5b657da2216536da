// Comparison of outputs with the independent double-precision evaluation.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "driver/run/conv_data.h"
#include "driver/run/conv_problem.h"
#include "driver/run/result.h"
#include "reference/tolerance.h"

namespace polymio::driver {

constexpr double kFullGflop = 4;             // with -V 1, larger problems are sampled
constexpr std::int64_t kSampleCount = 4096;  // corners included
constexpr std::int64_t kLeastSamples = 64;
constexpr double kSampleProducts = 1e9;  // fewer samples if their sums have more products

// The expected values of one direction, computed on first use or read from the folder of -C.
class Verifier {
 public:
  // `samples`: outputs to compare, if that is affordable; 0 = all.
  Verifier(const Problem& problem, TensorData& data, std::int64_t samples);

  // Downloads the written tensor, compares it and fills the verification fields. `error_class` is the solver's error
  // class in polymioExplain's JSON; empty when unknown.
  void check(Result& result, const std::string& error_class);

 private:
  void prepare();
  std::string cache_path() const;
  bool read_cache(const std::string& path);
  void write_cache(const std::string& path) const;

  const Problem& problem_;
  TensorData& data_;
  std::vector<std::int64_t> sample_;
  reference::Result expected_;
};

// As many of `samples` outputs as have kSampleProducts products together, but at least kLeastSamples.
inline std::int64_t affordable_samples(const reference::Convolution& problem, std::int64_t samples) {
  const double affordable = kSampleProducts / static_cast<double>(problem.reduction_length());
  return std::min(samples, std::max(kLeastSamples, static_cast<std::int64_t>(affordable)));
}

// The number of outputs that -V asks to compare: 0 = all.
std::int64_t samples_for(const Problem& problem, std::int64_t level);

}  // namespace polymio::driver
