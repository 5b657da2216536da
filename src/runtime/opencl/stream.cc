// The stream of an OpenCL device: an in-order command queue.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/opencl/devices.h"
#include "runtime/opencl/opencl.h"

namespace polymio::opencl {
namespace {

constexpr Bits kOutOfOrder = 1;
constexpr unsigned kQueueProperties = 0x1093, kCommandEnd = 0x1283;
constexpr unsigned kBlocking = 1, kNotBlocking = 0;

double host_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A marker event of a profiling queue; of another queue, the host time after a synchronization.
struct QueueEvent final : Event {
  const Api& api;
  EventHandle* handle = nullptr;
  double us = 0;
  explicit QueueEvent(const Api& a) : api(a) {}
  QueueEvent(const QueueEvent&) = delete;
  QueueEvent& operator=(const QueueEvent&) = delete;
  ~QueueEvent() override {
    if (handle) api.release_event(handle);
  }
  double when_us() const {
    if (!handle) return us;
    Bits ns = 0;
    check(api.wait(1, &handle), "waiting for the device");
    check(api.profile(handle, kCommandEnd, sizeof ns, &ns, nullptr), "timing");
    return 1e-3 * static_cast<double>(ns);
  }
};

class ProgramModule;

struct QueueKernel final : Kernel {
  std::shared_ptr<ProgramModule> module;
  const Api& api;
  Program* const program;
  const std::string entry;
  mutable std::mutex mutex;  // kernel arguments are state of the function
  mutable Function* function = nullptr;
  mutable std::set<unsigned> addressed;  // arguments that are or were addresses

  QueueKernel(const Api& a, Program* p, const std::string& name) : api(a), program(p), entry(name) { renew(); }
  QueueKernel(const QueueKernel&) = delete;
  QueueKernel& operator=(const QueueKernel&) = delete;
  ~QueueKernel() override {
    if (function) api.release_function(function);
  }

  /// Without arguments.
  void renew() const {
    if (function) api.release_function(std::exchange(function, nullptr));
    addressed.clear();
    Code code = 0;
    function = api.create_function(program, entry.c_str(), &code);
    check(code, entry.c_str());
  }
};

class ProgramModule final : public Module, public std::enable_shared_from_this<ProgramModule> {
 public:
  ProgramModule(const Api& api, Program* program) : api_(api), program_(program) {}
  ProgramModule(const ProgramModule&) = delete;
  ProgramModule& operator=(const ProgramModule&) = delete;
  ~ProgramModule() override { api_.release_program(program_); }

  std::shared_ptr<const Kernel> kernel(const std::string& entry) override {
    auto made = std::make_shared<QueueKernel>(api_, program_, entry);
    made->module = shared_from_this();
    return made;
  }

 private:
  const Api& api_;
  Program* const program_;
};

class QueueStream final : public gpu::GpuStream {
 public:
  QueueStream(int index, Queue* caller_queue)
      : index_(index), native_(caller_queue), scope_(&scope_for(caller_queue)), number_(device_number(info().name)) {
    static_cast<void>(queue_for(info().name, caller_queue));
    queue_ = caller_queue ? caller_queue : scope_->default_queue();
    adopt();
  }
  QueueStream(const QueueStream&) = delete;
  QueueStream& operator=(const QueueStream&) = delete;
  ~QueueStream() override {
    api().finish(queue_);
    api().release_queue(queue_);
  }

  const DeviceInfo& info() const override { return scope_->info; }
  const void* context() const override { return scope_->context; }
  void* native() const override { return native_; }
  void set_native(void* stream) override {
    QueueStream other(index_, static_cast<Queue*>(stream));
    require(other.scope_ == scope_, "the given command queue is of another context than the handle's plans");
    std::swap(queue_, other.queue_);
    std::swap(native_, other.native_);
    std::swap(profiles_, other.profiles_);
  }
  void synchronize() override {
    wait_for_queues();
    check(api().finish(queue_), "waiting for the device");
  }
  void copy(Buffer dst, Buffer src, std::size_t bytes) override;
  void clear(Buffer dst, std::size_t bytes) override {
    wait_for_queues();
    constexpr unsigned char kZero = 0;
    check(is_address(dst) ? api().svm_fill(queue_, dst.address(), &kZero, 1, bytes, 0, nullptr, nullptr)
                          : api().fill(queue_, object(dst), &kZero, 1, dst.offset, bytes, 0, nullptr, nullptr),
          "clearing");
  }
  void upload(Buffer dst, const void* src, std::size_t bytes) override {
    wait_for_queues();
    if (is_address(dst)) return move(dst.address(), src, bytes, kBlocking);
    check(api().write(queue_, object(dst), kBlocking, dst.offset, bytes, src, 0, nullptr, nullptr),
          "copying to the device");
  }
  void download(void* dst, Buffer src, std::size_t bytes) override {
    wait_for_queues();
    if (is_address(src)) return move(dst, src.address(), bytes, kBlocking);
    check(api().read(queue_, object(src), kBlocking, src.offset, bytes, dst, 0, nullptr, nullptr),
          "copying from the device");
  }
  void* allocate(std::size_t bytes) override { return scope_->allocate(bytes); }
  void deallocate(void* p) noexcept override {
    if (!p) return;
    api().finish(queue_);
    scope_->deallocate(p);
  }

