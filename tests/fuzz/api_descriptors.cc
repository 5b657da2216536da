// The API fuzzer's calls that create, set, read and destroy descriptors of tensors, convolutions and activations.
// SPDX-License-Identifier: MIT
#include <mutex>

#include "fuzz/api.h"

namespace polymio::fuzz {
namespace {

template <class T>
void create(World& w, Kind kind, Status (*make)(T*)) {
  if (w.count(kind) > 6) return;
  Draw d(w);
  T object = nullptr;
  if (d.check(make(d.pointer(&object)))) w.created(kind, object);
}

template <class T>
void destroy(World& w, Kind kind, Status (*end)(T)) {
  Draw d(w);
  const T object = d.object<T>(kind);
  if (d.check(end(object))) w.destroyed(kind, object);
}

std::string text_of(const TensorModel& m) {
  std::string text = "type " + std::to_string(m.type);
  for (const auto l : m.lens) text += " " + std::to_string(l);
  for (const auto s : m.strides) text += "/" + std::to_string(s);
  return text;
}

// Expected values of descriptors.

void expect_tensor(World& w, miopenTensorDescriptor_t t) {
  const TensorModel& m = w.tensors[t];
  int rank = -1;
  if (miopenGetTensorDescriptorSize(t, &rank) != kOk || rank != static_cast<int>(m.lens.size()))
    return w.report("the rank is " + std::to_string(rank) + ", should be that of " + text_of(m));
  const auto fits = [](std::int64_t v) { return v <= INT_MAX; };
  if (!std::all_of(m.lens.begin(), m.lens.end(), fits) || !std::all_of(m.strides.begin(), m.strides.end(), fits))
    return;
  std::vector<int> lens(m.lens.size()), strides(lens);
  miopenDataType_t type = miopenFloat;
  if (miopenGetTensorDescriptor(t, &type, lens.data(), strides.data()) != kOk)
    return w.report(std::string("a descriptor cannot be read: ") + polymioGetLastError());
  const TensorModel got{type, {lens.begin(), lens.end()}, {strides.begin(), strides.end()}, m.vector};
  if (rank > 0 && got != m) w.report("it holds " + text_of(got) + ", should be " + text_of(m));
}

/// A size; 0 or negative if the argument is wrong.
int size_of_dimension(Draw& d) {
  if (!d.wrong()) return static_cast<int>(d.random().one_in(12) ? INT_MAX : d.random().between(1, 5));
  d.bad();
  return d.random().pick({0, -1, -7, INT_MIN});
}

/// Expects a refusal of tensors of more than 2^63 bytes; sizes and strides are positive.
void refuse_beyond(Draw& d, const TensorModel& m) {
  const auto limit = static_cast<Wide>(INT64_MAX);
  Wide dense = static_cast<Wide>(ref::size_of(static_cast<ref::Type>(m.type)));
  bool beyond = m.bytes() > limit;
  for (std::size_t i = 0; i < m.lens.size() && !beyond; ++i) beyond = (dense *= m.lens[i]) > limit;
  if (beyond) d.bad();
}

miopenDataType_t data_type(Draw& d) { return d.enumerator<miopenDataType_t>(kTypes, kNoTypes); }

/// Updates the expected values if the call was accepted; a refused call must have changed nothing.
void settle(Draw& d, Status got, miopenTensorDescriptor_t t, const TensorModel& m) {
  const bool accepted = d.check(got, d.world().entry->name + (" " + text_of(m)));
  if (!d.world().tensors.contains(t)) return;
  if (accepted) d.world().tensors[t] = m;
  expect_tensor(d.world(), t);
}

void set_4d(World& w) {
  Draw d(w);
  const auto t = d.object<miopenTensorDescriptor_t>(Kind::kTensor);
  const auto type = data_type(d);
  if (d.random().one_in(16)) {  // empty again
    const bool accepted = d.check(miopenSet4dTensorDescriptor(t, type, 0, 0, 0, 0));
    if (accepted) w.tensors[t] = {};
    return;
  }
  int v[4];
  for (int& size : v) size = size_of_dimension(d);
  if (std::all_of(v, v + 4, [](int size) { return size == 0; })) v[0] = -1;
  TensorModel m{type, {v, v + 4}, {}, 1};
  const bool counts = d.clean();
  if (counts) {
    m.strides = packed_strides(m.lens);
    refuse_beyond(d, m);
  }
  settle(d, miopenSet4dTensorDescriptor(t, type, v[0], v[1], v[2], v[3]), t, m);
}

void set_4d_strides(World& w) {
  Draw d(w);
  const auto t = d.object<miopenTensorDescriptor_t>(Kind::kTensor);
  const auto type = data_type(d);
  int v[8];
  for (int& size : v) size = size_of_dimension(d);
  const TensorModel m{type, {v, v + 4}, {v + 4, v + 8}, 1};
  if (d.clean()) refuse_beyond(d, m);
  settle(d, miopenSet4dTensorDescriptorEx(t, type, v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]), t, m);
}

/// The number of dimensions argument, for arrays of eight elements.
int dimensions(Draw& d) {
  if (!d.wrong()) return static_cast<int>(d.random().between(1, 8));
  const int count = d.random().pick({0, -1, INT_MIN, 9, INT_MAX});
  d.refuse({count < 1 ? kInvalid : kBad});
  return count;
}

/// An array of sizes that must not be null; InvalidValue if it is.
template <class T>
const T* array(Draw& d, const std::vector<T>& values) {
  if (!d.wrong()) return values.data();
  d.refuse({kInvalid});
  return nullptr;
}

template <class T>
void set_nd(World& w, Status (*set)(miopenTensorDescriptor_t, miopenDataType_t, int, const T*, const T*)) {
  Draw d(w);
  const auto t = d.object<miopenTensorDescriptor_t>(Kind::kTensor);
  const auto type = data_type(d);
  const int count = dimensions(d);
  const bool huge = sizeof(T) == 8 && d.random().one_in(4);
  std::vector<T> lens, strides;
  for (int i = 0; i < std::clamp(count, 1, 8); ++i) {
    const auto value = [&] {
      return huge && d.random().one_in(3) ? static_cast<T>(INT64_MAX >> d.random().below(40))
                                          : static_cast<T>(size_of_dimension(d));
    };
    lens.push_back(value());
    strides.push_back(value());
  }
  const T* const given = array(d, lens);
  const bool packed = d.random().one_in(2);
  TensorModel m{type, {lens.begin(), lens.end()}, {strides.begin(), strides.end()}, 1};
  if (packed) {
    // Strides that are not given cannot be wrong.
    const bool lens_right = std::all_of(m.lens.begin(), m.lens.end(), [](std::int64_t v) { return v > 0; });
    if (!d.clean() && lens_right) d.allow(kOk);
    Wide step = 1;
    for (std::size_t i = m.lens.size(); i-- > 0; step *= m.lens[i]) {
      if (step > INT64_MAX || step < 1) {
        d.bad();
        step = 1;
      }
      m.strides[i] = static_cast<std::int64_t>(step);
    }
  }
  if (d.clean()) refuse_beyond(d, m);
  settle(d, set(t, type, count, given, packed ? nullptr : strides.data()), t, m);
}

/// The strides of a layout; the order of its dimensions is slowest first.
TensorModel laid_out(miopenDataType_t type, int layout, std::vector<std::int64_t> lens) {
  static const std::vector<std::size_t> kOrders[] = {{0, 1, 2, 3}, {0, 2, 3, 1},    {1, 2, 3, 0},
                                                     {0, 1, 2, 3}, {0, 1, 2, 3},    {1, 2, 3, 0},
                                                     {1, 2, 3, 0}, {0, 1, 2, 3, 4}, {0, 2, 3, 4, 1}};
  const std::int64_t vector = layout == 3 || layout == 5 ? 4 : layout == 4 || layout == 6 ? 8 : 1;
  lens[1] /= vector;
  TensorModel m{type, lens, lens, vector};
  std::int64_t step = vector;
  const auto& order = kOrders[layout];
  for (auto at = order.rbegin(); at != order.rend(); step *= lens[*at++]) m.strides[*at] = step;
  return m;
}

void set_layout(World& w) {
  Draw d(w);
  const auto t = d.object<miopenTensorDescriptor_t>(Kind::kTensor);
  const auto type = data_type(d);
  const auto layout = d.enumerator<miopenTensorLayout_t>(up_to(8), {9, -1, INT_MAX, INT_MIN});
  const int number = static_cast<int>(layout);
  int count = number >= 7 ? 5 : 4;
  std::vector<int> lens;
  for (int i = 0; i < 8; ++i) lens.push_back(static_cast<int>(d.random().between(1, 5)));
  if (number >= 3 && number <= 6) lens[1] *= 8;
  if (d.wrong()) {
    lens[d.random().below(static_cast<std::uint64_t>(count))] = d.random().pick({0, -1, INT_MIN});
    d.bad();
  }
  if (number >= 3 && number <= 6 && d.wrong()) {
    lens[1] = 7;
    d.bad();
  }
  if (d.wrong()) {
    count = d.random().pick({0, -1, 1, 3, 6, 8, 9, INT_MAX});
    d.refuse({count < 1 ? kInvalid : kBad});
  }
  const int* const given = array(d, lens);
  const TensorModel m =
      d.clean() ? laid_out(type, number, {lens.begin(), lens.begin() + count}) : TensorModel{type, {}, {}, 1};
  settle(d, miopenSetNdTensorDescriptorWithLayout(t, type, layout, given, count), t, m);
}

void set_cast(World& w) {
  Draw d(w);
  const auto t = d.object<miopenTensorDescriptor_t>(Kind::kTensor);
  const int type = d.random().pick(kTypes);
  const auto cast = d.enumerator<miopenDataType_t>({type}, kNoTypes);
  const auto found = w.tensors.find(t);
  if (found != w.tensors.end() && d.clean()) {
    const TensorModel& m = found->second;
    const bool fp8 = cast == miopenFloat8_fnuz || cast == miopenBFloat8_fnuz || cast == POLYMIO_FLOAT8_E4M3FN ||
                     cast == POLYMIO_FLOAT8_E5M2;
    const bool integer = m.type == miopenInt8 || m.type == miopenInt32 || m.type == miopenInt64;
    if (m.lens.empty() || (cast != m.type && (!fp8 || integer))) d.bad();
  }
  d.check(miopenSetTensorCastType(t, cast));
  if (found != w.tensors.end()) expect_tensor(w, t);
}

void get_4d(World& w) {
  Draw d(w);
  const auto t = d.object<miopenTensorDescriptor_t>(Kind::kTensor);
  miopenDataType_t type = miopenFloat;
  int v[8];
  int* out[8];
  for (std::size_t i = 0; i < 8; ++i) out[i] = d.optional(&v[i]);
  const auto found = w.tensors.find(t);
  std::vector<std::int64_t> want;
  if (found != w.tensors.end() && d.clean()) {
    want = found->second.lens;
    want.insert(want.end(), found->second.strides.begin(), found->second.strides.end());
    if (want.size() != 8) d.bad();
    for (std::size_t i = 0; want.size() == 8 && i < 8; ++i)
      if (out[i] && want[i] > INT_MAX) d.bad();
  }
  const Status got =
      miopenGet4dTensorDescriptor(t, d.optional(&type), out[0], out[1], out[2], out[3], out[4], out[5], out[6], out[7]);
  if (!d.check(got)) return;
  for (std::size_t i = 0; i < 8; ++i)
    if (out[i] && v[i] != want[i]) w.report("value " + std::to_string(i) + " is not what was set");
}

void get_nd(World& w) {
  Draw d(w);
  const auto t = d.object<miopenTensorDescriptor_t>(Kind::kTensor);
  miopenDataType_t type = miopenFloat;
  int lens[9], strides[9];
  std::fill_n(lens, 9, -5);
  std::fill_n(strides, 9, -5);
  const auto found = w.tensors.find(t);
  int *const to = d.optional(lens), *const steps = d.optional(strides);
  std::size_t rank = 0;
  if (found != w.tensors.end() && d.clean()) {
    const TensorModel& m = found->second;
    rank = m.lens.size();
    for (std::size_t i = 0; i < rank; ++i)
      if ((to && m.lens[i] > INT_MAX) || (steps && m.strides[i] > INT_MAX)) d.refuse({kBad});
  }
  if (!d.check(miopenGetTensorDescriptor(t, d.optional(&type), to, steps))) return;
  if (lens[rank] != -5 || strides[rank] != -5) w.report("wrote beyond the arrays");
}

void get_rank(World& w) {
  Draw d(w);
  const auto t = d.object<miopenTensorDescriptor_t>(Kind::kTensor);
  int rank = -1;
  if (d.check(miopenGetTensorDescriptorSize(t, d.pointer(&rank)))) expect_tensor(w, t);
}

void get_bytes(World& w) {
  Draw d(w);
  const auto t = d.object<miopenTensorDescriptor_t>(Kind::kTensor);
  std::size_t bytes = 1;
  if (!d.check(miopenGetTensorNumBytes(t, d.pointer(&bytes)))) return;
  const TensorModel& m = w.tensors[t];
  const Wide want = m.lens.empty() ? 0 : m.bytes();
  if (static_cast<Wide>(bytes) != want) w.report(std::to_string(bytes) + " bytes for " + text_of(m));
}

void get_wide(World& w) {
  Draw d(w);
  const auto t = d.object<miopenTensorDescriptor_t>(Kind::kTensor);
  miopenDataType_t type = miopenFloat;
  std::size_t lens[9], strides[9];
  std::fill_n(lens, 9, 77);
  std::fill_n(strides, 9, 77);
  std::size_t *const to = d.optional(lens), *const steps = d.optional(strides);
  if (!d.check(miopenGetTensorDescriptorV2(t, d.optional(&type), to, steps))) return;
  const TensorModel& m = w.tensors[t];
  for (std::size_t i = 0; i < m.lens.size(); ++i)
    if ((to && static_cast<std::int64_t>(lens[i]) != m.lens[i]) ||
        (steps && static_cast<std::int64_t>(strides[i]) != m.strides[i]))
      w.report("size or stride " + std::to_string(i) + " is not what was set");
  if (lens[m.lens.size()] != 77 || strides[m.lens.size()] != 77) w.report("wrote beyond the arrays");
}

/// A value of a tensor that has been set, or of any.
template <class T>
void get_property(World& w, Status (*get)(miopenTensorDescriptor_t, T*), bool of_empty, Statuses others = {}) {
  Draw d(w);
  const auto t = d.object<miopenTensorDescriptor_t>(Kind::kTensor);
  const auto found = w.tensors.find(t);
  if (!of_empty && found != w.tensors.end() && found->second.lens.empty()) d.bad();
  for (const Status s : others) d.allow(s);
  T value{};
  d.check(get(t, d.pointer(&value)));
}

// Convolutions.

const std::vector<int> kNoModes{4, -1, 100, INT_MAX};

void expect_convolution(World& w, miopenConvolutionDescriptor_t c) {
  const ConvolutionModel& m = w.convolutions[c];
  const auto n = m.pad.size();
  std::vector<int> pad(n), stride(n), dilation(n);
  int spatial = -1, groups = -1;
  miopenConvolutionMode_t mode = miopenDepthwise;
  bool right = miopenGetConvolutionNdDescriptor(c, static_cast<int>(n), &spatial, pad.data(), stride.data(),
                                                dilation.data(), &mode) == kOk &&
               spatial == static_cast<int>(n) && pad == m.pad && stride == m.stride && dilation == m.dilation &&
               mode == (m.transposed ? miopenTranspose : miopenConvolution);
  right = right && miopenGetConvolutionGroupCount(c, &groups) == kOk && groups == m.groups;
  for (int a = 0; a < 4; ++a) {
    int value = -99;
    right = right && miopenGetConvolutionAttribute(c, static_cast<miopenConvolutionAttrib_t>(a), &value) == kOk &&
            value == m.attributes[static_cast<std::size_t>(a)];
  }
  polymioMathMode_t math = polymioMathStrict;
  right = right && polymioGetConvolutionMathMode(c, &math) == kOk && static_cast<int>(math) == m.math;
  int find_mode = -1;
  right = right && miopenHiddenGetConvolutionFindMode(c, &find_mode) == kOk &&
          (m.find_mode == 0 || find_mode == m.find_mode);
  if (!right) w.report("the descriptor does not hold what was set");
}

/// Updates the expected values if the call was accepted.
template <class Change>
void settle(Draw& d, Status got, miopenConvolutionDescriptor_t c, const Change& change) {
  World& w = d.world();
  const bool accepted = d.check(got);
  if (!w.convolutions.contains(c)) return;
  if (accepted) change(w.convolutions[c]);
  expect_convolution(w, c);
}

struct Geometry {
  std::vector<int> pad, stride, dilation;
  Geometry(Draw& d, int spatial) {
    const auto value = [&](int least) {
      if (!d.wrong()) return static_cast<int>(d.random().one_in(12) ? INT_MAX : d.random().between(least, 3));
      d.bad();
      return d.random().pick({least - 1, -1, INT_MIN});
    };
    for (int i = 0; i < spatial; ++i) {
      pad.push_back(value(0));
      stride.push_back(value(1));
      dilation.push_back(value(1));
    }
  }
  ConvolutionModel model(const ConvolutionModel& old, miopenConvolutionMode_t mode) const {
    ConvolutionModel m;
    m.transposed = mode == miopenTranspose;
    m.pad = pad;
    m.stride = stride;
    m.dilation = dilation;
    m.output_pad.assign(pad.size(), 0);
    m.math = old.math;
    return m;
  }
};

void init_2d(World& w) {
  Draw d(w);
  const auto c = d.object<miopenConvolutionDescriptor_t>(Kind::kConvolution);
  const auto mode = d.enumerator<miopenConvolutionMode_t>(up_to(3), kNoModes);
  const Geometry g(d, 2);
  const Status got = miopenInitConvolutionDescriptor(c, mode, g.pad[0], g.pad[1], g.stride[0], g.stride[1],
                                                     g.dilation[0], g.dilation[1]);
  settle(d, got, c, [&](ConvolutionModel& m) { m = g.model(m, mode); });
}

void init_nd(World& w) {
  Draw d(w);
  const auto c = d.object<miopenConvolutionDescriptor_t>(Kind::kConvolution);
  const auto mode = d.enumerator<miopenConvolutionMode_t>(up_to(3), kNoModes);
  const int held = static_cast<int>(d.random().one_in(10) ? 64 : d.random().between(0, 4));
  int spatial = held;
  if (d.wrong()) {
    spatial = d.random().pick({-1, 65, INT_MAX, INT_MIN});
    d.bad();
  }
  const Geometry g(d, held);
  const bool needed = held > 0;
  const auto array = [&](const std::vector<int>& v) { return needed ? d.pointer(v.data()) : v.data(); };
  const int *pad = array(g.pad), *stride = array(g.stride), *dilation = array(g.dilation);
  const Status got = miopenInitConvolutionNdDescriptor(c, spatial, pad, stride, dilation, mode);
  settle(d, got, c, [&](ConvolutionModel& m) { m = g.model(m, mode); });
}

void get_2d(World& w) {
  Draw d(w);
  const auto c = d.object<miopenConvolutionDescriptor_t>(Kind::kConvolution);
  int v[6] = {-9, -9, -9, -9, -9, -9};
  miopenConvolutionMode_t mode = miopenConvolution;
  const auto found = w.convolutions.find(c);
  if (found != w.convolutions.end() && found->second.pad.size() != 2) d.refuse({miopenStatusUnknownError});
  if (!d.check(miopenGetConvolutionDescriptor(c, d.optional(&mode), &v[0], &v[1], &v[2], &v[3], &v[4], &v[5]))) return;
  const ConvolutionModel& m = found->second;
  if (std::vector<int>(v, v + 6) !=
      std::vector<int>{m.pad[0], m.pad[1], m.stride[0], m.stride[1], m.dilation[0], m.dilation[1]})
    w.report("the values are not what was set");
}

void get_convolution_nd(World& w) {
  Draw d(w);
  const auto c = d.object<miopenConvolutionDescriptor_t>(Kind::kConvolution);
  const auto found = w.convolutions.find(c);
  const int held = found == w.convolutions.end() ? 0 : static_cast<int>(found->second.pad.size());
  int asked = static_cast<int>(d.random().between(0, held));
  if (d.wrong()) {
    asked = d.random().pick({-1, held + 1, INT_MAX, INT_MIN});
    d.bad();
  }
  std::vector<int> arrays[3];
  for (auto& a : arrays) a.assign(static_cast<std::size_t>(std::clamp(asked, 0, 64)) + 1, -5);
  int spatial = 0;
  miopenConvolutionMode_t mode = miopenConvolution;
  d.check(miopenGetConvolutionNdDescriptor(c, asked, d.optional(&spatial), d.optional(arrays[0].data()),
                                           d.optional(arrays[1].data()), d.optional(arrays[2].data()),
                                           d.optional(&mode)));
  for (const auto& a : arrays)
    if (a.back() != -5) w.report("wrote beyond an array");
}

void set_output_pad_2d(World& w) {
  Draw d(w);
  const auto c = d.object<miopenConvolutionDescriptor_t>(Kind::kConvolution);
  const int h = d.random().pick({0, 1, 2, -1, INT_MAX}), wide = d.random().pick({0, 1, INT_MIN});
  const auto found = w.convolutions.find(c);
  if (found != w.convolutions.end() && found->second.pad.size() != 2) d.refuse({miopenStatusUnknownError});
  settle(d, miopenSetTransposeConvOutputPadding(c, h, wide), c, [&](ConvolutionModel& m) { m.output_pad = {h, wide}; });
}

void set_output_pad_nd(World& w) {
  Draw d(w);
  const auto c = d.object<miopenConvolutionDescriptor_t>(Kind::kConvolution);
  const auto found = w.convolutions.find(c);
  const std::vector<int> pads(found == w.convolutions.end() ? 1 : found->second.pad.size(),
                              d.random().pick({0, 1, -1}));
  int spatial = static_cast<int>(pads.size());
  if (d.wrong()) {
    spatial = d.random().pick({-1, spatial + 1, INT_MAX});
    d.refuse({miopenStatusUnknownError});
  }
  const int* const given = pads.empty() ? d.pointer(&spatial) : d.pointer(pads.data());
  settle(d, miopenSetTransposeConvNdOutputPadding(c, spatial, given), c,
         [&](ConvolutionModel& m) { m.output_pad = pads; });
}

/// One int of a descriptor: any value within [least, most] is accepted.
template <class E, class Field>
void set_int(World& w, Status (*set)(miopenConvolutionDescriptor_t, E), int least, int most, const Field& field) {
  Draw d(w);
  const auto c = d.object<miopenConvolutionDescriptor_t>(Kind::kConvolution);
  std::vector<int> right;
  for (int v = least; v <= std::min(most, least + 8); ++v) right.push_back(v);
  std::vector<int> wrong{least - 1, most == INT_MAX ? -1 : most + 1, INT_MIN};
  const E value = d.enumerator<E>(right, wrong);
  settle(d, set(c, value), c, [&](ConvolutionModel& m) { field(m) = static_cast<int>(value); });
}

template <class E>
void get_int(World& w, Status (*get)(miopenConvolutionDescriptor_t, E*)) {
  Draw d(w);
  const auto c = d.object<miopenConvolutionDescriptor_t>(Kind::kConvolution);
  E value{};
  if (d.check(get(c, d.pointer(&value)))) expect_convolution(w, c);
}

void set_groups(World& w) {
  Draw d(w);
  const auto c = d.object<miopenConvolutionDescriptor_t>(Kind::kConvolution);
  const int groups = d.random().pick({1, 2, 3, 0, -1, INT_MAX, INT_MIN});  // checked by later calls that use it
  settle(d, miopenSetConvolutionGroupCount(c, groups), c, [&](ConvolutionModel& m) { m.groups = groups; });
}

struct Range {
  int least, most;
};
constexpr Range kAttributes[] = {{-1, 1}, {0, 1}, {0, 1}, {0, 1}};

void set_attribute(World& w) {
  Draw d(w);
  const auto c = d.object<miopenConvolutionDescriptor_t>(Kind::kConvolution);
  const auto attribute = d.enumerator<miopenConvolutionAttrib_t>(up_to(3), {4, -1, INT_MAX});
  const int number = static_cast<int>(attribute);
  const Range range = number >= 0 && number <= 3 ? kAttributes[number] : Range{0, 0};
  int value = static_cast<int>(d.random().between(range.least, range.most));
  if (d.wrong()) {
    value = d.random().pick({range.least - 1, range.most + 1, INT_MAX, INT_MIN});
    d.bad();
  }
  settle(d, miopenSetConvolutionAttribute(c, attribute, value), c,
         [&](ConvolutionModel& m) { m.attributes[static_cast<std::size_t>(number)] = value; });
}

void get_attribute(World& w) {
  Draw d(w);
  const auto c = d.object<miopenConvolutionDescriptor_t>(Kind::kConvolution);
  const auto attribute = d.enumerator<miopenConvolutionAttrib_t>(up_to(3), {4, -1, INT_MAX});
  int value = 0;
  d.check(miopenGetConvolutionAttribute(c, attribute, d.pointer(&value)));
}

// Activations.

void set_activation(World& w) {
  Draw d(w);
  const auto a = d.object<miopenActivationDescriptor_t>(Kind::kActivation);
  const auto mode = d.enumerator<miopenActivationMode_t>(up_to(10), {11, -1, INT_MAX, INT_MIN});
  const double alpha = d.random().pick({0.75, -1.0, 1e300}), beta = d.random().pick({1.25, 0.0});
  if (d.check(miopenSetActivationDescriptor(a, mode, alpha, beta, 1.5)))
    w.activations[a] = {static_cast<int>(mode), alpha, beta, 1.5};
}

void get_activation(World& w) {
  Draw d(w);
  const auto a = d.object<miopenActivationDescriptor_t>(Kind::kActivation);
  const auto found = w.activations.find(a);
  const ActivationModel m = found == w.activations.end() ? ActivationModel{} : found->second;
  auto mode = static_cast<miopenActivationMode_t>(m.mode);
  double alpha = m.alpha, beta = m.beta, gamma = m.gamma;
  if (!d.check(miopenGetActivationDescriptor(a, d.optional(&mode), d.optional(&alpha), d.optional(&beta),
                                             d.optional(&gamma))))
    return;
  if (static_cast<int>(mode) != m.mode || alpha != m.alpha || beta != m.beta || gamma != m.gamma)
    w.report("the values are not what was set");
}

/// No function destroys the descriptors of softmax and attention: they stay reachable, so that they are no leak.
void keep(const void* descriptor) {
  static std::mutex mutex;
  static auto& all = *new std::vector<const void*>;
  const std::lock_guard lock(mutex);
  all.push_back(descriptor);
}

// Softmax, with one descriptor for each thread.

struct SoftmaxModel {
  float alpha = 1, beta = 0;
  miopenSoftmaxAlgorithm_t algorithm = MIOPEN_SOFTMAX_ACCURATE;
  miopenSoftmaxMode_t mode = MIOPEN_SOFTMAX_MODE_CHANNEL;
  miopenSoftmaxDescriptor_t descriptor = nullptr;
};
SoftmaxModel& softmax() {
  static thread_local SoftmaxModel model;
  if (!model.descriptor && miopenCreateSoftmaxDescriptor(&model.descriptor) == miopenStatusSuccess)
    keep(model.descriptor);
  return model;
}

void set_softmax(World& w) {
  Draw d(w);
  SoftmaxModel next = softmax();
  next.alpha = d.random().pick({0.75f, -1.0f, 1e30f});
  next.beta = d.random().pick({1.25f, 0.0f});
  next.algorithm = d.enumerator<miopenSoftmaxAlgorithm_t>(up_to(2), {3, -1, INT_MAX, INT_MIN});
  next.mode = d.enumerator<miopenSoftmaxMode_t>(up_to(1), {2, -1, INT_MAX, INT_MIN});
  if (d.check(miopenSetSoftmaxDescriptor(d.pointer(next.descriptor), next.alpha, next.beta, next.algorithm, next.mode)))
    softmax() = next;
}

void get_softmax(World& w) {
  Draw d(w);
  const SoftmaxModel m = softmax();
  SoftmaxModel got = m;
  if (!d.check(miopenGetSoftmaxDescriptor(d.pointer(m.descriptor), d.optional(&got.alpha), d.optional(&got.beta),
                                          d.optional(&got.algorithm), d.optional(&got.mode))))
    return;
  if (got.alpha != m.alpha || got.beta != m.beta || got.algorithm != m.algorithm || got.mode != m.mode)
    w.report("the values are not what was set");
}

void create_softmax_problem(World& w) {
  if (w.count(Kind::kProblem) > 6) return;
  Draw d(w);
  miopenProblem_t p = nullptr;
  const auto direction = static_cast<miopenProblemDirection_t>(d.random().below(3));
  if (d.check(miopenCreateSoftmaxProblem(d.pointer(&p), d.pointer(softmax().descriptor), direction)))
    w.created(Kind::kProblem, p);
}

// Attention, with one descriptor.

struct MhaModel {
  float scale = 1;
  miopenMhaDescriptor_t descriptor = nullptr;
};
MhaModel& attention() {
  static MhaModel model;
  if (!model.descriptor) miopenCreateMhaDescriptor(&model.descriptor);
  return model;
}

void set_attention(World& w) {
  Draw d(w);
  const float scale = d.random().pick({0.125f, -1.0f, 1e30f});
  if (d.check(miopenSetMhaDescriptor(d.pointer(attention().descriptor), scale))) attention().scale = scale;
}

void get_attention(World& w) {
  Draw d(w);
  const MhaModel m = attention();
  float scale = 0;
  if (d.check(miopenGetMhaDescriptor(d.pointer(m.descriptor), d.pointer(&scale))) && scale != m.scale)
    w.report("the scale is not what was set");
}

void create_attention_problem(World& w) {
  if (w.count(Kind::kProblem) > 6) return;
  Draw d(w);
  miopenProblem_t p = nullptr;
  const auto direction = static_cast<miopenProblemDirection_t>(d.random().below(3));
  if (d.check(miopenCreateMhaProblem(d.pointer(&p), d.pointer(attention().descriptor), direction)))
    w.created(Kind::kProblem, p);
}

Registration g_entries[] = {
    {"miopenCreateTensorDescriptor", [](World& w) { create(w, Kind::kTensor, miopenCreateTensorDescriptor); }},
    {"miopenDestroyTensorDescriptor", [](World& w) { destroy(w, Kind::kTensor, miopenDestroyTensorDescriptor); }},
    {"miopenSet4dTensorDescriptor", set_4d},
    {"miopenSet4dTensorDescriptorEx", set_4d_strides},
    {"miopenSetNdTensorDescriptorWithLayout", set_layout},
    {"miopenSetTensorDescriptor", [](World& w) { set_nd(w, miopenSetTensorDescriptor); }},
    {"miopenSetTensorDescriptorV2", [](World& w) { set_nd(w, miopenSetTensorDescriptorV2); }},
    {"miopenSetTensorCastType", set_cast},
    {"miopenGet4dTensorDescriptor", get_4d},
    {"miopenGetTensorDescriptor", get_nd},
    {"miopenGetTensorDescriptorSize", get_rank},
    {"miopenGetTensorNumBytes", get_bytes},
    {"miopenGetTensorDescriptorV2", get_wide},
    {"miopenGetTensorLayout",
     [](World& w) { get_property(w, miopenGetTensorLayout, false, {miopenStatusNotImplemented}); }},
    {"miopenGetTensorElementSpace", [](World& w) { get_property(w, miopenGetTensorElementSpace, true); }},
    {"miopenIsTensorPacked", [](World& w) { get_property(w, miopenIsTensorPacked, false); }},
    {"miopenGetTensorVectorLength", [](World& w) { get_property(w, miopenGetTensorVectorLength, true); }},
    {"miopenCreateSeqTensorDescriptor", [](World& w) { create(w, Kind::kSequence, miopenCreateSeqTensorDescriptor); }},
    {"miopenDestroySeqTensorDescriptor",
     [](World& w) { destroy(w, Kind::kSequence, miopenDestroySeqTensorDescriptor); }},
    {"miopenCreateConvolutionDescriptor",
     [](World& w) { create(w, Kind::kConvolution, miopenCreateConvolutionDescriptor); }},
    {"miopenDestroyConvolutionDescriptor",
     [](World& w) { destroy(w, Kind::kConvolution, miopenDestroyConvolutionDescriptor); }},
    {"miopenInitConvolutionDescriptor", init_2d},
    {"miopenInitConvolutionNdDescriptor", init_nd},
    {"miopenGetConvolutionDescriptor", get_2d},
    {"miopenGetConvolutionNdDescriptor", get_convolution_nd},
    {"miopenGetConvolutionSpatialDim", [](World& w) { get_int(w, miopenGetConvolutionSpatialDim); }},
    {"miopenSetConvolutionGroupCount", set_groups},
    {"miopenGetConvolutionGroupCount", [](World& w) { get_int(w, miopenGetConvolutionGroupCount); }},
    {"miopenSetTransposeConvOutputPadding", set_output_pad_2d},
    {"miopenSetTransposeConvNdOutputPadding", set_output_pad_nd},
    {"miopenSetConvolutionAttribute", set_attribute},
    {"miopenGetConvolutionAttribute", get_attribute},
    {"miopenSetConvolutionFindMode",
     [](World& w) {
       set_int(w, miopenSetConvolutionFindMode, 1, 7, [](ConvolutionModel& m) -> int& { return m.find_mode; });
     }},
    {"miopenHiddenSetConvolutionFindMode",
     [](World& w) {
       set_int(w, miopenHiddenSetConvolutionFindMode, 1, 7, [](ConvolutionModel& m) -> int& { return m.find_mode; });
     }},
    {"miopenGetConvolutionFindMode",
     [](World& w) {
       get_int<miopenConvolutionFindMode_t>(w, [](miopenConvolutionDescriptor_t c, miopenConvolutionFindMode_t* mode) {
         return miopenGetConvolutionFindMode(c, mode);
       });
     }},
    {"miopenHiddenGetConvolutionFindMode",
     [](World& w) {
       get_int<int>(
           w, [](miopenConvolutionDescriptor_t c, int* mode) { return miopenHiddenGetConvolutionFindMode(c, mode); });
     }},
    {"polymioSetConvolutionMathMode",
     [](World& w) {
       set_int(w, polymioSetConvolutionMathMode, 0, 3, [](ConvolutionModel& m) -> int& { return m.math; });
     }},
    {"polymioGetConvolutionMathMode", [](World& w) { get_int(w, polymioGetConvolutionMathMode); }},
    {"miopenCreateActivationDescriptor",
     [](World& w) { create(w, Kind::kActivation, miopenCreateActivationDescriptor); }},
    {"miopenDestroyActivationDescriptor",
     [](World& w) { destroy(w, Kind::kActivation, miopenDestroyActivationDescriptor); }},
    {"miopenSetActivationDescriptor", set_activation},
    {"miopenGetActivationDescriptor", get_activation},
    {"miopenCreateSoftmaxDescriptor",
     [](World& w) {
       Draw d(w);
       miopenSoftmaxDescriptor_t s = nullptr;
       if (d.check(miopenCreateSoftmaxDescriptor(d.pointer(&s)))) keep(s);
     }},
    {"miopenSetSoftmaxDescriptor", set_softmax},
    {"miopenGetSoftmaxDescriptor", get_softmax},
    {"miopenCreateSoftmaxProblem", create_softmax_problem},
    {"miopenCreateMhaDescriptor",
     [](World& w) {
       Draw d(w);
       miopenMhaDescriptor_t m = nullptr;
       if (d.check(miopenCreateMhaDescriptor(d.pointer(&m)))) keep(m);
     }},
    {"miopenSetMhaDescriptor", set_attention},
    {"miopenGetMhaDescriptor", get_attention},
    {"miopenCreateMhaProblem", create_attention_problem},
    {"miopenCreateFindOptions", [](World& w) { create(w, Kind::kOptions, miopenCreateFindOptions); }},
    {"miopenDestroyFindOptions", [](World& w) { destroy(w, Kind::kOptions, miopenDestroyFindOptions); }},
    {"miopenDestroyProblem", [](World& w) { destroy(w, Kind::kProblem, miopenDestroyProblem); }},
    {"miopenCreateConvProblem",
     [](World& w) {
       if (w.count(Kind::kProblem) > 6) return;
       Draw d(w);
       miopenProblem_t p = nullptr;
       const auto direction = d.enumerator<miopenProblemDirection_t>(up_to(2), {3, 4, -1, INT_MAX});
       const auto c = d.object<miopenConvolutionDescriptor_t>(Kind::kConvolution);
       if (d.check(miopenCreateConvProblem(d.pointer(&p), c, direction))) w.created(Kind::kProblem, p);
     }},
    {"miopenCreateActivationProblem",
     [](World& w) {
       if (w.count(Kind::kProblem) > 6) return;
       Draw d(w);
       miopenProblem_t p = nullptr;
       const auto direction = d.enumerator<miopenProblemDirection_t>(up_to(1), {2, 3, 4, -1, INT_MAX});
       const auto a = d.object<miopenActivationDescriptor_t>(Kind::kActivation);
       if (d.check(miopenCreateActivationProblem(d.pointer(&p), a, direction))) w.created(Kind::kProblem, p);
     }},
    {"miopenCreateBiasProblem",
     [](World& w) {
       if (w.count(Kind::kProblem) > 6) return;
       Draw d(w);
       miopenProblem_t p = nullptr;
       const auto direction = d.enumerator<miopenProblemDirection_t>(up_to(1), {2, 3, 4, -1, INT_MAX});
       if (d.check(miopenCreateBiasProblem(d.pointer(&p), direction))) w.created(Kind::kProblem, p);
     }},
};

}  // namespace
}  // namespace polymio::fuzz
