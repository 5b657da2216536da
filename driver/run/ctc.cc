// The CTC loss and its gradient.
// SPDX-License-Identifier: MIT
#include "driver/run/ctc_args.h"
#include "driver/run/tensor_operation.h"

namespace polymio::driver {
namespace {

struct CtcDescriptor {
  miopenCTCLossDescriptor_t made = nullptr;
  CtcDescriptor() { check(miopenCreateCTCLossDescriptor(&made), "miopenCreateCTCLossDescriptor"); }
  CtcDescriptor(const CtcDescriptor&) = delete;
  CtcDescriptor& operator=(const CtcDescriptor&) = delete;
  ~CtcDescriptor() { miopenDestroyCTCLossDescriptor(made); }
};

class Ctc final : public TensorOperation {
 public:
  Ctc(const Primitive& primitive, const std::string& base) : TensorOperation(primitive, base), loss_(args_.type) {}

  Flags flags() override { return with_run_flags(loss_.rows()); }
  Flags own_flags() override { return {}; }
  std::int64_t available() const override { return kForward; }
  void check_flags() override { loss_.problem(); }
  std::vector<std::int64_t> sizes() const override { return loss_.problem().probs.lens; }

  std::vector<Operand> operands(Direction) const override {
    const reference::Ctc p = loss_.problem();
    return {{"probs", p.probs, 3},
            {"losses", {p.probs.type, {p.probs.lens[1]}}, 0, kWritten},
            {"gradients", p.gradients, 0, kWritten}};
  }

  void launch(const Session& session, Direction, Operands& data) const override {
    const reference::Ctc p = loss_.problem();
    const CtcDescriptor descriptor;
    check(miopenSetCTCLossDescriptor(descriptor.made, static_cast<miopenDataType_t>(args_.type),
                                     static_cast<int>(loss_.blank), p.softmax),
          "miopenSetCTCLossDescriptor");
    Memory &probs = data["probs"], &gradients = data["gradients"];
    std::size_t bytes = 0;
    const int *labels = p.labels.data(), *label_lengths = p.label_lengths.data(),
              *input_lengths = p.input_lengths.data();
    const auto algorithm = MIOPEN_CTC_LOSS_ALGO_DETERMINISTIC;
    check(miopenGetCTCLossWorkspaceSize(session.get(), probs.descriptor(), gradients.descriptor(), labels,
                                        label_lengths, input_lengths, algorithm, descriptor.made, &bytes),
          "miopenGetCTCLossWorkspaceSize");
    void* const workspace = data.workspace(session, bytes);
    check(miopenCTCLoss(session.get(), probs.descriptor(), probs.device(), labels, label_lengths, input_lengths,
                        data["losses"].device(), gradients.descriptor(), gradients.device(), algorithm, descriptor.made,
                        workspace, bytes),
          "miopenCTCLoss");
  }

  reference::Result expected(Direction, Operands& data, const Expectation& wanted) const override {
    const reference::CtcResults all = evaluate(loss_.problem(), data["probs"].host());
    return wanted.name == "losses" ? all.losses : all.gradients;
  }
  reference::Arithmetic arithmetic(Direction) const override { return reference::arithmetic(loss_.problem()); }

 private:
  CtcArgs loss_;
};

}  // namespace

std::unique_ptr<Operation> make_ctc(const Primitive& primitive, const std::string& base) {
  return std::make_unique<Ctc>(primitive, base);
}

}  // namespace polymio::driver
