// The page of the report: facts, totals, charts, tables of solvers. Everything is inline.
// SPDX-License-Identifier: MIT
#include "driver/report/report.h"

#include <fmt/format.h>

#include <limits>
#include <set>
#include <sstream>

#include "driver/base/files.h"
#include "driver/run/conv_problem.h"
#include "driver/report/chart.h"
#include "driver/report/style.h"

namespace polymio::driver {
namespace {

std::string fact(const std::string& name, const std::string& value) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape_html(name), escape_html(value));
}

std::string facts(const Session& session, const ReportInfo& info, const polymioDevicePeak_t& peak) {
  const polymioDeviceInfo_t& device = session.device;
  std::string html = "<dl class=facts>\n";
  html += fact("Device", fmt::format("{} \u2014 {}", device.name, device.model));
  html += fact("Architecture", device.architecture);
  html += fact("Threads", std::to_string(peak.threads));
  html += fact("Measured fp32 peak", fmt::format("{:.1f} GFLOP/s", peak.fp32_gflops));
  html += fact("Measured bandwidth", fmt::format("{:.1f} GB/s", peak.bandwidth_gbytes));
  html += fact("Memory", bytes_text(static_cast<double>(device.memory_bytes)));
  html += fact("Caches", fmt::format("{} / {} / {}", bytes_text(static_cast<double>(device.cache_bytes[0])),
                                     bytes_text(static_cast<double>(device.cache_bytes[1])),
                                     bytes_text(static_cast<double>(device.cache_bytes[2]))));
  std::size_t major = 0, minor = 0, patch = 0;
  check(polymioGetVersion(&major, &minor, &patch), "polymioGetVersion");
  html += fact("Library", fmt::format("Polymio {}.{}.{}", major, minor, patch));
  for (const auto& [name, value] : info.facts) html += fact(name, value);
  return html + "</dl>\n";
}

// 1234567 as "1 234 567", with non-breaking spaces.
std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, "\u202f");
  return digits;
}

std::string tile(Direction direction, const std::vector<Result>& results, double peak) {
  double gflop = 0, ms = 0;
  std::size_t count = 0;
  for (const Result& result : results) {
    if (result.direction != direction || !result.error.empty()) continue;
    gflop += result.gflop;
    ms += result.ms;
    ++count;
  }
  if (count == 0) return "";
  const double rate = ms > 0 ? gflop / ms * 1e3 : 0;
  return fmt::format(
      "<div class='tile t{}'><h3>{}</h3><p class=big>{:.4g} <small>ms</small></p>"
      "<p>{:.1f} GFLOP/s, {:.0f}% of peak</p><p class=dim>{} runs, {:.4g} GFLOP</p></div>\n",
      static_cast<int>(direction), direction_title(direction), ms, rate, 100 * rate / peak, count, gflop);
}

std::string tiles(const std::vector<Result>& results, double peak) {
  std::string html = "<div class=tiles>\n";
  for (const Direction direction : kDirections) html += tile(direction, results, peak);
  std::size_t verified = 0, wrong = 0;
  std::int64_t outputs = 0;
  for (const Result& result : results) {
    verified += result.ok() && result.checked ? 1 : 0;
    wrong += result.ok() ? 0 : 1;
    outputs += result.outputs_checked;
  }
  html += fmt::format(
      "<div class='tile {}'><h3>Verified</h3><p class=big>{} <small>of {}</small></p>"
      "<p>{} wrong or failed</p><p class=dim>{} outputs against double</p></div>\n",
      wrong == 0 ? "good" : "wrong", verified, results.size(), wrong, grouped(outputs));
  return html + "</div>\n";
}

std::string check_cell(const Result& result) {
  if (!result.error.empty()) {
    return fmt::format("<td class=bad>{}</td>", escape_html(result.error));
  }
  if (!result.checked) return "<td class=dim>no</td>";
  return fmt::format("<td class={} title=\"{}\">{}</td>", result.verified ? "ok" : "bad",
                     escape_html(result.verify_text),
                     result.outputs_checked == result.outputs
                         ? fmt::format("{} all", result.verified ? "\u2713" : "\u2717")
                         : fmt::format("{} {}", result.verified ? "\u2713" : "\u2717", result.outputs_checked));
}

std::string results_table(const std::vector<Result>& results, double peak) {
  std::string html =
      "<div class=scroll><table><thead><tr><th>Layer</th><th>Direction</th><th>Algorithm</th>"
      "<th>Solver</th><th class=num>ms</th><th class=num>GFLOP/s</th><th class=num>% peak</th>"
      "<th class=num>Workspace</th><th>Check</th></tr></thead><tbody>\n";
  std::string last;
  int place = 0;
  for (const Result& result : results) {
    const std::string name = row_name(result);
    // A group of rows: the layer, then its shape, then nothing.
    place = name == last ? place + 1 : 0;
    const std::string label = place == 0 ? escape_html(name)
                              : place == 1 && !result.layer.empty()
                                  ? "<span class=dim>" + shape_text(result.line, true) + "</span>"
                                  : "";
    html += fmt::format(
        "<tr{}><td title=\"{}\">{}</td><td><i class=b{}></i>{}</td><td>{}</td><td>{}</td>"
        "<td class=num>{:.3f}</td><td class=num>{:.1f}</td><td class=num>{:.0f}</td>"
        "<td class=num>{}</td>{}</tr>\n",
        place == 0 ? " class=first" : "", escape_html(result.line), label, static_cast<int>(result.direction),
        direction_title(result.direction), result.error.empty() ? algorithm_name(result.algorithm) : "",
        result.error.empty() ? escape_html(result.solver) : "", result.ms, result.gflops(),
        100 * result.gflops() / peak, bytes_text(static_cast<double>(result.workspace)), check_cell(result));
    last = name;
  }
  return html + "</tbody></table></div>\n";
}

