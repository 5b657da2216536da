// Prints polymioGetOptions as a table or as JSON.
// SPDX-License-Identifier: MIT
#include "driver/commands.h"

#include <fmt/format.h>

#include "driver/run/conv_calls.h"
#include "driver/run/operation.h"
#include "driver/run/result.h"

namespace polymio::driver {
namespace {

const char* source_name(polymioSource_t source) {
  switch (source) {
    case polymioSourceEstimate: return "estimate";
    case polymioSourceModel: return "model";
    case polymioSourceNeighbour: return "neighbour";
    case polymioSourceMeasured: return "measured";
  }
  return "unknown";
}

std::vector<polymioOption_t> options_of(const Session& session, const Problem& problem) {
  const OwnedProblem owner = make_problem(problem);
  std::size_t count = 0;
  check(polymioGetOptions(session.get(), owner.get(), nullptr, &count), "polymioGetOptions");
  std::vector<polymioOption_t> options(count);
  for (polymioOption_t& option : options) option.size = sizeof(option);
  check(polymioGetOptions(session.get(), owner.get(), options.data(), &count), "polymioGetOptions");
  options.resize(std::min(count, options.size()));
  return options;
}

void print_table(const Problem& problem, const std::vector<polymioOption_t>& options) {
  fmt::print("{}\n{:>12} {:>10} {:<10} {:>5} {}\n", problem.line(), "workspace", "ms", "source", "id", "solver");
  for (const polymioOption_t& option : options) {
    fmt::print("{:>12} {:>10.4g} {:<10} {:>5} {}\n", bytes_text(static_cast<double>(option.workspace_size)),
               option.time, source_name(option.source), option.solution_id, solution_name(option.solution_id));
  }
}

void print_json(const Problem& problem, const std::vector<polymioOption_t>& options) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const polymioOption_t& option : options) {
    rows.push_back({{"workspace_bytes", option.workspace_size},
                    {"ms", option.time},
                    {"source", source_name(option.source)},
                    {"id", option.solution_id},
                    {"solver", solution_name(option.solution_id)}});
  }
  fmt::print("{}\n", nlohmann::ordered_json{{"problem", problem.line()}, {"options", rows}}.dump());
}

}  // namespace

int run_options(std::span<const std::string> arguments) {
  constexpr Command kCommand{"options", "PROBLEM",
                             "Lists for a problem, given as 'conv -n ...', the solvers that no other one\n"
                             "beats in both time and workspace. Nothing is measured. Flags are those of\n"
                             "conv, as --device and --json."};
  const auto base = find_convolution(kCommand.name, arguments);
  if (base != arguments.begin() || arguments.empty()) {
    if (parse_or_help(kCommand, {}, {arguments.begin(), base})) fmt::print("{}", help_of(kCommand, {}));
    return 0;
  }
  const ConvArgs args = parse({arguments.begin(), arguments.end()});
  const Session session(args.device);
  for (const Direction direction : kDirections) {
    if ((direction_mask(args) & direction) == 0) continue;
    const Problem problem(args, direction);
    const auto options = options_of(session, problem);
    args.json ? print_json(problem, options) : print_table(problem, options);
  }
  return 0;
}

}  // namespace polymio::driver
