// Convolutions on plain tensors: this library against oneDNN in one process, interleaved on the same data, results
// compared. bench/README.md says how to install the baseline; without it only our times are shown.
// SPDX-License-Identifier: MIT
#include <dirent.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

#include "bench/onednn_baseline.h"
#include "bench/peak.h"
#include "bench/problem_list.h"
#include "bench/results_table.h"
#include "driver/run/conv_calls.h"
#include "driver/run/conv_data.h"
#include "driver/report/resnet.h"

namespace {

using namespace polymio;
using namespace polymio::bench;
using driver::Problem;

constexpr char kUsage[] = R"(usage: cpu_vs_onednn [FLAGS]
  --onednn PATH       a oneDNN library as baseline; may be repeated (default: ONEDNN_LIBRARY, else the active Python
                      environment and the system); none: no baseline
  --list FILE         problems, as driver lines; may be repeated (default: the suite)
  --dtypes LIST       of fp32, bf16, fp16, int8 (default: fp32)
  --directions LIST   of F, B, W (default: all)
  --layouts LIST      of NCHW, NHWC (default: NCHW)
  --threads LIST      (default: 1)
  --class LIST        problems of these classes only
  --filter TEXT       problems whose name contains it
  --part I/N          every Nth problem, starting with the Ith (1 <= I <= N)
  --seconds S         measuring time per implementation and problem (default: 0.2)
  --choice HOW        how our solver is chosen: immediate (untuned), find or tune (default: find)
  --math N            polymioMathMode_t of ours (default: 1, accurate)
  --least             compare least times instead of medians
  --csv FILE          every row
  --read FILE         reports the rows of an earlier --csv and measures nothing; may be repeated
  --out FILE          the report (default: standard output)
)";

struct Options {
  std::vector<std::string> baselines, lists, read, dtypes{"fp32"}, directions{"F", "B", "W"}, layouts{"NCHW"}, groups;
  std::vector<int> threads{1};
  std::string filter, choice = "find", csv, out;
  std::size_t part = 1, parts = 1;
  double seconds = 0.2;
  int math = 1;
  bool least = false;
};

double ms_of(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

double now_ms() { return ms_of(CLOCK_MONOTONIC); }

/// Times of one implementation. With `own_thread` (all work is on the calling thread) a run counts by wall time if it
/// was not interrupted; only if all runs were interrupted, thread CPU time is used, which virtual machines report
/// correctly on average only.
class Samples {
 public:
  explicit Samples(bool own_thread = false) : own_thread_(own_thread) {}

  template <class Run>
  double add(Run run) {
    constexpr double kMaxClockRatio = 1.02;
    const double own = ms_of(CLOCK_THREAD_CPUTIME_ID), start = now_ms();
    run();
    const double wall = now_ms() - start, thread = ms_of(CLOCK_THREAD_CPUTIME_ID) - own;
    const bool uninterrupted =
        !own_thread_ || (wall < kMaxClockRatio * thread && thread < kMaxClockRatio * wall + 0.001);
    (uninterrupted ? uninterrupted_ : interrupted_).push_back(uninterrupted ? wall : thread);
    return uninterrupted ? wall : thread;
  }

  Time time() const {
    std::vector<double> sorted = uninterrupted_.empty() ? interrupted_ : uninterrupted_;
    if (sorted.empty()) return {};
    std::sort(sorted.begin(), sorted.end());
    const double median = sorted[sorted.size() / 2];
    return {median, uninterrupted_.empty() ? median : sorted[0]};
  }

 private:
  bool own_thread_;
  std::vector<double> uninterrupted_, interrupted_;
};

/// The processors that the process may use.
std::vector<int> allowed_processors() {
  cpu_set_t set;
  std::vector<int> all;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) all.push_back(i);
  return all;
}

