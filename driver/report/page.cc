// The page of one run: where the time goes, how far each problem is from the roof, the solvers, the provenance.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "driver/report/chart.h"
#include "driver/report/html.h"
#include "driver/report/report.h"
#include "driver/run/conv_args.h"

namespace polymio::driver {
namespace {

std::string total_tile(const std::string& name, const char* edge, const Total& total) {
  if (total.count == 0) return "";
  return fmt::format(
      "<div class='tile {}'><h3>{}</h3><p class=big>{} <small>ms</small></p>"
      "<p>{:.1f} GFLOP/s, {:.0f}% of the roof</p><p class=dim>{} runs, {:.4g} GFLOP</p></div>\n",
      edge, name, ms_text(total.ms), total.gflops(), 100 * total.roof_part(), total.count, total.gflop);
}

std::string tiles(const Run& run) {
  std::string html = "<div class=tiles>\n" + total_tile("The whole", "", total_of(run));
  for (const Direction direction : kDirections)
    html += total_tile(direction_title(direction), fmt::format("t{}", static_cast<int>(direction)).c_str(),
                       total_of(run, direction));
  const Checks checks = checks_of(run);
  html += fmt::format(
      "<div class='tile {}'><h3>Verified</h3><p class=big>{} <small>of {}</small></p>"
      "<p>{} wrong or failed</p><p class=dim>{} outputs against double</p></div>\n",
      checks.wrong == 0 ? "good" : "wrong", checks.verified, checks.runs, checks.wrong, grouped(checks.outputs));
  return html + "</div>\n";
}

// The directions of one shape.
struct Group {
  const Measurement* first = nullptr;
  std::int64_t count = 0;
  double ms[3] = {0, 0, 0};

  double total() const { return ms[0] + ms[1] + ms[2]; }
};

std::vector<Group> groups_of(const Run& run) {
  std::vector<Group> groups;
  std::map<std::string, std::size_t> places;
  for (const Measurement& measurement : run.measurements) {
    const Result& result = measurement.result;
    if (!result.error.empty()) continue;
    const auto [place, fresh] = places.emplace(problem_line(parse_line(result.line), 0), groups.size());
    if (fresh) groups.emplace_back().first = &measurement;
    Group& group = groups[place->second];
    group.count = std::max(group.count, measurement.count);
    for (std::size_t i = 0; i < 3; ++i) {
      if (result.direction == kDirections[i]) group.ms[i] += measurement.total_ms();
    }
  }
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.total() > b.total(); });
  return groups;
}

std::string legend() {
  std::string html = "<p class=legend>";
  for (const Direction direction : kDirections) html += fmt::format("<span>{}</span>", direction_html(direction));
  return html + "</p>\n";
}

std::string time_by_layer(const Run& run) {
  const std::vector<Group> groups = groups_of(run);
  const double whole = total_of(run).ms;
  if (groups.empty() || whole <= 0) return "";
  std::string html =
      "<h2>Where the time goes</h2>\n<p class=dim>Share of the whole, all directions and occurrences together; layers "
      "with equal sizes are one line.</p>\n" +
      legend() +
      "<div class=scroll><table class=cards><thead><tr><th>Layer</th><th class=num>Times</th><th class=num>Share</th>"
      "<th class=num>Sum</th><th class=num>ms</th><th class='wide half'>Forward, backward data, backward "
      "weights</th></tr>"
      "</thead><tbody>\n";
  const double longest = groups[0].total();
  double sum = 0;
  for (const Group& group : groups) {
    sum += group.total();
    std::string bar, title;
    for (std::size_t i = 0; i < 3; ++i) {
      if (group.ms[i] <= 0) continue;
      const char* const name = direction_title(kDirections[i]);
      bar += fmt::format("<b class=d{} style='width:{:.2f}%'></b>", static_cast<int>(kDirections[i]),
                         100 * group.ms[i] / longest);
      title += fmt::format("{}{} {} ms", title.empty() ? "" : ", ", name, ms_text(group.ms[i]));
    }
    html += fmt::format(
        "<tr><td class=name>{}</td><td class=num data-l=times>{}</td><td class=num data-l=share>{:.1f}%</td>"
        "<td class='num dim' data-l=sum>{:.0f}%</td><td class=num data-l=ms>{}</td>"
        "<td class=bar><div class=stack title='{}'>{}</div></td></tr>\n",
        problem_html(*group.first), group.count, 100 * group.total() / whole, 100 * sum / whole, ms_text(group.total()),
        title, bar);
  }
  return html + "</tbody></table></div>\n";
}

