// The API fuzzer's fusion plans: chains against the reference, the life cycle with wrong arguments, training and
// gradients, batch norm problems, and the convolution with bias and activation.
// SPDX-License-Identifier: MIT
#include "fuzz/api.h"
#include "reference/fusion.h"

namespace polymio::fuzz {
namespace {

/// An object for one call.
template <class T, Status (*kCreate)(T*), Status (*kDestroy)(T)>
struct Owned {
  Owned() { kCreate(&object); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { kDestroy(object); }
  T object = nullptr;
};
using Arguments = Owned<miopenOperatorArgs_t, miopenCreateOperatorArgs, miopenDestroyOperatorArgs>;
using Convolution =
    Owned<miopenConvolutionDescriptor_t, miopenCreateConvolutionDescriptor, miopenDestroyConvolutionDescriptor>;
using Activation =
    Owned<miopenActivationDescriptor_t, miopenCreateActivationDescriptor, miopenDestroyActivationDescriptor>;

struct Plan {
  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    if (object) miopenDestroyFusionPlan(object);
  }
  miopenFusionPlanDescriptor_t object = nullptr;
};

miopenActivationMode_t mode_of(int number) { return static_cast<miopenActivationMode_t>(number); }

/// A convolution of 3 x 3 or 1 x 1 with what follows it.
struct Shape {
  explicit Shape(Random& random) {
    type = static_cast<miopenDataType_t>(random.pick(std::vector<int>{0, 1, 1, 5, 6}));
    const std::int64_t groups = random.pick({std::int64_t{1}, std::int64_t{2}}), filter = random.one_in(2) ? 1 : 3;
    const std::int64_t c = groups * random.between(1, 4), k = groups * random.between(1, 4);
    lens = {random.between(1, 3), c, random.between(3, 7), random.between(3, 7)};
    w_lens = {k, c / groups, filter, filter};
    y_lens = {lens[0], k, lens[2], lens[3]};
    p.has_convolution = !random.one_in(4);
    if (!p.has_convolution) y_lens = lens;
    p.has_bias = random.one_in(2);
    p.has_norm = random.one_in(2);
    p.has_activation = random.one_in(2) || !(p.has_convolution || p.has_bias || p.has_norm);
    p.norm.spatial = random.one_in(2);
    p.norm.epsilon = random.pick({1e-5, 0.5});
    p.activation.mode = static_cast<ref::ActivationMode>(random.below(11));
    p.activation.alpha = random.pick({0.5, 1.0});
    p.activation.beta = 1.5;
    p.activation.gamma = 1;
    ref::Convolution& conv = p.convolution;
    conv.pad = {filter / 2, filter / 2};
    conv.stride = conv.dilation = {1, 1};
    conv.groups = groups;
  }
  TensorModel parameters() const {
    std::vector<std::int64_t> sizes = p.norm.spatial ? channels() : y_lens;
    sizes[0] = 1;
    return {type == miopenDouble ? miopenDouble : miopenFloat, sizes, packed_strides(sizes), 1};
  }
  std::vector<std::int64_t> channels() const { return {1, y_lens[1], 1, 1}; }

