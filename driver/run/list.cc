// Reads a file of driver lines and runs them in order. Flags of the command line are the defaults of the lines.
// SPDX-License-Identifier: MIT
#include "driver/run/list.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "driver/run/activ_args.h"
#include "driver/run/conv_run.h"
#include "driver/base/files.h"
#include "driver/base/progress.h"
#include "driver/report/report.h"

namespace polymio::driver {
namespace {

// The run control of the command line, with the shape defaults of an empty line.
ConvArgs line_defaults(const ConvArgs& outer) {
  ConvArgs defaults;
  defaults.iterations = outer.iterations;
  defaults.verify = outer.verify;
  defaults.search = outer.search;
  defaults.budget = outer.budget;
  defaults.solution = outer.solution;
  defaults.verification_cache = outer.verification_cache;
  defaults.gpu_alloc = outer.gpu_alloc;
  defaults.all_solvers = outer.all_solvers;
  defaults.math = outer.math;
  defaults.deterministic = outer.deterministic;
  defaults.directions = outer.directions;
  return defaults;
}

int count_directions(const ConvArgs& args) {
  return __builtin_popcountll(static_cast<unsigned long long>(direction_mask(args)));
}

struct Totals {
  std::int64_t runs = 0, failed = 0;
  double gflop = 0, ms = 0;

  void add(const Result& result) {
    ++runs;
    if (!result.ok()) ++failed;
    gflop += result.gflop;
    ms += result.ms;
  }
};

// Whether the line is of a primitive other than convolution; POLYMIO_RECORD writes these too.
bool is_other(std::string_view line) {
  std::istringstream arguments{std::string(line)};
  std::string base;
  arguments >> base;
  if (base.ends_with("MIOpenDriver")) arguments >> base;
  return is_activ(base);
}

std::string read_text(const std::string& path) {
  Descriptor file;
  const std::string why = open_regular(path, O_RDONLY, file);
  if (why.starts_with("it is ")) {
    throw ArgError(fmt::format("--from-list: '{}' {}, allowed: a file with one problem per line", path, why.substr(3)));
  }
  if (!why.empty()) throw ArgError(fmt::format("--from-list: cannot open '{}': {}", path, why));
  return read_whole(path);
}

}  // namespace

std::vector<ListItem> read_list(const std::string& path, const ConvArgs& defaults) {
  std::istringstream file(read_text(path));
  std::vector<ListItem> items;
  std::int64_t number = 0, others = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.size() > kLongestLine) {
      throw ArgError(fmt::format("{}:{}: a line of {} bytes, allowed: {}", path, number, line.size(), kLongestLine));
    }
    line = line.substr(0, line.find(" #"));
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos || line[first] == '#') continue;
    if (is_other(line)) {
      ++others;
      continue;
    }
    try {
      items.push_back({number, parse_line(line, defaults)});
    } catch (const ArgError& error) {
      throw ArgError(fmt::format("{}:{}: {}", path, number, error.what()));
    }
  }
  if (others > 0) {
    fmt::print(stderr, "{}: {} of other primitives {} skipped\n", path,
               others == 1 ? "1 line" : fmt::format("{} lines", others), others == 1 ? "is" : "are");
  }
  if (items.empty()) throw ArgError(fmt::format("'{}' has no convolution, allowed: one problem per line", path));
  return items;
}

double cost(const ConvArgs& args) {
  double size = 1;
  for (const std::int64_t n : input_lens(args)) size *= static_cast<double>(n);
  for (const std::int64_t n : weight_lens(args)) size *= static_cast<double>(n);
  return 1e-2 + size * 1e-9 / static_cast<double>(args.in_channels);
}

int run_list(const ConvArgs& args) {
  const std::vector<ListItem> items = read_list(args.from_list, line_defaults(args));
  const Session session(args.device);
  double total = 0;
  for (const ListItem& item : items) total += cost(item.args) * count_directions(item.args);
  Progress progress(fmt::format("{} problems", items.size()), total);
  RunOptions options;
  options.print = false;
  options.explain = args.explain || !args.report.empty();
  if (!args.json) progress.line(row_header(false, 0));
  Totals totals;
  std::vector<Result> results;
  for (const ListItem& item : items) {
    for (const Direction direction : {kForward, kBackwardData, kBackwardWeights}) {
      if ((direction_mask(item.args) & direction) == 0) continue;
      for (Result& result : run_direction(session, item.args, direction, options)) {
        totals.add(result);
        progress.line(args.json ? to_json(result).dump() : row(result, 0));
        if (!result.ok() && !result.verify_text.empty()) progress.line("  " + result.verify_text);
        if (!args.report.empty()) results.push_back(std::move(result));
      }
      progress.advance(cost(item.args));
    }
  }
  if (!args.json) {
    progress.line(
        fmt::format("{} problems, {} runs, {} failed; {:.3f} GFLOP in {:.3f} ms: {:.1f} "
                    "GFLOP/s",
                    items.size(), totals.runs, totals.failed, totals.gflop, totals.ms,
                    totals.ms > 0 ? totals.gflop / totals.ms * 1e3 : 0));
  }
  if (!args.report.empty()) {
    ReportInfo info;
    info.title = args.from_list;
    write_report(session, info, results, args.report);
  }
  return totals.failed == 0 ? 0 : 1;
}

}  // namespace polymio::driver
