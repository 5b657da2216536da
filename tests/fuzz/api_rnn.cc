// The API fuzzer's recurrent networks: descriptors, the parameter buffer, and training steps against the reference.
// SPDX-License-Identifier: MIT
#include "reference/rnn.h"

#include <numeric>

#include "fuzz/api.h"

namespace polymio::fuzz {
namespace {

using Descriptor = Owned<miopenRNNDescriptor_t, miopenCreateRNNDescriptor, miopenDestroyRNNDescriptor>;
using Dropout = Owned<miopenDropoutDescriptor_t, miopenCreateDropoutDescriptor, miopenDestroyDropoutDescriptor>;
using Sequence = Owned<miopenSeqTensorDescriptor_t, miopenCreateSeqTensorDescriptor, miopenDestroySeqTensorDescriptor>;

struct Network {
  ref::Rnn net;
  miopenDataType_t type = miopenFloat;

  explicit Network(Draw& d) {
    net.cell = static_cast<ref::Rnn::Cell>(d.random().between(0, 3));
    net.bidirectional = d.random().one_in(2);
    net.has_bias = d.random().one_in(2);
    net.skips_input = d.random().one_in(4);
    net.layers = d.random().between(1, 3);
    net.hidden = d.random().between(1, 6);
    net.input = net.skips_input ? net.hidden : d.random().between(1, 6);
    type = static_cast<miopenDataType_t>(d.random().pick(std::vector<int>{0, 1, 5}));
  }
  TensorModel tensor(const std::vector<std::int64_t>& lens) const { return {type, lens, packed_strides(lens)}; }
  Status set(Draw& d, miopenRNNDescriptor_t desc, miopenRNNMode_t mode) const {
    return miopenSetRNNDescriptor(desc, static_cast<int>(net.hidden), static_cast<int>(net.layers),
                                  net.skips_input ? miopenRNNskip : miopenRNNlinear,
                                  d.enumerator<miopenRNNDirectionMode_t>({net.bidirectional ? 1 : 0}, {2, -1, INT_MAX}),
                                  mode, net.has_bias ? miopenRNNwithBias : miopenRNNNoBias, miopenRNNdefault, type);
  }
  Status set(Draw& d, miopenRNNDescriptor_t desc) const {
    return set(d, desc, d.enumerator<miopenRNNMode_t>({static_cast<int>(net.cell)}, {4, -1, INT_MIN}));
  }
};

void keep_descriptor(World& w) {
  Draw d(w);
  const Descriptor rnn;
  const Dropout dropout;
  const Network n(d);
  const bool with_dropout = d.random().one_in(2);
  const auto algorithm = d.enumerator<miopenRNNAlgo_t>({0, 1, 2}, {3, -1});
  const auto input = n.net.skips_input ? miopenRNNskip : miopenRNNlinear;
  const auto mode = static_cast<miopenRNNMode_t>(n.net.cell);
  const int hidden = static_cast<int>(n.net.hidden), layers = static_cast<int>(n.net.layers);
  const Status set =
      with_dropout ? miopenSetRNNDescriptor_V2(d.pointer(rnn.desc), hidden, layers, d.pointer(dropout.desc), input,
                                               miopenRNNunidirection, mode, miopenRNNwithBias, algorithm, n.type)
                   : miopenSetRNNDescriptor(d.pointer(rnn.desc), hidden, layers, input, miopenRNNunidirection, mode,
                                            miopenRNNwithBias, algorithm, n.type);
  if (!d.check(set)) return;
  const auto padding = d.enumerator<miopenRNNPaddingMode_t>({0, 1}, {2, -1});
  if (!d.check(miopenSetRNNPaddingMode(rnn.desc, padding))) return;
  int got_hidden = 0, got_layers = 0;
  miopenDropoutDescriptor_t got_dropout = nullptr;
  miopenRNNMode_t got_mode = miopenRNNRELU;
  miopenDataType_t got_type = miopenInt8;
  miopenRNNPaddingMode_t got_padding = miopenRNNIONotPadded;
  miopenRNNAlgo_t got_algorithm = miopenRNNdefault;
  if (!d.check(miopenGetRNNDescriptor_V2(d.pointer(rnn.desc), &got_hidden, nullptr, &got_dropout, nullptr, nullptr,
                                         nullptr, nullptr, nullptr, &got_type)) ||
      !d.check(miopenGetRNNDescriptor(rnn.desc, &got_mode, &got_algorithm, nullptr, nullptr, nullptr, nullptr,
                                      &got_layers)) ||
      !d.check(miopenGetRNNPaddingMode(rnn.desc, d.pointer(&got_padding))))
    return;
  if (got_hidden != hidden || got_layers != layers || got_dropout != (with_dropout ? dropout.desc : nullptr) ||
      got_mode != mode || got_type != n.type || got_padding != padding || got_algorithm != algorithm)
    w.report("the values are not what was set");
}

void keep_sequence(World& w) {
  Draw d(w);
  const Sequence sequence;
  const auto layout = d.enumerator<miopenRNNBaseLayout_t>({1, 2, 3}, {0, 4, -1});
  std::vector<int> lengths;
  for (std::int64_t i = d.random().between(1, 5); i > 0; --i)
    lengths.push_back(static_cast<int>(d.random().between(0, 7)));
  if (layout == miopenRNNDataSeqMajorNotPadded) std::sort(lengths.rbegin(), lengths.rend());
  if (d.wrong()) {
    lengths[0] = d.random().pick({-1, 8, INT_MAX});
    d.bad();
  }
  const int batch = static_cast<int>(lengths.size());
  double marker = 0;
  if (!d.check(miopenSetRNNDataSeqTensorDescriptor(
          d.object<miopenSeqTensorDescriptor_t>(Kind::kSequence, sequence.desc), miopenFloat, layout, 7, batch, 3,
          d.pointer(lengths.data()), d.optional(&marker))))
    return;
  miopenDataType_t type;
  miopenRNNBaseLayout_t got_layout;
  int steps = 0, got_batch = 0, width = 0;
  std::vector<int> got(lengths.size());
  if (d.check(miopenGetRNNDataSeqTensorDescriptor(sequence.desc, d.pointer(&type), &got_layout, &steps, &got_batch,
                                                  d.pointer(&width), batch, got.data(), nullptr)) &&
      (type != miopenFloat || got_layout != layout || steps != 7 || got_batch != batch || width != 3 || got != lengths))
    w.report("the values are not what was set");
}

/// A part of the weights: its place, and there and back.
void copy_part(World& w) {
  Draw d(w);
  const Descriptor rnn;
  const Network n(d);
  if (!d.check(n.set(d, d.pointer(rnn.desc)))) return;
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  Operand x(w, n.tensor({2, n.net.input})), weights(w, n.tensor({n.net.weights()}));
  weights.fill(0, 0);
  std::size_t bytes = 0;
  if (!d.check(miopenGetRNNParamsSize(handle, rnn.desc, x.desc, d.pointer(&bytes), n.type))) return;
  if (bytes != weights.plain.bytes()) w.report("the size of the weights is wrong");
  Operand all(w, n.tensor({1}));
  if (!d.check(miopenGetRNNParamsDescriptor(w.handle(), rnn.desc, x.desc, all.desc, n.type))) return;
  const bool is_bias = d.random().one_in(2);
  const auto pseudo = d.random().between(0, n.net.layers * n.net.directions() - 1);
  auto id = d.random().between(0, 2 * n.net.gates() - 1);
  if (d.wrong()) {
    id = d.random().pick<std::int64_t>({-1, 2 * n.net.gates(), INT_MAX});
    d.bad();
  }
  const std::int64_t l = pseudo / n.net.directions(), direction = pseudo % n.net.directions();
  const bool recurrent = id >= n.net.gates(), absent = !is_bias && !recurrent && n.net.columns(l) == 0;
  const int layer = static_cast<int>(pseudo), number = static_cast<int>(id);
  const std::int64_t columns = recurrent ? n.net.hidden : std::max<std::int64_t>(n.net.columns(l), 1);
  Operand part(w, n.tensor(is_bias ? std::vector{n.net.hidden} : std::vector{n.net.hidden, columns}));
  Operand back(w, n.tensor({1}));
  Buffer copy(w, part.plain.bytes(), 8);
  part.fill(-9, 9);
  std::size_t size = 0, at = SIZE_MAX;
  const Status sized = is_bias
                           ? miopenGetRNNLayerBiasSize(w.handle(), rnn.desc, layer, number, d.pointer(&size))
                           : miopenGetRNNLayerParamSize(w.handle(), rnn.desc, layer, x.desc, number, d.pointer(&size));
  if (!d.check(sized)) return;
  if (size != (absent ? 0 : part.plain.bytes())) w.report("the size of the part is wrong");
  if (absent) d.bad();
  const auto place = is_bias ? miopenGetRNNLayerBiasOffset : miopenGetRNNLayerParamOffset;
  if (!d.check(place(rnn.desc, layer, x.desc, number, back.desc, &at))) return;
  // Functions of biases that do not exist check no buffer.
  const auto needed = [&](void* data) { return is_bias && !n.net.has_bias ? data : d.pointer(data); };
  const auto set = is_bias ? miopenSetRNNLayerBias : miopenSetRNNLayerParam;
  if (!d.check(set(w.handle(), rnn.desc, layer, x.desc, weights.desc, needed(weights.data()), number, part.desc,
                   needed(part.data()))))
    return;
  const auto get = is_bias ? miopenGetRNNLayerBias : miopenGetRNNLayerParam;
  if (!d.check(
          get(w.handle(), rnn.desc, layer, x.desc, weights.desc, weights.data(), number, back.desc, copy.data())) ||
      !d.clean() || (is_bias && !n.net.has_bias))
    return;
  const std::int64_t gate = id % n.net.gates();
  const std::int64_t want =
      is_bias ? n.net.bias(l, direction, gate, recurrent) : n.net.matrix(l, direction, gate, recurrent);
  if (static_cast<std::int64_t>(at) != want) w.report("the part is at another place");
  if (std::memcmp(copy.data(), part.data(), copy.size()) != 0) w.report("the part is not what was set");
}

/// Buffers and descriptors of a training step.
struct Training {
  Training(World& world, Draw& draw, bool legacy)
      : d(draw),
        n(draw),
        order(static_cast<ref::RnnOrder>(legacy ? draw.random().between(1, 2) : draw.random().between(1, 3))) {
    n.net.steps = d.random().between(1, 4);
    for (std::int64_t i = d.random().between(1, 4); i > 0; --i)
      n.net.lengths.push_back(d.random().between(legacy ? 1 : 0, n.net.steps));
    if (legacy) n.net.lengths[0] = n.net.steps;
    if (legacy || order == ref::RnnOrder::kPacked) std::sort(n.net.lengths.rbegin(), n.net.lengths.rend());
    n.net.bias_of_first = d.random().one_in(2);
    const std::int64_t rows = std::accumulate(n.net.lengths.begin(), n.net.lengths.end(), std::int64_t{0});
    if (rows == 0) n.net.lengths[0] = 1;
    const auto type = static_cast<ref::Type>(n.type);
    const auto add = [&](const std::vector<std::int64_t>& lens) -> Operand& {
      all.push_back(std::make_unique<Operand>(world, n.tensor(lens)));
      all.back()->fill(-1, 1);
      return *all.back();
    };
    const auto x_lens = rnn_tensor(n.net, order, type, n.net.input).lens;
    const auto y_lens = rnn_tensor(n.net, order, type, n.net.width()).lens;
    const std::vector<std::int64_t> states = {n.net.layers * n.net.directions(), n.net.samples(), n.net.hidden};
    x = &add(x_lens);
    y = &add(y_lens);
    dx = &add(x_lens);
    dy = &add(y_lens);
    w = &add({n.net.weights()});
    dw = &add({n.net.weights()});
    hx = &add(states);
    hy = &add(states);
    dhx = &add(states);
  }

