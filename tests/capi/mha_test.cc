// Attention: its descriptor and the problems of find 2.0, against the reference. On any device.
// SPDX-License-Identifier: MIT
#include "reference/mha.h"

#include <map>
#include <random>

#include "find2_case.h"
#include "heap.h"
#include "on_device.h"

namespace polymio::test {
namespace {

namespace ref = polymio::reference;
using Id = miopenTensorArgumentId_t;

/// There is no function that destroys one.
miopenMhaDescriptor_t descriptor() {
  static const miopenMhaDescriptor_t only = [] {
    miopenMhaDescriptor_t d = nullptr;
    expect_ok(miopenCreateMhaDescriptor(&d));
    return d;
  }();
  return only;
}

TEST(MhaDescriptor, KeepsItsScale) {
  float scale = -1;
  static miopenMhaDescriptor_t d = nullptr;  // static: nothing can destroy it
  expect_ok(miopenCreateMhaDescriptor(&d));
  expect_ok(miopenGetMhaDescriptor(d, &scale));
  EXPECT_EQ(scale, 1);
  expect_ok(miopenSetMhaDescriptor(d, 0.125f));
  expect_ok(miopenGetMhaDescriptor(d, &scale));
  EXPECT_EQ(scale, 0.125f);
  expect_bad(miopenCreateMhaDescriptor(nullptr), {"mhaDesc"});
  expect_bad(miopenSetMhaDescriptor(nullptr, 1), {"attention descriptor", "null"});
  expect_bad(miopenGetMhaDescriptor(nullptr, &scale), {"attention descriptor", "null"});
  expect_bad(miopenGetMhaDescriptor(d, nullptr), {"scale"});
}

/// A tensor of a problem and its contents.
struct Content {
  ref::Tensor tensor;
  Bytes bytes;
  bool is_result = false;
};

/// The tensors of a direction by id: random ones, scalars of 1, dropout, results of NaN.
struct Attention {
  static constexpr int kBatch = 2, kHeads = 2, kSize = 8;

  Attention(ref::Type type, bool is_backward, float probability, bool has_bias, int queries = 5, int keys = 7) {
    p.backward = is_backward;
    p.rounds = ref::is_fp8(type);
    p.scale = 0.25;
    p.probability = probability;
    p.seed = 99;
    p.offset = 3;
    const ref::Tensor of_queries(type, {kBatch, kHeads, queries, kSize}), of_keys(type, {kBatch, kHeads, keys, kSize});
    p.q = p.o = p.dout = p.dq = of_queries;
    p.k = p.v = p.dk = p.dv = of_keys;
    add(miopenTensorMhaQ, p.q);
    add(miopenTensorMhaK, p.k);
    add(miopenTensorMhaV, p.v);
    if (has_bias) add(miopenTensorMhaBias, p.bias = {ref::Type::kFloat, {kBatch, kHeads, queries, keys}});
    add(miopenTensorMhaO, p.o, !is_backward);
    add(miopenTensorMhaM, p.statistics(), !is_backward);
    add(miopenTensorMhaZInv, p.statistics(), !is_backward);
    const ref::Tensor number(ref::Type::kFloat, {1, 1, 1, 1}), integer(ref::Type::kInt64, {1, 1, 1, 1});
    const auto scalar = [&](Id id, const ref::Tensor& t, double value) {
      add(id, t);
      ref::store(t.type, all[id].bytes.data(), 0, value);
    };
    for (const Id id : {miopenTensorMhaDescaleQ, miopenTensorMhaDescaleK, miopenTensorMhaDescaleV,
                        miopenTensorMhaDescaleS, miopenTensorMhaScaleS})
      scalar(id, number, 1);
    for (unsigned id = miopenTensorMhaDescaleO; is_backward && id <= miopenTensorMhaScaleDV; ++id)
      scalar(static_cast<Id>(id), number, 1);
    scalar(miopenTensorMhaDropoutProbability, number, probability);
    scalar(miopenTensorMhaDropoutSeed, integer, static_cast<double>(p.seed));
    scalar(miopenTensorMhaDropoutOffset, integer, static_cast<double>(p.offset));
    if (is_backward) {
      add(miopenTensorMhaDO, p.dout);
      add(miopenTensorMhaDQ, p.dq, true);
      add(miopenTensorMhaDK, p.dk, true);
      add(miopenTensorMhaDV, p.dv, true);
      for (unsigned id = miopenTensorMhaAmaxDQ; id <= miopenTensorMhaAmaxDS; ++id)
        add(static_cast<Id>(id), number, true);
    } else {
      scalar(miopenTensorMhaScaleO, number, p.scale_o = 0.5);
      add(miopenTensorMhaAmaxO, number, true);
      add(miopenTensorMhaAmaxS, number, true);
    }
  }

