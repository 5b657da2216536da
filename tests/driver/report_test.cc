// A run as a value and as a file, the pages, and the command report.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "driver/base/library.h"
#include "driver/report/comparison.h"
#include "driver/report/report.h"
#include "driver/report/run_file.h"
#include "tests/driver/drive.h"

namespace polymio::driver {
namespace {

using Json = nlohmann::json;

std::string line_of(int channels, Direction direction) {
  return "conv -n 1 -c " + std::to_string(channels) +
         " -H 9 -W 7 -k 6 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -g 1 -m "
         "conv -F " +
         std::to_string(static_cast<int>(direction));
}

// 1 GFLOP in `ms`.
Measurement measurement(int channels, Direction direction, double ms, std::int64_t count = 1) {
  Measurement m;
  m.result.line = line_of(channels, direction);
  m.result.direction = direction;
  m.result.algorithm = 1;
  m.result.solver = "ConvCpuDirectFwd";
  m.result.gflop = 1;
  m.result.bytes_read = 1e6;
  m.result.ms = ms;
  m.count = count;
  return m;
}

// 100 GFLOP/s and 1 GB/s: 1 GFLOP takes 10 ms at the roof, 1e6 bytes take 1 ms.
Run sample() {
  driver::Run run;
  run.title = "A <title> & more";
  run.command = "MIOpenDriver conv -n 1";
  run.date = "2026-01-31T23:59:59Z";
  run.version = "0.1.0";
  run.machine.device = "cpu";
  run.machine.threads = 2;
  run.machine.units = 4;
  run.machine.clock_ghz = {2.5, 2.25};
  run.machine.fp32_gflops = 100;
  run.machine.bandwidth_gbytes = 1;
  run.notes = {{"Batch", "4"}};
  run.measurements = {measurement(8, kForward, 20, 3), measurement(8, kBackwardData, 5)};
  Measurement& first = run.measurements[0];
  first.layers = {"one", "two", "three"};
  first.solvers = {{"ConvCpuDirectFwd", "Direct", "1,2", 19000, 18000, 0},
                   {"ConvCpuGemmFwd", "GEMM", "", 0, 21850, 4096}};
  first.refused = {{"too many channels", {"ConvCpuGroupedFwd"}}};
  first.result.checked = true;
  first.result.verified = true;
  first.result.outputs = 100;
  first.result.outputs_checked = 100;
  first.result.verify_text = "Verifies OK";
  run.measurements[1].result.algorithm = 3;
  return run;
}

std::string refusal_of(const std::string& text) {
  try {
    parse_run("x.json", text);
  } catch (const RunError& error) {
    return error.what();
  }
  return "accepted";
}

std::string text_of(const Run& run) { return to_json(run).dump(); }

TEST(RunFile, RoundTrip) {
  const driver::Run run = sample();
  const driver::Run again = parse_run("x.json", text_of(run));
  EXPECT_EQ(text_of(again), text_of(run));
  EXPECT_EQ(report_page(again), report_page(run));
  ASSERT_EQ(again.measurements.size(), 2u);
  EXPECT_EQ(again.measurements[0].layers, run.measurements[0].layers);
  EXPECT_EQ(again.measurements[0].solvers.at(1).measured_us, 0);
  EXPECT_EQ(again.machine.clock_ghz, run.machine.clock_ghz);
}

// JSON has no NaN, which the error of a wrong result may be.
TEST(RunFile, WrongResults) {
  driver::Run run = sample();
  run.measurements[0].result.verified = false;
  run.measurements[0].result.worst_error = NAN;
  const driver::Run again = parse_run("x.json", text_of(run));
  EXPECT_FALSE(again.measurements[0].result.ok());
  EXPECT_EQ(checks_of(again).wrong, 3);
}

TEST(RunFile, DamagedAndForeignFilesAreRefusedWithTheReason) {
  const std::string good = text_of(sample());
  const struct {
    std::string patch;  // JSON merge patch
    const char* wanted;
  } cases[] = {
      {R"({"format": "else"})",
       "'x.json': it is no run (its format is not 'polymio run'), allowed: a file that --save"},
      {R"({"format": 5})", "it is no run"},
      {R"({"format_version": 2})", "its format has version 2, allowed: up to 1; a newer MIOpenDriver reads it"},
      {R"({"format_version": 0})", "format_version is 0, allowed: an integer from 1"},
      {R"({"title": null})", "title is missing"},
      {R"({"title": 7})", "title is 7, allowed: a text; it is no run, or damaged"},
      {R"({"machine": 1})", "machine is 1, allowed: an object"},
      {R"({"machine": {"fp32_gflops": -1}})",
       "machine.fp32_gflops is -1, allowed: a finite number that is not negative"},
      {R"({"machine": {"cache_bytes": [1]}})", "machine.cache_bytes is a list, allowed: the sizes of three caches"},
      {R"({"machine": {"clock_ghz": ["a"]}})", "machine.clock_ghz is a list, allowed: finite numbers"},
      {R"({"notes": {}})", "notes is an object, allowed: a list"},
      {R"({"results": [5]})", "results[0] is 5, allowed: an object"},
  };
  for (const auto& item : cases) {
    Json json = Json::parse(good);
    json.merge_patch(Json::parse(item.patch));
    EXPECT_NE(refusal_of(json.dump()).find(item.wanted), std::string::npos) << item.patch << refusal_of(json.dump());
  }
  const struct {
    const char* key;
    Json value;
    const char* wanted;
  } fields[] = {
      {"problem", "conv -n zero",
       "results[1].problem is \"conv -n zero\", allowed: a convolution in the driver's syntax"},
      {"problem", line_of(8, kForward), "allowed: a convolution with -F 2"},
      {"problem", "activ -n 1", "allowed: a convolution"},
      {"direction", "up", "results[1].direction is \"up\", allowed: fwd, bwd or wrw"},
      {"ms", "1", "results[1].ms is \"1\", allowed: a finite number"},
      {"count", 0, "results[1].count is 0, allowed: an integer from 1"},
      {"count", 1.5, "results[1].count is 1.5, allowed: an integer"},
      {"count", UINT64_MAX, "results[1].count is 18446744073709551615, allowed: an integer"},
      {"solution", -1, "results[1].solution is -1, allowed: an integer from 0"},
      {"layers", {1}, "results[1].layers is a list, allowed: a list of texts"},
      {"solvers", {{{"name", 1}}}, "results[1].solvers[0].name is 1, allowed: a text"},
      {"verification", true, "results[1].verification is true, allowed: an object"},
  };
  for (const auto& item : fields) {
    Json json = Json::parse(good);
    json["results"][1][item.key] = item.value;
    EXPECT_NE(refusal_of(json.dump()).find(item.wanted), std::string::npos) << item.key << refusal_of(json.dump());
  }
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("null"), good.substr(0, good.size() / 2), std::string("<html>"),
        std::string("{\"format\": \"\xff\"}")}) {
    EXPECT_TRUE(refusal_of(text).starts_with("'x.json': ")) << text << refusal_of(text);
  }
}

