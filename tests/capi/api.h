// Shared by the API tests: owned API objects, a convolution with its data under one interface for all three directions,
// and a check of an error's status and text.
// SPDX-License-Identifier: MIT
#pragma once
#include <gtest/gtest.h>
#include <miopen/miopen.h>
#include <miopen/miopen_internal.h>
#include <miopen/polymio.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

namespace polymio::test {

inline constexpr float kOne = 1, kZero = 0;
inline constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr double kEpsilon = 1e-3, kFactor = 0.25;  // of norms
inline constexpr miopenDataType_t kTypes[] = {
    miopenHalf,         miopenFloat,           miopenInt32,        miopenInt8,
    miopenBFloat16,     miopenDouble,          miopenInt64,        miopenFloat8_fnuz,
    miopenBFloat8_fnuz, POLYMIO_FLOAT8_E4M3FN, POLYMIO_FLOAT8_E5M2};

/// Expects `got` to be the failure `want`, with a text that contains every one of `parts`.
inline void expect_error(miopenStatus_t got, miopenStatus_t want, std::initializer_list<const char*> parts,
                         int line = __builtin_LINE()) {
  const testing::ScopedTrace trace("called at line", line, "");
  const std::string text = polymioGetLastError();
  EXPECT_STREQ(miopenGetErrorString(got), miopenGetErrorString(want)) << text;
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in: " << text;
}

inline void expect_bad(miopenStatus_t got, std::initializer_list<const char*> parts, int line = __builtin_LINE()) {
  expect_error(got, miopenStatusBadParm, parts, line);
}

inline void expect_ok(miopenStatus_t got, int line = __builtin_LINE()) {
  const testing::ScopedTrace trace("called at line", line, "");
  EXPECT_EQ(got, miopenStatusSuccess) << polymioGetLastError();
}

/// An owned object of the API.
template <class Pointer, miopenStatus_t (*kCreate)(Pointer*), miopenStatus_t (*kDestroy)(Pointer)>
class Owned {
 public:
  Owned() { expect_ok(kCreate(&object_)); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { expect_ok(kDestroy(object_)); }
  operator Pointer() const { return object_; }  // NOLINT: passes to the API as it is

 private:
  Pointer object_ = nullptr;
};
using Handle = Owned<miopenHandle_t, miopenCreate, miopenDestroy>;
using TensorDescriptor = Owned<miopenTensorDescriptor_t, miopenCreateTensorDescriptor, miopenDestroyTensorDescriptor>;
using ConvolutionDescriptor =
    Owned<miopenConvolutionDescriptor_t, miopenCreateConvolutionDescriptor, miopenDestroyConvolutionDescriptor>;

using Ints = std::vector<int>;

struct Tensor : TensorDescriptor {
  Tensor() = default;
  Tensor(miopenDataType_t type, const Ints& lens, const Ints& strides = {}) { set(type, lens, strides); }
  void set(miopenDataType_t type, const Ints& lens, const Ints& strides = {}) {
    expect_ok(miopenSetTensorDescriptor(*this, type, static_cast<int>(lens.size()), lens.data(),
                                        strides.empty() ? nullptr : strides.data()));
  }
  std::size_t bytes() const {
    std::size_t n = 0;
    expect_ok(miopenGetTensorNumBytes(*this, &n));
    return n;
  }
};

enum class Direction { kForward, kBackwardData, kBackwardWeights };
inline constexpr Direction kDirections[] = {Direction::kForward, Direction::kBackwardData, Direction::kBackwardWeights};

/// The sizes of a convolution; empty geometry means pads 0, strides 1, dilations 1.
struct Shape {
  Ints x, w;
  Ints pad = {}, stride = {}, dilation = {};
  int groups = 1;
  miopenConvolutionMode_t mode = miopenConvolution;
  Ints output_pad = {};
};

/// Every argument of the convolution calls, under the roles x, w, y (dx, dw, dy included), so that a
/// test can change one of them and make any of the calls of any direction.
struct Call {
  miopenHandle_t handle = nullptr;
  miopenTensorDescriptor_t x_desc = nullptr, w_desc = nullptr, y_desc = nullptr;
  miopenConvolutionDescriptor_t conv = nullptr;
  void* x = nullptr;
  void* w = nullptr;
  void* y = nullptr;
  const void* alpha = nullptr;
  const void* beta = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;

