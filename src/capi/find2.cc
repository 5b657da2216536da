// Find 2.0, from options to solutions: find, run, save, load, getters.
// SPDX-License-Identifier: MIT
#include <miopen/find2.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>

#include "capi/find2_objects.h"
#include "capi/guard.h"
#include "core/random.h"
#include "core/registry.h"

using namespace polymio;
using capi::ConvolutionCall;
using capi::deref;
using capi::FindOptionsState;
using capi::guard;
using capi::not_null;
using capi::ProblemState;
using capi::SolutionState;

namespace {

/// The buffers of a problem by their names in the API.
struct Buffers {
  void* x = nullptr;
  void* w = nullptr;
  void* y = nullptr;
  void* bias = nullptr;
};

struct Role {
  miopenTensorArgumentId_t id;
  const TensorDesc* desc;  // null: the problem has no such argument
  void** buffer;
};

/// The arguments that need a buffer.
std::array<Role, 4> roles(const ProblemState& p, const ConvolutionCall& c, Buffers& b) {
  const auto& q = c.problem;
  return {{{miopenTensorConvolutionX, c.swapped ? &q.y : &q.x, &b.x},
           {miopenTensorConvolutionW, &q.w, &b.w},
           {capi::output_id(p), c.swapped ? &q.x : &q.y, &b.y},
           {miopenTensorBias, p.has_bias ? &p.tensors.at(miopenTensorBias) : nullptr, &b.bias}}};
}

convolution::Problem::Args arguments(const ProblemState& p, const ConvolutionCall& c, const Buffers& b) {
  convolution::Problem::Args args;
  args.x = c.swapped ? b.y : b.x;
  args.w = b.w;
  args.y = c.swapped ? b.x : b.y;
  args.seed = c.seed;
  args.bias = b.bias;
  args.activation_alpha = p.activation.alpha;
  args.activation_beta = p.activation.beta;
  args.activation_gamma = p.activation.gamma;
  return args;
}

void check_no_scalar(miopenTensorArgumentId_t id) {
  require((id & miopenTensorArgumentIsScalar) == 0, "argument id {:#x} is a scalar: convolutions have none",
          static_cast<unsigned>(id));
}

/// The buffers that find measures on: the caller's, and private ones for the rest.
class FindBuffers {
 public:
  FindBuffers(const ProblemState& p, const ConvolutionCall& c, const FindOptionsState& o) : problem_(p), call_(c) {
    for (const Role& role : roles(p, c, buffers_)) {
      if (!role.desc) continue;
      const auto given = o.tensors.find(role.id);
      if (given != o.tensors.end())
        *role.buffer = given->second;
      else
        missing_.push_back(role);
    }
  }
  FindBuffers(const FindBuffers&) = delete;
  FindBuffers& operator=(const FindBuffers&) = delete;

  /// Bytes of the private buffers; SIZE_MAX on overflow.
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const Role& role : missing_) sum += std::min(role.desc->bytes(), SIZE_MAX - sum);
    return sum;
  }

  void allocate_tensors(Handle& h) {
    for (const Role& role : missing_) {
      *role.buffer = allocate(h, role.desc->bytes());
      fill_random(h.stream(), *role.desc, *role.buffer, static_cast<std::uint64_t>(role.id));
    }
  }
  void allocate_workspace(Handle& h, std::size_t bytes) {
    if (bytes > 0) set_workspace(allocate(h, bytes), bytes);
  }
  void set_workspace(void* data, std::size_t bytes) {
    workspace_ = data;
    workspace_bytes_ = data ? bytes : 0;
  }

  convolution::Problem::Args args() const {
    auto args = arguments(problem_, call_, buffers_);
    args.workspace = workspace_;
    args.workspace_bytes = workspace_bytes_;
    return args;
  }

 private:
  void* allocate(Handle& h, std::size_t bytes) { return allocated_.emplace_back(h, bytes).data(); }

  const ProblemState& problem_;
  const ConvolutionCall& call_;
  Buffers buffers_;
  std::vector<Role> missing_;
  void* workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
  std::deque<Memory> allocated_;
};

constexpr double kFillBytesPerUs = 2e3;  // a slow machine's rate for newly allocated memory

/// Find with measurements, within the handle's memory limit and time budget.
std::vector<search::Candidate> measure(Handle& h, const ConvolutionCall& c, const FindOptionsState& o,
                                       FindBuffers& buffers, Constraints allowed, search::FindOptions options) {
  const auto start = std::chrono::steady_clock::now() - std::chrono::duration<double, std::micro>(options.spent_us);
  const double left_us = h.find_budget_us() - options.spent_us;
  const std::size_t tensors = buffers.bytes(), limit = h.workspace_limit();
  if (h.find_budget_us() > 0 && static_cast<double>(tensors) / kFillBytesPerUs > 0.5 * left_us)
    return *convolution::answer(h, c.problem, allowed, buffers.args(), options,
                                "the budget has no time to make the tensors");
  if (tensors > limit)
    fail(Status::kBadParm,
         "the workspace limit of {} bytes has no room for the tensors of: {}. They have {} bytes; "
         "miopenSetFindOptionPreallocatedTensor sets buffers of the caller",
         limit, c.problem.key(), tensors);
  if (o.workspace) {
    buffers.set_workspace(o.workspace->data, allowed.workspace_limit);
  } else {
    allowed.workspace_limit = std::min(allowed.workspace_limit, limit - tensors);
    buffers.allocate_workspace(h,
                               convolution::make_call(h, c.problem, allowed).find_workspace(search::FindMode::kNormal));
  }
  buffers.allocate_tensors(h);
  options.spent_us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  return convolution::find(h, c.problem, allowed, buffers.args(), options);
}