TEST(Run, SumsAndRoofs) {
  const driver::Run run = sample();
  EXPECT_EQ(total_of(run).ms, 65);
  EXPECT_EQ(total_of(run, kForward).count, 3);
  EXPECT_DOUBLE_EQ(total_of(run, kForward).roof_part(), 0.5);
  EXPECT_EQ(total_of(run, kBackwardWeights).count, 0);
  EXPECT_DOUBLE_EQ(roof_part(run.machine, run.measurements[1].result), 2);
  EXPECT_EQ(reason_above_roof(run.machine, run.measurements[1].result),
            "Winograd saved at least 50% of the direct operations");
  EXPECT_EQ(reason_above_roof(run.machine, run.measurements[0].result), "");
  EXPECT_EQ(runner_up_text(run.measurements[0]), "ConvCpuGemmFwd +15%?") << "its time is predicted";
}

TEST(Run, RepeatedResultsCountOnceAndFailuresStay) {
  driver::Run run;
  Result result = measurement(8, kForward, 1).result;
  run.add(result);
  result.ms = 2;
  run.add(result);
  result.ms = 3;
  result.checked = true;
  run.add(result);
  ASSERT_EQ(run.measurements.size(), 1u);
  EXPECT_EQ(run.measurements[0].count, 3);
  EXPECT_DOUBLE_EQ(run.measurements[0].result.ms, 2);
  EXPECT_FALSE(run.measurements[0].result.ok());
  result.solver = "ConvCpuGemmFwd";
  run.add(result);
  EXPECT_EQ(run.measurements.size(), 2u);
}

