// Group `cat`.
// SPDX-License-Identifier: MIT
#include "primitives/cat/cat.h"

#include <fmt/format.h>
#include <miopen/cat.h>

#include <vector>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/common/log_call.h"
#include "capi/common/tensor.h"

using namespace polymio;

namespace {

/// Nothing for more than the driver's eight inputs.
std::string command_of(const std::vector<cat::Input>& inputs, const TensorDesc& y, std::int32_t dim) {
  constexpr std::size_t kMostInputs = 8;
  std::string line = fmt::format("{} -d {}", base_arg("cat", y.type, 2), dim);
  std::size_t number = 0;
  for (const cat::Input& input : inputs)
    if (input.desc) line += fmt::format(" -{} {}", ++number, capi::shape_text(*input.desc));
  if (!y.is_channels_first()) line += fmt::format(" --output_strides {}", capi::strides_by_x(y));
  return number <= kMostInputs ? line : "";
}

}  // namespace

miopenStatus_t miopenCatForward(miopenHandle_t handle, const int32_t xCount, const miopenTensorDescriptor_t* xDescs,
                                const void* const* xs, const miopenTensorDescriptor_t yDesc, void* y,
                                const int32_t dim) {
  return capi::guard([&] {
    require(xCount > 0, "xCount is {}: it must be positive", xCount);
    capi::not_null(xDescs, "xDescs");
    capi::not_null(xs, "xs");
    const TensorDesc& out = capi::described(yDesc, "y");
    capi::not_null(y, "the buffer of y");
    std::vector<cat::Input> inputs;
    for (std::int32_t i = 0; i < xCount; ++i) {
      require(xDescs[i] != nullptr, "the descriptor of input {} is null", i);
      const TensorDesc& desc = capi::deref(xDescs[i]);
      const bool empty = desc.rank == 0;
      require(empty || xs[i], "the buffer of input {} is null", i);
      inputs.push_back({empty ? nullptr : &desc, xs[i]});
    }
    capi::log_call("miopenCatForward", [&] { return command_of(inputs, out, dim); });
    capi::deref(handle).run([&](Stream& stream) { cat::forward(stream, inputs, out, y, dim); });
  });
}
