// The CPU stream: tasks through an executor, scratch per thread, memory, peak measurement.
// SPDX-License-Identifier: MIT
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "base/env.h"
#include "base/error.h"
#include "runtime/cpu/cpu.h"

namespace polymio::cpu {
namespace {

constexpr std::size_t kAlign = 64;

constexpr std::size_t round_up(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

/// Scratch for every thread of one parallel_for. A call takes the whole block by atomic exchange and
/// puts it back; a second call at the same time makes its own.
class ScratchPool {
 public:
  struct Block {
    std::size_t bytes;
    void* memory;
    explicit Block(std::size_t n) : bytes(n), memory(::operator new (n, std::align_val_t{kAlign})) {}
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block() { ::operator delete (memory, std::align_val_t{kAlign}); }
  };
  ~ScratchPool() { delete spare_.load(); }

  class Lease {
   public:
    Lease(ScratchPool& pool, std::size_t bytes) : pool_(pool) {
      if (bytes == 0) return;
      block_ = pool.spare_.exchange(nullptr);
      if (block_ && block_->bytes >= bytes) return;
      delete block_;
      block_ = nullptr;
      block_ = new Block(bytes);
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() {
      if (block_) delete pool_.spare_.exchange(block_);
    }
    char* memory() const { return block_ ? static_cast<char*>(block_->memory) : nullptr; }

   private:
    ScratchPool& pool_;
    Block* block_ = nullptr;
  };

 private:
  std::atomic<Block*> spare_{nullptr};
};

class CallerExecutor final : public Executor {
 public:
  CallerExecutor(ExecutorFunction function, void* context) : function_(function), context_(context) {}
  void run(std::size_t tasks, TaskRef task) override { function_(context_, tasks, task.function(), task.context()); }

 private:
  ExecutorFunction function_;
  void* context_;
};

class CpuStream final : public Stream {
 public:
  CpuStream() : kind_(env::text(env::kExecutor).value_or("tbb")) {
    set_threads(static_cast<int>(env::integer(env::kThreads, 0, 1024).value_or(0)));
  }

  const DeviceInfo& info() const override { return cpu::info(); }
  void* native() const override { return nullptr; }
  void synchronize() override {}
  void copy(void* dst, const void* src, std::size_t bytes) override { std::memmove(dst, src, bytes); }

  void* allocate(std::size_t bytes) override {
    const std::size_t rounded = round_up(bytes ? bytes : 1);  // 0 when it overflows
    void* p = rounded < bytes ? nullptr : ::operator new (rounded, std::align_val_t{kAlign}, std::nothrow);
    if (!p) fail(Status::kAllocFailed, "cannot allocate {} bytes of memory", bytes);
    return p;
  }
  void deallocate(void* p) noexcept override { ::operator delete (p, std::align_val_t{kAlign}); }

  void parallel_for(std::size_t tasks, std::size_t scratch_bytes, Task task) override {
    if (tasks == 0) return;
    const std::size_t stride = round_up(scratch_bytes);
    const std::size_t workers = std::min(tasks, static_cast<std::size_t>(threads_));
    const ScratchPool::Lease scratch(scratch_, stride * static_cast<std::size_t>(stride ? threads_ : 0));
    if (workers == 1) {
      for (std::size_t i = 0; i < tasks; ++i) task(i, scratch.memory());
      return;
    }
    // Workers draw tasks, so that a worker's index names its scratch under any executor.
    Batch batch(tasks);
    auto work = [&](std::size_t worker) { batch.drain(task, scratch.memory() + worker * stride); };
    executor_->run(workers, TaskRef(work));
    batch.finish();
  }

  int threads() const override { return threads_; }

  void set_threads(int cap) override {
    require(cap >= 0, "thread cap {}: allowed are 0 (all cores) and positive numbers", cap);
    threads_ = cap == 0 ? info().units : std::min(cap, 1024);
    if (!caller_executor_) executor_ = make_executor(kind_, threads_);
  }

  void set_executor(ExecutorFunction function, void* context) override {
    caller_executor_ = function != nullptr;
    if (function)
      executor_ = std::make_unique<CallerExecutor>(function, context);
    else
      executor_ = make_executor(kind_, threads_);
  }

  void reserve_scratch(std::size_t bytes) override {
    const ScratchPool::Lease lease(scratch_, round_up(bytes) * static_cast<std::size_t>(threads_));
  }

  DevicePeak measure_peak() override {
    const std::scoped_lock lock(peak_mutex_);
    if (peak_.threads != threads_) peak_ = {parallel_fma(), parallel_bandwidth(), threads_};
    return peak_;
  }

 private:
  /// Draws task numbers; an exception crosses the caller's executor only as a value.
  class Batch {
   public:
    explicit Batch(std::size_t tasks) : tasks_(tasks) {}
    void drain(Task task, void* scratch) noexcept {
      for (std::size_t i = next_++; i < tasks_; i = next_++) {
        try {
          task(i, scratch);
        } catch (...) {
          if (!failed_.exchange(true)) error_ = std::current_exception();
        }
      }
    }
    void finish() const {
      if (failed_) std::rethrow_exception(error_);
      if (next_ < tasks_) fail(Status::kInternalError, "the executor returned before it ran every task");
    }

   private:
    std::size_t tasks_;
    std::atomic<std::size_t> next_{0};
    std::atomic<bool> failed_{false};
    std::exception_ptr error_;
  };

  /// All operations over the wall time, so that tasks that share a thread are not counted twice. The best
  /// of many short rounds: it can take the scheduler tens of milliseconds to spread the threads.
  double parallel_fma() {
    std::vector<double> flops(static_cast<std::size_t>(std::min(threads_, info().units)));
    double best = 0;
    for (int round = 0; round < 15; ++round) {
      const auto start = std::chrono::steady_clock::now();
      parallel_for(flops.size(), 0, [&](std::size_t i, void*) { flops[i] = run_fma(info().isa, 5); });
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      double sum = 0;
      for (const double f : flops) sum += f;
      best = std::max(best, sum / seconds.count() * 1e-9);
    }
    return best;
  }

  /// Sum over a buffer beyond L2 and most of L3; best of three.
  double parallel_bandwidth() {
    constexpr std::size_t kChunk = std::size_t{1} << 20;  // 8 MiB of doubles a task
    const std::size_t chunks = 2 * static_cast<std::size_t>(threads_) + 4;
    std::vector<double> data(chunks * kChunk, 1.0), sums(chunks);
    double best = 0;
    for (int round = 0; round < 3; ++round) {
      const auto start = std::chrono::steady_clock::now();
      parallel_for(chunks, 0, [&](std::size_t t, void*) {
        double s[8] = {};
        const double* p = data.data() + t * kChunk;
        for (std::size_t i = 0; i < kChunk; i += 8)
          for (std::size_t j = 0; j < 8; ++j) s[j] += p[i + j];
        sums[t] = s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
      });
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      best = std::max(best, static_cast<double>(data.size() * sizeof(double)) / seconds.count() * 1e-9);
    }
    return sums[0] > 0 ? best : 0;
  }

  std::string kind_;
  int threads_ = 1;
  bool caller_executor_ = false;
  std::unique_ptr<Executor> executor_;
  ScratchPool scratch_;
  std::mutex peak_mutex_;
  DevicePeak peak_;
};

}  // namespace

std::unique_ptr<Stream> create_stream() { return std::make_unique<CpuStream>(); }

}  // namespace polymio::cpu