std::vector<search::Candidate> find(Handle& h, const ProblemState& p, const ConvolutionCall& c,
                                    const FindOptionsState& o) {
  const auto start = std::chrono::steady_clock::now();
  search::FindOptions options{static_cast<search::FindMode>(p.conv.find_mode), o.tune};
  FindBuffers buffers(p, c, o);
  Constraints allowed = c.constraints;
  allowed.workspace_limit = std::min(o.workspace_limit, h.workspace_limit());
  if (o.workspace)
    allowed.workspace_limit = std::min(allowed.workspace_limit, o.workspace->data ? o.workspace->bytes : 0);
  // Before allocating: most calls need no memory.
  auto found = convolution::answer(h, c.problem, allowed, buffers.args(), options);
  capi::log_call(c, buffers.args(), "find");
  options.spent_us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  if (!found) found = measure(h, c, o, buffers, allowed, options);
  if (o.order == miopenFindResultsOrderByWorkspaceSize)
    std::stable_sort(found->begin(), found->end(),
                     [](const auto& a, const auto& b) { return a.workspace < b.workspace; });
  return std::move(*found);
}

/// The arguments of one run: the buffers, and the problem with the given tensor descriptors, if any.
struct Run {
  Buffers buffers;
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
    check_no_scalar(argument.id);
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
  auto args = arguments(now.problem, now.call, run.buffers);
  args.workspace = workspace;
  args.workspace_bytes = have;
  const std::uint64_t id = s.candidate.solver->info().id;
  capi::log_call(now.call, args, "solution", id);
  convolution::run(h, now.call.problem, now.call.constraints, args, id, s.candidate.point);
}

}  // namespace

miopenStatus_t miopenCreateFindOptions(miopenFindOptions_t* options) {
  return guard([&] {
    *not_null(options, "options") = nullptr;
    *options = new capi::FindOptionsObject;
  });
}

miopenStatus_t miopenDestroyFindOptions(miopenFindOptions_t options) {
  return guard([&] { delete &capi::checked<capi::FindOptionsObject>(options); });
}

miopenStatus_t miopenSetFindOptionTuning(miopenFindOptions_t options, int value) {
  return guard([&] { deref(options).tune = value != 0; });
}

miopenStatus_t miopenSetFindOptionResultsOrder(miopenFindOptions_t options, miopenFindResultsOrder_t value) {
  return guard([&] {
    require(value == miopenFindResultsOrderByTime || value == miopenFindResultsOrderByWorkspaceSize,
            "results order {} is unknown: allowed are 0 (by time), 1 (by workspace size)", static_cast<int>(value));
    deref(options).order = value;
  });
}

miopenStatus_t miopenSetFindOptionWorkspaceLimit(miopenFindOptions_t options, size_t value) {
  return guard([&] { deref(options).workspace_limit = value; });
}

miopenStatus_t miopenSetFindOptionPreallocatedWorkspace(miopenFindOptions_t options, void* buffer, size_t size) {
  return guard([&] {
    FindOptionsState& o = deref(options);
    require(buffer || size == 0, "a workspace of {} bytes was given, but its buffer is null", size);
    o.workspace = {buffer, size};
  });
}

miopenStatus_t miopenSetFindOptionPreallocatedTensor(miopenFindOptions_t options, miopenTensorArgumentId_t id,
                                                     void* buffer) {
  return guard([&] {
    FindOptionsState& o = deref(options);
    check_no_scalar(id);
    require(id != miopenTensorArgumentIdInvalid, "tensor id 0 is not a tensor");
    o.tensors[id] = not_null(buffer, "buffer");
  });
}

miopenStatus_t miopenSetFindOptionAttachBinaries(miopenFindOptions_t options, unsigned attach) {
  return guard([&] {
    deref(options);
    require(attach <= 1, "attach is {}: allowed are 0 and 1", attach);
  });
}

miopenStatus_t miopenFindSolutions(miopenHandle_t handle, miopenProblem_t problem, miopenFindOptions_t options,
                                   miopenSolution_t* solutions, size_t* numSolutions, size_t maxSolutions) {
  return guard([&] {
    Handle& h = deref(handle);
    const ProblemState& p = deref(problem);
    if (maxSolutions > 0) not_null(solutions, "solutions");
    if (numSolutions) *numSolutions = 0;
    const auto call = capi::make_call(p, Status::kInvalidValue);
    auto found = find(h, p, call, options ? deref(options) : FindOptionsState{});
    found.resize(std::min(found.size(), maxSolutions));
    std::vector<std::unique_ptr<capi::SolutionObject>> objects;
    for (auto& candidate : found)
      objects.push_back(std::make_unique<capi::SolutionObject>(SolutionState{p, std::move(candidate), call}));
    for (std::size_t i = 0; i < objects.size(); ++i) solutions[i] = objects[i].release();
    if (numSolutions) *numSolutions = objects.size();
  });
}

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
