// Group `RNN`: sizes of buffers and the passes, on sequence tensors and on arrays of one descriptor per step.
// SPDX-License-Identifier: MIT
#include "capi/rnn.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/common/log_call.h"

using namespace polymio;
using capi::deref;
using capi::described;
using capi::guard;
using capi::not_null;
using capi::RnnObject;
using capi::SeqTensorObject;
using rnn::Order;
using rnn::Pass;
using rnn::Problem;

namespace {

/// The array of the descriptors of x or y, one per step.
class StepDescriptors {
 public:
  StepDescriptors(const miopenTensorDescriptor_t* descriptors, int steps, const char* name)
      : descriptors_(not_null(descriptors, name)), name_(name) {
    require(steps >= 1, "{} steps: there must be at least 1", steps);
    steps_ = static_cast<std::size_t>(steps);
  }
  std::size_t steps() const { return steps_; }
  const TensorDesc& at(std::size_t t) const {
    const TensorDesc& desc = described(descriptors_[t], name_);
    if (desc.rank < 2 || desc.count() != desc.lens[0] * desc.lens[1])
      fail(Status::kBadParm, "{} of step {} is {}: it must be [samples, elements]", name_, t, sizes_text(desc));
    return desc;
  }
  std::int64_t samples(std::size_t t) const { return at(t).lens[0]; }

  /// The lengths of the samples, in memory that the next call on this thread uses again.
  std::span<const std::int64_t> lengths(std::int64_t width) const {
    thread_local std::vector<std::int64_t> memory;
    memory.assign(static_cast<std::size_t>(samples(0)), 0);
    std::int64_t before = samples(0);
    for (std::size_t t = 0; t < steps_; ++t) {
      const TensorDesc& desc = at(t);
      require(desc.lens[0] <= before,
              "{} has {} samples at step {}, {} at the step before: their number must not ascend", name_, desc.lens[0],
              t, before);
      require(desc.lens[1] == width && desc.type == at(0).type,
              "{} of step {} is {} of {}, that of step 0 has {} of {}", name_, t, sizes_text(desc), name_of(desc.type),
              width, name_of(at(0).type));
      before = desc.lens[0];
      for (std::int64_t s = 0; s < before; ++s) ++memory[static_cast<std::size_t>(s)];
    }
    return memory;
  }

