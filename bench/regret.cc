// Regret of choosing by estimate: measures every solver of every problem of a list and compares the solver with the
// best prediction with the fastest. Also prints the ratio of predicted to measured times by solver.
//   regret [--list FILE]... [--limit N] [--seconds S] [--json]
// With POLYMIO_NUM_THREADS=1 times are CPU times of the thread, which other programs hardly change.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/problem_of.h"
#include "core/handle.h"
#include "search/measure.h"

namespace {

using namespace polymio;
using convolution::Direction;
using convolution::Problem;

struct Options {
  std::vector<std::string> lists;
  std::size_t limit = SIZE_MAX;  // at most this many lines per list, at equal distances
  double seconds = 0.5;          // skips problems whose solvers are predicted to take longer in all
  bool json = false;
};

struct Entry {
  std::string solver;
  double predicted = 0, measured = 0;  // microseconds
  double ratio() const { return predicted / measured; }
};

struct Result {
  std::string problem, chosen, best;
  double regret = 1;
  std::vector<Entry> entries;
};

class Memory {
 public:
  Memory(Handle& handle, std::size_t bytes)
      : handle_(&handle), data_(handle.allocate(std::max<std::size_t>(bytes, 1))) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { handle_->deallocate(data_); }
  void* data() const { return data_; }

 private:
  Handle* handle_;
  void* data_;
};

void fill(const TensorDesc& t, void* data) {
  for (std::int64_t i = 0; i < t.space(); ++i) dtype::store(t.type, data, i, static_cast<double>(i % 17 - 8) / 8, -1);
}

/// CPU time of this thread, which other programs hardly change.
class ThreadClock final : public search::Clock {
 public:
  double now_us() override {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e6 * static_cast<double>(t.tv_sec) + 1e-3 * static_cast<double>(t.tv_nsec);
  }
};

search::Clock& clock_for(int threads) {
  static ThreadClock clock;
  return threads == 1 ? clock : search::steady_clock();
}

struct Trial {
  const SolverBase* solver;
  TunePoint point;
  double predicted;
};

/// Solvers by predicted time. The reference solver is never chosen and is measured only where it is fast.
std::vector<Trial> trials(Handle& handle, const Problem& p, const Options& options) {
  std::vector<Trial> all;
  double total = 0;
  for (const SolverBase* s : convolution::solvers(p.direction)) {
    if (!admit(*s, handle.device(), p, Constraints{})) continue;
    TunePoint point = s->default_point(handle.device(), p);
    const double us = s->estimate(handle.device(), p, point);
    if (s->info().reference && us > 0.1e6 * options.seconds) continue;
    if (!s->info().reference) total += us;
    all.push_back({s, std::move(point), us});
  }
  if (total > 1e6 * options.seconds) all.clear();
  std::stable_sort(all.begin(), all.end(), [](const Trial& a, const Trial& b) {
    return std::make_pair(a.solver->info().reference, a.predicted) <
           std::make_pair(b.solver->info().reference, b.predicted);
  });
  return all;
}

std::vector<Entry> measure(Handle& handle, const Problem& p, const std::vector<Trial>& all) {
  std::size_t workspace = 0;
  for (const Trial& c : all) workspace = std::max(workspace, c.solver->workspace_size(handle.device(), p, c.point));
  const Memory x(handle, p.x.bytes()), w(handle, p.w.bytes()), y(handle, p.y.bytes()), space(handle, workspace);
  fill(p.x, x.data());
  fill(p.w, w.data());
  fill(p.y, y.data());
  Problem::Args args;
  args.x = x.data();
  args.w = w.data();
  args.y = y.data();
  args.workspace = space.data();
  args.workspace_bytes = workspace;
  search::Clock& clock = clock_for(handle.stream().threads());
  std::vector<search::Trial> runs;
  for (const Trial& c : all) {
    const auto run = [&handle, &args, invoke = c.solver->build(handle.stream(), p, c.point)](double) {
      invoke(handle.stream(), &args);
      return search::Run::kDone;
    };
    runs.push_back({[run, &clock](double most_us, double& warm_us) {
                      const double start = clock.now_us();
                      run(most_us);
                      warm_us = clock.now_us() - start;
                      return search::Run::kDone;
                    },
                    run, c.predicted});
  }
  search::Budget budget;
  budget.sample_us = 300;
  budget.give_up_ratio = 4;
  const auto times = search::measure(clock, runs, budget);
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < all.size(); ++i)
    entries.push_back({all[i].solver->info().name, all[i].predicted, times[i].us});
  return entries;
}

/// None when the solvers are predicted to exceed --seconds in all, or when only the reference solver applies.
std::vector<Result> run_problem(Handle& handle, const Problem& p, const Options& options) {
  const auto all = trials(handle, p, options);
  if (all.empty() || all[0].solver->info().reference) return {};
  Result r;
  r.problem = p.key();
  r.entries = measure(handle, p, all);
  std::size_t best = 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!all[i].solver->info().reference && r.entries[i].measured < r.entries[best].measured) best = i;
  r.chosen = r.entries[0].solver;
  r.best = r.entries[best].solver;
  r.regret = r.entries[0].measured / r.entries[best].measured;
  return {r};
}

std::vector<std::string> read_lines(const std::string& file, std::size_t limit) {
  std::ifstream in(file);
  if (!in) throw driver::ArgError(fmt::format("--list: cannot open '{}'", file));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") != std::string::npos) lines.push_back(line);
  }
  std::vector<std::string> some;
  for (std::size_t i = 0, count = std::min(limit, lines.size()); i < count; ++i)
    some.push_back(lines[i * lines.size() / count]);
  return some;
}

