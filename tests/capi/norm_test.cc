// The API of normalizations: values of every function against the reference, absent buffers, in place, workspace, and
// errors with their texts. On any device.
// SPDX-License-Identifier: MIT
#include "reference/norm.h"

#include <cmath>
#include <limits>

#include "on_device.h"

namespace polymio::test {
namespace {

constexpr float kFloatEpsilon = 1e-3f;  // as the calls take it
namespace ref = polymio::reference;
using Bytes = std::vector<unsigned char>;
using ref::NormKind;

Bytes wave(const ref::Tensor& t, double scale, double shift) {
  Bytes bytes(t.bytes());
  for (std::int64_t i = 0; i < t.count(); ++i)
    ref::store(t.type, bytes.data(), t.offset(i), shift + scale * std::sin(static_cast<double>(i * i % 101)));
  return bytes;
}

/// The tensors of a problem with contents, as the reference describes it, and all its calls.
struct Norm {
  Norm(miopenHandle_t h, NormKind kind, miopenDataType_t type, bool affine, const std::vector<std::int64_t>& lens,
       std::int64_t first = 1, std::int64_t groups = 1, const std::vector<std::int64_t>& strides = {})
      : handle(h) {
    p.kind = kind;
    p.affine = affine;
    p.first = first;
    p.groups = groups;
    p.epsilon = kFloatEpsilon;
    p.parameters = p.statistics = static_cast<ref::Type>(type);
    p.x = p.x2 = p.dy = p.out = ref::Tensor(p.parameters, lens, strides);
    for (const auto& [desc, tensor] :
         {std::pair{&of_x, p.x}, {&of_parameter, p.parameter()}, {&of_statistic, p.statistic()}})
      desc->set(type, Ints(tensor.lens.begin(), tensor.lens.end()), Ints(tensor.strides.begin(), tensor.strides.end()));
    x = wave(p.x, 1, 0.5);
    x2 = wave(p.x, 0.5, -1);
    dy = wave(p.x, 2, 0);
    weight = wave(p.parameter(), 0.5, 1);
    bias = wave(p.parameter(), 1, 0);
    mean = wave(p.statistic(), 0.25, 0.5);
    rstd = wave(p.statistic(), 0.25, 1);
    for (Bytes* out : {&y, &dx}) out->assign(x.size(), 0xff);
    for (Bytes* out : {&dw, &db}) out->assign(weight.size(), 0xff);
  }

  miopenNormMode_t mode() const {
    const int first_mode = p.kind == NormKind::kAddLayer ? 2 : p.kind == NormKind::kRms ? 4 : 0;
    return static_cast<miopenNormMode_t>(first_mode + (p.affine ? 1 : 0));
  }
  std::int32_t dim() const { return static_cast<std::int32_t>(p.first); }

  miopenStatus_t forward(const void* in, void* out, const void* w, const void* b, void* m, void* r) {
    const There other(handle, x2);
    switch (p.kind) {
      case NormKind::kLayer:
        return miopenLayerNormForward(handle, mode(), of_x, in, of_parameter, w, of_parameter, b, kFloatEpsilon, dim(),
                                      of_x, out, of_statistic, m, of_statistic, r);
      case NormKind::kAddLayer:
        return miopenAddLayerNormForward(handle, mode(), of_x, in, of_x, other, of_parameter, w, of_parameter, b,
                                         kFloatEpsilon, dim(), of_x, out, of_statistic, m, of_statistic, r);
      case NormKind::kRms:
        return miopenT5LayerNormForward(handle, mode(), of_x, in, of_parameter, w, kFloatEpsilon, of_x, out,
                                        of_statistic, r);
      default:
        return miopenGroupNormForward(handle, mode(), of_x, in, of_parameter, w, of_parameter, b,
                                      static_cast<std::uint64_t>(p.groups), kFloatEpsilon, of_x, out, of_statistic, m,
                                      of_statistic, r);
    }
  }
  miopenStatus_t backward(const void* in, const void* gradient, void* out) {
    const There w(handle, weight), m(handle, mean), r(handle, rstd), to_dw(handle, dw), to_db(handle, db);
    if (p.kind == NormKind::kRms)
      return miopenT5LayerNormBackward(handle, mode(), nullptr, 0, of_x, gradient, of_x, in, of_parameter, w,
                                       of_statistic, r, of_x, out, of_parameter, to_dw);
    return miopenLayerNormBackward(handle, mode(), nullptr, 0, of_x, gradient, of_x, in, of_parameter, w, of_statistic,
                                   m, of_statistic, r, dim(), of_x, out, of_parameter, to_dw, of_parameter, to_db);
  }
  miopenStatus_t workspace(std::size_t* bytes) {
    if (p.kind == NormKind::kRms)
      return miopenGetT5LayerNormBackwardWorkspaceSize(handle, mode(), of_x, of_x, of_parameter, of_statistic, of_x,
                                                       of_parameter, bytes);
    return miopenGetLayerNormBackwardWorkspaceSize(handle, mode(), of_x, of_x, of_parameter, of_statistic, of_statistic,
                                                   dim(), of_x, of_parameter, of_parameter, bytes);
  }