 private:
  const miopenTensorDescriptor_t* descriptors_;
  const char* name_;
  std::size_t steps_ = 0;
};

/// The problem of an array of descriptors of x. Its lengths are those of the last such call on this thread.
Problem legacy_problem(const RnnObject& d, Pass pass, int steps, const miopenTensorDescriptor_t* x_desc) {
  const StepDescriptors x(x_desc, steps, "xDesc");
  Problem p;
  p.pass = pass;
  p.network = capi::network_of(d, x.at(0).type, x.at(0).lens[1], "x");
  p.sequences.steps = steps;
  p.sequences.lengths.view(x.lengths(p.network.input));
  p.x_order = d.padded ? Order::kTimeMajor : Order::kPacked;
  p.y_order = p.x_order;
  p.drops = capi::drops_of(d);
  return p;
}

void check_y(const Problem& p, const miopenTensorDescriptor_t* y_desc, int steps, const char* name) {
  const StepDescriptors y(y_desc, steps, name);
  const auto lengths = p.sequences.lengths.all();
  auto present = lengths.size();
  for (std::size_t t = 0; t < y.steps(); ++t) {
    while (lengths[present - 1] <= static_cast<std::int64_t>(t)) --present;
    const TensorDesc& desc = y.at(t);
    require(desc.type == p.network.type && desc.lens[0] == static_cast<std::int64_t>(present) &&
                desc.lens[1] == p.network.width(),
            "{} of step {} is {} of {}: it must be {} x {} of {}", name, t, sizes_text(desc), name_of(desc.type),
            present, p.network.width(), name_of(p.network.type));
  }
}

/// A state, [layers * directions, samples, hidden] and any dimensions of size 1. One that is not used may be empty.
void check_state(const Problem& p, miopenTensorDescriptor_t desc, const char* name, bool used = true) {
  if (!desc) fail(Status::kBadParm, "{} is null", name);
  const TensorDesc& state = deref(desc);
  if (!used && state.rank == 0) return;
  require(state.rank >= 3, "{} has rank {}: states have 3", name, state.rank);
  if (!used) return;
  const std::int64_t lens[] = {p.network.layers * p.network.directions(),
                               static_cast<std::int64_t>(p.sequences.lengths.all().size()), p.network.hidden};
  require(state.type == p.network.type && std::ranges::equal(state.sizes().first(3), lens) && state.packed() &&
              state.count() == lens[0] * lens[1] * lens[2],
          "{} is {} of {}: it must be dense {} x {} x {} of {}", name, sizes_text(state), name_of(state.type), lens[0],
          lens[1], lens[2], name_of(p.network.type));
}

void check_states(const Problem& p, miopenTensorDescriptor_t h, miopenTensorDescriptor_t c) {
  check_state(p, h, "the descriptor of h");
  check_state(p, c, "the descriptor of c", p.network.mode == rnn::Mode::kLstm);
}

void check_weights(const Problem& p, miopenTensorDescriptor_t w) {
  const TensorDesc& desc = described(w, "w");
  require(desc.type == p.network.type, "w is {}, the RNN descriptor {}: their data types must be equal",
          name_of(desc.type), name_of(p.network.type));
  if (desc.count() < p.network.elements())
    fail(Status::kUnknownError, "w has {} elements, {} are required", desc.count(), p.network.elements());
}

/// Buffers that the library fills.
struct Space {
  void* workspace;
  std::size_t workspace_bytes;
  const void* reserve = nullptr;
  std::size_t reserve_bytes = 0;
};

/// The initial states that the caller gave. Backward data does not read them.
struct Initial {
  const void* hx;
  const void* cx = nullptr;
};

std::string command_of(const Problem& p, const Problem::Args& args, const Initial& given) {
  static constexpr const char* kModes[] = {"relu", "tanh", "lstm", "gru"};
  static constexpr int kDirections[] = {1, 1, 2, 4};  // of each pass
  const rnn::Network& n = p.network;
  std::vector<std::int64_t> samples;  // of each step
  for (std::int64_t t = 0; t < p.sequences.steps; ++t)
    samples.push_back(
        std::ranges::count_if(p.sequences.lengths.all(), [t](std::int64_t length) { return length > t; }));
  while (samples.size() > 1 && samples.back() == samples[samples.size() - 2]) samples.pop_back();
  std::string line =
      base_arg("rnn", n.type, 2) +
      fmt::format(" -m {} -k {} -n {} -W {} -H {} -l {} -r {:d} -b {:d} -p {:d} -F {} -c {:d} -I {} --nohx {:d}",
                  kModes[static_cast<int>(n.mode)], p.sequences.steps, fmt::join(samples, ","), n.input, n.hidden,
                  n.layers, n.bidirectional, n.has_bias, n.skips_input, kDirections[static_cast<int>(p.pass)],
                  p.pass == Pass::kInference, static_cast<int>(p.x_order), given.hx == nullptr);
  if (n.mode == rnn::Mode::kLstm && p.pass != Pass::kBackwardWeights && !given.cx) line += " --nocx 1";
  if (p.drops == Problem::Drops::kBetweenLayers) line += fmt::format(" -U 1 -P {}", args.dropout.rate);
  return line;
}

void launch(miopenHandle_t handle, Problem& p, Problem::Args& args, const Space& space, const Initial& given,
            const char* function) {
  Handle& on = deref(handle);
  args.workspace = space.workspace;
  args.workspace_bytes = space.workspace_bytes;
  args.reserve = const_cast<void*>(space.reserve);
  args.reserve_bytes = space.reserve_bytes;
  capi::log_call(function, [&] { return command_of(p, args, given); });
  rnn::run(on, p, args);
}

const void* of_lstm(const Problem& p, const void* c) { return p.network.mode == rnn::Mode::kLstm ? c : nullptr; }
void* of_lstm(const Problem& p, void* c) { return p.network.mode == rnn::Mode::kLstm ? c : nullptr; }

Problem::Initial initial(const void* hx) { return hx ? Problem::Initial::kGiven : Problem::Initial::kAbsent; }

/// The problem of sequence tensors.
Problem sequence_problem(const RnnObject& d, Pass pass, miopenSeqTensorDescriptor_t x_desc) {
  const SeqTensorObject& x = deref(x_desc);
  require(x.steps > 0, "the sequence tensor descriptor of x has not been set");
  Problem p;
  p.pass = pass;
  p.network = capi::network_of(d, x.type, x.vector, "x");
  p.sequences.steps = x.steps;
  p.sequences.lengths.view(x.lengths);
  p.x_order = x.order;
  p.y_order = x.order;
  p.drops = capi::drops_of(d);
  return p;
}

void set_y(Problem& p, miopenSeqTensorDescriptor_t y_desc) {
  const SeqTensorObject& y = deref(y_desc);
  require(y.steps > 0, "the sequence tensor descriptor of y has not been set");
  require(y.type == p.network.type, "y is {}, the RNN descriptor {}: their data types must be equal", name_of(y.type),
          name_of(p.network.type));
  require(y.vector == p.network.width(), "y has {} elements: they must be {}, hidden units times directions", y.vector,
          p.network.width());
  require(y.steps == p.sequences.steps && std::ranges::equal(y.lengths, p.sequences.lengths.all()),
          "x and y have sequences of different lengths");
  p.y_order = y.order;
}

const void* padding_of(miopenSeqTensorDescriptor_t desc) {
  const SeqTensorObject& d = deref(desc);
  return d.padding ? d.padding->data() : nullptr;
}

void check_weight_space(const Problem& p, std::size_t bytes) {
  const std::size_t needed = static_cast<std::size_t>(p.network.elements()) * size_of(p.network.type);
  if (bytes < needed) fail(Status::kUnknownError, "the weight space has {} bytes, {} are required", bytes, needed);
}

struct LegacyForward {
  const miopenTensorDescriptor_t *x_desc, *y_desc;
  miopenTensorDescriptor_t hx_desc, cx_desc, w_desc, hy_desc, cy_desc;
  Problem::Args args;
  Space space;
};

void legacy_forward(miopenHandle_t handle, miopenRNNDescriptor_t desc, Pass pass, int steps, LegacyForward f,
                    const char* function) {
  const RnnObject& d = deref(desc);
  not_null(f.args.x, "the buffer of x");
  not_null(f.args.w, "the buffer of w");
  not_null(f.args.y, "the buffer of y");
  Problem p = legacy_problem(d, pass, steps, f.x_desc);
  check_y(p, f.y_desc, steps, "yDesc");
  check_states(p, f.hx_desc, f.cx_desc);
  check_states(p, f.hy_desc, f.cy_desc);
  check_weights(p, f.w_desc);
  p.hx = initial(f.args.hx);
  f.args.cx = of_lstm(p, f.args.cx);
  f.args.cy = of_lstm(p, f.args.cy);
  f.args.dropout = capi::dropout_of(d);
  launch(handle, p, f.args, f.space, {f.args.hx, f.args.cx}, function);
}

}  // namespace

