// Measures many variants of convolution kernels in one run on a GPU: the problems of a list in every direction and
// type, by each tune point of the chosen solvers. All programs are compiled first; every result is compared with the
// reference kernel's; the variants of a problem are timed in rotation. bench/README.md has the method and the flags.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "base/hash.h"
#include "bench/gpu_compare.h"
#include "bench/gpu_graph.h"
#include "bench/problem_list.h"
#include "bench/problem_of.h"
#include "bench/rig_rows.h"
#include "core/kernel_builder.h"
#include "core/random.h"
#include "runtime/queue.h"

namespace {

using namespace polymio;
using convolution::Problem;
using Time = std::chrono::steady_clock;

constexpr int kWrong = 1, kBadArguments = 2, kLostDevice = 3;  // exit statuses
constexpr driver::Choice kTypes[] = {{"fp32", driver::kFloat}, {"fp16", driver::kHalf}, {"bf16", driver::kBFloat16}};
constexpr driver::Choice kDirections[] = {{"fwd", 0}, {"bwd", 1}, {"wrw", 2}};
constexpr driver::Choice kMathModes[] = {{"strict", static_cast<int>(MathMode::kStrict)},
                                         {"accurate", static_cast<int>(MathMode::kAccurate)},
                                         {"tf32", static_cast<int>(MathMode::kTf32)},
                                         {"any", static_cast<int>(MathMode::kAny)}};

struct Options {
  std::vector<std::string> problems, solvers, only, merge;
  std::vector<int> types, directions;
  std::string device = "cuda:0", points = "all", out;
  int math = static_cast<int>(MathMode::kAccurate);
  std::int64_t rounds = 9, patience = 30, seed = 0;
  double seconds = INFINITY, sample_us = 500, check_gflop = 200, tflops = 0, gbs = 0;
};

driver::Flags flags_of(Options& o) {
  using namespace driver;
  return {
      {"", "problems", Texts{&o.problems, "FILE"}, "lists of driver lines, '# NAME CLASS' behind each"},
      {"", "only", Texts{&o.only, "TEXT"}, "problems whose name or class contains one of these (default: all)"},
      {"", "types", Names{&o.types, kTypes}, "instead of the types of the lines"},
      {"", "directions", Names{&o.directions, ::kDirections}, "of those of the lines (default: all)"},
      {"", "solver", Texts{&o.solvers, "NAME"}, "solvers whose names begin so (default: all but the reference)"},
      {"", "points", Text{&o.points, "WHICH"},
       "tune points: default, all, or a number: the default one and the fastest by estimate"},
      {"", "math", Name{&o.math, kMathModes}, "error classes of solvers that are allowed"},
      {"", "device", Text{&o.device, "DEVICE"}, "cuda:0, or a GPU without graphs: opencl:0, hip:0"},
      {"", "seconds", Duration{&o.seconds}, "ends in time, as in 90s or 9m; what is missing is counted"},
      {"", "out", Text{&o.out, "FILE"}, "appends a line of JSON per variant"},
      {"", "merge", Texts{&o.merge, "FILE"},
       "rows of earlier runs: in the tables, and not measured again;\nwithout --problems only the tables are printed"},
      {"", "rounds", Integer{&o.rounds, 1, 1000}, "timed samples per variant"},
      {"", "sample", Real{&o.sample_us}, "microseconds of a sample"},
      {"", "check-gflop", Real{&o.check_gflop}, "larger problems are compared on some channels only"},
      {"", "patience", Integer{&o.patience, 1, 3600},
       "seconds after which a variant that does not end stops the program"},
      {"", "seed", Integer{&o.seed, 0, driver::kMaxInt}, "of the random inputs; 0: a new one"},
      {"", "tflops", Real{&o.tflops}, "matrix rate of the floor; 0: that of a large product of the type"},
      {"", "gbs", Real{&o.gbs}, "bandwidth of the floor in GB/s; 0: that of a large copy"},
  };
}

struct Variant {
  const SolverBase* solver;
  TunePoint point;
  Row row;
  AnyInvoker invoke = nullptr;
  std::shared_ptr<void> graph = nullptr;  // null: calls are enqueued one by one
  int calls = 1;                          // of a sample
  std::vector<double> samples = {};       // microseconds per call
};

/// The variants of a problem, which are timed together.
struct Group {
  Problem problem;
  std::vector<Variant> variants;
};

/// Ends the process when the device does not finish a variant in time.
class Watchdog {
 public:
  Watchdog(std::int64_t seconds, std::string out)
      : patience_(seconds), out_(std::move(out)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

  /// Watches a scope in which the device runs the variant.
  class Guard {
   public:
    Guard(Watchdog& dog, const Row& row) : dog_(dog) {
      const std::scoped_lock lock(dog_.mutex_);
      dog_.row_ = row;
      dog_.due_ = Time::now() + dog_.patience_;
    }
    ~Guard() {
      const std::scoped_lock lock(dog_.mutex_);
      dog_.row_.reset();
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Watchdog& dog_;
  };

 private:
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, stop, std::chrono::milliseconds(200), [] { return false; }) &&
           !stop.stop_requested()) {
      if (!row_ || Time::now() < due_) continue;
      row_->state = Row::kStuck;
      row_->note = fmt::format("not finished after {} s", patience_.count());
      append_rows(out_, {*row_});
      fmt::print("STUCK {} {} {}: {}\nrun again with --merge to continue after it\n", row_->solver, row_->point,
                 row_->problem, row_->note);
      std::fflush(stdout);
      ::_exit(kLostDevice);
    }
  }

