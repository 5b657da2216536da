// Pooling and its gradient.
// SPDX-License-Identifier: MIT
#include "driver/run/pool_args.h"
#include "driver/run/tensor_operation.h"
#include "reference/pooling.h"

namespace polymio::driver {
namespace {

class Pooling final : public TensorOperation {
 public:
  using TensorOperation::TensorOperation;

 private:
  Flags own_flags() override { return args_.with_scalars(pool_.rows()); }
  std::int64_t available() const override { return args_.type == kInt8 ? kForward : 3; }

  std::vector<Operand> operands(Direction which) const override {
    const reference::Pooling p = problem();
    const std::int64_t bytes = pool_.has_indices() ? p.y.count() << pool_.index_type : 1;
    const Operand index{"index", {reference::Type::kInt8, {1, bytes}}, 0, kPassed};
    if (which == kForward) return {{"x", p.x, 4}, {"y", p.y, old_limit(), kWritten}, index};
    return {{"x", p.x, 4}, {"y", p.y, 0, kPassed}, {"dy", p.dy, 1}, {"dx", p.dx, old_limit(), kWritten}, index};
  }

  void launch(const Session& session, Direction which, Operands& data) const override {
    const auto pool =
        create<miopenDestroyPoolingDescriptor>(miopenCreatePoolingDescriptor, "miopenCreatePoolingDescriptor");
    const auto values = [&](const std::vector<std::int64_t>& all) { return std::vector<int>(all.begin(), all.end()); };
    const reference::Pooling p = problem();
    check(miopenSetNdPoolingDescriptor(pool.get(), static_cast<miopenPoolingMode_t>(pool_.mode),
                                       static_cast<int>(args_.spatial_dim), values(p.window).data(),
                                       values(p.pad).data(), values(p.stride).data()),
          "miopenSetNdPoolingDescriptor");
    if (pool_.has_indices())
      check(miopenSetPoolingIndexType(pool.get(), static_cast<miopenIndexType_t>(pool_.index_type)),
            "miopenSetPoolingIndexType");
    check(
        miopenSetPoolingWorkSpaceIndexMode(pool.get(), static_cast<miopenPoolingWorkspaceIndexMode_t>(pool_.position)),
        "miopenSetPoolingWorkSpaceIndexMode");
    Memory& x = data["x"];
    Memory& y = data["y"];
    void* const index = pool_.has_indices() ? data["index"].device() : nullptr;
    const auto run_forward = [&](const Scalars& scalars) {
      check(miopenPoolingForward(session.get(), pool.get(), scalars.alpha(), x.descriptor(), x.device(), scalars.beta(),
                                 y.descriptor(), y.device(), index != nullptr, index, data["index"].buffer().bytes()),
            "miopenPoolingForward");
    };
    if (which == kForward) return run_forward(scalars());
    // The first run finds the maxima.
    if (index != nullptr && indices_ != index) {
      run_forward(Scalars(1, 0, args_.type == kDouble));
      forget_call(session);
    }
    indices_ = index;
    Memory& dy = data["dy"];
    Memory& dx = data["dx"];
    check(miopenPoolingBackward(session.get(), pool.get(), scalars().alpha(), y.descriptor(), y.device(),
                                dy.descriptor(), dy.device(), x.descriptor(), x.device(), scalars().beta(),
                                dx.descriptor(), dx.device(), index),
          "miopenPoolingBackward");
  }

  reference::Result expected(Direction which, Operands& data, const Expectation& wanted) const override {
    if (which == kForward) return pool(problem(), data["x"].host(), wanted.old, wanted.sample);
    return pool_backward(problem(), data["x"].host(), data["dy"].host(), wanted.old);
  }
  reference::Arithmetic arithmetic(Direction which) const override {
    return pool_arithmetic(problem(), which != kForward);
  }

  reference::Pooling problem() const {
    reference::Pooling p = pool_.problem(args_);
    p.scale = parameter(args_.scale);
    p.keep = parameter(args_.keep);
    return p;
  }

  PoolArgs pool_;
  mutable const void* indices_ = nullptr;  // written by a forward run
};

}  // namespace

std::unique_ptr<Operation> make_pooling(const Primitive& primitive, const std::string& base) {
  return std::make_unique<Pooling>(primitive, base);
}

}  // namespace polymio::driver