miopenStatus_t miopenGetRNNWorkspaceSize(miopenHandle_t handle, const miopenRNNDescriptor_t rnnDesc,
                                         const int sequenceLen, const miopenTensorDescriptor_t* xDesc,
                                         size_t* numBytes) {
  return guard([&] {
    const Problem p = legacy_problem(deref(rnnDesc), Pass::kTraining, sequenceLen, xDesc);
    *not_null(numBytes, "numBytes") = rnn::sizes(deref(handle).device(), p).workspace;
  });
}

miopenStatus_t miopenGetRNNTrainingReserveSize(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc,
                                               const int sequenceLen, const miopenTensorDescriptor_t* xDesc,
                                               size_t* numBytes) {
  return guard([&] {
    const Problem p = legacy_problem(deref(rnnDesc), Pass::kTraining, sequenceLen, xDesc);
    *not_null(numBytes, "numBytes") = rnn::sizes(deref(handle).device(), p).reserve;
  });
}

miopenStatus_t miopenGetRNNTempSpaceSizes(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc,
                                          miopenSeqTensorDescriptor_t xDesc, miopenRNNFWDMode_t fwdMode,
                                          size_t* workSpaceSize, size_t* reserveSpaceSize) {
  return guard([&] {
    const int mode = static_cast<int>(fwdMode);
    require(mode == 0 || mode == 1, "the forward mode is {}: allowed are 0 (training) and 1 (inference)", mode);
    const Problem p = sequence_problem(deref(rnnDesc), Pass::kTraining, xDesc);
    const rnn::Sizes sizes = rnn::largest_sizes(deref(handle).device(), p);
    if (workSpaceSize) *workSpaceSize = sizes.workspace;
    if (reserveSpaceSize && fwdMode == miopenRNNTraining) *reserveSpaceSize = sizes.reserve;
  });
}

