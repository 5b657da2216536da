// Recurrent networks: forward, and both backward passes.
// SPDX-License-Identifier: MIT
#include <cmath>

#include "driver/run/rnn_args.h"
#include "driver/run/tensor_operation.h"
#include "reference/dropout.h"

namespace polymio::driver {
namespace {

using reference::Doubles;
using reference::Tensor;

class Rnn final : public TensorOperation {
 public:
  Rnn(const Primitive& primitive, const std::string& base) : TensorOperation(primitive, base) {
    rnn_.type = args_.type;
    if (base.starts_with("lstm")) rnn_.mode = 2;
    if (base.starts_with("gru")) rnn_.mode = 3;
  }

  Flags flags() override { return with_run_flags(rnn_.rows()); }
  void check_flags() override {
    rnn_.check();
    args_.directions = rnn_.directions != 0 ? rnn_.directions : rnn_.inference != 0 ? kForward : 7;
    network_ = rnn_.network();
  }

 private:
  Flags own_flags() override { return {}; }
  std::int64_t available() const override { return 7; }
  std::vector<std::int64_t> sizes() const override {
    return {network_.steps, network_.samples(), network_.input, network_.hidden, network_.layers};
  }
  reference::Type type() const { return static_cast<reference::Type>(args_.type); }

  Tensor state() const {
    return {type(), {network_.layers * network_.directions(), network_.samples(), network_.hidden}};
  }

  // Backward, y is NaN until the first call has run the passes before.
  std::vector<Operand> operands(Direction which) const override {
    const Tensor x = rnn_tensor(network_, rnn_.order(), type(), network_.input);
    const Tensor y = rnn_tensor(network_, rnn_.order(), type(), network_.width());
    const Access forward = which == kForward ? kWritten : kPassed, data = which == kBackwardData ? kWritten : kPassed;
    std::vector<Operand> all = {{"x", x, 1}, {"w", {type(), {network_.weights()}}, 1 / std::sqrt(network_.hidden)}};
    all.insert(all.end(), {{"hx", state(), 1}, {"cx", state(), 1}});
    all.insert(all.end(), {{"y", y, 0, forward}, {"hy", state(), 0, forward}});
    all.push_back({"cy", state(), 0, rnn_.lstm() ? forward : kPassed});
    if (rnn_.drops()) all.push_back({"states", {reference::Type::kInt32, {kNumbers}}, 0, kPassed});
    if (which == kForward) return all;
    all.insert(all.end(), {{"dy", y, 1}, {"dhy", state(), 1}, {"dcy", state(), 1}});
    all.insert(all.end(), {{"dx", x, 0, data}, {"dhx", state(), 0, data}});
    all.push_back({"dcx", state(), 0, rnn_.lstm() ? data : kPassed});
    if (which == kBackwardWeights) all.push_back({"dw", {type(), {network_.weights()}}, 0, kWritten});
    return all;
  }

  void launch(const Session& session, Direction which, Operands& data) const override {
    Call call(*this, session, data);
    if (which == kForward) return call.forward();
    if (std::isnan(reference::load(type(), data["y"].host(), 0))) {  // the first call
      call.forward();
      if (which == kBackwardWeights) call.backward_data();
      data["y"].buffer().download();
    }
    which == kBackwardData ? call.backward_data() : call.backward_weights();
  }

  reference::Result expected(Direction which, Operands& data, const Expectation& wanted) const override {
    reference::Rnn n = network_;
    if (rnn_.drops() && !(which == kForward && rnn_.inference)) {
      const auto rate = static_cast<float>(rnn_.rate);
      const std::int64_t elements = rnn_tensor(n, reference::RnnOrder::kPacked, type(), n.width()).count();
      auto states = reference::start_generators(rnn_.seed(), reference::generators_for(elements));
      n.masks.assign(static_cast<std::size_t>(n.layers - 1), reference::draw_mask(states, elements, rate));
      n.kept_scale = 1 / (1 - static_cast<double>(rate));
    }
    const auto loaded = [&](const char* name) {
      Memory& memory = data[name];
      Doubles values;
      for (std::int64_t i = 0; i < memory.operand.tensor.count(); ++i)
        values.push_back(reference::load(type(), memory.host(), i));
      return values;
    };
    const auto sequence = [&](const char* name) {
      return from_sequence(n, rnn_.order(), data[name].operand.tensor, data[name].host());
    };
    reference::RnnInputs in;
    in.x = sequence("x");
    in.w = loaded("w");
    if (!rnn_.no_hx) in.hx = loaded("hx");
    if (rnn_.lstm() && !rnn_.no_cx) in.cx = loaded("cx");
    if (which != kForward) {
      in.dy = sequence("dy");
      in.dhy = loaded("dhy");
      if (rnn_.lstm()) in.dcy = loaded("dcy");
    }
    const reference::RnnResults all = evaluate(n, in);
    const std::string_view name = wanted.name;
    if (name == "y" || name == "dx")
      return to_sequence(n, rnn_.order(), data[name].operand.tensor, name == "y" ? all.y : all.dx);
    return reference::to_result(name == "hy"    ? all.hy
                                : name == "cy"  ? all.cy
                                : name == "dhx" ? all.dhx
                                : name == "dcx" ? all.dcx
                                                : all.dw);
  }
  reference::Arithmetic arithmetic(Direction) const override { return reference::arithmetic(network_, type()); }