  const std::chrono::seconds patience_;
  const std::string out_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Row> row_;
  Time::time_point due_;
  std::jthread thread_;
};

/// The device is lost, and so are all later calls.
struct LostDevice : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Copies of a problem's tensors, which calls use in rotation so that none finds them in the L2 cache.
class Tensors {
 public:
  Tensors(Handle& handle, const Problem& p, std::uint64_t seed) {
    const std::size_t bytes = p.x.bytes() + p.w.bytes() + p.y.bytes(), cache = handle.device().cache_bytes[1];
    constexpr std::size_t kMost = 256;
    const std::size_t count = bytes > 2 * cache ? 1 : std::min(kMost, 1 + (cache + bytes - 1) / bytes);
    const auto add = [&](const TensorDesc& t, void* Problem::Args::*data, bool input) {
      void* const first = memory_.emplace_back(handle, t.bytes()).data();
      if (input) fill_random(handle.stream(), t, first, mix(seed, memory_.size()));
      for (std::size_t i = 0; i < count; ++i) {
        void* const copy = i == 0 ? first : memory_.emplace_back(handle, t.bytes()).data();
        if (i > 0 && input) handle.stream().copy(copy, first, t.bytes());
        sets_[i].*data = copy;
      }
    };
    sets_.resize(count);
    using convolution::Direction;
    add(p.x, &Problem::Args::x, p.direction != Direction::kBackwardData);
    add(p.w, &Problem::Args::w, p.direction != Direction::kBackwardWeights);
    add(p.y, &Problem::Args::y, p.direction != Direction::kForward);
  }

  std::size_t count() const { return sets_.size(); }
  Problem::Args& operator[](std::size_t i) { return sets_[i % sets_.size()]; }
  void set_workspace(void* workspace, std::size_t bytes) {
    for (Problem::Args& a : sets_) {
      a.workspace = workspace;
      a.workspace_bytes = bytes;
    }
  }

 private:
  std::deque<Memory> memory_;
  std::vector<Problem::Args> sets_;
};

void* output_of(const Problem& p, const Problem::Args& a) {
  return p.direction == convolution::Direction::kForward        ? a.y
         : p.direction == convolution::Direction::kBackwardData ? a.x
                                                                : a.w;
}

