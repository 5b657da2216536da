// A recurrent network with its buffers, run through either kind of functions and compared with the reference.
// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <memory>
#include <optional>
#include <random>

#include "on_device.h"
#include "reference/dropout.h"
#include "reference/rnn.h"
#include "reference/types.h"

namespace polymio::test {

namespace ref = polymio::reference;
using RnnDescriptor = Owned<miopenRNNDescriptor_t, miopenCreateRNNDescriptor, miopenDestroyRNNDescriptor>;
using SequenceDescriptor =
    Owned<miopenSeqTensorDescriptor_t, miopenCreateSeqTensorDescriptor, miopenDestroySeqTensorDescriptor>;
using DropoutDescriptor =
    Owned<miopenDropoutDescriptor_t, miopenCreateDropoutDescriptor, miopenDestroyDropoutDescriptor>;
using Bytes = std::vector<unsigned char>;

struct RnnCase {
  ref::Rnn net;
  miopenDataType_t type = miopenFloat;
  int layout = 2;  // miopenRNNBaseLayout_t; functions with arrays of descriptors: 1 or 2
  bool legacy = false;
  bool hx = true, cx = true, last = true;  // initial states; final states and the gradients of both
  float rate = 0;
  double padding = 0;  // marker of the outputs, 0: none
  bool inference = false;
};

class RnnNetwork {
 public:
  RnnNetwork(miopenHandle_t handle, const RnnCase& c) : handle_(handle), c_(c), n_(c.net) {
    const auto mode = static_cast<miopenRNNMode_t>(n_.cell);
    const auto input = n_.skips_input ? miopenRNNskip : miopenRNNlinear;
    const auto direction = n_.bidirectional ? miopenRNNbidirection : miopenRNNunidirection;
    const auto bias = n_.has_bias ? miopenRNNwithBias : miopenRNNNoBias;
    const int hidden = static_cast<int>(n_.hidden), layers = static_cast<int>(n_.layers);
    if (c.rate > 0) {
      std::size_t bytes = 0;
      expect_ok(miopenDropoutGetStatesSize(handle, &bytes));
      generators_.resize(bytes);
      states_.emplace(handle, generators_);
      expect_ok(miopenSetDropoutDescriptor(dropout_, handle, c.rate, *states_, bytes, kSeed, false, false,
                                           MIOPEN_RNG_PSEUDO_XORWOW));
      expect_ok(miopenSetRNNDescriptor_V2(desc_, hidden, layers, dropout_, input, direction, mode, bias,
                                          miopenRNNdefault, c.type));
    } else {
      expect_ok(miopenSetRNNDescriptor(desc_, hidden, layers, input, direction, mode, bias, miopenRNNdefault, c.type));
    }
    if (c.legacy && c.layout == 2) expect_ok(miopenSetRNNPaddingMode(desc_, miopenRNNIOWithPadding));
    for (const std::int64_t length : n_.lengths) lengths_.push_back(static_cast<int>(length));
    const Ints state = {static_cast<int>(n_.layers * n_.directions()), batch(), hidden};
    state_.set(c.type, state);
    weights_.set(c.type, {static_cast<int>(n_.weights())});
    for (std::int64_t t = 0; t < n_.steps; ++t) {
      const int present = static_cast<int>(
          std::count_if(n_.lengths.begin(), n_.lengths.end(), [&](std::int64_t length) { return length > t; }));
      active_.push_back(present);
      rows_ += present;
      x_steps_.push_back(std::make_unique<Tensor>(c.type, Ints{std::max(present, 1), static_cast<int>(n_.input)}));
      y_steps_.push_back(std::make_unique<Tensor>(c.type, Ints{std::max(present, 1), static_cast<int>(n_.width())}));
    }
    for (const auto& t : x_steps_) x_array_.push_back(*t);
    for (const auto& t : y_steps_) y_array_.push_back(*t);
    Bytes marker(8);
    store(marker, 0, c.padding);
    void* const padding = c.padding != 0 ? marker.data() : nullptr;
    if (!c.legacy) {
      expect_ok(miopenSetRNNDataSeqTensorDescriptor(x_desc_, c.type, layout(), steps(), batch(),
                                                    static_cast<int>(n_.input), lengths_.data(), padding));
      expect_ok(miopenSetRNNDataSeqTensorDescriptor(y_desc_, c.type, layout(), steps(), batch(),
                                                    static_cast<int>(n_.width()), lengths_.data(), padding));
    }
    fill();
  }

