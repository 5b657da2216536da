// Find 2.0: batch norm problems, and fused problems of any chain: every solution measured, run, saved and loaded. On
// any device.
// SPDX-License-Identifier: MIT
#include <map>
#include <memory>

#include "find2_case.h"
#include "fusion_case.h"

namespace polymio::test {
namespace {

/// Host memory of an argument: floats, which a run has on the handle's device, or a scalar.
struct HostBuffer {
  HostBuffer() = default;
  HostBuffer(Floats& floats) : data(floats.data()), bytes(floats.size() * sizeof(float)) {}  // NOLINT: a view
  HostBuffer(double* scalar) : data(scalar) {}                                               // NOLINT: a view

  void* data = nullptr;
  std::size_t bytes = 0;  // 0: a scalar
  miopenTensorDescriptor_t* desc = nullptr;
};
using Buffers = std::map<miopenTensorArgumentId_t, HostBuffer>;

miopenStatus_t run_there(miopenHandle_t handle, miopenSolution_t solution, const Buffers& buffers,
                         bool has_workspace = true) {
  std::vector<std::unique_ptr<There>> there;
  std::vector<miopenTensorArgument_t> arguments;
  for (const auto& [id, buffer] : buffers) {
    if (buffer.bytes > 0) there.push_back(std::make_unique<There>(handle, buffer.data, buffer.bytes));
    arguments.push_back({id, buffer.desc, buffer.bytes > 0 ? static_cast<void*>(*there.back()) : buffer.data});
  }
  Bytes memory(has_workspace ? workspace_of(solution) : 0);
  const There workspace(handle, memory);
  return miopenRunSolution(handle, solution, arguments.size(), arguments.data(),
                           memory.empty() ? nullptr : static_cast<void*>(workspace), memory.size());
}

struct Chains : testing::Test {
  Chains() {
    expect_ok(miopenInitConvolutionNdDescriptor(convolution, 2, kOne, kOne, kOne, miopenConvolution));
    expect_ok(miopenSetActivationDescriptor(activation, data.mode, data.alpha, data.beta, data.gamma));
    w_memory = data.w;
  }
  void set(miopenProblem_t p, miopenTensorArgumentId_t id, miopenTensorDescriptor_t desc) {
    expect_ok(miopenSetProblemTensorDescriptor(p, id, desc));
  }

  Problem norm_problem(miopenProblemDirection_t direction, bool running = false, bool with_x = true) {
    miopenProblem_t p = nullptr;
    expect_ok(miopenCreateBatchnormProblem(&p, miopenBNSpatial, running, direction));
    set(p, miopenTensorBatchnormScale, channels);
    set(p, miopenTensorBatchnormBias, channels);
    if (with_x) set(p, miopenTensorBatchnormX, image);
    if (direction == miopenProblemDirectionBackward) {
      for (const auto id : {miopenTensorBatchnormDY, miopenTensorBatchnormDX}) set(p, id, image);
      for (const auto id : {miopenTensorBatchnormScaleDiff, miopenTensorBatchnormBiasDiff,
                            miopenTensorBatchnormSavedMean, miopenTensorBatchnormSavedVariance})
        set(p, id, channels);
      return own(p);
    }
    set(p, miopenTensorBatchnormY, image);
    const bool inference = direction == miopenProblemDirectionInference;
    for (const auto id : {inference ? miopenTensorBatchnormEstimatedMean : miopenTensorBatchnormSavedMean,
                          inference ? miopenTensorBatchnormEstimatedVariance : miopenTensorBatchnormSavedVariance})
      set(p, id, channels);
    if (running)
      for (const auto id : {miopenTensorBatchnormRunningMean, miopenTensorBatchnormRunningVariance})
        set(p, id, channels);
    return own(p);
  }