miopenStatus_t miopenGetRNNInputTensorSize(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc, const int seqLen,
                                           miopenTensorDescriptor_t* xDesc, size_t* numBytes) {
  return guard([&] {
    deref(handle);
    const RnnObject& d = deref(rnnDesc);
    const StepDescriptors x(xDesc, seqLen, "xDesc");
    require(x.at(0).type == d.network.type, "x is {}, the RNN descriptor {}: their data types must be equal",
            name_of(x.at(0).type), name_of(d.network.type));
    rnn::require_addressable(8.0 * seqLen * static_cast<double>(x.at(0).count()), "x of all steps");
    std::int64_t rows = d.padded ? seqLen * x.samples(0) : 0;
    if (!d.padded)
      for (const std::int64_t length : x.lengths(x.at(0).lens[1])) rows += length;
    *not_null(numBytes, "numBytes") = static_cast<std::size_t>(rows * x.at(0).lens[1]) * size_of(d.network.type);
  });
}

miopenStatus_t miopenGetRNNHiddenTensorSize(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc, const int seqLen,
                                            miopenTensorDescriptor_t* xDesc, size_t* numBytes) {
  return guard([&] {
    deref(handle);
    const RnnObject& d = deref(rnnDesc);
    const StepDescriptors x(xDesc, seqLen, "xDesc");
    const rnn::Network& n = d.network;
    require(x.at(0).type == n.type, "x is {}, the RNN descriptor {}: their data types must be equal",
            name_of(x.at(0).type), name_of(n.type));
    rnn::require_addressable(
        4.0 * static_cast<double>(n.layers) * static_cast<double>(n.width()) * static_cast<double>(x.samples(0)),
        "states");
    *not_null(numBytes, "numBytes") = static_cast<std::size_t>(n.layers * n.width() * x.samples(0)) * size_of(n.type);
  });
}

miopenStatus_t miopenRNNForward(miopenHandle_t handle, const miopenRNNDescriptor_t rnnDesc, miopenRNNFWDMode_t fwdMode,
                                const miopenSeqTensorDescriptor_t xDesc, const void* x,
                                const miopenTensorDescriptor_t hDesc, const void* hx, void* hy,
                                const miopenTensorDescriptor_t cDesc, const void* cx, void* cy,
                                const miopenSeqTensorDescriptor_t yDesc, void* y, const void* w, size_t weightSpaceSize,
                                void* workSpace, size_t workSpaceNumBytes, void* reserveSpace,
                                size_t reserveSpaceNumBytes) {
  return guard([&] {
    const RnnObject& d = deref(rnnDesc);
    const int mode = static_cast<int>(fwdMode);
    require(mode == 0 || mode == 1, "the forward mode is {}: allowed are 0 (training) and 1 (inference)", mode);
    Problem p = sequence_problem(d, fwdMode == miopenRNNTraining ? Pass::kTraining : Pass::kInference, xDesc);
    set_y(p, yDesc);
    check_states(p, hDesc, cDesc);
    check_weight_space(p, weightSpaceSize);
    p.hx = initial(hx);
    Problem::Args args;
    args.x = not_null(x, "the buffer of x");
    args.w = not_null(w, "the buffer of w");
    args.y = not_null(y, "the buffer of y");
    args.hx = hx;
    args.hy = hy;
    args.cx = of_lstm(p, cx);
    args.cy = of_lstm(p, cy);
    args.padding = padding_of(yDesc);
    args.dropout = capi::dropout_of(d);
    launch(handle, p, args, {workSpace, workSpaceNumBytes, reserveSpace, reserveSpaceNumBytes}, {hx, cx},
           "miopenRNNForward");
  });
}

