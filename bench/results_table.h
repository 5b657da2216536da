// Measurements of this library and of the baseline, one row per problem, as CSV and as Markdown tables.
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
  int resnet_layers = 0;  // how many layers of ResNet-50 at batch 16 are this problem
  double gflop = 0;
  double peak_gflops = 0;            // peak of the data type and thread count, measured in the same process
  Time ours, plain, reordered, old;  // old: version 2 of the baseline
  std::string solver, plain_impl, reordered_impl, old_impl;
  double alone_ms = 0;    // least time of ours without baseline runs in between
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
/// Markdown: per data type, layout and thread count the geometric means by class, ResNet-50 and the worst ratios. A
/// ratio is the baseline's time / ours.
std::string report(const Heading& heading, const std::vector<Row>& rows);

}  // namespace polymio::bench