  miopenDataType_t type;
  std::vector<std::int64_t> lens, w_lens, y_lens;
  ref::Fusion p;
};

/// Every operation of a plan in the usual order, some of which are missing, against the reference.
void run_plan(World& w) {
  Draw d(w);
  Shape s(d.random());
  const TensorModel x_model{s.type, s.lens, packed_strides(s.lens), 1};
  Operand x(w, x_model), y(w, {s.type, s.y_lens, packed_strides(s.y_lens), 1});
  Operand filter(w, {s.type, s.w_lens, packed_strides(s.w_lens), 1});
  Operand bias(w, {s.type, s.channels(), packed_strides(s.channels()), 1});
  Operand scale(w, s.parameters()), shift(w, s.parameters()), mean(w, s.parameters()), variance(w, s.parameters());
  for (Operand* t : {&x, &filter, &bias, &scale, &shift, &mean}) t->fill(-2, 2);
  variance.fill(1, 3);
  const Convolution conv;
  const int pad = static_cast<int>(s.p.convolution.pad[0]);
  miopenInitConvolutionDescriptor(conv.object, miopenConvolution, pad, pad, 1, 1, 1, 1);
  miopenSetConvolutionGroupCount(conv.object, static_cast<int>(s.p.convolution.groups));
  Plan plan;
  const Arguments args;
  if (!d.check(miopenCreateFusionPlan(d.pointer(&plan.object), miopenVerticalFusion, d.object(Kind::kTensor, x.desc))))
    return;
  miopenFusionOpDescriptor_t op = nullptr, last = nullptr;
  int count = 0;
  const auto added = [&](Status created, auto set) {
    if (!d.check(created, "an operation")) return false;
    last = op;
    ++count;
    return d.check(set(), "its arguments");
  };
  const float one = 1, zero = 0;
  const float *alpha = d.optional(&one), *beta = d.optional(&zero);
  if (s.p.has_convolution &&
      !added(miopenCreateOpConvForward(d.pointer(plan.object), d.pointer(&op), d.pointer(conv.object),
                                       d.object(Kind::kTensor, filter.desc)),
             [&] { return miopenSetOpArgsConvForward(d.pointer(args.object), op, alpha, beta, filter.data()); }))
    return;
  if (s.p.has_bias && !added(miopenCreateOpBiasForward(plan.object, d.pointer(&op), d.object(Kind::kTensor, bias.desc)),
                             [&] { return miopenSetOpArgsBiasForward(args.object, op, alpha, beta, bias.data()); }))
    return;
  const auto norm_mode = d.enumerator<miopenBatchNormMode_t>({s.p.norm.spatial ? 1 : 0}, {-1, 2});
  if (s.p.has_norm) {
    if (!added(miopenCreateOpBatchNormInference(plan.object, d.pointer(&op), norm_mode, scale.desc), [&] {
          return miopenSetOpArgsBatchNormInference(args.object, d.pointer(op), alpha, beta, scale.data(), shift.data(),
                                                   mean.data(), variance.data(), s.p.norm.epsilon);
        }))
      return;
  } else if (!d.clean()) {
    return;
  }
  if (s.p.has_activation &&
      !added(miopenCreateOpActivationForward(plan.object, &op, mode_of(static_cast<int>(s.p.activation.mode))), [&] {
        return miopenSetOpArgsActivForward(args.object, op, alpha, beta, s.p.activation.alpha, s.p.activation.beta,
                                           s.p.activation.gamma);
      }))
    return;
  miopenFusionOpDescriptor_t got = nullptr;
  if (miopenFusionPlanGetOp(plan.object, count - 1, &got) != kOk || got != last ||
      miopenFusionPlanGetOp(plan.object, count, &got) != kBad)
    w.report("the last operation is another one");
  std::size_t bytes = 1;
  int algorithms = -1;
  miopenConvFwdAlgorithm_t list[2];
  if (miopenFusionPlanGetWorkSpaceSize(w.handle(), plan.object, &bytes, miopenConvolutionFwdAlgoGEMM) != kOk ||
      miopenFusionPlanConvolutionGetAlgo(plan.object, 2, &algorithms, list) != kOk ||
      algorithms != (s.p.has_convolution ? 2 : 0))
    w.report("the plan has no workspace or algorithms");
  if (d.random().one_in(3))
    d.check(miopenFusionPlanConvolutionSetAlgo(
        plan.object, d.random().pick(std::vector{miopenConvolutionFwdAlgoDirect, miopenConvolutionFwdAlgoGEMM})));
  const miopenHandle_t handle = w.handle();
  if (!d.check(miopenCompileFusionPlan(d.object(Kind::kHandle, handle), d.pointer(plan.object)))) return;
  const auto before = y.buffer.copy();
  const auto execute = [&](auto function, auto... workspace) {
    return function(handle, plan.object, d.object(Kind::kTensor, x.desc), d.pointer(x.data()),
                    d.object(Kind::kTensor, y.desc), d.pointer(y.data()), d.pointer(args.object), workspace...);
  };
  const Status status = d.random().one_in(2) ? execute(miopenExecuteFusionPlan)
                                             : execute(miopenExecuteFusionPlan_v2, static_cast<void*>(nullptr), bytes);
  if (!d.check(status) || !d.clean()) return;
  s.p.convolution.x = x.plain;
  s.p.convolution.w = filter.plain;
  s.p.convolution.y = y.plain;
  s.p.bias = bias.plain;
  s.p.norm.scales = s.p.norm.biases = s.p.norm.moments = scale.plain;
  const ref::FusionInputs in{x.data(),     filter.data(), bias.data(),    scale.data(),
                             shift.data(), mean.data(),   variance.data()};
  expect_result(w, ref::arithmetic(s.p), y.plain, y.buffer.data(), ref::evaluate(s.p, in), before, "a fused chain");
}

/// Training and the gradients: statuses only, since the tests of the API have their values.
void run_training(World& w) {
  Draw d(w);
  const std::vector<std::int64_t> lens{d.random().between(1, 3), d.random().between(1, 5), 4, 5};
  const std::vector<std::int64_t> channels{1, lens[1], 1, 1};
  Operand x(w, {miopenFloat, lens, packed_strides(lens), 1}), y(w, x.model), forward(w, x.model);
  for (Operand* t : {&x, &y, &forward}) t->fill(-2, 2);
  const TensorModel parameter{miopenFloat, channels, packed_strides(channels), 1};
  Operand scale(w, parameter), shift(w, parameter), first(w, parameter), second(w, parameter), dscale(w, parameter),
      dbias(w, parameter);
  for (Operand* t : {&scale, &shift, &first, &second}) t->fill(1, 2);
  Plan plan;
  const Arguments args;
  miopenCreateFusionPlan(&plan.object, miopenVerticalFusion, x.desc);
  miopenFusionOpDescriptor_t norm = nullptr, activation = nullptr;
  const auto norm_mode = d.enumerator<miopenBatchNormMode_t>({1}, {-1, 2});
  const bool trains = d.random().one_in(2), running = d.random().one_in(2);
  if (!d.check(trains ? miopenCreateOpBatchNormForward(plan.object, &norm, norm_mode, running)
                      : miopenCreateOpBatchNormBackward(plan.object, &norm, norm_mode)))
    return;
  const auto mode = d.enumerator<miopenActivationMode_t>({1, 2, 3, 7, 8, 9, 10}, {11, -1, INT_MAX});
  const miopenHandle_t handle = w.handle();
  if (!d.check(trains ? miopenCreateOpActivationForward(plan.object, &activation, mode)
                      : miopenCreateOpActivationBackward(plan.object, &activation, mode)) ||
      !d.check(miopenCompileFusionPlan(handle, plan.object)))
    return;
  if (trains) {
    void* const mean = running ? d.pointer(first.data()) : nullptr;
    if (!d.check(miopenSetOpArgsBatchNormForward(args.object, norm, nullptr, nullptr, scale.data(), shift.data(),
                                                 dscale.data(), dbias.data(), mean, second.data(), 0.5, 0.5)) ||
        !d.check(miopenSetOpArgsActivForward(args.object, d.pointer(activation), nullptr, nullptr, 0.5, 1, 0)))
      return;
  } else if (!d.check(miopenSetOpArgsBatchNormBackward(args.object, norm, nullptr, nullptr, x.data(), scale.data(),
                                                       shift.data(), dscale.data(), dbias.data(), first.data(),
                                                       second.data())) ||
             !d.check(miopenSetOpArgsActivBackward(args.object, activation, nullptr, nullptr, forward.data(), nullptr,
                                                   0.5, 1, 0))) {
    return;
  }
  d.check(miopenExecuteFusionPlan(handle, plan.object, x.desc, d.pointer(x.data()), x.desc, d.pointer(y.data()),
                                  args.object));
}

/// y = activation(convolution + z + bias), sometimes without z or bias.
void run_convolution(World& w) {
  Draw d(w);
  Shape s(d.random());
  s.p.has_convolution = s.p.has_activation = true;
  s.p.has_norm = false;
  s.y_lens = {s.lens[0], s.w_lens[0], s.lens[2], s.lens[3]};
  Operand x(w, random_tensor(d.random(), s.type, s.lens)), y(w, random_tensor(d.random(), s.type, s.y_lens));
  Operand filter(w, random_tensor(d.random(), s.type, s.w_lens)), z(w, random_tensor(d.random(), s.type, s.y_lens));
  Operand bias(w, {s.type, s.channels(), packed_strides(s.channels()), 1});
  for (Operand* t : {&x, &filter, &bias}) t->fill(-2, 2);
  z.fill(0, 0);  // the residual of the reference is none
  const Convolution conv;
  const int pad = static_cast<int>(s.p.convolution.pad[0]);
  miopenInitConvolutionDescriptor(conv.object, miopenConvolution, pad, pad, 1, 1, 1, 1);
  miopenSetConvolutionGroupCount(conv.object, static_cast<int>(s.p.convolution.groups));
  const Activation activation;
  miopenSetActivationDescriptor(activation.object, mode_of(static_cast<int>(s.p.activation.mode)), s.p.activation.alpha,
                                s.p.activation.beta, s.p.activation.gamma);
  const bool has_z = d.random().one_in(2);
  const auto before = y.buffer.copy();
  const auto algorithm = d.enumerator<miopenConvFwdAlgorithm_t>({0, 1, 3, 5}, {-1, 6, INT_MAX});
  const Scalar one(s.type, 1);
  const Status got = miopenConvolutionBiasActivationForward(
      d.object<miopenHandle_t>(Kind::kHandle), d.optional(one.get()), d.object(Kind::kTensor, x.desc),
      d.pointer(x.data()), filter.desc, d.pointer(filter.data()), d.pointer(conv.object), algorithm, nullptr, 0,
      d.optional(one.get()), z.desc, has_z ? z.data() : nullptr, bias.desc, s.p.has_bias ? bias.data() : nullptr,
      d.pointer(activation.object), y.desc, d.pointer(y.data()));
  if (!d.check(got) || !d.clean()) return;
  s.p.convolution.x = x.plain;
  s.p.convolution.w = filter.plain;
  s.p.convolution.y = y.plain;
  s.p.bias = bias.plain;
  const ref::FusionInputs in{x.data(), filter.data(), bias.data()};
  expect_result(w, ref::arithmetic(s.p), y.plain, y.buffer.data(), ref::evaluate(s.p, in), before, "y");
}

void create_batchnorm_problem(World& w) {
  Draw d(w);
  miopenProblem_t problem = nullptr;
  const auto mode = d.enumerator<miopenBatchNormMode_t>({0, 1}, {-1, 2});
  const auto direction = d.enumerator<miopenProblemDirection_t>({0, 1, 4}, {2, 3, 5, -1, INT_MAX});
  if (d.check(miopenCreateBatchnormProblem(d.pointer(&problem), mode, d.random().one_in(2), direction)))
    w.created(Kind::kProblem, problem);
}

Registration g_entries[] = {
    {"miopenCompileFusionPlan", run_plan},
    {"miopenConvolutionBiasActivationForward", run_convolution},
    {"miopenCreateBatchnormProblem", create_batchnorm_problem},
    {"miopenCreateFusionPlan", run_plan},
    {"miopenCreateOpActivationBackward", run_training},
    {"miopenCreateOpActivationForward", run_plan},
    {"miopenCreateOpBatchNormBackward", run_training},
    {"miopenCreateOpBatchNormForward", run_training},
    {"miopenCreateOpBatchNormInference", run_plan},
    {"miopenCreateOpBiasForward", run_plan},
    {"miopenCreateOpConvForward", run_plan},
    {"miopenCreateOperatorArgs", run_plan},
    {"miopenDestroyFusionPlan", run_plan},
    {"miopenDestroyOperatorArgs", run_plan},
    {"miopenExecuteFusionPlan", run_plan},
    {"miopenExecuteFusionPlan_v2", run_plan},
    {"miopenFusionPlanConvolutionGetAlgo", run_plan},
    {"miopenFusionPlanConvolutionSetAlgo", run_plan},
    {"miopenFusionPlanGetOp", run_plan},
    {"miopenFusionPlanGetWorkSpaceSize", run_plan},
    {"miopenSetOpArgsActivBackward", run_training},
    {"miopenSetOpArgsActivForward", run_plan},
    {"miopenSetOpArgsBatchNormBackward", run_training},
    {"miopenSetOpArgsBatchNormForward", run_training},
    {"miopenSetOpArgsBatchNormInference", run_plan},
    {"miopenSetOpArgsBiasForward", run_plan},
    {"miopenSetOpArgsConvForward", run_plan},
};

}  // namespace
}  // namespace polymio::fuzz
