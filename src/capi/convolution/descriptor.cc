// Convolutions, descriptors: settings, attributes, output sizes, find mode, math mode.
// SPDX-License-Identifier: MIT
#include "capi/convolution/descriptor.h"

#include <miopen/miopen_internal.h>
#include <miopen/polymio.h>

#include <algorithm>
#include <limits>
#include <random>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/tensor.h"
#include "capi/convolution/call.h"

using namespace polymio;
using capi::deref;
using capi::guard;
using capi::not_null;

namespace {

constexpr int kMaxSpatial = 64;  // descriptors may have more dimensions than any solver supports

void init(miopenConvolutionDescriptor_t conv, int spatial, const int* pad, const int* stride, const int* dilation,
          miopenConvolutionMode_t mode) {
  auto& state = deref(conv);
  require(spatial >= 0 && spatial <= kMaxSpatial, "spatialDim is {}, it must be 0 to {}", spatial, kMaxSpatial);
  require(mode >= miopenConvolution && mode <= miopenDepthwise,
          "convolution mode {} is unknown: allowed are 0 (convolution), 1 (transpose), 2 (group), 3 (depthwise)",
          static_cast<int>(mode));
  if (spatial > 0) {
    not_null(pad, "padA");
    not_null(stride, "strideA");
    not_null(dilation, "dilationA");
  }
  for (int i = 0; i < spatial; ++i) {
    require(pad[i] >= 0, "pad {} is {}, it must not be negative", i, pad[i]);
    require(stride[i] >= 1, "stride {} is {}, it must be positive", i, stride[i]);
    require(dilation[i] >= 1, "dilation {} is {}, it must be positive", i, dilation[i]);
  }
  capi::ConvolutionObject::State fresh;
  fresh.transposed = mode == miopenTranspose;
  fresh.pad.assign(pad, pad + spatial);
  fresh.stride.assign(stride, stride + spatial);
  fresh.dilation.assign(dilation, dilation + spatial);
  fresh.output_pad.assign(static_cast<std::size_t>(spatial), 0);
  fresh.seed = state.seed;
  fresh.math = state.math;
  state = std::move(fresh);
}

void require_2d(const capi::ConvolutionObject::State& c, const char* instead) {
  if (c.pad.size() != 2)
    fail(Status::kUnknownError,
         "this function is for 2-D convolutions, the descriptor has {} spatial dimensions: use {}", c.pad.size(),
         instead);
}

void store(int* out, int value) {
  if (out) *out = value;
}

int narrow(std::int64_t value) {
  require(value <= std::numeric_limits<int>::max(), "an output size is {}, which does not fit an int", value);
  return static_cast<int>(value);
}

std::vector<std::int64_t> sizes(miopenConvolutionDescriptor_t conv, miopenTensorDescriptor_t x,
                                miopenTensorDescriptor_t w) {
  return capi::output_sizes(deref(conv), capi::described(x, "the input"), capi::described(w, "the filter"));
}

/// The descriptor's field of an attribute, and its valid values.
struct Attribute {
  int* field;
  int least, most;
};

Attribute attribute(miopenConvolutionDescriptor_t conv, miopenConvolutionAttrib_t attr) {
  auto& c = deref(conv);
  switch (attr) {
    case MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL: return {&c.fp16_alt, -1, 1};
    case MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC: return {&c.deterministic, 0, 1};
    case MIOPEN_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE: return {&c.fp8_rounding, 0, 1};
    case MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE: return {&c.math_type, miopenMathDefault, miopenMathPedantic};
  }
  fail(Status::kBadParm,
       "convolution attribute {} is unknown: allowed are 0 (FP16_ALT_IMPL), 1 (DETERMINISTIC), "
       "2 (FP8_ROUNDING_MODE), 3 (MATH_TYPE)",
       static_cast<int>(attr));
}

void set_find_mode(miopenConvolutionDescriptor_t conv, int mode) {
  auto& c = deref(conv);
  require(mode >= 1 && mode <= 7,
          "find mode {} is unknown: allowed are 1 (normal), 2 (fast), 3 (hybrid), 4, "
          "5 (dynamic hybrid), 6 (trust verify), 7 (trust verify full)",
          mode);
  c.find_mode = mode;
}

}  // namespace

