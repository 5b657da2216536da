// Concatenation of up to 8 tensors.
// SPDX-License-Identifier: MIT
#include "reference/cat.h"

#include "driver/run/cat_args.h"
#include "driver/run/tensor_operation.h"

namespace polymio::driver {
namespace {

constexpr const char* kNames[] = {"x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8"};

class Cat final : public TensorOperation {
 public:
  Cat(const Primitive& primitive, const std::string& base) : TensorOperation(primitive, base) {
    cat_.type = args_.type;
    args_.directions = kForward;
  }

  Flags flags() override { return with_run_flags(cat_.rows()); }
  void check_flags() override {
    inputs_ = cat_.tensors();
    dim_ = cat_.axis(inputs_);
    output_ = cat_.output();
  }

 private:
  Flags own_flags() override { return {}; }

  std::vector<Operand> operands(Direction) const override {
    std::vector<Operand> all;
    for (std::size_t i = 0; i < inputs_.size(); ++i) all.push_back({kNames[i], inputs_[i], 100});
    all.push_back({"y", output_, 0, kWritten});
    return all;
  }

  void launch(const Session& session, Direction, Operands& data) const override {
    std::vector<miopenTensorDescriptor_t> descriptors;
    std::vector<const void*> buffers;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      descriptors.push_back(data[kNames[i]].descriptor());
      buffers.push_back(data[kNames[i]].device());
    }
    Memory& y = data["y"];
    check(miopenCatForward(session.get(), static_cast<std::int32_t>(inputs_.size()), descriptors.data(), buffers.data(),
                           y.descriptor(), y.device(), static_cast<std::int32_t>(dim_)),
          "miopenCatForward");
  }

  reference::Result expected(Direction, Operands& data, const Expectation&) const override {
    std::vector<const void*> host;
    for (std::size_t i = 0; i < inputs_.size(); ++i) host.push_back(data[kNames[i]].host());
    return reference::cat(inputs_, host, dim_);
  }
  reference::Arithmetic arithmetic(Direction) const override {
    reference::Arithmetic exact;
    exact.output = output_.type;
    exact.accumulate = reference::Type::kInt64;
    return exact;
  }
  std::vector<std::int64_t> sizes() const override { return output_.lens; }

  CatArgs cat_;
  std::vector<reference::Tensor> inputs_;
  reference::Tensor output_;
  std::size_t dim_ = 0;
};

}  // namespace

std::unique_ptr<Operation> make_cat(const Primitive& primitive, const std::string& base) {
  return std::make_unique<Cat>(primitive, base);
}

}  // namespace polymio::driver
