// A stream that passes everything on to another, for tests that replace a part.
// SPDX-License-Identifier: MIT
#pragma once
#include "runtime/device.h"

namespace polymio {

class ForwardingStream : public Stream {
 public:
  explicit ForwardingStream(Stream& device) : device_(device) {}
  const DeviceInfo& info() const override { return device_.info(); }
  const void* context() const override { return device_.context(); }
  void* native() const override { return device_.native(); }
  void set_native(void* n) override { device_.set_native(n); }
  void synchronize() override { device_.synchronize(); }
  void copy(Buffer dst, Buffer src, std::size_t bytes) override { device_.copy(dst, src, bytes); }
  void clear(Buffer dst, std::size_t bytes) override { device_.clear(dst, bytes); }
  void upload(Buffer dst, const void* src, std::size_t bytes) override { device_.upload(dst, src, bytes); }
  void download(void* dst, Buffer src, std::size_t bytes) override { device_.download(dst, src, bytes); }
  void* allocate(std::size_t bytes) override { return device_.allocate(bytes); }
  void deallocate(void* p) noexcept override { device_.deallocate(p); }
  std::unique_ptr<Event> record() override { return device_.record(); }
  double elapsed_us(const Event& from, const Event& to) override { return device_.elapsed_us(from, to); }
  void check_memory(const void* p, const char* what) const override { device_.check_memory(p, what); }
  const Compiler& compiler() const override { return device_.compiler(); }
  std::shared_ptr<Module> load(const std::string& program) override { return device_.load(program); }
  void launch(const Kernel& kernel, const Launch& shape, std::span<const Argument> arguments) override {
    device_.launch(kernel, shape, arguments);
  }
  bool capturing() const override { return false; }
  void parallel_for(std::size_t tasks, std::size_t scratch, Task task) override {
    device_.parallel_for(tasks, scratch, task);
  }
  int threads() const override { return device_.threads(); }
  void set_threads(int cap) override { device_.set_threads(cap); }
  void set_executor(ExecutorFunction function, void* context) override { device_.set_executor(function, context); }
  void reserve_scratch(std::size_t bytes) override { device_.reserve_scratch(bytes); }
  DevicePeak measure_peak() override { return device_.measure_peak(); }
  DevicePeak quick_peak() override { return device_.quick_peak(); }
  void calibrate(const DevicePeak& peak) override { device_.calibrate(peak); }

 protected:
  Stream& device_;
};

}  // namespace polymio
