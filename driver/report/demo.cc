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
#include <map>
#include <set>
#include <string>
#include <vector>

#include "driver/run/conv_run.h"
#include "driver/base/files.h"
#include "driver/base/progress.h"
#include "driver/report/report.h"
#include "driver/report/resnet.h"
#include "driver/run/conv_verify.h"

namespace polymio::driver {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSecondsPerRun = 0.25;       // timed runs per problem in the first process
constexpr double kSecondsPerRunAgain = 0.02;  // the same in the second process
constexpr std::int64_t kSamplesAgain = 256;   // outputs verified per problem in the second process

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr Command kCommand{"demo", "",
                           "Finds, runs and verifies every convolution of ResNet-50 and writes an HTML report; then\n"
                           "again in a new process, which must find every answer in the find database."};

struct DemoArgs {
  std::int64_t batch = 4, iterations = 10;
  std::string device, report = "resnet50.html", baseline;
};

Flags flags_of(DemoArgs& args) {
  return {
      {"n", "batchsize", Integer{&args.batch, 1, kMaxInt}, "batch size"},
      {"i", "iter", Integer{&args.iterations, 1, 1000000000}, "timed runs per direction"},
      device_flag(args.device),
      {"", "report", Text{&args.report, "FILE"}, "the report"},
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

// All layers and directions in order; equal problems are run once and listed each time.
std::vector<Result> run_network(const Session& session, const DemoArgs& args, double peak, const RunOptions& options,
                                bool list_rows) {
  const std::vector<Layer> layers = resnet50(args.batch);
  std::map<std::string, Result> known;
  std::vector<Result> results;
  Progress progress("ResNet-50", static_cast<double>(3 * layers.size()));
  if (list_rows) progress.line(row_header(true, peak));
  for (const Layer& layer : layers) {
    for (const Direction direction : kDirections) {
      ConvArgs problem = layer.args;
      problem.iterations = args.iterations;
      const std::string line = problem_line(problem, direction);
      auto place = known.find(line);
      if (place == known.end()) {
        Result fresh = run_direction(session, problem, direction, options).at(0);
        place = known.emplace(line, std::move(fresh)).first;
      }
      Result result = place->second;
      result.layer = layer.name;
      if (list_rows || !result.ok()) progress.line(row(result, peak));
      if (!result.ok() && !result.verify_text.empty()) progress.line("  " + result.verify_text);
      results.push_back(std::move(result));
      progress.advance(1);
    }
  }
  return results;
}

// Seconds of find over the distinct problems.
double find_seconds(const std::vector<Result>& results) {
  std::map<std::string, double> times;
  for (const Result& result : results) times[result.line] = result.find_ms * 1e-3;
  double sum = 0;
  for (const auto& [line, seconds] : times) sum += seconds;
  return sum;
}

std::size_t count_failed(const std::vector<Result>& results) {
  std::size_t failed = 0;
  for (const Result& result : results) failed += !result.ok() || !result.checked ? 1 : 0;
  return failed;
}

void print_summary(const std::vector<Result>& results, double peak) {
  for (const Direction direction : kDirections) {
    double gflop = 0, ms = 0;
    std::size_t count = 0;
    for (const Result& result : results) {
      if (result.direction != direction || !result.error.empty()) continue;
      gflop += result.gflop;
      ms += result.ms;
      ++count;
    }
    const double rate = ms > 0 ? gflop / ms * 1e3 : 0;
    fmt::print("{:<17} {} layers {:>9.2f} GFLOP {:>9.2f} ms {:>8.1f} GFLOP/s {:>5.1f}% of peak\n",
               direction_title(direction), count, gflop, ms, rate, 100 * rate / peak);
  }
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
  const auto results = run_network(session, args, 0, options, false);
  std::size_t searched = 0;
  for (const Result& result : results) {
    if (result.source == "database") continue;
    ++searched;
    fmt::print("not answered from the find database ({}): {}\n", result.source, result.line);
  }
  const Times again{find_seconds(results), seconds_since(start)};
  const std::size_t failed = count_failed(results);
  fmt::print(
      "{} of {} answered from the find database, {} wrong or failed; choosing took {:.3f} s "
      "instead of {:.2f} s: {:.2f} s saved ({:.1f}%)\n",
      results.size() - searched, results.size(), failed, again.find, first.find, first.find - again.find,
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
  if (!parse_or_help(kCommand, flags_of(args), arguments)) return 0;
  if (!args.baseline.empty()) return run_again(args);
  const auto start = Clock::now();
  const TemporaryFolder folder;
  use_fresh_folders(folder.path());
  const Session session(args.device);
  const polymioDevicePeak_t peak = measure_peak(session);
  fmt::print(
      "ResNet-50 v1.5, batch {}, fp32, on {} ({}): measured peak {:.1f} GFLOP/s, {:.1f} GB/s, "
      "{} threads\n",
      args.batch, session.device.name, session.device.model, peak.fp32_gflops, peak.bandwidth_gbytes, peak.threads);
  RunOptions options;
  options.print = false;
  options.explain = true;
  options.samples = kSampleCount;
  options.seconds = kSecondsPerRun;
  const auto results = run_network(session, args, peak.fp32_gflops, options, true);
  const std::size_t failed = count_failed(results);
  fmt::print("\n");
  print_summary(results, peak.fp32_gflops);
  const Times first{find_seconds(results), seconds_since(start)};
  std::set<std::string> distinct;
  for (const Result& r : results) distinct.insert(r.line);
  fmt::print("{} of {} verified ({} distinct, each run once); finding took {:.2f} s, everything {:.1f} s\n\n",
             results.size() - failed, results.size(), distinct.size(), first.find, first.total);

  fmt::print("Again in a new process, with the find database of the first:\n");
  const std::string baseline = folder.path() + "/first.json";
  write_times(baseline, first);
  std::vector<std::string> again_arguments = {"demo", "-n", std::to_string(args.batch), "--baseline", baseline};
  if (!args.device.empty()) again_arguments.insert(again_arguments.end(), {"--device", args.device});
  const int again_status = run_child(again_arguments);

  ReportInfo info;
  info.title = "ResNet-50 v1.5";
  info.command = fmt::format("MIOpenDriver demo -n {}", args.batch);
  info.facts = {{"Batch", std::to_string(args.batch)}, {"Search, first process", fmt::format("{:.2f} s", first.find)}};
  if (again_status == 0) {
    const Times again = read_times(baseline + ".again");
    info.facts.emplace_back("Find database, second process", fmt::format("{:.3f} s", again.find));
  }
  write_report(session, info, results, args.report);
  const bool ok = failed == 0 && again_status == 0;
  fmt::print("{} in {:.1f} s; report: {}\n", ok ? "Everything is right" : "SOMETHING IS WRONG", seconds_since(start),
             args.report);
  return ok ? 0 : 1;
}

}  // namespace polymio::driver
