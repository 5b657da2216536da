// Orders solvers without running them. Each solver's time comes from the first of: its exact record; its record for
// other cores or of another version; the learned model, corrected by the record of the nearest problem; that record
// alone; the solver's estimate.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "db/find_db.h"
#include "search/calibrate.h"
#include "search/benchmark.h"
#include "search/find.h"
#include "search/model.h"

namespace polymio::search {
namespace {

// Largest Euclidean distance of the log2 sizes of a neighbouring problem. 2: one size differs by a factor of 4, or four
// sizes by a factor of 2.
constexpr double kNearby = 2.0 + 1e-2;  // sizes are stored with three decimals
// With the learned model a neighbour counts only within kClose, with at most this weight: fitted to held-out layers.
constexpr double kClose = 0.7, kWeight = 0.5;

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

/// The records of one problem and its family, read once for all solvers.
class Knowledge {
 public:
  explicit Knowledge(const Request& rq)
      : rq_(rq),
        db_(find_db(rq.handle.device().architecture)),
        family_(rq.problem.family()),
        records_(db_.lookup(rq.problem.key())),
        quarantined_(db_.quarantined(family_)) {}

  /// The reference solver is never quarantined: it is the last resort.
  bool quarantined(const SolverInfo& info) const {
    if (info.reference) return false;
    return gave_wrong_result(info, family_) ||
           std::any_of(quarantined_.begin(), quarantined_.end(),
                       [&](const FindRecord& r) { return r.solver == info.name && r.solver_version == info.version; });
  }

  /// The solver's record for this problem, solver version and number of cores.
  const FindRecord* exact(const SolverInfo& info) const {
    const auto it = std::find_if(records_.begin(), records_.end(),
                                 [&](const FindRecord& r) { return same_solver(r, info) && same_cores(r); });
    return it == records_.end() ? nullptr : &*it;
  }

  /// The solver's record for this problem on other cores or of another version.
  const FindRecord* prior(const SolverInfo& info) const {
    const FindRecord* best = nullptr;
    for (const FindRecord& r : records_)
      if (r.solver == info.name && r.measured() && (!best || same_cores(r))) best = &r;
    return best;
  }

  struct Relative {
    const FindRecord* record = nullptr;
    double distance = kNearby;
  };

  /// The solver's record for the nearest problem of the family.
  Relative neighbour(const SolverInfo& info) {
    if (!relatives_read_) {
      relatives_ = db_.relatives(family_);
      sizes_ = rq_.problem.log_sizes();
      relatives_read_ = true;
    }
    Relative nearest;
    if (info.reference) return nearest;
    for (const FindRecord& r : relatives_) {
      if (!same_solver(r, info) || !same_cores(r) || r.work <= 0) continue;
      const double d = distance(r.log_sizes, sizes_);
      if (d <= nearest.distance) nearest = {&r, d};
    }
    return nearest;
  }

  /// The candidate's microseconds as predicted by the learned model.
  std::optional<double> learned(const Candidate& c) {
    if (!prediction_) {
      const Model* model = learned_model(rq_.handle.device());
      if (model) ensure_calibrated(rq_.handle);
      prediction_ =
          model ? model->predict(rq_.handle.device(), rq_.problem, rq_.solvers) : std::make_shared<Prediction>();
    }
    const auto at =
        static_cast<std::size_t>(std::find(rq_.solvers.begin(), rq_.solvers.end(), c.solver) - rq_.solvers.begin());
    if (c.solver->info().reference || at >= prediction_->us.size() || std::isnan(prediction_->us[at]))
      return std::nullopt;
    const DeviceInfo& device = rq_.handle.device();
    const TunePoint standard = c.solver->default_point(device, rq_.problem);  // the point that the model predicts
    if (standard == c.point) return prediction_->us[at];
    return prediction_->us[at] * c.solver->estimate(device, rq_.problem, c.point) /
           c.solver->estimate(device, rq_.problem, standard);
  }

