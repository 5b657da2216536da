// SPDX-License-Identifier: MIT
#include "driver/report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace polymio::driver {
namespace {

bool has_time(const Measurement& measurement) { return measurement.result.error.empty() && measurement.result.ms > 0; }

// The fastest measurement of each line.
std::map<std::string, const Measurement*> fastest(const Run& run) {
  std::map<std::string, const Measurement*> best;
  for (const Measurement& measurement : run.measurements) {
    if (!has_time(measurement)) continue;
    const Measurement*& known = best[measurement.result.line];
    if (known == nullptr || measurement.result.ms < known->result.ms) known = &measurement;
  }
  return best;
}

// One measurement for each line that is not among `others`, in the order of the run.
std::vector<const Measurement*> missing(const Run& run, const std::map<std::string, const Measurement*>& own,
                                        const std::map<std::string, const Measurement*>& others) {
  std::vector<const Measurement*> only;
  std::set<std::string> seen;
  for (const Measurement& measurement : run.measurements) {
    const std::string& line = measurement.result.line;
    if ((own.contains(line) && others.contains(line)) || !seen.insert(line).second) continue;
    only.push_back(own.contains(line) ? own.at(line) : &measurement);
  }
  return only;
}

double sum(const std::vector<Pair>& pairs, const Measurement* Pair::*side, int directions) {
  double ms = 0;
  for (const Pair& pair : pairs) {
    const Result& result = (pair.*side)->result;
    if ((result.direction & directions) != 0) ms += result.ms * static_cast<double>(pair.a->count);
  }
  return ms;
}

}  // namespace

double Comparison::ms_a(int directions) const { return sum(both, &Pair::a, directions); }
double Comparison::ms_b(int directions) const { return sum(both, &Pair::b, directions); }

Comparison compare(const Run& a, const Run& b) {
  const auto times_a = fastest(a), times_b = fastest(b);
  Comparison comparison;
  for (const auto& [line, measurement] : times_a) {
    const auto other = times_b.find(line);
    if (other == times_b.end()) continue;
    comparison.both.push_back({measurement, other->second});
    if (measurement->count != other->second->count) ++comparison.other_counts;
  }
  std::stable_sort(comparison.both.begin(), comparison.both.end(),
                   [](const Pair& x, const Pair& y) { return x.lost_ms() > y.lost_ms(); });
  comparison.only_a = missing(a, times_a, times_b);
  comparison.only_b = missing(b, times_b, times_a);
  return comparison;
}

std::string summary_of(const Comparison& comparison) {
  const double a = comparison.ms_a(), b = comparison.ms_b();
  std::string text = fmt::format("{} problems in both, {} only in A, {} only in B", comparison.both.size(),
                                 comparison.only_a.size(), comparison.only_b.size());
  if (comparison.both.empty()) return text + ": there is nothing to compare";
  return text + fmt::format("; A {:.4g} ms, B {:.4g} ms: B takes {:.3f} times as long", a, b, b / a);
}

}  // namespace polymio::driver
