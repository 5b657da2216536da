// The command 'report': the page of a run that was saved, or the comparison of two.
// SPDX-License-Identifier: MIT
#include "driver/report/report.h"

#include <fmt/format.h>

#include "driver/base/files.h"
#include "driver/base/flags.h"
#include "driver/commands.h"
#include "driver/report/comparison.h"
#include "driver/report/run_file.h"

namespace polymio::driver {

void write_report(const Run& run, const std::string& page, const std::string& file) {
  if (!page.empty()) write_whole(page, report_page(run));
  if (!file.empty()) write_run(file, run);
}

int run_report(std::span<const std::string> arguments) {
  constexpr Command kCommand{
      "report", "RUN.json [OTHER.json]",
      "Makes an HTML page of a run that --save has written (demo, conv); with two runs the page\n"
      "compares them: two devices, versions or numbers of threads.",
      1, 2};
  std::string out = "report.html";
  const Flags flags = {{"", "out", Text{&out, "FILE"}, "the page"}};
  const auto files = parse_or_help(kCommand, flags, arguments);
  if (!files) return 0;
  const Run a = read_run(files->at(0));
  if (files->size() == 1) {
    write_report(a, out, "");
    const Total total = total_of(a);
    fmt::print("{} problems, {} runs, {:.4g} ms; page: {}\n", a.measurements.size(), total.count, total.ms, out);
    return 0;
  }
  const Run b = read_run(files->at(1));
  write_whole(out, comparison_page(a, b));
  fmt::print("{}; page: {}\n", summary_of(compare(a, b)), out);
  return 0;
}

}  // namespace polymio::driver