  void expect(const ref::Tensor& t, const Bytes& got, const ref::Result& want, std::int64_t length) const {
    const ref::Comparison found = ref::compare(arithmetic(p, t.type, length), t, got.data(), want);
    EXPECT_TRUE(found.ok()) << "element " << found.index << " is " << found.got << ", should be " << found.want;
  }
  void check_forward() {
    const auto want = norm_forward(p, {x.data(), x2.data(), weight.data(), bias.data()});
    expect_ok(forward(There(handle, x), There(handle, y), There(handle, weight), There(handle, bias),
                      There(handle, mean), There(handle, rstd)));
    expect(p.out, y, want[0], p.length());
    if (p.kind != NormKind::kRms) expect(p.statistic(), mean, want[1], p.length());
    expect(p.statistic(), rstd, want[2], p.length());
  }
  void check_backward() {
    std::size_t bytes = 99;
    expect_ok(workspace(&bytes));
    EXPECT_EQ(bytes, 0u);
    const auto want = norm_backward(
        p, {.x = x.data(), .weight = weight.data(), .dy = dy.data(), .mean = mean.data(), .rstd = rstd.data()});
    expect_ok(backward(There(handle, x), There(handle, dy), There(handle, dx)));
    expect(p.out, dx, want[0], p.length());
    expect(p.parameter(), dw, want[1], p.rows());
    if (p.kind != NormKind::kRms) expect(p.parameter(), db, want[2], p.rows());
  }

  miopenHandle_t handle;
  ref::Norm p;
  Tensor of_x, of_parameter, of_statistic;
  Bytes x, x2, dy, weight, bias, mean, rstd, y, dx, dw, db;
};

struct NormApi : testing::Test {
  /// Calls body with the problem in every type, with and without parameters.
  template <class Body>
  void each(NormKind kind, const std::vector<std::int64_t>& lens, const Body& body, std::int64_t first = 1,
            std::int64_t groups = 1) {
    for (const miopenDataType_t type : {miopenFloat, miopenHalf, miopenBFloat16, miopenDouble})
      for (const bool affine : {false, true}) {
        if (!sampled()) continue;
        SCOPED_TRACE("type " + std::to_string(type) + (affine ? " affine" : ""));
        Norm norm(handle, kind, type, affine, lens, first, groups);
        body(norm);
      }
  }

