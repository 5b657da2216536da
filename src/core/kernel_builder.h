// Builds launchable kernels from a solver's kernel specs: sources, compilation, caches of compiled programs.
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

/// Looks programs up in this process, then on disk; compiles the others in parallel. Throws NotInitialized if a program
/// is not loaded yet while the stream is being captured, and InternalError with the compiler's text for one that does
/// not compile, or that is a template and spills registers or has its matrix products serialised. The other programs
/// are then built nevertheless.
Kernels build_kernels(Stream&, std::span<const KernelSpec>);

/// Kernels that do not depend on shapes, for passes without a plan. Owned by this object and keyed by a number, which
/// must identify everything that the spec depends on.
class SharedKernels {
 public:
  const Kernel& get(Stream&, std::uint64_t number, FunctionRef<KernelSpec()> spec);

 private:
  ProcessMutex mutex_;
  std::map<std::pair<const void*, std::uint64_t>, std::shared_ptr<const Kernel>> kernels_;  // by context and number
};

/// Source, options, generated text and instantiation: equal for functions of the same program.
std::string program_name(const KernelSpec&);

/// The programs of the admitted solvers whose names begin with `solver`, each once: of their default points or of all
/// points. The device need not be there.
std::vector<KernelSpec> programs_of(SolverList, const DeviceInfo&, const ProblemBase&, const Constraints&,
                                    std::string_view solver, bool all_points);

/// A program compiled without a device, as the caches store it, and the compiler's log.
struct CompiledProgram {
  std::string binary, log;
};
CompiledProgram compile_program(const Compiler&, const KernelSpec&);

/// How many programs are compiled at the same time.
std::size_t compile_threads();

/// Calls work(i) for i in [0, count) on as many threads as may compile at the same time; rethrows the error with the
/// smallest i when all are done.
void in_parallel(std::size_t count, FunctionRef<void(std::size_t)> work);

/// Compiles the programs that are not on disk yet, in parallel, without loading them; returns their number. Errors as
/// of build_kernels.
std::size_t compile_to_disk(const Compiler&, std::span<const KernelSpec>);

/// A solver whose invokers launch the kernels of kernels(), in that order.
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

/// The compiler's notes about what makes programs slow, register spills above all, of those programs that are on disk.
std::vector<std::string> spill_notes(const Stream&, std::span<const KernelSpec>);

/// The text of a source with its includes expanded; `path` is below src/. Read from POLYMIO_KERNEL_DIR if that is set.
std::string kernel_source(const std::string& path);

/// Paths of all programs (.cl and .cu files), sorted.
std::vector<std::string> kernel_programs();

}  // namespace polymio
