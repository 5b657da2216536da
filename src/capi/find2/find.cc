// Find 2.0, from a problem to solutions.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <utility>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/find2/chain.h"
#include "capi/find2/convolution.h"
#include "capi/find2/mha.h"
#include "capi/find2/softmax.h"
#include "capi/find2/options.h"
#include "capi/find2/solution.h"
#include "core/random.h"

using namespace polymio;
using capi::deref;
using capi::FindOptionsState;
using capi::guard;
using capi::not_null;
using capi::ProblemState;
using capi::SolutionState;
using capi::TensorBuffer;

namespace {

/// The buffers that find measures on: the caller's, and private ones for the rest.
template <class Call>
class FindBuffers {
 public:
  FindBuffers(const ProblemState& problem, const Call& call, const FindOptionsState& options)
      : problem_(problem), call_(call), tensors_(tensors_of(problem, call)) {
    for (TensorBuffer& tensor : tensors_) {
      const auto given = options.tensors.find(tensor.id);
      if (tensor.desc && given != options.tensors.end()) tensor.data = given->second;
    }
  }
  FindBuffers(const FindBuffers&) = delete;
  FindBuffers& operator=(const FindBuffers&) = delete;

  /// Bytes of the tensors without a buffer; SIZE_MAX on overflow.
  std::size_t missing_bytes() const {
    std::size_t sum = 0;
    for (const TensorBuffer& tensor : tensors_)
      if (is_missing(tensor)) sum += std::min(tensor.desc->bytes(), SIZE_MAX - sum);
    return sum;
  }

  void allocate_missing(Handle& h) {
    for (TensorBuffer& tensor : tensors_) {
      if (!is_missing(tensor)) continue;
      tensor.data = allocate(h, tensor.desc->bytes());
      fill_random(h.stream(), *tensor.desc, tensor.data, static_cast<std::uint64_t>(tensor.id), tensor.limit);
    }
  }
  void allocate_workspace(Handle& h, std::size_t bytes) {
    if (bytes > 0) set_workspace(allocate(h, bytes), bytes);
  }
  void set_workspace(void* data, std::size_t bytes) {
    workspace_ = data;
    workspace_bytes_ = bytes;
  }

  auto args() const { return capi::arguments(problem_, call_, tensors_, workspace_, workspace_bytes_); }

 private:
  static bool is_missing(const TensorBuffer& tensor) { return tensor.desc && !tensor.data; }
  void* allocate(Handle& h, std::size_t bytes) { return allocated_.emplace_back(h, bytes).data(); }

  const ProblemState& problem_;
  const Call& call_;
  decltype(tensors_of(std::declval<const ProblemState&>(), std::declval<const Call&>())) tensors_;
  void* workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
  std::deque<Memory> allocated_;
};

constexpr double kFillBytesPerUs = 2e3;  // a slow machine's rate for newly allocated memory

double us_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

template <class Call>
std::size_t find_workspace(Handle& h, const Call& call, const Constraints& allowed) {
  return capi::search_call(h, call, allowed).find_workspace(search::FindMode::kNormal);
}
std::size_t find_workspace(Handle& h, const capi::ChainCall& call, const Constraints& allowed) {
  return capi::most_workspace(h, call, allowed);
}

template <class Call>
std::string text_of(const Call& call) {
  return call.problem.key();
}
std::string text_of(const capi::ChainCall& call) { return call.chain->text(); }

/// Find with measurements, within the handle's memory limit and time budget.
template <class Call>
std::vector<search::Candidate> measure(Handle& h, const Call& call, const FindOptionsState& o,
                                       FindBuffers<Call>& buffers, Constraints allowed, search::FindOptions options) {
  const auto start = std::chrono::steady_clock::now();
  const double left_us = h.find_budget_us() - options.spent_us;
  const std::size_t missing = buffers.missing_bytes(), limit = h.workspace_limit();
  if (h.find_budget_us() > 0 && static_cast<double>(missing) / kFillBytesPerUs > 0.5 * left_us)
    return *capi::answer(h, call, allowed, buffers.args(), options, "the budget has no time to make the tensors");
  if (missing > limit)
    fail(Status::kBadParm,
         "the workspace limit of {} bytes has no room for the tensors of: {}. They have {} bytes; "
         "miopenSetFindOptionPreallocatedTensor sets buffers of the caller",
         limit, text_of(call), missing);
  if (o.workspace) {
    buffers.set_workspace(o.workspace->data, allowed.workspace_limit);
  } else {
    allowed.workspace_limit = std::min(allowed.workspace_limit, limit - missing);
    buffers.allocate_workspace(h, find_workspace(h, call, allowed));
  }
  buffers.allocate_missing(h);
  options.spent_us += us_since(start);
  return capi::measure(h, call, allowed, buffers.args(), options);
}

template <class Call>
std::vector<search::Candidate> find(Handle& h, const ProblemState& p, const Call& call, const FindOptionsState& o) {
  const auto start = std::chrono::steady_clock::now();
  search::FindOptions options{call.find_mode, o.tune};
  FindBuffers<Call> buffers(p, call, o);
  Constraints allowed = call.constraints;
  allowed.workspace_limit = std::min(o.workspace_limit, h.workspace_limit());
  if (o.workspace)
    allowed.workspace_limit = std::min(allowed.workspace_limit, o.workspace->data ? o.workspace->bytes : 0);
  // Before allocating: most calls need no memory.
  auto found = capi::answer(h, call, allowed, buffers.args(), options);
  capi::log_call(call, buffers.args(), "find");
  options.spent_us = us_since(start);
  if (!found) found = measure(h, call, o, buffers, allowed, options);
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
    const capi::ProblemCall call = capi::make_call(p, Status::kInvalidValue);
    const FindOptionsState o = options ? deref(options) : FindOptionsState{};
    auto found = std::visit([&](const auto& of_primitive) { return find(h, p, of_primitive, o); }, call);
    found.resize(std::min(found.size(), maxSolutions));
    std::vector<std::unique_ptr<capi::SolutionObject>> objects;
    for (auto& candidate : found)
      objects.push_back(std::make_unique<capi::SolutionObject>(SolutionState{p, std::move(candidate), call}));
    for (std::size_t i = 0; i < objects.size(); ++i) solutions[i] = objects[i].release();
    if (numSolutions) *numSolutions = objects.size();
  });
}
