// The softmax API: forward and backward against the reference, in place, errors with their texts; the descriptor and
// the problems of find 2.0. On any device.
// SPDX-License-Identifier: MIT
#include "reference/softmax.h"

#include <cmath>
#include <limits>
#include <random>

#include "find2_case.h"
#include "on_device.h"

namespace polymio::test {
namespace {

namespace ref = polymio::reference;

const Ints kSizes = {2, 5, 3, 7};

/// The numbers of a call, which may be beyond the enumerations.
struct Kind {
  int algorithm, mode;
  miopenSoftmaxAlgorithm_t a() const { return number<miopenSoftmaxAlgorithm_t>(algorithm); }
  miopenSoftmaxMode_t m() const { return number<miopenSoftmaxMode_t>(mode); }
  template <class Enum>
  static Enum number(int value) {
    Enum e;
    std::memcpy(&e, &value, sizeof e);
    return e;
  }
};

ref::Softmax wanted(const Kind& kind, bool backward, const ref::Tensor& t, double scale = 1, double keep = 0) {
  return {backward, kind.algorithm == 2, kind.mode == 0, scale, keep, t, t, t};
}

Bytes random(const ref::Tensor& t, unsigned seed, double limit) {
  Bytes bytes(t.bytes());
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> values(-limit, limit);
  for (std::int64_t i = 0; i < t.count(); ++i) ref::store(t.type, bytes.data(), t.offset(i), values(engine));
  return bytes;
}

struct SoftmaxApi : testing::Test {
  miopenStatus_t forward(const Kind& k, miopenTensorDescriptor_t desc, const void* x, void* y) {
    return miopenSoftmaxForward_V2(handle, &kOne, desc, x, &kZero, desc, y, k.a(), k.m());
  }
  miopenStatus_t backward(const Kind& k, miopenTensorDescriptor_t desc, const void* y, const void* dy, void* dx) {
    return miopenSoftmaxBackward_V2(handle, &kOne, desc, y, desc, dy, &kZero, desc, dx, k.a(), k.m());
  }
  static void expect_right(const ref::Softmax& p, const Bytes& got, const Bytes& in, const Bytes& dy,
                           const Bytes& old = {}) {
    const auto found = ref::compare(arithmetic(p), p.out, got.data(), evaluate(p, in.data(), dy.data(), old.data()));
    EXPECT_TRUE(found.ok()) << "element " << found.index << " is " << found.got << " instead of " << found.want;
  }

