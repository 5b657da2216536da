// The k-th smallest elements along a dimension.
// SPDX-License-Identifier: MIT
#include "driver/run/kthvalue_args.h"
#include "driver/run/tensor_operation.h"

namespace polymio::driver {
namespace {

class Selection final : public TensorOperation {
 public:
  Selection(const Primitive& primitive, const std::string& base)
      : TensorOperation(primitive, base), selection_(args_.type) {}

  Flags flags() override { return with_run_flags(selection_.rows()); }
  Flags own_flags() override { return {}; }
  std::int64_t available() const override { return kForward; }
  void check_flags() override { selection_.indices(selection_.problem()); }
  std::vector<std::int64_t> sizes() const override { return selection_.problem().x.lens; }

  std::vector<Operand> operands(Direction) const override {
    const reference::Kthvalue p = selection_.problem();
    return {{"x", p.x, 1}, {"y", p.y, 0, kWritten}, {"indices", selection_.indices(p), 0, kWritten}};
  }

  void launch(const Session& session, Direction, Operands& data) const override {
    const reference::Kthvalue p = selection_.problem();
    const auto described = [&](const char* name, int type) {
      const reference::Tensor& wide = data[name].operand.tensor;
      const reference::Tensor t = selection_.keep_dim != 0 ? wide : ReduceArgs::without(p.dim, wide);
      return make_tensor(type, t.lens, t.strides, kNoType);
    };
    Memory &x = data["x"], &y = data["y"], &indices = data["indices"];
    check(miopenKthvalueForward(session.get(), x.descriptor(), x.device(), described("y", args_.type).get(), y.device(),
                                described("indices", miopenInt64).get(), static_cast<std::size_t*>(indices.device()),
                                static_cast<std::size_t>(p.k), static_cast<std::int32_t>(selection_.dim),
                                selection_.keep_dim != 0),
          "miopenKthvalueForward");
  }

  reference::Result expected(Direction, Operands& data, const Expectation& wanted) const override {
    const reference::Selected all = evaluate(selection_.problem(), data["x"].host());
    return wanted.name == "indices" ? all.positions : all.values;
  }
  reference::Arithmetic arithmetic(Direction which) const override { return arithmetic_of(which, "y"); }
  reference::Arithmetic arithmetic_of(Direction, std::string_view name) const override {
    const auto type = static_cast<reference::Type>(args_.type);
    return {name == "indices" ? reference::Type::kInt64 : type, reference::Type::kInt64, 1, false};
  }

 private:
  KthvalueArgs selection_;
};

}  // namespace

std::unique_ptr<Operation> make_kthvalue(const Primitive& primitive, const std::string& base) {
  return std::make_unique<Selection>(primitive, base);
}

}  // namespace polymio::driver