  /// Runs all passes and compares their results.
  void check() {
    query_sizes();
    Bytes x = sequence(in_.x, n_.input), w = vector(in_.w), hx = vector(in_.hx), cx = vector(in_.cx);
    Bytes y = sequence({}, n_.width()), hy = state_buffer(), cy = state_buffer();
    Bytes dy = sequence(in_.dy, n_.width()), dhy = vector(in_.dhy), dcy = vector(in_.dcy);
    Bytes dx = sequence({}, n_.input), dhx = state_buffer(), dcx = state_buffer(), dw(w.size(), 0xff);
    Bytes workspace(workspace_bytes_, 0xff), reserve(reserve_bytes_, 0xff);
    {
      const There at_x(handle_, x), at_w(handle_, w), at_hx(handle_, hx), at_cx(handle_, cx), at_y(handle_, y);
      const There at_hy(handle_, hy), at_cy(handle_, cy), at_dy(handle_, dy), at_dhy(handle_, dhy);
      const There at_dcy(handle_, dcy), at_dx(handle_, dx), at_dhx(handle_, dhx), at_dcx(handle_, dcx);
      const There at_dw(handle_, dw), space(handle_, workspace), kept(handle_, reserve);
      void* const hx_or_null = c_.hx ? static_cast<void*>(at_hx) : nullptr;
      void* const cx_or_null = c_.cx && lstm() ? static_cast<void*>(at_cx) : nullptr;
      const auto last = [&](void* p) { return c_.last ? p : nullptr; };
      if (c_.legacy) {
        if (c_.inference) {
          expect_ok(miopenRNNForwardInference(handle_, desc_, steps(), x_array_.data(), at_x, state_, hx_or_null,
                                              state_, cx_or_null, weights_, at_w, y_array_.data(), at_y, state_,
                                              last(at_hy), state_, last(at_cy), space, workspace_bytes_));
        } else {
          expect_ok(miopenRNNForwardTraining(handle_, desc_, steps(), x_array_.data(), at_x, state_, hx_or_null, state_,
                                             cx_or_null, weights_, at_w, y_array_.data(), at_y, state_, last(at_hy),
                                             state_, last(at_cy), space, workspace_bytes_, kept, reserve_bytes_));
          expect_ok(miopenRNNBackwardData(handle_, desc_, steps(), y_array_.data(), at_y, y_array_.data(), at_dy,
                                          state_, last(at_dhy), state_, last(at_dcy), weights_, at_w, state_,
                                          hx_or_null, state_, cx_or_null, x_array_.data(), at_dx, state_, last(at_dhx),
                                          state_, last(at_dcx), space, workspace_bytes_, kept, reserve_bytes_));
          expect_ok(miopenRNNBackwardWeights(handle_, desc_, steps(), x_array_.data(), at_x, state_, hx_or_null,
                                             y_array_.data(), at_y, weights_, at_dw, space, workspace_bytes_, kept,
                                             reserve_bytes_));
        }
      } else {
        const auto mode = c_.inference ? miopenRNNInference : miopenRNNTraining;
        expect_ok(miopenRNNForward(handle_, desc_, mode, x_desc_, at_x, state_, hx_or_null, last(at_hy), state_,
                                   cx_or_null, last(at_cy), y_desc_, at_y, at_w, w.size(), space, workspace_bytes_,
                                   c_.inference ? nullptr : static_cast<void*>(kept), reserve_bytes_));
        if (!c_.inference) {
          expect_ok(miopenRNNBackwardSeqData(handle_, desc_, y_desc_, at_y, at_dy, state_, hx_or_null, last(at_dhy),
                                             last(at_dhx), state_, cx_or_null, last(at_dcy), last(at_dcx), x_desc_,
                                             at_dx, at_w, w.size(), space, workspace_bytes_, kept, reserve_bytes_));
          expect_ok(miopenRNNBackwardWeightsSeqTensor(handle_, desc_, x_desc_, at_x, state_, hx_or_null, y_desc_, at_y,
                                                      at_dw, w.size(), space, workspace_bytes_, kept, reserve_bytes_));
        }
      }
    }
    const ref::RnnResults want = ref::evaluate(n_, in_);
    compare("y", loaded(y, n_.width()), want.y);
    if (c_.last) compare("hy", loaded(hy), want.hy);
    if (c_.last && lstm()) compare("cy", loaded(cy), want.cy);
    if (c_.inference) return;
    compare("dx", loaded(dx, n_.input), want.dx);
    compare("dw", loaded(dw), want.dw);
    if (c_.last) compare("dhx", loaded(dhx), want.dhx);
    if (c_.last && lstm()) compare("dcx", loaded(dcx), want.dcx);
  }

