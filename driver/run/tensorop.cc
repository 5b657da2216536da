// Operations on the elements of tensors, without solvers.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>

#include "driver/run/tensor_operation.h"
#include "reference/tensor_ops.h"

namespace polymio::driver {
namespace {

enum Function { kAdd, kMul, kMin, kMax, kSet, kScale, kTransform };  // the first four as miopenTensorOp_t

class TensorOp final : public TensorOperation {
 public:
  TensorOp(const Primitive& primitive, const std::string& base) : TensorOperation(primitive, base) {
    args_.directions = kForward;
  }

  Flags flags() override {
    static constexpr Choice kFunctions[] = {{"add", kAdd},
                                            {"mul", kMul},
                                            {"min", kMin},
                                            {"max", kMax},
                                            {"set", kSet},
                                            {"scale", kScale},
                                            {"transform", kTransform}};
    constexpr auto kShape = Part::kShape;
    constexpr auto kOption = Part::kOption;
    return with_run_flags(
        {{"D", "DimLengths", Integers{&lens_}, "sizes of a and c", kShape},
         {"O", "op", Name{&function_, kFunctions}, "c = op(alpha1 * a, alpha2 * b) + beta * c; of c alone: set, scale",
          kShape},
         {"b", "b_lengths", Integers{&b_lens_}, "sizes of b, each 1 or that of a (default: those of a)", kOption},
         {"", "in_strides", Integers{&a_strides_}, "element strides of a", kOption},
         {"", "b_strides", Integers{&b_strides_}, "element strides of b", kOption},
         {"", "out_strides", Integers{&c_strides_}, "element strides of c", kOption},
         {"", "alpha1", Real{&alpha1_}, "of a; the value of set, the factor of scale", kOption},
         {"", "alpha2", Real{&alpha2_}, "of b", kOption},
         {"", "beta", Real{&beta_}, "of c", kOption}});
  }
  void check_flags() override {
    const Flags all = flags();
    const auto check_rank = [&](const char* name, const std::vector<std::int64_t>& given) {
      if (!given.empty() && given.size() != lens_.size())
        refuse_value(find_row(all, name), fmt::format("{}", fmt::join(given, ",")),
                     fmt::format("{} numbers, one per dimension", lens_.size()));
    };
    check_rank("b_lengths", b_lens_);
    check_rank("in_strides", a_strides_);
    check_rank("b_strides", b_strides_);
    check_rank("out_strides", c_strides_);
    for (std::size_t d = 0; d < b_lens_.size(); ++d)
      if (b_lens_[d] != 1 && b_lens_[d] != lens_[d])
        refuse_value(find_row(all, "b_lengths"), fmt::format("{}", fmt::join(b_lens_, ",")),
                     fmt::format("1 or the size of {}", fmt::join(lens_, ",")));
  }

 private:
  Flags own_flags() override { return {}; }
  std::int64_t available() const override { return kForward; }
  std::vector<std::int64_t> sizes() const override { return lens_; }

  bool reads_a() const { return function_ != kSet && function_ != kScale; }
  bool reads_b() const { return function_ <= kMax; }

  std::vector<Operand> operands(Direction) const override {
    const bool reads_c = function_ == kScale || (function_ != kSet && beta_ != 0);
    std::vector<Operand> all;
    if (reads_a()) all.push_back({"a", a(), limit()});
    if (reads_b()) all.push_back({"b", b(), limit()});
    all.push_back({"c", c(), reads_c ? limit() : 0, kWritten});
    return all;
  }

  void launch(const Session& session, Direction, Operands& data) const override {
    const bool wide = args_.type == kDouble;
    const Scalars of_a(alpha1_, beta_, wide), of_b(alpha2_, beta_, wide);
    Memory& c = data["c"];
    alignas(8) unsigned char value[8];  // of the type of c
    reference::store(c.operand.tensor.type, value, 0, alpha1_);
    if (function_ == kSet)
      return check(miopenSetTensor(session.get(), c.descriptor(), c.device(), value), "miopenSetTensor");
    if (function_ == kScale)
      return check(miopenScaleTensor(session.get(), c.descriptor(), c.device(), value), "miopenScaleTensor");
    Memory& a = data["a"];
    if (function_ == kTransform)
      return check(miopenTransformTensor(session.get(), of_a.alpha(), a.descriptor(), a.device(), of_a.beta(),
                                         c.descriptor(), c.device()),
                   "miopenTransformTensor");
    Memory& b = data["b"];
    check(miopenOpTensor(session.get(), static_cast<miopenTensorOp_t>(function_), of_a.alpha(), a.descriptor(),
                         a.device(), of_b.alpha(), b.descriptor(), b.device(), of_a.beta(), c.descriptor(), c.device()),
          "miopenOpTensor");
  }

  reference::Result expected(Direction, Operands& data, const Expectation& wanted) const override {
    unsigned char value[8];
    reference::store(c().type, value, 0, alpha1_);
    const double rounded = reference::load(c().type, value, 0);
    if (function_ == kSet) return reference::set_tensor(c(), rounded);
    if (function_ == kScale) return reference::scale_tensor(c(), rounded, wanted.old);
    const double alpha1 = parameter(alpha1_), alpha2 = parameter(alpha2_), beta = parameter(beta_);
    const void* const from = data["a"].host();
    if (function_ == kTransform) return reference::transform_tensor(alpha1, a(), from, beta, c(), wanted.old);
    return reference::op_tensor({static_cast<reference::TensorOp>(function_), alpha1, alpha2, beta, a(), b(), c()},
                                from, data["b"].host(), wanted.old);
  }
  reference::Arithmetic arithmetic(Direction) const override {
    const bool exact = reference::is_integer(c().type);
    return {c().type, exact || args_.type == kDouble ? reference::Type::kDouble : reference::Type::kFloat};
  }

  double limit() const { return reference::is_integer(c().type) ? 10 : 1; }
  reference::Tensor a() const { return tensor(lens_, a_strides_); }
  reference::Tensor b() const { return tensor(b_lens_.empty() ? lens_ : b_lens_, b_strides_); }
  reference::Tensor c() const { return tensor(lens_, c_strides_); }
  reference::Tensor tensor(const std::vector<std::int64_t>& lens, const std::vector<std::int64_t>& strides) const {
    return {static_cast<reference::Type>(args_.type), lens, strides};
  }

  std::vector<std::int64_t> lens_ = {100, 3, 32, 32}, b_lens_, a_strides_, b_strides_, c_strides_;
  int function_ = kAdd;
  double alpha1_ = 1, alpha2_ = 1, beta_ = 0;
};

}  // namespace

std::unique_ptr<Operation> make_tensor_op(const Primitive& primitive, const std::string& base) {
  return std::make_unique<TensorOp>(primitive, base);
}

}  // namespace polymio::driver