 private:
  static bool same_solver(const FindRecord& r, const SolverInfo& info) {
    return r.solver == info.name && r.solver_version == info.version;
  }
  bool same_cores(const FindRecord& r) const {
    return r.units == rq_.handle.device().units && r.thread_cap == rq_.handle.device().threads;
  }

  const Request& rq_;
  FindDb& db_;
  std::string family_;
  std::vector<FindRecord> records_, quarantined_, relatives_;
  std::vector<float> sizes_;
  bool relatives_read_ = false;
  std::shared_ptr<const Prediction> prediction_;
};

/// Takes the record's tune point if it is valid for the problem and within the workspace limit.
bool take_point(const Request& rq, Candidate& c, const FindRecord& record) {
  const auto& device = rq.handle.device();
  const TunePoint stored = parse_tune_point(record.tune_point);
  if (!takes(*c.solver, device, rq.problem, stored)) return false;
  const std::size_t bytes = c.solver->workspace_size(device, rq.problem, stored);
  if (bytes > rq.constraints.workspace_limit) return false;
  c.point = stored;
  c.workspace = bytes;
  return true;
}

/// Whether the record's time predicts the candidate's. A tuned point is taken over with the time; any other point is
/// the default of the record's own problem.
bool borrow(const Request& rq, Candidate& c, const FindRecord& record) {
  return record.kind != RecordKind::kTuned || take_point(rq, c, record);
}

void predict(const Request& rq, Knowledge& known, Candidate& c) {
  const SolverInfo info = c.solver->info();
  const auto& device = rq.handle.device();
  if (const FindRecord* r = known.prior(info)) {
    borrow(rq, c, *r);
    const double threads = r->thread_cap > 0 ? static_cast<double>(r->thread_cap) / device.threads : 1;
    c.us = r->time_us * threads;
    c.source = Source::kNeighbour;
    return;
  }
  const std::optional<double> learned = known.learned(c);
  const Knowledge::Relative n = known.neighbour(info);
  const bool borrows = n.record && borrow(rq, c, *n.record);
  const double scaled = borrows ? n.record->time_us * rq.problem.work() / n.record->work : 0;
  if (learned) {
    const double weight = borrows ? kWeight * std::max(0.0, 1 - n.distance / kClose) : 0;
    c.us = weight > 0 ? *learned * std::pow(scaled / *learned, weight) : *learned;
    c.source = Source::kModel;
  } else if (borrows) {
    c.us = scaled;
    c.source = Source::kNeighbour;
  } else {
    ensure_calibrated(rq.handle);
    c.us = c.solver->estimate(rq.handle.device(), rq.problem, c.point);  // `device` may be the one before calibration
    c.source = Source::kEstimate;
  }
  if (borrows && log::enabled(log::Level::kInfo) && log::first_time("borrowed " + rq.problem.key() + info.name))
    log::info("{}: {:.1f} us for {} with point '{}', borrowed {:.1f} us from: {}", rq.problem.key(), c.us, info.name,
              to_text(c.point), scaled, n.record->key);
}

Candidate candidate(const Request& rq, Knowledge& known, const SolverBase& solver) {
  const auto& device = rq.handle.device();
  Candidate c{&solver, *starting_point(solver, device, rq.problem, rq.constraints.workspace_limit), 0, 0,
              Source::kEstimate};
  c.workspace = solver.workspace_size(device, rq.problem, c.point);
  const std::size_t wanted = c.workspace;
  const FindRecord* record = known.exact(solver.info());
  if (!record || !take_point(rq, c, *record)) {
    predict(rq, known, c);
    // The stored time needs more workspace than allowed: with less the solver will hardly be faster.
    if (record && record->measured()) {
      c.us = std::max(c.us, record->time_us);
      c.current = true;
    }
    return c;
  }
  c.us = record->time_us;
  c.source = record->measured() ? Source::kMeasured : Source::kEstimate;
  c.tuned = record->kind == RecordKind::kTuned;
  // A default point chosen within less workspace says nothing about the default point of this call.
  c.current = c.tuned || c.workspace >= wanted;
  return c;
}

}  // namespace

const char* name_of(Source s) {
  switch (s) {
    case Source::kEstimate: return "estimate";
    case Source::kModel: return "model";
    case Source::kNeighbour: return "neighbour";
    case Source::kMeasured: return "measured";
  }
  return "unknown";
}

void sort(std::vector<Candidate>& candidates) {
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    const bool ra = a.solver->info().reference, rb = b.solver->info().reference;
    return ra != rb ? rb : a.us < b.us;
  });
}

