// Plans ready to run, kept per handle: keyed by the full problem, constraints and the solver or
// algorithm asked for; least recently used out, bounded in bytes.
// SPDX-License-Identifier: MIT
#pragma once
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "core/solver.h"

namespace polymio {

struct Plan {
  AnyInvoker invoke;
  const SolverBase* solver = nullptr;
  std::size_t workspace = 0;  // bytes the invoker needs
  std::size_t bytes = 4096;   // that it holds, closures and index node included: generous for most solvers
};

/// Which plan is wanted. `solver` 0 means any; `algorithm` -1 means any; without a point it is the best known.
struct PlanKey {
  const ProblemBase* problem;
  Constraints constraints;
  std::uint64_t solver = 0;
  int algorithm = -1;
  const TunePoint* point = nullptr;
};

class PlanCache {
 public:
  explicit PlanCache(std::size_t limit_bytes = std::size_t{64} << 20) : limit_(limit_bytes) {}

  /// The plan of `key`: kept, else made by `make` outside the lock, once even when several threads
  /// ask (the others wait). If `make` throws, nothing is kept and the next caller tries again.
  std::shared_ptr<const Plan> get(const PlanKey& key, FunctionRef<Plan()> make);

  /// The plan of `key` if there is one by now.
  std::shared_ptr<const Plan> peek(const PlanKey& key);

  /// Puts a plan, replacing one with the same key.
  void put(const PlanKey& key, Plan plan);

  /// Forgets the plans of a solver.
  void drop(const SolverBase&);

  std::size_t size() const;

 private:
  struct Entry {
    std::unique_ptr<ProblemBase> problem;
    Constraints constraints;
    std::uint64_t solver;
    int algorithm;
    std::optional<TunePoint> point;
    std::uint64_t hash;
    std::shared_ptr<const Plan> plan;  // null until there is one
    bool making = false;               // get() is at work on it: it must not be dropped
    bool matches(const PlanKey&) const;
  };
  using Order = std::list<Entry>;  // most recently used first

  static std::uint64_t hash_of(const PlanKey&);
  Order::iterator find(const PlanKey&, std::uint64_t hash);
  Order::iterator insert(const PlanKey&, std::uint64_t hash);
  void erase(Order::iterator);
  void keep(Order::iterator, std::shared_ptr<const Plan>);
  void trim();

  std::size_t limit_, bytes_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable made_;
  Order order_;
  std::unordered_multimap<std::uint64_t, Order::iterator> index_;
};

}  // namespace polymio
