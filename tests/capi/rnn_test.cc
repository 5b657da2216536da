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

}  // namespace
}  // namespace polymio::test
