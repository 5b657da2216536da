// The demo. The first process searches and measures; a second one, started with the same database
// and cache folders, must find every answer there.
// SPDX-License-Identifier: MIT
#include "driver/commands.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "driver/run/conv_run.h"
#include "driver/base/files.h"
#include "driver/base/progress.h"
#include "driver/report/html.h"
#include "driver/report/provenance.h"
#include "driver/report/report.h"
#include "driver/report/resnet.h"
#include "driver/run/conv_verify.h"

namespace polymio::driver {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSecondsPerRun = 0.25;       // timed runs per problem in the first process
constexpr double kSecondsPerRunAgain = 0.02;  // the same in the second process
constexpr std::int64_t kSamplesAgain = 256;   // outputs verified per problem in the second process
constexpr std::size_t kListed = 10;           // problems that are printed

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr Command kDemoCommand{
    "demo", "",
    "Finds, runs and verifies every convolution of ResNet-50 and writes an HTML report; then\n"
    "again in a new process, which must find every answer in the find database."};

struct DemoArgs {
  std::int64_t batch = 4, iterations = 10;
  std::string device, report = "resnet50.html", save, baseline;
};

Flags flags_of(DemoArgs& args) {
  return {
      {"n", "batchsize", Integer{&args.batch, 1, kMaxInt}, "batch size"},
      {"i", "iter", Integer{&args.iterations, 1, 1000000000}, "timed runs per direction"},
      device_flag(args.device),
      {"", "report", Text{&args.report, "FILE"}, "the page"},
      {"", "save", Text{&args.save, "FILE"}, "also the run as JSON, for 'MIOpenDriver report'"},
      {"", "baseline", Text{&args.baseline, "FILE"}, "earlier results (JSON); the find database must answer now"},
  };
}

// A temporary folder, removed by the destructor.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "polymio-demo-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      throw RunError(fmt::format("cannot create the temporary folder '{}'", pattern));
    }
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// All layers and directions in order; equal problems are run once. A failure is printed.
void run_network(const Session& session, const DemoArgs& args, const RunOptions& options, Run& run) {
  const std::vector<Layer> layers = resnet50(args.batch);
  Progress progress("ResNet-50", static_cast<double>(3 * layers.size()));
  for (const Layer& layer : layers) {
    for (const Direction direction : kDirections) {
      ConvArgs problem = layer.args;
      problem.iterations = args.iterations;
      const std::string line = problem_line(problem, direction);
      Measurement* measurement = run.find(line);
      if (measurement != nullptr) {
        ++measurement->count;
      } else {
        const Result fresh = run_direction(session, problem, direction, options).at(0);
        if (!fresh.ok()) progress.line(fmt::format("{}: {}", layer.name, row(fresh)));
        if (!fresh.ok() && !fresh.verify_text.empty()) progress.line("  " + fresh.verify_text);
        run.add(fresh);
        measurement = &run.measurements.back();
      }
      measurement->layers.push_back(layer.name);
      progress.advance(1);
    }
  }
}

// Seconds of find over the distinct problems.
double find_seconds(const Run& run) {
  double seconds = 0;
  for (const Measurement& measurement : run.measurements) seconds += measurement.result.find_ms * 1e-3;
  return seconds;
}

void print_longest(const Run& run) {
  const double whole = total_of(run).ms;
  fmt::print("{:<28} {:<3} {:>5} {:>6} {:>8} {:<12} {:<20} {:>5}  {}\n",
             "the longest of " + std::to_string(run.measurements.size()), "dir", "times", "share", "ms each",
             "algorithm", "solver", "roof", "runner-up");
  std::size_t listed = 0;
  for (const Measurement* measurement : by_time(run)) {
    const Result& result = measurement->result;
    if (++listed > kListed || !result.error.empty()) break;
    fmt::print("{:<28} {:<3} {:>5} {:>5.1f}% {:>8} {:<12} {:<20} {:>4.0f}%  {}\n", shape_text(result.line, false),
               direction_short(result.direction), measurement->count, 100 * measurement->total_ms() / whole,
               ms_text(result.ms), algorithm_name(result.algorithm), result.solver,
               100 * roof_part(run.machine, result), runner_up_text(*measurement));
  }
}

void print_totals(const Run& run) {
  const auto print = [](const char* name, const Total& total) {
    fmt::print("{:<17} {} runs {:>8.2f} GFLOP {:>9.2f} ms {:>8.1f} GFLOP/s {:>5.1f}% of the roof\n", name, total.count,
               total.gflop, total.ms, total.gflops(), 100 * total.roof_part());
  };
  for (const Direction direction : kDirections) print(direction_title(direction), total_of(run, direction));
}

