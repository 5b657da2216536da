// The stream of a CUDA or HIP device. Commands are asynchronous except where the host needs the result.
// SPDX-License-Identifier: MIT
#include <atomic>
#include <mutex>

#include "runtime/gpu/driver.h"

namespace polymio::gpu {

/// Layout of CUlaunchConfig.
struct LaunchConfig {
  unsigned blocks[3], threads[3], shared_bytes;
  void* stream;
  struct Attribute {
    int id;
    alignas(8) unsigned value[16];
  } * attributes;
  unsigned count;
};

namespace {

constexpr int kOutOfMemory = 2;
constexpr int kMaxSharedAttribute = 8;   // function attribute: most dynamic shared memory
constexpr int kMemoryTypeAttribute = 2;  // pointer attribute
constexpr int kDeviceMemory = 2;         // a value of it
constexpr int kCooperativeAttribute = 2, kClusterAttribute = 4, kProgrammaticAttribute = 6;
constexpr std::size_t kMaxArguments = 32;

struct DriverEvent final : Event {
  const Driver& driver;
  void* const context;
  void* handle = nullptr;
  DriverEvent(const Driver& d, void* c) : driver(d), context(c) {
    check(driver, driver.create_event(&handle, 0), "making an event");
  }
  DriverEvent(const DriverEvent&) = delete;
  DriverEvent& operator=(const DriverEvent&) = delete;
  ~DriverEvent() override { driver.destroy_event(handle); }
};

class DriverModule;

struct DriverKernel final : Kernel {
  std::shared_ptr<DriverModule> module;
  void* function = nullptr;
  // That was asked for. Without, 48 KiB in all, of which the kernel's static shared memory is a part.
  mutable std::atomic<std::uint32_t> shared_limit{0};
};

class DriverModule final : public Module, public std::enable_shared_from_this<DriverModule> {
 public:
  DriverModule(const Driver& driver, void* context, void* handle)
      : driver_(driver), context_(context), handle_(handle) {}
  DriverModule(const DriverModule&) = delete;
  DriverModule& operator=(const DriverModule&) = delete;
  ~DriverModule() override { driver_.unload(handle_); }

  std::shared_ptr<const Kernel> kernel(const std::string& entry) override {
    const Current current(driver_, context_);
    auto made = std::make_shared<DriverKernel>();
    check(driver_, driver_.function(&made->function, handle_, entry.c_str()), entry.c_str());
    made->module = shared_from_this();
    return made;
  }

 private:
  const Driver& driver_;
  void* const context_;
  void* const handle_;
};

/// A matrix product of the vendor's library, run in the device's context.
class DriverMultiplier final : public Multiplier {
 public:
  DriverMultiplier(const Driver& driver, void* context, std::unique_ptr<Multiplier> inner)
      : driver_(driver), context_(context), inner_(std::move(inner)) {}
  void run(Stream& stream, const Operands& operands) const override {
    const Current current(driver_, context_);
    inner_->run(stream, operands);
  }

 private:
  const Driver& driver_;
  void* const context_;
  const std::unique_ptr<Multiplier> inner_;
};

class DriverStream final : public GpuStream {
 public:
  DriverStream(const Driver& driver, const DeviceInfo& info, void* context, void* native,
               std::unique_ptr<Compiler> (*compiler)(const std::string&))
      : driver_(driver), info_(info), context_(context), make_compiler_(compiler) {
    set_native(native);
  }
  DriverStream(const DriverStream&) = delete;
  DriverStream& operator=(const DriverStream&) = delete;
  ~DriverStream() override {
    try {
      if (!capturing()) synchronize();
    } catch (const Error&) {  // the device is lost
    }
  }