struct Statistics {
  double geomean = 1, p5 = 1, p50 = 1, p95 = 1, worst = 1;
};

Statistics statistics(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  double logs = 0;
  for (const double v : values) logs += std::log(v);
  const auto at = [&](double part) {
    return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1) + 0.5)];
  };
  return {std::exp(logs / static_cast<double>(values.size())), at(0.05), at(0.5), at(0.95), values.back()};
}

void print_text(std::vector<Result> results, std::size_t skipped, const DeviceInfo& device) {
  fmt::print("{} with {} threads: {:.0f} GFLOP/s, {:.1f} GB/s; {} problems, {} skipped as too long\n", device.model,
             device.threads, device.fp32_gflops, device.bandwidth_gbs, results.size(), skipped);
  std::vector<double> regrets;
  std::map<std::string, std::vector<double>> ratios;
  std::size_t entries = 0, close = 0, low = 0;
  for (const Result& r : results) {
    regrets.push_back(r.regret);
    for (const Entry& e : r.entries) {
      ratios[e.solver].push_back(e.ratio());
      ++entries;
      close += e.ratio() >= 0.5 && e.ratio() <= 2;
      low += e.ratio() < 0.5;
    }
  }
  const Statistics s = statistics(regrets);
  fmt::print("chosen / best measured: geomean {:.3f}  p95 {:.3f}  worst {:.3f}\n\n", s.geomean, s.p95, s.worst);
  fmt::print("predicted / measured        problems  geomean     p5    p50    p95\n");
  for (const auto& [solver, values] : ratios) {
    const Statistics r = statistics(values);
    fmt::print("{:26} {:9} {:8.2f} {:6.2f} {:6.2f} {:6.2f}\n", solver, values.size(), r.geomean, r.p5, r.p50, r.p95);
  }
  fmt::print("predicted within a factor of 2: {:.1f}%; below half of the measured time: {:.1f}%\n\nworst choices\n",
             100.0 * static_cast<double>(close) / static_cast<double>(std::max<std::size_t>(entries, 1)),
             100.0 * static_cast<double>(low) / static_cast<double>(std::max<std::size_t>(entries, 1)));
  std::stable_sort(results.begin(), results.end(),
                   [](const Result& a, const Result& b) { return a.regret > b.regret; });
  for (std::size_t i = 0; i < std::min<std::size_t>(results.size(), 10); ++i)
    fmt::print("{:6.2f}  {} instead of {}: {}\n", results[i].regret, results[i].chosen, results[i].best,
               results[i].problem);
}

void print_json(const std::vector<Result>& results, std::size_t skipped, const DeviceInfo& device) {
  nlohmann::json out{{"device", device.model},      {"threads", device.threads}, {"gflops", device.fp32_gflops},
                     {"gbs", device.bandwidth_gbs}, {"skipped", skipped},        {"problems", nlohmann::json::array()}};
  for (const Result& r : results) {
    nlohmann::json solvers = nlohmann::json::array();
    for (const Entry& e : r.entries)
      solvers.push_back({{"solver", e.solver}, {"predicted_us", e.predicted}, {"measured_us", e.measured}});
    out["problems"].push_back(
        {{"problem", r.problem}, {"chosen", r.chosen}, {"best", r.best}, {"regret", r.regret}, {"solvers", solvers}});
  }
  fmt::print("{}\n", out.dump(1));
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--json") {
      o.json = true;
      continue;
    }
    if (i + 1 == argc || (flag != "--list" && flag != "--limit" && flag != "--seconds"))
      throw driver::ArgError(
          fmt::format("unknown flag or missing value: '{}', allowed: --list FILE --limit N --seconds S --json", flag));
    const std::string value = argv[++i];
    if (flag == "--list") {
      o.lists.push_back(value);
      continue;
    }
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    if (value.empty() || *end != '\0' || !(number > 0))
      throw driver::ArgError(fmt::format("{}: bad value '{}', allowed: a positive number", flag, value));
    if (flag == "--limit") o.limit = static_cast<std::size_t>(std::min(number, 1e9));
    if (flag == "--seconds") o.seconds = number;
  }
  if (o.lists.empty())
    for (const char* name : {"cpu_suite.txt", "cpu_variants.txt", "miopen_finddb_fp32.txt"})
      o.lists.push_back(std::string(POLYMIO_PROBLEMS_DIR "/") + name);
  return o;
}

/// The best of many short measurements, since the machine may be busy.
DevicePeak best_peak(Stream& stream) {
  DevicePeak best = stream.quick_peak();
  for (int i = 0; i < 15; ++i) {
    const DevicePeak peak = stream.quick_peak();
    best.fp32_gflops = std::max(best.fp32_gflops, peak.fp32_gflops);
    best.bandwidth_gbs = std::max(best.bandwidth_gbs, peak.bandwidth_gbs);
  }
  return best;
}

void run(const Options& options) {
  Handle handle("cpu", nullptr);
  handle.stream().calibrate(best_peak(handle.stream()));
  std::vector<Result> results;
  std::size_t skipped = 0;
  for (const std::string& list : options.lists)
    for (const std::string& line : read_lines(list, options.limit)) {
      const driver::ConvArgs args = driver::parse_line(line);
      for (int d = 0; d < 3; ++d) {
        if ((driver::direction_mask(args) >> d & 1) == 0) continue;
        const auto some = run_problem(handle, problem_of(args, static_cast<Direction>(d)), options);
        skipped += some.empty();
        results.insert(results.end(), some.begin(), some.end());
      }
    }
  options.json ? print_json(results, skipped, handle.device()) : print_text(results, skipped, handle.device());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse(argc, argv));
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "regret: {}\n", e.what());
    return 1;
  }
}