  // The descriptors and buffers of one call.
  class Call {
   public:
    Call(const Rnn& op, const Session& session, Operands& data)
        : args_(op.rnn_),
          n_(op.network_),
          session_(session),
          data_(data),
          rnn_(create<miopenDestroyRNNDescriptor>(miopenCreateRNNDescriptor, "miopenCreateRNNDescriptor")),
          dropout_(
              create<miopenDestroyDropoutDescriptor>(miopenCreateDropoutDescriptor, "miopenCreateDropoutDescriptor")),
          x_(create<miopenDestroySeqTensorDescriptor>(miopenCreateSeqTensorDescriptor,
                                                      "miopenCreateSeqTensorDescriptor")),
          y_(create<miopenDestroySeqTensorDescriptor>(miopenCreateSeqTensorDescriptor,
                                                      "miopenCreateSeqTensorDescriptor")) {
      describe_network();
      if (args_.layout != 0) {
        describe(x_.get(), n_.input);
        describe(y_.get(), n_.width());
      }
      for (std::int64_t t = 0; t < n_.steps; ++t) {
        for (const std::int64_t width : {n_.input, n_.width()})
          owned_.push_back(make_tensor(args_.type, {args_.samples(t), width}, {width, 1}, kNoType));
        xs_.push_back((owned_.end() - 2)->get());
        ys_.push_back(owned_.back().get());
      }
      std::size_t workspace = 0, reserve = 0;
      if (args_.layout != 0) {
        check(miopenGetRNNTempSpaceSizes(session_.get(), rnn_.get(), x_.get(), miopenRNNTraining, &workspace, &reserve),
              "miopenGetRNNTempSpaceSizes");
      } else {
        check(miopenGetRNNWorkspaceSize(session_.get(), rnn_.get(), steps(), xs_.data(), &workspace),
              "miopenGetRNNWorkspaceSize");
        check(miopenGetRNNTrainingReserveSize(session_.get(), rnn_.get(), steps(), xs_.data(), &reserve),
              "miopenGetRNNTrainingReserveSize");
      }
      const std::size_t first = (workspace + 255) / 256 * 256;
      space_ = data_.workspace(session_, first + reserve);
      reserve_ = static_cast<char*>(space_) + first;
      space_bytes_ = workspace;
      reserve_bytes_ = reserve;
    }

    void forward() {
      const miopenTensorDescriptor_t state = data_["hx"].descriptor();
      void* const hx = args_.no_hx ? nullptr : at("hx");
      void* const cx = args_.no_cx ? nullptr : at("cx");
      if (args_.layout != 0)
        return check(
            miopenRNNForward(session_.get(), rnn_.get(), args_.inference ? miopenRNNInference : miopenRNNTraining,
                             x_.get(), at("x"), state, hx, at("hy"), state, cx, at("cy"), y_.get(), at("y"), at("w"),
                             weight_bytes(), space_, space_bytes_, reserve_, reserve_bytes_),
            "miopenRNNForward");
      if (args_.inference)
        return check(miopenRNNForwardInference(session_.get(), rnn_.get(), steps(), xs_.data(), at("x"), state, hx,
                                               state, cx, weights(), at("w"), ys_.data(), at("y"), state, at("hy"),
                                               state, at("cy"), space_, space_bytes_),
                     "miopenRNNForwardInference");
      check(miopenRNNForwardTraining(session_.get(), rnn_.get(), steps(), xs_.data(), at("x"), state, hx, state, cx,
                                     weights(), at("w"), ys_.data(), at("y"), state, at("hy"), state, at("cy"), space_,
                                     space_bytes_, reserve_, reserve_bytes_),
            "miopenRNNForwardTraining");
    }

    void backward_data() {
      const miopenTensorDescriptor_t state = data_["hx"].descriptor();
      void* const hx = args_.no_hx ? nullptr : at("hx");
      void* const cx = args_.no_cx ? nullptr : at("cx");
      if (args_.layout != 0)
        return check(miopenRNNBackwardSeqData(session_.get(), rnn_.get(), y_.get(), at("y"), at("dy"), state, hx,
                                              at("dhy"), at("dhx"), state, cx, at("dcy"), at("dcx"), x_.get(), at("dx"),
                                              at("w"), weight_bytes(), space_, space_bytes_, reserve_, reserve_bytes_),
                     "miopenRNNBackwardSeqData");
      check(miopenRNNBackwardData(session_.get(), rnn_.get(), steps(), ys_.data(), at("y"), ys_.data(), at("dy"), state,
                                  at("dhy"), state, at("dcy"), weights(), at("w"), state, hx, state, cx, xs_.data(),
                                  at("dx"), state, at("dhx"), state, at("dcx"), space_, space_bytes_, reserve_,
                                  reserve_bytes_),
            "miopenRNNBackwardData");
    }

