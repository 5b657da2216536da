// Extensions: plans and GPU programs that are made before they are needed.
// SPDX-License-Identifier: MIT
#include <miopen/polymio.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <set>

#include "base/function_ref.h"
#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/find2/chain.h"
#include "capi/find2/problem.h"
#include "core/kernel_builder.h"
#include "core/registry.h"
#include "primitives/activation/activation.h"
#include "primitives/tensor_ops/tensor_ops.h"

using namespace polymio;
using capi::deref;
using capi::guard;
using capi::not_null;

namespace {

using Programs = std::vector<KernelSpec>;

/// The GPU programs that an operation needs besides those of plans.
void add_programs(const capi::ConvolutionOperation&, const DeviceInfo&, DataType, Programs&) {}
void add_programs(const capi::BiasOperation&, const DeviceInfo&, DataType, Programs&) {}
void add_programs(const capi::ActivationOperation& activation, const DeviceInfo& device, DataType type, Programs& to) {
  std::ranges::move(activation::programs(device, type, activation.mode), std::back_inserter(to));
}

void add_programs(const capi::CollectedOperation&, const DeviceInfo&, DataType, Programs&) {}
void add_programs(const capi::BatchnormOperation&, const DeviceInfo&, DataType, Programs&) {}

void add_programs(const capi::SoftmaxOperation& softmax, const DeviceInfo& device, DataType type, Programs& to) {
  const bool log = softmax.descriptor.algorithm == softmax::Algorithm::kLog;
  for (const auto direction : {softmax::Direction::kForward, softmax::Direction::kBackward})
    std::ranges::move(softmax::programs(device, type, direction, log), std::back_inserter(to));
}

void add_programs(const capi::MhaOperation&, const DeviceInfo& device, DataType type, Programs& to) {
  for (const auto direction : {mha::Direction::kForward, mha::Direction::kBackward})
    std::ranges::move(mha::programs(device, type, direction), std::back_inserter(to));
}

/// The same of a problem, and those of element-wise operations on its tensors.
void add_programs(const capi::ProblemState& problem, const DeviceInfo& device, Programs& to) {
  if (device.kind == DeviceKind::kCpu) return;
  std::set<DataType> types;
  for (const auto& [id, tensor] : problem.tensors) types.insert(tensor.type);
  require(!types.empty(), "a problem has no tensor descriptors: set them first");
  const std::vector<DataType> list(types.begin(), types.end());
  std::ranges::move(tensor_ops::programs(device, list), std::back_inserter(to));
  for (const capi::Operation& operation : problem.operations)
    for (const DataType type : list)
      std::visit([&](const auto& kind) { add_programs(kind, device, type, to); }, operation);
}

/// The convolutions of a call with each kind of alpha and beta.
void add_problems(capi::ConvolutionCall call, std::deque<convolution::Problem>& problems,
                  std::vector<search::Wanted>& wanted) {
  using convolution::Scalars;
  for (const Scalars scalars : {Scalars::kDefault, Scalars::kScale, Scalars::kBilinear}) {
    call.problem.scalars = scalars;
    wanted.push_back({&problems.emplace_back(call.problem), call.constraints});
  }
}

/// Calls `use` with the search of the problem, or with those of the stages of a chain.
void each_search(Handle& handle, const capi::ProblemState& problem, FunctionRef<void(const search::Call&)> use) {
  if (const auto* collected = problem.find<capi::CollectedOperation>())
    return use(capi::search_call(handle, *collected));
  const capi::ProblemCall any = capi::make_call(problem, Status::kBadParm);
  if (const auto* chain = std::get_if<capi::ChainCall>(&any)) {
    for (const search::Call& call : chain->chain->search_calls(handle)) use(call);
    return;
  }
  std::visit([&](const auto& call) { use(capi::search_call(handle, call)); }, any);
}

/// BadParm unless the name of a solver begins so.
void require_solver(std::string_view begin) {
  for (const SolverList& solvers : registered_solvers())
    for (const SolverBase* s : solvers)
      if (std::string_view(s->info().name).starts_with(begin)) return;
  fail(Status::kBadParm,
       "no solver has a name that begins with '{}'; docs/support.md and docs/safety.md have the names", begin);
}

/// A device, or an architecture without its device, that programs are compiled for.
class Target {
 public:
  explicit Target(const std::string& name) {
    // Architectures look like "cuda-sm90", devices like "cuda:0" and "cpu".
    if (name.find('-') == std::string::npos) {
      stream_ = create_stream(name, nullptr);
      return;
    }
    compiler_ = create_compiler(name);
    usual_ = usual_device(name);
  }
  const DeviceInfo& info() const { return stream_ ? stream_->info() : usual_; }
  size_t compile(const Programs& programs) const {
    return programs.empty() ? 0 : compile_to_disk(stream_ ? stream_->compiler() : *compiler_, programs);
  }

 private:
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Compiler> compiler_;
  DeviceInfo usual_;
};

}  // namespace

miopenStatus_t polymioPrepare(miopenHandle_t handle, const miopenProblem_t* problems, size_t count) {
  return guard([&] {
    Handle& h = deref(handle);
    std::deque<convolution::Problem> all;
    std::vector<search::Wanted> wanted;
    Programs programs;
    for (size_t i = 0; i < count; ++i) {
      const capi::ProblemState& problem = deref(not_null(problems, "problems")[i]);
      if (problem.find<capi::CollectedOperation>())
        fail(Status::kNotImplemented, "problem {} was collected: allowed are those of calls that find 2.0 has", i);
      add_programs(problem, h.device(), programs);
      // A bias, an activation, a softmax or attention has programs, but no plan.
      if (!problem.find<capi::ConvolutionOperation>()) continue;
      const capi::ProblemCall call = capi::make_call(problem, Status::kBadParm);
      if (const auto* convolution = std::get_if<capi::ConvolutionCall>(&call)) add_problems(*convolution, all, wanted);
    }
    if (!programs.empty()) build_kernels(h.stream(), programs);
    convolution::prepare(h, wanted);
  });
}

miopenStatus_t polymioWarm(const char* device, size_t* programs, size_t* compiled) {
  return guard([&] {
    const Target target(not_null(device, "device"));
    const Programs wanted = convolution::base_programs(target.info());
    const size_t made = target.compile(wanted);
    if (programs) *programs = wanted.size();
    if (compiled) *compiled = made;
  });
}

miopenStatus_t polymioWarmProblems(const char* device, const miopenProblem_t* problems, size_t count,
                                   const char* solver, int all_points, size_t* programs, size_t* compiled) {
  return guard([&] {
    const Target target(not_null(device, "device"));
    const std::string_view begin = solver ? solver : "";
    require_solver(begin);
    Handle host("cpu", nullptr);
    Programs wanted;
    std::set<std::string> seen;
    for (size_t i = 0; i < count; ++i)
      each_search(host, deref(not_null(problems, "problems")[i]), [&](const search::Call& call) {
        for (KernelSpec& spec : call.programs(target.info(), begin, all_points != 0))
          if (seen.insert(program_name(spec)).second) wanted.push_back(std::move(spec));
      });
    const size_t made = target.compile(wanted);
    if (programs) *programs = wanted.size();
    if (compiled) *compiled = made;
  });
}