/// Restricts the process to its first `count` processors.
void restrict_process(int count) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : allowed_processors())
    if (count-- > 0) CPU_SET(processor, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

void pin(int thread, int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  sched_setaffinity(thread, sizeof(set), &set);
}

/// Pins the calling thread to the first processor, the other threads round-robin to the rest of the first `threads`.
void pin_threads(const std::vector<int>& processors, int threads) {
  pin(0, processors[0]);
  const std::size_t used = std::min<std::size_t>(threads, processors.size());
  DIR* const tasks = opendir("/proc/self/task");
  if (used < 2 || tasks == nullptr) return void(tasks != nullptr && closedir(tasks));
  std::size_t next = 0;
  while (const dirent* entry = readdir(tasks)) {
    const int id = std::atoi(entry->d_name);
    if (id > 0 && id != getpid()) pin(id, processors[1 + next++ % (used - 1)]);
  }
  closedir(tasks);
}

struct Implementation {
  std::function<void()> run;
  Samples samples;
  double warm_ms = 0;
};

/// Samples one implementation for at least a millisecond; a short one first runs once untimed to warm the caches.
void take_samples(Implementation& c) {
  constexpr double kLong = 20, kTurn = 1;  // ms
  if (c.warm_ms < kLong) c.run();
  const double end = now_ms() + kTurn;
  do c.samples.add(c.run);
  while (now_ms() < end);
}

/// Samples all implementations round-robin, so that drift of the machine affects all alike. Threads of one
/// implementation may still spin when the next one starts: a pause lets them sleep.
void interleave(const std::vector<Implementation*>& all, double seconds, int threads) {
  constexpr int kMinRounds = 3;
  constexpr double kRunOnceMs = 2000;  // slower implementations are sampled once
  const double end = now_ms() + 1e3 * seconds * static_cast<double>(all.size());
  for (int round = 0; round < kMinRounds || now_ms() < end; ++round)
    for (Implementation* c : all) {
      if (round > 0 && c->warm_ms > kRunOnceMs) continue;
      if (threads > 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      take_samples(*c);
    }
}

/// Number of layers of ResNet-50 per problem, by its forward line.
std::map<std::string, int> resnet_counts() {
  std::map<std::string, int> counts;
  for (const driver::Layer& layer : driver::resnet50(16)) ++counts[driver::problem_line(layer.args, driver::kForward)];
  return counts;
}

const char* direction_letter(driver::Direction d) {
  return d == driver::kForward ? "F" : d == driver::kBackwardData ? "B" : "W";
}

double tolerance_of(const std::string& dtype) {
  if (dtype == "int8") return 1e-9;  // exact
  return dtype == "bf16" ? 2e-2 : dtype == "fp16" ? 4e-3 : 3e-4;
}

/// Largest difference relative to the largest element.
double difference(const reference::Tensor& t, const void* a, const void* b) {
  double most = 0, largest = 0;
  for (std::int64_t i = 0; i < t.space(); ++i) {
    const double p = reference::load(t.type, a, i), q = reference::load(t.type, b, i);
    if (!std::isfinite(p) || !std::isfinite(q)) return INFINITY;
    most = std::max(most, std::abs(p - q));
    largest = std::max(largest, std::abs(q));
  }
  return largest > 0 ? most / largest : most;
}

/// The fastest variant of the baseline so far.
struct Best {
  BaselineVariant variant;
  Implementation implementation;
  double difference = 0;
};

class Bench {
 public:
  Bench(const Options& options, std::vector<std::unique_ptr<Baseline>> baselines)
      : options_(options),
        baselines_(std::move(baselines)),
        processors_(allowed_processors()),
        resnet_(resnet_counts()) {}

  Row measure(const ListedProblem& entry, const std::string& dtype, const std::string& layout,
              driver::Direction direction, int threads);
  const driver::Session& session(int threads);
  double peak(const std::string& dtype, int threads);

 private:
  /// SYCL's threads cannot be pinned.
  bool has_sycl() const {
    return std::any_of(baselines_.begin(), baselines_.end(), [](const auto& p) { return p->is_sycl(); });
  }
  bool own_thread(int threads) const { return threads == 1 && !has_sycl(); }
  void try_variant(BaselineVariant variant, bool own_thread, std::optional<Best>& best) const;
  /// The fastest variants: in the same layouts, with reorders, of version 2.
  void find_baselines(const Problem& problem, void* const tensors[3], const void* ours, int threads,
                      std::optional<Best> (&best)[3]) const;
  std::uint64_t choose(const driver::Session& session, const Problem& problem, const driver::DeviceData& data) const;

  const Options& options_;
  std::vector<std::unique_ptr<Baseline>> baselines_;
  std::vector<int> processors_;
  std::map<std::string, int> resnet_;
  std::map<int, std::unique_ptr<driver::Session>> sessions_;
  std::map<std::string, double> peaks_;  // GFLOP/s of one thread by data type
  int measured_ = 0;
};

const driver::Session& Bench::session(int threads) {
  auto& s = sessions_[threads];
  if (s == nullptr) {
    s = std::make_unique<driver::Session>("cpu");
    driver::check(polymioSetThreadCap(s->get(), threads), "polymioSetThreadCap");
  }
  return *s;
}

double Bench::peak(const std::string& dtype, int threads) {
  double& gflops = peaks_[dtype];
  if (gflops == 0) gflops = peak_gflops(dtype);
  return gflops * threads;
}

/// Keeps the variant if it is the fastest so far. The first run also touches its buffers; slow variants stop early.
void Bench::try_variant(BaselineVariant variant, bool own_thread, std::optional<Best>& best) const {
  constexpr int kRuns = 4;
  constexpr double kMaxRatio[] = {4, 1.5};  // to the fastest so far, after the first run and after later runs
  constexpr double kLong = 20;              // ms
  Best b{std::move(variant), {{}, Samples(own_thread), INFINITY}, 0};
  for (int i = 0; i < kRuns; ++i) {
    const double ms = b.implementation.samples.add([&] { b.variant.run(); });
    b.implementation.warm_ms = std::min(ms, b.implementation.warm_ms);
    if (best && ms > kMaxRatio[i > 0] * best->implementation.warm_ms) break;
    if (i == 1 && ms > kLong) break;
  }
  b.implementation.samples = Samples(own_thread);
  if (!best || b.implementation.warm_ms < best->implementation.warm_ms) best = std::move(b);
}

void Bench::find_baselines(const Problem& problem, void* const tensors[3], const void* ours, int threads,
                           std::optional<Best> (&best)[3]) const {
  for (const auto& baseline : baselines_) {
    baseline->set_threads(threads);
    baseline->for_each_variant(problem, tensors, [&](BaselineVariant variant) {
      const int column = !baseline->is_current() ? 2 : variant.same_layouts ? 0 : 1;
      try_variant(std::move(variant), own_thread(threads), best[column]);
    });
  }
  const reference::Tensor& written = problem.tensors[problem.written()];
  void* const out = tensors[problem.written()];
  for (auto& b : best) {
    if (!b) continue;
    std::memset(out, 0xff, written.bytes());
    b->variant.run();
    b->difference = difference(written, ours, out);
  }
}

/// The solution that the library chooses for the problem with --choice.
std::uint64_t Bench::choose(const driver::Session& session, const Problem& problem,
                            const driver::DeviceData& data) const {
  if (options_.choice != "immediate") driver::find(session, problem, data, options_.choice == "tune");
  const auto solutions = driver::solutions(session, problem);
  if (solutions.empty()) throw driver::RunError("no solution");
  return solutions[0].solution_id;
}

Row Bench::measure(const ListedProblem& entry, const std::string& dtype, const std::string& layout,
                   driver::Direction direction, int threads) {
  driver::ConvArgs args = entry.args;
  args.base = dtype == "fp32" ? "conv" : dtype == "fp16" ? "convfp16" : dtype == "bf16" ? "convbfp16" : "convint8";
  const std::string full =
      args.spatial_dim == 3 ? layout.substr(0, layout.find('H')) + "DH" + layout.substr(layout.find('H') + 1) : layout;
  args.in_layout = args.wei_layout = args.out_layout = full;
  args.math = options_.math;
  const Problem problem(args, direction);
  Row row;
  row.list = entry.list;
  row.name = entry.name;
  row.group = entry.group;
  row.dtype = dtype;
  row.layout = layout;
  row.direction = direction_letter(direction);
  row.threads = threads;
  if (const auto it = resnet_.find(driver::problem_line(entry.args, driver::kForward)); it != resnet_.end())
    row.resnet_layers = it->second;
  row.gflop = problem.gflop();
  row.peak_gflops = peak(dtype, threads);

  const driver::Session& s = session(threads);
  driver::TensorData data(s, problem);
  driver::DeviceData memory{};
  for (int role = 0; role < 3; ++role) memory.tensors[role] = data.buffers[role].device();
  driver::Buffer workspace(s, driver::find_workspace(s, problem), "the workspace");
  memory.workspace = workspace.device();
  memory.workspace_bytes = workspace.bytes();
  const std::uint64_t id = choose(s, problem, memory);
  row.solver = driver::solution_name(id);
  Implementation ours{[&] { driver::run_solution(s, problem, memory, id); }, Samples(own_thread(threads))};
  ours.warm_ms = Samples(own_thread(threads)).add(ours.run);

  driver::Buffer other(s, problem.tensors[problem.written()].bytes(), "the baseline's output");
  void* tensors[3] = {memory.tensors[0], memory.tensors[1], memory.tensors[2]};
  tensors[problem.written()] = other.device();
  std::optional<Best> best[3];
  find_baselines(problem, tensors, memory.tensors[problem.written()], threads, best);

  if (!has_sycl()) pin_threads(processors_, threads);
  std::vector<Implementation*> all{&ours};
  for (auto& b : best)
    if (b) {
      b->implementation.run = [&v = b->variant] { v.run(); };
      all.push_back(&b->implementation);
    }
  interleave(all, options_.seconds, threads);
  row.ours = ours.samples.time();
  Time* const times[] = {&row.plain, &row.reordered, &row.old};
  std::string* const impls[] = {&row.plain_impl, &row.reordered_impl, &row.old_impl};
  for (int i = 0; i < 3; ++i) {
    if (!best[i]) continue;
    *times[i] = best[i]->implementation.samples.time();
    *impls[i] = best[i]->variant.impl;
    row.difference = std::max(row.difference, best[i]->difference);
    row.tolerance = tolerance_of(dtype);
  }
  constexpr int kAloneEvery = 8;  // every 8th problem is also measured without the baseline
  if (all.size() > 1 && measured_++ % kAloneEvery == 0) {
    Implementation alone{ours.run, Samples(own_thread(threads)), ours.warm_ms};
    interleave({&alone}, options_.seconds, threads);
    row.alone_ms = alone.samples.time().least;
  }
  return row;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> items;
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, ',');) items.push_back(item);
  return items;
}

