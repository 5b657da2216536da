// Formats and parses rows; geometric means by class.
// SPDX-License-Identifier: MIT
#include "bench/results_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <tuple>

namespace polymio::bench {
namespace {

constexpr char kColumns[] =
    "list,name,class,dtype,layout,direction,threads,resnet_layers,gflop,peak_gflops,ours_ms,ours_min,plain_ms,"
    "plain_min,reordered_ms,reordered_min,old_ms,old_min,solver,plain_impl,reordered_impl,old_impl,alone_ms,"
    "difference,tolerance";

/// Calls `f` with each column of a row, in the order of the heading line.
template <class AnyRow, class F>
void for_each_column(AnyRow& r, F f) {
  f(r.list);
  f(r.name);
  f(r.group);
  f(r.dtype);
  f(r.layout);
  f(r.direction);
  f(r.threads);
  f(r.resnet_layers);
  f(r.gflop);
  f(r.peak_gflops);
  for (auto* t : {&r.ours, &r.plain, &r.reordered, &r.old}) {
    f(t->median);
    f(t->least);
  }
  f(r.solver);
  f(r.plain_impl);
  f(r.reordered_impl);
  f(r.old_impl);
  f(r.alone_ms);
  f(r.difference);
  f(r.tolerance);
}

/// What the rows of one section have in common.
using Key = std::tuple<std::string, std::string, std::string, int>;  // list, dtype, layout, threads
Key key_of(const Row& r) { return {r.list, r.dtype, r.layout, r.threads}; }

struct Mean {
  double logs = 0;
  int count = 0;
  void add(double ratio) {
    if (ratio > 0) {
      logs += std::log(ratio);
      ++count;
    }
  }
  std::string text() const { return count == 0 ? "-" : fmt::format("{:.2f}", std::exp(logs / count)); }
};

class Report {
 public:
  Report(const Heading& heading, const std::vector<Row>& rows) : heading_(heading), rows_(rows) {}

  std::string text() {
    write_heading();
    std::vector<Key> keys;
    for (const Row& r : rows_)
      if (std::find(keys.begin(), keys.end(), key_of(r)) == keys.end()) keys.push_back(key_of(r));
    for (const Key& key : keys) {
      std::vector<const Row*> section;
      for (const Row& r : rows_)
        if (key_of(r) == key) section.push_back(&r);
      const auto& [list, dtype, layout, threads] = key;
      out_ += fmt::format("\n## {} {}, {} thread{} ({})\n\n", dtype, layout, threads, threads == 1 ? "" : "s", list);
      write_classes(section);
      write_resnet(section);
      write_worst(section);
    }
    write_checks();
    return out_;
  }

 private:
  double of(const Time& t) const { return heading_.least ? t.least : t.median; }
  /// The baseline's fastest time, in the same layouts or with reorders; 0 if there is none.
  double best(const Row& r) const {
    const double plain = of(r.plain), reordered = of(r.reordered);
    return plain == 0 || (reordered > 0 && reordered < plain) ? reordered : plain;
  }
  double ratio(const Row& r, double baseline) const { return baseline > 0 ? baseline / of(r.ours) : 0; }

  void write_heading() {
    out_ += "# Convolution on the CPU: this library against oneDNN\n\n";
    out_ += fmt::format("* {}\n* {}\n* {}\n", heading_.date, heading_.machine, heading_.library);
    for (const std::string& baseline : heading_.baselines) out_ += fmt::format("* baseline: oneDNN {}\n", baseline);
    if (heading_.baselines.empty()) out_ += "* no baseline: bench/README.md says how to get one\n";
    out_ += fmt::format(
        "* Ratio: the baseline's time / ours ({} of interleaved runs); above 1 ours is faster. Tables by class show "
        "geometric means.\n"
        "* Percent of peak: of the peak that the same process measured for the data type; products with padding count "
        "as work.\n",
        heading_.least ? "least" : "median");
  }

  void write_classes(const std::vector<const Row*>& rows) {
    write_class_table(rows, "Ratio to the baseline's fastest kernel for the user's tensors, its reorders included",
                      [this](const Row& r) { return ratio(r, best(r)); });
    write_class_table(rows, "Ratio to the baseline's fastest kernel in the same layouts, without reorders",
                      [this](const Row& r) { return ratio(r, of(r.plain)); });
    write_class_table(rows, "Ratio to version 2 of the baseline, its Winograd included",
                      [this](const Row& r) { return ratio(r, of(r.old)); });
    write_class_table(rows, "Percent of peak", [this](const Row& r) { return percent_of_peak(r); });
  }

  /// Geometric means of one quantity: a row per class, a column per direction. Omitted when no row has the quantity.
  void write_class_table(const std::vector<const Row*>& rows, const char* title,
                         const std::function<double(const Row&)>& quantity) {
    if (std::none_of(rows.begin(), rows.end(), [&](const Row* r) { return quantity(*r) > 0; })) return;
    std::vector<std::string> groups;
    for (const Row* r : rows)
      if (std::find(groups.begin(), groups.end(), r->group) == groups.end()) groups.push_back(r->group);
    groups.push_back("");
    out_ += fmt::format("{}:\n\n| class | problems | forward | backward data | backward weights |\n", title);
    out_ += "|---|---|---|---|---|\n";
    for (const std::string& group : groups) {
      std::set<std::string> names;
      std::string cells;
      for (const char* direction : {"F", "B", "W"}) {
        Mean mean;
        for (const Row* r : rows) {
          if ((!group.empty() && r->group != group) || r->direction != direction) continue;
          names.insert(r->name);
          mean.add(quantity(*r));
        }
        cells += fmt::format(" {} |", mean.text());
      }
      out_ += fmt::format("| {} | {} |{}\n", group.empty() ? "**all**" : group, names.size(), cells);
    }
    out_ += "\n";
  }

