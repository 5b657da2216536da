// The API fuzzer's calls of optimizers, concatenation and the gradient of indexing, compared with the reference.
// SPDX-License-Identifier: MIT
#include <memory>

#include "fuzz/api.h"
#include "reference/cat.h"
#include "reference/getitem.h"
#include "reference/optimizer.h"

namespace polymio::fuzz {
namespace {

using Lens = std::vector<std::int64_t>;

constexpr miopenDataType_t kFloats[] = {miopenFloat, miopenHalf, miopenBFloat16, miopenDouble};

Lens random_lens(Random& random, int most) {
  Lens lens(static_cast<std::size_t>(random.between(1, most)));
  for (auto& l : lens) l = random.between(1, 5);
  return lens;
}

miopenDataType_t random_type(Random& random) { return kFloats[random.below(std::size(kFloats))]; }

/// The state of an optimizer in one buffer: four tensors like `part`.
TensorModel state_of(const Operand& part) {
  const ref::Tensor state = ref::adam_state(part.plain, 4);
  return {part.model.type, state.lens, state.strides};
}

template <bool kTransformers, bool kWithOutput>
void adam(World& w) {
  Draw d(w);
  Random& random = d.random();
  const auto type = random_type(random);
  const Lens lens = random_lens(random, 4);
  Operand part(w, random_tensor(random, type, lens)), state(w, state_of(part)), written(w, state_of(part));
  const bool narrow = type == miopenFloat && random.one_in(2);
  Operand g(w, random_tensor(random, narrow ? miopenBFloat16 : type, lens));
  TensorModel misfit = part.model;
  misfit.lens[0] += 3;
  Operand other(w, misfit), one(w, {miopenInt32, {1}, {1}}), found(w, {miopenInt8, {1}, {1}});
  state.fill(0, 3);
  g.fill(-3, 3);
  written.buffer.fill(0xff);
  one.fill(2, 2);
  found.fill(0, random.one_in(4) ? 1 : 0);
  Operand& out = kWithOutput ? written : state;
  const auto old = state.buffer.copy(), before = out.buffer.copy();
  ref::Adam math;
  math.state = state.plain;
  math.gradient = g.plain;
  math.rate = 0.125;
  math.beta1 = 0.5;
  math.beta2 = 0.75;
  math.eps = 0.0625;
  math.weight_decay = random.pick({0.0, 0.25});
  math.scale = 2;
  math.skip = *found.buffer.data() != 0;
  math.maximize = !kTransformers && random.one_in(2);
  const bool adamw = random.one_in(2);
  math.kind = kTransformers ? ref::Optimizer::kTransformersAdamW
              : adamw       ? ref::Optimizer::kAdamW
                            : ref::Optimizer::kAdam;
  math.correct_bias = random.one_in(2);
  unsigned step = static_cast<unsigned>(random.between(1, 9));
  math.step = step;
  float beta1 = 0.5f;
  if (d.wrong()) {
    beta1 = random.pick({1.0f, -1.0f, __builtin_nanf("")});
    d.bad();
  }
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  const auto desc = [&] {
    if (!d.misfit()) return d.object(Kind::kTensor, part.desc);
    d.bad();
    return other.desc;
  };
  const auto at = [&](Operand& o, int k) {
    return static_cast<void*>(static_cast<unsigned char*>(o.data()) +
                              static_cast<std::size_t>(k * state.plain.strides[0]) * ref::size_of(state.plain.type));
  };
  const miopenTensorDescriptor_t p_desc = part.desc, m_desc = desc(), v_desc = desc(),
                                 max_desc = kTransformers ? nullptr : desc(), g_desc = d.object(Kind::kTensor, g.desc);
  void *p = d.pointer(at(state, 0)), *m = d.pointer(at(state, 1)), *v = d.pointer(at(state, 2)),
       *max = kTransformers ? nullptr : d.pointer(at(state, 3));
  const void* const gradient = d.pointer(g.data());
  const float decay = static_cast<float>(math.weight_decay);
  if (kTransformers) math.state.lens[0] = 3;  // has no maxima
  Status got;
  if constexpr (kTransformers && kWithOutput)
    got = miopenTransformersAdamWWithOutput(handle, p_desc, p, p_desc, at(out, 0), nullptr, nullptr, g_desc, gradient,
                                            m_desc, m, m_desc, at(out, 1), v_desc, v, v_desc, at(out, 2), nullptr,
                                            nullptr, nullptr, nullptr, step, 0.125f, beta1, 0.75f, decay, 0.0625f, -1,
                                            math.correct_bias, one.desc, one.data(), found.desc, found.data());
  else if constexpr (kTransformers)
    got = miopenTransformersAdamW(handle, p_desc, p, g_desc, gradient, m_desc, m, v_desc, v, nullptr, nullptr, step,
                                  0.125f, beta1, 0.75f, decay, 0.0625f, math.correct_bias, one.desc, one.data(),
                                  found.desc, found.data());
  else if constexpr (kWithOutput)
    got =
        miopenFusedAdamWithOutput(handle, p_desc, p, p_desc, at(out, 0), nullptr, nullptr, g_desc, gradient, m_desc, m,
                                  m_desc, at(out, 1), v_desc, v, v_desc, at(out, 2), max_desc, max, max_desc,
                                  at(out, 3), nullptr, nullptr, nullptr, nullptr, step, 0.125f, beta1, 0.75f, decay,
                                  0.0625f, true, math.maximize, adamw, one.desc, one.data(), found.desc, found.data());
  else
    got = miopenFusedAdam(handle, p_desc, p, g_desc, gradient, m_desc, m, v_desc, v, max_desc, max, nullptr, nullptr,
                          step, 0.125f, beta1, 0.75f, decay, 0.0625f, true, math.maximize, adamw, one.desc, one.data(),
                          found.desc, found.data());
  if (!d.check(got) || !d.clean()) return;
  const ref::Result want = ref::evaluate(math, old.data(), g.data());
  expect_result(w, ref::arithmetic(math), math.state, out.buffer.data(), want, before, "state");
}

void cat(World& w) {
  Draw d(w);
  Random& random = d.random();
  const auto type = random_type(random);
  Lens lens = random_lens(random, 5);
  const std::size_t dim = random.below(lens.size());
  std::vector<std::unique_ptr<Operand>> inputs;
  std::vector<miopenTensorDescriptor_t> descs;
  std::vector<const void*> buffers;
  std::vector<ref::Tensor> plain;
  std::int64_t size = 0;
  for (std::int64_t i = random.between(1, 6); i > 0; --i) {
    size += lens[dim] = random.between(1, 4);
    inputs.push_back(std::make_unique<Operand>(w, random_tensor(random, type, lens)));
    Operand& x = *inputs.back();
    x.fill(-3, 3);
    plain.push_back(x.plain);
  }
  lens[dim] = size;
  if (d.misfit()) {
    ++lens[dim];
    d.bad();
  }
  Operand y(w, random_tensor(random, type, lens));
  y.buffer.fill(0xff);
  const auto before = y.buffer.copy();
  for (const auto& x : inputs) {  // after y, which could get the address of a destroyed descriptor
    descs.push_back(d.object(Kind::kTensor, x->desc));
    buffers.push_back(d.pointer(x->data()));
  }
  const auto rank = static_cast<std::int32_t>(lens.size());
  auto number = static_cast<std::int32_t>(dim) - (random.one_in(2) ? rank : 0);
  if (d.wrong()) {
    number = random.pick({rank, -rank - 1, INT_MAX, INT_MIN});
    d.bad();
  }
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  const auto y_desc = d.object(Kind::kTensor, y.desc);
  void* const to = d.pointer(y.data());
  if (!d.check(miopenCatForward(handle, static_cast<std::int32_t>(descs.size()), descs.data(), buffers.data(), y_desc,
                                to, number)) ||
      !d.clean())
    return;
  ref::Arithmetic exact;
  exact.output = static_cast<ref::Type>(type);
  exact.accumulate = ref::Type::kInt64;
  expect_result(w, exact, y.plain, y.buffer.data(), ref::cat(plain, buffers, dim), before, "y");
}

/// An indexing of up to two dimensions of dx.
struct Indexing {
  explicit Indexing(World& w)
      : type(random_type(w.random)),
        dx(w, random_tensor(w.random, type, random_lens(w.random, 3))),
        index_lens(random_lens(w.random, 2)),
        dims(w.random.below(std::min<std::size_t>(dx.plain.lens.size(), 2) + 1)) {
    math.dx = dx.plain;
    const auto first =
        static_cast<std::int32_t>(w.random.below(dx.plain.lens.size() - std::max<std::size_t>(dims.size(), 1) + 1));
    for (std::size_t j = 0; j < dims.size(); ++j) {
      dims[j] = first + static_cast<std::int32_t>(j);
      math.dims.push_back(dims[j]);
      indices.push_back(std::make_unique<Operand>(w, random_tensor(w.random, miopenInt32, index_lens)));
      const auto size = static_cast<int>(dx.plain.lens[static_cast<std::size_t>(dims[j])]);
      indices.back()->fill(-size - 1, size);
      math.indices.push_back(indices.back()->plain);
      descs.push_back(indices.back()->desc);
      buffers.push_back(indices.back()->data());
    }
    math.dy = dy_plain(w);
  }
  ref::Tensor dy_plain(World& w) {
    dy = std::make_unique<Operand>(w, random_tensor(w.random, type, math.selected()));
    return dy->plain;
  }
  miopenDataType_t type;
  Operand dx;
  Lens index_lens;
  std::vector<std::int32_t> dims;
  std::vector<std::unique_ptr<Operand>> indices;
  std::unique_ptr<Operand> dy;
  std::vector<miopenTensorDescriptor_t> descs;
  std::vector<const void*> buffers;
  ref::Getitem math;
};

void getitem_workspace(World& w) {
  Draw d(w);
  Indexing x(w);
  std::size_t size = 1;
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  std::size_t* const to = d.pointer(&size);
  for (auto& desc : x.descs) desc = d.object(Kind::kTensor, desc);
  const auto count = static_cast<std::uint32_t>(x.descs.size());
  if (!d.check(miopenGetGetitemWorkspaceSize(handle, count, x.descs.data(), to)) || !d.clean()) return;
  if ((size == 0) != x.descs.empty()) w.report("workspace of " + std::to_string(size) + " bytes");
}

void getitem_backward(World& w) {
  Draw d(w);
  Indexing x(w);
  x.dx.fill(-3, 3);
  x.dy->fill(-3, 3);
  const auto before = x.dx.buffer.copy();
  std::size_t bytes = 0;
  const auto count = static_cast<std::uint32_t>(x.descs.size());
  if (miopenGetGetitemWorkspaceSize(w.handle(), count, x.descs.data(), &bytes) != kOk) w.report("no workspace size");
  if (bytes > 0 && d.wrong()) {
    --bytes;
    d.bad();
  }
  Buffer workspace(w, bytes, 1);
  Operand error(w, {miopenInt32, {std::max<std::int64_t>(count, 1)}, {1}});
  error.fill(0, 0);
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  for (auto& desc : x.descs) desc = d.object(Kind::kTensor, desc);
  for (auto& data : x.buffers) data = d.pointer(data);
  const auto dx_desc = d.object(Kind::kTensor, x.dx.desc), dy_desc = d.object(Kind::kTensor, x.dy->desc);
  void *dx = d.pointer(x.dx.data()), *dy = d.pointer(x.dy->data());
  if (!d.check(miopenGetitemBackward(handle, workspace.data(), bytes, dy_desc, dy, count, x.descs.data(),
                                     x.buffers.data(), dx_desc, dx, count ? error.desc : nullptr,
                                     count ? error.data() : nullptr, count, x.dims.data(), 0, nullptr, 0)) ||
      !d.clean())
    return;
  const auto want = ref::getitem_backward(x.math, dy, x.buffers, before.data());
  expect_result(w, ref::arithmetic(x.math, want), x.dx.plain, x.dx.buffer.data(), want.dx, before, "dx");
  for (std::size_t j = 0; j < count; ++j)
    if ((ref::load(ref::Type::kInt32, error.data(), static_cast<std::int64_t>(j)) == -1) != want.is_outside[j])
      w.report("error of index tensor " + std::to_string(j));
}

Registration g_entries[] = {
    {"miopenFusedAdam", adam<false, false>},
    {"miopenFusedAdamWithOutput", adam<false, true>},
    {"miopenTransformersAdamW", adam<true, false>},
    {"miopenTransformersAdamWWithOutput", adam<true, true>},
    {"miopenCatForward", cat},
    {"miopenGetGetitemWorkspaceSize", getitem_workspace},
    {"miopenGetitemBackward", getitem_backward},
};

}  // namespace
}  // namespace polymio::fuzz
