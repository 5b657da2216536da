// MIOpenDriver: runs convolutions and activations through the public C API.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driver/run/activ.h"
#include "driver/run/activ_args.h"
#include "driver/run/compare.h"
#include "driver/run/conv_run.h"
#include "driver/run/conv_args.h"
#include "driver/tune/dataset.h"
#include "driver/db/db.h"
#include "driver/report/demo.h"
#include "driver/run/devices.h"
#include "driver/db/doctor.h"
#include "driver/run/list.h"
#include "driver/tune/tradeoff.h"
#include "driver/report/report.h"
#include "driver/tune/tune.h"

namespace polymio::driver {
namespace {

int print_version() {
  std::size_t major = 0, minor = 0, patch = 0;
  check(miopenGetVersion(&major, &minor, &patch), "miopenGetVersion");
  fmt::print("MIOpen (version: {}.{}.{})\n", major, minor, patch);
  return 0;
}

int run_problem(const ConvArgs& args) {
  const Session session(args.device);
  std::vector<Result> results;
  const bool ok = run_conv(session, args, results);
  if (!args.report.empty()) {
    ReportInfo info;
    info.title = "Convolution";
    write_report(session, info, results, args.report);
  }
  return ok ? 0 : 1;
}

constexpr std::pair<std::string_view, int (*)(std::span<const std::string>)> kCommands[] = {
    {"dataset", run_dataset}, {"db", run_db},     {"devices", run_devices}, {"doctor", run_doctor},
    {"options", run_options}, {"tune", run_tune}, {"warm", run_warm}};

// Runs a command that is not a base argument; nullopt if `arguments[0]` names none.
std::optional<int> run_command(std::span<const std::string> arguments) {
  for (const auto& [name, command] : kCommands) {
    if (arguments[0] != name) continue;
    try {
      return command(arguments.subspan(1));
    } catch (const ArgError& error) {
      fmt::print(stderr, "{}\n", error.what());
      return 2;
    }
  }
  return std::nullopt;
}

// The convolution parser knows only its own base arguments; this message lists all base arguments and commands.
void check_base(const std::string& argument) {
  const auto& bases = base_args();
  if (std::find(bases.begin(), bases.end(), argument) != bases.end()) return;
  std::string commands;
  for (const auto& [name, command] : kCommands) commands += fmt::format(" {}", name);
  throw ArgError(fmt::format("Incorrect BaseArg '{}', allowed: {} {}{}", argument, fmt::join(bases, " "), activ_bases(),
                             commands));
}

int run(std::vector<std::string> arguments) {
  if (!arguments.empty() && (arguments[0] == "--version" || arguments[0] == "-v")) return print_version();
  if (arguments.empty() || arguments[0] == "-h" || arguments[0] == "-?" || arguments[0] == "--help") {
    fmt::print("{}Activation functions have their own flags: MIOpenDriver activ --help\n", help_text(activ_bases()));
    return arguments.empty() ? 1 : 0;
  }
  if (const auto status = run_command(arguments)) return *status;
  if (is_activ(arguments[0])) return run_activ(arguments);
  if (arguments[0].starts_with('-')) arguments.insert(arguments.begin(), "conv");
  check_base(arguments[0]);
  const ConvArgs args = parse(arguments);
  if (args.help) {
    fmt::print("{}", help_text(activ_bases()));
    return 0;
  }
  if (args.base == "demo") return run_demo(args);
  if (!args.compare.empty()) return run_compare(args);
  if (!args.from_list.empty()) return run_list(args);
  if (!args.json) fmt::print("MIOpenDriver {}\n", fmt::join(arguments, " "));
  return run_problem(args);
}

}  // namespace
}  // namespace polymio::driver

int main(int argc, char** argv) {
  try {
    return polymio::driver::run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    std::fflush(stdout);
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
