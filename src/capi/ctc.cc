// Group `LossFunction`: CTC.
// SPDX-License-Identifier: MIT
#include "primitives/ctc/ctc.h"

#include <miopen/loss.h>

#include <vector>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/common/log_call.h"
#include "capi/common/object.h"
#include "capi/common/tensor.h"
#include "core/problem_text.h"

using namespace polymio;
using capi::deref;
using capi::described;
using capi::guard;
using capi::not_null;

namespace {

/// The object behind a CTC loss descriptor.
struct CtcObject : miopenCTCLossDescriptor, capi::InSlots<CtcObject> {
  static constexpr const char* kKind = "CTC loss descriptor";
  capi::Magic<0x706f6c7963746321> magic;
  miopenDataType_t type = miopenFloat;
  int blank = 0;
  bool softmax = true;
};

CtcObject& of(miopenCTCLossDescriptor_t d) { return capi::checked<CtcObject>(d); }

/// Arrays of the caller, copied if they are in the device's memory. The vectors keep their memory for the next call.
class HostArrays {
 public:
  HostArrays(Stream& stream, const ctc::Problem& p, const int* labels, const int* label_lengths,
             const int* input_lengths) {
    const auto count = static_cast<std::size_t>(p.batch());
    sequences_.label_lengths = on_host(stream, 0, not_null(label_lengths, "labelLengths"), count);
    sequences_.input_lengths = on_host(stream, 1, not_null(input_lengths, "inputLengths"), count);
    sequences_.labels = labels;
    std::size_t all = 0;
    for (std::size_t n = 0; n < count; ++n) {
      const int length = sequences_.label_lengths[n];
      if (length < 0 || length > p.steps()) return;  // which will be refused
      all += static_cast<std::size_t>(length);
    }
    if (labels && all > 0) sequences_.labels = on_host(stream, 2, labels, all);
  }
  const ctc::Sequences& operator*() const { return sequences_; }

 private:
  static const int* on_host(Stream& stream, std::size_t which, const int* given, std::size_t count) {
    if (!stream.is_device_memory(given)) return given;
    if (stream.capturing())
      fail(Status::kNotInitialized, "labels or lengths are in device memory, which is not read during a capture");
    thread_local std::vector<int> copies[3];
    copies[which].resize(count);
    stream.download(copies[which].data(), given, count * sizeof(int));
    return copies[which].data();
  }

  ctc::Sequences sequences_;
};

/// Its sizes say how many elements the arrays have.
ctc::Problem problem_of(miopenCTCLossDescriptor_t desc, miopenTensorDescriptor_t probs,
                        miopenTensorDescriptor_t gradients, Status wrong) {
  const CtcObject& d = of(desc);
  const TensorDesc& x = described(probs, "probs");
  if (x.rank != 3) fail(wrong, "probs has sizes {}: they must be [steps, batch, classes]", sizes_text(x));
  return {x, described(gradients, "gradients"), d.blank, d.softmax};
}

std::string command_of(const ctc::Problem& p, const ctc::Sequences& s) {
  const auto list = [&](const int* lengths) { return fmt::join(lengths, lengths + p.batch(), ","); };
  return base_arg("ctc", p.probs.type, 2) +
         fmt::format(" -n {} -c {} -k {} -l {} -b {} -m {:d}", p.batch(), p.probs.lens[2] - 1, list(s.input_lengths),
                     list(s.label_lengths), p.blank, p.softmax) +
         strides_unless_dense(p.probs, "--in_strides") + strides_unless_dense(p.gradients, "--out_strides");
}

}  // namespace

miopenStatus_t miopenCreateCTCLossDescriptor(miopenCTCLossDescriptor_t* ctcLossDesc) {
  return guard([&] {
    not_null(ctcLossDesc, "ctcLossDesc");
    *ctcLossDesc = new CtcObject;
  });
}

miopenStatus_t miopenDestroyCTCLossDescriptor(miopenCTCLossDescriptor_t ctcLossDesc) {
  return guard([&] { delete &of(ctcLossDesc); });
}

miopenStatus_t miopenSetCTCLossDescriptor(miopenCTCLossDescriptor_t ctcLossDesc, miopenDataType_t dataType,
                                          const int blank_label_id, bool apply_softmax_layer) {
  return guard([&] {
    CtcObject& d = of(ctcLossDesc);
    d.type = dataType;
    d.blank = blank_label_id;
    d.softmax = apply_softmax_layer;
  });
}

miopenStatus_t miopenGetCTCLossDescriptor(miopenCTCLossDescriptor_t ctcLossDesc, miopenDataType_t* dataType,
                                          int* blank_label_id, bool* apply_softmax_layer) {
  return guard([&] {
    const CtcObject& d = of(ctcLossDesc);
    *not_null(dataType, "dataType") = d.type;
    if (blank_label_id) *blank_label_id = d.blank;
    if (apply_softmax_layer) *apply_softmax_layer = d.softmax;
  });
}

miopenStatus_t miopenGetCTCLossWorkspaceSize(miopenHandle_t handle, const miopenTensorDescriptor_t probsDesc,
                                             const miopenTensorDescriptor_t gradientsDesc, const int* labels,
                                             const int* labelLengths, const int* inputLengths, miopenCTCLossAlgo_t,
                                             const miopenCTCLossDescriptor_t ctcLossDesc, size_t* workSpaceSize) {
  return guard([&] {
    Handle& on = deref(handle);
    const ctc::Problem p = problem_of(ctcLossDesc, probsDesc, gradientsDesc, Status::kBadParm);
    not_null(workSpaceSize, "workSpaceSize");
    const HostArrays arrays(on.stream(), p, labels, labelLengths, inputLengths);
    ctc::validate(p, *arrays, Status::kBadParm);
    *workSpaceSize = ctc::workspace_size(on.device(), p, *arrays);
  });
}

miopenStatus_t miopenCTCLoss(miopenHandle_t handle, const miopenTensorDescriptor_t probsDesc, const void* probs,
                             const int* labels, const int* labelLengths, const int* inputLengths, void* losses,
                             const miopenTensorDescriptor_t gradientsDesc, void* gradients, miopenCTCLossAlgo_t,
                             const miopenCTCLossDescriptor_t ctcLossDesc, void* workSpace, size_t workSpaceSize) {
  return guard([&] {
    Handle& on = deref(handle);
    const ctc::Problem p = problem_of(ctcLossDesc, probsDesc, gradientsDesc, Status::kUnknownError);
    const ctc::Args args{not_null(probs, "the buffer of probs"), not_null(losses, "the buffer of losses"), gradients,
                         workSpace, workSpaceSize};
    const HostArrays arrays(on.stream(), p, labels, labelLengths, inputLengths);
    ctc::validate(p, *arrays, Status::kUnknownError);
    capi::log_call("miopenCTCLoss", [&] { return command_of(p, *arrays); });
    on.run([&](Stream& stream) { ctc::run(stream, p, *arrays, args); });
  });
}
