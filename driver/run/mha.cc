// Attention and its gradients, through find 2.0.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>
#include <utility>

#include "driver/run/mha_args.h"
#include "driver/run/tensor_operation.h"

namespace polymio::driver {
namespace {

using Solution = Owned<miopenSolution_t, miopenDestroySolution>;

struct Named {
  const char* name;
  miopenTensorArgumentId_t id;
};
constexpr Named kTensors[] = {{"q", miopenTensorMhaQ},
                              {"k", miopenTensorMhaK},
                              {"v", miopenTensorMhaV},
                              {"bias", miopenTensorMhaBias},
                              {"o", miopenTensorMhaO},
                              {"m", miopenTensorMhaM},
                              {"z_inv", miopenTensorMhaZInv},
                              {"dout", miopenTensorMhaDO},
                              {"dq", miopenTensorMhaDQ},
                              {"dk", miopenTensorMhaDK},
                              {"dv", miopenTensorMhaDV},
                              {"amax_s", miopenTensorMhaAmaxS},
                              {"amax_o", miopenTensorMhaAmaxO},
                              {"amax_dq", miopenTensorMhaAmaxDQ},
                              {"amax_dk", miopenTensorMhaAmaxDK},
                              {"amax_dv", miopenTensorMhaAmaxDV},
                              {"amax_ds", miopenTensorMhaAmaxDS}};
// In the order of MhaArgs::factors.
constexpr miopenTensorArgumentId_t kFactors[] = {
    miopenTensorMhaDescaleQ, miopenTensorMhaDescaleK,  miopenTensorMhaDescaleV,  miopenTensorMhaDescaleS,
    miopenTensorMhaDescaleO, miopenTensorMhaDescaleDO, miopenTensorMhaDescaleDS, miopenTensorMhaScaleS,
    miopenTensorMhaScaleO,   miopenTensorMhaScaleDS,   miopenTensorMhaScaleDQ,   miopenTensorMhaScaleDK,
    miopenTensorMhaScaleDV};
// By MhaResult and MhaGradient.
constexpr std::string_view kResults[] = {"o", "m", "z_inv", "amax_s", "amax_o"};
constexpr std::string_view kGradients[] = {"dq", "dk", "dv", "amax_dq", "amax_dk", "amax_dv", "amax_ds"};

// A solution of a direction, with the scalars in device memory.
class Call {
 public:
  Call(const Session& session, const MhaArgs& args, reference::Mha p, Operands& data) : mask_(args.mask) {
    using reference::Type;
    const reference::Tensor number(Type::kFloat, {1}), integer(Type::kInt64, {1});
    const auto factors = MhaArgs::factors(p);
    for (std::size_t i = 0; i < factors.size(); ++i) add(session, kFactors[i], number, *factors[i]);
    add(session, miopenTensorMhaDropoutProbability, number, p.probability);
    add(session, miopenTensorMhaDropoutSeed, integer, static_cast<double>(p.seed));
    add(session, miopenTensorMhaDropoutOffset, integer, static_cast<double>(p.offset));

    const auto descriptor = made_descriptor(static_cast<float>(p.scale));
    miopenProblem_t raw = nullptr;
    check(miopenCreateMhaProblem(&raw, descriptor,
                                 p.backward ? miopenProblemDirectionBackward : miopenProblemDirectionForward),
          "miopenCreateMhaProblem");
    const Owned<miopenProblem_t, miopenDestroyProblem> problem(raw);
    const auto set = [&](miopenTensorArgumentId_t id, miopenTensorDescriptor_t desc, void* memory) {
      check(miopenSetProblemTensorDescriptor(raw, id, desc), "miopenSetProblemTensorDescriptor");
      arguments_.push_back({id, nullptr, memory});
    };
    for (const auto& [id, scalar] : scalars_) set(id, scalar.desc.get(), scalar.buffer.device());
    for (const Named& tensor : kTensors)
      if (Memory* const memory = data.find(tensor.name)) set(tensor.id, memory->descriptor(), memory->device());
    arguments_.push_back({miopenTensorMhaMask, nullptr, &mask_});

    miopenSolution_t solution = nullptr;
    std::size_t count = 0;
    check(miopenFindSolutions(session.get(), raw, nullptr, &solution, &count, 1), "miopenFindSolutions");
    solution_.reset(solution);
    check(miopenGetSolutionWorkspaceSize(solution, &bytes_), "miopenGetSolutionWorkspaceSize");
  }

  void run(const Session& session, Operands& data) {
    check(miopenRunSolution(session.get(), solution_.get(), arguments_.size(), arguments_.data(),
                            bytes_ == 0 ? nullptr : data.workspace(session, bytes_), bytes_),
          "miopenRunSolution");
  }

 private:
  struct Scalar {
    TensorDescriptor desc;
    Buffer buffer;
  };

