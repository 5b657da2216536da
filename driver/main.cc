// MIOpenDriver: runs convolutions through the public C API.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "driver/conv.h"
#include "driver/conv_args.h"
#include "driver/demo.h"
#include "driver/list.h"
#include "driver/report.h"

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

int run(std::vector<std::string> words) {
  if (!words.empty() && (words[0] == "--version" || words[0] == "-v")) return print_version();
  if (words.empty() || words[0] == "-h" || words[0] == "-?" || words[0] == "--help") {
    fmt::print("{}", help_text());
    return words.empty() ? 1 : 0;
  }
  if (words[0].starts_with('-')) words.insert(words.begin(), "conv");
  const ConvArgs args = parse(words);
  if (args.help) {
    fmt::print("{}", help_text());
    return 0;
  }
  if (args.base == "demo") return run_demo(args);
  if (!args.from_list.empty()) return run_list(args);
  if (!args.json) fmt::print("MIOpenDriver {}\n", fmt::join(words, " "));
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
