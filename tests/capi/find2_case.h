// Shared by the tests of Find 2.0: owned objects, and convolutions of integer data with expected results, so that all
// solvers give equal numbers (transforms after rounding to integers).
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/find2.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <utility>

#include "api.h"

namespace polymio::test {

using Bytes = std::vector<unsigned char>;

template <class T>
class Object {
 public:
  using Destroy = miopenStatus_t (*)(T);
  Object(T object, Destroy destroy) : object_(object), destroy_(destroy) {}
  Object(Object&& o) noexcept : object_(std::exchange(o.object_, nullptr)), destroy_(o.destroy_) {}
  Object& operator=(Object&&) = delete;
  ~Object() { reset(); }
  void reset() {
    if (object_) expect_ok(destroy_(std::exchange(object_, nullptr)));
  }
  operator T() const { return object_; }  // NOLINT: passes to the API as it is

 private:
  T object_;
  Destroy destroy_;
};
using Problem = Object<miopenProblem_t>;
using Solution = Object<miopenSolution_t>;
using Options = Owned<miopenFindOptions_t, miopenCreateFindOptions, miopenDestroyFindOptions>;
using Activation =
    Owned<miopenActivationDescriptor_t, miopenCreateActivationDescriptor, miopenDestroyActivationDescriptor>;

inline Problem own(miopenProblem_t p) { return {p, miopenDestroyProblem}; }

/// A convolution of integers with the expected output of one direction.
struct Case : Convolution {
  Case(miopenHandle_t handle, const Shape& s, const Types& t = {}) : Convolution(handle, s, t) {
    expect_ok(miopenSetConvolutionFindMode(conv, miopenConvolutionFindModeNormal));
    fill(x_data, 1);
    fill(w_data, 2);
    fill(y_data, 3);
  }

  static void fill(Bytes& data, unsigned seed) {
    std::mt19937 engine(seed);
    for (std::size_t i = 0; i + 4 <= data.size(); i += 4) {
      const auto value = static_cast<float>(static_cast<int>(engine() % 7) - 3);
      std::memcpy(data.data() + i, &value, 4);
    }
  }

  /// Computed by the reference solver of the immediate mode.
  Bytes expected(Direction d) {
    const bool swap = shape.mode == miopenTranspose && d != Direction::kBackwardWeights;
    const auto plain = static_cast<std::uint64_t>(d) ^ static_cast<std::uint64_t>(swap);
    const Bytes before = output(d);
    const auto limits = std::make_pair(call.workspace, call.workspace_bytes);
    call.workspace = nullptr;
    call.workspace_bytes = 0;
    expect_ok(call.immediate(d, 1 + plain));
    std::tie(call.workspace, call.workspace_bytes) = limits;
    Bytes result = output(d);
    output(d) = before;
    return result;
  }

  Problem problem(Direction d) const {
    miopenProblem_t p = nullptr;
    expect_ok(miopenCreateConvProblem(&p, conv, static_cast<miopenProblemDirection_t>(d)));
    expect_ok(miopenSetProblemTensorDescriptor(p, miopenTensorConvolutionX, x));
    expect_ok(miopenSetProblemTensorDescriptor(p, miopenTensorConvolutionW, w));
    expect_ok(miopenSetProblemTensorDescriptor(p, miopenTensorConvolutionY, y));
    return own(p);
  }