  DeviceHandle handle;
};

void check_forward(Norm& n) { n.check_forward(); }
void check_backward(Norm& n) { n.check_backward(); }

TEST_F(NormApi, LayerNormForward) { each(NormKind::kLayer, {6, 5, 7}, check_forward, 2); }
TEST_F(NormApi, AddLayerNormForward) { each(NormKind::kAddLayer, {6, 5, 7}, check_forward, 1); }
TEST_F(NormApi, T5LayerNormForward) { each(NormKind::kRms, {6, 5, 7}, check_forward); }
TEST_F(NormApi, GroupNormForward) { each(NormKind::kGroup, {2, 12, 5, 7}, check_forward, 1, 3); }
TEST_F(NormApi, LayerNormBackward) { each(NormKind::kLayer, {6, 5, 7}, check_backward, 1); }
TEST_F(NormApi, T5LayerNormBackward) { each(NormKind::kRms, {6, 5, 7}, check_backward); }

TEST_F(NormApi, AnyFirstDimensionOfAnyRank) {
  for (const std::vector<std::int64_t>& lens : std::vector<std::vector<std::int64_t>>{
           {9}, {3, 5}, {2, 3, 4, 5, 6}, {2, 3, 1, 2, 3, 2}, {2, 1, 2, 2, 1, 3, 2, 2}})
    for (std::int64_t first = 0; first <= static_cast<std::int64_t>(lens.size()); ++first) {
      SCOPED_TRACE("rank " + std::to_string(lens.size()) + " first " + std::to_string(first));
      Norm norm(handle, NormKind::kLayer, miopenFloat, true, lens, first);
      norm.check_forward();
      norm.check_backward();
    }
  for (const std::vector<std::int64_t>& lens : std::vector<std::vector<std::int64_t>>{{9}, {2, 1, 2, 2, 1, 3, 2, 5}}) {
    Norm rms(handle, NormKind::kRms, miopenFloat, true, lens);
    rms.check_forward();
    rms.check_backward();
  }
}

/// Dimensions are merged within rows and among them, but not across gaps.
TEST_F(NormApi, GapsBetweenRowsOfSixDimensions) {
  const std::vector<std::int64_t> lens = {2, 3, 2, 2, 3, 5}, strides = {300, 100, 50, 15, 5, 1};
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
    Norm norm(handle, kind, miopenFloat, true, lens, 3, 1, strides);
    norm.check_forward();
    norm.check_backward();
  }
}

TEST_F(NormApi, AbsentStatisticsAndParametersAreNotTouched) {
  for (const NormKind kind : {NormKind::kLayer, NormKind::kAddLayer, NormKind::kRms, NormKind::kGroup}) {
    Norm norm(handle, kind, miopenHalf, false, {2, 12, 5, 7}, 2, 3);
    norm.check_forward();
    Bytes only_y(norm.y.size());
    expect_ok(norm.forward(There(handle, norm.x), There(handle, only_y), nullptr, nullptr, nullptr, nullptr));
    EXPECT_EQ(only_y, norm.y);
  }
}

TEST_F(NormApi, InPlace) {
  for (const NormKind kind : {NormKind::kLayer, NormKind::kAddLayer, NormKind::kRms, NormKind::kGroup}) {
    Norm norm(handle, kind, miopenFloat, true, {2, 32, 5, 7}, 1, 4);
    norm.check_forward();
    Bytes both = norm.x;
    {
      const There data(handle, both);
      expect_ok(norm.forward(data, data, There(handle, norm.weight), There(handle, norm.bias), nullptr, nullptr));
    }
    EXPECT_EQ(both, norm.y);
    if (kind != NormKind::kLayer && kind != NormKind::kRms) continue;
    norm.check_backward();
    const Bytes dw = norm.dw;
    for (const bool over_x : {false, true}) {
      Bytes in = norm.x, gradient = norm.dy, *const written = over_x ? &in : &gradient;
      {
        const There to_x(handle, in), to_dy(handle, gradient);
        expect_ok(norm.backward(to_x, to_dy, over_x ? static_cast<void*>(to_x) : static_cast<void*>(to_dy)));
      }
      EXPECT_EQ(*written, norm.dx);
      EXPECT_EQ(norm.dw, dw) << "the gradient of weight needs x and dy from before dx is written";
    }
  }
}

/// A far mean costs no precision, constant rows have deviation 0, and NaN stays in its row.
TEST_F(NormApi, UnusualRows) {
  const Tensor of_x(miopenFloat, {4, 300}), of_parameter(miopenFloat, {300}), of_statistic(miopenFloat, {4});
  std::vector<float> x(1200), y(1200), mean(4), rstd(4);
  for (int i = 0; i < 300; ++i) {
    x[i] = 4096 + static_cast<float>(i % 2);
    x[300 + i] = 7.25f;
    x[600 + i] = i == 17 ? std::numeric_limits<float>::quiet_NaN() : 1;
    x[900 + i] = i == 0 ? 1e4f : static_cast<float>(i % 3);
  }
  expect_ok(miopenLayerNormForward(handle, MIOPEN_ELEMENTWISE_AFFINE, of_x, There(handle, x), of_parameter, nullptr,
                                   of_parameter, nullptr, 0, 1, of_x, There(handle, y), of_statistic,
                                   There(handle, mean), of_statistic, There(handle, rstd)));
  EXPECT_EQ(mean[0], 4096.5f);
  EXPECT_NEAR(rstd[0], 2, 1e-5);
  for (int i = 0; i < 300; ++i) EXPECT_NEAR(y[i], i % 2 ? 1 : -1, 1e-5);
  EXPECT_EQ(mean[1], 7.25f);
  EXPECT_TRUE(std::isinf(rstd[1]));
  EXPECT_TRUE(std::isnan(mean[2]) && std::isnan(rstd[2]) && std::isnan(y[600]));
  double sum = 0, squares = 0;
  for (int i = 900; i < 1200; ++i) sum += static_cast<double>(x[i]) / 300;
  for (int i = 900; i < 1200; ++i)
    squares += (static_cast<double>(x[i]) - sum) * (static_cast<double>(x[i]) - sum) / 300;
  EXPECT_NEAR(rstd[3] * std::sqrt(squares), 1, 1e-5);
}

TEST_F(NormApi, ErrorsSayWhatIsWrong) {
  const Tensor x(miopenFloat, {4, 6}), w(miopenFloat, {6}), s(miopenFloat, {4}), half(miopenHalf, {4, 6}),
      integers(miopenInt32, {4, 6}), wide(miopenDouble, {6}), short_w(miopenFloat, {5}), unset,
      other(miopenFloat, {6, 4}), gaps(miopenFloat, {2, 3}, {4, 1}), transposed(miopenFloat, {4, 6}, {1, 4}),
      large(miopenFloat, {1, 1, 2, 2, 2, 2, 2, 2}, {1, 1, 3, 7, 15, 31, 63, 127});
  std::vector<float> in(64, 1), p(64, 1), out(64, 7), means(64, 7);
  const auto call = [&](miopenTensorDescriptor_t x_desc, const void* x_data, miopenTensorDescriptor_t w_desc,
                        const void* w_data, int dim, miopenTensorDescriptor_t y_desc, void* y_data,
                        miopenTensorDescriptor_t s_desc, miopenNormMode_t mode = MIOPEN_WEIGHT_BIAS) {
    return miopenLayerNormForward(handle, mode, x_desc, x_data, w_desc, w_data, w_desc, w_data, kFloatEpsilon, dim,
                                  y_desc, y_data, s_desc, means.data(), s_desc, means.data() + 8);
  };
  const auto bad = [&](miopenStatus_t status, std::initializer_list<const char*> parts, int line = __builtin_LINE()) {
    expect_bad(status, parts, line);
    EXPECT_EQ(out, std::vector<float>(64, 7)) << "a refused call writes nothing, line " << line;
    EXPECT_EQ(means, std::vector<float>(64, 7)) << "line " << line;
  };
  float *const a = in.data(), *const b = p.data(), *const y = out.data();
  bad(call(nullptr, a, w, b, 1, x, y, s), {"descriptor of x", "null"});
  bad(call(x, nullptr, w, b, 1, x, y, s), {"buffer of x", "null"});
  bad(call(x, a, nullptr, b, 1, x, y, s), {"descriptor of weight", "null"});
  bad(call(x, a, w, nullptr, 1, x, y, s), {"buffer of weight", "null"});
  bad(call(x, a, w, b, 1, x, nullptr, s), {"buffer of y", "null"});
  bad(call(x, a, w, b, 1, x, y, nullptr), {"descriptor of mean", "null"});
  bad(call(unset, a, w, b, 1, x, y, s), {"x", "not been set"});
  bad(call(x, a, w, b, -1, x, y, s), {"normalized_dim is -1", "0 to 2"});
  bad(call(x, a, w, b, 3, x, y, s), {"normalized_dim is 3", "0 to 2"});
  bad(call(x, a, short_w, b, 1, x, y, s), {"weight has 5 elements", "6 are needed"});
  bad(call(x, a, w, b, 1, x, y, w), {"mean has 6 elements", "4 are needed", "row"});
  bad(call(x, a, gaps, b, 1, x, y, s), {"weight has strides 4,1", "row-major"});
  bad(call(x, a, wide, b, 1, x, y, s), {"weight and bias are fp64", "x is fp32"});
  bad(call(x, a, w, b, 1, other, y, s), {"4x6", "6x4"});
  bad(call(x, a, w, b, 1, half, y, s), {"fp32", "fp16"});
  bad(call(integers, a, w, b, 1, integers, y, s), {"int32", "fp64"});
  bad(call(large, a, w, b, 5, large, y, s), {"rank 6", "1 to 5"});
  bad(call(x, a, w, b, 1, x, y, s, MIOPEN_WEIGHT_BIAS_T5), {"mode is 5", "0", "1"});
  bad(call(x, a, w, b, 1, x, a + 1, s), {"overlaps x"});
  bad(call(x, a, w, b, 1, transposed, a, s), {"strides differ"});
  bad(miopenLayerNormForward(nullptr, MIOPEN_WEIGHT_BIAS, x, a, w, b, w, b, kFloatEpsilon, 1, x, y, s, nullptr, s,
                             nullptr),
      {"handle"});
  const Tensor images(miopenFloat, {2, 4, 3}), channels(miopenFloat, {4}), of_groups(miopenFloat, {2, 2});
  const auto group = [&](miopenTensorDescriptor_t t, std::uint64_t groups) {
    return miopenGroupNormForward(handle, MIOPEN_WEIGHT_BIAS, t, a, channels, b, channels, b, groups, kFloatEpsilon, t,
                                  y, of_groups, nullptr, of_groups, nullptr);
  };
  bad(group(images, 0), {"num_groups is 0", "4 channels"});
  bad(group(images, 3), {"num_groups is 3", "4 channels"});
  bad(group(images, std::uint64_t{1} << 63), {"num_groups"});
  bad(group(x, 2), {"rank 2", "3 to 5"});
  bad(group(images, 4), {"mean has 4 elements", "8 are needed"});
  const auto back = [&](const void* dy, const void* mean, const void* rstd, void* dx, void* dw, void* db) {
    return miopenLayerNormBackward(handle, MIOPEN_WEIGHT_BIAS, nullptr, 0, x, dy, x, a, w, b, s, mean, s, rstd, 1, x,
                                   dx, w, dw, w, db);
  };
  bad(back(nullptr, b, b, y, y + 32, y + 40), {"dy", "null"});
  bad(back(a, nullptr, b, y, y + 32, y + 40), {"mean", "null"});
  bad(back(a, b, nullptr, y, y + 32, y + 40), {"rstd", "null"});
  bad(back(a, b, b, nullptr, y + 32, y + 40), {"dx", "null"});
  bad(back(a, b, b, y, nullptr, y + 40), {"dw", "null"});
  bad(back(a, b, b, y, y + 32, nullptr), {"db", "null"});
  bad(back(a, b, b, a + 2, y + 32, y + 40), {"overlaps"});
  std::size_t bytes = 0;
  bad(miopenGetLayerNormBackwardWorkspaceSize(handle, MIOPEN_WEIGHT_BIAS, x, x, w, s, s, 1, x, w, w, nullptr),
      {"sizeInBytes", "null"});
  bad(miopenGetLayerNormBackwardWorkspaceSize(handle, MIOPEN_WEIGHT_BIAS, half, x, w, s, s, 1, x, w, w, &bytes),
      {"fp32", "fp16"});
  bad(miopenGetT5LayerNormBackwardWorkspaceSize(handle, MIOPEN_WEIGHT_BIAS, x, x, w, s, x, w, &bytes), {"mode is 1"});
  bad(miopenT5LayerNormForward(handle, MIOPEN_WEIGHT_BIAS_T5, x, a, w, nullptr, kFloatEpsilon, x, y, s, nullptr),
      {"weight", "null"});
  bad(miopenAddLayerNormForward(handle, MIOPEN_WEIGHT_BIAS_FUSED_ADD, x, a, x, nullptr, w, b, w, b, kFloatEpsilon, 1, x,
                                y, s, nullptr, s, nullptr),
      {"x2", "null"});
}

}  // namespace
}  // namespace polymio::test
