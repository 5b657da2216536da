// Convolution descriptors through the C API: settings, attributes, find modes, output sizes.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <climits>

#include "api.h"

namespace polymio::test {
namespace {

struct Settings {
  int spatial = -1;
  Ints pad, stride, dilation;
  miopenConvolutionMode_t mode = miopenDepthwise;
};

Settings settings(miopenConvolutionDescriptor_t conv) {
  Settings s;
  expect_ok(miopenGetConvolutionSpatialDim(conv, &s.spatial));
  const auto n = static_cast<std::size_t>(s.spatial);
  s.pad.resize(n + 1, -5);
  s.stride.resize(n + 1, -5);
  s.dilation.resize(n + 1, -5);
  int again = -1;
  expect_ok(miopenGetConvolutionNdDescriptor(conv, s.spatial, &again, s.pad.data(), s.stride.data(), s.dilation.data(),
                                             &s.mode));
  EXPECT_EQ(again, s.spatial);
  for (Ints* v : {&s.pad, &s.stride, &s.dilation}) {
    EXPECT_EQ(v->back(), -5) << "wrote beyond the array";
    v->pop_back();
  }
  return s;
}

int attribute(miopenConvolutionDescriptor_t conv, miopenConvolutionAttrib_t attr) {
  int value = -99;
  expect_ok(miopenGetConvolutionAttribute(conv, attr, &value));
  return value;
}

int groups(miopenConvolutionDescriptor_t conv) {
  int value = -99;
  expect_ok(miopenGetConvolutionGroupCount(conv, &value));
  return value;
}

TEST(ConvolutionDescriptor, CreateAndDestroy) {
  expect_bad(miopenCreateConvolutionDescriptor(nullptr), {"convDesc is null"});
  expect_bad(miopenDestroyConvolutionDescriptor(nullptr), {"convolution descriptor is null"});
}

TEST(ConvolutionDescriptor, ADestroyedOneIsRefused) {
  miopenConvolutionDescriptor_t conv = nullptr;
  expect_ok(miopenCreateConvolutionDescriptor(&conv));
  expect_ok(miopenDestroyConvolutionDescriptor(conv));
  expect_bad(miopenDestroyConvolutionDescriptor(conv), {"not a live convolution descriptor"});
}

TEST(ConvolutionDescriptor, EveryFunctionRefusesNullAndForeignObjects) {
  const Tensor tensor(miopenFloat, {1, 1, 1, 1});
  const miopenConvolutionDescriptor_t bad[] = {
      nullptr, reinterpret_cast<miopenConvolutionDescriptor_t>(static_cast<miopenTensorDescriptor_t>(tensor))};
  const int one[] = {1, 1};
  int n = 0, sizes[4];
  miopenConvolutionFindMode_t mode = miopenConvolutionFindModeNormal;
  polymioMathMode_t math = polymioMathStrict;
  std::size_t bytes = 0;
  for (const auto c : bad) {
    const char* why = c ? "not a live convolution descriptor" : "convolution descriptor is null";
    expect_bad(miopenInitConvolutionDescriptor(c, miopenConvolution, 0, 0, 1, 1, 1, 1), {why});
    expect_bad(miopenInitConvolutionNdDescriptor(c, 2, one, one, one, miopenConvolution), {why});
    expect_bad(miopenGetConvolutionSpatialDim(c, &n), {why});
    expect_bad(miopenGetConvolutionDescriptor(c, nullptr, &n, &n, &n, &n, &n, &n), {why});
    expect_bad(miopenGetConvolutionNdDescriptor(c, 0, &n, nullptr, nullptr, nullptr, nullptr), {why});
    expect_bad(miopenGetConvolutionGroupCount(c, &n), {why});
    expect_bad(miopenSetConvolutionGroupCount(c, 1), {why});
    expect_bad(miopenSetTransposeConvOutputPadding(c, 0, 0), {why});
    expect_bad(miopenSetTransposeConvNdOutputPadding(c, 2, one), {why});
    expect_bad(miopenGetConvolutionForwardOutputDim(c, tensor, tensor, &n, &n, &n, &n), {why});
    expect_bad(miopenGetConvolutionNdForwardOutputDim(c, tensor, tensor, &n, sizes), {why});
    expect_bad(miopenSetConvolutionAttribute(c, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 1), {why});
    expect_bad(miopenGetConvolutionAttribute(c, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, &n), {why});
    expect_bad(miopenSetConvolutionFindMode(c, miopenConvolutionFindModeFast), {why});
    expect_bad(miopenGetConvolutionFindMode(c, &mode), {why});
    expect_bad(miopenHiddenSetConvolutionFindMode(c, 2), {why});
    expect_bad(miopenHiddenGetConvolutionFindMode(c, &n), {why});
    expect_bad(polymioSetConvolutionMathMode(c, polymioMathTf32), {why});
    expect_bad(polymioGetConvolutionMathMode(c, &math), {why});
    expect_bad(miopenConvolutionABBackwardWeightsGetWorkSpaceSize(DEFAULT, tensor, tensor, c, &bytes), {why});
    expect_bad(miopenDestroyConvolutionDescriptor(c), {why});
  }
}

TEST(ConvolutionDescriptor, Defaults) {
  const ConvolutionDescriptor conv;
  const Settings s = settings(conv);
  EXPECT_EQ(s.spatial, 2);
  EXPECT_EQ(s.pad, (Ints{0, 0}));
  EXPECT_EQ(s.stride, (Ints{1, 1}));
  EXPECT_EQ(s.dilation, (Ints{1, 1}));
  EXPECT_EQ(s.mode, miopenConvolution);
  EXPECT_EQ(groups(conv), 1);
  EXPECT_EQ(attribute(conv, MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL), -1);
  EXPECT_EQ(attribute(conv, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC), 0);
  EXPECT_EQ(attribute(conv, MIOPEN_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE), miopenF8RoundingModeStochastic);
  EXPECT_EQ(attribute(conv, MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE), miopenMathPedantic);
  polymioMathMode_t math = polymioMathAny;
  expect_ok(polymioGetConvolutionMathMode(conv, &math));
  EXPECT_EQ(math, polymioMathAccurate);
}

TEST(ConvolutionDescriptor, TwoDimensions) {
  const ConvolutionDescriptor conv;
  expect_ok(miopenInitConvolutionDescriptor(conv, miopenTranspose, 1, 2, 3, 4, 5, 6));
  int v[6] = {};
  miopenConvolutionMode_t mode = miopenConvolution;
  expect_ok(miopenGetConvolutionDescriptor(conv, &mode, &v[0], &v[1], &v[2], &v[3], &v[4], &v[5]));
  EXPECT_EQ(mode, miopenTranspose);
  EXPECT_EQ(Ints(v, v + 6), (Ints{1, 2, 3, 4, 5, 6}));
  int only = 0;
  expect_ok(miopenGetConvolutionDescriptor(conv, nullptr, nullptr, nullptr, nullptr, &only, nullptr, nullptr));
  EXPECT_EQ(only, 4);
  expect_ok(miopenGetConvolutionDescriptor(conv, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
}

TEST(ConvolutionDescriptor, ZeroToNineDimensions) {
  const ConvolutionDescriptor conv;
  for (int dims = 0; dims <= 9; ++dims) {
    Ints pad, stride, dilation;
    for (int i = 0; i < dims; ++i) {
      pad.push_back(i);
      stride.push_back(i + 1);
      dilation.push_back(i + 2);
    }
    expect_ok(
        miopenInitConvolutionNdDescriptor(conv, dims, pad.data(), stride.data(), dilation.data(), miopenConvolution));
    const Settings s = settings(conv);
    EXPECT_EQ(s.spatial, dims);
    EXPECT_EQ(s.pad, pad);
    EXPECT_EQ(s.stride, stride);
    EXPECT_EQ(s.dilation, dilation);
  }
  expect_ok(miopenInitConvolutionNdDescriptor(conv, 0, nullptr, nullptr, nullptr, miopenConvolution));
  const int one[] = {1};
  expect_bad(miopenInitConvolutionNdDescriptor(conv, -1, one, one, one, miopenConvolution), {"spatialDim", "-1"});
  expect_bad(miopenInitConvolutionNdDescriptor(conv, INT_MAX, one, one, one, miopenConvolution), {"spatialDim"});
}

TEST(ConvolutionDescriptor, WrongSettingsAreNamed) {
  const ConvolutionDescriptor conv;
  const int good[] = {1, 1, 1}, zero[] = {1, 1, 0}, negative[] = {1, -4, 1};
  expect_bad(miopenInitConvolutionDescriptor(conv, miopenConvolution, 0, -1, 1, 1, 1, 1), {"pad 1", "-1"});
  expect_bad(miopenInitConvolutionDescriptor(conv, miopenConvolution, 0, 0, 0, 1, 1, 1), {"stride 0", "0"});
  expect_bad(miopenInitConvolutionDescriptor(conv, miopenConvolution, 0, 0, 1, 1, 1, -2), {"dilation 1", "-2"});
  const auto init = [&](const int* pad, const int* stride, const int* dilation) {
    return miopenInitConvolutionNdDescriptor(conv, 3, pad, stride, dilation, miopenConvolution);
  };
  expect_bad(init(nullptr, good, good), {"padA is null"});
  expect_bad(init(good, nullptr, good), {"strideA is null"});
  expect_bad(init(good, good, nullptr), {"dilationA is null"});
  expect_bad(init(negative, good, good), {"pad 1", "-4"});
  expect_bad(init(good, zero, good), {"stride 2", "0"});
  expect_bad(init(good, good, zero), {"dilation 2", "0"});
  EXPECT_EQ(settings(conv).spatial, 2) << "a refused call changes nothing";
}

TEST(ConvolutionDescriptor, DeprecatedModesAreConvolutions) {
  const ConvolutionDescriptor conv;
  for (const auto mode : {miopenConvolution, miopenGroupConv, miopenDepthwise}) {
    expect_ok(miopenInitConvolutionDescriptor(conv, mode, 0, 0, 1, 1, 1, 1));
    EXPECT_EQ(settings(conv).mode, miopenConvolution);
  }
}

TEST(ConvolutionDescriptor, InitResetsAllButTheMathMode) {
  const ConvolutionDescriptor conv;
  int find_mode = 0;
  expect_ok(miopenHiddenGetConvolutionFindMode(conv, &find_mode));
  const int other_mode = find_mode == 1 ? 2 : 1;
  expect_ok(miopenSetConvolutionGroupCount(conv, 4));
  expect_ok(miopenSetConvolutionAttribute(conv, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 1));
  expect_ok(miopenSetConvolutionAttribute(conv, MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL, 1));
  expect_ok(miopenSetConvolutionAttribute(conv, MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE, miopenMathDefault));
  expect_ok(miopenHiddenSetConvolutionFindMode(conv, other_mode));
  expect_ok(polymioSetConvolutionMathMode(conv, polymioMathStrict));
  expect_ok(miopenInitConvolutionDescriptor(conv, miopenTranspose, 0, 0, 2, 2, 1, 1));
  expect_ok(miopenSetTransposeConvOutputPadding(conv, 1, 1));
  expect_ok(miopenInitConvolutionDescriptor(conv, miopenTranspose, 0, 0, 2, 2, 1, 1));
  EXPECT_EQ(groups(conv), 1);
  EXPECT_EQ(attribute(conv, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC), 0);
  EXPECT_EQ(attribute(conv, MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL), -1);
  EXPECT_EQ(attribute(conv, MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE), miopenMathPedantic);
  int mode_now = 0, sizes[4] = {};
  expect_ok(miopenHiddenGetConvolutionFindMode(conv, &mode_now));
  EXPECT_EQ(mode_now, find_mode);
  polymioMathMode_t math = polymioMathAny;
  expect_ok(polymioGetConvolutionMathMode(conv, &math));
  EXPECT_EQ(math, polymioMathStrict);
  const Tensor x(miopenFloat, {1, 1, 3, 3}), w(miopenFloat, {1, 1, 2, 2});
  expect_ok(miopenGetConvolutionForwardOutputDim(conv, x, w, &sizes[0], &sizes[1], &sizes[2], &sizes[3]));
  EXPECT_EQ(sizes[2], 6) << "the output padding is gone";
}

TEST(ConvolutionDescriptor, GettersTakeFewerDimensionsAndNoMore) {
  const ConvolutionDescriptor conv;
  const int pad[] = {1, 2, 3}, stride[] = {4, 5, 6}, dilation[] = {7, 8, 9};
  expect_ok(miopenInitConvolutionNdDescriptor(conv, 3, pad, stride, dilation, miopenConvolution));
  int dims = 0, got[3] = {-1, -1, -1};
  expect_ok(miopenGetConvolutionNdDescriptor(conv, 0, &dims, nullptr, nullptr, nullptr, nullptr));
  EXPECT_EQ(dims, 3);
  expect_ok(miopenGetConvolutionNdDescriptor(conv, 2, nullptr, nullptr, got, nullptr, nullptr));
  EXPECT_EQ(Ints(got, got + 3), (Ints{4, 5, -1}));
  expect_bad(miopenGetConvolutionNdDescriptor(conv, 4, &dims, got, got, got, nullptr), {"4", "3"});
  expect_bad(miopenGetConvolutionNdDescriptor(conv, -1, &dims, got, got, got, nullptr), {"-1"});
  expect_bad(miopenGetConvolutionSpatialDim(conv, nullptr), {"spatialDim is null"});
  expect_bad(miopenGetConvolutionGroupCount(conv, nullptr), {"groupCount is null"});
}

TEST(ConvolutionDescriptor, TwoDimensionalFunctionsOnOthersAreUnknownErrors) {
  const ConvolutionDescriptor conv;
  const int zero[] = {0, 0, 0}, one[] = {1, 1, 1};
  expect_ok(miopenInitConvolutionNdDescriptor(conv, 3, zero, one, one, miopenTranspose));
  int n = 0;
  const Tensor t(miopenFloat, {1, 1, 1, 1, 1});
  expect_error(miopenGetConvolutionDescriptor(conv, nullptr, &n, &n, &n, &n, &n, &n), miopenStatusUnknownError,
               {"2-D", "3", "miopenGetConvolutionNdDescriptor"});
  expect_error(miopenSetTransposeConvOutputPadding(conv, 0, 0), miopenStatusUnknownError,
               {"2-D", "3", "miopenSetTransposeConvNdOutputPadding"});
  expect_error(miopenGetConvolutionForwardOutputDim(conv, t, t, &n, &n, &n, &n), miopenStatusUnknownError,
               {"2-D", "3", "miopenGetConvolutionNdForwardOutputDim"});
  expect_error(miopenSetTransposeConvNdOutputPadding(conv, 2, zero), miopenStatusUnknownError, {"2", "3"});
  expect_bad(miopenSetTransposeConvNdOutputPadding(conv, 3, nullptr), {"adjA is null"});
  expect_ok(miopenSetTransposeConvNdOutputPadding(conv, 3, zero));
}

TEST(ConvolutionDescriptor, GroupCountsAreStoredUnchecked) {
  const ConvolutionDescriptor conv;
  for (const int g : {0, -3, 7, 1 << 30}) {
    expect_ok(miopenSetConvolutionGroupCount(conv, g));
    EXPECT_EQ(groups(conv), g);
  }
}

TEST(ConvolutionDescriptor, Attributes) {
  const ConvolutionDescriptor conv;
  const struct {
    miopenConvolutionAttrib_t attr;
    Ints good, bad;
  } cases[] = {{MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL, {0, 1, -1}, {-2, 2, INT_MAX}},
               {MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, {1, 0}, {-1, 2, INT_MIN}},
               {MIOPEN_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE, {0, 1}, {-1, 2}},
               {MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE, {miopenMathDefault, miopenMathPedantic}, {-1, 2}}};
  for (const auto& c : cases) {
    for (const int value : c.good) {
      expect_ok(miopenSetConvolutionAttribute(conv, c.attr, value));
      EXPECT_EQ(attribute(conv, c.attr), value);
    }
    const int before = attribute(conv, c.attr);
    for (const int value : c.bad) {
      const std::string number = std::to_string(value), which = "attribute " + std::to_string(c.attr);
      expect_bad(miopenSetConvolutionAttribute(conv, c.attr, value), {number.c_str(), which.c_str(), "1"});
      EXPECT_EQ(attribute(conv, c.attr), before);
    }
    expect_bad(miopenGetConvolutionAttribute(conv, c.attr, nullptr), {"value is null"});
  }
  miopenConvolutionAttrib_t unknown;
  const int four = 4;
  std::memcpy(&unknown, &four, sizeof unknown);
  int value = 0;
  expect_bad(miopenSetConvolutionAttribute(conv, unknown, 0), {"attribute 4", "DETERMINISTIC", "3 (MATH_TYPE)"});
  expect_bad(miopenGetConvolutionAttribute(conv, unknown, &value), {"attribute 4", "DETERMINISTIC"});
}

TEST(ConvolutionDescriptor, FindModesUnderBothNames) {
  const ConvolutionDescriptor conv;
  for (int mode = 1; mode <= 7; ++mode) {
    expect_ok(miopenSetConvolutionFindMode(conv, static_cast<miopenConvolutionFindMode_t>(mode)));
    int plain = 0;
    expect_ok(miopenHiddenGetConvolutionFindMode(conv, &plain));
    EXPECT_EQ(plain, mode);
    expect_ok(miopenHiddenSetConvolutionFindMode(conv, 8 - mode));
    auto typed = miopenConvolutionFindModeNormal;
    expect_ok(miopenGetConvolutionFindMode(conv, &typed));
    EXPECT_EQ(static_cast<int>(typed), 8 - mode);
  }
  for (const int bad : {0, 8, -1, 100}) {
    const std::string number = "find mode " + std::to_string(bad);
    expect_bad(miopenHiddenSetConvolutionFindMode(conv, bad), {number.c_str(), "1", "7"});
  }
  expect_bad(miopenSetConvolutionFindMode(conv, static_cast<miopenConvolutionFindMode_t>(0)), {"find mode 0"});
  expect_bad(miopenGetConvolutionFindMode(conv, nullptr), {"findMode is null"});
  expect_bad(miopenHiddenGetConvolutionFindMode(conv, nullptr), {"findMode is null"});
}

TEST(ConvolutionDescriptor, ExtraWorkspaceOfBackwardWeights) {
  const ConvolutionDescriptor conv;
  const Tensor t(miopenFloat, {1, 1, 2, 2});
  const auto query = [&](miopenAlphaBetaCase_t c, miopenTensorDescriptor_t in, miopenTensorDescriptor_t out,
                         std::size_t* size) {
    return miopenConvolutionABBackwardWeightsGetWorkSpaceSize(c, in, out, conv, size);
  };
  std::size_t bytes = 99;
  for (const auto c : {DEFAULT, SCALE, BILINEAR}) expect_ok(query(c, t, t, &bytes));
  EXPECT_EQ(bytes, 0u);
  expect_bad(query(ERROR_STATE, t, t, &bytes), {"3", "0, 1, 2"});
  expect_bad(query(DEFAULT, nullptr, t, &bytes), {"input is null"});
  expect_bad(query(DEFAULT, t, nullptr, &bytes), {"output is null"});
  expect_bad(query(DEFAULT, t, t, nullptr), {"buffer_size is null"});
}

/// Output sizes of a convolution of any rank, with the status of the call.
miopenStatus_t output_sizes(const Shape& s, Ints& sizes, miopenDataType_t x_type = miopenFloat,
                            miopenDataType_t w_type = miopenFloat) {
  const ConvolutionDescriptor conv;
  const auto spatial = s.x.size() - 2;
  const auto filled = [&](const Ints& v, int value) { return v.empty() ? Ints(spatial, value) : v; };
  expect_ok(miopenInitConvolutionNdDescriptor(conv, static_cast<int>(spatial), filled(s.pad, 0).data(),
                                              filled(s.stride, 1).data(), filled(s.dilation, 1).data(), s.mode));
  expect_ok(miopenSetConvolutionGroupCount(conv, s.groups));
  if (!s.output_pad.empty())
    expect_ok(miopenSetTransposeConvNdOutputPadding(conv, static_cast<int>(spatial), s.output_pad.data()));
  const Tensor x(x_type, s.x), w(w_type, s.w);
  int dims = -1;
  sizes.assign(s.x.size() + 1, -5);
  const auto status = miopenGetConvolutionNdForwardOutputDim(conv, x, w, &dims, sizes.data());
  EXPECT_EQ(sizes.back(), -5) << "wrote beyond the array";
  sizes.pop_back();
  if (status == miopenStatusSuccess) {
    EXPECT_EQ(static_cast<std::size_t>(dims), s.x.size());
  }
  return status;
}

/// Counts the positions of the dilated filter inside the padded input; at least 1.
int positions(int in, int filter, int pad, int stride, int dilation) {
  int count = 0;
  for (int first = -pad; first + dilation * (filter - 1) < in + pad; first += stride) ++count;
  return std::max(count, 1);
}

TEST(OutputSizes, CountThePositionsOfTheFilter) {
  Ints sizes;
  for (const int in : {1, 2, 5, 8})
    for (const int filter : {1, 2, 3, 7})
      for (const int pad : {0, 1, 4})
        for (const int stride : {1, 2, 3})
          for (const int dilation : {1, 2}) {
            SCOPED_TRACE(testing::Message() << in << " " << filter << " " << pad << " " << stride << " " << dilation);
            const Shape s{{2, 3, in, 9}, {5, 3, filter, 1}, {pad, 0}, {stride, 1}, {dilation, 1}};
            expect_ok(output_sizes(s, sizes));
            ASSERT_EQ(sizes, (Ints{2, 5, positions(in, filter, pad, stride, dilation), 9}));
          }
}

TEST(OutputSizes, TransposedIsTheInverseUpToOutputPadding) {
  Ints sizes;
  for (const int in : {1, 4, 9})
    for (const int filter : {1, 3})
      for (const int stride : {1, 3})
        for (const int pad : {0, 1})
          for (int extra = 0; extra < stride; ++extra) {
            SCOPED_TRACE(testing::Message() << in << " " << filter << " " << stride << " " << pad << " " << extra);
            const Shape s{{2, 6, 5, in}, {6, 4, 1, filter}, {0, pad}, {1, stride}, {}, 1, miopenTranspose, {0, extra}};
            expect_ok(output_sizes(s, sizes));
            const int formula = stride * (in - 1) + filter - 2 * pad + extra;
            ASSERT_EQ(sizes, (Ints{2, 4, 5, std::max(formula, 1)}));
            // A forward convolution of that size gives the input size again.
            if (formula >= 1 && formula + 2 * pad >= filter) {
              ASSERT_EQ(positions(formula, filter, pad, stride, 1), in);
            }
          }
}

TEST(OutputSizes, GrowByTheOutputPaddingOfTwoDimensions) {
  const ConvolutionDescriptor conv;
  expect_ok(miopenInitConvolutionDescriptor(conv, miopenTranspose, 0, 0, 2, 3, 1, 1));
  const Tensor x(miopenFloat, {2, 6, 3, 4}), w(miopenFloat, {6, 5, 2, 2});
  for (const auto& [extra_h, extra_w] : {std::pair{0, 0}, std::pair{1, 0}, std::pair{0, 2}, std::pair{1, 1}}) {
    expect_ok(miopenSetTransposeConvOutputPadding(conv, extra_h, extra_w));
    int n = 0, c = 0, h = 0, wide = 0;
    expect_ok(miopenGetConvolutionForwardOutputDim(conv, x, w, &n, &c, &h, &wide));
    EXPECT_EQ((Ints{n, c, h, wide}), (Ints{2, 5, 6 + extra_h, 11 + extra_w}));
  }
}

TEST(OutputSizes, AreAtLeastOne) {
  Ints sizes;
  expect_ok(output_sizes({{1, 1, 2, 2}, {1, 1, 9, 5}}, sizes));
  EXPECT_EQ(sizes, (Ints{1, 1, 1, 1}));
  expect_ok(output_sizes({{1, 1, 1, 1}, {1, 1, 1, 1}, {5, 5}, {}, {}, 1, miopenTranspose}, sizes));
  EXPECT_EQ(sizes, (Ints{1, 1, 1, 1}));
}

TEST(OutputSizes, OneToThreeDimensions) {
  Ints sizes;
  expect_ok(output_sizes({{2, 3, 10}, {4, 3, 3}, {}, {2}}, sizes));
  EXPECT_EQ(sizes, (Ints{2, 4, 4}));
  expect_ok(output_sizes({{2, 3, 10, 11, 12}, {4, 3, 3, 1, 5}, {1, 0, 2}, {2, 1, 3}, {1, 1, 2}}, sizes));
  EXPECT_EQ(sizes, (Ints{2, 4, 5, 11, 3}));
  expect_bad(output_sizes({{1, 1, 2, 2, 2, 2}, {1, 1, 1, 1, 1, 1}}, sizes), {"4 spatial", "1 to 3"});
}

TEST(OutputSizes, GroupRules) {
  Ints sizes;
  expect_ok(output_sizes({{1, 6, 4, 4}, {9, 2, 1, 1}, {}, {}, {}, 3}, sizes));
  EXPECT_EQ(sizes, (Ints{1, 9, 4, 4}));
  expect_ok(output_sizes({{1, 6, 4, 4}, {12, 1, 1, 1}, {}, {}, {}, 6}, sizes));
  EXPECT_EQ(sizes[1], 12) << "depthwise with multiplier 2";
  expect_ok(output_sizes({{1, 6, 4, 4}, {6, 5, 1, 1}, {}, {}, {}, 3, miopenTranspose}, sizes));
  EXPECT_EQ(sizes[1], 15) << "transposed: filters times groups";
  expect_bad(output_sizes({{1, 6, 4, 4}, {9, 3, 1, 1}}, sizes), {"6 channels", "3"});
  expect_bad(output_sizes({{1, 6, 4, 4}, {9, 6, 1, 1}, {}, {}, {}, 3}, sizes), {"6", "3 group"});
  expect_bad(output_sizes({{1, 6, 4, 4}, {8, 2, 1, 1}, {}, {}, {}, 3}, sizes), {"3", "8 filters"});
  expect_bad(output_sizes({{1, 6, 4, 4}, {9, 6, 1, 1}, {}, {}, {}, 0}, sizes), {"group count", "0"});
  expect_bad(output_sizes({{1, 6, 4, 4}, {9, 6, 1, 1}, {}, {}, {}, -2}, sizes), {"group count", "-2"});
  expect_bad(output_sizes({{1, 6, 4, 4}, {5, 6, 1, 1}, {}, {}, {}, 1, miopenTranspose}, sizes), {"6", "5"});
  expect_bad(output_sizes({{1, 6, 4, 4}, {6, 6, 1, 1}, {}, {}, {}, 4, miopenTranspose}, sizes), {"4", "6"});
}

TEST(OutputSizes, TensorsMustFitTogether) {
  Ints sizes;
  expect_bad(output_sizes({{1, 1, 4, 4}, {1, 1, 1}}, sizes), {"rank 4", "rank 3"});
  expect_bad(output_sizes({{1, 1, 4, 4}, {1, 1, 1, 1}}, sizes, miopenFloat, miopenHalf), {"fp32", "fp16"});
  for (const int extra : {-1, 2, 3})
    expect_bad(output_sizes({{1, 1, 4, 4}, {1, 1, 2, 2}, {}, {2, 2}, {}, 1, miopenTranspose, {0, extra}}, sizes),
               {"output padding", "stride 2"});
}

TEST(OutputSizes, NullAndUnsetArguments) {
  const ConvolutionDescriptor conv;
  const Tensor x(miopenFloat, {1, 1, 4, 4}), w(miopenFloat, {1, 1, 1, 1});
  const TensorDescriptor unset;
  int n = 0, c = 0, h = 0, wide = 0, sizes[4];
  expect_bad(miopenGetConvolutionForwardOutputDim(conv, nullptr, w, &n, &c, &h, &wide), {"input is null"});
  expect_bad(miopenGetConvolutionForwardOutputDim(conv, x, nullptr, &n, &c, &h, &wide), {"filter is null"});
  expect_bad(miopenGetConvolutionForwardOutputDim(conv, unset, w, &n, &c, &h, &wide), {"input", "not been set"});
  expect_bad(miopenGetConvolutionForwardOutputDim(conv, x, unset, &n, &c, &h, &wide), {"filter", "not been set"});
  expect_bad(miopenGetConvolutionForwardOutputDim(conv, x, w, nullptr, &c, &h, &wide), {"n is null"});
  expect_bad(miopenGetConvolutionForwardOutputDim(conv, x, w, &n, nullptr, &h, &wide), {"c is null"});
  expect_bad(miopenGetConvolutionForwardOutputDim(conv, x, w, &n, &c, nullptr, &wide), {"h is null"});
  expect_bad(miopenGetConvolutionForwardOutputDim(conv, x, w, &n, &c, &h, nullptr), {"w is null"});
  expect_bad(miopenGetConvolutionNdForwardOutputDim(conv, x, w, &n, nullptr), {"outputTensorDimA is null"});
  expect_ok(miopenGetConvolutionNdForwardOutputDim(conv, x, w, nullptr, sizes));
  EXPECT_EQ(Ints(sizes, sizes + 4), (Ints{1, 1, 4, 4}));
  expect_ok(miopenGetConvolutionForwardOutputDim(conv, x, w, &n, &c, &h, &wide));
  EXPECT_EQ((Ints{n, c, h, wide}), (Ints{1, 1, 4, 4}));
}

TEST(OutputSizes, BeyondAnIntAreRefused) {
  const ConvolutionDescriptor conv;
  expect_ok(miopenInitConvolutionDescriptor(conv, miopenTranspose, 0, 0, 1 << 20, 1, 1, 1));
  const Tensor x(miopenFloat, {1, 1, 1 << 13, 1}), w(miopenFloat, {1, 1, 1, 1});
  int n = 0, sizes[4];
  expect_bad(miopenGetConvolutionForwardOutputDim(conv, x, w, &n, &n, &n, &n), {"8588886017", "int"});
  expect_bad(miopenGetConvolutionNdForwardOutputDim(conv, x, w, &n, sizes), {"8588886017", "int"});
}

TEST(OutputSizes, BeyondSixtyFourBitsAreRefused) {
  const auto query = [](miopenConvolutionMode_t mode, int pad, int stride, int groups, std::size_t channels,
                        std::size_t width, std::size_t filters) {
    const ConvolutionDescriptor conv;
    const TensorDescriptor x, w;
    const std::size_t x_lens[] = {1, channels, 1, width}, w_lens[] = {filters, channels, 1, 1};
    expect_ok(miopenInitConvolutionDescriptor(conv, mode, 0, pad, 1, stride, 1, 1));
    expect_ok(miopenSetConvolutionGroupCount(conv, groups));
    expect_ok(miopenSetTensorDescriptorV2(x, miopenInt8, 4, x_lens, nullptr));
    expect_ok(miopenSetTensorDescriptorV2(w, miopenInt8, 4, w_lens, nullptr));
    int n = 0, sizes[4];
    return miopenGetConvolutionNdForwardOutputDim(conv, x, w, &n, sizes);
  };
  constexpr std::size_t kHuge = std::size_t{1} << 62;
  expect_bad(query(miopenConvolution, INT_MAX, 1, 1, 1, INT64_MAX, 1), {"a size of y", "2^63"});
  expect_bad(query(miopenTranspose, 0, 4, 1, 1, kHuge, 1), {"a size of y", "2^63"});
  expect_bad(query(miopenConvolution, 0, 1, INT_MAX, kHuge, 1, 1), {"channels"});
}

}  // namespace
}  // namespace polymio::test