double positive(const std::string& flag, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value > 0))
    throw driver::ArgError(flag + ": bad value '" + text + "', allowed: a positive number");
  return value;
}

void require_among(const std::string& flag, const std::vector<std::string>& items,
                   std::initializer_list<const char*> allowed) {
  for (const std::string& item : items)
    if (std::find(allowed.begin(), allowed.end(), item) == allowed.end())
      throw driver::ArgError(fmt::format("{}: bad value '{}', allowed: {}", flag, item, fmt::join(allowed, ", ")));
}

void parse_part(const std::string& text, Options& o) {
  const std::size_t slash = text.find('/');
  const std::string message = "--part: bad value '" + text + "', allowed: I/N with I from 1 to N";
  if (slash == std::string::npos) throw driver::ArgError(message);
  o.part = static_cast<std::size_t>(positive("--part", text.substr(0, slash)));
  o.parts = static_cast<std::size_t>(positive("--part", text.substr(slash + 1)));
  if (o.part < 1 || o.part > o.parts) throw driver::ArgError(message);
}

Options parse(int argc, char** argv) {
  Options o;
  const std::map<std::string, std::function<void(const std::string&)>> flags = {
      {"--onednn", [&](const std::string& v) { o.baselines.push_back(v); }},
      {"--list", [&](const std::string& v) { o.lists.push_back(v); }},
      {"--read", [&](const std::string& v) { o.read.push_back(v); }},
      {"--dtypes", [&](const std::string& v) { o.dtypes = split(v); }},
      {"--directions", [&](const std::string& v) { o.directions = split(v); }},
      {"--layouts", [&](const std::string& v) { o.layouts = split(v); }},
      {"--class", [&](const std::string& v) { o.groups = split(v); }},
      {"--filter", [&](const std::string& v) { o.filter = v; }},
      {"--part", [&](const std::string& v) { parse_part(v, o); }},
      {"--seconds", [&](const std::string& v) { o.seconds = positive("--seconds", v); }},
      {"--choice", [&](const std::string& v) { o.choice = v; }},
      {"--math", [&](const std::string& v) { o.math = v == "0" ? 0 : static_cast<int>(positive("--math", v)); }},
      {"--csv", [&](const std::string& v) { o.csv = v; }},
      {"--out", [&](const std::string& v) { o.out = v; }},
      {"--threads",
       [&](const std::string& v) {
         o.threads.clear();
         for (const std::string& item : split(v)) o.threads.push_back(static_cast<int>(positive("--threads", item)));
       }},
  };
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--help") {
      fmt::print("{}", kUsage);
      std::exit(0);
    }
    if (flag == "--least") {
      o.least = true;
      continue;
    }
    const auto it = flags.find(flag);
    if (it == flags.end()) throw driver::ArgError("unknown flag '" + flag + "'\n" + kUsage);
    if (i + 1 == argc) throw driver::ArgError(flag + ": its value is missing\n" + kUsage);
    it->second(argv[++i]);
  }
  require_among("--dtypes", o.dtypes, {"fp32", "bf16", "fp16", "int8"});
  require_among("--directions", o.directions, {"F", "B", "W"});
  require_among("--layouts", o.layouts, {"NCHW", "NHWC"});
  require_among("--choice", {o.choice}, {"immediate", "find", "tune"});
  if (o.threads.empty()) throw driver::ArgError("--threads: no value, allowed: positive numbers separated by commas");
  if (o.lists.empty()) o.lists.push_back(POLYMIO_PROBLEMS_DIR "/cpu_suite.txt");
  return o;
}

