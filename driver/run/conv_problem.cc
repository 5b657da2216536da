// Descriptors and the reference problem of one direction.
// SPDX-License-Identifier: MIT
#include "driver/run/conv_problem.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace polymio::driver {
namespace {

std::vector<int> to_int(const std::vector<std::int64_t>& values) { return {values.begin(), values.end()}; }

reference::Tensor describe(int type, const std::vector<std::int64_t>& lens, const std::vector<std::int64_t>& strides,
                           int cast) {
  reference::Tensor tensor(static_cast<reference::Type>(type), lens, strides);
  if (cast != kNoType) tensor.cast = static_cast<reference::Type>(cast);
  return tensor;
}

ConvDescriptor make_conv(const ConvArgs& args) {
  ConvDescriptor conv = create<miopenDestroyConvolutionDescriptor>(miopenCreateConvolutionDescriptor,
                                                                   "miopenCreateConvolutionDescriptor");
  const miopenConvolutionDescriptor_t raw = conv.get();
  const int rank = static_cast<int>(args.spatial_dim);
  check(miopenInitConvolutionNdDescriptor(raw, rank, to_int(pads(args)).data(), to_int(strides(args)).data(),
                                          to_int(dilations(args)).data(),
                                          args.transpose != 0 ? miopenTranspose : miopenConvolution),
        "miopenInitConvolutionNdDescriptor");
  check(miopenSetConvolutionGroupCount(raw, static_cast<int>(args.groups)), "miopenSetConvolutionGroupCount");
  if (args.transpose != 0) {
    check(miopenSetTransposeConvNdOutputPadding(raw, rank, to_int(output_pads(args)).data()),
          "miopenSetTransposeConvNdOutputPadding");
  }
  check(polymioSetConvolutionMathMode(raw, static_cast<polymioMathMode_t>(args.math)), "polymioSetConvolutionMathMode");
  if (args.deterministic != 0) {
    check(miopenSetConvolutionAttribute(raw, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 1),
          "miopenSetConvolutionAttribute");
  }
  const bool casts = args.in_cast != kNoType || args.wei_cast != kNoType || args.out_cast != kNoType;
  if (args.fp8_rounding >= 0 || casts) {
    const int rounding = args.fp8_rounding == 1 ? miopenF8RoundingModeStochastic : miopenF8RoundingModeStandard;
    check(miopenSetConvolutionAttribute(raw, MIOPEN_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE, rounding),
          "miopenSetConvolutionAttribute");
  }
  return conv;
}

reference::Direction math_direction(const ConvArgs& args, Direction direction) {
  if (direction == kBackwardWeights) return reference::Direction::kBackwardWeights;
  const bool forward = (direction == kForward) != (args.transpose != 0);
  return forward ? reference::Direction::kForward : reference::Direction::kBackwardData;
}

double bytes_of(const reference::Tensor& tensor) {
  return static_cast<double>(tensor.count()) * static_cast<double>(reference::size_of(tensor.type));
}

}  // namespace

Role written_role(Direction direction) {
  if (direction == kForward) return kY;
  return direction == kBackwardData ? kX : kW;
}

Problem::Problem(const ConvArgs& arguments, Direction which)
    : direction(which), args(arguments), conv(make_conv(arguments)) {
  const TensorTypes types = tensor_types(args, direction);
  const auto x_lens = input_lens(args);
  const auto w_lens = weight_lens(args);
  const auto x_strides = tensor_strides(x_lens, args.in_layout, args.in_strides);
  const auto w_strides = tensor_strides(w_lens, args.wei_layout, args.wei_strides);
  // The library requires equal input types in this call, independent of the type that the direction writes.
  const int read_type = direction == kForward ? types.x : types.y;
  const auto x_any = make_tensor(read_type, x_lens, x_strides, kNoType);
  const auto w_any = make_tensor(read_type, w_lens, w_strides, kNoType);
  int rank = static_cast<int>(x_lens.size());
  std::vector<int> y_dims(x_lens.size());
  check(miopenGetConvolutionNdForwardOutputDim(conv.get(), x_any.get(), w_any.get(), &rank, y_dims.data()),
        "miopenGetConvolutionNdForwardOutputDim");
  const std::vector<std::int64_t> y_lens(y_dims.begin(), y_dims.end());
  const auto y_strides = tensor_strides(y_lens, args.out_layout, args.out_strides);

  tensors[kX] = describe(types.x, x_lens, x_strides, args.in_cast);
  tensors[kW] = describe(types.w, w_lens, w_strides, args.wei_cast);
  tensors[kY] = describe(types.y, y_lens, y_strides, args.out_cast);
  descriptors[kX] = make_tensor(types.x, x_lens, x_strides, args.in_cast);
  descriptors[kW] = make_tensor(types.w, w_lens, w_strides, args.wei_cast);
  descriptors[kY] = make_tensor(types.y, y_lens, y_strides, args.out_cast);

  math.direction = math_direction(args, direction);
  math.x = tensors[args.transpose != 0 ? kY : kX];
  math.w = tensors[kW];
  math.y = tensors[args.transpose != 0 ? kX : kY];
  math.pad = pads(args);
  math.stride = strides(args);
  math.dilation = dilations(args);
  math.groups = args.groups;
  math.alpha = args.alpha;
  math.beta = args.beta;
}

double Problem::bytes_read() const {
  double sum = 0;
  for (int role = kX; role <= kY; ++role) {
    if (role != written() || args.beta != 0) sum += bytes_of(tensors[role]);
  }
  return sum;
}

double Problem::bytes_written() const { return bytes_of(tensors[written()]); }

reference::Operands operands(const Problem& problem, const void* const data[3], const void* old) {
  const void* all[3] = {data[kX], data[kW], data[kY]};
  all[problem.written()] = old;
  if (problem.args.transpose != 0) std::swap(all[kX], all[kY]);
  return {all[kX], all[kW], all[kY]};
}

}  // namespace polymio::driver
