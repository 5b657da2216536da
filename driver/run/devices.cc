// Prints polymioGetDeviceInfo, polymioGetMatrixLibrary, polymioGetDeviceAbsence, polymioWarm and polymioWarmProblems as
// tables.
// SPDX-License-Identifier: MIT
#include "driver/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "driver/base/library.h"
#include "driver/base/flags.h"
#include "driver/run/list.h"

namespace polymio::driver {
namespace {

std::vector<polymioDeviceInfo_t> all_devices() {
  int count = 0;
  check(polymioGetDeviceCount(&count), "polymioGetDeviceCount");
  std::vector<polymioDeviceInfo_t> devices(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    auto& info = devices[static_cast<std::size_t>(i)];
    info.size = sizeof(info);
    check(polymioGetDeviceInfo(i, &info), "polymioGetDeviceInfo");
  }
  return devices;
}

/// Those of a list, in each of their directions.
std::vector<OwnedProblem> problems_of(const std::string& list) {
  std::vector<OwnedProblem> problems;
  for (const auto& operation : read_operations(list))
    for (const Direction direction : kDirections)
      if ((operation->directions() & direction) != 0)
        std::ranges::move(operation->problems(direction), std::back_inserter(problems));
  return problems;
}

}  // namespace

int run_devices(std::span<const std::string> arguments) {
  constexpr Command kCommand{"devices", "", "Lists the devices, and why a kind of device is absent."};
  if (!parse_or_help(kCommand, {}, arguments)) return 0;
  int index = 0;
  for (const polymioDeviceInfo_t& info : all_devices()) {
    const char* library = nullptr;
    check(polymioGetMatrixLibrary(index++, &library), "polymioGetMatrixLibrary");
    fmt::print("{:<10} {}, {} units, {:.1f} GiB, class {}{}{}\n", info.name, info.model, info.units,
               static_cast<double>(info.memory_bytes) / (1 << 30), info.architecture, *library == '\0' ? "" : ", ",
               library);
  }
  for (const auto& [kind, name] : {std::pair{polymioDeviceCuda, "cuda"}, std::pair{polymioDeviceHip, "hip"},
                                   std::pair{polymioDeviceOpenCl, "opencl"}}) {
    const char* reason = nullptr;
    check(polymioGetDeviceAbsence(kind, &reason), "polymioGetDeviceAbsence");
    if (*reason != '\0') fmt::print("{:<10} none: {}\n", name, reason);
  }
  return 0;
}

int run_warm(std::span<const std::string> arguments) {
  constexpr Command kCommand{"warm", "",
                             "Compiles GPU programs into the kernel cache: those that serve nearly every convolution,\n"
                             "or those of the problems of a list."};
  static constexpr Choice kPoints[] = {{"default", 0}, {"all", 1}};
  std::vector<std::string> names;
  std::string list, solver;
  int points = 0;
  const Flags flags = {
      {"", "device", Texts{&names, "NAME"},
       "a device (cuda:0), or an architecture (cuda-sm90) that need not be there;\n"
       "may be repeated; default: every GPU"},
      {"", "problems", Text{&list, "FILE"}, "file with one problem per line, as for --from-list"},
      {"", "solver", Text{&solver, "NAME"}, "with --problems: solvers whose names begin so (default: all)"},
      {"", "points", Name{&points, kPoints}, "with --problems: tune points"}};
  if (!parse_or_help(kCommand, flags, arguments)) return 0;
  if (list.empty() && (!solver.empty() || points != 0))
    throw ArgError("--problems is missing: --solver and --points choose programs of problems");
  if (names.empty())
    for (const polymioDeviceInfo_t& info : all_devices())
      if (info.kind != polymioDeviceCpu) names.emplace_back(info.name);
  if (names.empty()) throw RunError("there is no GPU; 'MIOpenDriver devices' says why");
  const std::vector<OwnedProblem> problems = list.empty() ? std::vector<OwnedProblem>() : problems_of(list);
  std::vector<miopenProblem_t> given;
  for (const OwnedProblem& p : problems) given.push_back(p.get());
  for (const std::string& name : names) {
    const auto start = std::chrono::steady_clock::now();
    std::size_t programs = 0, compiled = 0;
    if (list.empty())
      check(polymioWarm(name.c_str(), &programs, &compiled), "polymioWarm");
    else
      check(polymioWarmProblems(name.c_str(), given.data(), given.size(), solver.empty() ? nullptr : solver.c_str(),
                                points, &programs, &compiled),
            "polymioWarmProblems");
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    fmt::print("{:<10} {} programs, {} compiled in {:.1f} s\n", name, programs, compiled, took.count());
  }
  return 0;
}

}  // namespace polymio::driver