  const void* initial() const { return n.net.bias_of_first ? hx->data() : nullptr; }

  /// Compares what the three passes have written.
  void compare(World& world, const std::vector<std::vector<unsigned char>>& before) const {
    const auto loaded = [](const Operand& o) {
      ref::Doubles values;
      for (std::int64_t i = 0; i < o.plain.count(); ++i) values.push_back(ref::load(o.plain.type, o.buffer.data(), i));
      return values;
    };
    ref::RnnInputs in;
    in.x = from_sequence(n.net, order, x->plain, x->data());
    in.w = loaded(*w);
    if (n.net.bias_of_first) in.hx = loaded(*hx);
    in.dy = from_sequence(n.net, order, dy->plain, dy->data());
    const ref::RnnResults want = evaluate(n.net, in);
    ref::Arithmetic how = ref::arithmetic(n.net, y->plain.type);
    how.reduction_length *= n.net.steps;
    how.input_rounding *= 8;  // weights of 1 do not let errors fade
    const auto expect = [&](const Operand& o, ref::Result result, std::size_t i, const char* name) {
      for (double& m : result.magnitude) m = std::max(m, 1.0);  // of inputs and weights: small sums are differences
      expect_result(world, how, o.plain, o.buffer.data(), result, before[i], name);
    };
    expect(*y, to_sequence(n.net, order, y->plain, want.y), 0, "y");
    expect(*hy, ref::to_result(want.hy), 1, "hy");
    expect(*dx, to_sequence(n.net, order, dx->plain, want.dx), 2, "dx");
    expect(*dhx, ref::to_result(want.dhx), 3, "dhx");
    expect(*dw, ref::to_result(want.dw), 4, "dw");
  }
  std::vector<std::vector<unsigned char>> before() const {
    std::vector<std::vector<unsigned char>> copies;
    for (const Operand* o : {y, hy, dx, dhx, dw}) copies.push_back(o->buffer.copy());
    return copies;
  }