class Rig {
 public:
  explicit Rig(const Options& options)
      : options_(options),
        deadline_(std::isfinite(options.seconds) ? Time::now() + std::chrono::duration_cast<Time::duration>(
                                                                     std::chrono::duration<double>(options.seconds))
                                                 : Time::time_point::max()),
        seed_(options.seed ? static_cast<std::uint64_t>(options.seed)
                           : static_cast<std::uint64_t>(std::time(nullptr)) & driver::kMaxInt),
        queue_(queue_for_graphs(options.device)),
        handle_(options.device, queue_ ? queue_->native() : nullptr),
        stream_(handle_.stream()),
        graphs_(stream_),
        watchdog_(options.patience, options.out) {
    if (handle_.device().kind == DeviceKind::kCpu)
      throw driver::ArgError("--device: bad value 'cpu', allowed: a GPU; bench/regret measures solvers of the CPU");
  }

  /// The rows of this run; its exit status is status().
  std::vector<Row> run(const std::vector<Row>& earlier);
  int status() const { return status_; }

 private:
  bool is_over() const { return Time::now() >= deadline_; }
  std::vector<Group> plan(const std::vector<Row>& earlier);
  void add_variants(Group&, const ListedProblem&, const std::set<std::string>& done);
  std::vector<TunePoint> points_of(const SolverBase&, const Problem&) const;
  void compile(const std::vector<Group>&);
  void measure(Group&);
  void check(Variant&, const Problem&, const Expected&, Problem::Args&, FunctionRef<void()> run);
  void start(Variant&, const Problem&, const Expected&, Tensors&);
  void time(const Problem&, std::vector<Variant*>, Tensors&, const Expected&);
  void exclude(Variant&, const char* state, const std::string& why);
  void enqueue(const Variant&, Tensors&);
  double sample_us(const Variant&, Tensors&);
  double floor_us(const Problem&);
  double matrix_rate(DataType);
  double bandwidth();
  double rate_of(double work, FunctionRef<void()> call);

  const Options& options_;
  const Time::time_point deadline_;
  const std::uint64_t seed_;
  const std::shared_ptr<Queue> queue_;
  Handle handle_;
  Stream& stream_;
  const Graphs graphs_;
  Watchdog watchdog_;
  std::map<DataType, double> matrix_rates_;             // operations per microsecond
  double bandwidth_ = 0;                                // bytes per microsecond
  std::map<std::string, std::string> failed_programs_;  // names of a variant's programs: the error
  int status_ = 0;
};