    void backward_weights() {
      const miopenTensorDescriptor_t state = data_["hx"].descriptor();
      void* const hx = args_.no_hx ? nullptr : at("hx");
      if (args_.layout != 0)
        return check(miopenRNNBackwardWeightsSeqTensor(session_.get(), rnn_.get(), x_.get(), at("x"), state, hx,
                                                       y_.get(), at("y"), at("dw"), weight_bytes(), space_,
                                                       space_bytes_, reserve_, reserve_bytes_),
                     "miopenRNNBackwardWeightsSeqTensor");
      check(miopenRNNBackwardWeights(session_.get(), rnn_.get(), steps(), xs_.data(), at("x"), state, hx, ys_.data(),
                                     at("y"), weights(), at("dw"), space_, space_bytes_, reserve_, reserve_bytes_),
            "miopenRNNBackwardWeights");
    }

   private:
    int steps() const { return static_cast<int>(n_.steps); }
    void* at(const char* name) { return data_[name].device(); }
    miopenTensorDescriptor_t weights() { return data_["w"].descriptor(); }
    std::size_t weight_bytes() { return data_["w"].operand.tensor.bytes(); }

    void describe_network() {
      const int hidden = static_cast<int>(n_.hidden), layers = static_cast<int>(n_.layers);
      const auto type = static_cast<miopenDataType_t>(args_.type);
      const auto input = static_cast<miopenRNNInputMode_t>(args_.skip);
      const auto direction = static_cast<miopenRNNDirectionMode_t>(args_.both);
      const auto mode = static_cast<miopenRNNMode_t>(args_.mode);
      const auto bias = static_cast<miopenRNNBiasMode_t>(args_.bias);
      const auto algorithm = static_cast<miopenRNNAlgo_t>(args_.algorithm);
      if (args_.drops()) {
        Memory& states = data_["states"];
        check(
            miopenSetDropoutDescriptor(dropout_.get(), session_.get(), static_cast<float>(args_.rate), states.device(),
                                       states.buffer().bytes(), args_.seed(), false, false, MIOPEN_RNG_PSEUDO_XORWOW),
            "miopenSetDropoutDescriptor");
        check(miopenSetRNNDescriptor_V2(rnn_.get(), hidden, layers, dropout_.get(), input, direction, mode, bias,
                                        algorithm, type),
              "miopenSetRNNDescriptor_V2");
      } else {
        check(miopenSetRNNDescriptor(rnn_.get(), hidden, layers, input, direction, mode, bias, algorithm, type),
              "miopenSetRNNDescriptor");
      }
      if (args_.padded) check(miopenSetRNNPaddingMode(rnn_.get(), miopenRNNIOWithPadding), "miopenSetRNNPaddingMode");
    }

    void describe(miopenSeqTensorDescriptor_t desc, std::int64_t width) const {
      const std::vector<int> lengths(n_.lengths.begin(), n_.lengths.end());
      check(miopenSetRNNDataSeqTensorDescriptor(
                desc, static_cast<miopenDataType_t>(args_.type), static_cast<miopenRNNBaseLayout_t>(args_.layout),
                steps(), static_cast<int>(lengths.size()), static_cast<int>(width), lengths.data(), nullptr),
            "miopenSetRNNDataSeqTensorDescriptor");
    }

    const RnnArgs& args_;
    const reference::Rnn& n_;
    const Session& session_;
    Operands& data_;
    decltype(create<miopenDestroyRNNDescriptor>(miopenCreateRNNDescriptor, "")) rnn_;
    decltype(create<miopenDestroyDropoutDescriptor>(miopenCreateDropoutDescriptor, "")) dropout_;
    decltype(create<miopenDestroySeqTensorDescriptor>(miopenCreateSeqTensorDescriptor, "")) x_, y_;
    std::vector<TensorDescriptor> owned_;
    std::vector<miopenTensorDescriptor_t> xs_, ys_;
    void *space_ = nullptr, *reserve_ = nullptr;
    std::size_t space_bytes_ = 0, reserve_bytes_ = 0;
  };

  static constexpr std::int64_t kNumbers = std::int64_t{16384} * 6;
  RnnArgs rnn_;
  reference::Rnn network_;
};

}  // namespace

std::unique_ptr<Operation> make_rnn(const Primitive& primitive, const std::string& base) {
  return std::make_unique<Rnn>(primitive, base);
}

}  // namespace polymio::driver