miopenStatus_t miopenCreateConvolutionDescriptor(miopenConvolutionDescriptor_t* convDesc) {
  return guard([&] {
    not_null(convDesc, "convDesc");
    auto object = std::make_unique<capi::ConvolutionObject>();
    object->state.seed = std::random_device{}();
    *convDesc = object.release();
  });
}

miopenStatus_t miopenDestroyConvolutionDescriptor(miopenConvolutionDescriptor_t convDesc) {
  return guard([&] { delete &capi::checked<capi::ConvolutionObject>(convDesc); });
}

miopenStatus_t miopenInitConvolutionDescriptor(miopenConvolutionDescriptor_t convDesc, miopenConvolutionMode_t c_mode,
                                               int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h,
                                               int dilation_w) {
  return guard([&] {
    const int pad[] = {pad_h, pad_w}, stride[] = {stride_h, stride_w}, dilation[] = {dilation_h, dilation_w};
    init(convDesc, 2, pad, stride, dilation, c_mode);
  });
}

miopenStatus_t miopenInitConvolutionNdDescriptor(miopenConvolutionDescriptor_t convDesc, int spatialDim,
                                                 const int* padA, const int* strideA, const int* dilationA,
                                                 miopenConvolutionMode_t c_mode) {
  return guard([&] { init(convDesc, spatialDim, padA, strideA, dilationA, c_mode); });
}

miopenStatus_t miopenGetConvolutionSpatialDim(miopenConvolutionDescriptor_t convDesc, int* spatialDim) {
  return guard([&] { *not_null(spatialDim, "spatialDim") = static_cast<int>(deref(convDesc).pad.size()); });
}

miopenStatus_t miopenGetConvolutionDescriptor(miopenConvolutionDescriptor_t convDesc, miopenConvolutionMode_t* c_mode,
                                              int* pad_h, int* pad_w, int* stride_h, int* stride_w, int* dilation_h,
                                              int* dilation_w) {
  return guard([&] {
    const auto& c = deref(convDesc);
    require_2d(c, "miopenGetConvolutionNdDescriptor");
    if (c_mode) *c_mode = c.transposed ? miopenTranspose : miopenConvolution;
    store(pad_h, c.pad[0]);
    store(pad_w, c.pad[1]);
    store(stride_h, c.stride[0]);
    store(stride_w, c.stride[1]);
    store(dilation_h, c.dilation[0]);
    store(dilation_w, c.dilation[1]);
  });
}

miopenStatus_t miopenGetConvolutionNdDescriptor(miopenConvolutionDescriptor_t convDesc, int requestedSpatialDim,
                                                int* spatialDim, int* padA, int* strideA, int* dilationA,
                                                miopenConvolutionMode_t* c_mode) {
  return guard([&] {
    const auto& c = deref(convDesc);
    const int actual = static_cast<int>(c.pad.size());
    require(requestedSpatialDim >= 0 && requestedSpatialDim <= actual,
            "{} spatial dimensions were requested, the descriptor has {}", requestedSpatialDim, actual);
    store(spatialDim, actual);
    if (c_mode) *c_mode = c.transposed ? miopenTranspose : miopenConvolution;
    if (padA) std::copy_n(c.pad.begin(), requestedSpatialDim, padA);
    if (strideA) std::copy_n(c.stride.begin(), requestedSpatialDim, strideA);
    if (dilationA) std::copy_n(c.dilation.begin(), requestedSpatialDim, dilationA);
  });
}

miopenStatus_t miopenGetConvolutionGroupCount(miopenConvolutionDescriptor_t convDesc, int* groupCount) {
  return guard([&] { *not_null(groupCount, "groupCount") = deref(convDesc).groups; });
}

miopenStatus_t miopenSetConvolutionGroupCount(miopenConvolutionDescriptor_t convDesc, int groupCount) {
  return guard([&] { deref(convDesc).groups = groupCount; });
}

miopenStatus_t miopenSetTransposeConvOutputPadding(miopenConvolutionDescriptor_t convDesc, int adj_h, int adj_w) {
  return guard([&] {
    auto& c = deref(convDesc);
    require_2d(c, "miopenSetTransposeConvNdOutputPadding");
    c.output_pad = {adj_h, adj_w};
  });
}

