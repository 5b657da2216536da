// Layer, RMS (T5) and group normalization, and the gradients of the first two.
// SPDX-License-Identifier: MIT
#include "driver/run/norm_args.h"
#include "driver/run/tensor_operation.h"

namespace polymio::driver {
namespace {

using reference::NormKind;

class Norm final : public TensorOperation {
 public:
  Norm(const Primitive& primitive, const std::string& base)
      : TensorOperation(primitive, base), norm_(primitive.bases.primitive) {}

  Flags own_flags() override { return norm_.rows(); }
  void check_flags() override {
    TensorOperation::check_flags();
    norm_.check(args_);
  }

  std::int64_t available() const override { return norm_.has_backward() ? kForward | kBackwardData : kForward; }

  std::vector<Operand> operands(Direction which) const override {
    const reference::Norm p = problem(which);
    const reference::Tensor parameter = p.parameter(), statistic = p.statistic();
    const Access of_parameters = p.affine ? kRead : kPassed;
    const bool forward = which == kForward, rms = p.kind == NormKind::kRms;
    std::vector<Operand> all{{"x", p.x, 2}, {"weight", parameter, 1, of_parameters}};
    if (p.kind == NormKind::kAddLayer) all.push_back({"x2", p.x2, 2});
    if (forward && !rms) all.push_back({"bias", parameter, 1, of_parameters});
    if (!forward) all.push_back({"dy", p.dy, 1});
    all.push_back({forward ? "y" : "dx", p.out, 0, kWritten});
    const Access of_statistics = forward ? kWritten : kRead;
    if (!rms) all.push_back({"mean", statistic, forward ? 0.0 : 1.0, of_statistics});
    all.push_back({"rstd", statistic, forward ? 0.0 : 1.0, of_statistics});
    if (!forward) all.push_back({"dw", parameter, 0, kWritten});
    if (!forward && !rms) all.push_back({"db", parameter, 0, kWritten});
    return all;
  }

  void launch(const Session& session, Direction which, Operands& data) const override {
    const auto mode = static_cast<miopenNormMode_t>(norm_.mode);
    const auto eps = static_cast<float>(norm_.epsilon);
    const auto dim = static_cast<std::int32_t>(norm_.normalized_dim);
    const miopenHandle_t h = session.get();
    const auto with = [&](auto call, const char* name, auto... arguments) { check(call(arguments...), name); };
    const bool rms = norm_.kind == NormKind::kRms;
    Memory &x = data["x"], &w = data["weight"], &rstd = data["rstd"], &mean = rms ? rstd : data["mean"];
    if (which != kForward) {
      Memory &dy = data["dy"], &dx = data["dx"], &dw = data["dw"], &db = rms ? dw : data["db"];
      if (rms)
        return check(miopenT5LayerNormBackward(h, mode, nullptr, 0, dy.descriptor(), dy.device(), x.descriptor(),
                                               x.device(), w.descriptor(), w.device(), rstd.descriptor(), rstd.device(),
                                               dx.descriptor(), dx.device(), dw.descriptor(), dw.device()),
                     "miopenT5LayerNormBackward");
      return check(miopenLayerNormBackward(h, mode, nullptr, 0, dy.descriptor(), dy.device(), x.descriptor(),
                                           x.device(), w.descriptor(), w.device(), mean.descriptor(), mean.device(),
                                           rstd.descriptor(), rstd.device(), dim, dx.descriptor(), dx.device(),
                                           dw.descriptor(), dw.device(), db.descriptor(), db.device()),
                   "miopenLayerNormBackward");
    }
    Memory& y = data["y"];
    Memory& b = rms ? w : data["bias"];
    Memory& x2 = norm_.kind == NormKind::kAddLayer ? data["x2"] : x;
    switch (norm_.kind) {
      case NormKind::kRms:
        return with(miopenT5LayerNormForward, "miopenT5LayerNormForward", h, mode, x.descriptor(), x.device(),
                    w.descriptor(), w.device(), eps, y.descriptor(), y.device(), rstd.descriptor(), rstd.device());
      case NormKind::kGroup:
        return with(miopenGroupNormForward, "miopenGroupNormForward", h, mode, x.descriptor(), x.device(),
                    w.descriptor(), w.device(), b.descriptor(), b.device(), static_cast<std::uint64_t>(norm_.groups),
                    eps, y.descriptor(), y.device(), mean.descriptor(), mean.device(), rstd.descriptor(),
                    rstd.device());
      case NormKind::kAddLayer:
        return with(miopenAddLayerNormForward, "miopenAddLayerNormForward", h, mode, x.descriptor(), x.device(),
                    x2.descriptor(), x2.device(), w.descriptor(), w.device(), b.descriptor(), b.device(), eps, dim,
                    y.descriptor(), y.device(), mean.descriptor(), mean.device(), rstd.descriptor(), rstd.device());
      default:
        return with(miopenLayerNormForward, "miopenLayerNormForward", h, mode, x.descriptor(), x.device(),
                    w.descriptor(), w.device(), b.descriptor(), b.device(), eps, dim, y.descriptor(), y.device(),
                    mean.descriptor(), mean.device(), rstd.descriptor(), rstd.device());
    }
  }

  reference::Result expected(Direction which, Operands& data, const Expectation& wanted) const override {
    const reference::Norm p = problem(which);
    const bool rms = p.kind == NormKind::kRms;
    const std::size_t number = wanted.name == "y" || wanted.name == "dx"      ? 0
                               : wanted.name == "mean" || wanted.name == "dw" ? 1
                                                                              : 2;
    reference::NormData host{.x = data["x"].host(), .weight = data["weight"].host()};
    if (which == kForward) {
      host.x2 = p.kind == NormKind::kAddLayer ? data["x2"].host() : nullptr;
      host.bias = rms ? nullptr : data["bias"].host();
      return norm_forward(p, host)[number];
    }
    host.dy = data["dy"].host();
    host.mean = rms ? nullptr : data["mean"].host();
    host.rstd = data["rstd"].host();
    return norm_backward(p, host)[number];
  }
  reference::Arithmetic arithmetic(Direction which) const override {
    const reference::Norm p = problem(which);
    return reference::arithmetic(p, p.out.type, p.length());
  }
  reference::Arithmetic arithmetic_of(Direction which, std::string_view name) const override {
    const reference::Norm p = problem(which);
    if (name == "dw" || name == "db") return reference::arithmetic(p, p.parameters, p.rows());
    return reference::arithmetic(p, name == "mean" || name == "rstd" ? p.statistics : p.out.type, p.length());
  }

  reference::Norm problem(Direction which) const { return norm_.problem(args_, which != kForward); }

  NormArgs norm_;
};

}  // namespace

std::unique_ptr<Operation> make_norm(const Primitive& primitive, const std::string& base) {
  return std::make_unique<Norm>(primitive, base);
}

}  // namespace polymio::driver