 private:
  static constexpr unsigned long long kSeed = 77;
  bool lstm() const { return n_.cell == ref::Rnn::Cell::kLstm; }
  int steps() const { return static_cast<int>(n_.steps); }
  int batch() const { return static_cast<int>(n_.samples()); }
  miopenRNNBaseLayout_t layout() const { return static_cast<miopenRNNBaseLayout_t>(c_.layout); }
  ref::Type type() const { return static_cast<ref::Type>(c_.type); }
  void store(Bytes& to, std::int64_t i, double v) const { ref::store(type(), to.data(), i, v); }

  void query_sizes() {
    std::size_t params = 0;
    expect_ok(miopenGetRNNParamsSize(handle_, desc_, *x_steps_[0], &params, c_.type));
    EXPECT_EQ(params, static_cast<std::size_t>(n_.weights()) * ref::size_of(type()));
    if (c_.legacy) {
      expect_ok(miopenGetRNNWorkspaceSize(handle_, desc_, steps(), x_array_.data(), &workspace_bytes_));
      expect_ok(miopenGetRNNTrainingReserveSize(handle_, desc_, steps(), x_array_.data(), &reserve_bytes_));
    } else {
      expect_ok(
          miopenGetRNNTempSpaceSizes(handle_, desc_, x_desc_, miopenRNNTraining, &workspace_bytes_, &reserve_bytes_));
    }
  }

  void fill() {
    std::mt19937 random(static_cast<unsigned>(n_.weights()));
    const auto draw = [&](std::int64_t count, double most) {
      ref::Doubles values;
      Bytes rounded(8);
      for (std::int64_t i = 0; i < count; ++i) {
        store(rounded, 0, most * (2 * static_cast<double>(random()) / static_cast<double>(random.max()) - 1));
        values.push_back(ref::load(type(), rounded.data(), 0));
      }
      return values;
    };
    const std::int64_t rows = n_.steps * n_.samples(), state = n_.layers * n_.width() * n_.samples();
    in_.x = draw(rows * n_.input, 1);
    in_.w = draw(n_.weights(), 1 / std::sqrt(static_cast<double>(n_.hidden)));
    if (c_.hx) in_.hx = draw(state, 1);
    if (c_.cx && lstm()) in_.cx = draw(state, 1);
    in_.dy = draw(rows * n_.width(), 1);
    if (c_.last) in_.dhy = draw(state, 1);
    if (c_.last && lstm()) in_.dcy = draw(state, 1);
    n_.bias_of_first = c_.hx;
    if (c_.rate == 0 || c_.inference) return;
    n_.kept_scale = 1 / (1 - static_cast<double>(c_.rate));
    for (std::int64_t l = 0; l + 1 < n_.layers; ++l) {
      auto generators = ref::start_generators(kSeed, ref::generators_for(rows_ * n_.width()));
      n_.masks.push_back(ref::draw_mask(generators, rows_ * n_.width(), c_.rate));
    }
  }