  const DeviceInfo& info() const override { return info_; }
  const void* context() const override { return context_; }
  void* native() const override { return native_; }
  void set_native(void* stream) override {
    auto queue = queue_for(info_.name, stream);
    if (!queue) check_native(stream);
    native_ = stream;
    queue_ = std::move(queue);
  }
  void synchronize() override {
    const Current current(driver_, context_);
    check(driver_, driver_.synchronize(native_), "waiting for the device");
  }
  void copy(Buffer dst, Buffer src, std::size_t bytes) override {
    const Current current(driver_, context_);
    check(driver_, driver_.copy(at(dst), at(src), bytes, native_), "copying");
  }
  void clear(Buffer dst, std::size_t bytes) override {
    const Current current(driver_, context_);
    check(driver_, driver_.clear(at(dst), 0, bytes, native_), "clearing");
  }
  void upload(Buffer dst, const void* src, std::size_t bytes) override {
    const Current current(driver_, context_);
    check(driver_, driver_.upload(at(dst), src, bytes, native_), "copying to the device");
    check(driver_, driver_.synchronize(native_), "copying to the device");
  }
  void download(void* dst, Buffer src, std::size_t bytes) override {
    const Current current(driver_, context_);
    check(driver_, driver_.download(dst, at(src), bytes, native_), "copying from the device");
    check(driver_, driver_.synchronize(native_), "copying from the device");
  }

  void* allocate(std::size_t bytes) override {
    refuse_in_capture("memory is needed");
    const Current current(driver_, context_);
    Address address = 0;
    const int code = driver_.allocate(&address, bytes ? bytes : 1);
    if (code == kOutOfMemory) fail(Status::kAllocFailed, "cannot allocate {} bytes on {}", bytes, info_.name);
    check(driver_, code, "allocating memory");
    return reinterpret_cast<void*>(address);
  }
  void deallocate(void* p) noexcept override {
    if (!p) return;
    try {
      const Current current(driver_, context_);
      driver_.free(reinterpret_cast<Address>(p));  // waits for the device
    } catch (const Error&) {                       // the device is lost
    }
  }

  std::unique_ptr<Event> record() override {
    const Current current(driver_, context_);
    auto event = std::make_unique<DriverEvent>(driver_, context_);
    check(driver_, driver_.record(event->handle, native_), "recording an event");
    return event;
  }
  double elapsed_us(const Event& from, const Event& to) override {
    const Current current(driver_, context_);
    float ms = 0;
    void* const last = static_cast<const DriverEvent&>(to).handle;
    check(driver_, driver_.wait(last), "waiting for the device");
    check(driver_, driver_.elapsed(&ms, static_cast<const DriverEvent&>(from).handle, last), "timing");
    return 1e3 * static_cast<double>(ms);
  }

  void check_memory(const void* pointer, const char* what) const override {
    const Current current(driver_, context_);
    int type = 0;
    const int code = driver_.pointer_attribute(&type, kMemoryTypeAttribute, reinterpret_cast<Address>(pointer));
    require(code == 0, "{} is no memory of {}: allocate it with polymioMalloc or the device's own functions", what,
            info_.name);
  }
  bool is_device_memory(const void* pointer) const override {
    const Current current(driver_, context_);
    int type = 0;
    const int code = driver_.pointer_attribute(&type, kMemoryTypeAttribute, reinterpret_cast<Address>(pointer));
    return code == 0 && type == kDeviceMemory;
  }

  const Compiler& compiler() const override {
    std::call_once(compiler_made_, [this] { compiler_ = make_compiler_(info_.architecture); });
    return *compiler_;
  }
  std::shared_ptr<Module> load(const std::string& program) override {
    refuse_in_capture("a program has to be loaded");
    const Current current(driver_, context_);
    void* handle = nullptr;
    const int code = driver_.load(&handle, program.c_str());
    if (code == kOutOfMemory) check(driver_, code, "loading a program");
    return code == 0 ? std::make_shared<DriverModule>(driver_, context_, handle) : nullptr;
  }
  void launch(const Kernel& kernel, const Launch& l, std::span<const Argument> arguments) override;
  TensorMap tensor_map(const TensorMapSpec& spec, Buffer tensor) const override {
    if (!driver_.tensor_maps.im2col) return GpuStream::tensor_map(spec, tensor);
    const Current current(driver_, context_);
    return gpu::tensor_map(driver_, spec, at(tensor));
  }
  std::unique_ptr<Multiplier> multiplier(const MatrixProduct& product, int choice) override {
    if (!driver_.multiplier) return nullptr;
    refuse_in_capture("a product has to be planned");
    const Current current(driver_, context_);
    auto made = driver_.multiplier(context_, product, choice);
    return made ? std::make_unique<DriverMultiplier>(driver_, context_, std::move(made)) : nullptr;
  }
  bool capturing() const override {
    const Current current(driver_, context_);
    int status = 0;
    return driver_.is_capturing(native_, &status) != 0 || status != 0;
  }

