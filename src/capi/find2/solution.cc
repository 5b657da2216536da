// Find 2.0, solutions: run, save, load, and what is known of them.
// SPDX-License-Identifier: MIT
#include "capi/find2/solution.h"

#include <miopen/polymio.h>

#include <cstring>
#include <memory>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/common/tensor.h"
#include "capi/find2/convolution.h"
#include "core/registry.h"

using namespace polymio;
using capi::deref;
using capi::guard;
using capi::not_null;
using capi::Role;
using capi::SolutionState;

namespace {

/// The arguments of one run: the buffers, and the problem with the given tensor descriptors, if any.
struct Run {
  capi::ProblemBuffers buffers;
  std::unique_ptr<SolutionState> changed;

  Run(const SolutionState& s, std::size_t count, const miopenTensorArgument_t* tensors) {
    for (std::size_t i = 0; i < count; ++i) take(s, tensors[i]);
    if (changed) changed->call = capi::make_call(changed->problem, Status::kInvalidValue);
    const SolutionState& state = changed ? *changed : s;
    for (const Role& role : roles(state.problem, state.call, buffers))
      if (role.desc && !*role.buffer)
        fail(Status::kInvalidValue, "no buffer was given for {} ({})", capi::name_of(role.id),
             static_cast<unsigned>(role.id));
  }

 private:
  void take(const SolutionState& s, const miopenTensorArgument_t& argument) {
    capi::check_no_scalar(argument.id);
    capi::check_id(s.problem, argument.id);
    // Intermediate results of fused operations are not stored: their buffers are ignored.
    for (const Role& role : roles(s.problem, s.call, buffers)) {
      if (role.id != argument.id) continue;
      require(!*role.buffer, "{} was given twice", capi::name_of(role.id));
      *role.buffer = argument.buffer;
    }
    if (!argument.descriptor) return;
    const TensorDesc& desc = capi::described(*argument.descriptor, capi::name_of(argument.id));
    const auto old = s.problem.tensors.find(argument.id);
    if (old != s.problem.tensors.end() && old->second == desc) return;
    if (!changed) changed = std::make_unique<SolutionState>(s);
    changed->problem.tensors[argument.id] = desc;
  }
};

void run(Handle& h, const SolutionState& s, const Run& run, void* workspace, std::size_t bytes) {
  const SolutionState& now = run.changed ? *run.changed : s;
  const std::size_t have = workspace ? bytes : 0;
  if (!run.changed && have < s.candidate.workspace)
    fail(Status::kBadParm, "not enough workspace: the solution needs {} bytes, {} were given", s.candidate.workspace,
         have);
  const auto args = capi::arguments(now.problem, now.call, run.buffers, workspace, have);
  const std::uint64_t id = s.candidate.solver->info().id;
  capi::log_call(now.call, args, "solution", id);
  convolution::run(h, now.call.problem, now.call.constraints, args, id, s.candidate.point);
}

}  // namespace

miopenStatus_t miopenRunSolution(miopenHandle_t handle, miopenSolution_t solution, size_t nInputs,
                                 const miopenTensorArgument_t* tensors, void* workspace, size_t workspaceSize) {
  return guard([&] {
    Handle& h = deref(handle);
    const SolutionState& s = deref(solution);
    if (nInputs > 0) not_null(tensors, "tensors");
    run(h, s, Run(s, nInputs, tensors), workspace, workspaceSize);
  });
}

miopenStatus_t miopenDestroySolution(miopenSolution_t solution) {
  return guard([&] { delete &capi::checked<capi::SolutionObject>(solution); });
}

miopenStatus_t miopenLoadSolution(miopenSolution_t* solution, const char* data, size_t size) {
  return guard([&] {
    *not_null(solution, "solution") = nullptr;
    *solution = new capi::SolutionObject(capi::load({not_null(data, "data"), size}));
  });
}

miopenStatus_t miopenSaveSolution(miopenSolution_t solution, char* data) {
  return guard([&] {
    const std::string bytes = capi::save(deref(solution));
    std::memcpy(not_null(data, "data"), bytes.data(), bytes.size());
  });
}

miopenStatus_t miopenGetSolutionSize(miopenSolution_t solution, size_t* size) {
  return guard([&] { *not_null(size, "size") = capi::save(deref(solution)).size(); });
}

miopenStatus_t miopenGetSolutionWorkspaceSize(miopenSolution_t solution, size_t* workspaceSize) {
  return guard([&] { *not_null(workspaceSize, "workspaceSize") = deref(solution).candidate.workspace; });
}

miopenStatus_t miopenGetSolutionTime(miopenSolution_t solution, float* time) {
  return guard([&] { *not_null(time, "time") = static_cast<float>(deref(solution).candidate.us * 1e-3); });
}

miopenStatus_t miopenGetSolutionSolverId(miopenSolution_t solution, uint64_t* solverId) {
  return guard([&] { *not_null(solverId, "solverId") = deref(solution).candidate.solver->info().id; });
}

miopenStatus_t miopenGetSolverIdConvAlgorithm(uint64_t solverId, miopenConvAlgorithm_t* result) {
  return guard([&] {
    not_null(result, "result");
    const SolverBase* solver = solver_by_id(solverId, convolution::all_solvers());
    if (!solver) fail(Status::kInvalidValue, "solver id {} is not one of a convolution solver", solverId);
    *result = static_cast<miopenConvAlgorithm_t>(solver->info().algorithm);
  });
}

miopenStatus_t polymioGetFoundSolutionSource(miopenSolution_t solution, polymioSource_t* source) {
  return guard([&] { *not_null(source, "source") = static_cast<polymioSource_t>(deref(solution).candidate.source); });
}
