// Fusion plans: operations, compilation, execution.
// SPDX-License-Identifier: MIT
#include "capi/fusion/plan.h"

#include <algorithm>

#include "base/log.h"
#include "capi/batch_norm.h"
#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/common/log_call.h"
#include "capi/common/tensor.h"
#include "capi/convolution/call.h"
#include "capi/fusion/command.h"

using namespace polymio;
using capi::deref;
using capi::described;
using capi::FusionOpObject;
using capi::FusionPlanObject;
using capi::guard;
using capi::not_null;
using capi::OperatorArgsObject;
using capi::OpKind;

namespace polymio::capi {

const char* name_of(OpKind kind) {
  static constexpr const char* kNames[] = {"nothing",
                                           "a convolution",
                                           "a bias",
                                           "an activation",
                                           "a backward activation",
                                           "a batch norm by given moments",
                                           "a batch norm by those of the batch",
                                           "a backward batch norm"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace polymio::capi

namespace {

/// Appends an operation whose result is like `output`.
FusionOpObject& append(FusionPlanObject& plan, miopenFusionOpDescriptor_t* op, OpKind kind, fusion::Operation operation,
                       const TensorDesc& output) {
  auto object = std::make_unique<FusionOpObject>();
  object->kind = kind;
  object->index = plan.operations.size();
  object->operation = std::move(operation);
  const std::scoped_lock lock(plan.mutex);
  plan.operations.push_back(std::move(object));
  plan.output = output;
  plan.chain.reset();
  plan.compiled.clear();
  *op = plan.operations.back().get();
  return *plan.operations.back();
}

activation::Mode checked_mode(miopenActivationMode_t mode) {
  const int number = static_cast<int>(mode);
  require(number >= 0 && number < activation::kModes,
          "activation mode {} is unknown: allowed are 0 (passthru) to 10 (clamp)", number);
  return static_cast<activation::Mode>(number);
}

batch_norm::Problem norm_problem(const FusionPlanObject& plan, batch_norm::Direction direction,
                                 miopenBatchNormMode_t number) {
  const auto mode = static_cast<batch_norm::Mode>(number);
  require(mode == batch_norm::Mode::kPerActivation || mode == batch_norm::Mode::kSpatial,
          "batch norm mode {} is unknown: allowed are 0 (per activation) and 1 (spatial)", static_cast<int>(number));
  batch_norm::Problem p;
  p.direction = direction;
  p.mode = mode;
  p.x = p.out = plan.output;
  if (direction == batch_norm::Direction::kBackward) p.dy = plan.output;
  p.parameters = batch_norm::parameters_of(p.x, mode);
  return p;
}

void append_activation(miopenFusionPlanDescriptor_t descriptor, miopenFusionOpDescriptor_t* op,
                       miopenActivationMode_t mode, bool backward) {
  FusionPlanObject& plan = deref(descriptor);
  not_null(op, "the operation");
  append(plan, op, backward ? OpKind::kActivationBackward : OpKind::kActivation,
         fusion::Activation{plan.output, plan.output, checked_mode(mode), backward}, plan.output);
}

FusionOpObject& append_norm(miopenFusionPlanDescriptor_t descriptor, miopenFusionOpDescriptor_t* op,
                            miopenBatchNormMode_t mode, batch_norm::Direction direction) {
  FusionPlanObject& plan = deref(descriptor);
  not_null(op, "the operation");
  const OpKind kind = direction == batch_norm::Direction::kTraining ? OpKind::kNormTraining : OpKind::kNormBackward;
  return append(plan, op, kind, fusion::BatchNorm{norm_problem(plan, direction, mode)}, plan.output);
}

bool is_convolution(const std::unique_ptr<FusionOpObject>& op) { return op->kind == OpKind::kConvolution; }

fusion::Chain chain_of(const FusionPlanObject& plan) {
  std::vector<fusion::Operation> operations;
  for (const auto& op : plan.operations) operations.push_back(op->operation);
  return fusion::Chain(std::move(operations));
}

void compile(Handle& handle, FusionPlanObject& plan) {
  const std::scoped_lock lock(plan.mutex);
  if (plan.operations.empty()) fail(Status::kUnknownError, "the fusion plan has no operations");
  if (plan.direction != miopenVerticalFusion)
    fail(Status::kNotImplemented, "horizontal fusion: only a vertical fusion plan can be compiled");
  if (std::ranges::any_of(plan.compiled, [&](const auto& c) { return c->handle == handle.id(); })) return;
  try {
    if (!plan.chain) plan.chain = chain_of(plan);
    auto compiled = std::make_shared<FusionPlanObject::Compiled>();
    compiled->handle = handle.id();
    compiled->plan = plan.chain->prepare(handle, SIZE_MAX, nullptr, plan.algorithms);
    compiled->memory = handle.keep(compiled->plan.workspace);
    plan.compiled.push_back(std::move(compiled));
  } catch (const Error& e) {
    if (e.status != Status::kBadParm && e.status != Status::kNotImplemented) throw;
    fail(Status::kUnsupportedOp, "the fusion plan cannot run: {}", e.what());
  }
}

/// BadParm unless all tensors that the operation needs have been given.
void check_arguments(const FusionOpObject& op, const OperatorArgsObject& given) {
  if (op.index >= given.kinds.size() || given.kinds[op.index] != op.kind)
    fail(Status::kBadParm, "operation {} of the plan is {}, whose arguments have not been set", op.index,
         capi::name_of(op.kind));
  const fusion::Args& a = given.args[op.index];
  const batch_norm::Problem::Args& norm = a.norm;
  const auto need = [&](const void* data, const char* name) {
    if (!data) fail(Status::kBadParm, "{} of operation {} is null", name, op.index);
  };
  if (op.kind == OpKind::kConvolution) need(a.w, "the filter");
  if (op.kind == OpKind::kBias) need(a.bias, "the bias");
  if (op.kind == OpKind::kActivationBackward) need(a.y, "the forward result");
  if (!std::holds_alternative<fusion::BatchNorm>(op.operation)) return;
  need(norm.scale, "the scale");
  need(norm.bias, "the bias");
  if (op.kind == OpKind::kNormBackward) need(norm.x, "x");
  if (op.kind == OpKind::kNormInference) need(norm.mean && norm.variance ? norm.mean : nullptr, "a moment");
}

std::string command_of(const FusionPlanObject& plan, const OperatorArgsObject& given) {
  capi::FusedCall call{.x = plan.input};
  OpKind last = OpKind::kNone;
  for (const auto& op : plan.operations) {
    static constexpr OpKind kOrder[] = {OpKind::kNone, OpKind::kConvolution, OpKind::kBias, OpKind::kNormInference,
                                        OpKind::kActivation};
    const auto place = [](OpKind kind) { return std::ranges::find(kOrder, kind) - std::begin(kOrder); };
    if (place(op->kind) == std::ssize(kOrder) || place(op->kind) <= place(last)) return "";
    last = op->kind;
    const fusion::Args& args = given.args[op->index];
    call.bias = call.bias || op->kind == OpKind::kBias;
    if (const auto* c = std::get_if<fusion::Convolution>(&op->operation)) call.convolution = &c->problem;
    if (const auto* norm = std::get_if<fusion::BatchNorm>(&op->operation)) {
      call.norm = &norm->problem;
      call.epsilon = args.norm.epsilon;
    }
    if (const auto* activation = std::get_if<fusion::Activation>(&op->operation)) {
      call.activation = &activation->mode;
      call.parameters = args.activation;
    }
  }
  return capi::command_of(call);
}

void execute(miopenHandle_t handle, miopenFusionPlanDescriptor_t descriptor, miopenTensorDescriptor_t input_desc,
             const void* input, miopenTensorDescriptor_t output_desc, void* output, miopenOperatorArgs_t args,
             const char* function) {
  Handle& h = deref(handle);
  const FusionPlanObject& plan = deref(descriptor);
  const OperatorArgsObject& given = deref(args);
  const TensorDesc &in = described(input_desc, "the input"), &out = described(output_desc, "the output");
  require(in == plan.input, "the input is {} {}, that of the plan is {} {}: they must be equal, strides too",
          polymio::name_of(in.type), sizes_text(in), polymio::name_of(plan.input.type), sizes_text(plan.input));
  require(out == plan.output, "the output is {} {}, that of the plan is {} {}: they must be equal, strides too",
          polymio::name_of(out.type), sizes_text(out), polymio::name_of(plan.output.type), sizes_text(plan.output));
  not_null(input, "the buffer of the input");
  not_null(output, "the buffer of the output");
  for (const auto& op : plan.operations) check_arguments(*op, given);
  require(input != output || std::ranges::none_of(plan.operations, is_convolution),
          "the plan has a convolution, so the output may not be the input");
  std::shared_ptr<FusionPlanObject::Compiled> compiled;
  {
    const std::scoped_lock lock(plan.mutex);
    for (const auto& c : plan.compiled)
      if (c->handle == h.id()) compiled = c;
  }
  if (!compiled)
    fail(Status::kBadParm, "the fusion plan is not compiled for this handle: call miopenCompileFusionPlan");
  if (log::api_enabled()) log::write("api", fmt::format("{} {}", function, plan.chain->text()));
  capi::log_command([&] { return command_of(plan, given); });
  std::unique_lock lock(compiled->mutex, std::defer_lock);
  if (compiled->memory) lock.lock();
  plan.chain->run(h, compiled->plan, {input, output, given.args, compiled->memory.get()});
}

}  // namespace

miopenStatus_t miopenCreateFusionPlan(miopenFusionPlanDescriptor_t* fusePlanDesc,
                                      const miopenFusionDirection_t fuseDirection,
                                      const miopenTensorDescriptor_t inputDesc) {
  return guard([&] {
    *not_null(fusePlanDesc, "fusePlanDesc") = nullptr;
    const TensorDesc& input = described(inputDesc, "the input");
    auto plan = std::make_unique<FusionPlanObject>();
    plan->direction = fuseDirection;
    plan->input = plan->output = input;
    *fusePlanDesc = plan.release();
  });
}

miopenStatus_t miopenDestroyFusionPlan(miopenFusionPlanDescriptor_t fusePlanDesc) {
  return guard([&] { delete &deref(fusePlanDesc); });
}

miopenStatus_t miopenCompileFusionPlan(miopenHandle_t handle, miopenFusionPlanDescriptor_t fusePlanDesc) {
  return guard([&] {
    Handle& h = deref(handle);
    compile(h, deref(fusePlanDesc));
  });
}

miopenStatus_t miopenFusionPlanGetOp(miopenFusionPlanDescriptor_t fusePlanDesc, const int op_idx,
                                     miopenFusionOpDescriptor_t* op) {
  return guard([&] {
    const FusionPlanObject& plan = deref(fusePlanDesc);
    not_null(op, "op");
    require(op_idx >= 0 && static_cast<std::size_t>(op_idx) < plan.operations.size(),
            "there is no operation {}: the plan has {}", op_idx, plan.operations.size());
    *op = plan.operations[static_cast<std::size_t>(op_idx)].get();
  });
}

miopenStatus_t miopenFusionPlanGetWorkSpaceSize(miopenHandle_t handle, miopenFusionPlanDescriptor_t fusePlanDesc,
                                                size_t* workSpaceSize, miopenConvFwdAlgorithm_t) {
  return guard([&] {
    deref(handle);
    deref(fusePlanDesc);
    *not_null(workSpaceSize, "workSpaceSize") = 0;  // a compiled plan owns what it needs
  });
}

miopenStatus_t miopenFusionPlanConvolutionGetAlgo(miopenFusionPlanDescriptor_t fusePlanDesc, const int requestAlgoCount,
                                                  int* returnedAlgoCount, miopenConvFwdAlgorithm_t* returnedAlgos) {
  return guard([&] {
    const FusionPlanObject& plan = deref(fusePlanDesc);
    not_null(returnedAlgoCount, "returnedAlgoCount");
    require(requestAlgoCount >= 0, "{} algorithms were requested: at least 0 are allowed", requestAlgoCount);
    constexpr miopenConvFwdAlgorithm_t kAll[] = {miopenConvolutionFwdAlgoDirect, miopenConvolutionFwdAlgoWinograd};
    const bool any = std::ranges::any_of(plan.operations, is_convolution);
    const int count = any ? std::min(requestAlgoCount, 2) : 0;
    if (count > 0) std::copy_n(kAll, count, not_null(returnedAlgos, "returnedAlgos"));
    *returnedAlgoCount = count;
  });
}

miopenStatus_t miopenFusionPlanConvolutionSetAlgo(miopenFusionPlanDescriptor_t fusePlanDesc,
                                                  miopenConvFwdAlgorithm_t algo) {
  return guard([&] {
    FusionPlanObject& plan = deref(fusePlanDesc);
    const int number = static_cast<int>(algo);
    require(number >= 0 && number <= 5, "algorithm {} is unknown: allowed are 0 to 5", number);
    const std::scoped_lock lock(plan.mutex);
    plan.algorithms = 1u << number;
    plan.compiled.clear();
  });
}

miopenStatus_t miopenCreateOpConvForward(miopenFusionPlanDescriptor_t fusePlanDesc, miopenFusionOpDescriptor_t* convOp,
                                         miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t wDesc) {
  return guard([&] {
    FusionPlanObject& plan = deref(fusePlanDesc);
    not_null(convOp, "convOp");
    const auto& c = deref(convDesc);
    const TensorDesc &x = plan.output, &w = described(wDesc, "w");
    const TensorDesc y = capi::output_like(c, x, w);
    const auto call = capi::make_call(c, convolution::Direction::kForward, x, w, y);
    append(plan, convOp, OpKind::kConvolution, fusion::Convolution{call.problem, call.constraints, call.seed}, y);
  });
}

miopenStatus_t miopenCreateOpActivationForward(miopenFusionPlanDescriptor_t fusePlanDesc,
                                               miopenFusionOpDescriptor_t* activFwdOp, miopenActivationMode_t mode) {
  return guard([&] { append_activation(fusePlanDesc, activFwdOp, mode, false); });
}

miopenStatus_t miopenCreateOpActivationBackward(miopenFusionPlanDescriptor_t fusePlanDesc,
                                                miopenFusionOpDescriptor_t* activBwdOp, miopenActivationMode_t mode) {
  return guard([&] { append_activation(fusePlanDesc, activBwdOp, mode, true); });
}

miopenStatus_t miopenCreateOpBiasForward(miopenFusionPlanDescriptor_t fusePlanDesc, miopenFusionOpDescriptor_t* biasOp,
                                         const miopenTensorDescriptor_t bDesc) {
  return guard([&] {
    FusionPlanObject& plan = deref(fusePlanDesc);
    not_null(biasOp, "biasOp");
    fusion::check_bias(described(bDesc, "the bias"), plan.output);
    append(plan, biasOp, OpKind::kBias, fusion::Bias{plan.output, plan.output}, plan.output);
  });
}

miopenStatus_t miopenCreateOpBatchNormInference(miopenFusionPlanDescriptor_t fusePlanDesc,
                                                miopenFusionOpDescriptor_t* bnOp, const miopenBatchNormMode_t bn_mode,
                                                const miopenTensorDescriptor_t bnScaleBiasMeanVarDesc) {
  return guard([&] {
    FusionPlanObject& plan = deref(fusePlanDesc);
    not_null(bnOp, "bnOp");
    batch_norm::Problem p = norm_problem(plan, batch_norm::Direction::kInference, bn_mode);
    const TensorDesc& parameters = described(bnScaleBiasMeanVarDesc, "the parameters");
    capi::set_parameters(p, {parameters, parameters, parameters, parameters, true});
    append(plan, bnOp, OpKind::kNormInference, fusion::BatchNorm{p}, plan.output);
  });
}

miopenStatus_t miopenCreateOpBatchNormForward(miopenFusionPlanDescriptor_t fusePlanDesc,
                                              miopenFusionOpDescriptor_t* bnFwdOp, const miopenBatchNormMode_t bn_mode,
                                              bool runningMeanVariance) {
  return guard([&] {
    append_norm(fusePlanDesc, bnFwdOp, bn_mode, batch_norm::Direction::kTraining).updates_running_moments =
        runningMeanVariance;
  });
}

miopenStatus_t miopenCreateOpBatchNormBackward(miopenFusionPlanDescriptor_t fusePlanDesc,
                                               miopenFusionOpDescriptor_t* bnBwdOp,
                                               const miopenBatchNormMode_t bn_mode) {
  return guard([&] { append_norm(fusePlanDesc, bnBwdOp, bn_mode, batch_norm::Direction::kBackward); });
}

miopenStatus_t miopenExecuteFusionPlan(const miopenHandle_t handle, const miopenFusionPlanDescriptor_t fusePlanDesc,
                                       const miopenTensorDescriptor_t inputDesc, const void* input,
                                       const miopenTensorDescriptor_t outputDesc, void* output,
                                       miopenOperatorArgs_t args) {
  return guard(
      [&] { execute(handle, fusePlanDesc, inputDesc, input, outputDesc, output, args, "miopenExecuteFusionPlan"); });
}

miopenStatus_t miopenExecuteFusionPlan_v2(const miopenHandle_t handle, const miopenFusionPlanDescriptor_t fusePlanDesc,
                                          const miopenTensorDescriptor_t inputDesc, const void* input,
                                          const miopenTensorDescriptor_t outputDesc, void* output,
                                          miopenOperatorArgs_t args, void*, size_t) {
  return guard(
      [&] { execute(handle, fusePlanDesc, inputDesc, input, outputDesc, output, args, "miopenExecuteFusionPlan_v2"); });
}
