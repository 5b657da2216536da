// The CPU stream: tasks through an executor, scratch per thread, memory.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/queue.h"

namespace polymio::cpu {
namespace {

constexpr std::size_t kAlign = 64;

constexpr std::size_t whole_lines(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

/// Scratch for all threads of a parallel_for. A call leases the whole block by atomic exchange; a concurrent second
/// call allocates its own.
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

using Time = std::chrono::steady_clock::time_point;

bool is_over(Time stop) { return stop != Time::max() && std::chrono::steady_clock::now() >= stop; }

/// Distributes task numbers to workers. Exceptions of tasks are stored, since they must not pass through the caller's
/// executor.
class Batch {
 public:
  Batch(std::size_t tasks, Time stop) : tasks_(tasks), stop_(stop) {}
  void drain(Stream::Task task, void* scratch) noexcept {
    while (next_ < tasks_ && !is_over(stop_)) {
      const std::size_t i = next_++;
      if (i >= tasks_) return;
      try {
        task(i, scratch);
      } catch (...) {
        if (!failed_.exchange(true)) error_ = std::current_exception();
      }
    }
  }
  void finish() const {
    if (failed_) std::rethrow_exception(error_);
    if (next_ >= tasks_) return;
    if (is_over(stop_)) throw Stopped();
    fail(Status::kInternalError, "the executor returned before it ran every task");
  }

 private:
  std::size_t tasks_;
  Time stop_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
};

struct TimeEvent final : Event {
  Time time = std::chrono::steady_clock::now();
};

[[noreturn]] void no_kernels() { fail(Status::kInternalError, "the CPU runs no GPU kernels"); }

/// Logged once per process, however many streams it has inherited.
void log_fork_once() {
  static std::atomic<int> logged{0};
  if (logged != generation() && logged.exchange(generation()) != generation())
    log::info("this process was forked from one that had started threads: handles work on the calling thread only");
}

class CpuStream final : public Stream {
 public:
  CpuStream() : kind_(env::text(env::kExecutor).value_or("tbb")) {
    set_threads(static_cast<int>(env::integer(env::kThreads, 0, 1024).value_or(0)));
  }
  ~CpuStream() override { drop_executor(); }

  const DeviceInfo& info() const override {
    return *(lacks_threads() ? single_thread_info_ : *info_).load(std::memory_order_acquire);
  }
  const void* context() const override { return nullptr; }
  void* native() const override { return queue_ ? queue_->native() : nullptr; }
  void set_native(void* stream) override {
    auto queue = queue_for(info().name, stream);
    require(!stream || queue,
            "the given stream is none of the CPU's: give one of the HIP layer's hipStreamCreate, or null");
    queue_ = std::move(queue);
  }
  /// Waits for the stream's queue; the default stream for the blocking queues.
  void synchronize() override { queue_ ? queue_->synchronize() : wait_for_blocking_queues(); }
  void copy(Buffer dst, Buffer src, std::size_t bytes) override { move(dst.address(), src.address(), bytes); }
  void clear(Buffer dst, std::size_t bytes) override { std::memset(dst.address(), 0, bytes); }
  void upload(Buffer dst, const void* src, std::size_t bytes) override { move(dst.address(), src, bytes); }
  void download(void* dst, Buffer src, std::size_t bytes) override { move(dst, src.address(), bytes); }

  std::unique_ptr<Event> record() override {
    synchronize();
    return std::make_unique<TimeEvent>();
  }
  double elapsed_us(const Event& from, const Event& to) override {
    const auto time = static_cast<const TimeEvent&>(to).time - static_cast<const TimeEvent&>(from).time;
    return std::chrono::duration<double, std::micro>(time).count();
  }
  void check_memory(const void*, const char*) const override {}
  const Compiler& compiler() const override { no_kernels(); }
  std::shared_ptr<Module> load(const std::string&) override { no_kernels(); }
  void launch(const Kernel&, const Launch&, std::span<const Argument>) override { no_kernels(); }
  bool capturing() const override { return false; }

  void* allocate(std::size_t bytes) override {
    const std::size_t rounded = whole_lines(bytes ? bytes : 1);  // 0 when it overflows
    void* p = rounded < bytes ? nullptr : ::operator new (rounded, std::align_val_t{kAlign}, std::nothrow);
    if (!p) fail(Status::kAllocFailed, "cannot allocate {} bytes of memory", bytes);
    return p;
  }
  void deallocate(void* p) noexcept override { ::operator delete (p, std::align_val_t{kAlign}); }

  void parallel_for(std::size_t tasks, std::size_t scratch_bytes, Task task) override {
    if (tasks == 0) return;
    synchronize();
    const std::size_t stride = whole_lines(scratch_bytes), threads = static_cast<std::size_t>(this->threads());
    const std::size_t workers = std::min(tasks, threads);
    const ScratchPool::Lease scratch(scratch_, stride * (stride ? threads : 0));
    const Time stop = StopAt::current();
    if (workers == 1) {
      if (lacks_threads()) log_fork_once();
      for (std::size_t i = 0; i < tasks; ++i) {
        if (is_over(stop)) throw Stopped();
        task(i, scratch.memory());
      }
      return;
    }
    // Executors run workers, which draw tasks, so that the index of a worker identifies its scratch.
    Batch batch(tasks, stop);
    auto work = [&](std::size_t worker) { batch.drain(task, scratch.memory() + worker * stride); };
    {
      // The deadline does not apply to foreign code that the executor runs on this thread.
      const StopAt::Pause pause;
      executor_->run(workers, TaskRef(work));
    }
    batch.finish();
  }

  int threads() const override { return lacks_threads() ? 1 : threads_; }

  void set_threads(int cap) override {
    require(cap >= 0, "thread cap {}: allowed are 0 (all cores) and positive numbers", cap);
    const int threads = cap == 0 ? cpu::info().units : std::min(cap, 1024);
    if (!caller_executor_) use(make_executor(kind_, threads));
    threads_ = threads;
    info_ = &info_slot(threads);
  }

  void set_executor(ExecutorFunction function, void* context) override {
    auto next = function ? std::make_unique<CallerExecutor>(function, context) : make_executor(kind_, threads_);
    use(std::move(next));
    caller_executor_ = function != nullptr;
  }

  void reserve_scratch(std::size_t bytes) override {
    const ScratchPool::Lease lease(scratch_, whole_lines(bytes) * static_cast<std::size_t>(threads()));
  }

  DevicePeak measure_peak() override {
    const std::scoped_lock lock(peak_mutex_);
    if (peak_.threads != threads()) peak_ = cpu::measure_peak(*this, {75, 5, 50, std::size_t{64} << 20});
    return peak_;
  }

  DevicePeak quick_peak() override { return cpu::measure_peak(*this, {15, 1.5, 10, std::size_t{32} << 20}); }
  void calibrate(const DevicePeak& peak) override { cpu::calibrate(peak); }

 private:
  void move(void* dst, const void* src, std::size_t bytes) {
    synchronize();
    std::memmove(dst, src, bytes);
  }

  /// Whether this process is a forked child of the one that made the executor, and hence lacks its threads.
  bool lacks_threads() const { return generation_ != generation(); }

  void use(std::unique_ptr<Executor> next) {
    drop_executor();
    executor_ = std::move(next);
    generation_ = executor_ ? generation() : -1;
  }

  void drop_executor() {
    // Leaked after a fork: the destructor would wait for threads that do not exist in this process.
    if (lacks_threads()) static_cast<void>(executor_.release());
    executor_.reset();
  }

  std::shared_ptr<Queue> queue_;  // null: the default stream
  std::string kind_;
  int threads_ = 1;
  InfoSlot* info_ = nullptr;
  InfoSlot& single_thread_info_ = info_slot(1);
  bool caller_executor_ = false;
  std::unique_ptr<Executor> executor_;
  int generation_ = 0;  // of the executor
  ScratchPool scratch_;
  std::mutex peak_mutex_;
  DevicePeak peak_;
};

}  // namespace

std::unique_ptr<Stream> create_stream(void* native) {
  auto stream = std::make_unique<CpuStream>();
  stream->set_native(native);
  return stream;
}

}  // namespace polymio::cpu
