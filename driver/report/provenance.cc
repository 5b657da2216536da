// SPDX-License-Identifier: MIT
#include "driver/report/provenance.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>

#include "polymio_driver_commit.h"

namespace polymio::driver {
namespace {

// Quoted for a shell if needed.
std::string quoted(const std::string& argument) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("-_=+,.:/@%#!^~").find(static_cast<char>(c)) != std::string::npos;
  };
  if (!argument.empty() && std::all_of(argument.begin(), argument.end(), is_plain)) return argument;
  std::string text = "'";
  for (const char c : argument) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// Folders of files are left out: they do not change what is computed.
std::string settings() {
  std::string text;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string setting = *entry;
    if (!setting.starts_with("MIOPEN_") && !setting.starts_with("POLYMIO_")) continue;
    const std::size_t equals = setting.find('=');
    const std::string name = setting.substr(0, equals);
    if (equals == std::string::npos || name.ends_with("_PATH") || name.ends_with("_DIR")) continue;
    text += fmt::format("{}={} ", name, quoted(setting.substr(equals + 1)));
  }
  return text;
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::string text = settings() + "MIOpenDriver";
  std::size_t at = all.find('\0');  // the program
  while (at != std::string::npos && at + 1 < all.size()) {
    const std::size_t end = all.find('\0', at + 1);
    text += ' ' + quoted(all.substr(at + 1, end - at - 1));
    at = end;
  }
  return text;
}

Machine describe(const Session& session) {
  const polymioDeviceInfo_t& device = session.device;
  polymioDevicePeak_t peak{};
  peak.size = sizeof(peak);
  check(polymioMeasureDevice(session.get(), &peak), "polymioMeasureDevice");
  Machine machine;
  machine.device = device.name;
  machine.model = device.model;
  machine.architecture = device.architecture;
  machine.units = device.units;
  machine.threads = peak.threads;
  machine.memory_bytes = static_cast<double>(device.memory_bytes);
  std::copy(std::begin(device.cache_bytes), std::end(device.cache_bytes), machine.cache_bytes);
  machine.fp32_gflops = peak.fp32_gflops;
  machine.bandwidth_gbytes = peak.bandwidth_gbytes;
  if (device.kind != polymioDeviceCpu) return machine;
  std::getline(std::ifstream("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"), machine.governor);
  if (const double ghz = measure_clock(); ghz > 0) machine.clock_ghz.push_back(ghz);
  return machine;
}

}  // namespace

double measure_clock() {
#if defined(__x86_64__)
  constexpr int kSteps = 8000;
  constexpr double kCycles = kSteps * 8 * 3.0;  // a 64-bit multiplication has a latency of three cycles
  using Clock = std::chrono::steady_clock;
  double best = 0;
  std::uint64_t x = 3;
  for (int attempt = 0; attempt < 40; ++attempt) {  // the fastest was not interrupted
    const auto start = Clock::now();
    for (int i = 0; i < kSteps; ++i) {
      asm volatile(
          "imul %0, %0\n imul %0, %0\n imul %0, %0\n imul %0, %0\n"
          "imul %0, %0\n imul %0, %0\n imul %0, %0\n imul %0, %0"
          : "+r"(x));
    }
    best = std::max(best, kCycles / std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  }
  return best;
#else
  return 0;
#endif
}

Run begin_run(const Session& session, const std::string& title) {
  Run run;
  run.title = title;
  run.command = command_line();
  run.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                         fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
  std::size_t major = 0, minor = 0, patch = 0;
  check(polymioGetVersion(&major, &minor, &patch), "polymioGetVersion");
  run.version = fmt::format("{}.{}.{}", major, minor, patch);
  run.commit = kCommit;
  run.machine = describe(session);
  return run;
}

}  // namespace polymio::driver
