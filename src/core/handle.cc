// SPDX-License-Identifier: MIT
#include "core/handle.h"

#include <unistd.h>

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "runtime/queue.h"

namespace polymio {

namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

Handle::Handle(const std::string& device, void* native_stream)
    : id_(next_id()), stream_(create_stream(device, native_stream)) {
  constexpr double kHourMs = 3'600'000;
  find_budget_us_ = 1e3 * env::number(env::kFindBudget, 0, kHourMs).value_or(0);
  tunes_while_running_ = env::flag(env::kTuneWhileRunning, false);
  kept_ = std::make_shared<Kept>();
  kept_->owner = this;
}

Handle::~Handle() {
  {
    const std::scoped_lock lock(kept_->mutex);
    for (void* const memory : kept_->memory) deallocate(memory);
    kept_->owner = nullptr;
  }
  if (!background_) return;
  if (background_process_ == ::getpid())
    background_->join();
  else
    static_cast<void>(background_.release());  // a thread of the parent process: no join or detach from here
}

bool Handle::searched(const std::string& key) const {
  const std::scoped_lock lock(searched_mutex_);
  return searched_.contains(key);
}

void Handle::set_searched(const std::string& key) {
  const std::scoped_lock lock(searched_mutex_);
  constexpr std::size_t kMost = 10'000;  // a forgotten key costs a search in mode NORMAL
  if (searched_.size() >= kMost) searched_.clear();
  searched_.insert(key);
}

void Handle::in_background(std::function<void()> work) {
  const std::scoped_lock lock(background_mutex_);
  if (background_busy_ || (background_ && background_process_ != ::getpid())) return;
  if (background_) background_->join();
  background_.reset();
  background_process_ = ::getpid();
  background_busy_ = true;
  try {
    background_ = std::make_unique<std::thread>([this, work = std::move(work)] {
      try {
        work();
      } catch (const std::exception& e) {
        log::info("background work ended: {}", e.what());
      }
      background_busy_ = false;
    });
  } catch (const std::exception& e) {  // no thread, or no memory for one
    background_busy_ = false;
    log::info("no background work: {}", e.what());
  }
}

Handle::TuningCallback Handle::tuning_callback() const {
  const std::scoped_lock lock(callback_mutex_);
  return tuning_callback_;
}

void Handle::set_tuning_callback(TuningCallback callback) {
  const std::scoped_lock lock(callback_mutex_);
  tuning_callback_ = std::move(callback);
}

void Handle::collect(CollectedProblem problem) {
  const std::scoped_lock lock(collected_mutex_);
  for (const CollectedProblem& c : collected_)
    if (c.problem->equals(*problem.problem) && c.constraints == problem.constraints) return;
  collected_.push_back(std::move(problem));
}

std::optional<CollectedProblem> Handle::take_problem() {
  const std::scoped_lock lock(collected_mutex_);
  if (collected_.empty()) return std::nullopt;
  CollectedProblem first = std::move(collected_.front());
  collected_.pop_front();
  return first;
}

void Handle::set_allocator(AllocatorFunction a, DeallocatorFunction d, void* context) {
  const std::scoped_lock lock(allocator_mutex_);
  allocator_ = {a, d, context};
}

void* Handle::allocate(std::size_t bytes) {
  const std::scoped_lock lock(allocator_mutex_);
  if (!allocator_.given()) return stream_->allocate(bytes);
  void* memory = allocator_.allocate ? allocator_.allocate(allocator_.context, bytes) : stream_->allocate(bytes);
  if (!memory) fail(Status::kAllocFailed, "the caller's allocator gave no memory for {} bytes", bytes);
  callers_memory_[memory] = allocator_;
  return memory;
}

void Handle::deallocate(void* memory) {
  const std::scoped_lock lock(allocator_mutex_);
  const auto it = callers_memory_.find(memory);
  if (it == callers_memory_.end()) return stream_->deallocate(memory);
  const CallerAllocator owner = it->second;
  callers_memory_.erase(it);
  if (!owner.deallocate) return stream_->deallocate(memory);
  owner.deallocate(owner.context, memory);
}

std::shared_ptr<void> Handle::keep(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const auto release = [kept = kept_](void* memory) {
    const std::scoped_lock lock(kept->mutex);
    if (kept->owner && kept->memory.erase(memory) > 0) kept->owner->deallocate(memory);
  };
  void* const memory = allocate(bytes);
  {
    const std::scoped_lock lock(kept_->mutex);
    kept_->memory.insert(memory);
  }
  return {memory, release};
}

void Handle::run(FunctionRef<void(Stream&)> work) {
  if (collects_) return;
  wait_for_queues(*stream_);
  if (!profiling_ || stream_->capturing()) {
    work(*stream_);
    return;
  }
  const auto start = stream_->record();
  work(*stream_);
  const auto end = stream_->record();
  const auto ms = static_cast<float>(1e-3 * stream_->elapsed_us(*start, *end));
  kernel_ms_ = adds_times_ ? kernel_ms_ + ms : ms;
}

void Handle::run_together(FunctionRef<void()> work) {
  struct Adding {
    std::atomic<bool>& on;
    explicit Adding(std::atomic<bool>& flag) : on(flag) { on = true; }
    ~Adding() { on = false; }
  } const adding(adds_times_);
  kernel_ms_ = 0;
  work();
}

}  // namespace polymio