miopenStatus_t miopenSetTransposeConvNdOutputPadding(miopenConvolutionDescriptor_t convDesc, int spatialDim,
                                                     const int* adjA) {
  return guard([&] {
    auto& c = deref(convDesc);
    not_null(adjA, "adjA");
    if (spatialDim != static_cast<int>(c.pad.size()))
      fail(Status::kUnknownError, "spatialDim is {}, the descriptor has {}", spatialDim, c.pad.size());
    c.output_pad.assign(adjA, adjA + spatialDim);
  });
}

miopenStatus_t miopenGetConvolutionForwardOutputDim(miopenConvolutionDescriptor_t convDesc,
                                                    const miopenTensorDescriptor_t inputTensorDesc,
                                                    const miopenTensorDescriptor_t filterDesc, int* n, int* c, int* h,
                                                    int* w) {
  return guard([&] {
    require_2d(deref(convDesc), "miopenGetConvolutionNdForwardOutputDim");
    const auto s = sizes(convDesc, inputTensorDesc, filterDesc);
    *not_null(n, "n") = narrow(s[0]);
    *not_null(c, "c") = narrow(s[1]);
    *not_null(h, "h") = narrow(s[2]);
    *not_null(w, "w") = narrow(s[3]);
  });
}

miopenStatus_t miopenGetConvolutionNdForwardOutputDim(miopenConvolutionDescriptor_t convDesc,
                                                      const miopenTensorDescriptor_t inputTensorDesc,
                                                      const miopenTensorDescriptor_t filterDesc, int* nDim,
                                                      int* outputTensorDimA) {
  return guard([&] {
    const auto s = sizes(convDesc, inputTensorDesc, filterDesc);
    not_null(outputTensorDimA, "outputTensorDimA");
    store(nDim, static_cast<int>(s.size()));
    std::transform(s.begin(), s.end(), outputTensorDimA, narrow);
  });
}

miopenStatus_t miopenSetConvolutionAttribute(miopenConvolutionDescriptor_t convDesc,
                                             const miopenConvolutionAttrib_t attr, int value) {
  return guard([&] {
    const Attribute a = attribute(convDesc, attr);
    require(value >= a.least && value <= a.most, "value {} of convolution attribute {} must be {} to {}", value,
            static_cast<int>(attr), a.least, a.most);
    *a.field = value;
  });
}

miopenStatus_t miopenGetConvolutionAttribute(miopenConvolutionDescriptor_t convDesc,
                                             const miopenConvolutionAttrib_t attr, int* value) {
  return guard([&] { *not_null(value, "value") = *attribute(convDesc, attr).field; });
}

miopenStatus_t miopenSetConvolutionFindMode(miopenConvolutionDescriptor_t convDesc,
                                            miopenConvolutionFindMode_t findMode) {
  return guard([&] { set_find_mode(convDesc, static_cast<int>(findMode)); });
}

miopenStatus_t miopenGetConvolutionFindMode(const miopenConvolutionDescriptor_t convDesc,
                                            miopenConvolutionFindMode_t* findMode) {
  return guard(
      [&] { *not_null(findMode, "findMode") = static_cast<miopenConvolutionFindMode_t>(deref(convDesc).find_mode); });
}

miopenStatus_t miopenHiddenSetConvolutionFindMode(miopenConvolutionDescriptor_t convDesc, int findMode) {
  return guard([&] { set_find_mode(convDesc, findMode); });
}

miopenStatus_t miopenHiddenGetConvolutionFindMode(const miopenConvolutionDescriptor_t convDesc, int* findMode) {
  return guard([&] { *not_null(findMode, "findMode") = deref(convDesc).find_mode; });
}

miopenStatus_t polymioSetConvolutionMathMode(miopenConvolutionDescriptor_t convDesc, polymioMathMode_t mode) {
  return guard([&] {
    require(mode >= polymioMathStrict && mode <= polymioMathAny,
            "math mode {} is unknown: allowed are 0 (strict), 1 (accurate), 2 (tf32), 3 (any)", static_cast<int>(mode));
    deref(convDesc).math = static_cast<MathMode>(mode);
  });
}

miopenStatus_t polymioGetConvolutionMathMode(miopenConvolutionDescriptor_t convDesc, polymioMathMode_t* mode) {
  return guard([&] { *not_null(mode, "mode") = static_cast<polymioMathMode_t>(deref(convDesc).math); });
}
