// What the comparison with the baseline measured, a row per problem, as CSV and as tables.
// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace polymio::bench {

/// Milliseconds; 0: not measured.
struct Time {
  double median = 0, least = 0;
};

struct Row {
  std::string list, name, group, dtype, layout, direction;  // group: the class of the problem; direction: F, B, W
  int threads = 1;
  int resnet_layers = 0;  // of ResNet-50 at batch 16 that are this problem
  double gflop = 0;
  double peak_gflops = 0;            // of the data type with these threads, measured in the same process
  Time ours, plain, reordered, old;  // old: version 2 of the baseline
  std::string solver, plain_impl, reordered_impl, old_impl;
  double alone_ms = 0;    // ours, least, without the baseline in between
  double difference = 0;  // of the results, relative to the largest element
  double tolerance = 0;
};

struct Heading {
  std::string machine, library, date;
  std::vector<std::string> baselines;
  bool least = false;  // compare the least times, not the medians
};

void write_csv(const std::string& path, const std::vector<Row>& rows);
std::vector<Row> read_csv(const std::string& path);  // throws std::runtime_error
/// Markdown: a table of classes per data type, layout and thread count, the worst ratios, percent of the peak,
/// ResNet-50.
std::string report(const Heading& heading, const std::vector<Row>& rows);

}  // namespace polymio::bench