miopenStatus_t miopenRNNBackwardSeqData(miopenHandle_t handle, const miopenRNNDescriptor_t rnnDesc,
                                        const miopenSeqTensorDescriptor_t yDesc, const void*, const void* dy,
                                        const miopenTensorDescriptor_t hDesc, const void* hx, const void* dhy,
                                        void* dhx, const miopenTensorDescriptor_t cDesc, const void* cx,
                                        const void* dcy, void* dcx, const miopenSeqTensorDescriptor_t xDesc, void* dx,
                                        const void* w, size_t weightSpaceSize, void* workSpace,
                                        size_t workSpaceNumBytes, void* reserveSpace, size_t reserveSpaceNumBytes) {
  return guard([&] {
    const RnnObject& d = deref(rnnDesc);
    Problem p = sequence_problem(d, Pass::kBackwardData, xDesc);
    set_y(p, yDesc);
    check_states(p, hDesc, cDesc);
    check_weight_space(p, weightSpaceSize);
    Problem::Args args;
    args.dx = not_null(dx, "the buffer of dx");
    args.w = not_null(w, "the buffer of w");
    args.dy = not_null(dy, "the buffer of dy");
    args.dhy = dhy;
    args.dhx = dhx;
    args.dcy = of_lstm(p, dcy);
    args.dcx = of_lstm(p, dcx);
    args.padding = padding_of(xDesc);
    args.dropout = capi::dropout_of(d);
    launch(handle, p, args, {workSpace, workSpaceNumBytes, reserveSpace, reserveSpaceNumBytes}, {hx, cx},
           "miopenRNNBackwardSeqData");
  });
}

miopenStatus_t miopenRNNBackwardWeightsSeqTensor(miopenHandle_t handle, const miopenRNNDescriptor_t rnnDesc,
                                                 const miopenSeqTensorDescriptor_t xDesc, const void* x,
                                                 const miopenTensorDescriptor_t hDesc, const void* hx,
                                                 const miopenSeqTensorDescriptor_t yDesc, const void*, void* dw,
                                                 size_t weightSpaceSize, void* workSpace, size_t workSpaceNumBytes,
                                                 const void* reserveSpace, size_t reserveSpaceNumBytes) {
  return guard([&] {
    Problem p = sequence_problem(deref(rnnDesc), Pass::kBackwardWeights, xDesc);
    set_y(p, yDesc);
    check_state(p, hDesc, "the descriptor of h");
    check_weight_space(p, weightSpaceSize);
    p.hx = initial(hx);
    Problem::Args args;
    args.x = not_null(x, "the buffer of x");
    args.dw = not_null(dw, "the buffer of dw");
    launch(handle, p, args, {workSpace, workSpaceNumBytes, reserveSpace, reserveSpaceNumBytes}, {hx},
           "miopenRNNBackwardWeightsSeqTensor");
  });
}

miopenStatus_t miopenRNNForwardTraining(miopenHandle_t handle, const miopenRNNDescriptor_t rnnDesc,
                                        const int sequenceLen, const miopenTensorDescriptor_t* xDesc, const void* x,
                                        const miopenTensorDescriptor_t hxDesc, const void* hx,
                                        const miopenTensorDescriptor_t cxDesc, const void* cx,
                                        const miopenTensorDescriptor_t wDesc, const void* w,
                                        const miopenTensorDescriptor_t* yDesc, void* y,
                                        const miopenTensorDescriptor_t hyDesc, void* hy,
                                        const miopenTensorDescriptor_t cyDesc, void* cy, void* workSpace,
                                        size_t workSpaceNumBytes, void* reserveSpace, size_t reserveSpaceNumBytes) {
  return guard([&] {
    Problem::Args args;
    args.x = x;
    args.w = w;
    args.y = y;
    args.hx = hx;
    args.hy = hy;
    args.cx = cx;
    args.cy = cy;
    legacy_forward(handle, rnnDesc, Pass::kTraining, sequenceLen,
                   {xDesc,
                    yDesc,
                    hxDesc,
                    cxDesc,
                    wDesc,
                    hyDesc,
                    cyDesc,
                    args,
                    {workSpace, workSpaceNumBytes, reserveSpace, reserveSpaceNumBytes}},
                   "miopenRNNForwardTraining");
  });
}