TEST(Comparison, SortsByLostTimeAndListsWhatOneSideHas) {
  driver::Run a = sample(), b = sample();
  a.measurements = {measurement(8, kForward, 10, 3), measurement(16, kForward, 10), measurement(32, kForward, 1)};
  b.measurements = {measurement(16, kForward, 5), measurement(8, kForward, 12, 2), measurement(64, kForward, 1)};
  b.measurements.push_back(measurement(16, kForward, 4));  // another solver of the same problem
  const Comparison comparison = compare(a, b);
  ASSERT_EQ(comparison.both.size(), 2u);
  EXPECT_EQ(comparison.both[0].a->result.line, line_of(8, kForward));
  EXPECT_DOUBLE_EQ(comparison.both[0].lost_ms(), 6);
  EXPECT_DOUBLE_EQ(comparison.both[1].lost_ms(), -6);
  EXPECT_DOUBLE_EQ(comparison.ms_a(), 40);
  EXPECT_DOUBLE_EQ(comparison.ms_b(), 40);
  EXPECT_EQ(comparison.ms_b(kBackwardData), 0);
  EXPECT_EQ(comparison.other_counts, 1u);
  ASSERT_EQ(comparison.only_a.size(), 1u);
  EXPECT_EQ(comparison.only_a[0]->result.line, line_of(32, kForward));
  ASSERT_EQ(comparison.only_b.size(), 1u);
  EXPECT_EQ(summary_of(comparison),
            "2 problems in both, 1 only in A, 1 only in B; A 40 ms, B 40 ms: B takes 1.000 times as long");
  a.measurements[0].result.error = "no memory";
  const Comparison failed = compare(a, b);
  EXPECT_EQ(failed.both.size(), 1u);
  EXPECT_EQ(failed.only_a.size(), 2u);
  EXPECT_NE(comparison_page(a, b).find("no memory"), std::string::npos);
  b.measurements.clear();
  EXPECT_NE(summary_of(compare(a, b)).find("there is nothing to compare"), std::string::npos);
  EXPECT_NE(comparison_page(a, b).find("No problem ran in both"), std::string::npos);
}

TEST(Page, ShowsEachProblemOnceAndBarsWhole) {
  const std::string page = report_page(sample());
  EXPECT_NE(page.find("A &lt;title&gt; &amp; more"), std::string::npos);
  EXPECT_EQ(page.find("A <title>"), std::string::npos);
  EXPECT_NE(page.find("one and 2 more"), std::string::npos);
  EXPECT_EQ(count(page, "<span class=part>"), 2u);
  EXPECT_NE(page.find(">200%<"), std::string::npos);
  EXPECT_NE(page.find("class='over d2' style='width:50.00%'"), std::string::npos) << "a bar above the roof is clipped";
  EXPECT_NE(page.find("2.50, then 2.25 GHz, measured"), std::string::npos);
  for (const char* external : {"http", "<script", "src=", "@import", "url("})
    EXPECT_EQ(page.find(external), std::string::npos) << external;
  driver::Run nothing = sample();
  nothing.measurements.clear();
  nothing.machine = {};
  EXPECT_NE(report_page(nothing).find("</html>"), std::string::npos);
}

using ReportCommand = InFolder;

TEST_F(ReportCommand, SavesRendersAndCompares) {
  const std::string flags = "conv -n 1 -c 8 -H 9 -W 7 -k 6 -y 3 -x 3 -i 1 ";
  ASSERT_EQ(drive(flags + "-F 1 --save " + file("a.json") + " --report " + file("a.html")).status, 0);
  ASSERT_EQ(drive(flags + "--save " + file("b.json")).status, 0);
  const Outcome one = drive("report " + file("a.json") + " --out " + file("again.html"));
  EXPECT_EQ(one.status, 0);
  EXPECT_TRUE(has(one, "^1 problems, 1 runs, .* ms; page: .*again.html$"));
  EXPECT_EQ(read("again.html"), read("a.html"));
  EXPECT_NE(read("a.html").find("MIOpenDriver " + flags + "-F 1 --save"), std::string::npos) << "the command";
  EXPECT_NE(read("a.html").find("GHz, measured"), std::string::npos);
  const Outcome two = drive("report " + file("a.json") + " " + file("b.json") + " --out " + file("diff.html"));
  EXPECT_EQ(two.status, 0);
  EXPECT_TRUE(has(two, "^1 problems in both, 0 only in A, 2 only in B; .*diff.html$"));
  EXPECT_NE(read("diff.html").find("Only in B"), std::string::npos);
}

TEST_F(ReportCommand, RefusesBadInput) {
  const std::string bad = write("bad.json", "{\"format\": \"polymio run\"");
  const struct {
    std::string arguments;
    int status;
    const char* pattern;
  } cases[] = {
      {"report", 2, "report: 0 of 1 arguments given; usage: MIOpenDriver report RUN.json"},
      {"report a b c", 2, "'c' is one argument too many"},
      {"report --frob a", 2, "report: unknown flag '--frob', allowed: --out --help"},
      {"report " + file("none"), 1, "cannot read '.*none': No such file"},
      {"report " + bad + " --out " + file("out.html"), 1, "bad.json': byte 25 is no JSON, allowed: a file that --save"},
  };
  for (const auto& item : cases) {
    const Outcome outcome = drive(item.arguments);
    EXPECT_EQ(outcome.status, item.status) << outcome.text;
    EXPECT_TRUE(has(outcome, item.pattern));
  }
  EXPECT_FALSE(std::filesystem::exists(file("out.html")));
}

}  // namespace
}  // namespace polymio::driver
