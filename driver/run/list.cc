// Reads a file of driver lines and runs them in order. Flags of the command line are the defaults of the lines.
// SPDX-License-Identifier: MIT
#include "driver/run/list.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cctype>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "driver/base/files.h"
#include "driver/base/progress.h"

namespace polymio::driver {
namespace {

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

std::string read_text(const std::string& path) {
  Descriptor file;
  const std::string why = open_regular(path, O_RDONLY, file);
  if (why.starts_with("it is ")) {
    throw ArgError(fmt::format("--from-list: '{}' {}, allowed: a file with one problem per line", path, why.substr(3)));
  }
  if (!why.empty()) throw ArgError(fmt::format("--from-list: cannot open '{}': {}", path, why));
  return read_whole(path);
}

// Which lines of a list are used.
struct LineFilter {
  std::function<bool(const Primitive&)> takes;
  std::string noun;          // of what they have
  const char *others, *why;  // what the skipped ones are of, and what to do about them
};

LineFilter only(const Primitive& primitive) {
  std::string noun(primitive.label);
  for (char& c : noun) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return {[&](const Primitive& found) { return found.bases.primitive == primitive.bases.primitive; }, noun,
          "other primitives", "their own commands run them, as in 'pool --from-list'"};
}

// Calls `use` with the number, the primitive and the arguments of each selected line. ArgErrors get the line's number.
void for_each_line(const std::string& path, const LineFilter& filter,
                   const std::function<void(std::int64_t, const Primitive&, const std::vector<std::string>&)>& use) {
  std::istringstream file(read_text(path));
  std::int64_t number = 0, others = 0, used = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.size() > kLongestLine) {
      throw ArgError(fmt::format("{}:{}: a line of {} bytes, allowed: {}", path, number, line.size(), kLongestLine));
    }
    const std::vector<std::string> arguments = split_line(line.substr(0, line.find(" #")));
    if (arguments.empty() || arguments[0].starts_with('#')) continue;
    const Primitive* const found = find_primitive(arguments[0]);
    if (found != nullptr && !filter.takes(*found)) {
      ++others;
      continue;
    }
    ++used;
    try {
      if (found == nullptr) {
        throw ArgError(fmt::format("Incorrect BaseArg '{}', allowed: {}", arguments[0], all_bases()));
      }
      use(number, *found, arguments);
    } catch (const ArgError& error) {
      throw ArgError(fmt::format("{}:{}: {}", path, number, error.what()));
    }
  }
  if (others > 0) {
    fmt::print(stderr, "{}: {} of {} {} skipped: {}\n", path, others == 1 ? "1 line" : fmt::format("{} lines", others),
               filter.others, others == 1 ? "is" : "are", filter.why);
  }
  if (used == 0) throw ArgError(fmt::format("'{}' has no {}, allowed: one problem per line", path, filter.noun));
}

std::size_t count_directions(const Operation& operation) {
  return static_cast<std::size_t>(__builtin_popcountll(static_cast<unsigned long long>(operation.directions())));
}

// `outer` may be null.
std::unique_ptr<Operation> operation_of(const Primitive& primitive, const std::vector<std::string>& arguments,
                                        const Operation* outer) {
  auto operation = primitive.make(arguments[0]);
  if (outer != nullptr) operation->inherit(*outer);
  parse_flags({arguments[0], "", ""}, operation->flags(), std::span(arguments).subspan(1));
  operation->check_flags();
  return operation;
}

// The operations of the list of `outer`.
std::vector<std::unique_ptr<Operation>> operations_of(const Operation& outer, const Primitive& primitive) {
  std::vector<std::unique_ptr<Operation>> all;
  for_each_line(outer.run_args().from_list, only(primitive),
                [&](std::int64_t, const Primitive& found, const std::vector<std::string>& arguments) {
                  all.push_back(operation_of(found, arguments, &outer));
                });
  return all;
}

}  // namespace

std::vector<ListItem> read_list(const std::string& path) {
  std::vector<ListItem> items;
  for_each_line(path, only(*find_primitive("conv")),
                [&](std::int64_t number, const Primitive&, const std::vector<std::string>& arguments) {
                  items.push_back({number, parse(arguments)});
                });
  return items;
}

std::vector<std::unique_ptr<Operation>> read_operations(const std::string& path) {
  const LineFilter with_solvers{[](const Primitive& primitive) { return !primitive.one_way; },
                                "problem of a primitive with solvers", "primitives without solvers",
                                "there is nothing to choose"};
  std::vector<std::unique_ptr<Operation>> all;
  for_each_line(path, with_solvers,
                [&](std::int64_t, const Primitive& primitive, const std::vector<std::string>& arguments) {
                  all.push_back(operation_of(primitive, arguments, nullptr));
                });
  return all;
}

double cost(const ConvArgs& args) {
  double size = 1;
  for (const std::int64_t n : input_lens(args)) size *= static_cast<double>(n);
  for (const std::int64_t n : weight_lens(args)) size *= static_cast<double>(n);
  return 1e-2 + size * 1e-9 / static_cast<double>(args.in_channels);
}

int run_list(const Operation& outer, const Primitive& primitive) {
  const RunArgs& args = outer.run_args();
  const auto operations = operations_of(outer, primitive);
  const Session session(args.device);
  double total = 0;
  for (const auto& item : operations) total += item->cost() * static_cast<double>(count_directions(*item));
  Progress progress(fmt::format("{} problems", operations.size()), total);
  if (!args.json) progress.line(row_header());
  Totals totals;
  std::vector<Result> results;
  for (const auto& item : operations) {
    for (const Direction direction : kDirections) {
      if ((item->directions() & direction) == 0) continue;
      for (Result& result : item->run(session, direction, false)) {
        totals.add(result);
        progress.line(args.json ? to_json(result).dump() : row(result));
        if (!result.ok() && !result.verify_text.empty()) progress.line("  " + result.verify_text);
        results.push_back(std::move(result));
      }
      progress.advance(item->cost());
    }
  }
  if (!args.json) {
    progress.line(
        fmt::format("{} problems, {} runs, {} failed; {:.3f} GFLOP in {:.3f} ms: {:.1f} "
                    "GFLOP/s",
                    operations.size(), totals.runs, totals.failed, totals.gflop, totals.ms,
                    totals.ms > 0 ? totals.gflop / totals.ms * 1e3 : 0));
  }
  outer.report(session, args.from_list, results);
  return totals.failed == 0 ? 0 : 1;
}

}  // namespace polymio::driver
