// Quality of the choice of a solver without measurement. Reads the times of "MIOpenDriver dataset" on held-out layers
// and compares with the fastest solver the choices of the estimates, of the learned model, and of the model with a
// database of similar problems.
//   heuristics --data FILE... [--neighbours FILE...] [--model FILE] [--out FILE]
// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/problem_of.h"
#include "core/handle.h"
#include "db/find_db.h"
#include "search/learned.h"

namespace {

using namespace polymio;
using convolution::Direction;
using convolution::Problem;

struct Row {
  std::string key;
  Problem problem;
  DeviceInfo device;
  std::map<std::string, double> times;  // microseconds by solver, of the error classes allowed by default
};

std::vector<Row> read_rows(const std::vector<std::string>& files, const DeviceInfo& here) {
  std::vector<Row> rows;
  for (const std::string& file : files) {
    std::ifstream in(file);
    if (!in) throw driver::ArgError(fmt::format("cannot open {}", file));
    for (std::string line; std::getline(in, line);) {
      const auto json = nlohmann::json::parse(line);
      Row row{json.at("problem"), problem_of(json.at("problem").get<std::string>()), here, {}};
      row.device.architecture = json.at("architecture");
      row.device.threads = json.at("threads");
      row.device.fp32_gflops = json.at("gflops");
      row.device.bandwidth_gbs = json.at("gbs");
      for (const auto& s : json.at("solvers"))
        if (s.at(3) == "exact" || s.at(3) == "accurate") row.times[s.at(0)] = s.at(1);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::string kind_of(const Problem& p) {
  const auto& g = p.geometry;
  if (p.spatial() != 2) return fmt::format("{}-D", p.spatial());
  if (p.depthwise()) return "depthwise";
  if (p.groups() > 1) return "grouped";
  if (g.dilation[0] > 1) return "dilated";
  const bool strided = g.stride[0] > 1;
  if (p.filter(0) == p.filter(1) && p.filter(0) <= 3)
    return fmt::format("{0}x{0}{1}", p.filter(0), strided ? ", strided" : "");
  return "other filters";
}

std::vector<std::string> classes_of(const Row& row) {
  static constexpr const char* kDirections[] = {"forward", "backward data", "backward weights"};
  const Problem& p = row.problem;
  return {"all",
          "kind: " + kind_of(p),
          fmt::format("direction: {}", kDirections[static_cast<int>(p.direction)]),
          fmt::format("type: {}", name_of(p.x.type)),
          fmt::format("layout: {}", p.x.is_channels_first() && p.y.is_channels_first() ? "NCHW" : "NHWC"),
          fmt::format("threads: {}", row.device.threads)};
}

/// Predicted microseconds of a solver, NaN for none.
using Scores = std::function<std::map<std::string, double>(const Row&)>;

std::map<std::string, double> by_estimate(const Row& row) {
  std::map<std::string, double> us;
  for (const SolverBase* s : convolution::solvers(row.problem.direction))
    if (row.times.contains(s->info().name) && s->is_applicable(row.device, row.problem))
      us[s->info().name] = s->estimate(row.device, row.problem, s->default_point(row.device, row.problem));
  return us;
}

std::map<std::string, double> by_model(const Row& row, const search::Model& model) {
  const SolverList solvers = convolution::solvers(row.problem.direction);
  const auto prediction = model.predict(row.device, row.problem, solvers);
  if (!prediction->declined.empty()) return by_estimate(row);
  std::map<std::string, double> us;
  for (std::size_t i = 0; i < solvers.size(); ++i)
    if (row.times.contains(solvers[i]->info().name) && !std::isnan(prediction->us[i]))
      us[solvers[i]->info().name] = prediction->us[i];
  return us;
}

/// The library's ranking with the records of its database.
std::map<std::string, double> by_library(const Row& row, Handle& handle) {
  std::map<std::string, double> us;
  for (const search::Candidate& c : convolution::make_call(handle, row.problem, {}).solutions())
    if (row.times.contains(c.solver->info().name)) us[c.solver->info().name] = c.us;
  return us;
}

struct Choices {
  std::vector<double> regret;
  std::size_t exact = 0, close = 0, declined = 0;
  double worst = 1;
  std::string worst_problem;

  void add(const Row& row, const std::map<std::string, double>& us) {
    const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto best = std::min_element(row.times.begin(), row.times.end(), less);
    const auto chosen = std::min_element(us.begin(), us.end(), less);
    const double r = row.times.at(chosen->first) / best->second;
    regret.push_back(r);
    exact += r == 1;
    close += r <= 1.03;
    if (r <= worst) return;
    worst = r;
    worst_problem =
        fmt::format("{} instead of {}, {} threads: {}", chosen->first, best->first, row.device.threads, row.key);
  }
  double percent(std::size_t count) const {
    return 100.0 * static_cast<double>(count) / static_cast<double>(regret.size());
  }
  double geomean() const {
    double logs = 0;
    for (const double r : regret) logs += std::log(r);
    return std::exp(logs / static_cast<double>(regret.size()));
  }
  double p95() const {
    std::vector<double> sorted = regret;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<std::size_t>(0.95 * static_cast<double>(sorted.size() - 1) + 0.5)];
  }
};

/// A database in a folder of its own with the times of the rows of one thread.
class Database {
 public:
  Database(const std::vector<Row>& rows, Handle& handle)
      : folder_(std::filesystem::temp_directory_path() / fmt::format("polymio_heuristics_{}", ::getpid())) {
    ::setenv("MIOPEN_USER_DB_PATH", folder_.c_str(), 1);
    std::vector<FindRecord> records;
    for (const Row& row : rows) {
      if (row.device.threads != 1) continue;
      for (const SolverBase* s : convolution::solvers(row.problem.direction)) {
        const SolverInfo info = s->info();
        const auto time = row.times.find(info.name);
        if (time == row.times.end()) continue;
        FindRecord r;
        r.key = row.key;
        r.solver = info.name;
        r.solver_version = info.version;
        r.time_us = time->second;
        r.tune_point = to_text(s->default_point(row.device, row.problem));
        r.units = handle.device().units;
        r.thread_cap = 1;
        r.kind = RecordKind::kMeasured;
        r.family = row.problem.family();
        r.log_sizes = row.problem.log_sizes();
        r.work = row.problem.work();
        records.push_back(std::move(r));
      }
    }
    find_db(handle.device().architecture).store(records);
  }
  ~Database() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

 private:
  std::filesystem::path folder_;
};

/// Shortest time of predicting all solvers of a problem without the prediction cache.
double prediction_us(const std::vector<Row>& rows, const search::Model& model) {
  double best = INFINITY;
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (const Row& row : rows) model.predict(row.device, row.problem, convolution::solvers(row.problem.direction));
    const std::chrono::duration<double, std::micro> us = std::chrono::steady_clock::now() - start;
    best = std::min(best, us.count() / static_cast<double>(rows.size()));
  }
  return best;
}

struct Table {
  std::map<std::string, Choices> estimate, model;
};

std::string row_text(const std::string& name, const Choices& e, const Choices& m) {
  const auto part = [](const Choices& c) {
    return fmt::format("{:.1f}% | {:.1f}% | {:.2f}% | {:.1f}%", c.percent(c.exact), c.percent(c.close),
                       100 * (c.geomean() - 1), 100 * (c.p95() - 1));
  };
  return fmt::format("| {} | {} | {} | {} | {:.2f}x |\n", name, e.regret.size(), part(e), part(m), m.worst);
}

constexpr const char* kHeader =
    "| class | problems | {0}: top-1 | within 3% | geomean loss | p95 | {1}: top-1 | within 3% | geomean loss | p95 | "
    "worst "
    "|\n|---|---|---|---|---|---|---|---|---|---|---|\n";

std::string worst_text(const char* what, const Choices& c) {
  return fmt::format("* {}: {:.2f}x, {}\n", what, c.worst, c.worst_problem);
}

struct Options {
  std::vector<std::string> data, neighbours;
  std::string model, out;
};

Options parse(int argc, char** argv) {
  Options o;
  std::string flag;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with("--")) {
      flag = argument;
      continue;
    }
    if (flag == "--data")
      o.data.push_back(argument);
    else if (flag == "--neighbours")
      o.neighbours.push_back(argument);
    else if (flag == "--model")
      o.model = argument;
    else if (flag == "--out")
      o.out = argument;
    else
      throw driver::ArgError("allowed are --data FILE..., --neighbours FILE..., --model FILE and --out FILE");
  }
  if (o.data.empty()) throw driver::ArgError("--data FILE... is missing: what \"MIOpenDriver dataset\" wrote");
  return o;
}

