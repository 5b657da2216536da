// The gradient of indexing a tensor.
// SPDX-License-Identifier: MIT
#include "driver/run/getitem_args.h"
#include "driver/run/tensor_operation.h"

namespace polymio::driver {
namespace {

constexpr const char* kNames[] = {"index0", "index1", "index2", "index3", "index4", "index5", "index6", "index7"};

class Getitem final : public TensorOperation {
 public:
  Getitem(const Primitive& primitive, const std::string& base) : TensorOperation(primitive, base) {
    getitem_.type = args_.type;
    args_.directions = kBackwardData;
  }

  Flags flags() override { return with_run_flags(getitem_.rows()); }
  void check_flags() override { p_ = getitem_.problem(); }

 private:
  Flags own_flags() override { return {}; }

  std::vector<Operand> operands(Direction) const override {
    std::vector<Operand> all;
    for (std::size_t j = 0; j < p_.indices.size(); ++j) {
      const auto size = p_.view().lens[static_cast<std::size_t>(p_.dims[j])];
      all.push_back({kNames[j], p_.indices[j], static_cast<double>(size + getitem_.outside)});
    }
    all.push_back({"workspace", {reference::Type::kInt8, {workspace_bytes()}}, 0, kPassed});
    all.push_back({"dy", p_.dy, 1});
    all.push_back({"dx", p_.dx, 1, kWritten});
    return all;
  }

  void launch(const Session& session, Direction, Operands& data) const override {
    std::vector<miopenTensorDescriptor_t> descriptors;
    std::vector<const void*> indices;
    std::vector<std::int32_t> dims(p_.dims.begin(), p_.dims.end()), slices;
    for (std::size_t j = 0; j < p_.indices.size(); ++j) {
      descriptors.push_back(data[kNames[j]].descriptor());
      indices.push_back(data[kNames[j]].device());
    }
    for (const auto& slice : p_.slices) slices.insert(slices.end(), slice.begin(), slice.end());
    Memory &dy = data["dy"], &dx = data["dx"], &workspace = data["workspace"];
    const auto count = static_cast<std::uint32_t>(indices.size());
    check(miopenGetitemBackward(session.get(), workspace.device(), workspace.operand.tensor.bytes(), dy.descriptor(),
                                dy.device(), count, descriptors.data(), indices.data(), dx.descriptor(), dx.device(),
                                nullptr, nullptr, count, dims.data(), static_cast<std::uint32_t>(p_.slices.size()),
                                slices.data(), static_cast<std::uint32_t>(p_.offset)),
          "miopenGetitemBackward");
  }

  reference::Result expected(Direction, Operands& data, const Expectation& wanted) const override {
    std::vector<const void*> indices;
    for (std::size_t j = 0; j < p_.indices.size(); ++j) indices.push_back(data[kNames[j]].host());
    auto found = reference::getitem_backward(p_, data["dy"].host(), indices, wanted.old);
    how_ = reference::arithmetic(p_, found);
    return std::move(found.dx);
  }
  reference::Arithmetic arithmetic(Direction) const override { return how_; }
  std::vector<std::int64_t> sizes() const override { return p_.dy.lens; }

  // The same on every device; at least 1.
  std::int64_t workspace_bytes() const {
    const Session session("cpu");
    const reference::Tensor index =
        p_.indices.empty() ? reference::Tensor(reference::Type::kInt32, {1}) : p_.indices[0];
    const TensorDescriptor owner = make_tensor(miopenInt32, index.lens, index.strides, kNoType);
    const miopenTensorDescriptor_t descriptor = owner.get();
    std::size_t bytes = 0;
    check(miopenGetGetitemWorkspaceSize(session.get(), 1, &descriptor, &bytes), "miopenGetGetitemWorkspaceSize");
    return static_cast<std::int64_t>(bytes);
  }

  GetitemArgs getitem_;
  reference::Getitem p_;
  mutable reference::Arithmetic how_;
};

}  // namespace

std::unique_ptr<Operation> make_getitem(const Primitive& primitive, const std::string& base) {
  return std::make_unique<Getitem>(primitive, base);
}

}  // namespace polymio::driver
