// Group `LossFunction`: soft margin and multi margin.
// SPDX-License-Identifier: MIT
#include "primitives/loss/loss.h"

#include <miopen/loss.h>

#include <cstring>

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

loss::Input input(miopenTensorDescriptor_t desc, const void* data, const char* name) {
  return {described(desc, name), not_null(data, name)};
}

loss::Output output(miopenTensorDescriptor_t desc, void* data, const char* name) {
  return {described(desc, name), not_null(data, name)};
}

/// memcpy: a C caller's value may be outside the enumeration.
loss::Reduction reduction_of(miopenLossReductionMode_t mode) {
  loss::Reduction reduction;
  std::memcpy(&reduction, &mode, sizeof reduction);
  return reduction;
}

const char* text_of(loss::Reduction reduction) {
  return reduction == loss::Reduction::kSum ? "sum" : reduction == loss::Reduction::kMean ? "mean" : "none";
}

std::string command_of(const loss::SoftMargin& p, bool forward) {
  return base_arg("softmarginloss", p.x.desc.type, 2) + capi::list_flags("-D", p.x.desc) +
         fmt::format(" -R {} -F {}", text_of(p.reduction), forward ? 1 : 2);
}

}  // namespace

miopenStatus_t miopenGetSoftMarginLossForwardWorkspaceSize(miopenHandle_t handle, miopenTensorDescriptor_t inputDesc,
                                                           miopenTensorDescriptor_t targetDesc,
                                                           miopenTensorDescriptor_t outputDesc,
                                                           miopenLossReductionMode_t reduction, size_t* sizeInBytes) {
  return guard([&] {
    not_null(sizeInBytes, "sizeInBytes");
    const loss::SoftMargin p{
        {described(inputDesc, "the input")}, {described(targetDesc, "the target")}, reduction_of(reduction)};
    *sizeInBytes = loss::workspace_size(deref(handle).device(), p, described(outputDesc, "the output"));
  });
}

miopenStatus_t miopenSoftMarginLossForward(miopenHandle_t handle, miopenTensorDescriptor_t inputDesc,
                                           const void* input_data, miopenTensorDescriptor_t targetDesc,
                                           const void* target, miopenTensorDescriptor_t outputDesc, void* output_data,
                                           miopenLossReductionMode_t reduction, void* workspace,
                                           size_t workspaceSizeInBytes) {
  return guard([&] {
    const loss::SoftMargin p{input(inputDesc, input_data, "the input"), input(targetDesc, target, "the target"),
                             reduction_of(reduction)};
    const loss::Output y = output(outputDesc, output_data, "the output");
    capi::log_call("miopenSoftMarginLossForward", [&] {
      const bool reduced = p.reduction != loss::Reduction::kNone;
      return command_of(p, true) + (reduced ? "" : strides_unless_dense(y.desc, "--out_strides"));
    });
    deref(handle).run([&](Stream& stream) { loss::soft_margin(stream, p, y, {workspace, workspaceSizeInBytes}); });
  });
}

miopenStatus_t miopenSoftMarginLossBackward(miopenHandle_t handle, miopenTensorDescriptor_t inputDesc,
                                            const void* input_data, miopenTensorDescriptor_t targetDesc,
                                            const void* target, miopenTensorDescriptor_t doutputDesc,
                                            const void* doutput, miopenTensorDescriptor_t dinputDesc, void* dinput,
                                            miopenLossReductionMode_t reduction) {
  return guard([&] {
    const loss::SoftMargin p{input(inputDesc, input_data, "the input"), input(targetDesc, target, "the target"),
                             reduction_of(reduction)};
    const loss::Input dy = input(doutputDesc, doutput, "doutput");
    const loss::Output dx = output(dinputDesc, dinput, "dinput");
    capi::log_call("miopenSoftMarginLossBackward",
                   [&] { return command_of(p, false) + capi::gradient_strides(dx.desc, p.x.desc); });
    deref(handle).run([&](Stream& stream) { loss::soft_margin_backward(stream, p, dy, dx); });
  });
}

miopenStatus_t miopenGetMultiMarginLossForwardWorkspaceSize(miopenHandle_t handle, miopenTensorDescriptor_t inputDesc,
                                                            miopenTensorDescriptor_t targetDesc,
                                                            miopenTensorDescriptor_t weightDesc,
                                                            miopenTensorDescriptor_t outputDesc, long p, float margin,
                                                            miopenLossReductionMode_t reduction, size_t* sizeInBytes) {
  return guard([&] {
    not_null(sizeInBytes, "sizeInBytes");
    const loss::MultiMargin problem{{described(inputDesc, "the input")},
                                    {described(targetDesc, "the target")},
                                    {described(weightDesc, "the weight")},
                                    reduction_of(reduction),
                                    p,
                                    margin};
    *sizeInBytes = loss::workspace_size(deref(handle).device(), problem, described(outputDesc, "the output"));
  });
}

miopenStatus_t miopenMultiMarginLossForward(miopenHandle_t handle, miopenTensorDescriptor_t inputDesc,
                                            const void* input_data, miopenTensorDescriptor_t targetDesc,
                                            const void* target, miopenTensorDescriptor_t weightDesc, const void* weight,
                                            miopenTensorDescriptor_t outputDesc, void* output_data, long p,
                                            float margin, miopenLossReductionMode_t reduction, void* workspace,
                                            size_t workspaceSizeInBytes) {
  return guard([&] {
    const loss::MultiMargin problem{input(inputDesc, input_data, "the input"),
                                    input(targetDesc, target, "the target"),
                                    input(weightDesc, weight, "the weight"),
                                    reduction_of(reduction),
                                    p,
                                    margin};
    const loss::Output y = output(outputDesc, output_data, "the output");
    capi::log_call("miopenMultiMarginLossForward", [&] {
      return base_arg("multimarginloss", problem.x.desc.type, 2) + capi::list_flags("-D", problem.x.desc) +
             fmt::format(" -R {} --p {} --margin {} -F 1", text_of(problem.reduction), p, margin);
    });
    deref(handle).run([&](Stream& stream) {
      loss::multi_margin(stream, problem, y, {workspace, workspaceSizeInBytes});
    });
  });
}
