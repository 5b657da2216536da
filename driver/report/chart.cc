// Roofline and bars. Colours are CSS classes, so that the page's light and dark themes apply.
// SPDX-License-Identifier: MIT
#include "driver/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "driver/run/conv_problem.h"

namespace polymio::driver {
namespace {

// A logarithmic axis over whole decades of 1, 2, 5.
struct LogAxis {
  double low, high;    // values
  double start, stop;  // pixels

  double at(double value) const {
    const double part = std::log(std::clamp(value, low, high) / low) / std::log(high / low);
    return start + part * (stop - start);
  }
};

double step_down(double value) {
  const double decade = std::pow(10, std::floor(std::log10(value)));
  const double digit = value / decade;
  return decade * (digit >= 5 ? 5 : digit >= 2 ? 2 : 1);
}

double step_up(double value) {
  const double down = step_down(value);
  if (down >= value) return down;
  const double digit = down / std::pow(10, std::floor(std::log10(down * 1.0001)));
  return digit > 1.5 && digit < 3 ? down * 2.5 : down * 2;
}

std::vector<double> ticks(const LogAxis& axis) {
  std::vector<double> values;
  for (double value = axis.low; value <= axis.high * 1.001; value = step_up(value * 1.01)) {
    values.push_back(value);
  }
  return values;
}

std::string number(double value) { return fmt::format("{:.4g}", value); }

// The tooltip of a mark.
std::string tip(const Result& result) {
  return escape_html(fmt::format("{} ({}): {:.3f} ms, {:.1f} GFLOP/s, {}", row_name(result),
                                 direction_title(result.direction), result.ms, result.gflops(), result.solver));
}

std::string grid(const LogAxis& x, const LogAxis& y) {
  std::string svg;
  for (const double value : ticks(x)) {
    svg += fmt::format(
        "<line class=grid x1={0:.1f} x2={0:.1f} y1={1} y2={2} />"
        "<text class=tick x={0:.1f} y={3} text-anchor=middle>{4}</text>\n",
        x.at(value), y.start, y.stop, y.start + 18, number(value));
  }
  for (const double value : ticks(y)) {
    svg += fmt::format(
        "<line class=grid x1={0} x2={1} y1={2:.1f} y2={2:.1f} />"
        "<text class=tick x={3} y={4:.1f} text-anchor=end>{5}</text>\n",
        x.start, x.stop, y.at(value), x.start - 8, y.at(value) + 4, number(value));
  }
  return svg;
}

std::string roofs(const LogAxis& x, const LogAxis& y, const polymioDevicePeak_t& peak) {
  const double ridge = peak.fp32_gflops / peak.bandwidth_gbytes;
  const double left = std::max(x.low, y.low / peak.bandwidth_gbytes);
  std::string svg = fmt::format("<polyline class=roof points='{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}' />\n",
                                x.at(left), y.at(left * peak.bandwidth_gbytes), x.at(ridge), y.at(peak.fp32_gflops),
                                x.stop, y.at(peak.fp32_gflops));
  svg += fmt::format(
      "<text class=rooftext x={:.1f} y={:.1f} text-anchor=end>measured peak {:.1f} "
      "GFLOP/s</text>\n",
      x.stop - 6, y.at(peak.fp32_gflops) - 8, peak.fp32_gflops);
  const double middle = std::sqrt(left * std::min(ridge, x.high));
  const double x0 = x.at(left), x1 = x.at(std::min(ridge, x.high));
  const double y0 = y.at(left * peak.bandwidth_gbytes);
  const double y1 = y.at(std::min(ridge, x.high) * peak.bandwidth_gbytes);
  const double angle = std::atan2(y1 - y0, x1 - x0) * 57.29578;
  svg += fmt::format(
      "<text class=rooftext text-anchor=middle transform='translate({:.1f} {:.1f}) "
      "rotate({:.2f})'>memory {:.1f} GB/s</text>\n",
      x.at(middle), y.at(middle * peak.bandwidth_gbytes) + 18, angle, peak.bandwidth_gbytes);
  return svg;
}

std::string legend(double x, double y) {
  std::string svg;
  for (const Direction direction : kDirections) {
    svg += fmt::format("<circle class=d{} cx={} cy={} r=5 /><text class=label x={} y={}>{}</text>\n",
                       static_cast<int>(direction), x, y - 4, x + 11, y, direction_title(direction));
    x += 34 + 7.2 * static_cast<double>(std::string(direction_title(direction)).size());
  }
  return svg;
}

// Rows in order of first appearance; per row one result (or null) for each direction.
struct Row {
  std::string name;
  const Result* cells[3] = {nullptr, nullptr, nullptr};
};

std::vector<Row> rows_of(const std::vector<Result>& results) {
  std::vector<Row> rows;
  std::map<std::string, std::size_t> places;
  for (const Result& result : results) {
    const auto [place, fresh] = places.emplace(row_key(result), rows.size());
    if (fresh) rows.push_back({row_name(result), {}});
    const int column = result.direction == kForward ? 0 : result.direction == kBackwardData ? 1 : 2;
    rows[place->second].cells[column] = &result;
  }
  return rows;
}

constexpr double kRowHeight = 19;
constexpr double kTop = 34;

std::string bar(const Result* result, double x, double y, double width, double peak) {
  if (result == nullptr) {
    return fmt::format("<text class=none x={} y={}>not run</text>\n", x + 6, y + 13);
  }
  if (!result->error.empty()) {
    return fmt::format("<text class=bad x={} y={}>failed</text>\n", x + 6, y + 13);
  }
  const double part = peak > 0 ? result->gflops() / peak : 0;
  const double length = std::max(1.0, width * std::min(part, 1.0));
  const bool inside = length > 0.58 * width;
  return fmt::format(
      "<g><title>{}</title><rect class=track x={} y={} width={} height=14 rx=2 />"
      "<rect class=d{} x={} y={} width={:.1f} height=14 rx=2 />"
      "<text class={} x={:.1f} y={} text-anchor={}>{:.0f}% \u00b7 {:.3g} ms</text></g>\n",
      tip(*result), x, y + 2, width, static_cast<int>(result->direction), x, y + 2, length, inside ? "inbar" : "onbar",
      inside ? x + length - 6 : x + length + 6, y + 13, inside ? "end" : "start", 100 * part, result->ms);
}

}  // namespace

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

std::string row_name(const Result& result) {
  return result.layer.empty() ? shape_text(result.line, true) : result.layer;
}

std::string row_key(const Result& result) {
  if (!result.layer.empty()) return result.layer;
  return problem_line(parse_line(result.line), 0);
}

std::string roofline(const std::vector<Result>& results, const polymioDevicePeak_t& peak) {
  double low_x = peak.fp32_gflops / peak.bandwidth_gbytes, high_x = low_x;
  double low_y = peak.fp32_gflops;
  for (const Result& result : results) {
    if (!result.error.empty() || result.ms <= 0) continue;
    low_x = std::min(low_x, result.intensity());
    high_x = std::max(high_x, result.intensity());
    low_y = std::min(low_y, result.gflops());
  }
  const LogAxis x{step_down(low_x * 0.8), step_up(high_x * 1.2), 62, 880};
  const LogAxis y{step_down(low_y * 0.8), step_up(peak.fp32_gflops * 1.3), 400, 40};
  std::string svg = "<svg viewBox='0 0 900 450' role=img aria-label='Roofline plot'>\n";
  svg += grid(x, y) + roofs(x, y, peak) + legend(70, 22);
  std::set<std::string> drawn;
  for (const Result& result : results) {
    if (!result.error.empty() || result.ms <= 0 || !drawn.insert(result.line).second) continue;
    svg +=
        fmt::format("<circle class='point d{}' cx={:.1f} cy={:.1f} r=5><title>{}</title></circle>\n",
                    static_cast<int>(result.direction), x.at(result.intensity()), y.at(result.gflops()), tip(result));
  }
  svg += fmt::format(
      "<text class=label x={} y=442 text-anchor=middle>arithmetic intensity, FLOP per "
      "byte of the three tensors</text>\n",
      (x.start + x.stop) / 2);
  svg +=
      "<text class=label transform='translate(16 220) rotate(-90)' "
      "text-anchor=middle>GFLOP/s</text>\n";
  return svg + "</svg>\n";
}

std::string bars(const std::vector<Result>& results, const polymioDevicePeak_t& peak) {
  const std::vector<Row> rows = rows_of(results);
  std::size_t longest = 0;
  for (const Row& row : rows) longest = std::max(longest, row.name.size());
  const double label = std::min(20.0 + 6.6 * static_cast<double>(longest), 330.0);
  const double panel = (900 - label) / 3;
  const double width = panel - 18;
  const double height = kTop + kRowHeight * static_cast<double>(rows.size()) + 4;
  std::string svg = fmt::format("<svg viewBox='0 0 900 {}' role=img aria-label='Part of peak per layer'>\n", height);
  for (int column = 0; column < 3; ++column) {
    const double x = label + panel * column;
    svg += fmt::format("<text class=head x={} y=16>{}</text>\n", x, direction_title(kDirections[column]));
    for (const double part : {0.25, 0.5, 0.75, 1.0}) {
      svg += fmt::format(
          "<line class=grid x1={0:.1f} x2={0:.1f} y1={1} y2={2} />"
          "<text class=tick x={0:.1f} y=30 text-anchor=middle>{3:.0f}%</text>\n",
          x + width * part, kTop, height, 100 * part);
    }
  }
  double y = kTop;
  for (const Row& row : rows) {
    svg += fmt::format("<text class=label x={} y={} text-anchor=end>{}</text>\n", label - 10, y + 13,
                       escape_html(row.name));
    for (int column = 0; column < 3; ++column) {
      svg += bar(row.cells[column], label + panel * column, y, width, peak.fp32_gflops);
    }
    y += kRowHeight;
  }
  return svg + "</svg>\n";
}

}  // namespace polymio::driver
