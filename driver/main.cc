// MIOpenDriver: runs primitives through the public C API, tunes them, and looks into databases.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driver/commands.h"
#include "driver/run/operation.h"

namespace polymio::driver {
namespace {

constexpr struct {
  std::string_view name;
  int (*run)(std::span<const std::string>);
} kCommands[] = {{"dataset", run_dataset}, {"db", run_db},         {"demo", run_demo},
                 {"devices", run_devices}, {"doctor", run_doctor}, {"options", run_options},
                 {"report", run_report},   {"tune", run_tune},     {"warm", run_warm}};

std::string names_of_commands(std::string_view separator) {
  std::string names;
  for (const auto& command : kCommands) names += fmt::format("{}{}", names.empty() ? "" : separator, command.name);
  return names;
}

int print_version() {
  std::size_t major = 0, minor = 0, patch = 0;
  check(miopenGetVersion(&major, &minor, &patch), "miopenGetVersion");
  fmt::print("MIOpen (version: {}.{}.{})\n", major, minor, patch);
  return 0;
}

void print_help() {
  fmt::print(
      "Usage: MIOpenDriver <base> [flags]\n"
      "       MIOpenDriver {} ...   (each has its own --help)\n"
      "       MIOpenDriver --version | --help\n"
      "Bases:\n{}"
      "A flag's value is the next argument. Exit status: 0 when everything ran and verified, 1 otherwise.\n"
      "Flags of conv (default in brackets); each base has its own --help:\n{}",
      names_of_commands(" | "), help_of_bases(), help_of(find_primitive("conv")->make("conv")->flags()));
}

int run_arguments(std::vector<std::string> arguments) {
  if (!arguments.empty() && (arguments[0] == "--version" || arguments[0] == "-v")) return print_version();
  if (arguments.empty() || arguments[0] == "-h" || arguments[0] == "-?" || arguments[0] == "--help") {
    print_help();
    return arguments.empty() ? 1 : 0;
  }
  for (const auto& command : kCommands) {
    if (arguments[0] != command.name) continue;
    try {
      return command.run(std::span(arguments).subspan(1));
    } catch (const ArgError& error) {
      fmt::print(stderr, "{}\n", error.what());
      return 2;
    }
  }
  if (arguments[0].starts_with('-')) arguments.insert(arguments.begin(), "conv");
  if (find_primitive(arguments[0]) != nullptr) return run_operation(arguments);
  throw ArgError(
      fmt::format("Incorrect BaseArg '{}', allowed: {} {}", arguments[0], all_bases(), names_of_commands(" ")));
}

}  // namespace
}  // namespace polymio::driver

int main(int argc, char** argv) {
  try {
    return polymio::driver::run_arguments(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    std::fflush(stdout);
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
