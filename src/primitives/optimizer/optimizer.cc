// SPDX-License-Identifier: MIT
#include "primitives/optimizer/optimizer.h"

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <optional>

#include "base/error.h"
#include "core/aligned_buffer.h"
#include "core/tensor_checks.h"
#include "kernels/cpu/kernels_of.h"
#include "primitives/common/map.h"
#include "primitives/optimizer/pass.h"

namespace polymio::optimizer {
namespace {

struct Named {
  const Operand* operand;
  const char* name;
};

/// The tensors of a call, outputs first.
struct Tensors {
  std::array<Named, kMaxOperands> all{};
  std::size_t count = 0, outputs = 0;

  explicit Tensors(const Adam& a) {
    push(a.param_out, "paramOut");
    push(a.mean_out, "expAvgOut");
    push(a.square_out, "expAvgSqOut");
    if (a.amsgrad) push(a.max_out, "maxExpAvgSqOut");
    if (a.copy) push(a.copy, "paramOutFloat16");
    outputs = count;
    push(a.param, "param");
    push(a.gradient, "grad");
    push(a.mean, "expAvg");
    push(a.square, "expAvgSq");
    if (a.amsgrad) push(a.max, "maxExpAvgSq");
  }
  void push(const Operand& operand, const char* name) { all[count++] = {&operand, name}; }
  const TensorDesc& desc(std::size_t i) const { return *all[i].operand->desc; }
  void* data(std::size_t i) const { return all[i].operand->data; }
};

bool is_16_bit(DataType t) { return t == DataType::kHalf || t == DataType::kBFloat16; }

void require_types(const Adam& a, const Tensors& tensors) {
  const DataType type = a.param.desc->type;
  for (std::size_t i = 0; i < tensors.count; ++i) {
    const auto [operand, name] = tensors.all[i];
    require_float_tensor(*operand->desc, name, kMaxRank, "optimizers");
    require_same_sizes(*operand->desc, name, *a.param.desc, "param");
    if (operand != &a.gradient && operand != &a.copy) require_same_type(*operand->desc, name, *a.param.desc, "param");
  }
  const DataType gradient = a.gradient.desc->type;
  require(gradient == type || (type == DataType::kFloat && is_16_bit(gradient)),
          "grad is {} and param is {}: grad must have the type of param, or be fp16 or bf16 with fp32 parameters",
          name_of(gradient), name_of(type));
  if (!a.copy) return;
  require(a.copy.desc->type == DataType::kHalf, "paramOutFloat16 is {}: it must be fp16", name_of(a.copy.desc->type));
  require(type != DataType::kDouble, "paramOutFloat16 is not supported with fp64 parameters: leave it out");
}

void require_memory(const Tensors& t) {
  for (std::size_t o = 0; o < t.outputs; ++o) {
    require_separate(t.desc(o), t.all[o].name);
    for (std::size_t i = o + 1; i < t.count; ++i) {
      const bool same = t.data(i) == t.data(o);
      require(!same || i >= t.outputs, "{} and {} are the same memory: outputs must differ", t.all[o].name,
              t.all[i].name);
      require(!same || size_of(t.desc(i).type) == size_of(t.desc(o).type),
              "{} is written over {}, whose elements have another size", t.all[o].name, t.all[i].name);
      require_no_overlap(t.desc(i), t.data(i), t.all[i].name, t.desc(o), t.data(o));
    }
  }
}

void require_scalar(const Operand& scalar, const char* name, std::initializer_list<DataType> types,
                    const char* allowed) {
  if (!scalar) return;
  bool fits = false;
  for (const DataType t : types) fits = fits || scalar.desc->type == t;
  require(fits, "{} is {}: allowed is {}", name, name_of(scalar.desc->type), allowed);
  require(scalar.desc->count() == 1, "{} has {} elements: it must have 1", name, scalar.desc->count());
}

void require_scalars(const Adam& a) {
  require_scalar(a.last_step, "stateStep", {DataType::kInt32}, "int32");
  require_scalar(a.step_out, "stateStepOut", {DataType::kInt32}, "int32");
  require_scalar(a.scale, "gradScale", {DataType::kInt32, DataType::kFloat}, "int32 or fp32");
  require_scalar(a.found, "foundInf", {DataType::kInt8, DataType::kInt32, DataType::kFloat}, "int8, int32 or fp32");
  require(a.last_step || !a.step_out, "stateStepOut is given, but not the step that it follows, stateStepIn");
  for (const auto& [beta, name] : {std::pair{a.beta1, "beta1"}, std::pair{a.beta2, "beta2"}})
    require(beta >= 0 && beta < 1, "{} is {}: it must be at least 0 and less than 1", name, beta);
  require(a.last_step || a.step > 0 || !depends_on_step(a), "state_step is 0: steps count from 1");
}

void validate(const Adam& a, const Tensors& tensors) {
  require(!a.amsgrad || (a.max && a.max_out), "amsgrad needs maxExpAvgSq, which is null");
  require_types(a, tensors);
  require_memory(tensors);
  require_scalars(a);
}

double value_of(const Operand& scalar) {
  std::int32_t integer = 0;
  if (scalar.desc->type == DataType::kInt8) return *static_cast<const signed char*>(scalar.data);
  std::memcpy(&integer, scalar.data, sizeof integer);
  return scalar.desc->type == DataType::kFloat ? dtype::load(DataType::kFloat, &integer, 0) : integer;
}

bool is_in_place(const Pass& p) {
  bool in_place = !p.adam.copy && (!p.adam.step_out || p.adam.step_out.data == p.adam.last_step.data);
  for (const auto& [in, out] : {std::pair{&p.adam.param, &p.adam.param_out}, std::pair{&p.adam.mean, &p.adam.mean_out},
                                std::pair{&p.adam.square, &p.adam.square_out}})
    in_place = in_place && in->data == out->data;
  return in_place && (!p.adam.amsgrad || p.adam.max.data == p.adam.max_out.data);
}

void run_cpu(Stream& stream, const Pass& p) {
  const Adam& a = p.adam;
  const bool skip = a.found && value_of(a.found) != 0;
  if (skip && is_in_place(p)) return;
  const double last = a.last_step ? value_of(a.last_step) : a.step - 1.0;
  kernels::AdamStep step = coefficients(a, last + 1, a.scale ? value_of(a.scale) : 1);
  step.skip = skip;
  common::Operands operands;
  operands.outputs = p.outputs;
  for (std::size_t i = 0; i < p.loop.operands; ++i) operands.push(p.data[i], p.size[i]);
  const kernels::AdamKernel kernel = kernels::kernels_of<kernels::OptimizerKernels>(stream.info().isa).adam(p.types());
  common::map(stream, Tiles(p.loop), operands, [&](const kernels::Run& run) { kernel(step, run); });
  if (!a.step_out) return;
  const auto next = static_cast<std::int32_t>(skip ? last : last + 1);
  std::memcpy(a.step_out.data, &next, sizeof next);
}

}  // namespace

bool depends_on_step(const Adam& a) {
  return a.algorithm != Algorithm::kTransformersAdamW || (a.correct_bias && a.step_size < 0);
}

kernels::AdamStep coefficients(const Adam& a, double step, double scale) {
  const bool transformers = a.algorithm == Algorithm::kTransformersAdamW;
  const double decay = static_cast<double>(a.rate) * a.weight_decay;
  kernels::AdamStep s{};
  s.gradient = (a.maximize ? -1 : 1) / scale;
  s.l2 = a.algorithm == Algorithm::kAdam ? a.weight_decay : 0;
  s.keep_mean = a.beta1;
  s.add_mean = 1.0 - a.beta1;
  s.keep_square = a.beta2;
  s.add_square = 1.0 - a.beta2;
  s.eps = a.eps;
  s.before = a.algorithm == Algorithm::kAdamW ? 1 - decay : 1;
  s.after = transformers && a.weight_decay > 0 ? 1 - decay : 1;
  s.size = transformers && a.step_size >= 0 ? a.step_size : a.rate;
  s.correction = 1;
  if (!depends_on_step(a)) return s;
  const double of_square = std::sqrt(1 - std::pow(static_cast<double>(a.beta2), step));
  s.size /= 1 - std::pow(static_cast<double>(a.beta1), step);
  if (transformers)
    s.size *= of_square;
  else
    s.correction = 1 / of_square;
  return s;
}

void run(Stream& stream, const Adam& a) {
  const Tensors tensors(a);
  validate(a, tensors);
  Pass pass{a, {}, tensors.outputs, {}, {}};
  std::array<const TensorDesc*, kMaxOperands> descs{};
  std::array<std::optional<AlignedBuffer>, kMaxOperands> buffers;
  for (std::size_t i = 0; i < tensors.count; ++i) {
    descs[i] = &tensors.desc(i);
    buffers[i].emplace(stream.info(), *descs[i], tensors.data(i), tensors.all[i].name);
    pass.data[i] = buffers[i]->data();
    pass.size[i] = size_of(descs[i]->type);
  }
  pass.loop = simplified_loop(std::span(descs).first(tensors.count));
  stream.info().kind == DeviceKind::kCpu ? run_cpu(stream, pass) : run_gpu(stream, pass);
  for (std::size_t o = 0; o < tensors.outputs; ++o) buffers[o]->write_back();
}

}  // namespace polymio::optimizer