 private:
  void check_native(void* stream) const {
    void* context = nullptr;
    if (!stream || !driver_.stream_context) return;
    const Current current(driver_, context_);
    require(driver_.stream_context(stream, &context) == 0 && context == context_,
            "the given stream is not one of the primary context of {}", info_.name);
  }
  static Address at(Buffer b) { return reinterpret_cast<Address>(b.address()); }

  void refuse_in_capture(const char* what) const {
    if (capturing())
      fail(Status::kNotInitialized, "{} while the stream is being captured: run the call once before the capture",
           what);
  }
  void allow_shared(const DriverKernel& kernel, std::uint32_t bytes) const {
    if (bytes <= kernel.shared_limit.load(std::memory_order_relaxed) || !driver_.function_attribute) return;
    check(driver_, driver_.function_attribute(kernel.function, kMaxSharedAttribute, static_cast<int>(bytes)),
          "asking for shared memory");
    kernel.shared_limit = bytes;
  }
  int launch_with_attributes(void* function, const Launch& l, void** parameters) const;

  const Driver& driver_;
  const DeviceInfo& info_;
  void* const context_;
  void* native_ = nullptr;
  std::shared_ptr<Queue> queue_;  // keeps a stream of the HIP layer alive
  std::unique_ptr<Compiler> (*make_compiler_)(const std::string&);
  mutable std::once_flag compiler_made_;
  mutable std::unique_ptr<Compiler> compiler_;
};

void DriverStream::launch(const Kernel& kernel, const Launch& l, std::span<const Argument> arguments) {
  const auto& k = static_cast<const DriverKernel&>(kernel);
  if (arguments.size() > kMaxArguments) fail(Status::kInternalError, "{} kernel arguments", arguments.size());
  Address addresses[kMaxArguments];
  void* parameters[kMaxArguments];
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool buffer = arguments[i].kind == Argument::Kind::kBuffer;
    if (buffer) addresses[i] = at(*static_cast<const Buffer*>(arguments[i].data));
    parameters[i] = buffer ? &addresses[i] : const_cast<void*>(arguments[i].data);
  }
  const Current current(driver_, context_);
  allow_shared(k, l.shared_bytes);
  const bool plain = (l.cluster == 1 && !l.programmatic && !l.cooperative) || !driver_.launch_with;
  const auto &b = l.blocks, &t = l.threads;
  const int code = plain ? driver_.launch(k.function, b[0], b[1], b[2], t[0], t[1], t[2], l.shared_bytes, native_,
                                          parameters, nullptr)
                         : launch_with_attributes(k.function, l, parameters);
  check(driver_, code, "launching a kernel");
}

int DriverStream::launch_with_attributes(void* function, const Launch& l, void** parameters) const {
  LaunchConfig::Attribute attributes[3] = {};
  unsigned count = 0;
  if (l.cluster > 1) attributes[count++] = {kClusterAttribute, {l.cluster, 1, 1}};
  if (l.cooperative) attributes[count++] = {kCooperativeAttribute, {1}};
  if (l.programmatic) attributes[count++] = {kProgrammaticAttribute, {1}};
  const LaunchConfig config{{l.blocks[0], l.blocks[1], l.blocks[2]},
                            {l.threads[0], l.threads[1], l.threads[2]},
                            l.shared_bytes,
                            native_,
                            attributes,
                            count};
  return driver_.launch_with(&config, function, parameters, nullptr);
}

}  // namespace

void check(const Driver& driver, int code, const char* what) {
  if (code == 0) return;
  const char* text = nullptr;
  if (driver.error_text(code, &text) != 0 || !text) text = "unknown error";
  fail(code == kOutOfMemory ? Status::kAllocFailed : Status::kInternalError, "{}: {} (error {} of the device)", what,
       text, code);
}

std::unique_ptr<Stream> make_stream(const Driver& driver, const DeviceInfo& info, void* context, void* native,
                                    std::unique_ptr<Compiler> (*compiler)(const std::string&)) {
  return std::make_unique<DriverStream>(driver, info, context, native, compiler);
}

}  // namespace polymio::gpu
