// The RNN API: networks of every kind against the reference, on any device.
// SPDX-License-Identifier: MIT
#include "rnn_network.h"

namespace polymio::test {
namespace {

using Cell = ref::Rnn::Cell;
constexpr Cell kCells[] = {Cell::kRelu, Cell::kTanh, Cell::kLstm, Cell::kGru};
const std::vector<std::int64_t> kLengths = {5, 5, 3, 1};
const std::vector<std::int64_t> kUnsorted = {1, 4, 0, 5, 4};

RnnCase make_case(Cell cell, std::vector<std::int64_t> lengths, int layout) {
  RnnCase c;
  c.net.cell = cell;
  c.net.lengths = std::move(lengths);
  c.net.steps = *std::max_element(c.net.lengths.begin(), c.net.lengths.end());
  c.net.hidden = 19;
  c.net.input = 7;
  c.net.layers = 2;
  c.net.has_bias = true;
  c.layout = layout;
  return c;
}

struct RnnApi : testing::Test {
  void check(const RnnCase& c) {
    const testing::ScopedTrace trace(__FILE__, __LINE__,
                                     "cell " + std::to_string(static_cast<int>(c.net.cell)) + ", layout " +
                                         std::to_string(c.layout) + ", legacy " + std::to_string(c.legacy) +
                                         ", directions " + std::to_string(c.net.directions()));
    RnnNetwork(handle, c).check();
  }
  DeviceHandle handle;
};

TEST_F(RnnApi, EveryCellInEveryLayout) {
  for (const Cell cell : kCells)
    for (const bool both : {false, true})
      for (const int layout : {1, 2, 3}) {
        RnnCase c = make_case(cell, layout == 1 ? kLengths : kUnsorted, layout);
        c.net.bidirectional = both;
        c.net.steps += layout == 3 ? 2 : 0;
        check(c);
      }
}

TEST_F(RnnApi, ArraysOfDescriptors) {
  for (const Cell cell : kCells)
    for (const bool both : {false, true})
      for (const int layout : {1, 2}) {
        RnnCase c = make_case(cell, kLengths, layout);
        c.legacy = true;
        c.net.bidirectional = both;
        check(c);
      }
}

TEST_F(RnnApi, AbsentStates) {
  for (const Cell cell : kCells)
    for (const bool legacy : {false, true})
      for (const bool last : {false, true}) {
        RnnCase c = make_case(cell, kLengths, 1);
        c.legacy = legacy;
        c.net.bidirectional = true;
        c.hx = false;
        c.cx = false;
        c.last = last;
        check(c);
      }
}

TEST_F(RnnApi, WithoutBiasOrInputMatrix) {
  for (const Cell cell : kCells)
    for (const bool both : {false, true}) {
      RnnCase c = make_case(cell, {3, 3}, 2);
      c.net.has_bias = false;
      c.net.bidirectional = both;
      check(c);
      c.net.has_bias = true;
      c.net.skips_input = true;
      c.net.input = c.net.hidden;
      c.net.layers = 3;
      check(c);
    }
}

TEST_F(RnnApi, HalfPrecision) {
  for (const Cell cell : kCells)
    for (const auto type : {miopenHalf, miopenBFloat16}) {
      RnnCase c = make_case(cell, kUnsorted, 3);
      c.net.bidirectional = true;
      c.type = type;
      check(c);
    }
}

TEST_F(RnnApi, Inference) {
  for (const Cell cell : kCells)
    for (const bool legacy : {false, true}) {
      RnnCase c = make_case(cell, kLengths, 1);
      c.inference = true;
      c.legacy = legacy;
      c.net.layers = 3;
      c.rate = 0.5f;  // has no effect
      check(c);
    }
}

TEST_F(RnnApi, DropoutBetweenLayers) {
  for (const bool legacy : {false, true}) {
    RnnCase c = make_case(Cell::kLstm, kLengths, 1);
    c.legacy = legacy;
    c.net.layers = 3;
    c.net.bidirectional = true;
    c.rate = 0.4f;
    check(c);
  }
}

TEST_F(RnnApi, PaddingMarker) {
  RnnCase c = make_case(Cell::kGru, kUnsorted, 2);
  c.padding = -3;
  check(c);
}

TEST_F(RnnApi, OneElement) {
  for (const Cell cell : kCells) {
    RnnCase c = make_case(cell, {1}, 3);
    c.net.layers = 1;
    c.net.hidden = 1;
    c.net.input = 1;
    check(c);
  }
}

TEST_F(RnnApi, ManyUnits) {
  RnnCase c = make_case(Cell::kLstm, {6, 6, 6, 5, 5, 4, 4, 4, 4, 3, 1}, 1);
  c.net.hidden = 130;
  c.net.input = 70;
  check(c);
}

// Central differences of the reference's forward pass give the gradients that its backward pass computes.
TEST(RnnReference, GradientsAreDifferences) {
  for (const Cell cell : kCells)
    for (const bool bias_of_first : {false, true}) {
      ref::Rnn n = make_case(cell, {3, 0, 2}, 2).net;
      n.bidirectional = true;
      n.hidden = 3;
      n.input = 2;
      n.bias_of_first = bias_of_first;
      std::mt19937 random(5);
      const auto draw = [&](std::int64_t count) {
        ref::Doubles values(static_cast<std::size_t>(count));
        for (double& v : values) v = static_cast<double>(random()) / static_cast<double>(random.max()) - 0.5;
        return values;
      };
      const std::int64_t rows = n.steps * n.samples(), state = n.layers * n.width() * n.samples();
      ref::RnnInputs in{draw(rows * n.input),   draw(n.weights()), draw(state), draw(state),
                        draw(rows * n.width()), draw(state),       draw(state)};
      if (cell != Cell::kLstm) in.cx = in.dcy = {};
      const ref::RnnResults got = evaluate(n, in);
      const auto loss = [&] {
        const ref::RnnResults r = evaluate(n, in);
        double sum = 0;
        for (std::size_t i = 0; i < r.y.size(); ++i) sum += r.y[i] * in.dy[i];
        for (std::size_t i = 0; i < r.hy.size(); ++i) sum += r.hy[i] * in.dhy[i];
        for (std::size_t i = 0; i < in.dcy.size(); ++i) sum += r.cy[i] * in.dcy[i];
        return sum;
      };
      const auto compare = [&](ref::Doubles& variable, const ref::Doubles& gradient, std::size_t step) {
        constexpr double kStep = 1e-5;
        for (std::size_t i = 0; i < variable.size(); i += step) {
          const double at = variable[i];
          variable[i] = at + kStep;
          const double above = loss();
          variable[i] = at - kStep;
          const double below = loss();
          variable[i] = at;
          EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-7) << "cell " << static_cast<int>(cell);
        }
      };
      compare(in.x, got.dx, 1);
      compare(in.w, got.dw, 3);
      compare(in.hx, got.dhx, 1);
      compare(in.cx, got.dcx, 1);
    }
}

struct RnnParameters : testing::Test {
  void set(miopenRNNMode_t mode, bool both, bool bias, miopenRNNInputMode_t input = miopenRNNlinear) {
    expect_ok(miopenSetRNNDescriptor(desc, kHidden, kLayers, input, both ? miopenRNNbidirection : miopenRNNunidirection,
                                     mode, bias ? miopenRNNwithBias : miopenRNNNoBias, miopenRNNdefault, miopenFloat));
  }
  static constexpr int kHidden = 3, kLayers = 2, kInput = 5;
  DeviceHandle handle;
  RnnDescriptor desc;
  Tensor x{miopenFloat, {4, kInput}}, any;
};

// The formulas of MIOpen's documentation, written out for two layers.
TEST_F(RnnParameters, OffsetsAreThoseOfMiopen) {
  constexpr int kGates[] = {1, 1, 4, 3};
  for (const auto mode : {miopenRNNRELU, miopenRNNTANH, miopenLSTM, miopenGRU}) {
    const int g = kGates[mode], i = kInput, h = kHidden;
    set(mode, false, true);
    const int matrices = g * h * (i + h) + 2 * g * h * h;
    for (int id = 0; id < 2 * g; ++id) {
      std::size_t offset = 0;
      expect_ok(miopenGetRNNLayerParamOffset(desc, 0, x, id, any, &offset));
      EXPECT_EQ(offset, static_cast<std::size_t>(id < g ? id * i * h : g * i * h + (id - g) * h * h));
      expect_ok(miopenGetRNNLayerParamOffset(desc, 1, x, id, any, &offset));
      EXPECT_EQ(offset, static_cast<std::size_t>(g * h * (i + h) + id * h * h));
      for (int layer = 0; layer < 2; ++layer) {
        expect_ok(miopenGetRNNLayerBiasOffset(desc, layer, x, id, any, &offset));
        EXPECT_EQ(offset, static_cast<std::size_t>(matrices + 2 * g * h * layer + id * h));
      }
    }
    set(mode, true, true);
    const int both = 2 * g * h * (i + h) + 6 * g * h * h;
    for (int d = 0; d < 2; ++d)
      for (int id = 0; id < 2 * g; ++id) {
        std::size_t offset = 0;
        expect_ok(miopenGetRNNLayerParamOffset(desc, d, x, id, any, &offset));
        EXPECT_EQ(offset, static_cast<std::size_t>(id < g ? d * g * i * h + id * i * h
                                                          : 2 * g * i * h + d * g * h * h + (id - g) * h * h));
        expect_ok(miopenGetRNNLayerParamOffset(desc, 2 + d, x, id, any, &offset));
        const int base = 2 * g * h * (i + h);
        EXPECT_EQ(offset, static_cast<std::size_t>(id < g ? base + d * 2 * g * h * h + id * 2 * h * h
                                                          : base + 4 * g * h * h + d * g * h * h + (id - g) * h * h));
        for (int layer = 0; layer < 2; ++layer) {
          expect_ok(miopenGetRNNLayerBiasOffset(desc, 2 * layer + d, x, id, any, &offset));
          EXPECT_EQ(offset,
                    static_cast<std::size_t>(both + 4 * g * h * layer + (id >= g ? g * h : 0) + d * g * h + id * h));
        }
      }
  }
}

TEST_F(RnnParameters, Sizes) {
  set(miopenLSTM, true, true);
  std::size_t bytes = 0;
  expect_ok(miopenGetRNNLayerParamSize(handle, desc, 0, x, 3, &bytes));
  EXPECT_EQ(bytes, 3u * 5 * 4);
  expect_ok(miopenGetRNNLayerParamSize(handle, desc, 2, x, 3, &bytes));
  EXPECT_EQ(bytes, 3u * 6 * 4) << "both directions of the layer below";
  expect_ok(miopenGetRNNLayerBiasSize(handle, desc, 1, 7, &bytes));
  EXPECT_EQ(bytes, 3u * 4);
  std::size_t all = 0;
  expect_ok(miopenGetRNNParamsSize(handle, desc, x, &all, miopenFloat));
  expect_ok(miopenGetRNNParamsDescriptor(handle, desc, x, any, miopenFloat));
  EXPECT_EQ(any.bytes(), all);
  int lens[2] = {}, strides[2] = {};
  miopenDataType_t type;
  expect_ok(miopenGetTensorDescriptor(any, &type, lens, strides));
  EXPECT_EQ(Ints(lens, lens + 2), (Ints{5 + 4 * 3 + 2 * 2, 2 * 3 * 4}));
  const Tensor second(miopenFloat, {2, kInput});
  miopenTensorDescriptor_t steps[] = {x, second};
  expect_ok(miopenGetRNNInputTensorSize(handle, desc, 2, steps, &bytes));
  EXPECT_EQ(bytes, 6u * 5 * 4);
  expect_ok(miopenGetRNNHiddenTensorSize(handle, desc, 2, steps, &bytes));
  EXPECT_EQ(bytes, 4u * 4 * 3 * 4);
  expect_ok(miopenSetRNNPaddingMode(desc, miopenRNNIOWithPadding));
  expect_ok(miopenGetRNNInputTensorSize(handle, desc, 2, steps, &bytes));
  EXPECT_EQ(bytes, 8u * 5 * 4) << "padded";
  set(miopenGRU, false, true, miopenRNNskip);
  expect_bad(miopenGetRNNParamsSize(handle, desc, x, &bytes, miopenFloat), {"x has 5", "3", "input matrix"});
  const Tensor equal(miopenFloat, {4, kHidden});
  expect_ok(miopenGetRNNLayerParamSize(handle, desc, 0, equal, 2, &bytes));
  EXPECT_EQ(bytes, 0u);
  expect_bad(miopenGetRNNLayerParamOffset(desc, 0, equal, 2, any, nullptr), {"skip"});
}

TEST_F(RnnParameters, PartsAreCopied) {
  set(miopenGRU, true, true);
  std::size_t bytes = 0;
  expect_ok(miopenGetRNNParamsSize(handle, desc, x, &bytes, miopenFloat));
  std::vector<float> w(bytes / 4, -1.0f), matrix(3 * 6), bias(3), got(3 * 6), got_bias(3);
  for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<float>(i);
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = 100 + static_cast<float>(i);
  const Tensor weights(miopenFloat, {static_cast<int>(w.size())});
  const Tensor matrix_desc(miopenFloat, {3, 6}), bias_desc(miopenFloat, {3});
  std::size_t at = 0, bias_at = 0;
  expect_ok(miopenGetRNNLayerParamOffset(desc, 3, x, 1, any, &at));
  expect_ok(miopenGetRNNLayerBiasOffset(desc, 2, x, 4, any, &bias_at));
  {
    const There there(handle, w), from(handle, matrix), to(handle, got), bias_from(handle, bias),
        bias_to(handle, got_bias);
    expect_ok(miopenSetRNNLayerParam(handle, desc, 3, x, weights, there, 1, matrix_desc, from));
    expect_ok(miopenGetRNNLayerParam(handle, desc, 3, x, weights, there, 1, any, to));
    expect_ok(miopenSetRNNLayerBias(handle, desc, 2, x, weights, there, 4, bias_desc, bias_from));
    expect_ok(miopenGetRNNLayerBias(handle, desc, 2, x, weights, there, 4, any, bias_to));
    expect_ok(miopenGetRNNLayerParam(handle, desc, 0, x, weights, there, 0, any, nullptr));
    expect_bad(miopenSetRNNLayerParam(handle, desc, 3, x, weights, there, 1, matrix_desc, nullptr),
               {"layerParam is null"});
    expect_bad(miopenSetRNNLayerParam(handle, desc, 3, x, weights, there, 1, bias_desc, from), {"layerParam", "3x6"});
    expect_bad(miopenSetRNNLayerBias(handle, desc, 3, x, weights, there, 6, bias_desc, bias_from),
               {"bias 6", "0 to 5"});
    expect_bad(miopenGetRNNLayerParam(handle, desc, 4, x, weights, there, 0, any, to), {"layer 4", "0 to 3"});
  }
  EXPECT_EQ(got, matrix);
  EXPECT_EQ(got_bias, bias);
  EXPECT_EQ(any.bytes(), 3u * 5 * 4) << "a null buffer only gets the description";
  EXPECT_TRUE(std::equal(matrix.begin(), matrix.end(), w.begin() + static_cast<std::ptrdiff_t>(at)));
  EXPECT_TRUE(std::equal(bias.begin(), bias.end(), w.begin() + static_cast<std::ptrdiff_t>(bias_at)));
  EXPECT_EQ(std::count(w.begin(), w.end(), -1.0f), static_cast<std::ptrdiff_t>(w.size() - 21));
  set(miopenGRU, true, false);
  std::size_t untouched = 7;
  expect_ok(miopenGetRNNLayerBiasOffset(desc, 0, x, 0, any, &untouched));
  EXPECT_EQ(untouched, 7u) << "there are no biases";
}

TEST_F(RnnParameters, DescriptorKeepsItsValues) {
  const DropoutDescriptor dropout;
  expect_ok(miopenSetRNNDescriptor_V2(desc, 6, 4, dropout, miopenRNNskip, miopenRNNbidirection, miopenGRU,
                                      miopenRNNwithBias, miopenRNNfundamental, miopenHalf));
  int hidden = 0, layers = 0;
  miopenDropoutDescriptor_t kept = nullptr;
  miopenRNNInputMode_t input;
  miopenRNNDirectionMode_t direction;
  miopenRNNMode_t mode;
  miopenRNNBiasMode_t bias;
  miopenRNNAlgo_t algorithm;
  miopenDataType_t type;
  expect_ok(
      miopenGetRNNDescriptor_V2(desc, &hidden, &layers, &kept, &input, &direction, &mode, &bias, &algorithm, &type));
  EXPECT_EQ(hidden, 6);
  EXPECT_EQ(layers, 4);
  EXPECT_EQ(kept, dropout);
  EXPECT_EQ(input, miopenRNNskip);
  EXPECT_EQ(direction, miopenRNNbidirection);
  EXPECT_EQ(mode, miopenGRU);
  EXPECT_EQ(bias, miopenRNNwithBias);
  EXPECT_EQ(algorithm, miopenRNNfundamental);
  EXPECT_EQ(type, miopenHalf);
  set(miopenLSTM, false, false);
  expect_ok(miopenGetRNNDescriptor(desc, &mode, &algorithm, &input, &direction, &bias, &hidden, nullptr));
  EXPECT_EQ(mode, miopenLSTM);
  EXPECT_EQ(hidden, kHidden);
  EXPECT_EQ(bias, miopenRNNNoBias);
  const auto refused = [&](int hsize, int nlayers, miopenDataType_t data_type) {
    return miopenSetRNNDescriptor(desc, hsize, nlayers, miopenRNNlinear, miopenRNNunidirection, miopenLSTM,
                                  miopenRNNwithBias, miopenRNNdefault, data_type);
  };
  expect_bad(refused(0, 1, miopenFloat), {"1 layers of 0"});
  expect_bad(refused(1, -1, miopenFloat), {"-1 layers"});
  expect_bad(refused(1, 1, miopenInt32), {"data type 2", "float 1"});
  expect_ok(
      miopenGetRNNDescriptor_V2(desc, &hidden, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
  EXPECT_EQ(hidden, kHidden) << "refused calls change nothing";
  miopenRNNPaddingMode_t padding;
  expect_ok(miopenGetRNNPaddingMode(desc, &padding));
  EXPECT_EQ(padding, miopenRNNIONotPadded);
  expect_ok(miopenSetRNNPaddingMode(desc, miopenRNNIOWithPadding));
  expect_ok(miopenGetRNNPaddingMode(desc, &padding));
  EXPECT_EQ(padding, miopenRNNIOWithPadding);
  expect_bad(miopenGetRNNPaddingMode(desc, nullptr), {"paddingMode is null"});
  expect_bad(miopenCreateRNNDescriptor(nullptr), {"rnnDesc is null"});
  expect_bad(miopenDestroyRNNDescriptor(nullptr), {"RNN descriptor", "null"});
}

TEST_F(RnnParameters, SequenceDescriptorKeepsItsValues) {
  const SequenceDescriptor sequence;
  const Ints lengths = {4, 2, 0};
  float marker = -7;
  const auto set_lengths = [&](miopenRNNBaseLayout_t layout, const int* given) {
    return miopenSetRNNDataSeqTensorDescriptor(sequence, miopenFloat, layout, 5, 3, 8, given, &marker);
  };
  miopenDataType_t type;
  miopenRNNBaseLayout_t layout;
  int steps = 0, batch = 0, width = 0;
  Ints got(3, -1);
  float kept = 0;
  const auto get = [&](int limit) {
    return miopenGetRNNDataSeqTensorDescriptor(sequence, &type, &layout, &steps, &batch, &width, limit, got.data(),
                                               &kept);
  };
  expect_bad(get(3), {"has not been set"});
  expect_ok(set_lengths(miopenRNNDataSeqMajorNotPadded, lengths.data()));
  expect_ok(get(2));
  EXPECT_EQ(type, miopenFloat);
  EXPECT_EQ(layout, miopenRNNDataSeqMajorNotPadded);
  EXPECT_EQ(steps * 100 + batch * 10 + width, 538);
  EXPECT_EQ(got, (Ints{4, 2, -1})) << "at most two lengths";
  EXPECT_EQ(kept, marker);
  const Ints ascending = {2, 4, 0}, negative = {2, -1, 0}, large = {6, 1, 1};
  expect_bad(set_lengths(miopenRNNDataSeqMajorNotPadded, ascending.data()), {"must not ascend"});
  expect_ok(set_lengths(miopenRNNDataSeqMajorPadded, ascending.data()));
  expect_bad(set_lengths(miopenRNNDataSeqMajorPadded, negative.data()), {"sequence 1 has -1", "0 to 5"});
  expect_bad(set_lengths(miopenRNNDataSeqMajorPadded, large.data()), {"sequence 0 has 6"});
  expect_bad(set_lengths(miopenRNNDataSeqMajorPadded, nullptr), {"sequenceLenArray is null"});
  expect_bad(set_lengths(miopenRNNDataUnknownLayout, lengths.data()), {"layout 0"});
  expect_bad(
      miopenGetRNNDataSeqTensorDescriptor(sequence, nullptr, &layout, &steps, &batch, &width, 0, nullptr, nullptr),
      {"dataType is null"});
}

TEST_F(RnnParameters, ErrorsOfPassesSayWhatIsWrong) {
  set(miopenLSTM, false, true);
  const Tensor state(miopenFloat, {2, 4, kHidden}), y(miopenFloat, {4, kHidden}), fewer(miopenFloat, {2, kInput});
  std::vector<float> data(4096), w(4096), result(64, 5.0f);
  std::size_t need = 0, reserve = 0;
  miopenTensorDescriptor_t xs[] = {x, x}, ys[] = {y, y}, ascending[] = {fewer, x};
  expect_bad(miopenGetRNNWorkspaceSize(handle, desc, 2, ascending, &need), {"4 samples at step 1", "must not ascend"});
  expect_bad(miopenGetRNNWorkspaceSize(handle, desc, 0, xs, &need), {"0 steps"});
  expect_bad(miopenGetRNNWorkspaceSize(handle, desc, 2, nullptr, &need), {"xDesc is null"});
  expect_ok(miopenGetRNNWorkspaceSize(handle, desc, 2, xs, &need));
  expect_ok(miopenGetRNNTrainingReserveSize(handle, desc, 2, xs, &reserve));
  std::vector<unsigned char> space(need), kept(reserve);
  const Tensor weights(miopenFloat, {400}), few_weights(miopenFloat, {100});
  {
    const There at(handle, data), at_w(handle, w), to(handle, result), at_space(handle, space), at_kept(handle, kept);
    const auto forward = [&](const void* from, miopenTensorDescriptor_t h, miopenTensorDescriptor_t of_w,
                             miopenTensorDescriptor_t* of_y, std::size_t bytes, std::size_t reserve_bytes) {
      return miopenRNNForwardTraining(handle, desc, 2, xs, from, h, nullptr, state, nullptr, of_w, at_w, of_y, to,
                                      state, nullptr, state, nullptr, at_space, bytes, at_kept, reserve_bytes);
    };
    expect_bad(forward(nullptr, state, weights, ys, need, reserve), {"buffer of x is null"});
    expect_bad(forward(at, y, weights, ys, need, reserve), {"rank 2", "states have 3"});
    expect_bad(forward(at, state, weights, xs, need, reserve), {"yDesc of step 0", "4 x 3"});
    expect_error(forward(at, state, few_weights, ys, need, reserve), miopenStatusUnknownError,
                 {"w has 100", "required"});
    expect_error(forward(at, state, weights, ys, 100, reserve), miopenStatusUnknownError, {"workspace has 100"});
    expect_error(forward(at, state, weights, ys, need, 100), miopenStatusUnknownError, {"reserve space has 100"});
  }
  EXPECT_EQ(std::count(result.begin(), result.end(), 5.0f), 64) << "refused calls write nothing";
}

}  // namespace
}  // namespace polymio::test
