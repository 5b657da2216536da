// SPDX-License-Identifier: MIT
#include "bench/rig_rows.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace polymio {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Row, device, problem, name, group, direction, type, solver, point, state, note,
                                   version, is_default, samples, us, floor_us, predicted_us, first_ms, flops, bytes,
                                   workspace, error_norm, error_ratio)

namespace {

/// The rows of one problem and solver.
struct Points {
  const Row* best = nullptr;           // the fastest
  const Row* default_point = nullptr;  // null: not timed
  int timed = 0, all = 0;
  double regret() const { return best && default_point ? default_point->us / best->us : NAN; }
};

/// In the order of their first rows. Of rows that measure the same the last one counts.
std::vector<Points> by_solver(const std::vector<Row>& rows) {
  std::map<std::string, const Row*> last;
  for (const Row& r : rows) last[r.key()] = &r;
  std::map<std::string, std::size_t> places;
  std::vector<Points> all;
  for (const Row& r : rows) {
    if (last[r.key()] != &r) continue;
    const std::size_t at = places.try_emplace(r.device + r.problem + r.solver, all.size()).first->second;
    if (at == all.size()) all.emplace_back();
    Points& p = all[at];
    ++p.all;
    if (!r.timed()) continue;
    ++p.timed;
    if (!p.best || r.us < p.best->us) p.best = &r;
    if (r.is_default) p.default_point = &r;
  }
  std::erase_if(all, [](const Points& p) { return !p.best; });
  return all;
}

std::string number_or_dash(double v, int digits) { return std::isfinite(v) ? fmt::format("{:.{}f}", v, digits) : "-"; }

}  // namespace

std::string Row::key() const { return fmt::format("{}|{}|{}|{}|{}", device, problem, solver, version, point); }

std::vector<Row> read_rows(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error(fmt::format("cannot open '{}'", path));
  std::vector<Row> rows;
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (in.eof()) break;  // no newline: the program was stopped while it wrote
    try {
      rows.push_back(nlohmann::json::parse(line).get<Row>());
    } catch (const nlohmann::json::exception& e) {
      throw std::runtime_error(fmt::format("{}:{}: not a row of gpu_rig: {}", path, number, e.what()));
    }
  }
  return rows;
}

void append_rows(const std::string& path, const std::vector<Row>& rows) {
  if (path.empty()) return;
  std::ofstream out(path, std::ios::app);
  for (const Row& r : rows) out << nlohmann::json(r).dump() << '\n';
  if (!out.flush()) throw std::runtime_error(fmt::format("cannot write '{}'", path));
}

std::string table_of(const std::vector<Row>& rows) {
  std::string text =
      "| problem | dir | type | solver | us | TFLOP/s | of floor | best point | default us | regret | first ms | "
      "points "
      "|\n|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Points& p : by_solver(rows)) {
    const Row& b = *p.best;
    const Row* d = p.default_point;
    text += fmt::format("| {} | {} | {} | {} | {:.1f} | {:.1f} | {:.2f} | {} | {} | {} | {} | {} of {} |\n", b.name,
                        b.direction, b.type, b.solver, b.us, b.flops / b.us * 1e-6, b.floor_us / b.us,
                        b.point.empty() ? "-" : b.point, number_or_dash(d ? d->us : NAN, 1),
                        number_or_dash(p.regret(), 2), number_or_dash(d ? d->first_ms : NAN, 1), p.timed, p.all);
  }
  return text;
}

std::string summary_of(const std::vector<Row>& rows) {
  struct Sums {
    int problems = 0, regrets = 0;
    double floor = 0, regret = 0, us = 0, worst = 0;
  };
  std::map<std::string, Sums> sums;
  for (const Points& p : by_solver(rows)) {
    Sums& s = sums[fmt::format("{} | {}", p.best->solver, p.best->type)];
    ++s.problems;
    s.floor += std::log(p.best->floor_us / p.best->us);
    s.us += p.best->us;
    if (!std::isfinite(p.regret())) continue;
    ++s.regrets;
    s.regret += std::log(p.regret());
    s.worst = std::max(s.worst, p.regret());
  }
  std::string text =
      "| solver | type | problems | sum of us | of floor | regret | largest regret |\n|---|---|---|---|---|---|---|\n";
  for (const auto& [name, s] : sums)
    text +=
        fmt::format("| {} | {} | {:.1f} | {:.2f} | {} | {} |\n", name, s.problems, s.us, std::exp(s.floor / s.problems),
                    number_or_dash(std::exp(s.regret / s.regrets), 3), number_or_dash(s.regrets ? s.worst : NAN, 2));
  return text;
}

}  // namespace polymio
