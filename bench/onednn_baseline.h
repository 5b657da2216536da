// oneDNN, opened at run time. Its C API of versions 2 and 3 is declared by hand, so that the build does not need it.
// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "driver/run/conv_problem.h"

namespace polymio::bench {

struct BaselineApi;

/// Layout of dnnl_exec_arg_t: tensor id and memory object.
struct BaselineArgument {
  int id;
  void* memory;
};

/// One implementation of a problem by the baseline, on the user's plain tensors: reorders, a kernel, reorders.
class BaselineVariant {
 public:
  void run() const;           // throws driver::RunError
  std::string impl;           // the kernel's name; "+reorders" when there are any
  bool same_layouts = false;  // all tensors in the user's layouts, no reorders

 private:
  friend class Baseline;
  struct Step {
    void* primitive;
    std::vector<BaselineArgument> arguments;
  };
  std::shared_ptr<BaselineApi> api_;
  std::vector<std::shared_ptr<void>> owned_;  // primitives, memory objects and their buffers
  std::vector<Step> steps_;
};

class Baseline {
 public:
  /// Null and a reason when the library cannot be opened or has no CPU engine. A SYCL build uses the OpenCL CPU runtime
  /// (libintelocl.so) in the library's folder, if it is there.
  static std::unique_ptr<Baseline> open(const std::string& path, std::string& reason);

  const std::string& version() const { return version_; }  // "3.6.2, OpenMP"
  bool is_current() const;                                 // version 3 or later
  bool is_sycl() const;                                    // then open() fixes the number of threads
  void set_threads(int threads);

  /// Calls `use` with every implementation that supports the problem, except reference kernels. `data`: the tensors'
  /// memory by driver::Role; it must outlive the variants.
  void for_each_variant(const driver::Problem& problem, void* const data[3],
                        const std::function<void(BaselineVariant)>& use) const;

 private:
  struct Task;
  Baseline() = default;
  void try_layouts(const Task& task, const std::function<void(BaselineVariant)>& use) const;
  bool build(const Task& task, const void* pd, BaselineVariant& variant) const;
  std::shared_ptr<BaselineApi> api_;
  std::string version_;
};

/// Paths of installed oneDNN libraries: those of ONEDNN_LIBRARY, separated by colons, else those that exist in the
/// active Python environment and in the system.
std::vector<std::string> usual_baselines();

}  // namespace polymio::bench
