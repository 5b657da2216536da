// Per-handle state: the stream, the plans built for it, profiling, the caller's allocator.
// Safe for concurrent calls; thread cap, executor and profiling are not meant to change while others work.
// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "core/plan_cache.h"
#include "runtime/device.h"

namespace polymio {

/// Progress of the tuning of one solver for one problem.
struct TuningProgress {
  std::string problem;  // its key
  const char* solver;
  std::size_t done, total;  // candidates
  double best_us;           // infinite before the first result
  double eta_seconds;       // expected time for the rest
};

namespace search {
class Primitive;
}

/// What a call would have computed.
struct CollectedProblem {
  const search::Primitive* primitive;
  std::shared_ptr<const ProblemBase> problem;
  Constraints constraints;
};

using AllocatorFunction = void* (*)(void* context, std::size_t bytes);
using DeallocatorFunction = void (*)(void* context, void* memory);

/// What finds do about tuning. Numbers equal miopenTuningPolicy_t and the values of MIOPEN_FIND_ENFORCE.
enum class Enforce : int { kNone = 1, kDbUpdate = 2, kSearch = 3, kSearchDbUpdate = 4, kDbClean = 5 };

class Handle {
 public:
  Handle(const std::string& device, void* native_stream);
  ~Handle();

  /// Different for every handle of the process, also for one that takes the memory of a destroyed one.
  std::uint64_t id() const { return id_; }

  Stream& stream() { return *stream_; }
  const Stream& stream() const { return *stream_; }
  const DeviceInfo& device() const { return stream_->info(); }
  PlanCache& plans() { return plans_; }

  /// A null function stands for the stream's own.
  void set_allocator(AllocatorFunction a, DeallocatorFunction d, void* context);
  /// Memory from the caller's allocator, else the device's; null results throw AllocFailed.
  void* allocate(std::size_t bytes);
  /// Frees with the deallocator that was set when the memory was allocated.
  void deallocate(void* memory);

  /// Memory that is freed with the last copy of the pointer, at the latest with the handle; null for 0 bytes.
  std::shared_ptr<void> keep(std::size_t bytes);

  /// The most bytes of workspace that calls with this handle may require or allocate.
  std::size_t workspace_limit() const { return workspace_limit_; }
  void set_workspace_limit(std::size_t bytes) { workspace_limit_ = bytes; }

  /// Time limit of one find in microseconds; 0: none.
  double find_budget_us() const { return find_budget_us_; }
  void set_find_budget_us(double us) { find_budget_us_ = us; }

  /// Whether calls do online tuning: they try candidates until the fastest is known.
  bool tunes_while_running() const { return tunes_while_running_; }
  void set_tunes_while_running(bool on) { tunes_while_running_ = on; }

  /// Takes precedence over MIOPEN_FIND_ENFORCE unless it is kNone.
  Enforce tuning_policy() const { return tuning_policy_; }
  void set_tuning_policy(Enforce policy) { tuning_policy_ = policy; }

  /// Whether this handle has searched the problem with this key before.
  bool searched(const std::string& key) const;
  void set_searched(const std::string& key);

  /// Runs `work` on a background thread, unless one is still running. The destructor waits for it.
  void in_background(std::function<void()> work);

  /// Called with the progress of a tuning; returning true stops it.
  using TuningCallback = std::function<bool(const TuningProgress&)>;
  TuningCallback tuning_callback() const;
  void set_tuning_callback(TuningCallback);

  /// From now on calls compute nothing: they leave their problems, one for each plan that they would have made.
  void collect_problems() { collects_ = true; }
  bool collects() const { return collects_; }
  void collect(CollectedProblem);
  /// The oldest that was collected, or nothing.
  std::optional<CollectedProblem> take_problem();

  void enable_profiling(bool on) {
    profiling_ = on;
    kernel_ms_ = 0;
  }
  bool profiling() const { return profiling_; }
  float kernel_ms() const { return profiling_ ? kernel_ms_.load() : 0.0f; }

  /// Calls `work` with the stream; with profiling on also measures it.
  void run(FunctionRef<void(Stream&)> work);
  void run(const Plan& plan, const void* args) {
    run([&](Stream& stream) { plan.invoke(stream, args); });
  }
  /// Calls `work`, whose runs kernel_ms() adds up.
  void run_together(FunctionRef<void()> work);

 private:
  const std::uint64_t id_;
  std::unique_ptr<Stream> stream_;
  PlanCache plans_;
  struct CallerAllocator {
    AllocatorFunction allocate = nullptr;
    DeallocatorFunction deallocate = nullptr;
    void* context = nullptr;
    bool given() const { return allocate || deallocate; }
  };
  struct Kept {
    std::mutex mutex;
    std::unordered_set<void*> memory;
    Handle* owner;  // null once it has freed all
  };
  std::shared_ptr<Kept> kept_;
  std::mutex allocator_mutex_;
  CallerAllocator allocator_;
  std::unordered_map<void*, CallerAllocator> callers_memory_;
  std::atomic<std::size_t> workspace_limit_{SIZE_MAX};
  std::atomic<double> find_budget_us_{0};
  std::atomic<bool> tunes_while_running_{false};
  std::atomic<Enforce> tuning_policy_{Enforce::kNone};
  mutable std::mutex callback_mutex_;
  TuningCallback tuning_callback_;
  mutable std::mutex searched_mutex_;
  std::unordered_set<std::string> searched_;
  std::mutex background_mutex_;
  std::unique_ptr<std::thread> background_;
  std::atomic<bool> background_busy_{false};
  int background_process_ = 0;  // the process that started the thread: a forked child does not have it
  std::atomic<bool> collects_{false};
  std::mutex collected_mutex_;
  std::deque<CollectedProblem> collected_;
  std::atomic<bool> profiling_{false};
  std::atomic<bool> adds_times_{false};
  std::atomic<float> kernel_ms_{0};
};

/// Memory from a handle, freed at the end of the scope; null for 0 bytes.
class Memory {
 public:
  Memory(Handle& handle, std::size_t bytes) : handle_(handle), data_(bytes ? handle.allocate(bytes) : nullptr) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    if (data_) handle_.deallocate(data_);
  }
  void* data() const { return data_; }

 private:
  Handle& handle_;
  void* const data_;
};

}  // namespace polymio