miopenStatus_t miopenRNNForwardInference(
    miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc, const int sequenceLen, const miopenTensorDescriptor_t* xDesc,
    const void* x, const miopenTensorDescriptor_t hxDesc, const void* hx, const miopenTensorDescriptor_t cxDesc,
    const void* cx, const miopenTensorDescriptor_t wDesc, const void* w, const miopenTensorDescriptor_t* yDesc, void* y,
    const miopenTensorDescriptor_t hyDesc, void* hy, const miopenTensorDescriptor_t cyDesc, void* cy, void* workSpace,
    size_t workSpaceNumBytes) {
  return guard([&] {
    Problem::Args args;
    args.x = x;
    args.w = w;
    args.y = y;
    args.hx = hx;
    args.hy = hy;
    args.cx = cx;
    args.cy = cy;
    legacy_forward(handle, rnnDesc, Pass::kInference, sequenceLen,
                   {xDesc, yDesc, hxDesc, cxDesc, wDesc, hyDesc, cyDesc, args, {workSpace, workSpaceNumBytes}},
                   "miopenRNNForwardInference");
  });
}

miopenStatus_t miopenRNNBackwardData(
    miopenHandle_t handle, const miopenRNNDescriptor_t rnnDesc, const int sequenceLen,
    const miopenTensorDescriptor_t* yDesc, const void*, const miopenTensorDescriptor_t* dyDesc, const void* dy,
    const miopenTensorDescriptor_t dhyDesc, const void* dhy, const miopenTensorDescriptor_t dcyDesc, const void* dcy,
    const miopenTensorDescriptor_t wDesc, const void* w, const miopenTensorDescriptor_t hxDesc, const void* hx,
    const miopenTensorDescriptor_t cxDesc, const void* cx, const miopenTensorDescriptor_t* dxDesc, void* dx,
    const miopenTensorDescriptor_t dhxDesc, void* dhx, const miopenTensorDescriptor_t dcxDesc, void* dcx,
    void* workSpace, size_t workSpaceNumBytes, void* reserveSpace, size_t reserveSpaceNumBytes) {
  return guard([&] {
    const RnnObject& d = deref(rnnDesc);
    Problem::Args args;
    args.dx = not_null(dx, "the buffer of dx");
    args.w = not_null(w, "the buffer of w");
    args.dy = not_null(dy, "the buffer of dy");
    Problem p = legacy_problem(d, Pass::kBackwardData, sequenceLen, dxDesc);
    check_y(p, yDesc, sequenceLen, "yDesc");
    check_y(p, dyDesc, sequenceLen, "dyDesc");
    check_states(p, dhyDesc, dcyDesc);
    check_states(p, hxDesc, cxDesc);
    check_states(p, dhxDesc, dcxDesc);
    check_weights(p, wDesc);
    args.dhy = dhy;
    args.dhx = dhx;
    args.dcy = of_lstm(p, dcy);
    args.dcx = of_lstm(p, dcx);
    args.dropout = capi::dropout_of(d);
    launch(handle, p, args, {workSpace, workSpaceNumBytes, reserveSpace, reserveSpaceNumBytes}, {hx, cx},
           "miopenRNNBackwardData");
  });
}

miopenStatus_t miopenRNNBackwardWeights(miopenHandle_t handle, const miopenRNNDescriptor_t rnnDesc,
                                        const int sequenceLen, const miopenTensorDescriptor_t* xDesc, const void* x,
                                        const miopenTensorDescriptor_t hxDesc, const void* hx,
                                        const miopenTensorDescriptor_t* yDesc, const void*,
                                        const miopenTensorDescriptor_t dwDesc, void* dw, void* workSpace,
                                        size_t workSpaceNumBytes, const void* reserveSpace,
                                        size_t reserveSpaceNumBytes) {
  return guard([&] {
    Problem p = legacy_problem(deref(rnnDesc), Pass::kBackwardWeights, sequenceLen, xDesc);
    check_y(p, yDesc, sequenceLen, "yDesc");
    check_state(p, hxDesc, "the descriptor of h");
    check_weights(p, dwDesc);
    p.hx = initial(hx);
    Problem::Args args;
    args.x = not_null(x, "the buffer of x");
    args.dw = not_null(dw, "the buffer of dw");
    launch(handle, p, args, {workSpace, workSpaceNumBytes, reserveSpace, reserveSpaceNumBytes}, {hx},
           "miopenRNNBackwardWeights");
  });
}