  miopenStatus_t workspace_size(Direction d, std::size_t* size) const {
    switch (d) {
      case Direction::kForward:
        return miopenConvolutionForwardGetWorkSpaceSize(handle, w_desc, x_desc, conv, y_desc, size);
      case Direction::kBackwardData:
        return miopenConvolutionBackwardDataGetWorkSpaceSize(handle, y_desc, w_desc, conv, x_desc, size);
      default: return miopenConvolutionBackwardWeightsGetWorkSpaceSize(handle, y_desc, x_desc, conv, w_desc, size);
    }
  }
  miopenStatus_t find(Direction d, int request, int* count, miopenConvAlgoPerf_t* results,
                      bool exhaustive = false) const {
    switch (d) {
      case Direction::kForward:
        return miopenFindConvolutionForwardAlgorithm(handle, x_desc, x, w_desc, w, conv, y_desc, y, request, count,
                                                     results, workspace, workspace_bytes, exhaustive);
      case Direction::kBackwardData:
        return miopenFindConvolutionBackwardDataAlgorithm(handle, y_desc, y, w_desc, w, conv, x_desc, x, request, count,
                                                          results, workspace, workspace_bytes, exhaustive);
      default:
        return miopenFindConvolutionBackwardWeightsAlgorithm(handle, y_desc, y, x_desc, x, conv, w_desc, w, request,
                                                             count, results, workspace, workspace_bytes, exhaustive);
    }
  }
  miopenStatus_t run(Direction d, int algorithm) const {
    switch (d) {
      case Direction::kForward:
        return miopenConvolutionForward(handle, alpha, x_desc, x, w_desc, w, conv,
                                        static_cast<miopenConvFwdAlgorithm_t>(algorithm), beta, y_desc, y, workspace,
                                        workspace_bytes);
      case Direction::kBackwardData:
        return miopenConvolutionBackwardData(handle, alpha, y_desc, y, w_desc, w, conv,
                                             static_cast<miopenConvBwdDataAlgorithm_t>(algorithm), beta, x_desc, x,
                                             workspace, workspace_bytes);
      default:
        return miopenConvolutionBackwardWeights(handle, alpha, y_desc, y, x_desc, x, conv,
                                                static_cast<miopenConvBwdWeightsAlgorithm_t>(algorithm), beta, w_desc,
                                                w, workspace, workspace_bytes);
    }
  }
  miopenStatus_t solution_count(Direction d, std::size_t* count) const {
    switch (d) {
      case Direction::kForward:
        return miopenConvolutionForwardGetSolutionCount(handle, w_desc, x_desc, conv, y_desc, count);
      case Direction::kBackwardData:
        return miopenConvolutionBackwardDataGetSolutionCount(handle, y_desc, w_desc, conv, x_desc, count);
      default: return miopenConvolutionBackwardWeightsGetSolutionCount(handle, y_desc, x_desc, conv, w_desc, count);
    }
  }
  miopenStatus_t solutions(Direction d, std::size_t most, std::size_t* count, miopenConvSolution_t* out) const {
    switch (d) {
      case Direction::kForward:
        return miopenConvolutionForwardGetSolution(handle, w_desc, x_desc, conv, y_desc, most, count, out);
      case Direction::kBackwardData:
        return miopenConvolutionBackwardDataGetSolution(handle, y_desc, w_desc, conv, x_desc, most, count, out);
      default:
        return miopenConvolutionBackwardWeightsGetSolution(handle, y_desc, x_desc, conv, w_desc, most, count, out);
    }
  }
  miopenStatus_t solution_workspace(Direction d, std::uint64_t id, std::size_t* size) const {
    switch (d) {
      case Direction::kForward:
        return miopenConvolutionForwardGetSolutionWorkspaceSize(handle, w_desc, x_desc, conv, y_desc, id, size);
      case Direction::kBackwardData:
        return miopenConvolutionBackwardDataGetSolutionWorkspaceSize(handle, y_desc, w_desc, conv, x_desc, id, size);
      default:
        return miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize(handle, y_desc, x_desc, conv, w_desc, id, size);
    }
  }
  miopenStatus_t compile(Direction d, std::uint64_t id) const {
    switch (d) {
      case Direction::kForward:
        return miopenConvolutionForwardCompileSolution(handle, w_desc, x_desc, conv, y_desc, id);
      case Direction::kBackwardData:
        return miopenConvolutionBackwardDataCompileSolution(handle, y_desc, w_desc, conv, x_desc, id);
      default: return miopenConvolutionBackwardWeightsCompileSolution(handle, y_desc, x_desc, conv, w_desc, id);
    }
  }
  miopenStatus_t immediate(Direction d, std::uint64_t id) const {
    switch (d) {
      case Direction::kForward:
        return miopenConvolutionForwardImmediate(handle, w_desc, w, x_desc, x, conv, y_desc, y, workspace,
                                                 workspace_bytes, id);
      case Direction::kBackwardData:
        return miopenConvolutionBackwardDataImmediate(handle, y_desc, y, w_desc, w, conv, x_desc, x, workspace,
                                                      workspace_bytes, id);
      default:
        return miopenConvolutionBackwardWeightsImmediate(handle, y_desc, y, x_desc, x, conv, w_desc, w, workspace,
                                                         workspace_bytes, id);
    }
  }
};

/// The types of x, w, y, and their strides (empty: packed).
struct Types {
  miopenDataType_t x = miopenFloat, w = miopenFloat, y = miopenFloat;
  Ints x_strides = {}, w_strides = {}, y_strides = {};
};

/// A complete convolution: descriptors, zeroed buffers, scalars 1 and 0, and workspace for every solver.
class Convolution {
 public:
  explicit Convolution(miopenHandle_t handle, const Shape& shape, const Types& types = {})
      : shape(shape), types(types) {
    const auto spatial = shape.x.size() - 2;
    const auto filled = [&](const Ints& given, int value) { return given.empty() ? Ints(spatial, value) : given; };
    expect_ok(miopenInitConvolutionNdDescriptor(conv, static_cast<int>(spatial), filled(shape.pad, 0).data(),
                                                filled(shape.stride, 1).data(), filled(shape.dilation, 1).data(),
                                                shape.mode));
    expect_ok(miopenSetConvolutionGroupCount(conv, shape.groups));
    if (!shape.output_pad.empty())
      expect_ok(miopenSetTransposeConvNdOutputPadding(conv, static_cast<int>(spatial), shape.output_pad.data()));
    x.set(types.x, shape.x, types.x_strides);
    w.set(types.w, shape.w, types.w_strides);
    int rank = 0;
    y_lens.resize(shape.x.size());
    // For sizes only: the query requires one type, gradients of int8 tensors have two.
    const Tensor x_sizes(miopenFloat, shape.x), w_sizes(miopenFloat, shape.w);
    expect_ok(miopenGetConvolutionNdForwardOutputDim(conv, x_sizes, w_sizes, &rank, y_lens.data()));
    y.set(types.y, y_lens, types.y_strides);
    x_data.resize(x.bytes());
    w_data.resize(w.bytes());
    y_data.resize(y.bytes());
    call = {handle, x, w, y, conv, x_data.data(), w_data.data(), y_data.data(), &kOne, &kZero, nullptr, 0};
    if (types.y == miopenDouble || types.x == miopenDouble) {
      call.alpha = &kOneDouble;
      call.beta = &kZeroDouble;
    }
  }

