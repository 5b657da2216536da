// Group `rope`.
// SPDX-License-Identifier: MIT
#include "primitives/rope/rope.h"

#include <miopen/rope.h>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/common/log_call.h"
#include "capi/common/tensor.h"

using namespace polymio;
using capi::deref;
using capi::described;
using capi::guard;
using capi::not_null;

namespace {

rope::Tensors::Input input(miopenTensorDescriptor_t desc, const void* data, const char* name) {
  return {described(desc, name), not_null(data, name)};
}

std::string command_of(const rope::Tensors& p, bool forward) {
  return base_arg("rope", p.x.desc.type, 2) + fmt::format(" -X {}", fmt::join(p.x.desc.sizes(), ",")) +
         fmt::format(" --rotary {} -F {}", fmt::join(p.cos.desc.sizes(), ","), forward ? 1 : 2) +
         strides_unless_dense(p.x.desc, forward ? "--in_strides" : "--dout_strides") +
         strides_unless_dense(p.y_desc, forward ? "--out_strides" : "--din_strides");
}

}  // namespace

miopenStatus_t miopenRoPEForward(miopenHandle_t handle, const miopenTensorDescriptor_t xDesc, const void* x,
                                 const miopenTensorDescriptor_t cosDesc, const void* cos,
                                 const miopenTensorDescriptor_t sinDesc, const void* sin,
                                 const miopenTensorDescriptor_t yDesc, void* y) {
  return guard([&] {
    const rope::Tensors p{input(xDesc, x, "x"), input(cosDesc, cos, "cos"), input(sinDesc, sin, "sin"),
                          described(yDesc, "y"), not_null(y, "y")};
    capi::log_call("miopenRoPEForward", [&] { return command_of(p, true); });
    deref(handle).run([&](Stream& stream) { rope::forward(stream, p); });
  });
}

miopenStatus_t miopenRoPEBackward(miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const void* dy,
                                  const miopenTensorDescriptor_t cosDesc, const void* cos,
                                  const miopenTensorDescriptor_t sinDesc, const void* sin,
                                  const miopenTensorDescriptor_t dxDesc, void* dx) {
  return guard([&] {
    const rope::Tensors p{input(dyDesc, dy, "dy"), input(cosDesc, cos, "cos"), input(sinDesc, sin, "sin"),
                          described(dxDesc, "dx"), not_null(dx, "dx")};
    capi::log_call("miopenRoPEBackward", [&] { return command_of(p, false); });
    deref(handle).run([&](Stream& stream) { rope::backward(stream, p); });
  });
}