  bool present(std::int64_t t, std::int64_t s) const { return t < n_.lengths[static_cast<std::size_t>(s)]; }
  std::int64_t place(std::int64_t t, std::int64_t s) const {
    if (c_.layout == 2) return t * n_.samples() + s;
    if (c_.layout == 3) return s * n_.steps + t;
    std::int64_t row = s;
    for (std::int64_t i = 0; i < t; ++i) row += active_[static_cast<std::size_t>(i)];
    return row;
  }
  template <class Body>
  void each(std::int64_t width, const Body& body) const {
    for (std::int64_t t = 0; t < n_.steps; ++t)
      for (std::int64_t s = 0; s < n_.samples(); ++s) {
        if (c_.layout == 1 && !present(t, s)) continue;
        for (std::int64_t i = 0; i < width; ++i)
          body(t, s, (t * n_.samples() + s) * width + i, place(t, s) * width + i);
      }
  }
  /// A sequence tensor; NaN where there is no value.
  Bytes sequence(const ref::Doubles& values, std::int64_t width) const {
    const std::int64_t rows = c_.layout == 1 ? rows_ : n_.steps * n_.samples();
    Bytes all(static_cast<std::size_t>(rows * width) * ref::size_of(type()), 0xff);
    if (values.empty()) return all;
    each(width, [&](std::int64_t t, std::int64_t s, std::int64_t from, std::int64_t to) {
      if (present(t, s)) store(all, to, values[static_cast<std::size_t>(from)]);
    });
    return all;
  }
  Bytes vector(const ref::Doubles& values) const {
    Bytes all(std::max<std::size_t>(values.size(), 1) * ref::size_of(type()));
    for (std::size_t i = 0; i < values.size(); ++i) store(all, static_cast<std::int64_t>(i), values[i]);
    return all;
  }
  Bytes state_buffer() const {
    return Bytes(static_cast<std::size_t>(n_.layers * n_.width() * n_.samples()) * ref::size_of(type()), 0xff);
  }
  /// The values of a sequence; checks its padding.
  ref::Doubles loaded(const Bytes& all, std::int64_t width) const {
    ref::Doubles values(static_cast<std::size_t>(n_.steps * n_.samples() * width));
    each(width, [&](std::int64_t t, std::int64_t s, std::int64_t to, std::int64_t from) {
      const double v = ref::load(type(), all.data(), from);
      if (present(t, s)) {
        values[static_cast<std::size_t>(to)] = v;
      } else {
        EXPECT_EQ(v, c_.padding) << "padding of step " << t << ", sample " << s;
      }
    });
    return values;
  }
  ref::Doubles loaded(const Bytes& all) const {
    ref::Doubles values;
    for (std::size_t i = 0; i < all.size() / ref::size_of(type()); ++i)
      values.push_back(ref::load(type(), all.data(), static_cast<std::int64_t>(i)));
    return values;
  }
  /// The measure of MIOpen's own tests, and no single large error.
  void compare(const char* name, const ref::Doubles& got, const ref::Doubles& want) const {
    ASSERT_EQ(got.size(), want.size()) << name;
    double squares = 0, most = 0, range = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(std::isfinite(got[i])) << name << " at " << i;
      const double error = std::fabs(got[i] - want[i]);
      squares += error * error;
      most = std::max(most, error);
      range = std::max(range, std::fabs(want[i]));
    }
    const double epsilon = c_.type == miopenFloat ? 0x1p-23 : c_.type == miopenHalf ? 0x1p-10 : 0x1p-7;
    const double limit = (c_.type == miopenFloat ? 8 : 4) * epsilon * std::max(range, 1e-3);
    EXPECT_LE(std::sqrt(squares / static_cast<double>(std::max<std::size_t>(got.size(), 1))), limit) << name;
    EXPECT_LE(most, 8 * limit) << name;
  }

  miopenHandle_t handle_;
  RnnCase c_;
  ref::Rnn n_;
  ref::RnnInputs in_;
  RnnDescriptor desc_;
  DropoutDescriptor dropout_;
  SequenceDescriptor x_desc_, y_desc_;
  Tensor state_, weights_;
  std::vector<std::unique_ptr<Tensor>> x_steps_, y_steps_;
  std::vector<miopenTensorDescriptor_t> x_array_, y_array_;
  Ints lengths_, active_;
  std::int64_t rows_ = 0;
  Bytes generators_;
  std::optional<There> states_;
  std::size_t workspace_bytes_ = 0, reserve_bytes_ = 0;
};

}  // namespace polymio::test