// The bar of a problem against the roof, on a scale where `most` is the whole width.
std::string roof_bar(const Machine& machine, const Result& result, double most) {
  const double part = roof_part(machine, result);
  const std::string reason = reason_above_roof(machine, result);
  const double below = std::min(part, 1.0);
  std::string html = fmt::format("<div class=meter><b class=d{} style='width:{:.2f}%'></b>",
                                 static_cast<int>(result.direction), 100 * below / most);
  if (part > 1) {
    html += fmt::format("<b class='over d{}' style='width:{:.2f}%'></b>", static_cast<int>(result.direction),
                        100 * (part - 1) / most);
  }
  html += fmt::format("<u style='left:{:.2f}%'></u></div><span class=part>{:.0f}%</span>", 100 / most, 100 * part);
  return html + (reason.empty() ? "" : fmt::format("<small class=reason>{}</small>", escape_html(reason)));
}

std::string check_html(const Result& result) {
  if (!result.checked) return "<td class=dim data-l=check>no</td>";
  return fmt::format("<td class={} data-l=check title=\"{}\">{} {}</td>", result.verified ? "ok" : "bad",
                     escape_html(result.verify_text), result.verified ? "\u2713" : "\u2717 wrong,",
                     result.outputs_checked == result.outputs ? "all" : grouped(result.outputs_checked));
}

std::string problem_row(const Run& run, const Measurement& measurement, double whole, double most) {
  const Result& result = measurement.result;
  std::string html = fmt::format("<tr><td class=name>{}</td><td data-l=''>{}</td><td class=num data-l=times>{}</td>",
                                 problem_html(measurement), direction_html(result.direction), measurement.count);
  if (!result.error.empty())
    return html + fmt::format("<td class=bad colspan=7>{}</td></tr>\n", escape_html(result.error));
  html += fmt::format(
      "<td class=num data-l=share>{:.1f}%</td><td class=num data-l='ms each'>{}</td>"
      "<td class=solver>{} <small>{}</small></td><td class=bar title='{}'>{}</td><td class='dim second' "
      "data-l='runner-up'>{}</td>"
      "<td class=num data-l=workspace>{}</td>{}</tr>\n",
      whole > 0 ? 100 * measurement.total_ms() / whole : 0, ms_text(result.ms), escape_html(result.solver),
      algorithm_name(result.algorithm),
      fmt::format("{:.1f} GFLOP/s; roof: {}", result.gflops(),
                  roof_of(run.machine, result).memory ? "memory" : "arithmetic"),
      roof_bar(run.machine, result, most), escape_html(runner_up_text(measurement)),
      bytes_text(static_cast<double>(result.workspace)), check_html(result));
  return html;
}

std::string problem_table(const Run& run) {
  const double whole = total_of(run).ms;
  double most = 1;
  for (const Measurement& measurement : run.measurements)
    most = std::max(most, roof_part(run.machine, measurement.result));
  std::string html =
      "<h2>Each problem against the roof</h2>\n<p class=dim>Each distinct problem once, the longest first. The roof is "
      "the least time by the definition of convolution: its operations at the measured fp32 peak or its tensors at the "
      "measured bandwidth, whichever takes longer. The line in a bar is the roof. A bar beyond it, hatched there, is "
      "possible: Winograd computes <var>m</var>\u00d7<var>m</var> outputs of an <var>r</var>\u00d7<var>r</var> filter "
      "with "
      "(<var>m</var>+<var>r</var>\u22121)\u00b2 multiplications instead of <var>m</var>\u00b2<var>r</var>\u00b2 (36 "
      "instead of 144 for "
      "4\u00d74 outputs and a 3\u00d73 filter), and caches are faster than memory. The runner-up is the fastest other "
      "solver, with its distance; a question mark says that its time is predicted.</p>\n"
      "<div class=scroll><table class=cards><thead><tr><th>Problem</th><th>Direction</th><th class=num>Times</th>"
      "<th class=num>Share</th><th class=num>ms each</th><th>Solver</th><th class=wide>Part of the roof</th>"
      "<th>Runner-up</th><th class=num>Workspace</th><th>Check</th></tr></thead><tbody>\n";
  for (const Measurement* measurement : by_time(run)) html += problem_row(run, *measurement, whole, most);
  return html + "</tbody></table></div>\n";
}

