// Find 2.0, solutions: run, save, load, and what is known of them.
// SPDX-License-Identifier: MIT
#include "capi/find2/solution.h"

#include <miopen/polymio.h>

#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/common/tensor.h"
#include "capi/find2/chain.h"
#include "capi/find2/convolution.h"
#include "capi/find2/mha.h"
#include "capi/find2/softmax.h"
#include "core/registry.h"

using namespace polymio;
using capi::deref;
using capi::guard;
using capi::not_null;
using capi::ProblemState;
using capi::SolutionState;
using capi::TensorBuffer;

namespace {

/// The tensors and problem of one run, whose tensor descriptors, if any, replace those of the solution's problem.
template <class Call>
struct Run {
  const SolutionState& solution;
  decltype(tensors_of(std::declval<const ProblemState&>(), std::declval<const Call&>())) tensors{};
  std::unique_ptr<SolutionState> changed;

  Run(const SolutionState& s, const Call& call, std::span<const miopenTensorArgument_t> arguments) : solution(s) {
    for (const miopenTensorArgument_t& argument : arguments) {
      capi::check_no_scalar(argument.id, &s.problem);
      capi::check_id(s.problem, argument.id);
      take_descriptor(argument);
    }
    if (changed) changed->call = capi::make_call(changed->problem, Status::kInvalidValue);
    tensors = changed ? tensors_of(changed->problem, std::get<Call>(changed->call)) : tensors_of(s.problem, call);
    for (const miopenTensorArgument_t& argument : arguments) take_buffer(argument);
    for (const TensorBuffer& tensor : tensors)
      if (!tensor.data && !tensor.is_optional && (tensor.desc || tensor.id & miopenTensorArgumentIsScalar))
        fail(Status::kInvalidValue, "no buffer was given for {} ({})", capi::name_of(tensor.id),
             static_cast<unsigned>(tensor.id));
  }

 private:
  /// Intermediate results of fused operations are not stored: their buffers are ignored.
  void take_buffer(const miopenTensorArgument_t& argument) {
    for (TensorBuffer& tensor : tensors) {
      if (tensor.id != argument.id) continue;
      require(!tensor.data, "{} was given twice", capi::name_of(tensor.id));
      tensor.data = argument.buffer;
    }
  }

  void take_descriptor(const miopenTensorArgument_t& argument) {
    if (!argument.descriptor || argument.id & miopenTensorArgumentIsScalar) return;
    const TensorDesc& desc = capi::described(*argument.descriptor, capi::name_of(argument.id));
    const auto old = solution.problem.tensors.find(argument.id);
    if (old != solution.problem.tensors.end() && old->second == desc) return;
    if (!changed) changed = std::make_unique<SolutionState>(solution);
    changed->problem.tensors[argument.id] = desc;
  }
};

template <class Call>
void run(Handle& h, const SolutionState& s, const Call& call, std::span<const miopenTensorArgument_t> arguments,
         void* workspace, std::size_t bytes) {
  const Run<Call> run(s, call, arguments);
  const ProblemState& problem = run.changed ? run.changed->problem : s.problem;
  const Call& now = run.changed ? std::get<Call>(run.changed->call) : call;
  const std::size_t have = workspace ? bytes : 0;
  if (!run.changed && have < s.candidate.workspace)
    fail(Status::kBadParm, "not enough workspace: the solution needs {} bytes, {} were given", s.candidate.workspace,
         have);
  const auto args = capi::arguments(problem, now, run.tensors, workspace, have);
  capi::log_call(now, args, "solution", s.candidate.solver->info().id);
  capi::run(h, now, args, s.candidate);
}

}  // namespace

miopenStatus_t miopenRunSolution(miopenHandle_t handle, miopenSolution_t solution, size_t nInputs,
                                 const miopenTensorArgument_t* tensors, void* workspace, size_t workspaceSize) {
  return guard([&] {
    Handle& h = deref(handle);
    const SolutionState& s = deref(solution);
    if (nInputs > 0) not_null(tensors, "tensors");
    const std::span<const miopenTensorArgument_t> arguments(tensors, nInputs);
    std::visit([&](const auto& call) { run(h, s, call, arguments, workspace, workspaceSize); }, s.call);
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