  /// One operation of a chain, with what it reads; `first`: it reads the input of the chain.
  Problem part(char operation, bool first) {
    miopenProblem_t p = nullptr;
    switch (operation) {
      case 'C':
        expect_ok(miopenCreateConvProblem(&p, convolution, miopenProblemDirectionForward));
        if (first) set(p, miopenTensorConvolutionX, image);
        set(p, miopenTensorConvolutionW, filter);
        buffers[miopenTensorConvolutionW] = w_memory;
        return own(p);
      case 'B':
        expect_ok(miopenCreateBiasProblem(&p, miopenProblemDirectionForward));
        if (first) set(p, miopenTensorBiasX, image);
        set(p, miopenTensorBias, channels);
        buffers[miopenTensorBias] = data.bias;
        return own(p);
      case 'A':
        expect_ok(miopenCreateActivationProblem(&p, activation, miopenProblemDirectionForward));
        if (first) set(p, miopenTensorActivationX, image);
        return own(p);
      default: {
        const bool inference = operation == 'N';
        add_norm_buffers(inference);
        return norm_problem(inference ? miopenProblemDirectionInference : miopenProblemDirectionForward, false, first);
      }
    }
  }
  void add_norm_buffers(bool inference) {
    buffers[miopenTensorBatchnormScale] = data.scale;
    buffers[miopenTensorBatchnormBias] = data.shift;
    buffers[miopenScalarBatchnormEpsilon] = &epsilon;
    if (!inference) {
      buffers[miopenScalarBatchnormExpAvgFactor] = &factor;
      buffers[miopenTensorBatchnormSavedMean] = saved_mean;
      buffers[miopenTensorBatchnormSavedVariance] = saved_inverse;
      return;
    }
    buffers[miopenTensorBatchnormEstimatedMean] = data.mean;
    buffers[miopenTensorBatchnormEstimatedVariance] = data.variance;
  }
  static miopenTensorArgumentId_t end_id(char operation, bool input) {
    switch (operation) {
      case 'C': return input ? miopenTensorConvolutionX : miopenTensorConvolutionY;
      case 'B': return input ? miopenTensorBiasX : miopenTensorBiasY;
      case 'A': return input ? miopenTensorActivationX : miopenTensorActivationY;
      default: return input ? miopenTensorBatchnormX : miopenTensorBatchnormY;
    }
  }

  /// Runs a measured solution, then its saved form on another handle; `check` sees the results of both.
  template <class Check>
  void expect_solutions(miopenProblem_t p, const Check& check) {
    const auto solutions = find(handle, p);
    ASSERT_GE(solutions.size(), 1u);
    float before = 0;
    for (const Solution& s : solutions) {
      EXPECT_EQ(source_of(s), polymioSourceMeasured);
      EXPECT_GT(time_of(s), 0);
      EXPECT_GE(time_of(s), before);
      before = time_of(s);
      expect_ok(run_there(handle, s, buffers));
      check();
      miopenSolution_t raw = nullptr;
      expect_ok(load(save(s), raw));
      const Solution loaded(raw, miopenDestroySolution);
      EXPECT_EQ(id_of(loaded), id_of(s));
      EXPECT_EQ(time_of(loaded), time_of(s));
      std::fill(y.begin(), y.end(), -99.0F);
      const DeviceHandle fresh;
      expect_ok(run_there(fresh, loaded, buffers));
      check();
    }
  }
  void expect_chain(const std::string& chain) {
    const testing::ScopedTrace trace("chain", 0, chain);
    buffers.clear();
    const Problem all = part(chain[0], true);
    for (std::size_t i = 1; i < chain.size(); ++i) expect_ok(miopenFuseProblems(all, part(chain[i], false)));
    buffers[end_id(chain[0], true)] = data.x;
    buffers[end_id(chain.back(), false)] = y;
    const Doubles want = data.expected(chain);
    expect_solutions(all, [&] { data.expect_result(y, want, chain); });
  }