std::vector<TunePoint> Rig::points_of(const SolverBase& solver, const Problem& p) const {
  const DeviceInfo& device = handle_.device();
  const TunePoint start = solver.default_point(device, p);
  if (options_.points == "default") return {start};
  std::vector<std::pair<double, TunePoint>> others;
  for (TunePoint& point : valid_points(solver, device, p))
    if (point != start) others.emplace_back(solver.estimate(device, p, point), std::move(point));
  std::stable_sort(others.begin(), others.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const std::size_t most = options_.points == "all" ? SIZE_MAX : std::stoul(options_.points);
  std::vector<TunePoint> points{start};
  for (auto& [us, point] : others)
    if (points.size() < most) points.push_back(std::move(point));
  return points;
}

void Rig::add_variants(Group& group, const ListedProblem& listed, const std::set<std::string>& done) {
  const DeviceInfo& device = handle_.device();
  const Problem& p = group.problem;
  const Constraints constraints{.math = static_cast<MathMode>(options_.math)};
  for (const SolverBase* s : convolution::solvers(p.direction, device.kind)) {
    const SolverInfo info = s->info();
    const auto named = [&](const std::string& text) { return std::string_view(info.name).starts_with(text); };
    if (options_.solvers.empty() ? info.reference : std::ranges::none_of(options_.solvers, named)) continue;
    if (!admit(*s, device, p, constraints)) continue;
    for (TunePoint& point : points_of(*s, p)) {
      Row r;
      r.device = device.model;
      r.problem = p.key();
      r.name = listed.name;
      r.group = listed.group;
      r.direction = kDirections[static_cast<int>(p.direction)].name;
      r.type = name_of(p.output().type);
      r.solver = info.name;
      r.version = info.version;
      r.point = to_text(point);
      r.is_default = point == s->default_point(device, p);
      r.predicted_us = s->estimate(device, p, point);
      r.flops = p.flops();
      r.bytes = static_cast<double>(p.x.bytes() + p.w.bytes() + p.y.bytes());
      r.workspace = static_cast<double>(s->workspace_size(device, p, point));
      if (!done.contains(r.key())) group.variants.push_back({s, std::move(point), std::move(r)});
    }
  }
}

std::vector<Group> Rig::plan(const std::vector<Row>& earlier) {
  std::set<std::string> done, seen;
  for (const Row& r : earlier) done.insert(r.key());
  std::vector<Group> groups;
  for (const std::string& path : options_.problems)
    for (const ListedProblem& listed : read_problem_list(path, "--problems")) {
      const auto in = [&](const std::string& text) {
        return listed.name.find(text) != std::string::npos || listed.group.find(text) != std::string::npos;
      };
      if (!options_.only.empty() && std::ranges::none_of(options_.only, in)) continue;
      std::vector<int> types = options_.types;
      if (types.empty()) types.push_back(driver::conv_bases().type_of(listed.args.base));
      for (const int type : types) {
        driver::ConvArgs args = listed.args;
        const auto names = driver::conv_bases().names();
        for (std::size_t i = 0; i < names.size(); ++i)
          if (driver::conv_bases().types[i] == type) args.base = names[i];
        for (int d = 0; d < 3; ++d) {
          const bool chosen = options_.directions.empty() || std::ranges::count(options_.directions, d) > 0;
          if (!chosen || (driver::direction_mask(args) >> d & 1) == 0) continue;
          Group group{problem_of(args, static_cast<convolution::Direction>(d)), {}};
          const DataType out = group.problem.output().type;
          if (out == DataType::kInt8 || out == DataType::kDouble)
            throw driver::ArgError(fmt::format("{}: {}: bad type {} of results, allowed: all but int8 and fp64", path,
                                               listed.name, name_of(out)));
          if (!seen.insert(group.problem.key()).second) continue;
          add_variants(group, listed, done);
          if (!group.variants.empty()) groups.push_back(std::move(group));
        }
      }
    }
  return groups;
}

/// On all cores, in parts between which the time may end.
void Rig::compile(const std::vector<Group>& groups) {
  const auto begin = Time::now();
  std::vector<KernelSpec> specs;
  std::set<std::string> seen;
  const auto add = [&](std::vector<KernelSpec> some) {
    for (KernelSpec& spec : some)
      if (seen.insert(program_name(spec)).second) specs.push_back(std::move(spec));
  };
  for (const Group& g : groups) {
    add(Expected::programs(handle_.device(), g.problem));
    for (const Variant& v : g.variants) add(v.solver->kernel_specs(handle_.device(), g.problem, v.point));
  }
  const std::size_t part = 4 * std::max(1u, std::thread::hardware_concurrency());
  std::size_t compiled = 0, at = 0;
  for (; at < specs.size() && !is_over(); at += part) {
    const std::span some(specs.data() + at, std::min(part, specs.size() - at));
    try {
      compiled += compile_to_disk(stream_.compiler(), some);
    } catch (const std::exception&) {  // which program failed and why: reported with its variants
    }
  }
  fmt::print("{} programs, {} compiled in {:.1f} s\n", specs.size(), compiled,
             std::chrono::duration<double>(Time::now() - begin).count());
}

/// Operations or bytes per microsecond.
double Rig::rate_of(double work, FunctionRef<void()> call) {
  double best = INFINITY;
  for (int i = 0; i < 12; ++i) {
    const auto from = stream_.record();
    call();
    const auto to = stream_.record();
    best = std::min(best, stream_.elapsed_us(*from, *to));
  }
  return work / best;
}

double Rig::bandwidth() {
  if (bandwidth_ == 0 && options_.gbs > 0) bandwidth_ = options_.gbs * 1e3;
  if (bandwidth_ > 0) return bandwidth_;
  const std::size_t bytes = std::size_t{1} << (graphs_ ? 30 : 24);
  const Memory from(handle_, bytes), to(handle_, bytes);
  bandwidth_ = rate_of(2.0 * static_cast<double>(bytes), [&] { stream_.copy(to.data(), from.data(), bytes); });
  fmt::print("a copy moves {:.0f} GB/s\n", bandwidth_ * 1e-3);
  return bandwidth_;
}

double Rig::matrix_rate(DataType type) {
  double& rate = matrix_rates_[type];
  if (rate == 0 && options_.tflops > 0) rate = options_.tflops * 1e6;
  if (rate > 0) return rate;
  constexpr std::int64_t kSide = 8192;
  constexpr std::size_t kWorkspace = 64u << 20;
  const MatrixProduct product{.in = type,
                              .out = type,
                              .tf32 = false,
                              .transpose_a = true,
                              .transpose_b = false,
                              .m = kSide,
                              .n = kSide,
                              .k = kSide,
                              .step_a = kSide,
                              .step_b = kSide,
                              .step_c = kSide,
                              .batch = 1,
                              .batch_step_a = 0,
                              .batch_step_b = 0,
                              .batch_step_c = 0,
                              .alignment = 16,
                              .workspace = kWorkspace};
  const DeviceInfo& device = handle_.device();
  const bool bytes = size_of(type) == 1;
  const auto& flops = device.gpu.matrix_flops;
  const double tensor_cores = 1e3 * device.gpu.clock_ghz * device.units * (bytes ? flops.bits8 : flops.bits16);
  rate = size_of(type) <= 2 && tensor_cores > 0 ? tensor_cores : device.fp32_gflops * 1e3;
  const char* source = "nominal rate";
  if (const auto multiplier = graphs_ && !bytes ? stream_.multiplier(product, 0) : nullptr) {
    const TensorDesc square = make_tensor(type, std::array{kSide, kSide}, {});
    const RandomTensor a(handle_, square, 1), b(handle_, square, 2);
    const Memory c(handle_, square.bytes()), workspace(handle_, kWorkspace);
    const Multiplier::Operands operands{a.data(), b.data(), c.data(), workspace.data(), 1, 0};
    rate = rate_of(2.0 * kSide * kSide * kSide, [&] { multiplier->run(stream_, operands); });
    source = "8192x8192 products";
  }
  fmt::print("{} in {}: {:.1f} TFLOP/s\n", source, name_of(type), rate * 1e-6);
  return rate;
}

double Rig::floor_us(const Problem& p) {
  const double bytes = static_cast<double>(p.x.bytes() + p.w.bytes() + p.y.bytes());
  return std::max(p.flops() / matrix_rate(p.first_input().type), bytes / bandwidth());
}

void Rig::exclude(Variant& v, const char* state, const std::string& why) {
  v.row.state = state;
  v.row.note = why;
  status_ = kWrong;
  fmt::print("{} {} {} {}: {}\n", state == Row::kWrong ? "WRONG" : "FAILED", v.row.solver, v.row.point, v.row.problem,
             why);
  try {
    stream_.synchronize();
  } catch (const std::exception& e) {
    throw LostDevice(e.what());
  }
}

/// Compares what `run` writes through `args`.
void Rig::check(Variant& v, const Problem& p, const Expected& expected, Problem::Args& args, FunctionRef<void()> run) {
  expected.poison(output_of(p, args));
  stream_.synchronize();
  run();
  stream_.synchronize();
  const auto difference = expected.compare(*v.solver, output_of(p, args));
  v.row.error_norm = std::max(v.row.error_norm, difference.norm);
  v.row.error_ratio = std::max(v.row.error_ratio, difference.ratio);
  if (difference.wrong) exclude(v, Row::kWrong, difference.text);
}

void Rig::enqueue(const Variant& v, Tensors& tensors) {
  if (v.graph) return graphs_.replay(v.graph.get());
  for (int i = 0; i < v.calls; ++i) v.invoke(stream_, &tensors[static_cast<std::size_t>(i)]);
}

double Rig::sample_us(const Variant& v, Tensors& tensors) {
  const auto from = stream_.record();
  enqueue(v, tensors);
  const auto to = stream_.record();
  return stream_.elapsed_us(*from, *to) / v.calls;
}

/// Builds and checks a variant, and makes its sample.
void Rig::start(Variant& v, const Problem& p, const Expected& expected, Tensors& tensors) {
  const Watchdog::Guard guard(watchdog_, v.row);
  std::string programs;
  for (const KernelSpec& spec : v.solver->kernel_specs(handle_.device(), p, v.point))
    programs += program_name(spec) + ';';
  if (const auto known = failed_programs_.find(programs); known != failed_programs_.end())
    return exclude(v, Row::kFailed, known->second);
  try {
    check(v, p, expected, tensors[0], [&] {
      const auto begin = Time::now();
      try {
        v.invoke = v.solver->build(stream_, p, v.point);
      } catch (const Error& e) {
        if (e.status != Status::kAllocFailed) failed_programs_[programs] = e.what();
        throw;
      }
      v.invoke(stream_, &tensors[0]);
      stream_.synchronize();
      v.row.first_ms = 1e3 * std::chrono::duration<double>(Time::now() - begin).count();
    });
    if (!v.row.state.empty()) return;
    const double us = std::max(sample_us(v, tensors), 1.0);
    const auto sets = static_cast<int>(tensors.count());
    v.calls = sets * static_cast<int>(std::clamp(std::ceil(options_.sample_us / (us * sets)), 1.0, 1000.0));
    if (graphs_ && v.solver->info().capture_safe)
      v.graph = graphs_.record([&] {
        for (int i = 0; i < v.calls; ++i) v.invoke(stream_, &tensors[static_cast<std::size_t>(i)]);
      });
  } catch (const LostDevice&) {
    throw;
  } catch (const std::exception& e) {
    exclude(v, Row::kFailed, e.what());
  }
}

/// Samples of all variants in rotation, enqueued together so that the device does not idle; those that are much slower
/// than the best get two. Then each result is compared once more, under load.
void Rig::time(const Problem& p, std::vector<Variant*> variants, Tensors& tensors, const Expected& expected) {
  constexpr int kSamplesOfSlow = 2;
  constexpr double kSlow = 1.5;
  const auto begin = Time::now();
  const auto warm = [&] { return Time::now() - begin >= std::chrono::milliseconds(20); };
  for (int round = 0; round < options_.rounds && (round < kSamplesOfSlow || !is_over());) {
    const bool counts = warm();
    std::vector<std::unique_ptr<Event>> marks;
    marks.push_back(stream_.record());
    for (Variant* v : variants) {
      enqueue(*v, tensors);
      marks.push_back(stream_.record());
    }
    for (std::size_t i = 0; i < variants.size(); ++i) {
      const Watchdog::Guard guard(watchdog_, variants[i]->row);
      const double us = stream_.elapsed_us(*marks[i], *marks[i + 1]) / variants[i]->calls;
      if (counts) variants[i]->samples.push_back(us);
    }
    if (!counts) continue;
    ++round;
    std::ranges::reverse(variants);
    if (round != kSamplesOfSlow) continue;
    const auto fastest = [](const Variant* v) { return *std::ranges::min_element(v->samples); };
    const double best = fastest(*std::ranges::min_element(variants, {}, fastest));
    std::erase_if(variants, [&](const Variant* v) { return fastest(v) > kSlow * best; });
  }
  for (Variant* v : variants) {
    if (is_over()) break;
    const Watchdog::Guard guard(watchdog_, v->row);
    check(*v, p, expected, tensors[static_cast<std::size_t>(v->calls - 1)], [&] { enqueue(*v, tensors); });
  }
}

void Rig::measure(Group& group) {
  const Problem& p = group.problem;
  const double floor = floor_us(p);
  Tensors tensors(handle_, p, mix(seed_, p.hash()));
  const Expected expected(handle_, p, tensors[0], options_.check_gflop * 1e9, seed_);
  std::size_t bytes = 0;
  for (const Variant& v : group.variants) bytes = std::max(bytes, static_cast<std::size_t>(v.row.workspace));
  const Memory workspace(handle_, bytes);
  tensors.set_workspace(workspace.data(), bytes);
  std::vector<Variant*> good;
  for (Variant& v : group.variants) {
    if (is_over()) break;
    v.row.floor_us = floor;
    start(v, p, expected, tensors);
    if (v.row.state.empty()) good.push_back(&v);
  }
  try {
    if (!good.empty()) time(p, good, tensors, expected);
  } catch (const Error& e) {
    exclude(*good[0], Row::kFailed, e.what());
  }
  for (Variant& v : group.variants) {
    if (!v.row.state.empty() || v.samples.empty()) continue;
    auto middle = v.samples.begin() + static_cast<std::ptrdiff_t>(v.samples.size() / 2);
    std::nth_element(v.samples.begin(), middle, v.samples.end());
    v.row.us = *middle;
    v.row.samples = static_cast<int>(v.samples.size());
    v.row.state = Row::kTimed;
  }
}

std::vector<Row> Rig::run(const std::vector<Row>& earlier) {
  fmt::print("{} ({}), seed {}\n", handle_.device().model, handle_.device().name, seed_);
  std::vector<Group> groups = plan(earlier);
  std::size_t variants = 0;
  for (const Group& g : groups) variants += g.variants.size();
  if (groups.empty() && earlier.empty())
    throw driver::ArgError(
        "no solver that --solver names serves a problem of --problems, allowed by --only and --math");
  compile(groups);
  std::vector<Row> rows;
  const auto take = [&](Group& g) {
    std::vector<Row> found;
    for (Variant& v : g.variants)
      if (!v.row.state.empty()) found.push_back(v.row);
    append_rows(options_.out, found);
    rows.insert(rows.end(), found.begin(), found.end());
    if (!found.empty()) fmt::print("{}", table_of(found).substr(table_of({}).size()));
    std::fflush(stdout);
    g.variants.clear();
  };
  fmt::print("{}", table_of({}));
  for (Group& g : groups) {
    if (is_over()) break;
    try {
      measure(g);
    } catch (const LostDevice& e) {
      take(g);
      fmt::print("the device is lost: {}\nrun again with --merge to continue after it\n", e.what());
      std::fflush(stdout);
      ::_exit(kLostDevice);  // freeing what is on the device would fail
    } catch (const Error& e) {
      fmt::print("SKIPPED {}: {}\n", g.problem.key(), e.what());
      status_ = kWrong;
    }
    take(g);
  }
  if (rows.size() < variants) fmt::print("not measured: {} of {} variants\n", variants - rows.size(), variants);
  return rows;
}

int run(std::span<const std::string> arguments) {
  Options options;
  constexpr driver::Command kCommand{"gpu_rig", "", "Checks and times many variants of convolution kernels on a GPU."};
  if (!driver::parse_or_help(kCommand, flags_of(options), arguments)) return 0;
  const bool number = !options.points.empty() && options.points.size() < 7 && options.points[0] != '0' &&
                      options.points.find_first_not_of("0123456789") == std::string::npos;
  if (!number && options.points != "all" && options.points != "default")
    throw driver::ArgError(
        fmt::format("--points: bad value '{}', allowed: default, all, a positive number", options.points));
  std::vector<Row> rows;
  for (const std::string& path : options.merge) std::ranges::move(read_rows(path), std::back_inserter(rows));
  int status = 0;
  if (!options.problems.empty()) {
    Rig rig(options);
    std::ranges::move(rig.run(rows), std::back_inserter(rows));
    status = rig.status();
  } else if (options.merge.empty()) {
    throw driver::ArgError("--problems is missing, allowed: a file of driver lines");
  }
  fmt::print("\n{}\n{}", options.merge.empty() ? "" : table_of(rows), summary_of(rows));
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const driver::ArgError& e) {
    fmt::print(stderr, "gpu_rig: {}\n", e.what());
    return kBadArguments;
  } catch (const std::exception& e) {
    fmt::print(stderr, "gpu_rig: {}\n", e.what());
    return kWrong;
  }
}