  std::unique_ptr<Event> record() override {
    wait_for_queues();
    auto event = std::make_unique<QueueEvent>(api());
    if (profiles_) {
      check(api().marker(queue_, 0, nullptr, &event->handle), "recording an event");
      check(api().flush(queue_), "recording an event");
    } else {
      synchronize();
      event->us = host_us();
    }
    return event;
  }
  double elapsed_us(const Event& from, const Event& to) override {
    return static_cast<const QueueEvent&>(to).when_us() - static_cast<const QueueEvent&>(from).when_us();
  }
  // Not checked: a memory object cannot be distinguished from an invalid pointer.
  void check_memory(const void*, const char*) const override {}
  bool is_device_memory(const void* pointer) const override { return scope_->is_address(pointer); }

  const Compiler& compiler() const override { return *scope_; }
  std::shared_ptr<Module> load(const std::string& program) override {
    Program* const made = scope_->load(program);
    return made ? std::make_shared<ProgramModule>(api(), made) : nullptr;
  }
  void launch(const Kernel&, const Launch&, std::span<const Argument>) override;
  bool capturing() const override { return false; }

 private:
  const Api& api() const { return scope_->api; }
  Scope& scope_for(Queue* caller_queue) const {
    return caller_queue ? scope_of(caller_queue, index_) : shared_scope(index_);
  }
  bool is_address(Buffer b) const { return scope_->is_address(b.handle); }
  static Memory* object(Buffer b) { return static_cast<Memory*>(b.handle); }

  void adopt() {
    Bits properties = 0;
    check(api().queue_info(queue_, kQueueProperties, sizeof properties, &properties, nullptr), "reading a queue");
    require(!(properties & kOutOfOrder), "the given command queue is out of order; only in-order queues are supported");
    profiles_ = (properties & kProfiling) != 0;
    check(api().retain_queue(queue_), "taking a queue");
  }
  void move(void* dst, const void* src, std::size_t bytes, unsigned blocking) {
    check(api().svm_copy(queue_, blocking, dst, src, bytes, 0, nullptr, nullptr), "copying");
  }
  void set(const QueueKernel&, unsigned index, const Argument&) const;

  /// The default stream waits for the blocking queues.
  void wait_for_queues() const {
    if (!native_) finish_blocking_queues(number_);
  }

  const int index_;
  void* native_;
  Scope* scope_;
  const int number_;  // among devices()
  Queue* queue_ = nullptr;
  bool profiles_ = true;
};

void QueueStream::copy(Buffer dst, Buffer src, std::size_t bytes) {
  wait_for_queues();
  const bool from = is_address(src), to = is_address(dst);
  if (from && to) return move(dst.address(), src.address(), bytes, kNotBlocking);
  if (!from && !to)
    return check(api().copy(queue_, object(src), object(dst), src.offset, dst.offset, bytes, 0, nullptr, nullptr),
                 "copying");
  std::vector<char> staging(bytes);
  download(staging.data(), src, bytes);
  upload(dst, staging.data(), bytes);
}

void QueueStream::set(const QueueKernel& kernel, unsigned index, const Argument& argument) const {
  if (argument.kind == Argument::Kind::kValue)
    return check(api().set_argument(kernel.function, index, argument.bytes, argument.data),
                 "setting a kernel's argument");
  const auto& buffer = *static_cast<const Buffer*>(argument.data);
  if (buffer.handle && is_address(buffer)) {
    kernel.addressed.insert(index);
    return check(api().set_pointer(kernel.function, index, buffer.address()), "setting a kernel's argument");
  }
  require(buffer.offset == 0, "memory objects are used from their start only; memory of polymioMalloc has addresses");
  check(api().set_argument(kernel.function, index, sizeof(Memory*), buffer.handle ? &buffer.handle : nullptr),
        "setting a kernel's argument");
}

void QueueStream::launch(const Kernel& kernel, const Launch& l, std::span<const Argument> arguments) {
  const auto& k = static_cast<const QueueKernel&>(kernel);
  if (l.shared_bytes > 0) fail(Status::kInternalError, "OpenCL kernels declare all their local memory");
  Size global[3], local[3];
  for (std::size_t d = 0; d < 3; ++d) {
    local[d] = l.threads[d];
    global[d] = local[d] * l.blocks[d];
  }
  wait_for_queues();
  const std::scoped_lock lock(k.mutex);
  // NVIDIA's driver launches no function one of whose arguments was an address and is null.
  if (std::ranges::any_of(k.addressed, [&](unsigned i) {
        return arguments[i].kind == Argument::Kind::kBuffer && !static_cast<const Buffer*>(arguments[i].data)->handle;
      }))
    k.renew();
  for (std::size_t i = 0; i < arguments.size(); ++i) set(k, static_cast<unsigned>(i), arguments[i]);
  check(api().launch(queue_, k.function, 3, nullptr, global, local, 0, nullptr, nullptr), "launching a kernel");
  check(api().flush(queue_), "launching a kernel");
}

}  // namespace

std::unique_ptr<Stream> create_stream(int index, void* native) {
  return std::make_unique<QueueStream>(index, static_cast<Queue*>(native));
}

}  // namespace polymio::opencl
