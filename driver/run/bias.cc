// Bias forward and backward, verified like the convolution.
// SPDX-License-Identifier: MIT
#include "driver/run/bias.h"

#include <cstring>

#include "driver/run/conv_verify.h"
#include "reference/tensor_ops.h"

namespace polymio::driver {
namespace {

struct BiasTensor {
  reference::Tensor tensor;
  TensorDescriptor descriptor;
  Buffer buffer;

  BiasTensor(const Session& session, const Problem& problem)
      : tensor(problem.tensors[kY].type, lens_of(problem)),
        descriptor(make_tensor(static_cast<int>(tensor.type), tensor.lens, tensor.strides, kNoType)),
        buffer(session, tensor.bytes(), "the bias") {
    if (problem.args.in_bias.empty()) {
      fill_random(tensor, buffer.host(), 7, true);
    } else {
      read_file(problem.args.in_bias, buffer.host(), tensor.bytes());
    }
    buffer.upload();
  }

  static std::vector<std::int64_t> lens_of(const Problem& problem) {
    std::vector<std::int64_t> lens(problem.tensors[kY].lens.size(), 1);
    lens[1] = problem.tensors[kY].lens[1];
    return lens;
  }
};

std::string compare_bias(const char* name, const reference::Tensor& tensor, const void* data,
                         const reference::Result& expected, std::int64_t terms, Result& result) {
  reference::Arithmetic arithmetic;
  arithmetic.output = tensor.type;
  arithmetic.accumulate = reference::is_integer(tensor.type)        ? reference::Type::kInt64
                          : tensor.type == reference::Type::kDouble ? reference::Type::kDouble
                                                                    : reference::Type::kFloat;
  arithmetic.reduction_length = terms;
  const reference::Comparison comparison = reference::compare(arithmetic, tensor, data, expected);
  result.checked = true;
  result.verified = result.verified && comparison.ok();
  return verify_line(name, comparison);
}

}  // namespace

std::string run_bias(const Session& session, const Problem& problem, TensorData& data, bool verify, Result& result) {
  const reference::Tensor& y = problem.tensors[kY];
  BiasTensor bias(session, problem);
  const bool is_double = y.type == reference::Type::kDouble;
  const double wide[2] = {1, 0};
  const float narrow[2] = {1, 0};
  const void* one = is_double ? static_cast<const void*>(&wide[0]) : &narrow[0];
  const void* zero = is_double ? static_cast<const void*>(&wide[1]) : &narrow[1];
  Buffer& y_buffer = data.buffers[kY];
  if (!verify) result.verified = true;

  if (problem.direction == kForward) {
    y_buffer.download();
    std::vector<unsigned char> old(y_buffer.bytes());
    std::memcpy(old.data(), y_buffer.host(), old.size());
    check(miopenConvolutionForwardBias(session.get(), one, bias.descriptor.get(), bias.buffer.device(), zero,
                                       problem.descriptor(kY), y_buffer.device()),
          "miopenConvolutionForwardBias");
    if (!verify) return "Forward Convolution Bias ran";
    y_buffer.download();
    const auto expected = reference::bias_forward(1, bias.tensor, bias.buffer.host(), 1, y, old.data());
    return compare_bias("Forward Convolution Bias", y, y_buffer.host(), expected, 1, result);
  }
  check(miopenConvolutionBackwardBias(session.get(), one, problem.descriptor(kY), y_buffer.device(), zero,
                                      bias.descriptor.get(), bias.buffer.device()),
        "miopenConvolutionBackwardBias");
  if (!verify) return "Backward Convolution Bias ran";
  bias.buffer.download();
  const auto expected = reference::bias_backward(1, y, data.host(kY), 0, bias.tensor, nullptr);
  return compare_bias("Backward Convolution Bias", bias.tensor, bias.buffer.host(), expected, y.count() / y.lens[1],
                      result);
}

}  // namespace polymio::driver