  DeviceHandle handle;
};

TEST_F(SoftmaxApi, EveryAlgorithmModeAndTypeOutOfPlaceAndInPlace) {
  for (const miopenDataType_t type : {miopenFloat, miopenHalf, miopenBFloat16, miopenDouble})
    for (const Kind kind : {Kind{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}}) {
      if (!sampled()) continue;
      SCOPED_TRACE("type " + std::to_string(type) + " algorithm " + std::to_string(kind.algorithm) + " mode " +
                   std::to_string(kind.mode));
      const Tensor desc(type, kSizes);
      const ref::Tensor t(static_cast<ref::Type>(type), {2, 5, 3, 7});
      const double scales[] = {1, 0, 0.5, -2};
      const float floats[] = {1, 0, 0.5, -2};
      const auto scalar = [&](int i) {
        return type == miopenDouble ? static_cast<const void*>(scales + i) : floats + i;
      };
      const Bytes x = random(t, 1, 8), dy = random(t, 2, 2);
      Bytes y(x.size(), 0xff), dx(x.size(), 0xff), both = x, gradient = dy, blended = x;
      expect_ok(miopenSoftmaxForward_V2(handle, scalar(0), desc, There(handle, x), scalar(1), desc, There(handle, y),
                                        kind.a(), kind.m()));
      expect_right(wanted(kind, false, t), y, x, {});
      expect_ok(miopenSoftmaxBackward_V2(handle, scalar(0), desc, There(handle, y), desc, There(handle, dy), scalar(1),
                                         desc, There(handle, dx), kind.a(), kind.m()));
      expect_right(wanted(kind, true, t), dx, y, dy);
      expect_ok(miopenSoftmaxBackward_V2(handle, scalar(2), desc, There(handle, y), desc, There(handle, dy), scalar(3),
                                         desc, There(handle, blended), kind.a(), kind.m()));
      expect_right(wanted(kind, true, t, 0.5, -2), blended, y, dy, x);
      {
        const There there(handle, both);
        expect_ok(miopenSoftmaxForward_V2(handle, scalar(0), desc, there, scalar(1), desc, there, kind.a(), kind.m()));
      }
      EXPECT_EQ(both, y);
      {
        const There there(handle, gradient);
        expect_ok(miopenSoftmaxBackward_V2(handle, scalar(0), desc, There(handle, y), desc, there, scalar(1), desc,
                                           there, kind.a(), kind.m()));
      }
      EXPECT_EQ(gradient, dx);
    }
}

/// Dimensions of rows and of pixels are merged, those of a row with others are not.
TEST_F(SoftmaxApi, MoreDimensionsThanKernelsHave) {
  for (const Ints& sizes : {Ints{2, 3, 2, 3, 2, 2}, Ints{2, 3, 1, 2, 2, 1, 3, 2}, Ints{1, 4, 2, 2, 1, 3, 2}})
    for (const Kind kind : {Kind{1, 0}, {1, 1}, {2, 1}}) {
      SCOPED_TRACE(testing::Message() << "rank " << sizes.size() << " mode " << kind.mode);
      const Tensor desc(miopenFloat, sizes);
      const ref::Tensor t(ref::Type::kFloat, {sizes.begin(), sizes.end()});
      const Bytes x = random(t, 1, 4), dy = random(t, 2, 2);
      Bytes y(x.size(), 0xff), dx(x.size(), 0xff);
      expect_ok(forward(kind, desc, There(handle, x), There(handle, y)));
      expect_right(wanted(kind, false, t), y, x, {});
      expect_ok(backward(kind, desc, There(handle, y), There(handle, dy), There(handle, dx)));
      expect_right(wanted(kind, true, t), dx, y, dy);
    }
  const Tensor apart(miopenFloat, {2, 2, 2, 2, 2, 2}, {3, 7, 15, 31, 63, 127});
  Bytes memory(512 * sizeof(float));
  const There there(handle, memory);
  expect_bad(forward({1, 1}, apart, there, there), {"x has rank 6", "1 to 5", "merged"});
  expect_bad(backward({1, 1}, apart, there, there, there), {"y has rank 6", "merged"});
}

TEST_F(SoftmaxApi, TheFirstFunctionsAreAccurateOverChannels) {
  if (!sampled()) return;
  const Tensor desc(miopenFloat, kSizes);
  const ref::Tensor t(ref::Type::kFloat, {2, 5, 3, 7});
  const Bytes x = random(t, 1, 8), dy = random(t, 2, 2);
  Bytes y(x.size()), dx(x.size()), y2(x.size()), dx2(x.size());
  expect_ok(miopenSoftmaxForward(handle, &kOne, desc, There(handle, x), &kZero, desc, There(handle, y)));
  expect_ok(forward({1, 1}, desc, There(handle, x), There(handle, y2)));
  EXPECT_EQ(y, y2);
  expect_ok(miopenSoftmaxBackward(handle, &kOne, desc, There(handle, y), desc, There(handle, dy), &kZero, desc,
                                  There(handle, dx)));
  expect_ok(backward({1, 1}, desc, There(handle, y), There(handle, dy), There(handle, dx2)));
  EXPECT_EQ(dx, dx2);
}

/// Results of large and infinite arguments: the maximum is subtracted by every algorithm.
TEST_F(SoftmaxApi, LargeAndInfiniteArguments) {
  if (!sampled()) return;
  const Tensor desc(miopenFloat, {6, 2});
  const std::vector<float> x{1000, 1000, -3e38f, 3e38f, -kInf, 2, -kInf, -kInf, kInf, 2, kNan, 2};
  for (const int algorithm : {0, 1, 2}) {
    SCOPED_TRACE(algorithm);
    std::vector<float> y(x.size());
    expect_ok(forward({algorithm, 1}, desc, There(handle, x), There(handle, y)));
    const bool log = algorithm == 2;
    EXPECT_FLOAT_EQ(y[0], log ? std::log(0.5f) : 0.5f);
    EXPECT_FLOAT_EQ(y[1], y[0]);
    for (const std::size_t row : {1, 2}) {
      EXPECT_EQ(y[2 * row], log ? -kInf : 0.f) << row;
      EXPECT_EQ(y[2 * row + 1], log ? 0.f : 1.f) << row;
    }
    for (std::size_t i = 6; i < y.size(); ++i) EXPECT_TRUE(std::isnan(y[i])) << i;
  }
}

TEST_F(SoftmaxApi, ErrorsSayWhatIsWrong) {
  const Kind kind{1, 1};
  const Tensor desc(miopenFloat, kSizes), other(miopenFloat, {2, 5, 7, 3}), half(miopenHalf, kSizes);
  const Tensor integers(miopenInt32, kSizes), unset, folded(miopenFloat, kSizes, {105, 21, 3, 1});
  std::vector<float> x(210, 1), y(210, 7), dx(210, 7);
  const auto call = [&](miopenTensorDescriptor_t a, const void* in, miopenTensorDescriptor_t b, void* out) {
    return miopenSoftmaxForward_V2(handle, &kOne, a, in, &kZero, b, out, kind.a(), kind.m());
  };
  const auto back = [&](miopenTensorDescriptor_t a, miopenTensorDescriptor_t b, miopenTensorDescriptor_t c) {
    return miopenSoftmaxBackward_V2(handle, &kOne, a, x.data(), b, x.data(), &kZero, c, dx.data(), kind.a(), kind.m());
  };
  expect_bad(call(desc, nullptr, desc, y.data()), {"the buffer of x", "null"});
  expect_bad(call(desc, x.data(), desc, nullptr), {"the buffer of y", "null"});
  expect_bad(call(nullptr, x.data(), desc, y.data()), {"the descriptor of x", "null"});
  expect_bad(call(desc, x.data(), nullptr, y.data()), {"the descriptor of y", "null"});
  expect_bad(call(unset, x.data(), desc, y.data()), {"x", "not been set"});
  expect_bad(call(desc, x.data(), other, y.data()), {"2x5x3x7", "2x5x7x3"});
  expect_bad(call(desc, x.data(), half, y.data()), {"y", "fp16"});
  expect_bad(call(integers, x.data(), integers, y.data()), {"softmax", "int32"});
  expect_bad(call(desc, x.data(), folded, y.data()), {"y"});
  expect_bad(call(desc, x.data(), desc, x.data() + 1), {"overlap"});
  expect_bad(miopenSoftmaxForward(handle, nullptr, desc, x.data(), &kZero, desc, y.data()), {"alpha is null"});
  expect_bad(miopenSoftmaxForward(handle, &kOne, desc, x.data(), nullptr, desc, y.data()), {"beta is null"});
  expect_bad(miopenSoftmaxForward(nullptr, &kOne, desc, x.data(), &kZero, desc, y.data()), {"handle"});
  expect_bad(back(desc, other, desc), {"dy"});
  expect_bad(back(desc, half, desc), {"dy", "fp16"});
  expect_bad(back(desc, desc, other), {"dx"});
  expect_bad(miopenSoftmaxBackward(handle, &kOne, desc, nullptr, desc, x.data(), &kZero, desc, dx.data()),
             {"the buffer of y"});
  expect_bad(miopenSoftmaxBackward(handle, &kOne, desc, x.data(), desc, nullptr, &kZero, desc, dx.data()),
             {"the buffer of dy"});
  expect_bad(miopenSoftmaxBackward(handle, &kOne, desc, x.data(), desc, x.data(), &kZero, desc, nullptr),
             {"the buffer of dx"});
  for (const int bad : {-1, 3}) expect_bad(forward({bad, 1}, desc, x.data(), y.data()), {"algorithm", "2 (log)"});
  for (const int bad : {-1, 2})
    expect_bad(backward({1, bad}, desc, x.data(), x.data(), dx.data()), {"mode", "1 (channel)"});
  EXPECT_EQ(y, std::vector<float>(210, 7)) << "a refused call writes nothing";
  EXPECT_EQ(dx, std::vector<float>(210, 7)) << "a refused call writes nothing";
}

/// There is no function that destroys one.
miopenSoftmaxDescriptor_t descriptor() {
  static const miopenSoftmaxDescriptor_t only = [] {
    miopenSoftmaxDescriptor_t d = nullptr;
    expect_ok(miopenCreateSoftmaxDescriptor(&d));
    return d;
  }();
  return only;
}

TEST(SoftmaxDescriptor, KeepsItsValues) {
  float alpha = -1, beta = -1;
  miopenSoftmaxAlgorithm_t algorithm = MIOPEN_SOFTMAX_FAST;
  miopenSoftmaxMode_t mode = MIOPEN_SOFTMAX_MODE_INSTANCE;
  static miopenSoftmaxDescriptor_t d = nullptr;  // static: nothing can destroy it
  expect_ok(miopenCreateSoftmaxDescriptor(&d));
  expect_ok(miopenGetSoftmaxDescriptor(d, &alpha, &beta, &algorithm, &mode));
  EXPECT_EQ(alpha, 1);
  EXPECT_EQ(beta, 0);
  EXPECT_EQ(algorithm, MIOPEN_SOFTMAX_ACCURATE);
  EXPECT_EQ(mode, MIOPEN_SOFTMAX_MODE_CHANNEL);
  expect_ok(miopenSetSoftmaxDescriptor(d, 0.5f, 2, MIOPEN_SOFTMAX_LOG, MIOPEN_SOFTMAX_MODE_INSTANCE));
  for (const Kind bad : {Kind{3, 0}, {-1, 0}, {0, 2}, {0, -1}})
    expect_bad(miopenSetSoftmaxDescriptor(d, 7, 7, bad.a(), bad.m()), {"softmax", "allowed are 0"});
  expect_ok(miopenGetSoftmaxDescriptor(d, &alpha, nullptr, &algorithm, nullptr));
  expect_ok(miopenGetSoftmaxDescriptor(d, nullptr, &beta, nullptr, &mode));
  EXPECT_EQ(alpha, 0.5f);
  EXPECT_EQ(beta, 2);
  EXPECT_EQ(algorithm, MIOPEN_SOFTMAX_LOG);
  EXPECT_EQ(mode, MIOPEN_SOFTMAX_MODE_INSTANCE);
  expect_bad(miopenCreateSoftmaxDescriptor(nullptr), {"softmaxDesc"});
  expect_bad(miopenGetSoftmaxDescriptor(nullptr, &alpha, &beta, &algorithm, &mode), {"softmax descriptor", "null"});
  expect_bad(miopenSetSoftmaxDescriptor(nullptr, 1, 0, algorithm, mode), {"softmax descriptor", "null"});
}

Problem softmax_problem(miopenProblemDirection_t direction) {
  miopenProblem_t p = nullptr;
  expect_ok(miopenCreateSoftmaxProblem(&p, descriptor(), direction));
  return own(p);
}

std::string saved(miopenSolution_t s) {
  std::size_t size = 0;
  expect_ok(miopenGetSolutionSize(s, &size));
  std::string bytes(size, 0);
  expect_ok(miopenSaveSolution(s, bytes.data()));
  return bytes;
}

/// Find without options, runs without workspace, and the same after save and load.
TEST(SoftmaxProblem, SolutionsOfBothDirectionsAreRight) {
  const DeviceHandle handle;
  const Tensor desc(miopenFloat, kSizes);
  const ref::Tensor t(ref::Type::kFloat, {2, 5, 3, 7});
  const Bytes x = random(t, 1, 8), dy = random(t, 2, 2);
  const Kind kind{2, 0};
  if (!sampled()) return;
  for (const bool is_backward : {false, true}) {
    SCOPED_TRACE(is_backward);
    expect_ok(miopenSetSoftmaxDescriptor(descriptor(), 0.5f, -2, kind.a(), kind.m()));
    const Problem p = softmax_problem(is_backward ? miopenProblemDirectionBackward : miopenProblemDirectionForward);
    expect_ok(miopenSetSoftmaxDescriptor(descriptor(), 1, 0, MIOPEN_SOFTMAX_FAST, MIOPEN_SOFTMAX_MODE_CHANNEL));
    for (const auto id : is_backward ? std::vector{miopenTensorSoftmaxY, miopenTensorSoftmaxDY, miopenTensorSoftmaxDX}
                                     : std::vector{miopenTensorSoftmaxX, miopenTensorSoftmaxY})
      expect_ok(miopenSetProblemTensorDescriptor(p, id, desc));
    const auto found = find(handle, p);
    ASSERT_FALSE(found.empty());
    for (const Solution& solution : found) {
      EXPECT_EQ(workspace_of(solution), 0);
      EXPECT_GT(time_of(solution), 0);
      const char* name = nullptr;
      expect_ok(polymioGetSolutionName(id_of(solution), &name));
      EXPECT_EQ(std::string(name).substr(0, 7), "Softmax");
      const std::string bytes = saved(solution);
      miopenSolution_t raw = nullptr;
      expect_ok(miopenLoadSolution(&raw, bytes.data(), bytes.size()));
      const Solution loaded(raw, miopenDestroySolution);
      EXPECT_EQ(saved(loaded), bytes);
      for (const miopenSolution_t s : {static_cast<miopenSolution_t>(solution), raw}) {
        Bytes result = dy;
        {
          const There in(handle, x), gradient(handle, dy), out(handle, result);
          const miopenTensorArgument_t forward[] = {{miopenTensorSoftmaxX, nullptr, in},
                                                    {miopenTensorSoftmaxY, nullptr, out}};
          const miopenTensorArgument_t backward[] = {{miopenTensorSoftmaxY, nullptr, in},
                                                     {miopenTensorSoftmaxDY, nullptr, gradient},
                                                     {miopenTensorSoftmaxDX, nullptr, out}};
          expect_ok(miopenRunSolution(handle, s, is_backward ? 3 : 2, is_backward ? backward : forward, nullptr, 0));
          expect_error(miopenRunSolution(handle, s, is_backward ? 2 : 1, is_backward ? backward : forward, nullptr, 0),
                       miopenStatusInvalidValue, {"no buffer", "miopenTensorSoftmax"});
        }
        SoftmaxApi::expect_right(wanted(kind, is_backward, t, 0.5, -2), result, x, dy, dy);
      }
    }
  }
}

TEST(SoftmaxProblem, WrongArguments) {
  const DeviceHandle handle;
  const Tensor desc(miopenFloat, kSizes);
  miopenProblem_t raw = nullptr;
  expect_bad(miopenCreateSoftmaxProblem(nullptr, descriptor(), miopenProblemDirectionForward), {"problem is null"});
  expect_bad(miopenCreateSoftmaxProblem(&raw, nullptr, miopenProblemDirectionForward), {"softmax descriptor", "null"});
  const Problem forward = softmax_problem(miopenProblemDirectionForward);
  const Problem other = softmax_problem(miopenProblemDirectionBackwardWeights);
  expect_bad(miopenSetProblemTensorDescriptor(forward, miopenTensorConvolutionX, desc), {"miopenTensorSoftmaxX (44)"});
  expect_ok(miopenSetProblemTensorDescriptor(forward, miopenTensorSoftmaxX, desc));
  miopenSolution_t solution = nullptr;
  std::size_t count = 0;
  expect_error(miopenFindSolutions(handle, forward, nullptr, &solution, &count, 1), miopenStatusInvalidValue,
               {"miopenTensorSoftmaxY"});
  expect_error(miopenFindSolutions(handle, other, nullptr, &solution, &count, 1), miopenStatusNotImplemented,
               {"direction 2"});
  EXPECT_EQ(solution, nullptr);
  const Problem bias = [] {
    miopenProblem_t p = nullptr;
    expect_ok(miopenCreateBiasProblem(&p, miopenProblemDirectionForward));
    return own(p);
  }();
  expect_error(miopenFuseProblems(bias, forward), miopenStatusNotImplemented, {"a softmax", "fused"});
  expect_error(miopenFuseProblems(forward, bias), miopenStatusNotImplemented, {"a softmax", "fused"});
}

/// Every change of a saved solution is refused or gives a solution that can be saved again.
TEST(SoftmaxProblem, DamagedSolutionsAreRefused) {
  const DeviceHandle handle;
  const Tensor desc(miopenFloat, kSizes);
  const Problem p = softmax_problem(miopenProblemDirectionForward);
  expect_ok(miopenSetProblemTensorDescriptor(p, miopenTensorSoftmaxX, desc));
  expect_ok(miopenSetProblemTensorDescriptor(p, miopenTensorSoftmaxY, desc));
  const std::string bytes = saved(find(handle, p, nullptr, 1).at(0));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ 4);
    miopenSolution_t s = nullptr;
    EXPECT_NE(miopenLoadSolution(&s, flipped.data(), flipped.size()), miopenStatusSuccess) << "byte " << i;
    EXPECT_EQ(s, nullptr);
  }
}

}  // namespace
}  // namespace polymio::test
