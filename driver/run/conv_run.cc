// One run: memory, choice of solver, timed runs, verification, bias, text.
// SPDX-License-Identifier: MIT
#include "driver/run/conv_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "driver/run/bias.h"
#include "driver/run/compare.h"
#include "driver/run/conv_calls.h"
#include "driver/run/conv_data.h"
#include "driver/run/conv_output.h"
#include "driver/run/conv_verify.h"
#include "driver/run/fill.h"
#include "driver/run/list.h"
#include "driver/run/operation.h"
#include "driver/report/provenance.h"
#include "driver/report/report.h"

namespace polymio::driver {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// An algorithm after find, or a solution of immediate mode.
struct Chosen {
  bool immediate = false;
  int algorithm = -1;
  std::uint64_t solution = 0;
  std::string solver = "UNKNOWN";
  std::size_t workspace = 0;
};

class DirectionRun {
 public:
  DirectionRun(const Session& session, const ConvArgs& args, Direction direction, const RunOptions& options)
      : session_(session),
        options_(options),
        problem_(args, direction),
        data_(session, problem_),
        verifier_(problem_, data_, options.samples >= 0 ? options.samples : samples_for(problem_, args.verify)) {}

  std::vector<Result> run();

 private:
  const nlohmann::json& read_explanation();
  Result fresh_result() const;
  Chosen choose_by_find(Result& result);
  Chosen choose_immediate(Result& result);
  std::vector<Chosen> choose_all(Result& result);
  void reserve_workspace(std::size_t bytes);
  DeviceData device_data() const;
  void launch(const Chosen& choice);
  void time_runs(const Chosen& choice, Result& result);
  void verify(const Chosen& choice, Result& result);
  void finish(const Chosen& choice, Result& result);
  void dump();