  /// The gradients of a batch norm and an activation ("NA", "AN"), or of a batch norm ("N"); `all`: with descriptors of
  /// the activation's tensors too.
  Problem gradient_problem(const std::string& chain, miopenTensorDescriptor_t dx, bool all) {
    Problem norm = norm_problem(miopenProblemDirectionBackward);
    set(norm, miopenTensorBatchnormDX, dx);
    if (chain == "N") return norm;
    expect_ok(miopenSetActivationDescriptor(activation, data.mode, data.alpha, data.beta, data.gamma));
    miopenProblem_t raw = nullptr;
    expect_ok(miopenCreateActivationProblem(&raw, activation, miopenProblemDirectionBackward));
    Problem gradient = own(raw);
    if (all)
      for (const auto id : {miopenTensorActivationDY, miopenTensorActivationDX}) set(gradient, id, image);
    const bool norm_first = chain == "NA";
    expect_ok(miopenFuseProblems(norm_first ? norm : gradient, norm_first ? gradient : norm));
    return norm_first ? std::move(norm) : std::move(gradient);
  }

  /// The operands of gradients, and what is right.
  struct Gradients {
    Gradients(Chains& chains, miopenActivationMode_t mode) : data(chains.data), dx(chains.y) {
      data.mode = mode == miopenActivationPASTHRU ? miopenActivationLEAKYRELU : mode;
      data.alpha = mode == miopenActivationPASTHRU ? 1 : 0.75;  // a slope of 1 is none
      want = data.gradients(data.images.dense(dy));
      mean.assign(want.mean.begin(), want.mean.end());
      inverse.assign(want.inverse.begin(), want.inverse.end());
    }
    Buffers buffers() {
      return {{miopenTensorBatchnormX, data.x},
              {miopenTensorBatchnormScale, data.scale},
              {miopenTensorBatchnormBias, data.shift},
              {miopenTensorBatchnormDX, dx},
              {miopenTensorBatchnormScaleDiff, dscale},
              {miopenTensorBatchnormBiasDiff, dbias},
              {miopenTensorBatchnormSavedMean, mean},
              {miopenTensorBatchnormSavedVariance, inverse},
              {miopenTensorBatchnormDY, dy}};
    }
    void expect_right(const Floats& result) const {
      data.expect_result(result, want.dx, "dx");
      for (std::size_t c = 0; c < 4; ++c) {
        EXPECT_NEAR(dscale[c], want.dscale[c], 1e-4);
        EXPECT_NEAR(dbias[c], want.dbias[c], 1e-4);
      }
    }
    ChainData& data;
    Floats& dx;
    ChainData::Gradients want;
    Floats dy = random_floats(Images::kCount, 20), dscale = Floats(4), dbias = Floats(4), mean, inverse;
  };

  void expect_gradients(const std::string& chain, miopenActivationMode_t mode, bool channels_last) {
    const testing::ScopedTrace trace("gradients", 0, chain);
    Gradients g(*this, mode);
    const Images layout{channels_last};
    const Tensor dx{miopenFloat, layout.lens(), layout.strides()};
    const Problem p = gradient_problem(chain, dx, false);
    buffers = g.buffers();
    if (chain == "N") buffers.erase(miopenTensorBatchnormBias);  // nothing reads it
    expect_solutions(p, [&] { g.expect_right(layout.permuted<float>(y, false)); });
  }

  /// Where the operations of a saved chain are; behind them are three numbers of a batch norm and the direction.
  static std::size_t order_of(const std::string& bytes) {
    std::size_t at = 16;
    const auto number = [&] {
      std::int64_t v = 0;
      std::memcpy(&v, bytes.data() + at, 8);
      at += 8;
      return static_cast<std::size_t>(v);
    };
    const auto skip = [&](std::size_t count) { at += 8 * count; };
    skip(2);         // the solver's id and version
    skip(number());  // and name
    skip(4);         // the kind, what is fused, whether the convolution is transposed
    for (int list = 0; list < 4; ++list) skip(number());
    skip(7);  // the rest of the convolution
    skip(1);  // the length of the order
    return at;
  }