int run_child(const std::vector<std::string>& arguments) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw RunError("cannot start the second process");
  if (child == 0) {
    execv(program.c_str(), argv.data());
    _exit(127);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) throw RunError("cannot wait for the second process");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

struct Times {
  double find = 0;
  double total = 0;
};

void write_times(const std::string& path, const Times& times) {
  write_whole(path, nlohmann::json({{"find_seconds", times.find}, {"total_seconds", times.total}}).dump());
}

Times read_times(const std::string& path) {
  const nlohmann::json json = nlohmann::json::parse(read_whole(path));
  return {json.at("find_seconds").get<double>(), json.at("total_seconds").get<double>()};
}

// The second process: no search may happen.
int run_again(const DemoArgs& args) {
  const auto start = Clock::now();
  const Times first = read_times(args.baseline);
  const Session session(args.device);
  RunOptions options;
  options.print = false;
  options.samples = kSamplesAgain;
  options.seconds = kSecondsPerRunAgain;
  Run run;
  run_network(session, args, options, run);
  std::int64_t searched = 0;
  for (const Measurement& measurement : run.measurements) {
    const Result& result = measurement.result;
    if (result.source == "database") continue;
    searched += measurement.count;
    fmt::print("not answered from the find database ({}): {}\n", result.source, result.line);
  }
  const Times again{find_seconds(run), seconds_since(start)};
  const Checks checks = checks_of(run);
  const std::int64_t failed = checks.runs - checks.verified;
  fmt::print(
      "{} of {} answered from the find database, {} wrong or failed; choosing took {:.3f} s "
      "instead of {:.2f} s: {:.2f} s saved ({:.1f}%)\n",
      checks.runs - searched, checks.runs, failed, again.find, first.find, first.find - again.find,
      100 * (1 - again.find / first.find));
  write_times(args.baseline + ".again", again);
  return searched == 0 && failed == 0 ? 0 : 1;
}

void use_fresh_folders(const std::string& folder) {
  for (const char* name : {"MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR"}) {
    const std::string path = fmt::format("{}/{}", folder, name);
    make_own_folder(path);
    setenv(name, path.c_str(), 1);
  }
}

}  // namespace

int run_demo(std::span<const std::string> arguments) {
  DemoArgs args;
  if (!parse_or_help(kDemoCommand, flags_of(args), arguments)) return 0;
  if (!args.baseline.empty()) return run_again(args);
  const auto start = Clock::now();
  const TemporaryFolder folder;
  use_fresh_folders(folder.path());
  const Session session(args.device);
  Run run = begin_run(session, fmt::format("ResNet-50 v1.5, batch {}, fp32", args.batch));
  fmt::print("{}, on {} ({}): measured peak {:.1f} GFLOP/s, {:.1f} GB/s, {} threads\n", run.title, run.machine.device,
             run.machine.model, run.machine.fp32_gflops, run.machine.bandwidth_gbytes, run.machine.threads);
  RunOptions options;
  options.print = false;
  options.explain = true;
  options.samples = kSampleCount;
  options.seconds = kSecondsPerRun;
  run_network(session, args, options, run);
  if (!run.machine.clock_ghz.empty()) run.machine.clock_ghz.push_back(measure_clock());
  const Checks checks = checks_of(run);
  const std::int64_t failed = checks.runs - checks.verified;
  print_longest(run);
  fmt::print("\n");
  print_totals(run);
  const Times first{find_seconds(run), seconds_since(start)};
  fmt::print("{} of {} verified ({} distinct, each run once); finding took {:.2f} s, everything {:.1f} s\n\n",
             checks.verified, checks.runs, run.measurements.size(), first.find, first.total);

  fmt::print("Again in a new process, with the find database of the first:\n");
  const std::string baseline = folder.path() + "/first.json";
  write_times(baseline, first);
  std::vector<std::string> again_arguments = {"demo", "-n", std::to_string(args.batch), "--baseline", baseline};
  if (!args.device.empty()) again_arguments.insert(again_arguments.end(), {"--device", args.device});
  const int again_status = run_child(again_arguments);

  run.notes = {{"Search, first process", fmt::format("{:.2f} s", first.find)}};
  if (again_status == 0) {
    const Times again = read_times(baseline + ".again");
    run.notes.emplace_back("Find database, second process", fmt::format("{:.3f} s", again.find));
  }
  write_report(run, args.report, args.save);
  const bool ok = failed == 0 && again_status == 0;
  fmt::print("{} in {:.1f} s; report: {}\n", ok ? "Everything is right" : "SOMETHING IS WRONG", seconds_since(start),
             args.report);
  return ok ? 0 : 1;
}

}  // namespace polymio::driver