  double percent_of_peak(const Row& r) const { return 100 * r.gflop * 1e3 / of(r.ours) / r.peak_gflops; }

  /// Sums over the 53 layers of ResNet-50, when all of them were measured.
  void write_resnet(const std::vector<const Row*>& rows) {
    for (const char* direction : {"F", "B", "W"}) {
      int layers = 0;
      double ours = 0, baseline = 0, old = 0, gflop = 0, peak = 0;
      bool has_baseline = true, has_old = true;
      for (const Row* r : rows) {
        if (r->resnet_layers == 0 || r->direction != direction) continue;
        layers += r->resnet_layers;
        ours += r->resnet_layers * of(r->ours);
        gflop += r->resnet_layers * r->gflop;
        baseline += r->resnet_layers * best(*r);
        old += r->resnet_layers * of(r->old);
        peak = std::max(peak, r->peak_gflops);
        has_baseline = has_baseline && best(*r) > 0;
        has_old = has_old && r->old.median > 0;
      }
      if (layers != 53) continue;
      out_ += fmt::format("ResNet-50, batch 16, 53 layers, {}: ours {:.1f} ms ({:.0f}% of peak)", direction, ours,
                          100 * gflop * 1e3 / ours / peak);
      if (has_baseline) out_ += fmt::format(", baseline {:.1f} ms", baseline);
      if (has_old) out_ += fmt::format(", version 2 {:.1f} ms", old);
      out_ += "\n\n";
    }
  }

  void write_worst(std::vector<const Row*> rows) {
    std::erase_if(rows, [&](const Row* r) { return best(*r) == 0; });
    if (rows.empty()) return;
    std::stable_sort(rows.begin(), rows.end(),
                     [&](const Row* a, const Row* b) { return ratio(*a, best(*a)) < ratio(*b, best(*b)); });
    out_ += "Worst ratios (baseline's time / ours):\n\n";
    out_ += "| ratio | problem | direction | ours ms | % of peak | solver | baseline ms | baseline kernel |\n";
    out_ += "|---|---|---|---|---|---|---|---|\n";
    rows.resize(std::min(rows.size(), kWorst));
    for (const Row* r : rows) {
      const double baseline = best(*r);
      out_ += fmt::format("| {:.2f} | {} | {} | {:.3f} | {:.0f} | {} | {:.3f} | {} |\n", ratio(*r, baseline), r->name,
                          r->direction, of(r->ours), percent_of_peak(*r), r->solver, baseline,
                          baseline == of(r->plain) ? r->plain_impl : r->reordered_impl);
    }
  }

  void write_checks() {
    Mean alone;
    double largest_deviation = 0;
    std::size_t wrong = 0, compared = 0;
    for (const Row& r : rows_) {
      if (r.alone_ms > 0) {
        alone.add(r.ours.least / r.alone_ms);
        largest_deviation = std::max(largest_deviation, std::abs(r.ours.least / r.alone_ms - 1));
      }
      compared += r.tolerance > 0;
      wrong += r.difference > r.tolerance;
    }
    out_ += "\n## Checks\n\n";
    if (alone.count > 0)
      out_ += fmt::format(
          "* Least time of ours interleaved with the baseline / alone, {} problems: geometric mean {:.3f}, largest "
          "deviation {:.1f}%\n",
          alone.count, std::exp(alone.logs / alone.count), 100 * largest_deviation);
    out_ += fmt::format("* Results compared with those of the baseline: {} problems, {} differ\n", compared, wrong);
  }

  static constexpr std::size_t kWorst = 10;
  const Heading& heading_;
  const std::vector<Row>& rows_;
  std::string out_;
};

void parse(const std::string& text, std::string& value) { value = text; }
void parse(const std::string& text, int& value) { value = std::stoi(text); }
void parse(const std::string& text, double& value) { value = std::stod(text); }

}  // namespace

void write_csv(const std::string& path, const std::vector<Row>& rows) {
  std::ofstream file(path);
  file << kColumns << '\n';
  for (const Row& r : rows) {
    std::string line;
    for_each_column(r, [&](const auto& value) { line += fmt::format("{},", value); });
    line.pop_back();
    file << line << '\n';
  }
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

std::vector<Row> read_csv(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line != kColumns)
    throw std::runtime_error("--read " + path + ": cannot be read, or was not written by --csv of this version");
  std::vector<Row> rows;
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::string cell;
    for_each_column(rows.emplace_back(), [&](auto& value) {
      std::getline(cells, cell, ',');
      parse(cell, value);
    });
  }
  return rows;
}

std::string report(const Heading& heading, const std::vector<Row>& rows) { return Report(heading, rows).text(); }

}  // namespace polymio::bench