  std::vector<miopenTensorArgument_t> arguments() {
    return {{miopenTensorConvolutionY, nullptr, y_data.data()},
            {miopenTensorConvolutionX, nullptr, x_data.data()},
            {miopenTensorConvolutionW, nullptr, w_data.data()}};
  }
};

inline std::vector<Solution> find(miopenHandle_t h, miopenProblem_t p, miopenFindOptions_t o = nullptr,
                                  std::size_t most = 10) {
  std::vector<miopenSolution_t> raw(most, nullptr);
  std::size_t count = 99;
  expect_ok(miopenFindSolutions(h, p, o, raw.data(), &count, most));
  std::vector<Solution> solutions;
  for (std::size_t i = 0; i < std::min(count, most); ++i) solutions.emplace_back(raw[i], miopenDestroySolution);
  return solutions;
}

inline std::size_t workspace_of(miopenSolution_t s) {
  std::size_t bytes = 0;
  expect_ok(miopenGetSolutionWorkspaceSize(s, &bytes));
  return bytes;
}
inline float time_of(miopenSolution_t s) {
  float ms = -1;
  expect_ok(miopenGetSolutionTime(s, &ms));
  return ms;
}
inline std::uint64_t id_of(miopenSolution_t s) {
  std::uint64_t id = 0;
  expect_ok(miopenGetSolutionSolverId(s, &id));
  return id;
}
inline polymioSource_t source_of(miopenSolution_t s) {
  polymioSource_t source = polymioSourceEstimate;
  expect_ok(polymioGetFoundSolutionSource(s, &source));
  return source;
}

inline miopenStatus_t run(miopenHandle_t h, miopenSolution_t s, const std::vector<miopenTensorArgument_t>& arguments) {
  Bytes workspace(workspace_of(s));
  return miopenRunSolution(h, s, arguments.size(), arguments.data(), workspace.empty() ? nullptr : workspace.data(),
                           workspace.size());
}

inline std::string save(miopenSolution_t s) {
  std::size_t size = 0;
  expect_ok(miopenGetSolutionSize(s, &size));
  std::string bytes(size, '\0');
  expect_ok(miopenSaveSolution(s, bytes.data()));
  return bytes;
}

inline miopenStatus_t load(const std::string& bytes, miopenSolution_t& s) {
  // A block of its own, so that a sanitizer sees any read beyond its end.
  const auto copy = std::make_unique<char[]>(bytes.size());
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  return miopenLoadSolution(&s, copy.get(), bytes.size());
}

/// The bytes with a valid checksum appended.
inline std::string signed_again(std::string bytes) {
  const std::uint64_t sum = XXH3_64bits(bytes.data(), bytes.size() - 8);
  std::memcpy(bytes.data() + bytes.size() - 8, &sum, 8);
  return bytes;
}

/// A result with integer exact values, rounded to integers to remove the rounding errors of transforms.
inline Bytes whole(Bytes data) {
  for (std::size_t i = 0; i + 4 <= data.size(); i += 4) {
    float value = 0;
    std::memcpy(&value, data.data() + i, 4);
    const float near = std::nearbyint(value) + 0.0f;  // not -0
    if (std::fabs(value - near) < 1e-3f) std::memcpy(data.data() + i, &near, 4);
  }
  return data;
}

/// Runs the solution over a poisoned output.
inline void expect_right(miopenHandle_t h, miopenSolution_t s, Case& c, Direction d, const Bytes& expected,
                         int line = __builtin_LINE()) {
  const testing::ScopedTrace trace("checked at line", line, "solver " + std::to_string(id_of(s)));
  const Bytes before = c.output(d);
  std::fill(c.output(d).begin(), c.output(d).end(), static_cast<unsigned char>(0xff));
  expect_ok(run(h, s, c.arguments()));
  EXPECT_TRUE(whole(c.output(d)) == expected);
  c.output(d) = before;
}

inline const Shape kPlain = {{2, 16, 14, 13}, {24, 16, 3, 3}, {1, 1}};
inline const Shape kShapes[] = {
    kPlain,
    {{2, 8, 9, 8}, {12, 8, 1, 1}},
    {{1, 4, 11, 10}, {6, 2, 3, 2}, {1, 0}, {2, 3}, {2, 1}, 2},
    {{2, 5, 7, 7}, {10, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 5},
    {{2, 6, 9, 8}, {6, 8, 3, 3}, {1, 1}, {2, 2}, {}, 1, miopenTranspose, {1, 0}},
    {{2, 6, 9, 8}, {6, 2, 3, 3}, {1, 0}, {2, 1}, {}, 2, miopenTranspose},
    {{2, 3, 20}, {4, 3, 5}, {2}, {2}},
    {{1, 2, 5, 6, 7}, {3, 2, 2, 3, 3}, {1, 1, 0}, {1, 2, 1}},
};

}  // namespace polymio::test
