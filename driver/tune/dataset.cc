// Appends one line of JSON per problem: after a kill the next run resumes with the first problem without a line.
// Solvers are timed round-robin at their default points; the fastest sample counts, since disturbances only add time.
// SPDX-License-Identifier: MIT
#include "driver/commands.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "driver/run/conv_calls.h"
#include "driver/run/conv_data.h"
#include "driver/db/records.h"
#include "driver/base/files.h"
#include "driver/run/list.h"
#include "driver/tune/work.h"

namespace polymio::driver {
namespace {

// Ratios to the best time of the problem.
constexpr double kMaxTwoSamples = 8;     // a slower solver gets two samples, or one of at least kLongRunUs
constexpr double kMaxFourSamples = 1.5;  // a slower solver gets four samples
constexpr double kClose = 1.08;          // solvers within this are sampled further, so that noise does not decide
constexpr double kMaxPredicted = 64;     // solvers predicted slower are not run
constexpr double kMinSampleUs = 300;     // a sample repeats shorter runs
constexpr double kLongRunUs = 2000;      // the extra cost of a first run is negligible from here
constexpr int kRounds = 10;
constexpr int kCloseRounds = 60;
constexpr int kMinRounds = 3;

constexpr const char* kUserDb = "MIOPEN_USER_DB_PATH";

constexpr Command kDatasetCommand{"dataset", "--from-list FILE --out FILE",
                                  "Times every solver on the problems of a list, to train the learned model on.\n"
                                  "Your database is neither read nor written; the machine's peak is measured once and\n"
                                  "kept in the folder dataset.db beside the file. Resumes where an earlier run ended.\n"
                                  "Status 0: all is timed; 3: budget or interrupt came first; 1: one failed."};

struct DatasetArgs {
  std::string list, out, device, share;
  double budget = 0, each = 0.6;  // seconds
  bool points = false;
};

Flags flags_of(DatasetArgs& args) {
  return {
      {"", "from-list", Text{&args.list, "FILE"}, "problems, as POLYMIO_RECORD and tools/learn/problems.py write them"},
      {"", "out", Text{&args.out, "FILE"}, "gets one line of JSON per problem; problems that it has are left out"},
      {"", "budget", Duration{&args.budget}, "90s, 10m, 2h (default: until every problem is timed)"},
      {"", "each", Duration{&args.each}, "approximate maximum per problem"},
      {"", "points", Switch{&args.points}, "tune points of the matrix products instead of solvers"},
      device_flag(args.device),
      {"", "share", Text{&args.share, "I/N"}, "part I, from 0, of N (default: as mpirun or srun say)"},
  };
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// On one CPU thread the thread's own CPU time, which other programs hardly change; else wall time.
class Stopwatch {
 public:
  explicit Stopwatch(const Session& session) : session_(session) {
    check(polymioGetThreadCap(session.get(), &threads_), "polymioGetThreadCap");
  }
  int threads() const { return threads_; }
  double now_us() const {
    if (session_.device.kind != polymioDeviceCpu) check(polymioSynchronize(session_.get()), "polymioSynchronize");
    if (session_.device.kind != polymioDeviceCpu || threads_ != 1) return 1e6 * wall_seconds();
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e6 * static_cast<double>(t.tv_sec) + 1e-3 * static_cast<double>(t.tv_nsec);
  }

 private:
  const Session& session_;
  int threads_ = 1;
};

struct Timed {
  std::uint64_t id;
  std::string name, error_class;
  double estimate;
  double us = INFINITY;
  int samples = 0;
};

// The applicable solvers without the reference, best estimate first.
std::vector<Timed> trials(const nlohmann::json& explanation) {
  std::vector<Timed> all;
  for (const auto& s : explanation.at("solvers")) {
    if (!s.at("applicable").get<bool>() || s.at("reference").get<bool>()) continue;
    all.push_back({s.at("id"), s.at("name"), s.at("error_class"), s.at("predicted_us")});
  }
  std::stable_sort(all.begin(), all.end(), [](const Timed& a, const Timed& b) { return a.estimate < b.estimate; });
  return all;
}

class Comparison {
 public:
  Comparison(const Session& session, const Stopwatch& watch, const Problem& problem, std::vector<Timed>& all)
      : session_(session), watch_(watch), problem_(problem), all_(all), data_(session, problem) {
    std::size_t bytes = 0;
    for (const Timed& t : all) bytes = std::max(bytes, solution_workspace(session, problem, t.id));
    workspace_ = Buffer(session, bytes, "the workspace");
  }

  // Runs every solver once, then those that may be the fastest until `seconds` are over.
  void run(double seconds) {
    const double end = wall_seconds() + seconds;
    for (Timed& t : all_) {
      if (t.estimate > kMaxPredicted * best_us_) continue;
      compile_solution(session_, problem_, t.id);
      sample(t, 1);
    }
    for (int round = 0; round < kCloseRounds && (round < kMinRounds || wall_seconds() < end); ++round) {
      const double best_us = best_us_;
      if (round >= kRounds && close_solvers(best_us) < 2) return;
      for (Timed& t : all_)
        if (needs_sample(t, round, best_us)) sample(t, static_cast<int>(std::clamp(kMinSampleUs / t.us, 1.0, 1e4)));
    }
  }

 private:
  static bool needs_sample(const Timed& t, int round, double best_us) {
    if (t.samples == 0) return false;
    if (round >= kRounds) return t.us <= kClose * best_us;
    if (t.samples >= 4) return t.us <= kMaxFourSamples * best_us;
    return t.us <= kMaxTwoSamples * best_us || (t.samples < 2 && t.us < kLongRunUs);
  }
  std::ptrdiff_t close_solvers(double best_us) const {
    return std::count_if(all_.begin(), all_.end(), [&](const Timed& t) { return t.us <= kClose * best_us; });
  }
  void sample(Timed& t, int runs) {
    const DeviceData data{{data_.buffers[0].device(), data_.buffers[1].device(), data_.buffers[2].device()},
                          workspace_.device(),
                          workspace_.bytes()};
    const double start = watch_.now_us();
    for (int i = 0; i < runs; ++i) run_solution(session_, problem_, data, t.id);
    t.us = std::min(t.us, (watch_.now_us() - start) / runs);
    ++t.samples;
    best_us_ = std::min(best_us_, t.us);
  }

  const Session& session_;
  const Stopwatch& watch_;
  const Problem& problem_;
  std::vector<Timed>& all_;
  TensorData data_;
  Buffer workspace_;
  double best_us_ = INFINITY;
};

// The output file. Truncates an incomplete last line, which a killed run leaves.
class RowFile {
 public:
  explicit RowFile(const std::string& path) : path_(path) {
    const std::string why = open_regular(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW, file_);
    if (!why.empty()) throw ArgError(fmt::format("--out: cannot write '{}': {}", path, why));
    const std::string whole = read_whole(path);
    const std::size_t end = whole.rfind('\n') + 1;  // 0 when there is no line
    if (end < whole.size() && ftruncate(file_.get(), static_cast<off_t>(end)) != 0) {
      throw RunError(fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
    }
    for (std::size_t at = 0; at < end;) {
      const std::size_t next = whole.find('\n', at);
      const auto row = nlohmann::json::parse(whole.substr(at, next - at), nullptr, false);
      if (row.is_object()) done_.insert(name_of(row.value("problem", ""), row.value("threads", 0)));
      at = next + 1;
    }
  }

  static std::string name_of(const std::string& problem, int threads) { return fmt::format("{} {}", threads, problem); }
  bool has(const std::string& name) const { return done_.contains(name); }
  void add(const std::string& name, const nlohmann::ordered_json& row) {
    write_all(file_, path_, row.dump() + '\n');
    done_.insert(name);
  }

 private:
  std::string path_;
  Descriptor file_;
  std::set<std::string> done_;
};

nlohmann::ordered_json dataset_row(const nlohmann::json& explanation, const std::vector<Timed>& all) {
  nlohmann::ordered_json solvers = nlohmann::ordered_json::array();
  const auto rounded = [](double us) { return std::stod(fmt::format("{:.5g}", us)); };
  for (const Timed& t : all)
    if (t.samples > 0) solvers.push_back({t.name, rounded(t.us), rounded(t.estimate), t.error_class});
  const auto& peak = explanation.at("peak");
  return {{"problem", explanation.at("problem")},
          {"architecture", explanation.at("architecture")},
          {"threads", explanation.at("threads")},
          {"gflops", rounded(peak.at("fp32_gflops"))},
          {"gbs", rounded(peak.at("bandwidth_gbs"))},
          {"estimates", explanation.at("estimates")},
          {"solvers", solvers}};
}

// Measures tune points by tuning with a database of its own, whose journal keeps every trial.
class PointTimer {
 public:
  // `usual`: the database folder outside of tuning.
  PointTimer(std::string folder, std::string usual) : folder_(std::move(folder)), usual_(std::move(usual)) {
    for (const char* other : {"DIRECT", "WINOGRAD", "FFT"})
      ::setenv(fmt::format("MIOPEN_DEBUG_CONV_{}", other).c_str(), "0", 1);
  }
  ~PointTimer() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  PointTimer(const PointTimer&) = delete;
  PointTimer& operator=(const PointTimer&) = delete;

  nlohmann::ordered_json run(const Session& session, const Problem& problem, const std::string& key, double seconds) {
    ::setenv(kUserDb, folder_.c_str(), 1);
    polymioTuneOptions_t options{};
    options.size = sizeof(options);
    options.budget_ms = 1e3 * seconds;
    polymioTuneResult_t result{};
    result.size = sizeof(result);
    const OwnedProblem owner = make_problem(problem);
    check(polymioTune(session.get(), owner.get(), &options, &result), "polymioTune");
    ::setenv(kUserDb, usual_.c_str(), 1);
    nlohmann::ordered_json points = nlohmann::ordered_json::array();
    const auto file = std::filesystem::path(folder_) / fmt::format("{}.pdb.txt", session.device.architecture);
    if (!std::filesystem::exists(file)) return points;  // there was nothing to tune
    for (const Record& r : read_records(file.string()).records)
      if (r.problem == key && (r.kind == polymioRecordTrial || (r.kind == polymioRecordFailed && r.ms > 0)))
        points.push_back({r.solver, r.tune_point, 1e3 * r.ms});
    std::error_code ignored;
    std::filesystem::remove(file, ignored);
    return points;
  }

 private:
  std::string folder_, usual_;
};

struct Item {
  ConvArgs args;
  Direction direction;
};

std::vector<Item> items_of(const std::string& list, Share share) {
  std::vector<Item> all, mine;
  std::vector<double> costs;
  for (const ListItem& item : read_list(list))
    for (const Direction direction : kDirections) {
      if ((direction_mask(item.args) & direction) == 0) continue;
      all.push_back({item.args, direction});
      all.back().args.math = polymioMathAny;  // the reader filters by error class
      costs.push_back(cost(item.args));
    }
  for (const std::size_t i : deal(costs, share)) mine.push_back(all[i]);
  return mine;
}

// Returns false when the problem cannot be timed.
bool time_one(const Session& session, const Stopwatch& watch, const Item& item, double seconds, PointTimer* points,
              RowFile& file) {
  try {
    const Problem problem(item.args, item.direction);
    const auto explanation = nlohmann::json::parse(explain(session, problem));
    const std::string name = RowFile::name_of(explanation.at("problem"), watch.threads());
    std::vector<Timed> all = trials(explanation);
    if (file.has(name) || all.empty() || all[0].estimate > 1e6 * seconds) return true;
    if (!points) Comparison(session, watch, problem, all).run(seconds);
    auto row = dataset_row(explanation, all);
    if (points) row["points"] = points->run(session, problem, explanation.at("problem"), seconds);
    file.add(name, row);
    return true;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", problem_line(item.args, item.direction), error.what());
    return false;
  }
}

}  // namespace

int run_dataset(std::span<const std::string> arguments) {
  DatasetArgs args;
  if (!parse_or_help(kDatasetCommand, flags_of(args), arguments)) return 0;
  if (args.list.empty() || args.out.empty()) {
    throw ArgError(fmt::format("dataset: {} is missing, allowed: --from-list FILE --out FILE",
                               args.list.empty() ? "--from-list" : "--out"));
  }
  const double end = args.budget > 0 ? wall_seconds() + args.budget : INFINITY;
  const Share share = args.share.empty() ? share_from_environment() : parse_share(args.share);
  const std::vector<Item> items = items_of(args.list, share);
  const std::string folder = (std::filesystem::absolute(args.out).parent_path() / "dataset.db").string();
  RowFile file(args.out);
  make_own_folder(folder);
  ::setenv(kUserDb, folder.c_str(), 1);
  ::setenv("MIOPEN_SYSTEM_DB_PATH", folder.c_str(), 1);
  ::setenv("MIOPEN_DEBUG_ENABLE_AI_IMMED_MODE_FALLBACK", "0", 1);
  std::optional<PointTimer> points;
  if (args.points) {
    make_own_folder(args.out + ".db");
    points.emplace(args.out + ".db", folder);
  }
  const Session session(args.device);
  const Stopwatch watch(session);
  const Signals signals;
  Progress progress(fmt::format("{} problems", items.size()), static_cast<double>(items.size()));
  if (args.budget > 0) progress.limit(args.budget);
  bool good = true;
  for (const Item& item : items) {
    if (Signals::count() > 0 || wall_seconds() > end) return kIncomplete;
    good = time_one(session, watch, item, args.each, points ? &*points : nullptr, file) && good;
    progress.advance(1);
  }
  return good ? 0 : 1;
}

}  // namespace polymio::driver
