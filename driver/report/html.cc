// SPDX-License-Identifier: MIT
#include "driver/report/html.h"

#include <fmt/format.h>

#include "driver/report/style.h"

namespace polymio::driver {

std::string escape_html(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string ms_text(double ms) {
  if (ms >= 99.95) return fmt::format("{:.0f}", ms);
  if (ms >= 9.995) return fmt::format("{:.1f}", ms);
  if (ms >= 0.9995) return fmt::format("{:.2f}", ms);
  return fmt::format("{:.{}f}", ms, ms >= 0.09995 ? 3 : 4);
}

std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, "\u202f");
  return digits;
}

std::string summary_of(const Run& run) {
  const Machine& machine = run.machine;
  return fmt::format("{} ({}), {}, Polymio {}{}, {}", machine.device, machine.model,
                     machine.threads == 1 ? "1 thread" : fmt::format("{} threads", machine.threads), run.version,
                     run.commit.empty() ? "" : fmt::format(" at {}", run.commit), run.date.substr(0, 10));
}

std::vector<std::pair<std::string, std::string>> provenance_of(const Run& run) {
  const Machine& machine = run.machine;
  std::string clock;
  for (const double ghz : machine.clock_ghz) clock += fmt::format("{}{:.2f}", clock.empty() ? "" : ", then ", ghz);
  clock = clock.empty() ? "not known for this device" : clock + " GHz, measured";
  if (!machine.governor.empty()) clock += fmt::format("; governor {}", machine.governor);
  std::vector<std::pair<std::string, std::string>> all = {
      {"Command", run.command},
      {"Date", run.date},
      {"Library", fmt::format("Polymio {}", run.version)},
      {"Commit", run.commit.empty() ? "unknown" : run.commit},
      {"Device", machine.device},
      {"Model", machine.model},
      {"Architecture", machine.architecture},
      {"Threads", fmt::format("{} of {}", machine.threads, machine.units)},
      {"Clock", clock},
      {"Peak, fp32", fmt::format("{:.1f} GFLOP/s, measured", machine.fp32_gflops)},
      {"Bandwidth", fmt::format("{:.1f} GB/s, measured", machine.bandwidth_gbytes)},
      {"Memory", bytes_text(machine.memory_bytes)},
      {"Caches", fmt::format("{} / {} / {}", bytes_text(machine.cache_bytes[0]), bytes_text(machine.cache_bytes[1]),
                             bytes_text(machine.cache_bytes[2]))}};
  all.insert(all.end(), run.notes.begin(), run.notes.end());
  return all;
}

std::string problem_html(const Measurement& measurement) {
  const std::string line = escape_html(measurement.result.line);
  const std::string shape = escape_html(shape_text(measurement.result.line, true));
  if (measurement.layers.empty()) return fmt::format("<span title=\"{}\">{}</span>", line, shape);
  std::string all;
  for (const std::string& layer : measurement.layers) all += (all.empty() ? "" : ", ") + escape_html(layer);
  return fmt::format("<span title=\"{}\">{}</span> <small title=\"{}\">{}</small>", all,
                     escape_html(name_of(measurement)), line, shape);
}

std::string direction_html(Direction direction) {
  return fmt::format("<i class=b{}></i>{}", static_cast<int>(direction), direction_title(direction));
}

std::string page_of(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n"
      "<meta name=viewport content='width=device-width, initial-scale=1'>\n"
      "<title>{} \u2013 Polymio</title>\n<style>{}</style></head>\n<body><main>\n{}</main></body></html>\n",
      escape_html(title), report_style(), body);
}

}  // namespace polymio::driver
