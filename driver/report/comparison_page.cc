// The page that compares two runs.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "driver/report/comparison.h"
#include "driver/report/html.h"
#include "driver/report/report.h"

namespace polymio::driver {
namespace {

constexpr double kSame = 0.02;  // times that differ by less are shown as equal

// "12% less", "1.40 times".
std::string ratio_text(double ratio) {
  if (std::abs(ratio - 1) < kSame) return "the same";
  return ratio < 1 ? fmt::format("{:.0f}% less", 100 * (1 - ratio)) : fmt::format("{:.2f} times", ratio);
}

const char* class_of(double ratio) {
  if (std::abs(ratio - 1) < kSame) return "dim";
  return ratio > 1 ? "bad" : "ok";
}

std::string total_tile(const std::string& name, const char* edge, double a, double b) {
  if (a <= 0) return "";
  return fmt::format(
      "<div class='tile {}'><h3>{}</h3><p class=big>{:.3f} <small>\u00d7 A's time</small></p><p>A {} ms, B {} ms</p>"
      "<p class=dim>B takes {}</p></div>\n",
      edge, name, b / a, ms_text(a), ms_text(b), ratio_text(b / a));
}

std::string tiles(const Comparison& comparison) {
  if (comparison.both.empty()) return "<p class=none>No problem ran in both: there is nothing to compare.</p>\n";
  std::string html = "<div class=tiles>\n" + total_tile("The whole", "", comparison.ms_a(), comparison.ms_b());
  for (const Direction direction : kDirections) {
    html += total_tile(direction_title(direction), fmt::format("t{}", static_cast<int>(direction)).c_str(),
                       comparison.ms_a(direction), comparison.ms_b(direction));
  }
  return html +
         fmt::format(
             "<div class=tile><h3>Problems</h3><p class=big>{} <small>in both</small></p><p>{} only in A, {} only "
             "in B</p></div>\n</div>\n",
             comparison.both.size(), comparison.only_a.size(), comparison.only_b.size());
}

// A bar from the middle: to the right where B is slower, to the left where it is faster; logarithmic.
std::string ratio_bar(double ratio, double most) {
  const double length = most > 0 ? 50 * std::abs(std::log(ratio)) / most : 0;
  return fmt::format(
      "<div class='meter ratio'><b class={} style='left:{:.2f}%;width:{:.2f}%'></b><u style='left:50%'></u></div>",
      ratio > 1 ? "slower" : "faster", ratio > 1 ? 50 : 50 - length, length);
}

std::string solver_text(const Pair& pair) {
  const std::string a = escape_html(pair.a->result.solver), b = escape_html(pair.b->result.solver);
  return a == b ? a : a + " \u2192 " + b;
}

std::string wrong_text(const Pair& pair) {
  std::string sides;
  if (!pair.a->result.ok()) sides += " A";
  if (!pair.b->result.ok()) sides += " B";
  return sides.empty() ? "" : fmt::format(" <strong class=bad>wrong in{}</strong>", sides);
}

std::string problem_table(const Comparison& comparison) {
  if (comparison.both.empty()) return "";
  double most = std::log(1.5);  // small differences stay small
  for (const Pair& pair : comparison.both) most = std::max(most, std::abs(std::log(pair.ratio())));
  std::string html = fmt::format(
      "<h2>Problems by lost time</h2>\n<p class=dim>Lost: milliseconds that B takes more, over all occurrences of the "
      "problem in A; negative where B gains. A bar to the right: B is slower; to the left: faster "
      "(logarithmic).{}</p>\n"
      "<div class=scroll><table class=cards><thead><tr><th>Problem</th><th>Direction</th><th class=num>Times</th>"
      "<th class=num>A, ms</th><th class=num>B, ms</th><th class=num>B / A</th><th class=wide>Slower or faster</th>"
      "<th class=num>Lost, ms</th><th>Solver</th></tr></thead><tbody>\n",
      comparison.other_counts == 0
          ? ""
          : fmt::format(" {} problems occur more often in one run; A's number counts.", comparison.other_counts));
  for (const Pair& pair : comparison.both) {
    const double ratio = pair.ratio();
    html += fmt::format(
        "<tr><td class=name>{}</td><td data-l=''>{}</td><td class=num data-l=times>{}</td>"
        "<td class=num data-l='A, ms'>{}</td><td class=num data-l='B, ms'>{}</td>"
        "<td class='num {}' data-l='B / A'>{:.2f}</td><td class=bar>{}</td>"
        "<td class='num {}' data-l='lost, ms'>{:+.3g}</td><td class=solver>{}{}</td></tr>\n",
        problem_html(*pair.a), direction_html(pair.a->result.direction), pair.a->count, ms_text(pair.a->result.ms),
        ms_text(pair.b->result.ms), class_of(ratio), ratio, ratio_bar(ratio, most), class_of(ratio), pair.lost_ms(),
        solver_text(pair), wrong_text(pair));
  }
  return html + "</tbody></table></div>\n";
}

std::string only_table(const std::string& side, const std::vector<const Measurement*>& only) {
  if (only.empty()) return "";
  std::string html = fmt::format(
      "<h2>Only in {}</h2>\n<p class=dim>Problems without a time in the other run; they are in no total.</p>\n"
      "<div class=scroll><table class=cards><thead><tr><th>Problem</th><th>Direction</th><th class=num>Times</th>"
      "<th class=num>ms each</th><th>Solver</th></tr></thead><tbody>\n",
      side);
  for (const Measurement* measurement : only) {
    const Result& result = measurement->result;
    html += fmt::format("<tr><td class=name>{}</td><td data-l=''>{}</td><td class=num data-l=times>{}</td>",
                        problem_html(*measurement), direction_html(result.direction), measurement->count);
    html += result.error.empty() ? fmt::format("<td class=num data-l='ms each'>{}</td><td class=solver>{}</td></tr>\n",
                                               ms_text(result.ms), escape_html(result.solver))
                                 : fmt::format("<td class=bad colspan=2>{}</td></tr>\n", escape_html(result.error));
  }
  return html + "</tbody></table></div>\n";
}

std::string provenance(const Run& a, const Run& b) {
  const auto left_rows = provenance_of(a), right_rows = provenance_of(b);
  std::string html =
      "<h2>Provenance</h2>\n<p class=dim>What differs is marked.</p>\n<div class=scroll><table class=sides><thead><tr>"
      "<th></th><th>A</th><th>B</th></tr></thead><tbody>\n";
  const auto value_in = [](const auto& rows, const std::string& name) {
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.first == name; });
    return found == rows.end() ? std::string("\u2013") : found->second;
  };
  const auto add = [&](const std::string& name, const std::string& left, const std::string& right) {
    html +=
        fmt::format("<tr{}><th scope=row>{}</th><td>{}</td><td>{}</td></tr>\n", left == right ? "" : " class=differs",
                    escape_html(name), escape_html(left), escape_html(right));
  };
  add("Run", a.title, b.title);
  for (const auto& [name, value] : left_rows) add(name, value, value_in(right_rows, name));
  for (const auto& [name, value] : right_rows) {
    if (value_in(left_rows, name) == "\u2013") add(name, "\u2013", value);
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace

std::string comparison_page(const Run& a, const Run& b) {
  const Comparison comparison = compare(a, b);
  const std::string title = a.title == b.title ? a.title : fmt::format("{} and {}", a.title, b.title);
  std::string body = fmt::format(
      "<header><p class=brand>Polymio convolution comparison</p><h1>{}</h1><p class=dim><strong>A</strong> {}<br>"
      "<strong>B</strong> {}</p></header>\n",
      escape_html(title), escape_html(summary_of(a)), escape_html(summary_of(b)));
  body += tiles(comparison) + problem_table(comparison) + only_table("A", comparison.only_a) +
          only_table("B", comparison.only_b) + provenance(a, b);
  return page_of(title, body);
}

}  // namespace polymio::driver
