// Extensions: plans and GPU programs that are made before they are needed.
// SPDX-License-Identifier: MIT
#include <miopen/polymio.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <set>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/find2/problem.h"
#include "core/kernel_builder.h"
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

}  // namespace

miopenStatus_t polymioPrepare(miopenHandle_t handle, const miopenProblem_t* problems, size_t count) {
  return guard([&] {
    Handle& h = deref(handle);
    std::deque<convolution::Problem> all;
    std::vector<search::Wanted> wanted;
    Programs programs;
    for (size_t i = 0; i < count; ++i) {
      const capi::ProblemState& problem = deref(not_null(problems, "problems")[i]);
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
    const std::string name = not_null(device, "device");
    // Architectures look like "cuda-sm90", devices like "cuda:0" and "cpu".
    const bool without_device = name.find('-') != std::string::npos;
    const auto stream = without_device ? nullptr : create_stream(name, nullptr);
    const auto compiler = without_device ? create_compiler(name) : nullptr;
    const auto specs = convolution::base_programs(without_device ? usual_device(name) : stream->info());
    const size_t made = specs.empty() ? 0 : compile_to_disk(without_device ? *compiler : stream->compiler(), specs);
    if (programs) *programs = specs.size();
    if (compiled) *compiled = made;
  });
}
