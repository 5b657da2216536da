// LRU cache of plans per handle, bounded in bytes. Keys: the whole problem, the constraints and the requested solver or
// algorithm.
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
  std::size_t bytes = 4096;   // memory of the plan, closures and index node included: an upper bound for most solvers
};

/// The requested plan. `solver` 0: any; `algorithm` -1: any; `point` null: the best known one.
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

  /// The cached plan of `key`, else that of `make`, which is called outside the lock and once even for concurrent
  /// callers (the others wait). If `make` throws, nothing is cached and the next caller tries again.
  std::shared_ptr<const Plan> get(const PlanKey& key, FunctionRef<Plan()> make);

  /// The cached plan of `key`, or null.
  std::shared_ptr<const Plan> peek(const PlanKey& key);

  /// Stores a plan, replacing one with the same key.
  void put(const PlanKey& key, Plan plan);

  /// Removes the plans of a solver.
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
    std::shared_ptr<const Plan> plan;  // null until made
    bool making = false;               // get() holds an iterator to it: it must not be dropped
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