  void add(Id id, const ref::Tensor& t, bool is_result = false) {
    Bytes bytes(t.bytes(), 0xff);
    std::mt19937 engine(static_cast<unsigned>(id));
    std::uniform_real_distribution<double> values(-1, 1);
    for (std::int64_t i = 0; !is_result && i < t.count(); ++i) ref::store(t.type, bytes.data(), i, values(engine));
    all[id] = {t, bytes, is_result};
  }

  Problem problem(const std::map<Id, Tensor>& descs) const {
    miopenProblem_t raw = nullptr;
    expect_ok(miopenSetMhaDescriptor(descriptor(), static_cast<float>(p.scale)));
    expect_ok(miopenCreateMhaProblem(&raw, descriptor(),
                                     p.backward ? miopenProblemDirectionBackward : miopenProblemDirectionForward));
    expect_ok(miopenSetMhaDescriptor(descriptor(), 7));  // problems have a copy
    for (const auto& [id, desc] : descs) expect_ok(miopenSetProblemTensorDescriptor(raw, id, desc));
    return own(raw);
  }
  std::map<Id, Tensor> descriptors() const {
    std::map<Id, Tensor> descs;
    for (const auto& [id, content] : all)
      descs[id].set(static_cast<miopenDataType_t>(content.tensor.type),
                    Ints(content.tensor.lens.begin(), content.tensor.lens.end()));
    return descs;
  }

  /// Runs on the device with a mask, and compares all results.
  void expect_right(miopenHandle_t handle, miopenSolution_t s, miopenMhaMask_t mask) {
    p.causal = mask == miopenMhaMaskCausal;
    std::map<Id, There> there;
    std::vector<miopenTensorArgument_t> arguments = {{miopenTensorMhaMask, nullptr, &mask}};
    for (auto& [id, content] : all) {
      there.try_emplace(id, handle, content.bytes.data(), content.bytes.size());
      arguments.push_back({id, nullptr, there.at(id)});
    }
    Bytes memory(workspace_of(s) + 1);
    {
      const There workspace(handle, memory);
      expect_ok(miopenRunSolution(handle, s, arguments.size(), arguments.data(), workspace, memory.size() - 1));
    }
    there.clear();
    compare();
  }

  ref::MhaData data() {
    const auto at = [&](Id id) { return all.contains(id) ? all[id].bytes.data() : nullptr; };
    return {at(miopenTensorMhaQ), at(miopenTensorMhaK), at(miopenTensorMhaV),    at(miopenTensorMhaBias),
            at(miopenTensorMhaO), at(miopenTensorMhaM), at(miopenTensorMhaZInv), at(miopenTensorMhaDO)};
  }

  /// Of all rows, forward: the largest relative error of z_inv.
  double error_of_sums() {
    const auto wanted = mha_forward(p, data())[2].value;
    double largest = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const double found =
          ref::load(ref::Type::kFloat, all[miopenTensorMhaZInv].bytes.data(), static_cast<std::int64_t>(i));
      largest = std::max(largest, std::abs(found / wanted[i] - 1));
    }
    return largest;
  }

  void compare() {
    const ref::MhaData data = this->data();
    std::vector<ref::Result> expected;
    std::vector<Id> ids;
    if (p.backward) {
      const auto results = mha_backward(p, data);
      expected.assign(results.begin(), results.end());
      ids = {miopenTensorMhaDQ,     miopenTensorMhaDK,     miopenTensorMhaDV,    miopenTensorMhaAmaxDQ,
             miopenTensorMhaAmaxDK, miopenTensorMhaAmaxDV, miopenTensorMhaAmaxDS};
    } else {
      const auto results = mha_forward(p, data);
      expected.assign(results.begin(), results.end());
      ids = {miopenTensorMhaO, miopenTensorMhaM, miopenTensorMhaZInv, miopenTensorMhaAmaxS, miopenTensorMhaAmaxO};
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const Content& c = all[ids[i]];
      const auto found = ref::compare(mha_arithmetic(p, c.tensor.type), c.tensor, c.bytes.data(), expected[i]);
      EXPECT_TRUE(found.ok()) << "id " << ids[i] << ": element " << found.index << " is " << found.got << " instead of "
                              << found.want;
    }
  }

