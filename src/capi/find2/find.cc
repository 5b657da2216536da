// Find 2.0, from a problem to solutions.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/find2/convolution.h"
#include "capi/find2/options.h"
#include "capi/find2/solution.h"
#include "core/random.h"

using namespace polymio;
using capi::ConvolutionCall;
using capi::deref;
using capi::FindOptionsState;
using capi::guard;
using capi::not_null;
using capi::ProblemState;
using capi::Role;
using capi::SolutionState;

namespace {

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
    workspace_bytes_ = bytes;
  }

  convolution::Problem::Args args() const {
    return capi::arguments(problem_, call_, buffers_, workspace_, workspace_bytes_);
  }

 private:
  void* allocate(Handle& h, std::size_t bytes) { return allocated_.emplace_back(h, bytes).data(); }

  const ProblemState& problem_;
  const ConvolutionCall& call_;
  capi::ProblemBuffers buffers_;
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
    const search::Call solvers = convolution::make_call(h, c.problem, allowed);
    buffers.allocate_workspace(h, solvers.find_workspace(search::FindMode::kNormal));
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

}  // namespace

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
