// Roofline plot. Colours are CSS classes, so that the page's light and dark themes apply.
// SPDX-License-Identifier: MIT
#include "driver/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "driver/report/html.h"

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
std::string tip(const Measurement& measurement) {
  const Result& result = measurement.result;
  return escape_html(fmt::format("{} ({}): {} ms, {:.1f} GFLOP/s, {}", name_of(measurement),
                                 direction_title(result.direction), ms_text(result.ms), result.gflops(),
                                 result.solver));
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

std::string roofs(const LogAxis& x, const LogAxis& y, const Machine& peak) {
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

// A circle, square or triangle by direction, so that colour is not all that tells them apart.
std::string mark(Direction direction, double x, double y, const std::string& title) {
  const std::string head = fmt::format("class='point d{}'", static_cast<int>(direction));
  if (direction == kForward)
    return fmt::format("<circle {} cx={:.1f} cy={:.1f} r=5><title>{}</title></circle>\n", head, x, y, title);
  if (direction == kBackwardData)
    return fmt::format("<rect {} x={:.1f} y={:.1f} width=9 height=9><title>{}</title></rect>\n", head, x - 4.5, y - 4.5,
                       title);
  return fmt::format("<path {} d='M{:.1f} {:.1f}l5.5 10h-11z'><title>{}</title></path>\n", head, x, y - 6, title);
}

std::string legend(double x, double y) {
  std::string svg;
  for (const Direction direction : kDirections) {
    const std::string title = direction_title(direction);
    svg += mark(direction, x, y - 4, title) + fmt::format("<text class=label x={} y={}>{}</text>\n", x + 11, y, title);
    x += 34 + 7.2 * static_cast<double>(title.size());
  }
  return svg;
}

}  // namespace

std::string roofline(const Run& run) {
  const Machine& peak = run.machine;
  if (peak.fp32_gflops <= 0 || peak.bandwidth_gbytes <= 0) return "";
  const double ridge = peak.fp32_gflops / peak.bandwidth_gbytes;
  double low_x = ridge, high_x = ridge, low_y = peak.fp32_gflops, high_y = peak.fp32_gflops;
  std::vector<const Measurement*> drawn;
  for (const Measurement& measurement : run.measurements) {
    const Result& result = measurement.result;
    if (!result.error.empty() || !(result.gflops() > 0) || !(result.bytes_read + result.bytes_written > 0)) continue;
    drawn.push_back(&measurement);
    low_x = std::min(low_x, result.intensity());
    high_x = std::max(high_x, result.intensity());
    low_y = std::min(low_y, result.gflops());
    high_y = std::max(high_y, result.gflops());
  }
  const LogAxis x{step_down(low_x * 0.8), step_up(high_x * 1.2), 62, 880};
  const LogAxis y{step_down(low_y * 0.8), step_up(high_y * 1.2), 400, 40};
  std::string svg = "<svg viewBox='0 0 900 450' role=img aria-label='Roofline plot; the table has its numbers'>\n";
  svg += grid(x, y) + roofs(x, y, peak) + legend(70, 22);
  for (const Measurement* measurement : drawn) {
    const Result& result = measurement->result;
    svg += mark(result.direction, x.at(result.intensity()), y.at(result.gflops()), tip(*measurement));
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

}  // namespace polymio::driver
