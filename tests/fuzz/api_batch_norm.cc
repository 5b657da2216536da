// The API fuzzer's calls of batch norms, compared with the reference.
// SPDX-License-Identifier: MIT
#include "fuzz/api.h"
#include "reference/batch_norm.h"

namespace polymio::fuzz {
namespace {

using Lens = std::vector<std::int64_t>;
using Direction = ref::BatchNorm::Direction;

/// The arguments that the functions share; tensors in random layouts, parameters in fp32.
struct Call {
  explicit Call(World& world, Direction direction) : w(world), d(world), p(problem(d.random(), direction)) {
    x.fill(-4, 4);
    dy.fill(-3, 3);
    for (Operand* o : {&scale, &bias, &mean}) o->fill(-2, 2);
    variance.fill(1, 3);
    for (Operand* o : {&out, &next_mean, &next_variance, &saved_mean, &saved_inverse, &dscale, &dbias})
      o->buffer.fill(0xff);
    handle = d.object<miopenHandle_t>(Kind::kHandle);
    mode = d.enumerator<miopenBatchNormMode_t>({p.spatial ? 1 : 0}, {-1, 2});
  }
  static ref::BatchNorm problem(Random& random, Direction direction) {
    ref::BatchNorm n;
    n.direction = direction;
    n.spatial = random.one_in(2);
    n.epsilon = 0.25;
    n.factor = 0.5;
    Lens lens(static_cast<std::size_t>(random.between(2, 5)));
    for (auto& size : lens) size = random.between(1, 5);
    n.x = ref::Tensor(static_cast<ref::Type>(random.pick({0, 1, 5, 6})), lens);
    n.scales = n.biases = n.moments = ref::Tensor(ref::Type::kFloat, parameter_lens(n));
    return n;
  }
  TensorModel strided() { return random_tensor(d.random(), static_cast<miopenDataType_t>(p.x.type), p.x.lens); }
  TensorModel parameter() const { return {miopenFloat, p.scales.lens, packed_strides(p.scales.lens)}; }

  miopenTensorDescriptor_t desc(Operand& o) { return d.object(Kind::kTensor, o.desc); }
  void* data(Operand& o) { return d.pointer(o.data()); }
  void* one_value() { return d.pointer(static_cast<void*>(&one)); }

  ref::BatchNormResults wanted(const void* of_mean, const void* of_variance) {
    p.x = x.plain;
    p.dy = dy.plain;
    p.out = out.plain;
    return evaluate(p, {x.data(), dy.data(), nullptr, scale.data(), bias.data(), of_mean, of_variance});
  }
  void expect(Operand& o, const ref::Result& want, const char* name) {
    expect_result(w, ref::arithmetic(p, o.plain.type), o.plain, o.buffer.data(), want,
                  std::vector<unsigned char>(o.buffer.size(), 0xff), name);
  }