std::vector<Candidate> rank(const Request& rq) {
  Knowledge known(rq);
  std::vector<Candidate> candidates;
  for (const SolverBase* solver : rq.solvers) {
    if (!admit(*solver, rq.handle.device(), rq.problem, rq.constraints)) continue;
    if (known.quarantined(solver->info())) continue;
    candidates.push_back(candidate(rq, known, *solver));
  }
  sort(candidates);
  return candidates;
}

bool is_hit(const std::vector<Candidate>& candidates, FindMode mode) {
  if (mode == FindMode::kNormal || mode == FindMode::kReserved) return false;
  const bool complete = std::all_of(candidates.begin(), candidates.end(),
                                    [&](const Candidate& c) { return c.current || !searches(mode, c); });
  // A stored prediction is enough for a slower solver, not for the answer itself.
  const auto best = std::find_if(candidates.begin(), candidates.end(), [](const Candidate& c) { return c.current; });
  return complete && best != candidates.end() && best->source == Source::kMeasured;
}

bool searches(FindMode mode, const Candidate& c) {
  const bool dynamic_only = mode == FindMode::kDynamicHybrid || mode == FindMode::kTrustVerify;
  return !dynamic_only || c.solver->info().dynamic;
}

const Candidate* answer_of_database(const Request& rq, const std::vector<Candidate>& candidates, FindMode mode) {
  std::vector<FindRecord> own;
  if (trusts(mode))
    own = find_db(rq.handle.device().architecture).lookup_own(rq.problem.key());
  else if (!is_hit(candidates, mode))
    return nullptr;
  const auto is_own = [&](const Candidate& c) {
    const FindRecord r = record_of(rq, c, RecordKind::kMeasured);
    return std::any_of(own.begin(), own.end(), [&](const FindRecord& o) {
      return o.measured() && o.solver == r.solver && o.solver_version == r.solver_version && o.units == r.units &&
             o.thread_cap == r.thread_cap;
    });
  };
  for (const Candidate& c : candidates)
    if (c.current && (!trusts(mode) || (c.source == Source::kMeasured && is_own(c)))) return &c;
  return nullptr;
}

std::vector<Candidate> best_per_algorithm(const std::vector<Candidate>& candidates) {
  std::vector<Candidate> best;
  for (const auto& c : candidates) {
    const int algorithm = c.solver->info().algorithm;
    if (std::none_of(best.begin(), best.end(),
                     [&](const Candidate& b) { return b.solver->info().algorithm == algorithm; }))
      best.push_back(c);
  }
  return best;
}

std::vector<const SolverBase*> quarantined(const Request& rq) {
  const Knowledge known(rq);
  std::vector<const SolverBase*> out;
  for (const SolverBase* solver : rq.solvers)
    if (known.quarantined(solver->info()) && admit(*solver, rq.handle.device(), rq.problem, rq.constraints))
      out.push_back(solver);
  return out;
}

std::string refusals(const Request& rq) {
  std::string text;
  const auto add = [&](const SolverBase& solver, const std::string& reason) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", solver.info().name, reason);
  };
  const auto out = quarantined(rq);
  for (const SolverBase* solver : rq.solvers) {
    const Verdict v = admit(*solver, rq.handle.device(), rq.problem, rq.constraints);
    if (!v) add(*solver, v.text());
    if (std::ranges::find(out, solver) != out.end()) add(*solver, kQuarantined);
  }
  return text;
}

}  // namespace polymio::search