  Draw& d;
  Network n;
  ref::RnnOrder order;
  std::vector<std::unique_ptr<Operand>> all;
  Operand *x, *y, *dx, *dy, *w, *dw, *hx, *hy, *dhx;
};

void train_sequences(World& w) {
  Draw d(w);
  const Descriptor rnn;
  const Sequence x_desc, y_desc;
  const Training t(w, d, false);
  if (!d.check(t.n.set(d, d.pointer(rnn.desc)))) return;
  const std::vector<int> lengths(t.n.net.lengths.begin(), t.n.net.lengths.end());
  for (const auto& [desc, width] : {std::pair{x_desc.desc, t.n.net.input}, {y_desc.desc, t.n.net.width()}})
    miopenSetRNNDataSeqTensorDescriptor(desc, t.n.type, static_cast<miopenRNNBaseLayout_t>(t.order),
                                        static_cast<int>(t.n.net.steps), static_cast<int>(lengths.size()),
                                        static_cast<int>(width), lengths.data(), nullptr);
  std::size_t space = 0, kept = 0;
  if (!d.check(miopenGetRNNTempSpaceSizes(d.object<miopenHandle_t>(Kind::kHandle), rnn.desc, d.pointer(x_desc.desc),
                                          miopenRNNTraining, &space, &kept)))
    return;
  Buffer workspace(w, space, 8), reserve(w, kept, 8);
  const auto before = t.before();
  const std::size_t bytes = t.w->plain.bytes();
  if (d.wrong()) {
    kept = 0;
    d.refuse({miopenStatusUnknownError});
  }
  if (!d.check(miopenRNNForward(w.handle(), rnn.desc, miopenRNNTraining, x_desc.desc, d.pointer(t.x->data()),
                                t.hx->desc, t.initial(), t.hy->data(), t.hx->desc, nullptr, nullptr, y_desc.desc,
                                d.pointer(t.y->data()), d.pointer(t.w->data()), bytes, workspace.data(), space,
                                reserve.data(), kept)) ||
      !d.check(miopenRNNBackwardSeqData(w.handle(), rnn.desc, y_desc.desc, t.y->data(), d.pointer(t.dy->data()),
                                        t.hx->desc, t.initial(), nullptr, t.dhx->data(), t.hx->desc, nullptr, nullptr,
                                        nullptr, x_desc.desc, d.pointer(t.dx->data()), t.w->data(), bytes,
                                        workspace.data(), space, reserve.data(), kept)) ||
      !d.check(miopenRNNBackwardWeightsSeqTensor(w.handle(), rnn.desc, x_desc.desc, t.x->data(), t.hx->desc,
                                                 t.initial(), y_desc.desc, t.y->data(), d.pointer(t.dw->data()), bytes,
                                                 workspace.data(), space, reserve.data(), kept)) ||
      !d.clean())
    return;
  t.compare(w, before);
}

void train_steps(World& w) {
  Draw d(w);
  const Descriptor rnn;
  const Training t(w, d, true);
  if (!d.check(t.n.set(d, d.pointer(rnn.desc)))) return;
  const bool padded = t.order == ref::RnnOrder::kTimeMajor;
  miopenSetRNNPaddingMode(rnn.desc, padded ? miopenRNNIOWithPadding : miopenRNNIONotPadded);
  std::vector<std::unique_ptr<Operand>> owned;
  std::vector<miopenTensorDescriptor_t> xs, ys;
  for (std::int64_t s = 0; s < t.n.net.steps; ++s) {
    const std::int64_t samples =
        std::count_if(t.n.net.lengths.begin(), t.n.net.lengths.end(), [&](std::int64_t length) { return length > s; });
    for (const std::int64_t width : {t.n.net.input, t.n.net.width()})
      owned.push_back(std::make_unique<Operand>(w, t.n.tensor({samples, width})));
    xs.push_back((owned.end() - 2)->get()->desc);
    ys.push_back(owned.back()->desc);
  }
  const int steps = static_cast<int>(t.n.net.steps);
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  std::size_t space = 0, kept = 0, x_bytes = 0, h_bytes = 0;
  if (!d.check(miopenGetRNNWorkspaceSize(handle, rnn.desc, steps, d.pointer(xs.data()), d.pointer(&space))) ||
      !d.check(miopenGetRNNTrainingReserveSize(handle, rnn.desc, steps, xs.data(), d.pointer(&kept))) ||
      !d.check(miopenGetRNNInputTensorSize(handle, rnn.desc, steps, xs.data(), d.pointer(&x_bytes))) ||
      !d.check(miopenGetRNNHiddenTensorSize(handle, rnn.desc, steps, xs.data(), d.pointer(&h_bytes))))
    return;
  if (d.clean() && (x_bytes != t.x->plain.bytes() || h_bytes != t.hx->plain.bytes())) w.report("a size is wrong");
  Buffer workspace(w, space, 8), reserve(w, kept, 8);
  const auto before = t.before();
  const miopenTensorDescriptor_t state = t.hx->desc;
  if (d.random().one_in(4)) {
    d.check(miopenRNNForwardInference(w.handle(), rnn.desc, steps, xs.data(), d.pointer(t.x->data()), state,
                                      t.initial(), state, nullptr, t.w->desc, t.w->data(), ys.data(),
                                      d.pointer(t.y->data()), state, nullptr, state, nullptr, workspace.data(), space));
    return;
  }
  if (!d.check(miopenRNNForwardTraining(w.handle(), rnn.desc, steps, xs.data(), d.pointer(t.x->data()), state,
                                        t.initial(), state, nullptr, t.w->desc, d.pointer(t.w->data()), ys.data(),
                                        d.pointer(t.y->data()), state, t.hy->data(), state, nullptr, workspace.data(),
                                        space, reserve.data(), kept)) ||
      !d.check(miopenRNNBackwardData(w.handle(), rnn.desc, steps, ys.data(), t.y->data(), ys.data(),
                                     d.pointer(t.dy->data()), state, nullptr, state, nullptr, t.w->desc, t.w->data(),
                                     state, t.initial(), state, nullptr, xs.data(), d.pointer(t.dx->data()), state,
                                     t.dhx->data(), state, nullptr, workspace.data(), space, reserve.data(), kept)) ||
      !d.check(miopenRNNBackwardWeights(w.handle(), rnn.desc, steps, xs.data(), t.x->data(), state, t.initial(),
                                        ys.data(), t.y->data(), t.dw->desc, d.pointer(t.dw->data()), workspace.data(),
                                        space, reserve.data(), kept)) ||
      !d.clean())
    return;
  t.compare(w, before);
}

Registration g_entries[] = {{"miopenCreateRNNDescriptor", keep_descriptor},
                            {"miopenDestroyRNNDescriptor", keep_descriptor},
                            {"miopenSetRNNDescriptor", keep_descriptor},
                            {"miopenSetRNNDescriptor_V2", keep_descriptor},
                            {"miopenGetRNNDescriptor", keep_descriptor},
                            {"miopenGetRNNDescriptor_V2", keep_descriptor},
                            {"miopenSetRNNPaddingMode", keep_descriptor},
                            {"miopenGetRNNPaddingMode", keep_descriptor},
                            {"miopenSetRNNDataSeqTensorDescriptor", keep_sequence},
                            {"miopenGetRNNDataSeqTensorDescriptor", keep_sequence},
                            {"miopenGetRNNParamsSize", copy_part},
                            {"miopenGetRNNParamsDescriptor", copy_part},
                            {"miopenGetRNNLayerParamSize", copy_part},
                            {"miopenGetRNNLayerBiasSize", copy_part},
                            {"miopenGetRNNLayerParamOffset", copy_part},
                            {"miopenGetRNNLayerBiasOffset", copy_part},
                            {"miopenGetRNNLayerParam", copy_part},
                            {"miopenGetRNNLayerBias", copy_part},
                            {"miopenSetRNNLayerParam", copy_part},
                            {"miopenSetRNNLayerBias", copy_part},
                            {"miopenGetRNNTempSpaceSizes", train_sequences},
                            {"miopenRNNForward", train_sequences},
                            {"miopenRNNBackwardSeqData", train_sequences},
                            {"miopenRNNBackwardWeightsSeqTensor", train_sequences},
                            {"miopenGetRNNWorkspaceSize", train_steps},
                            {"miopenGetRNNTrainingReserveSize", train_steps},
                            {"miopenGetRNNInputTensorSize", train_steps},
                            {"miopenGetRNNHiddenTensorSize", train_steps},
                            {"miopenRNNForwardTraining", train_steps},
                            {"miopenRNNBackwardData", train_steps},
                            {"miopenRNNBackwardWeights", train_steps},
                            {"miopenRNNForwardInference", train_steps}};

}  // namespace
}  // namespace polymio::fuzz