std::vector<ListedProblem> read_entries(const Options& o) {
  std::vector<ListedProblem> selected;
  for (const std::string& list : o.lists) {
    std::size_t index = 0;
    for (ListedProblem& e : read_problem_list(list, "--list")) {
      if (!o.groups.empty() && std::find(o.groups.begin(), o.groups.end(), e.group) == o.groups.end()) continue;
      if (e.name.find(o.filter) == std::string::npos) continue;
      if (index++ % o.parts == o.part - 1) selected.push_back(std::move(e));
    }
  }
  return selected;
}

std::vector<std::unique_ptr<Baseline>> open_baselines(const Options& o) {
  const bool given = !o.baselines.empty() || std::getenv("ONEDNN_LIBRARY") != nullptr;
  std::vector<std::unique_ptr<Baseline>> baselines;
  if (o.baselines == std::vector<std::string>{"none"}) return baselines;
  for (const std::string& path : o.baselines.empty() ? usual_baselines() : o.baselines) {
    std::string reason;
    auto baseline = Baseline::open(path, reason);
    if (baseline == nullptr && given) throw driver::RunError(reason);
    if (baseline == nullptr) fmt::print(stderr, "baseline not used: {}\n", reason);
    if (baseline == nullptr) continue;
    if (baseline->is_sycl() && o.threads.size() > 1)
      throw driver::ArgError(path + " is a SYCL build: allowed: one value of --threads per run");
    baselines.push_back(std::move(baseline));
  }
  if (baselines.empty())
    fmt::print(
        stderr,
        "no oneDNN found: bench/README.md says how to install it; --onednn sets its path. Only our times follow\n");
  return baselines;
}

