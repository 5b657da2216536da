// From the kernels a solver names to kernels that can be launched: sources, the caches of compiled programs.
// SPDX-License-Identifier: MIT
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/process_mutex.h"
#include "core/solver.h"
#include "runtime/device.h"

namespace polymio {

/// In the order of the specs that they were built from.
using Kernels = std::vector<std::shared_ptr<const Kernel>>;

/// From this process's programs, the disk's, or the compiler, which works on several at once. Throws
/// NotInitialized while the stream is being captured and a program is not loaded yet.
Kernels build_kernels(Stream&, std::span<const KernelSpec>);

/// Kernels that serve every shape, for passes without a plan: kept as long as this object, and found by a number that
/// stands for all that the spec depends on.
class SharedKernels {
 public:
  const Kernel& get(Stream&, std::uint64_t number, FunctionRef<KernelSpec()> spec);

 private:
  ProcessMutex mutex_;
  std::map<std::pair<const void*, std::uint64_t>, std::shared_ptr<const Kernel>> kernels_;  // by context and number
};

/// The program of a source without a device, as the caches hold it, and what the compiler says.
struct CompiledProgram {
  std::string binary, log;
};
CompiledProgram compile_program(const Compiler&, const KernelSpec&);

/// Compiles those that the disk does not hold yet, several at once, without loading them; how many that were.
std::size_t compile_to_disk(const Compiler&, std::span<const KernelSpec>);

/// A solver whose invokers launch kernels: those of kernels(), in that order.
template <class Problem>
class GpuSolver : public Solver<Problem> {
 public:
  using Invoker = typename Solver<Problem>::Invoker;
  using Solver<Problem>::Solver;
  virtual Invoker assemble(const DeviceInfo&, const Problem&, const TunePoint&, const Kernels&) const = 0;
  Invoker build(Stream& s, const Problem& p, const TunePoint& t) const final {
    return assemble(s.info(), p, t, build_kernels(s, this->kernel_specs(s.info(), p, t)));
  }
};

/// What the compiler said about registers that did not suffice, of those of the programs that the disk holds.
std::vector<std::string> spill_notes(const Stream&, std::span<const KernelSpec>);

/// The text of a source, by its path below src/, with what it includes. From POLYMIO_KERNEL_DIR if that is set.
std::string kernel_source(const std::string& path);

/// Paths of all programs (.cl files), sorted.
std::vector<std::string> kernel_programs();

}  // namespace polymio
