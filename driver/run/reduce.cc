// Reductions of any dimensions, and of one.
// SPDX-License-Identifier: MIT
#include "driver/run/reduce_args.h"
#include "driver/run/tensor_operation.h"

namespace polymio::driver {
namespace {

ReduceArgs::Kind kind_of(const std::string& base) {
  return base.starts_with("reducec")   ? ReduceArgs::kCalculation
         : base.starts_with("reducee") ? ReduceArgs::kExtreme
                                       : ReduceArgs::kReduce;
}

class Reduction final : public TensorOperation {
 public:
  Reduction(const Primitive& primitive, const std::string& base)
      : TensorOperation(primitive, base), reduce_(kind_of(base), args_.type) {}

  Flags flags() override { return with_run_flags(reduce_.rows()); }
  Flags own_flags() override { return {}; }
  std::int64_t available() const override { return kForward; }
  void check_flags() override { reduce_.problem(); }
  std::vector<std::int64_t> sizes() const override { return reduce_.problem().a.lens; }

  std::vector<Operand> operands(Direction) const override {
    const reference::Reduction p = reduce_.problem();
    std::vector<Operand> all = {{"a", p.a, 1}};
    if (reduce_.has_values()) all.push_back({"c", p.c, p.beta == 0 ? 0.0 : 1.0, kWritten});
    if (reduce_.has_positions()) all.push_back({"indices", reduce_.positions_of(p.c), 0, kWritten});
    return all;
  }

  void launch(const Session& session, Direction, Operands& data) const override {
    const bool values = reduce_.has_values(), positions = reduce_.has_positions();
    Memory& a = data["a"];
    void* const c = values ? data["c"].device() : nullptr;
    void* const indices = positions ? data["indices"].device() : nullptr;
    if (reduce_.kind == ReduceArgs::kReduce) return reduce(session, a, data["c"], indices);
    const auto dim = static_cast<std::int32_t>(reduce_.dim());
    const auto described = [&](const char* name) {
      const reference::Tensor t = ReduceArgs::without(dim, data[name].operand.tensor);
      return make_tensor(static_cast<int>(t.type), t.lens, t.strides, kNoType);
    };
    const TensorDescriptor y = described(values ? "c" : "indices");
    if (reduce_.kind == ReduceArgs::kExtreme) {
      return check(miopenReduceExtremeForward(session.get(), a.descriptor(), a.device(), dim,
                                              static_cast<miopenReduceExtremeOp_t>(reduce_.op),
                                              values ? y.get() : nullptr, c, described("indices").get(), indices),
                   "miopenReduceExtremeForward");
    }
    const auto op = static_cast<miopenReduceCalculationOp_t>(reduce_.op);
    std::size_t bytes = 0;
    check(miopenGetReduceCalculationWorkspaceSize(session.get(), a.descriptor(), dim, op, y.get(), &bytes),
          "miopenGetReduceCalculationWorkspaceSize");
    check(miopenReduceCalculationForward(
              session.get(), static_cast<miopenReduceCalculationNanPropagation_t>(reduce_.nan),
              workspace(session, bytes), bytes, a.descriptor(), a.device(), dim, op, y.get(), c),
          "miopenReduceCalculationForward");
  }

  reference::Result expected(Direction, Operands& data, const Expectation& wanted) const override {
    reference::Reduction p = reduce_.problem();
    if (wanted.name != "indices") return evaluate(p, data["a"].host(), wanted.old).values;
    p.beta = 0;
    return evaluate(p, data["a"].host(), nullptr).positions;
  }
  reference::Arithmetic arithmetic(Direction) const override { return reference::arithmetic(reduce_.problem()); }
  reference::Arithmetic arithmetic_of(Direction which, std::string_view name) const override {
    if (name != "indices") return arithmetic(which);
    return {reference::Type::kInt32, reference::Type::kInt64, 1, false};
  }

 private:
  void* workspace(const Session& session, std::size_t bytes) const {
    if (bytes > workspace_.bytes()) workspace_ = Buffer(session, bytes, "workspace");
    return bytes > 0 ? workspace_.device() : nullptr;
  }

  void reduce(const Session& session, Memory& a, Memory& c, void* indices) const {
    const auto desc = create<miopenDestroyReduceTensorDescriptor>(miopenCreateReduceTensorDescriptor,
                                                                  "miopenCreateReduceTensorDescriptor");
    check(miopenSetReduceTensorDescriptor(
              desc.get(), static_cast<miopenReduceTensorOp_t>(reduce_.op),
              static_cast<miopenDataType_t>(reduce_.computation), static_cast<miopenNanPropagation_t>(reduce_.nan),
              static_cast<miopenReduceTensorIndices_t>(reduce_.indices), MIOPEN_32BIT_INDICES),
          "miopenSetReduceTensorDescriptor");
    std::size_t bytes = 0, indices_bytes = 0;
    check(miopenGetReductionWorkspaceSize(session.get(), desc.get(), a.descriptor(), c.descriptor(), &bytes),
          "miopenGetReductionWorkspaceSize");
    check(miopenGetReductionIndicesSize(session.get(), desc.get(), a.descriptor(), c.descriptor(), &indices_bytes),
          "miopenGetReductionIndicesSize");
    const Scalars scalars(reduce_.alpha, reduce_.beta, c.operand.tensor.type == reference::Type::kDouble);
    check(miopenReduceTensor(session.get(), desc.get(), indices, indices_bytes, workspace(session, bytes), bytes,
                             scalars.alpha(), a.descriptor(), a.device(), scalars.beta(), c.descriptor(), c.device()),
          "miopenReduceTensor");
  }

  ReduceArgs reduce_;
  mutable Buffer workspace_;
};

}  // namespace

std::unique_ptr<Operation> make_reduction(const Primitive& primitive, const std::string& base) {
  return std::make_unique<Reduction>(primitive, base);
}

}  // namespace polymio::driver