  const Session& session_;
  const RunOptions& options_;
  Problem problem_;
  TensorData data_;
  Verifier verifier_;
  Buffer workspace_;
  double workspace_query_ms_ = 0;
  double wall_ms_ = 0;
  nlohmann::json explanation_;
};

std::vector<Result> DirectionRun::run() {
  check(miopenEnableProfiling(session_.get(), true), "miopenEnableProfiling");
  const ConvArgs& args = problem_.args;
  if (options_.print && args.print_conv != 0) print_convolution(problem_);
  Result first = fresh_result();
  first.source = read_explanation().value("source", "");
  std::vector<Chosen> choices;
  if (args.all_solvers) {
    choices = choose_all(first);
  } else if (args.solution.starts_with('-')) {
    choices.push_back(choose_by_find(first));
  } else {
    choices.push_back(choose_immediate(first));
  }
  // "database": the answer was stored before this run; otherwise this run measured it.
  const std::string source = read_explanation().value("source", "");
  if (first.source != "database") first.source = source == "database" ? "measured" : source;
  std::vector<Result> results;
  for (const Chosen& choice : choices) {
    Result result = first;
    try {
      finish(choice, result);
    } catch (const std::exception& error) {
      result.error = error.what();
    }
    results.push_back(std::move(result));
  }
  if (args.dump_output != 0) dump();
  if (options_.output) {
    Buffer& written = data_.buffers[problem_.written()];
    written.download();
    const auto* bytes = static_cast<const unsigned char*>(written.host());
    options_.output->assign(bytes, bytes + written.bytes());
  }
  return results;
}

const nlohmann::json& DirectionRun::read_explanation() {
  explanation_ = nlohmann::json::parse(explain(session_, problem_));
  return explanation_;
}

Result DirectionRun::fresh_result() const {
  Result result;
  result.line = problem_.line();
  result.direction = problem_.direction;
  result.gflop = problem_.gflop();
  result.bytes_read = problem_.bytes_read();
  result.bytes_written = problem_.bytes_written();
  return result;
}

Chosen DirectionRun::choose_by_find(Result& result) {
  const auto start = Clock::now();
  const std::size_t bytes = find_workspace(session_, problem_);
  workspace_query_ms_ = ms_since(start);
  reserve_workspace(bytes);
  check(polymioSetFindBudget(session_.get(), problem_.args.budget), "polymioSetFindBudget");
  const auto found = find(session_, problem_, device_data(), problem_.args.search != 0);
  result.find_ms = ms_since(start);
  if (options_.explain) result.find_report = polymioGetLastFindReport();
  Chosen choice;
  choice.algorithm = found[0].algorithm;
  choice.workspace = found[0].workspace;
  for (const miopenConvSolution_t& solution : solutions(session_, problem_)) {
    if (static_cast<int>(solution.algorithm) != choice.algorithm) continue;
    choice.solution = solution.solution_id;
    choice.solver = solution_name(solution.solution_id);
    break;
  }
  return choice;
}

Chosen immediate_choice(const miopenConvSolution_t& solution) {
  Chosen choice;
  choice.immediate = true;
  choice.algorithm = solution.algorithm;
  choice.solution = solution.solution_id;
  choice.solver = solution_name(solution.solution_id);
  choice.workspace = solution.workspace_size;
  return choice;
}

std::vector<Chosen> DirectionRun::choose_all(Result& result) {
  if (problem_.args.alpha != 1 || problem_.args.beta != 0) {
    throw RunError(
        fmt::format("--alpha {} --beta {}: immediate mode (-S, --all-solvers) allows 1 and 0 only; use find "
                    "(-S -1)",
                    problem_.args.alpha, problem_.args.beta));
  }
  const auto start = Clock::now();
  const auto found = solutions(session_, problem_);
  result.find_ms = ms_since(start);
  if (options_.print) print_solutions(problem_.direction, found);
  if (found.empty()) throw RunError("immediate mode has no solution for this problem");
  std::vector<Chosen> choices;
  for (const miopenConvSolution_t& solution : found) choices.push_back(immediate_choice(solution));
  return choices;
}

Chosen DirectionRun::choose_immediate(Result& result) {
  const std::vector<Chosen> choices = choose_all(result);
  const std::string& wanted = problem_.args.solution;
  if (wanted == "0") return choices[0];
  for (const Chosen& choice : choices) {
    if (wanted == choice.solver || wanted == std::to_string(choice.solution)) return choice;
  }
  // An existing solution may be unlisted; the library decides whether it applies.
  constexpr std::uint64_t kLastConvolutionId = 999;
  for (std::uint64_t id = 1; id <= kLastConvolutionId; ++id) {
    const std::string name = solution_name(id);
    if (name == "UNKNOWN" || (wanted != name && wanted != std::to_string(id))) continue;
    if (options_.print) {
      fmt::print("Warning: solution {}/{} is not in the list above\n", id, name);
    }
    Chosen choice;
    choice.immediate = true;
    choice.solution = id;
    choice.solver = name;
    miopenConvAlgorithm_t algorithm{};
    if (miopenGetSolverIdConvAlgorithm(id, &algorithm) == miopenStatusSuccess) {
      choice.algorithm = algorithm;
    }
    choice.workspace = solution_workspace(session_, problem_, id);
    return choice;
  }
  throw RunError(fmt::format("-S --solution: there is no solution '{}'", wanted));
}

void DirectionRun::reserve_workspace(std::size_t bytes) {
  if (bytes > workspace_.bytes()) workspace_ = Buffer(session_, bytes, "the workspace");
}

DeviceData DirectionRun::device_data() const {
  return {{data_.buffers[kX].device(), data_.buffers[kW].device(), data_.buffers[kY].device()},
          workspace_.device(),
          workspace_.bytes()};
}

void DirectionRun::launch(const Chosen& choice) {
  if (choice.immediate) {
    run_solution(session_, problem_, device_data(), choice.solution);
  } else {
    driver::run(session_, problem_, device_data(), choice.algorithm);
  }
}

void DirectionRun::time_runs(const Chosen& choice, Result& result) {
  if (problem_.args.wall == 2) launch(choice);
  std::vector<double> times;
  const auto begin = Clock::now();
  wall_ms_ = 0;
  for (std::int64_t i = 0; i < problem_.args.iterations; ++i) {
    const auto start = Clock::now();
    launch(choice);
    check(polymioSynchronize(session_.get()), "polymioSynchronize");
    const double wall = ms_since(start);
    float kernel = 0;
    check(miopenGetKernelTime(session_.get(), &kernel), "miopenGetKernelTime");
    times.push_back(kernel > 0 ? static_cast<double>(kernel) : wall);
    wall_ms_ += wall;
    if (options_.seconds > 0 && ms_since(begin) > options_.seconds * 1e3) break;
  }
  wall_ms_ /= static_cast<double>(times.size());
  result.set_times(std::move(times));
}

void DirectionRun::verify(const Chosen& choice, Result& result) {
  std::string error_class;
  for (const auto& solver : explanation_.value("solvers", nlohmann::json::array())) {
    if (solver.value("name", "") == choice.solver) {
      error_class = solver.value("error_class", "");
    }
  }
  if (problem_.args.beta != 0) {  // the timed runs accumulated into the output
    data_.reset_written(problem_);
    launch(choice);
  }
  verifier_.check(result, error_class);
}

void DirectionRun::finish(const Chosen& choice, Result& result) {
  const ConvArgs& args = problem_.args;
  result.algorithm = choice.algorithm;
  result.solver = choice.solver;
  result.solution = choice.solution;
  result.workspace = choice.workspace;
  if (options_.explain) result.explanation = explanation_;
  reserve_workspace(choice.workspace);
  if (choice.immediate) compile_solution(session_, problem_, choice.solution);
  data_.reset_written(problem_);
  time_runs(choice, result);
  if (options_.print && args.time != 0) {
    print_times(problem_, result, wall_ms_, workspace_query_ms_);
  }
  if (args.verify != 0 && args.gpu_alloc == 0) {
    verify(choice, result);
    if (options_.print) fmt::print("{}\n", result.verify_text);
  }
  if (args.bias != 0 && problem_.direction != kBackwardWeights) {
    const std::string text = run_bias(session_, problem_, data_, args.verify != 0, result);
    if (options_.print) fmt::print("{}\n", text);
  }
  std::fflush(stdout);
}

void DirectionRun::dump() {
  static const char* const kNames[] = {"x", "w", "y"};
  for (int role = kX; role <= kY; ++role) {
    data_.buffers[role].download();
    const std::string path = fmt::format("dump_{}_{}{}.bin", direction_short(problem_.direction),
                                         role == problem_.written() ? "out_" : "in_", kNames[role]);
    write_file(path, data_.buffers[role].host(), data_.buffers[role].bytes());
  }
}

class Convolution final : public Operation {
 public:
  explicit Convolution(const std::string& base) { args_.base = base; }