  World& w;
  Draw d;
  ref::BatchNorm p;
  Operand x{w, strided()}, out{w, strided()}, dy{w, strided()};
  Operand scale{w, parameter()}, bias{w, parameter()}, mean{w, parameter()}, variance{w, parameter()};
  Operand next_mean{w, parameter()}, next_variance{w, parameter()}, saved_mean{w, parameter()};
  Operand saved_inverse{w, parameter()}, dscale{w, parameter()}, dbias{w, parameter()};
  miopenHandle_t handle = nullptr;
  miopenBatchNormMode_t mode{};
  float one = 1, zero = 0;
};

/// Calls `function` with the arguments of every form, then those that it has besides: descriptors and statistics.
template <auto kFunction, bool kOneDescriptor, bool kSeparate, class... Last>
void train(World& w, Last... last) {
  Call c(w, Direction::kTraining);
  void *const x = c.data(c.x), *const y = c.data(c.out), *const scale = c.data(c.scale), *const bias = c.data(c.bias);
  void* const alpha = c.one_value();
  const auto of_x = c.desc(c.x), of_y = c.desc(c.out), of_scale = c.desc(c.scale);
  void *const saved_mean = c.d.optional(c.saved_mean.data()), *const saved = c.d.optional(c.saved_inverse.data());
  Status status = kOk;
  if constexpr (kOneDescriptor)
    status = kFunction(c.handle, c.mode, alpha, &c.zero, of_x, x, of_y, y, of_scale, scale, bias, c.p.factor, nullptr,
                       nullptr, c.p.epsilon, saved_mean, saved, last...);
  else if constexpr (kSeparate)
    status = kFunction(c.handle, c.mode, alpha, &c.zero, of_x, x, of_y, y, of_scale, c.bias.desc, c.mean.desc,
                       c.variance.desc, scale, bias, c.p.factor, c.mean.data(), c.variance.data(), c.next_mean.data(),
                       c.next_variance.data(), c.p.epsilon, saved_mean, saved, last...);
  else
    status =
        kFunction(c.handle, c.mode, alpha, &c.zero, of_x, x, of_y, y, of_scale, c.bias.desc, c.mean.desc,
                  c.variance.desc, scale, bias, c.p.factor, nullptr, nullptr, c.p.epsilon, saved_mean, saved, last...);
  if (!c.d.check(status) || !c.d.clean()) return;
  const auto want = c.wanted(kSeparate ? c.mean.data() : nullptr, kSeparate ? c.variance.data() : nullptr);
  c.expect(c.out, want.out, "y");
  if (kSeparate) c.expect(c.next_mean, want.next_mean, "the next mean");
  if (kSeparate) c.expect(c.next_variance, want.next_variance, "the next variance");
  if (saved_mean && saved) c.expect(c.saved_inverse, want.inverse, "the inverse variance");
}

/// `last` begins with the epsilon if there is one; without, the variances are inverse deviations.
template <auto kFunction, bool kOneDescriptor, bool kEpsilon, class... Last>
void infer(World& w, Last... last) {
  Call c(w, Direction::kInference);
  c.p.inverse = !kEpsilon;
  void *const x = c.data(c.x), *const y = c.data(c.out), *const scale = c.data(c.scale), *const bias = c.data(c.bias);
  void* const alpha = c.one_value();
  const auto of_x = c.desc(c.x), of_y = c.desc(c.out), of_scale = c.desc(c.scale);
  Status status = kOk;
  if constexpr (kOneDescriptor)
    status = kFunction(c.handle, c.mode, alpha, &c.zero, of_x, x, of_y, y, of_scale, scale, bias, c.mean.data(),
                       c.variance.data(), last...);
  else
    status = kFunction(c.handle, c.mode, alpha, &c.zero, of_x, x, of_y, y, of_scale, c.bias.desc, c.mean.desc,
                       c.variance.desc, scale, bias, c.mean.data(), c.variance.data(), last...);
  if (!c.d.check(status) || !c.d.clean()) return;
  c.expect(c.out, c.wanted(c.mean.data(), c.variance.data()).out, "y");
}

template <auto kFunction, int kVersion>
void backward(World& w) {
  Call c(w, Direction::kBackward);
  void *const x = c.data(c.x), *const dy = c.data(c.dy), *const dx = c.data(c.out), *const scale = c.data(c.scale);
  void *const dscale = c.d.optional(c.dscale.data()), *const dbias = c.d.optional(c.dbias.data());
  void *const mean = c.d.optional(c.mean.data()), *const inverse = c.d.optional(c.variance.data());
  const void* const alpha = c.one_value();
  const auto of_x = c.desc(c.x), of_dy = c.desc(c.dy), of_dx = c.desc(c.out), of_scale = c.desc(c.scale);
  Status status = kOk;
  if constexpr (kVersion == 1)
    status = kFunction(c.handle, c.mode, alpha, &c.zero, &c.one, &c.zero, of_x, x, of_dy, dy, of_dx, dx, of_scale,
                       scale, dscale, dbias, c.p.epsilon, mean, inverse);
  else if constexpr (kVersion == 2)
    status = kFunction(c.handle, c.mode, alpha, &c.zero, &c.one, &c.zero, of_x, x, of_dy, dy, of_dx, dx, of_scale,
                       c.bias.desc, c.mean.desc, c.variance.desc, scale, dscale, dbias, c.p.epsilon, mean, inverse);
  else
    status = kFunction(c.handle, c.mode, alpha, &c.zero, &c.one, &c.zero, of_x, x, of_dy, dy, of_dx, dx, of_scale,
                       c.bias.desc, c.mean.desc, c.variance.desc, scale, c.bias.data(), dscale, dbias, c.p.epsilon,
                       mean, inverse, nullptr);
  if (!c.d.check(status) || !c.d.clean()) return;
  const bool saved = mean && inverse;
  const auto want = c.wanted(saved ? mean : nullptr, saved ? inverse : nullptr);
  c.expect(c.out, want.out, "dx");
  if (dscale) c.expect(c.dscale, want.dscale, "the gradient of the scale");
  if (dbias) c.expect(c.dbias, want.dbias, "the gradient of the bias");
}

void derive(World& w) {
  Draw d(w);
  Lens lens(static_cast<std::size_t>(d.random().between(4, 5)), 3);
  if (d.wrong()) {
    lens.resize(3);
    d.bad();
  }
  Operand x(w, random_tensor(d.random(), miopenFloat, lens)), derived(w, {miopenFloat, {1}, {1}});
  const auto of_x = d.object(Kind::kTensor, x.desc), to = d.object(Kind::kTensor, derived.desc);
  const auto mode = d.enumerator<miopenBatchNormMode_t>({0, 1}, {-1, 2});
  d.check(miopenDeriveBNTensorDescriptor(to, of_x, mode));
}

constexpr miopenActivationDescriptor_t kNoActivation = nullptr;

Registration g_entries[] = {
    {"miopenDeriveBNTensorDescriptor", derive},
    {"miopenBatchNormalizationForwardTraining",
     [](World& w) { train<miopenBatchNormalizationForwardTraining, true, false>(w); }},
    {"miopenBatchNormalizationForwardTraining_V2",
     [](World& w) { train<miopenBatchNormalizationForwardTraining_V2, false, false>(w); }},
    {"miopenBatchNormalizationForwardTraining_V3",
     [](World& w) { train<miopenBatchNormalizationForwardTraining_V3, false, true>(w); }},
    {"miopenBatchNormForwardTrainingActivation",
     [](World& w) { train<miopenBatchNormForwardTrainingActivation, false, false>(w, kNoActivation); }},
    {"miopenBatchNormForwardTrainingActivation_V2",
     [](World& w) { train<miopenBatchNormForwardTrainingActivation_V2, false, true>(w, kNoActivation); }},
    {"miopenBatchNormalizationForwardInference",
     [](World& w) { infer<miopenBatchNormalizationForwardInference, true, true>(w, 0.25); }},
    {"miopenBatchNormalizationForwardInference_V2",
     [](World& w) { infer<miopenBatchNormalizationForwardInference_V2, false, true>(w, 0.25); }},
    {"miopenBatchNormForwardInferenceActivation",
     [](World& w) { infer<miopenBatchNormForwardInferenceActivation, false, true>(w, 0.25, kNoActivation); }},
    {"miopenBatchNormalizationForwardInferenceInvVariance",
     [](World& w) { infer<miopenBatchNormalizationForwardInferenceInvVariance, false, false>(w); }},
    {"miopenBatchNormForwardInferenceActivationInvVariance",
     [](World& w) { infer<miopenBatchNormForwardInferenceActivationInvVariance, false, false>(w, kNoActivation); }},
    {"miopenBatchNormalizationBackward", backward<miopenBatchNormalizationBackward, 1>},
    {"miopenBatchNormalizationBackward_V2", backward<miopenBatchNormalizationBackward_V2, 2>},
    {"miopenBatchNormBackwardActivation", backward<miopenBatchNormBackwardActivation, 3>},
};

}  // namespace
}  // namespace polymio::fuzz