  // No function destroys one: all calls share it.
  static miopenMhaDescriptor_t made_descriptor(float scale) {
    static miopenMhaDescriptor_t only = nullptr;
    if (only == nullptr) check(miopenCreateMhaDescriptor(&only), "miopenCreateMhaDescriptor");
    check(miopenSetMhaDescriptor(only, scale), "miopenSetMhaDescriptor");
    return only;
  }

  void add(const Session& session, miopenTensorArgumentId_t id, const reference::Tensor& t, double value) {
    Buffer buffer(session, t.bytes(), "a scalar");
    reference::store(t.type, buffer.host(), 0, value);
    buffer.upload();
    scalars_.emplace(id, Scalar{make_tensor(static_cast<int>(t.type), t.lens, t.strides, kNoType), std::move(buffer)});
  }

  std::map<miopenTensorArgumentId_t, Scalar> scalars_;
  std::vector<miopenTensorArgument_t> arguments_;
  Solution solution_;
  std::size_t bytes_ = 0;
  int mask_;
};

class Mha final : public TensorOperation {
 public:
  using TensorOperation::TensorOperation;

 private:
  Flags own_flags() override { return mha_.rows(); }
  Flags flags() override { return with_run_flags(own_flags()); }
  void check_flags() override {
    mha_.check();
    args_.directions = mha_.directions;
  }
  std::string line(Direction which) override {
    const std::int64_t requested = std::exchange(mha_.directions, which);
    std::string text = TensorOperation::line(which);
    mha_.directions = requested;
    return text;
  }
  std::vector<std::int64_t> sizes() const override { return problem(kForward).q.lens; }

  std::vector<Operand> operands(Direction which) const override {
    const reference::Mha p = problem(which);
    const reference::Tensor number(reference::Type::kFloat, {1});
    const bool forward = which == kForward;
    const Access of_results = forward ? kWritten : kPassed;
    std::vector<Operand> all{{"q", p.q, 1}, {"k", p.k, 1}, {"v", p.v, 1}};
    if (mha_.bias != 0) all.push_back({"bias", p.bias, 1});
    all.push_back({"o", p.o, 0, of_results});
    all.push_back({"m", p.statistics(), 0, of_results});
    all.push_back({"z_inv", p.statistics(), 0, of_results});
    if (forward) {
      for (const char* name : {"amax_s", "amax_o"}) all.push_back({name, number, 0, kWritten});
      return all;
    }
    all.push_back({"dout", p.dout, 1});
    all.push_back({"dq", p.dq, 0, kWritten});
    all.push_back({"dk", p.dk, 0, kWritten});
    all.push_back({"dv", p.dv, 0, kWritten});
    for (const char* name : {"amax_dq", "amax_dk", "amax_dv", "amax_ds"}) all.push_back({name, number, 0, kWritten});
    return all;
  }

  // The first backward run has o, m and z_inv computed.
  void launch(const Session& session, Direction which, Operands& data) const override {
    if (!data.kept) {
      if (which != kForward) {
        data.add(session, {"amax_s", {reference::Type::kFloat, {1}}, 0, kPassed});
        data.add(session, {"amax_o", {reference::Type::kFloat, {1}}, 0, kPassed});
        Call(session, mha_, problem(kForward), data).run(session, data);
        forget_call(session);
      }
      data.kept = std::make_shared<Call>(session, mha_, problem(which), data);
    }
    static_cast<Call*>(data.kept.get())->run(session, data);
  }

  reference::Result expected(Direction which, Operands& data, const Expectation& wanted) const override {
    const reference::Mha p = problem(which);
    const auto host = [&](const char* name) -> const void* {
      Memory& memory = data[name];
      memory.buffer().download();
      return memory.host();
    };
    reference::MhaData in{host("q"), host("k"), host("v"), mha_.bias == 0 ? nullptr : host("bias")};
    const auto number = [&](const auto& names) {
      return static_cast<std::size_t>(std::ranges::find(names, wanted.name) - std::begin(names));
    };
    if (which == kForward) return mha_forward(p, in)[number(kResults)];
    in.o = host("o");
    in.m = host("m");
    in.z_inv = host("z_inv");
    in.dout = host("dout");
    return mha_backward(p, in)[number(kGradients)];
  }
  reference::Arithmetic arithmetic(Direction which) const override {
    return mha_arithmetic(problem(which), static_cast<reference::Type>(args_.type));
  }
  reference::Arithmetic arithmetic_of(Direction which, std::string_view name) const override {
    const bool is_number = name.starts_with("amax") || name == "m" || name == "z_inv";
    return is_number ? mha_arithmetic(problem(which), reference::Type::kFloat) : arithmetic(which);
  }

  reference::Mha problem(Direction which) const { return mha_.problem(args_.type, which != kForward); }

  MhaArgs mha_;
};

}  // namespace

std::unique_ptr<Operation> make_mha(const Primitive& primitive, const std::string& base) {
  return std::make_unique<Mha>(primitive, base);
}

}  // namespace polymio::driver
