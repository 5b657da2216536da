// The API fuzzer's calls of the parametric ReLU, rotary position embeddings and losses, compared with the reference.
// SPDX-License-Identifier: MIT
#include "fuzz/api.h"
#include "reference/loss.h"
#include "reference/prelu.h"
#include "reference/rope.h"

namespace polymio::fuzz {
namespace {

using Lens = std::vector<std::int64_t>;

miopenDataType_t random_type(Random& random) {
  return static_cast<miopenDataType_t>(random.pick({miopenFloat, miopenHalf, miopenBFloat16, miopenDouble}));
}
Lens random_lens(Random& random, int least_rank) {
  Lens lens(static_cast<std::size_t>(random.between(least_rank, 4)));
  for (auto& l : lens) l = random.between(1, 5);
  return lens;
}
TensorModel dense(miopenDataType_t type, const Lens& lens) { return {type, lens, packed_strides(lens)}; }

/// A tensor of a call with its drawn arguments.
struct Argument {
  Argument(Draw& d, Operand& o) : desc(d.object(Kind::kTensor, o.desc)), data(d.pointer(o.data())) {}
  miopenTensorDescriptor_t desc;
  void* data;
};

void expect(World& w, const ref::Arithmetic& how, Operand& o, const ref::Result& want, const char* name) {
  expect_result(w, how, o.plain, o.buffer.data(), want, std::vector<unsigned char>(o.buffer.size(), 0xff), name);
}

void prelu_workspace(World& w) {
  Draw d(w);
  const auto type = random_type(d.random());
  const Lens lens = random_lens(d.random(), 2);
  Operand x(w, random_tensor(d.random(), type, lens)), weight(w, dense(type, {1}));
  std::size_t bytes = 99;
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  const auto of_x = d.object(Kind::kTensor, x.desc), of_weight = d.object(Kind::kTensor, weight.desc);
  std::size_t* const to = d.pointer(&bytes);
  if (d.check(miopenGetPReLUBackwardWorkspaceSize(handle, of_x, of_weight, to)) && d.clean() && bytes == 99)
    w.report("wrote no size");
}

void prelu(World& w) {
  Draw d(w);
  Random& random = d.random();
  const auto type = random_type(random);
  const Lens lens = random_lens(random, 2);
  Operand x(w, random_tensor(random, type, lens)), dy(w, random_tensor(random, type, lens)),
      dx(w, random_tensor(random, type, lens)), weight(w, dense(type, {random.one_in(2) ? 1 : lens[1]})),
      dw(w, dense(type, weight.model.lens));
  for (Operand* o : {&x, &dy, &weight}) o->fill(-3, 3);
  for (Operand* o : {&dx, &dw}) o->buffer.fill(0xff);
  std::size_t bytes = 0;
  if (miopenGetPReLUBackwardWorkspaceSize(w.handle(), x.desc, weight.desc, &bytes) != kOk) w.report("no size");
  Buffer workspace(w, bytes, 1);
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  const Argument of_x(d, x), of_weight(d, weight), of_dy(d, dy);
  void *const to_dx = d.optional(dx.data()), *const to_dw = d.optional(dw.data());
  const auto of_dx = to_dx ? d.object(Kind::kTensor, dx.desc) : dx.desc;
  const auto of_dw = to_dw ? d.object(Kind::kTensor, dw.desc) : dw.desc;
  if (!d.check(miopenPReLUBackward(handle, workspace.data(), bytes, of_x.desc, of_x.data, of_weight.desc,
                                   of_weight.data, of_dy.desc, of_dy.data, of_dx, to_dx, of_dw, to_dw)) ||
      !d.clean())
    return;
  const ref::Prelu p{x.plain, dy.plain, weight.plain};
  if (to_dx) expect(w, ref::arithmetic(p, false), dx, ref::prelu_input(p, x.data(), weight.data(), dy.data()), "dx");
  if (to_dw) expect(w, ref::arithmetic(p, true), dw, ref::prelu_weight(p, x.data(), dy.data()), "dw");
}

template <bool kBackward>
void rope(World& w) {
  Draw d(w);
  Random& random = d.random();
  const auto type = random_type(random);
  Lens lens = random_lens(random, 1);
  lens.back() *= 2;
  const Lens table(lens.begin() + random.between(0, static_cast<std::int64_t>(lens.size()) - 1), lens.end());
  Operand x(w, random_tensor(random, type, lens)), y(w, random_tensor(random, type, lens)), cos(w, dense(type, table)),
      sin(w, dense(type, table));
  for (Operand* o : {&x, &cos, &sin}) o->fill(-3, 3);
  y.buffer.fill(0xff);
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  const Argument of_x(d, x), of_cos(d, cos), of_sin(d, sin), of_y(d, y);
  const auto call = kBackward ? miopenRoPEBackward : miopenRoPEForward;
  if (!d.check(call(handle, of_x.desc, of_x.data, of_cos.desc, of_cos.data, of_sin.desc, of_sin.data, of_y.desc,
                    of_y.data)) ||
      !d.clean())
    return;
  const ref::Rope p{x.plain, cos.plain, kBackward};
  expect(w, ref::rope_arithmetic(x.plain.type), y, ref::evaluate(p, x.data(), cos.data(), sin.data()), "y");
}

miopenLossReductionMode_t reduction(Draw& d) { return d.enumerator<miopenLossReductionMode_t>({0, 1, 2}, {-1, 3}); }

struct SoftMargin {
  explicit SoftMargin(Draw& d, bool backward)
      : type(random_type(d.random())),
        lens(random_lens(d.random(), 1)),
        how(reduction(d)),
        x(d.world(), random_tensor(d.random(), type, lens)),
        target(d.world(), random_tensor(d.random(), type, lens)),
        out(d.world(),
            how == MIOPEN_LOSS_REDUCTION_NONE || backward ? random_tensor(d.random(), type, lens) : dense(type, {1})) {
    x.fill(-3, 3);
    target.fill(-1, 1);
    out.buffer.fill(0xff);
    math = {x.plain, target.plain, static_cast<ref::LossReduction>(how)};
  }
  miopenDataType_t type;
  Lens lens;
  miopenLossReductionMode_t how;
  Operand x, target, out;
  ref::SoftMargin math;
};

void soft_margin_workspace(World& w) {
  Draw d(w);
  SoftMargin s(d, false);
  std::size_t bytes = 99;
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  const auto of_x = d.object(Kind::kTensor, s.x.desc), of_target = d.object(Kind::kTensor, s.target.desc),
             of_out = d.object(Kind::kTensor, s.out.desc);
  std::size_t* const to = d.pointer(&bytes);
  if (d.check(miopenGetSoftMarginLossForwardWorkspaceSize(handle, of_x, of_target, of_out, s.how, to)) && d.clean() &&
      bytes == 99)
    w.report("wrote no size");
}

void soft_margin(World& w) {
  Draw d(w);
  SoftMargin s(d, false);
  std::size_t bytes = 0;
  if (d.clean() && miopenGetSoftMarginLossForwardWorkspaceSize(w.handle(), s.x.desc, s.target.desc, s.out.desc, s.how,
                                                               &bytes) != kOk)
    w.report("no size");
  Buffer workspace(w, bytes, 1);
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  const Argument of_x(d, s.x), of_target(d, s.target), of_out(d, s.out);
  if (!d.check(miopenSoftMarginLossForward(handle, of_x.desc, of_x.data, of_target.desc, of_target.data, of_out.desc,
                                           of_out.data, s.how, workspace.data(), bytes)) ||
      !d.clean())
    return;
  expect(w, ref::arithmetic(s.math, false), s.out, ref::evaluate(s.math, s.x.data(), s.target.data()), "loss");
}

void soft_margin_backward(World& w) {
  Draw d(w);
  SoftMargin s(d, true);
  Operand dy(w, random_tensor(d.random(), s.type, s.lens));
  dy.fill(-3, 3);
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  const Argument of_x(d, s.x), of_target(d, s.target), of_dy(d, dy), of_dx(d, s.out);
  if (!d.check(miopenSoftMarginLossBackward(handle, of_x.desc, of_x.data, of_target.desc, of_target.data, of_dy.desc,
                                            of_dy.data, of_dx.desc, of_dx.data, s.how)) ||
      !d.clean())
    return;
  expect(w, ref::arithmetic(s.math, true), s.out,
         ref::gradient(s.math, s.x.data(), s.target.data(), dy.plain, dy.data()), "dx");
}

template <bool kRun>
void multi_margin(World& w) {
  Draw d(w);
  Random& random = d.random();
  const auto type = random_type(random);
  const std::int64_t rows = random.between(1, 5), classes = random.between(1, 6);
  const auto how = reduction(d);
  Operand x(w, random_tensor(random, type, {rows, classes})), target(w, dense(miopenInt64, {rows})),
      weight(w, dense(type, {classes})), out(w, dense(type, {how == MIOPEN_LOSS_REDUCTION_NONE ? rows : 1}));
  x.fill(-3, 3);
  weight.fill(0, 3);
  target.fill(-1, static_cast<int>(classes));
  out.buffer.fill(0xff);
  long power = random.between(1, 2);
  if (d.wrong()) {
    power = random.pick({0L, 3L, -1L});
    d.bad();
  }
  std::size_t bytes = 0;
  if (kRun && d.clean() &&
      miopenGetMultiMarginLossForwardWorkspaceSize(w.handle(), x.desc, target.desc, weight.desc, out.desc, power, 1,
                                                   how, &bytes) != kOk)
    w.report("no size");
  Buffer workspace(w, bytes, 1);
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  if constexpr (!kRun) {
    const auto of_x = d.object(Kind::kTensor, x.desc), of_target = d.object(Kind::kTensor, target.desc),
               of_weight = d.object(Kind::kTensor, weight.desc), of_out = d.object(Kind::kTensor, out.desc);
    bytes = 99;
    std::size_t* const to = d.pointer(&bytes);
    if (d.check(miopenGetMultiMarginLossForwardWorkspaceSize(handle, of_x, of_target, of_weight, of_out, power, 1, how,
                                                             to)) &&
        d.clean() && bytes == 99)
      w.report("wrote no size");
  } else {
    const Argument of_x(d, x), of_target(d, target), of_weight(d, weight), of_out(d, out);
    if (!d.check(miopenMultiMarginLossForward(handle, of_x.desc, of_x.data, of_target.desc, of_target.data,
                                              of_weight.desc, of_weight.data, of_out.desc, of_out.data, power, 1, how,
                                              workspace.data(), bytes)) ||
        !d.clean())
      return;
    const ref::MultiMargin p{x.plain, target.plain, weight.plain, static_cast<ref::LossReduction>(how), power, 1};
    expect(w, ref::arithmetic(p), out, ref::evaluate(p, x.data(), target.data(), weight.data()), "loss");
  }
}

Registration g_entries[] = {
    {"miopenGetPReLUBackwardWorkspaceSize", prelu_workspace},
    {"miopenPReLUBackward", prelu},
    {"miopenRoPEForward", rope<false>},
    {"miopenRoPEBackward", rope<true>},
    {"miopenGetSoftMarginLossForwardWorkspaceSize", soft_margin_workspace},
    {"miopenSoftMarginLossForward", soft_margin},
    {"miopenSoftMarginLossBackward", soft_margin_backward},
    {"miopenGetMultiMarginLossForwardWorkspaceSize", multi_margin<false>},
    {"miopenMultiMarginLossForward", multi_margin<true>},
};

}  // namespace
}  // namespace polymio::fuzz
