// Optimizer steps on GPUs. A program serves every shape; kernels are cached by types.
// SPDX-License-Identifier: MIT
#include "primitives/optimizer/pass.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "core/kernel_builder.h"
#include "primitives/common/gpu/skeletons.h"

namespace polymio::optimizer {
namespace {

using gpu_skeletons::kMapEntries;
using gpu_skeletons::value_argument;
using kernels::AdamTypes;

constexpr std::size_t kCountStep = kMapEntries.size();  // the entry point after those of the map

KernelSpec spec_of(const DeviceInfo& device, const AdamTypes& t, std::size_t entry) {
  KernelSpec spec{"primitives/optimizer/gpu/adam.cl", entry == kCountStep ? "count_step" : kMapEntries[entry], {}};
  spec.options = {fmt::format("-DIN={}", name_of(t.parameter)),
                  fmt::format("-DOUT={}", name_of(t.copies ? DataType::kHalf : t.parameter)),
                  fmt::format("-DGRADIENT={}", name_of(t.gradient)),
                  fmt::format("-DNUM={}", t.parameter == DataType::kDouble ? "double" : "float"),
                  fmt::format("-DMAXIMA={}", t.keeps_max ? 1 : 0),
                  fmt::format("-DCOPY={}", t.copies ? 1 : 0)};
  if (device.gpu.fp64) spec.options.emplace_back("-DFP64");
  return spec;
}

SharedKernels& shared = *new SharedKernels;

const Kernel& kernel(Stream& stream, const AdamTypes& t, std::size_t entry) {
  std::uint64_t number = 0;
  for (const std::size_t part : {static_cast<std::size_t>(t.parameter), static_cast<std::size_t>(t.gradient),
                                 std::size_t{t.keeps_max}, std::size_t{t.copies}, entry})
    number = number << 9 | part;
  return shared.get(stream, number, [&] { return spec_of(stream.info(), t, entry); });
}

/// Formula of adam.cl.
template <class Num>
struct Formula {
  Num gradient, l2, keep_mean, add_mean, keep_square, add_square, correction, eps, size, before, after;
  Num log1, log2, rate;
  int step, scale, found, skip;
};

template <class Num>
Formula<Num> formula_of(const Adam& a) {
  const auto number = [](double v) { return static_cast<Num>(v); };
  // Of the first step if the number is in device memory: replaced there.
  const kernels::AdamStep s = coefficients(a, a.last_step ? 1 : a.step, 1);
  const bool counts = a.last_step && depends_on_step(a);
  const int scale = !a.scale ? 0 : a.scale.desc->type == DataType::kInt32 ? 1 : 2;
  const int found = a.found ? static_cast<int>(size_of(a.found.desc->type)) : 0;
  return {number(s.gradient),
          number(s.l2),
          number(s.keep_mean),
          number(s.add_mean),
          number(s.keep_square),
          number(s.add_square),
          number(s.correction),
          number(s.eps),
          number(s.size),
          number(s.before),
          number(s.after),
          number(std::log(static_cast<double>(a.beta1))),
          number(std::log(static_cast<double>(a.beta2))),
          number(a.rate),
          !counts                                        ? 0
          : a.algorithm == Algorithm::kTransformersAdamW ? 2
                                                         : 1,
          scale,
          found,
          0};
}

}  // namespace

void run_gpu(Stream& stream, const Pass& p) {
  const Adam& a = p.adam;
  const AdamTypes types = p.types();
  if (types.parameter == DataType::kDouble && !stream.info().gpu.fp64)
    fail(Status::kNotImplemented, "{} has no double-precision arithmetic", stream.info().name);
  kernels::Sides sides{};
  const std::size_t inputs = p.loop.operands - p.outputs;
  for (std::size_t i = 0; i < p.loop.operands; ++i) {
    stream.check_memory(p.data[i], i < p.outputs ? "an output" : "an input");
    sides[i < p.outputs ? inputs + i : i - p.outputs] = {p.data[i], p.size[i]};
  }
  for (const Operand* scalar : {&a.last_step, &a.step_out, &a.scale, &a.found})
    if (*scalar) stream.check_memory(scalar->data, "a scalar");
  const auto buffer = [&](const Operand& o) { return Buffer(o ? o.data : p.data[0]); };
  const Buffer last = buffer(a.last_step), scale = buffer(a.scale), found = buffer(a.found);
  const auto plan = gpu_skeletons::plan_map(gpu_skeletons::nest_of(p.loop, p.outputs), sides);
  const auto launch_in = [&](const auto& formula) {
    const auto argument = [](const Buffer& b) { return Argument{Argument::Kind::kBuffer, &b, sizeof b}; };
    const std::array arguments = {value_argument(formula), argument(last), argument(scale), argument(found)};
    gpu_skeletons::launch_map(stream, kernel(stream, types, static_cast<std::size_t>(plan.entry)), plan, sides,
                              arguments);
  };
  types.parameter == DataType::kDouble ? launch_in(formula_of<double>(a)) : launch_in(formula_of<float>(a));
  if (!a.step_out) return;
  const int bytes = a.found ? static_cast<int>(size_of(a.found.desc->type)) : 0;
  launch(stream, kernel(stream, types, kCountStep), launch_shape(1, 1), last, Buffer(a.step_out.data), found, bytes);
}

std::vector<KernelSpec> programs(const DeviceInfo& device, DataType parameter) {
  const bool is_double = parameter == DataType::kDouble;
  if (is_double && !device.gpu.fp64) return {};
  std::vector<KernelSpec> specs;
  for (const DataType gradient : {DataType::kFloat, DataType::kHalf, DataType::kBFloat16, DataType::kDouble}) {
    const bool narrow = parameter == DataType::kFloat && !is_double && gradient != DataType::kDouble;
    if (gradient != parameter && !narrow) continue;
    for (const bool keeps_max : {false, true})
      for (const bool copies : {false, true})
        for (std::size_t entry = 0; entry <= kCountStep && !(is_double && copies); ++entry)
          specs.push_back(spec_of(device, {parameter, gradient, keeps_max, copies}, entry));
  }
  return specs;
}

}  // namespace polymio::optimizer