  /// Gives the call workspace for find and for every solution of this direction.
  void provide_workspace(Direction d) {
    std::size_t bytes = 0;
    expect_ok(call.workspace_size(d, &bytes));
    for (const auto& s : solutions(d)) bytes = std::max(bytes, s.workspace_size);
    provide_workspace(bytes);
  }
  void provide_workspace(std::size_t bytes) {
    workspace.assign(bytes, 0xee);
    call.workspace = bytes ? workspace.data() : nullptr;
    call.workspace_bytes = bytes;
  }

  std::vector<unsigned char>& output(Direction d) {
    return d == Direction::kForward ? y_data : d == Direction::kBackwardData ? x_data : w_data;
  }

  std::vector<miopenConvSolution_t> solutions(Direction d) const {
    std::vector<miopenConvSolution_t> list(16);
    std::size_t count = 0;
    expect_ok(call.solutions(d, list.size(), &count, list.data()));
    list.resize(count);
    return list;
  }

  static constexpr double kOneDouble = 1, kZeroDouble = 0;
  Shape shape;
  Types types;
  Tensor x, w, y;
  ConvolutionDescriptor conv;
  Ints y_lens;
  std::vector<unsigned char> x_data, w_data, y_data, workspace;
  Call call;
};

/// The Find 2.0 problem of the convolution.
struct ConvolutionProblem {
  miopenProblem_t object = nullptr;
  explicit ConvolutionProblem(const Convolution& c, miopenProblemDirection_t d = miopenProblemDirectionForward) {
    expect_ok(miopenCreateConvProblem(&object, c.conv, d));
    expect_ok(miopenSetProblemTensorDescriptor(object, miopenTensorConvolutionX, c.x));
    expect_ok(miopenSetProblemTensorDescriptor(object, miopenTensorConvolutionW, c.w));
    expect_ok(miopenSetProblemTensorDescriptor(object, miopenTensorConvolutionY, c.y));
  }
  ConvolutionProblem(const Convolution& c, Direction d)
      : ConvolutionProblem(c, static_cast<miopenProblemDirection_t>(d)) {}
  ConvolutionProblem(const ConvolutionProblem&) = delete;
  ConvolutionProblem& operator=(const ConvolutionProblem&) = delete;
  ~ConvolutionProblem() { expect_ok(miopenDestroyProblem(object)); }
  operator miopenProblem_t() const { return object; }  // NOLINT: passes to the API as it is
};

/// Floats between -1 and 1.
inline void fill(std::vector<unsigned char>& data) {
  auto* values = reinterpret_cast<float*>(data.data());
  for (std::size_t i = 0; i < data.size() / sizeof(float); ++i)
    values[i] = static_cast<float>(i * 2654435761u % 2001) / 1000.0f - 1.0f;
}

}  // namespace polymio::test