void print_row(const Row& r) {
  fmt::print(stderr, "{} {} {} {} {}T: ours {:.3f} ms by {} ({:.0f}% of peak)", r.name, r.dtype, r.layout, r.direction,
             r.threads, r.ours.least, r.solver, 100 * r.gflop * 1e3 / r.ours.least / r.peak_gflops);
  const auto baseline = [](const char* what, const Time& t, const std::string& impl) {
    if (t.least > 0) fmt::print(stderr, "; {} {:.3f} {}", what, t.least, impl);
  };
  baseline("baseline, same layouts", r.plain, r.plain_impl);
  baseline("with reorders", r.reordered, r.reordered_impl);
  baseline("version 2", r.old, r.old_impl);
  fmt::print(stderr, "\n");
  if (r.difference > r.tolerance)
    fmt::print(stderr,
               "WRONG: {} {} {} {}: {} and the baseline differ by {:.2g} of the largest element, allowed: {:.2g}\n",
               r.name, r.dtype, r.layout, r.direction, r.solver, r.difference, r.tolerance);
}

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown CPU";
}

Heading make_heading(const Options& o, Bench& bench, const std::vector<std::string>& baselines) {
  Heading h;
  h.least = o.least;
  h.baselines = baselines;
  h.date = fmt::format("{:%Y-%m-%d}", fmt::localtime(std::time(nullptr)));
  h.machine = fmt::format("{}, {} processors", cpu_name(), sysconf(_SC_NPROCESSORS_ONLN));
  for (const std::string& dtype : o.dtypes)
    h.machine += fmt::format(", {} {:.0f} GFLOP/s per thread", dtype, bench.peak(dtype, 1));
  std::size_t major = 0, minor = 0, patch = 0;
  driver::check(polymioGetVersion(&major, &minor, &patch), "polymioGetVersion");
  h.library =
      fmt::format("Polymio {}.{}.{}, solvers chosen by {}, math mode {}", major, minor, patch, o.choice, o.math);
  return h;
}