/// The model of a file, else the device's.
const search::Model& model_of(const std::string& file, const DeviceInfo& device) {
  static std::unique_ptr<const search::Model> owned;
  std::string reason;
  if (!file.empty()) {
    std::ifstream in(file, std::ios::binary);
    owned = search::parse_model(std::string(std::istreambuf_iterator<char>(in), {}));
    search::set_learned_model(owned.get());
  }
  const search::Model* model = search::learned_model(device, &reason);
  if (!model) throw driver::ArgError("no model: " + reason);
  return *model;
}

std::string run(const Options& options) {
  Handle handle("cpu", nullptr);
  handle.stream().set_threads(1);
  std::vector<Row> rows = read_rows(options.data, handle.device());
  std::erase_if(rows, [](const Row& row) { return row.times.size() < 2; });
  const search::Model& model = model_of(options.model, rows.at(0).device);
  std::map<std::string, Choices> estimate, learned;
  std::size_t declined = 0;
  for (const Row& row : rows) {
    const auto e = by_estimate(row), m = by_model(row, model);
    declined += !model.predict(row.device, row.problem, convolution::solvers(row.problem.direction))->declined.empty();
    for (const std::string& name : classes_of(row)) {
      estimate[name].add(row, e);
      learned[name].add(row, m);
    }
  }
  std::string text = fmt::format(
      "# Choosing a solver without a measurement\n\nWritten by `heuristics`, see [docs/heuristics.md]"
      "(../../docs/heuristics.md). Layers that the model was not trained on, {} problems with more than one solver "
      "allowed; "
      "a class counts under its kind, direction, type, layout and number of threads. \"Loss\" is the time of the "
      "chosen "
      "solver over that of the fastest. The model declined {} problems, where the estimate serves. A prediction for "
      "all "
      "solvers of a problem, their estimates included, takes {:.1f} us.\n\n",
      rows.size(), declined, prediction_us(rows, model));
  text += fmt::format(kHeader, "estimate", "model");
  for (const auto& [name, choices] : estimate) text += row_text(name, choices, learned[name]);
  text += "\nWorst choices:\n\n" + worst_text("estimate", estimate["all"]) + worst_text("model", learned["all"]);
  if (options.neighbours.empty()) return text;
  const Database database(read_rows(options.neighbours, handle.device()), handle);
  std::map<std::string, Choices> alone, together;
  for (const Row& row : rows) {
    if (row.device.threads != 1) continue;
    handle.stream().calibrate({row.device.fp32_gflops, row.device.bandwidth_gbs, 1});
    const auto m = by_model(row, model), l = by_library(row, handle);
    for (const char* name : {"one thread"}) {
      alone[name].add(row, m);
      together[name].add(row, l);
    }
  }
  text +=
      "\nThe model with a database of the training problems, so that similar problems answer where there are "
      "some:\n\n";
  text += fmt::format(kHeader, "model alone", "with neighbours");
  for (const auto& [name, choices] : alone) text += row_text(name, choices, together[name]);
  return text + "\n" + worst_text("with neighbours", together["one thread"]);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    const std::string text = run(options);
    if (options.out.empty()) {
      fmt::print("{}", text);
    } else {
      std::ofstream out(options.out);
      out << text;
      if (!out.flush()) throw driver::ArgError("cannot write " + options.out);
    }
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "heuristics: {}\n", e.what());
    return 1;
  }
}
