// oneDNN as the bench sees it: opened at run time, its C API of versions 2 and 3 declared by hand, so that nothing
// of it is needed to build.
// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "driver/problem.h"

namespace polymio::bench {

struct BaselineApi;

/// As the C API has it: which tensor, and its memory object.
struct BaselineArgument {
  int id;
  void* memory;
};

/// One way of the baseline to compute a problem, on the user's plain tensors: reorders, a kernel, reorders.
class BaselineVariant {
 public:
  void run() const;           // throws driver::RunError
  std::string impl;           // the kernel's name; "+reorders" when there are any
  bool same_layouts = false;  // everything in the user's layouts

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
  /// Null and a reason when the library cannot be opened or has no CPU engine. A build on SYCL finds its OpenCL device
  /// where the device's library lies beside it.
  static std::unique_ptr<Baseline> open(const std::string& path, std::string& reason);

  const std::string& version() const { return version_; }  // "3.6.2, OpenMP"
  bool is_current() const;                                 // version 3 or later
  bool is_sycl() const;                                    // its number of threads is fixed when it is opened
  void set_threads(int threads);

  /// Every implementation that takes the problem, reference kernels left out, one at a time. The tensors' memory, by
  /// driver::Role, must outlive the variants.
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

/// Paths where a oneDNN is commonly found, those that exist: ONEDNN_LIBRARY (several, separated by colons), the
/// active Python environment, the system.
std::vector<std::string> usual_baselines();

}  // namespace polymio::bench
