// A device in a context: its shared virtual memory and its compiler.
// SPDX-License-Identifier: MIT
#pragma once
#include <map>
#include <memory>
#include <shared_mutex>

#include "runtime/device.h"
#include "runtime/opencl/api.h"

namespace polymio::opencl {

/// A string property of a device.
std::string text_of(const Api&, Device*, unsigned what);

constexpr Bits kProfiling = 2;  // a property of queues

class Scope final : public Compiler {
 public:
  Scope(const Api& functions, Device* dev, Context* ctx, const DeviceInfo& about)
      : api(functions), device(dev), context(ctx), info(about) {}

  std::string identity() const override;
  std::string compile(const std::string& source, const std::vector<std::string>& options,
                      std::string& log) const override;
  /// Of a result of compile(); null if the device does not accept it. The caller releases it.
  Program* load(const std::string& compiled) const;

  /// Of streams that name none. Profiles.
  Queue* default_queue();

  /// Shared virtual memory where the device has it, else a memory object.
  void* allocate(std::size_t bytes);
  void deallocate(void* p) noexcept;
  /// Whether the device has shared virtual memory.
  bool has_addresses() const;
  /// Whether the handle points into shared virtual memory of allocate(), rather than being a memory object.
  bool is_address(const void* p) const;

  const Api& api;
  Device* const device;
  Context* const context;
  const DeviceInfo& info;

 private:
  /// Build options of every program.
  std::string base_options() const;
  /// Null if it does not compile; `log` receives the compiler's text.
  Program* program_of(const std::string& source, const std::string& options, std::string& log) const;

  mutable std::shared_mutex mutex_;
  std::map<const char*, std::size_t> addresses_;
  Queue* default_queue_ = nullptr;
};

/// Scopes live until the process ends. shared_scope: our context of the device; scope_of: the context of a queue.
Scope& shared_scope(int index);
Scope& scope_of(Queue*, int index);

}  // namespace polymio::opencl