std::string us_cell(double us) {
  return us > 0 ? fmt::format("<td class=num>{:.1f}</td>", us) : "<td class='num dim'>\u2013</td>";
}

// One expandable entry: every solver for one problem.
std::string solvers_of_problem(const Measurement& measurement) {
  const Result& result = measurement.result;
  double chosen = 0;
  for (const Alternative& solver : measurement.solvers) {
    if (solver.name == result.solver) chosen = solver.us();
  }
  std::string html = fmt::format(
      "<details><summary><i class=b{}></i><b>{}</b> {}: {} <span class=dim>then {}</span></summary>\n<code>{}</code>\n"
      "<div class=scroll><table><thead><tr><th>Solver</th><th>Algorithm</th><th class=num>Measured \u00b5s</th>"
      "<th class=num>Predicted \u00b5s</th><th class=num>Against chosen</th><th class=num>Workspace</th>"
      "<th>Tune point</th></tr></thead><tbody>\n",
      static_cast<int>(result.direction), escape_html(name_of(measurement)), direction_title(result.direction),
      escape_html(result.solver), escape_html(runner_up_text(measurement)), escape_html(result.line));
  for (const Alternative& solver : measurement.solvers) {
    const bool is_chosen = solver.name == result.solver;
    html += fmt::format(
        "<tr{}><td>{}</td><td>{}</td>{}{}<td class=num>{}</td><td class=num>{}</td><td class=dim>{}</td></tr>\n",
        is_chosen ? " class=chosen" : "", escape_html(solver.name), escape_html(solver.algorithm),
        us_cell(solver.measured_us), us_cell(solver.predicted_us),
        is_chosen                       ? "chosen"
        : chosen > 0 && solver.us() > 0 ? fmt::format("{:.2f}\u00d7", solver.us() / chosen)
                                        : "\u2013",
        bytes_text(solver.workspace), escape_html(solver.tune_point));
  }
  html += "</tbody></table></div>\n";
  for (const Refusal& refusal : measurement.refused) {
    html += fmt::format("<p class=refused><b>{}</b> refused: {}</p>\n",
                        escape_html(fmt::format("{}", fmt::join(refusal.solvers, ", "))), escape_html(refusal.reason));
  }
  return html + "</details>\n";
}

std::string solvers_section(const Run& run) {
  std::string html;
  for (const Measurement* measurement : by_time(run)) {
    if (!measurement->solvers.empty() || !measurement->refused.empty()) html += solvers_of_problem(*measurement);
  }
  if (html.empty()) return "";
  return "<section class=screen><h2>Every solver</h2>\n<p class=dim>Open a line for the time of each solver, or why it "
         "was refused.</p>\n" +
         html + "</section>\n";
}

std::string provenance(const Run& run) {
  std::string html = "<h2>Provenance</h2>\n<dl class=facts>\n";
  for (const auto& [name, value] : provenance_of(run)) {
    html += fmt::format("<div{}><dt>{}</dt><dd>{}</dd></div>\n", name == "Command" ? " class=row" : "",
                        escape_html(name), escape_html(value));
  }
  return html + "</dl>\n";
}

}  // namespace

std::string report_page(const Run& run) {
  const std::string chart = roofline(run);
  std::string body =
      fmt::format("<header><p class=brand>Polymio convolution report</p><h1>{}</h1><p class=dim>{}</p></header>\n",
                  escape_html(run.title), escape_html(summary_of(run)));
  body += tiles(run) + time_by_layer(run) + problem_table(run);
  if (!chart.empty()) {
    body +=
        "<h2>Roofline</h2>\n<p class=dim>A point per problem: how fast it ran, against what arithmetic and memory of "
        "this machine allow.</p>\n<figure>" +
        chart + "</figure>\n";
  }
  return page_of(run.title, body + solvers_section(run) + provenance(run));
}

}  // namespace polymio::driver