std::string time_cell(const nlohmann::json& solver, const char* key) {
  if (!solver.contains(key) || !solver[key].is_number()) return "<td class='num dim'>\u2013</td>";
  return fmt::format("<td class=num>{:.1f}</td>", solver[key].get<double>());
}

std::string solver_row(const nlohmann::json& solver, const std::string& chosen, double best) {
  const std::string name = solver.value("name", "");
  std::string html = fmt::format("<tr{}><td>{}</td><td>{}</td>", name == chosen ? " class=chosen" : "",
                                 escape_html(name), escape_html(solver.value("algorithm", "")));
  html += time_cell(solver, "measured_us") + time_cell(solver, "predicted_us");
  html += fmt::format("<td class=num>{}</td><td class=num>{}</td><td class=dim>{}</td></tr>\n",
                      name == chosen ? "chosen" : fmt::format("{:.2f}\u00d7", time_of(solver) / best),
                      bytes_text(solver.value("workspace", 0.0)), escape_html(solver.value("tune_point", "")));
  return html;
}

// One expandable entry: every solver for one problem and direction.
std::string explanation(const Result& result) {
  const Solvers solvers = solvers_of(result.explanation);
  double best = std::numeric_limits<double>::infinity();
  for (const nlohmann::json& solver : solvers.usable) {
    if (solver.value("name", "") == result.solver) best = time_of(solver);
  }
  std::string runner_up = "no other applies";
  for (const nlohmann::json& solver : solvers.usable) {
    if (solver.value("name", "") == result.solver) continue;
    runner_up = fmt::format("then {} at {:.2f}\u00d7 its time", solver.value("name", ""), time_of(solver) / best);
    break;
  }
  std::string html = fmt::format(
      "<details><summary><i class=b{}></i><b>{}</b> {}: {} <span class=dim>{}</span>"
      "</summary>\n<code>{}</code>\n<div class=scroll><table><thead><tr><th>Solver</th>"
      "<th>Algorithm</th><th class=num>Measured \u00b5s</th><th class=num>Predicted \u00b5s</th>"
      "<th class=num>Against chosen</th><th class=num>Workspace</th><th>Tune "
      "point</th></tr></thead>"
      "<tbody>\n",
      static_cast<int>(result.direction), escape_html(row_name(result)), direction_title(result.direction),
      escape_html(result.solver), escape_html(runner_up), escape_html(result.line));
  for (const nlohmann::json& solver : solvers.usable) {
    html += solver_row(solver, result.solver, best);
  }
  html += "</tbody></table></div>\n";
  for (const auto& [reason, names] : solvers.refused) {
    html += fmt::format("<p class=refused><b>{}</b> refused: {}</p>\n",
                        escape_html(fmt::format("{}", fmt::join(names, ", "))), escape_html(reason));
  }
  return html + "</details>\n";
}

std::string explanations(const std::vector<Result>& results) {
  std::string html;
  std::set<std::string> seen;
  for (const Result& result : results) {
    if (!result.explanation.is_object() || !seen.insert(result.line).second) continue;
    html += explanation(result);
  }
  if (html.empty()) return "";
  return "<h2>Runner-up solvers, and why others were refused</h2>\n<p class=dim>Each different "
         "problem once; open a line for every solver's time or reason.</p>\n" +
         html;
}

}  // namespace

polymioDevicePeak_t measure_peak(const Session& session) {
  polymioDevicePeak_t peak{};
  peak.size = sizeof(peak);
  check(polymioMeasureDevice(session.get(), &peak), "polymioMeasureDevice");
  return peak;
}

void write_report(const Session& session, const ReportInfo& info, const std::vector<Result>& results,
                  const std::string& path) {
  const polymioDevicePeak_t peak = measure_peak(session);
  const std::string title = escape_html(info.title);
  std::ostringstream file;
  file << "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n"
       << "<meta name=viewport content='width=device-width, initial-scale=1'>\n"
       << "<title>" << title << " \u2013 Polymio</title>\n<style>" << report_style()
       << "</style></head>\n<body><main>\n<header><p class=brand>Polymio convolution report</p><h1>" << title
       << "</h1>\n";
  if (!info.command.empty()) {
    file << "<p class=dim>Made by <code>" << escape_html(info.command) << "</code></p>\n";
  }
  file << "</header>\n"
       << tiles(results, peak.fp32_gflops) << facts(session, info, peak)
       << "<h2>Roofline</h2>\n<p class=dim>One point per layer and direction: how fast it ran, "
          "against what arithmetic and memory of this machine allow. Points above the memory roof "
          "found their tensors in the caches.</p>\n<figure>"
       << roofline(results, peak)
       << "</figure>\n<h2>Layers</h2>\n<p class=dim>Part of the measured peak, and time of one "
          "run.</p>\n<figure>"
       << bars(results, peak) << "</figure>\n<h2>All runs</h2>\n"
       << results_table(results, peak.fp32_gflops) << explanations(results) << "</main></body></html>\n";
  write_whole(path, file.str());
}

}  // namespace polymio::driver
