// Calls of convolutions as plain convolutions: descriptors, settings and buffers become a problem, constraints,
// arguments.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "capi/common/arguments.h"
#include "capi/common/tensor.h"
#include "capi/convolution/descriptor.h"
#include "core/tensor.h"
#include "primitives/convolution/convolution.h"

namespace polymio::capi {

/// One convolution call as a plain convolution: transposed mode swaps x and y, and forward and backward data.
struct ConvolutionCall {
  convolution::Problem problem;
  Constraints constraints;
  std::uint64_t seed;
  bool swapped;
  search::FindMode find_mode;
};

/// Translates a call. `x`, `w`, `y` are the API's tensors of the direction (dx, dw, dy included). Does not validate the
/// problem: convolution:: does that before it makes a new plan.
ConvolutionCall make_call(const ConvolutionObject::State&, convolution::Direction, const TensorDesc& x,
                          const TensorDesc& w, const TensorDesc& y);

/// The descriptors of a call; those of the backward directions' tensors are dx, dw, dy.
struct Descriptors {
  convolution::Direction direction;
  miopenConvolutionDescriptor_t convolution;
  miopenTensorDescriptor_t x, w, y;
};
inline ConvolutionCall make_call(const Descriptors& d) {
  return make_call(deref(d.convolution), d.direction, described(d.x, "x"), described(d.w, "w"), described(d.y, "y"));
}

/// Buffers of the API's tensors; the one of the direction's output is written.
struct Buffers {
  const void* x = nullptr;
  const void* w = nullptr;
  const void* y = nullptr;
};
inline convolution::Problem::Args arguments(const ConvolutionCall& c, const Buffers& b, void* workspace,
                                            std::size_t bytes) {
  convolution::Problem::Args args;
  // Args has one non-const field per tensor for all three directions; inputs are only read.
  args.x = const_cast<void*>(c.swapped ? b.y : b.x);
  args.w = const_cast<void*>(b.w);
  args.y = const_cast<void*>(c.swapped ? b.x : b.y);
  args.workspace = workspace;
  args.workspace_bytes = workspace ? bytes : 0;
  args.seed = c.seed;
  return args;
}

/// BadParm unless all buffers are given.
inline void check_buffers(const Buffers& b) {
  not_null(b.x, "the buffer of x");
  not_null(b.w, "the buffer of w");
  not_null(b.y, "the buffer of y");
}

/// Find, immediate mode and tuning of the call's problem, which must outlive the result, with its own constraints or
/// with others.
inline search::Call search_call(Handle& handle, const ConvolutionCall& call, const Constraints& allowed) {
  return convolution::make_call(handle, call.problem, allowed);
}
inline search::Call search_call(Handle& handle, const ConvolutionCall& call) {
  return search_call(handle, call, call.constraints);
}

/// Logs the MIOpenDriver line of the call, in transposed mode that of the equivalent plain convolution.
void log_call(const ConvolutionCall&, const convolution::Problem::Args&, const char* function,
              std::uint64_t solution = 0);

/// Sizes of the result of a convolution (or transposed convolution) of x with w.
std::vector<std::int64_t> output_sizes(const ConvolutionObject::State&, const TensorDesc& x, const TensorDesc& w);
/// A dense tensor of these sizes, in the layout of x.
TensorDesc output_like(const ConvolutionObject::State&, const TensorDesc& x, const TensorDesc& w);

}  // namespace polymio::capi