  ref::Mha p;
  std::map<Id, Content> all;
};

std::string saved(miopenSolution_t s) {
  std::size_t size = 0;
  expect_ok(miopenGetSolutionSize(s, &size));
  std::string bytes(size, 0);
  expect_ok(miopenSaveSolution(s, bytes.data()));
  return bytes;
}

/// Find without options, runs with and without a mask, and the same after save and load.
TEST(MhaProblem, SolutionsOfBothDirectionsAreRight) {
  const DeviceHandle handle;
  for (const ref::Type type : {ref::Type::kFloat, ref::Type::kHalf, ref::Type::kBFloat16, ref::Type::kFloat8Fnuz})
    for (const bool is_backward : {false, true}) {
      if (!sampled()) continue;
      SCOPED_TRACE(std::string(ref::type_name(type)) + (is_backward ? " backward" : " forward"));
      Attention a(type, is_backward, is_backward ? 0.25f : 0.5f, type != ref::Type::kHalf);
      const auto descs = a.descriptors();
      const auto found = find(handle, a.problem(descs));
      ASSERT_FALSE(found.empty());
      for (const Solution& solution : found) {
        EXPECT_GT(time_of(solution), 0);
        EXPECT_EQ(source_of(solution), polymioSourceMeasured);
        const std::string bytes = saved(solution);
        miopenSolution_t raw = nullptr;
        expect_ok(miopenLoadSolution(&raw, bytes.data(), bytes.size()));
        const Solution loaded(raw, miopenDestroySolution);
        EXPECT_EQ(saved(loaded), bytes);
        a.expect_right(handle, solution, miopenMhaMaskNone);
        a.expect_right(handle, loaded, miopenMhaMaskCausal);
      }
    }
}

/// The usual masks of other libraries: more than a block of keys, and all keys of a query.
TEST(MhaProblem, SolutionsTakeBiasesOfTheLeastFloat) {
  const DeviceHandle handle;
  for (const ref::Type type : {ref::Type::kFloat, ref::Type::kBFloat16}) {
    constexpr int kKeys = 520, kHidden = 300;
    Attention a(type, false, 0, true, 4, kKeys);
    Content& bias = a.all[miopenTensorMhaBias];
    for (std::int64_t i = 0; i < bias.tensor.count(); ++i)
      if (i % kKeys < kHidden || i / kKeys % 4 == 1)
        ref::store(bias.tensor.type, bias.bytes.data(), i, std::numeric_limits<float>::lowest());
    for (const Solution& solution : find(handle, a.problem(a.descriptors())))
      a.expect_right(handle, solution, miopenMhaMaskNone);
  }
}

/// Each block of keys leaves what the ones before added as it is, as long as none has a larger score.
TEST(MhaProblem, SolutionsOfManyKeysAreRight) {
  const DeviceHandle handle;
  Attention a(ref::Type::kFloat, false, 0, false, 4, 16384);
  for (const miopenTensorArgumentId_t id : {miopenTensorMhaQ, miopenTensorMhaK}) {
    Content& content = a.all[id];
    for (std::int64_t i = 0; i < content.tensor.count(); ++i)
      ref::store(content.tensor.type, content.bytes.data(), i,
                 10 * ref::load(content.tensor.type, content.bytes.data(), i));
  }
  for (const Solution& solution : find(handle, a.problem(a.descriptors()))) {
    a.expect_right(handle, solution, miopenMhaMaskNone);
    EXPECT_LT(a.error_of_sums(), 5e-5);
  }
}

TEST(MhaProblem, WarmRunsDoNotAllocate) {
  const Handle handle;
  for (const bool is_backward : {false, true}) {
    Attention a(ref::Type::kFloat, is_backward, 0, true);
    const auto found = find(handle, a.problem(a.descriptors()));
    ASSERT_FALSE(found.empty());
    std::vector<miopenTensorArgument_t> arguments;
    for (auto& [id, content] : a.all) arguments.push_back({id, nullptr, content.bytes.data()});
    Bytes workspace(workspace_of(found[0]) + 1);
    const auto run = [&] {
      return miopenRunSolution(handle, found[0], arguments.size(), arguments.data(), workspace.data(),
                               workspace.size() - 1);
    };
    EXPECT_EQ(warm_allocations(run), 0u);
  }
}

TEST(MhaProblem, EveryTensorIsNeeded) {
  const Handle handle;
  for (const bool is_backward : {false, true}) {
    Attention a(ref::Type::kFloat, is_backward, 0, false);
    const auto descs = a.descriptors();
    const auto found = find(handle, a.problem(descs), nullptr, 1);
    ASSERT_EQ(found.size(), 1u);
    for (const auto& [missing, unused] : descs) {
      const std::string id = "(" + std::to_string(missing) + ")";
      auto some = a.descriptors();
      some.erase(missing);
      miopenSolution_t s = nullptr;
      std::size_t n = 0;
      expect_error(miopenFindSolutions(handle, a.problem(some), nullptr, &s, &n, 1), miopenStatusInvalidValue,
                   {"no descriptor for miopenTensorMha"});
      std::vector<miopenTensorArgument_t> arguments;
      for (auto& [given, content] : a.all)
        if (given != missing) arguments.push_back({given, nullptr, content.bytes.data()});
      expect_error(run(handle, found[0], arguments), miopenStatusInvalidValue, {"no buffer", id.c_str()});
    }
  }
}

TEST(MhaProblem, WrongArguments) {
  const Handle handle;
  miopenProblem_t raw = nullptr;
  miopenSolution_t s = nullptr;
  std::size_t n = 0;
  expect_bad(miopenCreateMhaProblem(nullptr, descriptor(), miopenProblemDirectionForward), {"problem is null"});
  expect_bad(miopenCreateMhaProblem(&raw, nullptr, miopenProblemDirectionForward), {"attention descriptor", "null"});
  expect_ok(miopenCreateMhaProblem(&raw, descriptor(), miopenProblemDirectionInference));
  const Problem other = own(raw);
  expect_error(miopenFindSolutions(handle, other, nullptr, &s, &n, 1), miopenStatusNotImplemented, {"direction 4"});
  expect_error(miopenFuseProblems(other, other), miopenStatusNotImplemented, {"attention", "fused"});
  Attention a(ref::Type::kFloat, false, 0.5f, true);
  const auto refused = [&](Id id, miopenDataType_t type, const Ints& sizes, std::initializer_list<const char*> parts) {
    auto descs = a.descriptors();
    descs[id].set(type, sizes);
    expect_bad(miopenFindSolutions(handle, a.problem(descs), nullptr, &s, &n, 1), parts);
  };
  refused(miopenTensorMhaQ, miopenFloat, {2, 2, 5}, {"q has 3", "4"});
  refused(miopenTensorMhaK, miopenHalf, {2, 2, 7, 8}, {"k is fp16", "q is fp32"});
  refused(miopenTensorMhaV, miopenFloat, {2, 2, 6, 8}, {"v is 2x2x6x8", "size 7 in dimension 2"});
  refused(miopenTensorMhaM, miopenFloat, {2, 2, 7, 1}, {"miopenTensorMhaM", "2x2x5x1"});
  refused(miopenTensorMhaScaleS, miopenHalf, {1}, {"miopenTensorMhaScaleS", "fp32", "fp16"});
  refused(miopenTensorMhaDropoutSeed, miopenFloat, {1}, {"miopenTensorMhaDropoutSeed", "int64"});
  refused(miopenTensorMhaBias, miopenFloat, {2, 2, 5, 5}, {"bias is 2x2x5x5", "size 7"});
  refused(miopenTensorMhaQ, miopenDouble, {2, 2, 5, 8}, {"fp64"});
  EXPECT_EQ(s, nullptr);

  const auto found = find(handle, a.problem(a.descriptors()), nullptr, 1);
  ASSERT_EQ(found.size(), 1u);
  std::vector<miopenTensorArgument_t> arguments;
  for (auto& [id, content] : a.all) arguments.push_back({id, nullptr, content.bytes.data()});
  int mask = 2;
  arguments.push_back({miopenTensorMhaMask, nullptr, &mask});
  expect_bad(run(handle, found[0], arguments), {"mask 2", "1 (causal)"});
  arguments.pop_back();
  for (auto& argument : arguments)
    if (argument.id == miopenTensorMhaO) argument.buffer = a.all[miopenTensorMhaQ].bytes.data();
  expect_bad(run(handle, found[0], arguments), {"o overlaps q"});
  const Bytes nan(a.all[miopenTensorMhaM].bytes.size(), 0xff);
  EXPECT_EQ(a.all[miopenTensorMhaM].bytes, nan) << "a refused call writes nothing";
}

}  // namespace
}  // namespace polymio::test
