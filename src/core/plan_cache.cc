// SPDX-License-Identifier: MIT
#include "core/plan_cache.h"

#include "base/hash.h"

namespace polymio {

bool PlanCache::Entry::matches(const PlanKey& key) const {
  return solver == key.solver && algorithm == key.algorithm && constraints == key.constraints &&
         point.has_value() == (key.point != nullptr) && (!point || *point == *key.point) &&
         problem->equals(*key.problem);
}

std::uint64_t PlanCache::hash_of(const PlanKey& key) {
  return mix(key.constraints.hash(key.problem->hash()), key.solver * 8 + static_cast<std::uint64_t>(key.algorithm + 1));
}

PlanCache::Order::iterator PlanCache::find(const PlanKey& key, std::uint64_t hash) {
  const auto [first, last] = index_.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (it->second->matches(key)) return it->second;
  return order_.end();
}

PlanCache::Order::iterator PlanCache::insert(const PlanKey& key, std::uint64_t hash) {
  order_.push_front({key.problem->clone(), key.constraints, key.solver, key.algorithm,
                     key.point ? std::optional(*key.point) : std::nullopt, hash, nullptr, false});
  index_.emplace(hash, order_.begin());
  return order_.begin();
}

void PlanCache::erase(Order::iterator entry) {
  const auto [first, last] = index_.equal_range(entry->hash);
  for (auto it = first; it != last; ++it)
    if (it->second == entry) {
      index_.erase(it);
      break;
    }
  if (entry->plan) bytes_ -= entry->plan->bytes;
  order_.erase(entry);
}

void PlanCache::keep(Order::iterator entry, std::shared_ptr<const Plan> plan) {
  if (entry->plan) bytes_ -= entry->plan->bytes;
  bytes_ += plan->bytes;
  entry->plan = std::move(plan);
}

void PlanCache::trim() {
  for (auto it = order_.end(); it != order_.begin() && bytes_ > limit_;) {
    --it;
    if (it->making || it == order_.begin()) continue;
    erase(it++);
  }
}

std::shared_ptr<const Plan> PlanCache::get(const PlanKey& key, FunctionRef<Plan()> make) {
  const std::uint64_t hash = hash_of(key);
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto entry = find(key, hash);
    if (entry == order_.end()) break;
    if (entry->plan) {
      order_.splice(order_.begin(), order_, entry);
      return entry->plan;
    }
    made_.wait(lock);
  }
  const auto entry = insert(key, hash);
  entry->making = true;  // keeps the entry in the list, so that the iterator stays valid
  lock.unlock();
  std::shared_ptr<const Plan> plan;
  try {
    plan = std::make_shared<const Plan>(make());
  } catch (...) {
    lock.lock();
    entry->making = false;
    if (!entry->plan) erase(entry);  // put() may have stored one meanwhile
    made_.notify_all();
    throw;
  }
  lock.lock();
  if (!entry->plan) keep(entry, std::move(plan));  // else put() stored a better one meanwhile
  plan = entry->plan;
  entry->making = false;
  order_.splice(order_.begin(), order_, entry);
  trim();
  made_.notify_all();
  return plan;
}

std::shared_ptr<const Plan> PlanCache::peek(const PlanKey& key) {
  const std::uint64_t hash = hash_of(key);
  const std::scoped_lock lock(mutex_);
  const auto entry = find(key, hash);
  return entry == order_.end() ? nullptr : entry->plan;
}

void PlanCache::put(const PlanKey& key, Plan plan) {
  const std::uint64_t hash = hash_of(key);
  const std::scoped_lock lock(mutex_);
  auto entry = find(key, hash);
  if (entry == order_.end()) entry = insert(key, hash);
  if (!entry->plan) made_.notify_all();
  keep(entry, std::make_shared<const Plan>(std::move(plan)));
  trim();
}

void PlanCache::drop(const SolverBase& solver) {
  const std::scoped_lock lock(mutex_);
  for (auto it = order_.begin(); it != order_.end();) {
    const auto entry = it++;
    if (entry->plan && entry->plan->solver == &solver && !entry->making) erase(entry);
  }
}

std::size_t PlanCache::size() const {
  const std::scoped_lock lock(mutex_);
  return order_.size();
}

}  // namespace polymio
