// A convolution with bias, residual and activation in one call.
// SPDX-License-Identifier: MIT
#include <miopen/fusion.h>

#include "base/log.h"
#include "capi/activation.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/common/log_call.h"
#include "capi/convolution/call.h"
#include "capi/fusion/command.h"
#include "core/tensor_checks.h"
#include "primitives/fusion/fusion.h"
#include "primitives/tensor_ops/tensor_ops.h"

using namespace polymio;
using capi::deref;
using capi::described;
using capi::guard;
using capi::not_null;

namespace {

using Problem = convolution::Problem;

/// The tensor that is added, alpha2 * z; without data if there is none.
struct Residual {
  TensorDesc desc;
  const void* data = nullptr;
  double alpha = 0;
};

/// A residual of other strides than y: the convolution, then the rest of the epilogue in passes over y.
void run_in_passes(Handle& h, const capi::ConvolutionCall& call, Problem::Args args, const Residual& z,
                   const activation::Parameters& parameters) {
  Problem p = call.problem;
  p.epilogue = {};
  const TensorDesc& y = p.y;
  std::vector<std::int64_t> lens(static_cast<std::size_t>(y.rank), 1);
  lens[1] = p.k();
  const TensorDesc channels = make_tensor(y.type, lens, {});
  const auto mode = static_cast<activation::Mode>(call.problem.epilogue.activation);
  activation::Problem::Args a;
  a.x = a.result = args.y;
  a.parameters = parameters;
  h.run_together([&] {
    convolution::run(h, p, call.constraints, args);
    h.run([&](Stream& s) {
      using tensor_ops::Op;
      tensor_ops::op_tensor(s, Op::kAdd, 1, {y, args.y}, z.alpha, {z.desc, z.data}, 0, {y, args.y});
      if (args.bias) tensor_ops::op_tensor(s, Op::kAdd, 1, {y, args.y}, 1, {channels, args.bias}, 0, {y, args.y});
    });
    if (mode != activation::Mode::kPassthru) activation::run(h, activation::forward_problem(mode, y, y), a);
  });
}

}  // namespace

miopenStatus_t miopenConvolutionBiasActivationForward(
    miopenHandle_t handle, const void* alpha1, const miopenTensorDescriptor_t xDesc, const void* x,
    const miopenTensorDescriptor_t wDesc, const void* w, const miopenConvolutionDescriptor_t convDesc,
    miopenConvFwdAlgorithm_t algo, void* workspace, size_t workspaceSizeInBytes, const void* alpha2,
    const miopenTensorDescriptor_t zDesc, const void* z, const miopenTensorDescriptor_t biasDesc, const void* bias,
    const miopenActivationDescriptor_t activationDesc, const miopenTensorDescriptor_t yDesc, void* y) {
  return guard([&] {
    Handle& h = deref(handle);
    require(static_cast<int>(algo) >= 0 && static_cast<int>(algo) <= 5, "algorithm {} is unknown: allowed are 0 to 5",
            static_cast<int>(algo));
    capi::ConvolutionCall call = capi::make_call({convolution::Direction::kForward, convDesc, xDesc, wDesc, yDesc});
    if (call.swapped) fail(Status::kUnsupportedOp, "a transposed convolution cannot be fused with other operations");
    Problem& p = call.problem;
    capi::check_buffers({x, w, y});
    Problem::Args args = capi::arguments(call, {x, w, y}, workspace, workspaceSizeInBytes);
    const auto number = [&](const void* scalar, double missing, const char* name) {
      return scalar ? capi::scalar(scalar, p.y.type, name) : missing;
    };
    args.alpha = number(alpha1, 1, "alpha1");
    const auto& function = deref(activationDesc);
    p.epilogue.activation = static_cast<int>(function.mode);
    args.activation_alpha = function.parameters.alpha;
    args.activation_beta = function.parameters.beta;
    args.activation_gamma = function.parameters.gamma;
    if (bias) {
      fusion::check_bias(described(biasDesc, "the bias"), p.y);
      p.epilogue.bias = true;
      args.bias = bias;
    }
    Residual residual;
    if (z) {
      residual = {described(zDesc, "z"), z, number(alpha2, 1, "alpha2")};
      require_same_type(p.y, "y", residual.desc, "z");
      require_same_sizes(p.y, "y", residual.desc, "z");
    }
    const bool adds = residual.data && residual.alpha != 0, is_y = residual.data == y;
    if (adds && !is_y) require_no_overlap(residual.desc, z, "z", p.y, y);
    p.scalars = args.alpha != 1 ? convolution::Scalars::kScale : convolution::Scalars::kDefault;
    if (log::api_enabled()) log::write("api", "miopenConvolutionBiasActivationForward " + p.key());
    capi::log_command([&] {
      const bool plain = !adds && args.alpha == 1;
      return plain ? capi::command_of({.x = p.x,
                                       .convolution = &p,
                                       .bias = p.epilogue.bias,
                                       .activation = &function.mode,
                                       .parameters = function.parameters})
                   : std::string();
    });
    if (adds && !same_strides(residual.desc, p.y)) {
      require(!is_y, "z is y, but its strides differ from those of y");
      return run_in_passes(h, call, args, residual, function.parameters);
    }
    if (adds && is_y) {
      p.scalars = convolution::Scalars::kBilinear;
      args.beta = residual.alpha;
    } else if (adds) {
      p.epilogue.residual = true;
      args.residual = z;
      args.residual_alpha = residual.alpha;
    }
    convolution::run(h, p, call.constraints, args);
  });
}