  static constexpr int kOne[] = {1, 1};
  DeviceHandle handle;
  ChainData data;
  Tensor image{miopenFloat, {2, 4, 7, 6}}, filter{miopenFloat, {4, 4, 3, 3}}, channels{miopenFloat, {1, 4, 1, 1}};
  ConvolutionDescriptor convolution;
  Activation activation;
  Floats w_memory, y = Floats(Images::kCount), saved_mean = Floats(4), saved_inverse = Floats(4);
  double epsilon = kEpsilon, factor = kFactor;
  Buffers buffers;
};

TEST_F(Chains, EveryOrderRuns) {
  for (const char* chain : {"A",   "B",   "N",    "T",   "NA",  "TA",   "BA", "AB",  "BN",  "CN",
                            "CNA", "CBN", "CBNA", "CTA", "CAB", "CABN", "AC", "NAC", "TBA", "NCA"})
    if (sampled()) expect_chain(chain);
}

TEST_F(Chains, ABatchNormUpdatesItsMoments) {
  Floats running_mean, running_variance;
  add_norm_buffers(false);
  buffers[miopenTensorBatchnormX] = data.x;
  buffers[miopenTensorBatchnormY] = y;
  const Problem p = norm_problem(miopenProblemDirectionForward, true);
  const auto solutions = find(handle, p);
  ASSERT_GE(solutions.size(), 1u);
  running_mean = data.mean;
  running_variance = data.variance;
  buffers[miopenTensorBatchnormRunningMean] = running_mean;
  expect_error(run_there(handle, solutions[0], buffers), miopenStatusInvalidValue,
               {"miopenTensorBatchnormRunningVariance"});
  buffers[miopenTensorBatchnormRunningVariance] = running_variance;
  expect_ok(run_there(handle, solutions[0], buffers));
  const auto [mean, variance] = ChainData::moments(data.images.dense(data.x));
  for (std::size_t c = 0; c < 4; ++c) {
    EXPECT_NEAR(running_mean[c], 0.75 * data.mean[c] + 0.25 * mean[c], 1e-5);
    EXPECT_NEAR(running_variance[c], 0.75 * data.variance[c] + 0.25 * variance[c] * 84 / 83, 1e-5);
    EXPECT_NEAR(saved_mean[c], mean[c], 1e-5);
    EXPECT_NEAR(saved_inverse[c], 1 / std::sqrt(variance[c] + kEpsilon), 1e-4);
  }
}

TEST_F(Chains, Gradients) {
  for (const bool channels_last : {false, true}) {  // dx, and never dy
    expect_gradients("N", miopenActivationPASTHRU, channels_last);
    for (const auto mode : {miopenActivationRELU, miopenActivationTANH})
      for (const char* chain : {"NA", "AN"}) expect_gradients(chain, mode, channels_last);
  }
}

// That of clipped ReLU is not told by the result.
TEST_F(Chains, TheGradientOfAnActivationAlone) {
  data.mode = miopenActivationCLIPPEDRELU;
  expect_ok(miopenSetActivationDescriptor(activation, data.mode, data.alpha, data.beta, data.gamma));
  miopenProblem_t raw = nullptr;
  expect_ok(miopenCreateActivationProblem(&raw, activation, miopenProblemDirectionBackward));
  const Problem p = own(raw);
  for (const auto id : {miopenTensorActivationDY, miopenTensorActivationDX}) set(p, id, image);
  miopenSolution_t none = nullptr;
  expect_error(miopenFindSolutions(handle, p, nullptr, &none, nullptr, 1), miopenStatusInvalidValue,
               {"miopenTensorActivationX"});
  for (const auto id : {miopenTensorActivationX, miopenTensorActivationY}) set(p, id, image);
  const Floats dy = random_floats(Images::kCount, 20);
  Doubles want;
  for (std::size_t i = 0; i < dy.size(); ++i) want.push_back(dy[i] * data.derivative(static_cast<double>(data.x[i])));
  Floats gradients = dy;
  buffers = {{miopenTensorActivationX, data.x}, {miopenTensorActivationDY, gradients}, {miopenTensorActivationDX, y}};
  expect_solutions(p, [&] { data.expect_result(y, want, "the gradient"); });
}

TEST_F(Chains, GradientsGoFromTheActivationsToTheBatchNorms) {
  Gradients g(*this, miopenActivationRELU);
  for (const char* chain : {"NA", "AN"}) {
    const Problem p = gradient_problem(chain, image, true);
    buffers = g.buffers();
    Floats between(Images::kCount), wrong = random_floats(Images::kCount, 21);
    buffers[miopenTensorActivationDY] = g.dy;
    buffers[miopenTensorBatchnormDY] = wrong;
    buffers[miopenTensorActivationDX] = between;
    expect_solutions(p, [&] { g.expect_right(y); });
    EXPECT_EQ(between, Floats(Images::kCount));
  }
}

TEST_F(Chains, ARunMayNameAnotherInput) {
  Gradients g(*this, miopenActivationRELU);
  const Problem p = gradient_problem("NA", image, false);
  const auto solutions = find(handle, p);
  ASSERT_GE(solutions.size(), 1u);
  buffers = g.buffers();
  buffers.erase(miopenTensorBatchnormDY);
  miopenTensorDescriptor_t desc = image;
  buffers[miopenTensorActivationDY] = g.dy;
  buffers[miopenTensorActivationDY].desc = &desc;
  expect_ok(run_there(handle, solutions[0], buffers));
  g.expect_right(y);
}

TEST_F(Chains, ParametersThatNothingDescribes) {
  const Tensor half{miopenHalf, {1, 4, 1, 1}}, wide{miopenDouble, {2, 4, 7, 6}};
  const auto bytes_of = [&](miopenProblemDirection_t direction, const Tensor& x, const Tensor& scale,
                            std::initializer_list<miopenTensorArgumentId_t> images) {
    miopenProblem_t raw = nullptr;
    expect_ok(miopenCreateBatchnormProblem(&raw, miopenBNSpatial, true, direction));
    const Problem p = own(raw);
    set(p, miopenTensorBatchnormScale, scale);
    for (const auto id : images) set(p, id, x);
    expect_ok(polymioSetWorkspaceLimit(handle, 1));
    miopenSolution_t s = nullptr;
    std::size_t n = 0;
    expect_bad(miopenFindSolutions(handle, p, nullptr, &s, &n, 1), {"no room for the tensors"});
    const std::string text = polymioGetLastError();
    expect_ok(polymioSetWorkspaceLimit(handle, SIZE_MAX));
    EXPECT_GE(find(handle, p).size(), 1u);
    return std::stoul(text.substr(text.find("They have ") + 10));
  };
  const auto forward = {miopenTensorBatchnormX}, backward = {miopenTensorBatchnormX, miopenTensorBatchnormDY};
  constexpr std::size_t kImage = 4 * Images::kCount;
  EXPECT_EQ(bytes_of(miopenProblemDirectionInference, image, half, forward), 2 * kImage + 2 * 8 + 2 * 16);
  EXPECT_EQ(bytes_of(miopenProblemDirectionForward, wide, channels, forward), 4 * kImage + 2 * 16 + 2 * 32);
  EXPECT_EQ(bytes_of(miopenProblemDirectionBackward, image, half, backward), 3 * kImage + 3 * 8 + 2 * 16);
}

TEST_F(Chains, ParametersOfDifferentTypesAreBadParm) {
  const Tensor half{miopenHalf, {1, 4, 1, 1}}, wide{miopenDouble, {1, 4, 1, 1}}, more{miopenFloat, {1, 5, 1, 1}};
  const auto refuses = [&](miopenProblemDirection_t direction, miopenTensorArgumentId_t id, miopenTensorDescriptor_t t,
                           const char* first, const char* second) {
    const Problem p = norm_problem(direction, true);
    set(p, id, t);
    miopenSolution_t s = nullptr;
    std::size_t n = 0;
    expect_bad(miopenFindSolutions(handle, p, nullptr, &s, &n, 1), {first, second});
  };
  refuses(miopenProblemDirectionBackward, miopenTensorBatchnormBias, half, "BatchnormBias", "BatchnormBiasDiff");
  refuses(miopenProblemDirectionBackward, miopenTensorBatchnormScaleDiff, more, "BatchnormBias", "BatchnormScaleDiff");
  refuses(miopenProblemDirectionForward, miopenTensorBatchnormSavedVariance, wide, "BatchnormRunningMean",
          "BatchnormSavedVariance");
  refuses(miopenProblemDirectionInference, miopenTensorBatchnormEstimatedMean, wide, "BatchnormRunningMean",
          "BatchnormEstimatedMean");
}

TEST_F(Chains, ForgedSolutionsAreRefused) {
  const auto saved = [&](const std::string& chain) {
    const Problem p = part(chain[0], true);
    for (std::size_t i = 1; i < chain.size(); ++i) expect_ok(miopenFuseProblems(p, part(chain[i], false)));
    return save(find(handle, p).front());
  };
  const auto refuses = [](std::string bytes, std::size_t at, std::initializer_list<std::int64_t> values,
                          const char* text) {
    for (const std::int64_t value : values) {
      std::memcpy(bytes.data() + at, &value, 8);
      at += 8;
    }
    miopenSolution_t s = nullptr;
    expect_error(load(signed_again(bytes), s), miopenStatusInvalidValue, {text});
    EXPECT_EQ(s, nullptr);
  };
  const std::string with_convolution = saved("CAB"), with_bias = saved("BA");
  refuses(with_convolution, order_of(with_convolution), {1, 2, 3}, "another kind");
  refuses(with_bias, order_of(with_bias) + 5 * 8, {miopenProblemDirectionBackward}, "cannot be fused");
}

TEST_F(Chains, WorkspaceAndMissingArgumentsAreReported) {
  buffers.clear();
  const Problem all = part('C', true);
  expect_ok(miopenFuseProblems(all, part('N', false)));
  buffers[miopenTensorConvolutionX] = data.x;
  buffers[miopenTensorBatchnormY] = y;
  const auto solutions = find(handle, all);
  ASSERT_GE(solutions.size(), 2u);            // convolutions have several solvers
  EXPECT_GT(workspace_of(solutions[0]), 0u);  // for the scale and the bias that the batch norm becomes
  expect_bad(run_there(handle, solutions[0], buffers, false), {"workspace", "0 were given"});
  for (const auto id : {miopenScalarBatchnormEpsilon, miopenTensorBatchnormEstimatedMean, miopenTensorConvolutionW}) {
    Buffers fewer = buffers;
    fewer.erase(id);
    expect_error(run_there(handle, solutions[0], fewer), miopenStatusInvalidValue, {"no buffer", "miopen"});
  }
  buffers[miopenTensorSoftmaxX] = data.x;
  expect_bad(run_there(handle, solutions[0], buffers), {"does not belong"});
}

TEST_F(Chains, WrongBatchNormProblemsAreBadParm) {
  miopenProblem_t p = nullptr;
  expect_bad(miopenCreateBatchnormProblem(&p, miopenBNSpatial, false, miopenProblemDirectionBackwardWeights),
             {"direction 2", "4 (inference)"});
  expect_bad(
      miopenCreateBatchnormProblem(&p, static_cast<miopenBatchNormMode_t>(3), false, miopenProblemDirectionForward),
      {"mode 3"});
  expect_bad(miopenCreateBatchnormProblem(nullptr, miopenBNSpatial, false, miopenProblemDirectionForward), {"null"});
  const Problem norm = norm_problem(miopenProblemDirectionInference);
  expect_bad(miopenSetProblemTensorDescriptor(norm, miopenScalarBatchnormEpsilon, channels), {"scalar"});
  expect_bad(miopenSetProblemTensorDescriptor(norm, miopenTensorBiasX, channels), {"miopenTensorBatchnormX"});
  const Problem gradient = norm_problem(miopenProblemDirectionBackward), convolution_problem = part('C', true);
  expect_error(miopenFuseProblems(convolution_problem, gradient), miopenStatusUnsupportedOp, {"forward"});
  expect_error(miopenFuseProblems(norm, gradient), miopenStatusUnsupportedOp, {"same ids"});
  miopenProblem_t raw = nullptr;
  expect_ok(miopenCreateBatchnormProblem(&raw, miopenBNSpatial, false, miopenProblemDirectionInference));
  const Problem empty = own(raw);
  miopenSolution_t s = nullptr;
  std::size_t n = 0;
  expect_error(miopenFindSolutions(handle, empty, nullptr, &s, &n, 1), miopenStatusInvalidValue,
               {"miopenTensorBatchnormX"});
}

}  // namespace
}  // namespace polymio::test