  Flags flags() override { return conv_flags(args_); }
  void check_flags() override { check_args(args_); }
  const RunArgs& run_args() const override { return args_; }
  void inherit(const Operation& outer) override;
  std::int64_t directions() const override { return direction_mask(args_); }
  std::string title(Direction which) const override { return fmt::format("{} Convolution", direction_title(which)); }
  std::string line(Direction which) override { return problem_line(args_, which); }
  double cost() const override { return driver::cost(args_); }
  std::vector<OwnedProblem> problems(Direction which) override;
  std::vector<Result> run(const Session& session, Direction which, bool print) override;
  void report(const Session& session, const std::string& title, const std::vector<Result>& results) const override;
  std::optional<int> run_instead() override {
    if (args_.compare.empty()) return std::nullopt;
    return run_compare(args_);
  }

 private:
  bool has_report() const { return !args_.report.empty() || !args_.save.empty(); }

  ConvArgs args_;
};

// The control of runs of the command line, with the shape defaults of an empty line.
void Convolution::inherit(const Operation& outer) {
  const ConvArgs& args = static_cast<const Convolution&>(outer).args_;
  static_cast<RunArgs&>(args_) = args;
  args_.budget = args.budget;
  args_.verification_cache = args.verification_cache;
  args_.gpu_alloc = args.gpu_alloc;
  args_.all_solvers = args.all_solvers;
  args_.explain = args.explain || static_cast<const Convolution&>(outer).has_report();
  args_.math = args.math;
  args_.deterministic = args.deterministic;
  args_.directions = args.directions;
}

std::vector<OwnedProblem> Convolution::problems(Direction which) {
  std::vector<OwnedProblem> one;
  one.push_back(make_problem(Problem(args_, which)));
  return one;
}

std::vector<Result> Convolution::run(const Session& session, Direction which, bool print) {
  RunOptions options;
  options.print = print;
  options.explain = args_.explain || has_report();
  std::vector<Result> results = run_direction(session, args_, which, options);
  if (args_.explain && print) print_explanation(fmt::format("{} Conv", direction_title(which)), results.back());
  return results;
}

void Convolution::report(const Session& session, const std::string& title, const std::vector<Result>& results) const {
  if (!has_report()) return;
  Run run = begin_run(session, title.empty() ? "Convolution" : title);
  for (const Result& result : results) run.add(result);
  write_report(run, args_.report, args_.save);
}

}  // namespace

std::vector<Result> run_direction(const Session& session, const ConvArgs& args, Direction direction,
                                  const RunOptions& options) {
  try {
    if (!args.fuse.empty()) throw RunError("--fuse: conv runs no fused problems; tune, doctor and options take them");
    return DirectionRun(session, args, direction, options).run();
  } catch (const std::exception& error) {
    Result result;
    result.line = problem_line(args, direction);
    result.direction = direction;
    result.error = error.what();
    return {result};
  }
}

std::unique_ptr<Operation> make_convolution(const Primitive&, const std::string& base) {
  return std::make_unique<Convolution>(base);
}

}  // namespace polymio::driver
