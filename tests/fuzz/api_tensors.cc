// The API fuzzer's calls of element-wise operations, biases, activations and gated linear units, on small tensors
// whose results are compared with the reference.
// SPDX-License-Identifier: MIT
#include "fuzz/api.h"
#include "reference/activation.h"
#include "reference/softmax.h"
#include "reference/tensor_ops.h"

namespace polymio::fuzz {
namespace {

using Lens = std::vector<std::int64_t>;

Lens random_lens(Random& random, int least, int most) {
  Lens lens(static_cast<std::size_t>(random.between(least, most)));
  for (auto& l : lens) l = random.between(1, 4);
  return lens;
}

miopenDataType_t type_number(int number) { return static_cast<miopenDataType_t>(number); }

/// The error bound of one operation in float, or in double for wide types.
ref::Arithmetic arithmetic(miopenDataType_t output, miopenDataType_t input, std::int64_t reduction = 1) {
  const auto wide = [](miopenDataType_t t) { return t == miopenDouble || t == miopenInt32 || t == miopenInt64; };
  ref::Arithmetic how;
  how.output = static_cast<ref::Type>(output);
  how.reduction_length = reduction;
  how.accumulate = wide(output) || wide(input) ? ref::Type::kDouble : ref::Type::kFloat;
  return how;
}

double random_factor(Random& random) { return random.pick({1.0, 1.0, 0.0, -1.0, 0.5, 2.0}); }

/// A descriptor that does not match `m`: other sizes, another rank or another type.
TensorModel mismatch(Random& random, TensorModel m) {
  switch (random.below(3)) {
    case 0: m.lens[random.below(m.lens.size())] += 5; break;
    case 1:
      m.lens.push_back(2);  // not 1: activations treat {1} and {1, 1} as equal
      break;
    default: m.type = m.type == miopenHalf ? miopenBFloat16 : miopenHalf;
  }
  m.strides = packed_strides(m.lens);
  return m;
}

/// A tensor's descriptor, or an invalid, unset or mismatched one instead.
miopenTensorDescriptor_t descriptor(Draw& d, const Operand& right, const Operand& other) {
  if (d.misfit()) {
    d.bad();
    return other.desc;
  }
  return d.object(Kind::kTensor, right.desc);
}

/// Poisons contents that must not be read, else fills them.
void prepare_output(Operand& y, double beta) {
  y.buffer.fill(0xff);
  if (beta != 0) y.fill(-3, 3);
}

void op_tensor(World& w) {
  Draw d(w);
  const auto type = type_number(d.random().pick(kTypes));
  const Lens lens = random_lens(d.random(), 1, 5);
  Lens small = lens;
  for (auto& l : small)
    if (d.random().one_in(3)) l = 1;
  Operand a(w, random_tensor(d.random(), type, lens)), b(w, random_tensor(d.random(), type, small));
  Operand other(w, mismatch(d.random(), a.model)), own(w, random_tensor(d.random(), type, lens));
  const bool in_place = d.random().one_in(5);
  Operand& c = in_place ? a : own;
  const double alpha1 = random_factor(d.random()), alpha2 = random_factor(d.random());
  const double beta = d.random().one_in(2) ? 0 : random_factor(d.random());
  prepare_output(c, beta);
  a.fill(-3, 3);
  b.fill(-3, 3);
  const auto op = d.enumerator<miopenTensorOp_t>(up_to(3), {4, -1, INT_MAX, INT_MIN});
  const Scalar s1(type, alpha1), s2(type, alpha2), s3(type, beta);
  const auto before = c.buffer.copy();
  ref::OpTensor math{static_cast<ref::TensorOp>(op), alpha1, alpha2, beta, a.plain, b.plain, c.plain};
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  const void *p1 = d.pointer(s1.get()), *p2 = d.pointer(s2.get()), *p3 = d.pointer(s3.get());
  const auto a_desc = descriptor(d, a, other), b_desc = descriptor(d, b, other), c_desc = descriptor(d, c, other);
  void *pa = d.pointer(a.data()), *pb = d.pointer(b.data()), *pc = d.pointer(c.data());
  const auto want = d.clean() ? ref::op_tensor(math, a.data(), b.data(), before.data()) : ref::Result{};
  if (!d.check(miopenOpTensor(handle, op, p1, a_desc, pa, p2, b_desc, pb, p3, c_desc, pc)) || !d.clean()) return;
  expect_result(w, arithmetic(type, type), c.plain, c.buffer.data(), want, before, "result");
}

/// Set and scale: one tensor and one value of its type.
template <bool kScale>
void one_tensor(World& w) {
  Draw d(w);
  const auto type = type_number(d.random().pick(kTypes));
  Operand y(w, random_tensor(d.random(), type, random_lens(d.random(), 1, 8)));
  prepare_output(y, kScale ? 1 : 0);
  alignas(8) unsigned char value[8];
  const int number = static_cast<int>(d.random().between(-2, 2));
  ref::store(y.plain.type, value, 0, number);
  const auto before = y.buffer.copy();
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  const auto desc = d.object(Kind::kTensor, y.desc);
  void* const data = d.pointer(y.data());
  const void* const alpha = d.pointer(static_cast<const void*>(value));
  const Status got = kScale ? miopenScaleTensor(handle, desc, data, alpha) : miopenSetTensor(handle, desc, data, alpha);
  if (!d.check(got) || !d.clean()) return;
  const auto want = kScale ? ref::scale_tensor(y.plain, number, before.data()) : ref::set_tensor(y.plain, number);
  expect_result(w, arithmetic(type, type), y.plain, y.buffer.data(), want, before, "result");
}

void transform(World& w) {
  Draw d(w);
  const auto from = type_number(d.random().pick(kTypes)), to = type_number(d.random().pick(kTypes));
  const Lens lens = random_lens(d.random(), 1, 8);
  Operand x(w, random_tensor(d.random(), from, lens)), y(w, random_tensor(d.random(), to, lens));
  TensorModel sizes = y.model;
  sizes.lens[0] += 3;
  Operand other(w, sizes);
  const double alpha = random_factor(d.random()), beta = d.random().one_in(2) ? 0 : random_factor(d.random());
  x.fill(-3, 3);
  prepare_output(y, beta);
  const Scalar s1(to, alpha), s2(to, beta);
  const auto before = y.buffer.copy();
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  const void *p1 = d.pointer(s1.get()), *p2 = d.pointer(s2.get());
  const auto x_desc = descriptor(d, x, other), y_desc = d.object(Kind::kTensor, y.desc);
  void *px = d.pointer(x.data()), *py = d.pointer(y.data());
  if (!d.check(miopenTransformTensor(handle, p1, x_desc, px, p2, y_desc, py)) || !d.clean()) return;
  const auto want = ref::transform_tensor(alpha, x.plain, x.data(), beta, y.plain, before.data());
  expect_result(w, arithmetic(to, from), y.plain, y.buffer.data(), want, before, "result");
}

template <bool kForward>
void bias(World& w) {
  Draw d(w);
  const auto type = type_number(d.random().pick(kTypes));
  const Lens lens = random_lens(d.random(), 2, 5);
  Lens channels(lens.size(), 1);
  channels[1] = lens[1];
  Operand y(w, random_tensor(d.random(), type, lens)), b(w, random_tensor(d.random(), type, channels));
  Operand other(w, mismatch(d.random(), b.model));
  const double alpha = random_factor(d.random()), beta = d.random().one_in(2) ? 0 : random_factor(d.random());
  Operand& out = kForward ? y : b;
  y.fill(-3, 3);
  b.fill(-3, 3);
  if (!kForward) prepare_output(b, beta);
  const Scalar s1(type, alpha), s2(type, beta);
  const auto before = out.buffer.copy();
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  const void *p1 = d.pointer(s1.get()), *p2 = d.pointer(s2.get());
  const auto b_desc = descriptor(d, b, other), y_desc = d.object(Kind::kTensor, y.desc);
  void *pb = d.pointer(b.data()), *py = d.pointer(y.data());
  const Status got = kForward ? miopenConvolutionForwardBias(handle, p1, b_desc, pb, p2, y_desc, py)
                              : miopenConvolutionBackwardBias(handle, p1, y_desc, py, p2, b_desc, pb);
  if (!d.check(got) || !d.clean()) return;
  // alpha * (y + b) + beta * y, in terms of the reference's alpha * b + beta * y.
  const auto want = kForward ? ref::bias_forward(alpha, b.plain, b.data(), alpha + beta, y.plain, before.data())
                             : ref::bias_backward(alpha, y.plain, y.data(), beta, b.plain, before.data());
  const auto how = arithmetic(type, type, kForward ? 2 : y.plain.count());
  expect_result(w, how, out.plain, out.buffer.data(), want, before, "result");
}

// Activations.

constexpr double kAlpha = 0.75, kBeta = 1.25, kGamma = 1.5;
const std::vector<int> kRealTypes{miopenHalf, miopenFloat, miopenBFloat16, miopenDouble};

/// An activation descriptor for one call.
struct Function {
  explicit Function(World& w) : world(w), mode(static_cast<int>(w.random.below(11))) {
    miopenCreateActivationDescriptor(&desc);
    w.use(Kind::kActivation, desc);
    miopenSetActivationDescriptor(desc, static_cast<miopenActivationMode_t>(mode), kAlpha, kBeta, kGamma);
  }
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;
  ~Function() {
    miopenDestroyActivationDescriptor(desc);
    world.destroyed(Kind::kActivation, desc);
  }
  ref::Activation math(bool backward, double scale, double keep) const {
    ref::Activation a;
    a.mode = static_cast<ref::ActivationMode>(mode);
    a.backward = backward;
    a.alpha = kAlpha;
    a.beta = kBeta;
    a.gamma = kGamma;
    a.scale = scale;
    a.keep = keep;
    return a;
  }
  World& world;
  int mode;
  miopenActivationDescriptor_t desc = nullptr;
};

void activation_forward(World& w) {
  Draw d(w);
  const Function f(w);
  const auto type = type_number(d.random().pick(kRealTypes));
  const Lens lens = random_lens(d.random(), 1, 5);
  Operand x(w, random_tensor(d.random(), type, lens)), own(w, random_tensor(d.random(), type, lens));
  Operand other(w, mismatch(d.random(), x.model)), integers(w, {miopenInt8, lens, packed_strides(lens), 1});
  const bool in_place = d.random().one_in(4);
  Operand& y = in_place ? x : own;
  const double alpha = random_factor(d.random()), beta = d.random().one_in(2) ? 0 : random_factor(d.random());
  prepare_output(y, beta);
  x.fill(-4, 4);
  const Scalar s1(type, alpha), s2(type, beta);
  const auto before = y.buffer.copy(), input = x.buffer.copy();
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  const auto desc = d.object(Kind::kActivation, f.desc);
  const void *p1 = d.pointer(s1.get()), *p2 = d.pointer(s2.get());
  auto x_desc = d.object(Kind::kTensor, x.desc);
  if (d.misfit()) {
    x_desc = integers.desc;
    d.bad();
  }
  const auto y_desc = descriptor(d, y, other);
  void *px = d.pointer(x.data()), *py = d.pointer(y.data());
  if (!d.check(miopenActivationForward(handle, desc, p1, x_desc, px, p2, y_desc, py)) || !d.clean()) return;
  ref::Activation math = f.math(false, alpha, beta);
  math.x = x.plain;
  math.out = y.plain;
  const auto want = ref::evaluate(math, input.data(), nullptr, before.data());
  expect_result(w, ref::arithmetic(math), y.plain, y.buffer.data(), want, before, "mode " + std::to_string(f.mode));
}

void activation_backward(World& w) {
  Draw d(w);
  const Function f(w);
  const auto type = type_number(d.random().pick(kRealTypes));
  const Lens lens = random_lens(d.random(), 1, 5);
  const auto random = [&] { return random_tensor(d.random(), type, lens); };
  Operand x(w, random()), y(w, random()), dy(w, random()), dx(w, random());
  Operand other(w, mismatch(d.random(), x.model));
  const double alpha = random_factor(d.random()), beta = d.random().one_in(2) ? 0 : random_factor(d.random());
  x.fill(-4, 4);
  dy.fill(-3, 3);
  y.fill(-3, 3);
  prepare_output(dx, beta);
  const Scalar s1(type, alpha), s2(type, beta);
  const auto before = dx.buffer.copy();
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  const auto desc = d.object(Kind::kActivation, f.desc);
  const void *p1 = d.pointer(s1.get()), *p2 = d.pointer(s2.get());
  const auto y_desc = descriptor(d, y, other), dy_desc = descriptor(d, dy, other);
  const auto x_desc = descriptor(d, x, other), dx_desc = descriptor(d, dx, other);
  void *px = d.pointer(x.data()), *py = d.pointer(y.data()), *pdy = d.pointer(dy.data()), *pdx = d.pointer(dx.data());
  if (!d.check(miopenActivationBackward(handle, desc, p1, y_desc, py, dy_desc, pdy, x_desc, px, p2, dx_desc, pdx)) ||
      !d.clean())
    return;
  ref::Activation math = f.math(true, alpha, beta);
  math.x = x.plain;
  math.dy = dy.plain;
  math.out = dx.plain;
  const auto want = ref::evaluate(math, x.data(), dy.data(), before.data());
  expect_result(w, ref::arithmetic(math), dx.plain, dx.buffer.data(), want, before, "mode " + std::to_string(f.mode));
}

// Softmax.

/// The numbers of a call. The functions without them, kFirst, are accurate, over channels.
struct SoftmaxKind {
  SoftmaxKind(Draw& d, bool first) {
    if (first) return;
    algorithm = d.enumerator<miopenSoftmaxAlgorithm_t>(up_to(2), {3, -1, INT_MAX});
    mode = d.enumerator<miopenSoftmaxMode_t>(up_to(1), {2, -1, INT_MAX});
  }
  ref::Softmax math(bool backward, double scale, double keep) const {
    ref::Softmax s;
    s.backward = backward;
    s.log = algorithm == MIOPEN_SOFTMAX_LOG;
    s.instance = mode == MIOPEN_SOFTMAX_MODE_INSTANCE;
    s.scale = scale;
    s.keep = keep;
    return s;
  }
  miopenSoftmaxAlgorithm_t algorithm = MIOPEN_SOFTMAX_ACCURATE;
  miopenSoftmaxMode_t mode = MIOPEN_SOFTMAX_MODE_CHANNEL;
};

template <bool kFirst>
void softmax_forward(World& w) {
  Draw d(w);
  const SoftmaxKind kind(d, kFirst);
  const auto type = type_number(d.random().pick(kRealTypes));
  const Lens lens = random_lens(d.random(), 2, 5);
  Operand x(w, random_tensor(d.random(), type, lens)), own(w, random_tensor(d.random(), type, lens));
  Operand other(w, mismatch(d.random(), x.model));
  Operand& y = d.random().one_in(4) ? x : own;
  const double alpha = random_factor(d.random()), beta = d.random().one_in(2) ? 0 : random_factor(d.random());
  prepare_output(y, beta);
  x.fill(-4, 4);
  const Scalar s1(type, alpha), s2(type, beta);
  const auto before = y.buffer.copy(), input = x.buffer.copy();
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  const void *p1 = d.pointer(s1.get()), *p2 = d.pointer(s2.get());
  const auto x_desc = d.object(Kind::kTensor, x.desc), y_desc = descriptor(d, y, other);
  void *px = d.pointer(x.data()), *py = d.pointer(y.data());
  const Status got = kFirst
                         ? miopenSoftmaxForward(handle, p1, x_desc, px, p2, y_desc, py)
                         : miopenSoftmaxForward_V2(handle, p1, x_desc, px, p2, y_desc, py, kind.algorithm, kind.mode);
  if (!d.check(got) || !d.clean()) return;
  ref::Softmax math = kind.math(false, alpha, beta);
  math.in = x.plain;
  math.out = y.plain;
  const auto want = ref::evaluate(math, input.data(), nullptr, before.data());
  expect_result(w, ref::arithmetic(math), y.plain, y.buffer.data(), want, before, "softmax");
}

template <bool kFirst>
void softmax_backward(World& w) {
  Draw d(w);
  const SoftmaxKind kind(d, kFirst);
  const auto type = type_number(d.random().pick(kRealTypes));
  const Lens lens = random_lens(d.random(), 2, 5);
  const auto random = [&] { return random_tensor(d.random(), type, lens); };
  Operand y(w, random()), dy(w, random()), dx(w, random());
  Operand other(w, mismatch(d.random(), y.model));
  const double alpha = random_factor(d.random()), beta = d.random().one_in(2) ? 0 : random_factor(d.random());
  y.fill(-1, 1);
  dy.fill(-3, 3);
  prepare_output(dx, beta);
  const Scalar s1(type, alpha), s2(type, beta);
  const auto before = dx.buffer.copy();
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  const void *p1 = d.pointer(s1.get()), *p2 = d.pointer(s2.get());
  const auto y_desc = d.object(Kind::kTensor, y.desc), dy_desc = descriptor(d, dy, other);
  const auto dx_desc = descriptor(d, dx, other);
  void *py = d.pointer(y.data()), *pdy = d.pointer(dy.data()), *pdx = d.pointer(dx.data());
  const Status got = kFirst ? miopenSoftmaxBackward(handle, p1, y_desc, py, dy_desc, pdy, p2, dx_desc, pdx)
                            : miopenSoftmaxBackward_V2(handle, p1, y_desc, py, dy_desc, pdy, p2, dx_desc, pdx,
                                                       kind.algorithm, kind.mode);
  if (!d.check(got) || !d.clean()) return;
  ref::Softmax math = kind.math(true, alpha, beta);
  math.in = y.plain;
  math.dy = dy.plain;
  math.out = dx.plain;
  const auto want = ref::evaluate(math, y.data(), dy.data(), before.data());
  expect_result(w, ref::arithmetic(math), dx.plain, dx.buffer.data(), want, before, "softmax");
}

/// Sizes of a gated linear unit: the input's are twice the output's in one dimension.
struct Gate {
  explicit Gate(Draw& d) : type(type_number(d.random().pick(kRealTypes))), out(random_lens(d.random(), 1, 5)), in(out) {
    dim = d.random().below(in.size());
    in[dim] *= 2;
    number = static_cast<std::uint32_t>(dim);
    if (d.wrong()) {
      number = d.random().pick({static_cast<std::uint32_t>(in.size()), 8u, 0x80000000u, ~0u});
      d.bad();
    }
  }
  ref::Arithmetic how() const {
    ref::Arithmetic a;
    a.output = static_cast<ref::Type>(type);
    a.accumulate = type == miopenDouble ? ref::Type::kDouble : ref::Type::kFloat;
    a.reduction_length = 64;  // includes the error of exp
    return a;
  }
  miopenDataType_t type;
  Lens out, in;
  std::size_t dim;
  std::uint32_t number;
};

void glu_forward(World& w) {
  Draw d(w);
  const Gate g(d);
  Operand x(w, random_tensor(d.random(), g.type, g.in)), y(w, random_tensor(d.random(), g.type, g.out));
  Operand other(w, mismatch(d.random(), y.model));
  x.fill(-3, 3);
  y.buffer.fill(0xff);
  const auto before = y.buffer.copy();
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  const auto x_desc = d.object(Kind::kTensor, x.desc), y_desc = descriptor(d, y, other);
  void *px = d.pointer(x.data()), *py = d.pointer(y.data());
  if (!d.check(miopenGLUForward(handle, x_desc, px, y_desc, py, g.number)) || !d.clean()) return;
  expect_result(w, g.how(), y.plain, y.buffer.data(), ref::glu(x.plain, x.data(), g.dim), before, "result");
}

void glu_backward(World& w) {
  Draw d(w);
  const Gate g(d);
  Operand x(w, random_tensor(d.random(), g.type, g.in)), dx(w, random_tensor(d.random(), g.type, g.in));
  Operand dy(w, random_tensor(d.random(), g.type, g.out)), other(w, mismatch(d.random(), dy.model));
  x.fill(-3, 3);
  dy.fill(-3, 3);
  dx.buffer.fill(0xff);
  const auto before = dx.buffer.copy();
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  const auto x_desc = d.object(Kind::kTensor, x.desc), dy_desc = descriptor(d, dy, other);
  const auto dx_desc = d.object(Kind::kTensor, dx.desc);
  void *px = d.pointer(x.data()), *pdy = d.pointer(dy.data()), *pdx = d.pointer(dx.data());
  if (!d.check(miopenGLUBackward(handle, x_desc, px, dy_desc, pdy, dx_desc, pdx, g.number)) || !d.clean()) return;
  const auto want = ref::glu_backward(x.plain, x.data(), dy.plain, dy.data(), g.dim);
  expect_result(w, g.how(), dx.plain, dx.buffer.data(), want, before, "result");
}

Registration g_entries[] = {
    {"miopenOpTensor", op_tensor},
    {"miopenSetTensor", one_tensor<false>},
    {"miopenScaleTensor", one_tensor<true>},
    {"miopenTransformTensor", transform},
    {"miopenConvolutionForwardBias", bias<true>},
    {"miopenConvolutionBackwardBias", bias<false>},
    {"miopenActivationForward", activation_forward},
    {"miopenActivationBackward", activation_backward},
    {"miopenSoftmaxForward", softmax_forward<true>},
    {"miopenSoftmaxForward_V2", softmax_forward<false>},
    {"miopenSoftmaxBackward", softmax_backward<true>},
    {"miopenSoftmaxBackward_V2", softmax_backward<false>},
    {"miopenGLUForward", glu_forward},
    {"miopenGLUBackward", glu_backward},
};

}  // namespace
}  // namespace polymio::fuzz