std::vector<Row> measure_all(const Options& o, Bench& bench) {
  std::vector<Row> rows;
  const auto entries = read_entries(o);
  for (const int threads : o.threads)
    for (const std::string& dtype : o.dtypes)
      for (const std::string& layout : o.layouts)
        for (const ListedProblem& e : entries)
          for (const driver::Direction d : {driver::kForward, driver::kBackwardData, driver::kBackwardWeights}) {
            const bool requested =
                std::find(o.directions.begin(), o.directions.end(), direction_letter(d)) != o.directions.end();
            if (!requested || (driver::direction_mask(e.args) & d) == 0 || (dtype == "int8" && d != driver::kForward))
              continue;
            rows.push_back(bench.measure(e, dtype, layout, d, threads));
            print_row(rows.back());
            if (!o.csv.empty()) write_csv(o.csv, rows);  // an interrupted run keeps its finished measurements
          }
  return rows;
}

int run(const Options& o) {
  const int max_threads = *std::max_element(o.threads.begin(), o.threads.end());
  restrict_process(max_threads);
  setenv("OMP_WAIT_POLICY", "passive", 1);  // OpenMP and SYCL read these when they are loaded
  setenv("DPCPP_CPU_NUM_CUS", std::to_string(max_threads).c_str(), 1);
  auto baselines = open_baselines(o);
  std::vector<std::string> versions;
  for (const auto& baseline : baselines) versions.push_back(baseline->version());
  Bench bench(o, std::move(baselines));
  std::vector<Row> rows;
  for (const std::string& path : o.read)
    for (Row& r : read_csv(path)) rows.push_back(std::move(r));
  if (o.read.empty()) rows = measure_all(o, bench);
  if (!o.csv.empty()) write_csv(o.csv, rows);
  const std::string text = report(make_heading(o, bench, versions), rows);
  if (o.out.empty())
    fmt::print("{}", text);
  else if (!(std::ofstream(o.out) << text).flush())
    throw driver::RunError("--out: cannot write '" + o.out + "'");
  return std::any_of(rows.begin(), rows.end(), [](const Row& r) { return r.difference > r.tolerance; }) ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder = (std::filesystem::temp_directory_path() / "polymio_bench_XXXXXX").string();
  if (!mkdtemp(folder.data())) {
    std::perror("mkdtemp");
    return 1;
  }
  setenv("MIOPEN_USER_DB_PATH", folder.c_str(), 1);
  int status = 2;
  try {
    status = run(parse(argc, argv));
  } catch (const std::exception& e) {
    fmt::print(stderr, "cpu_vs_onednn: {}\n", e.what());
  }
  std::filesystem::remove_all(folder);
  return status;
}
