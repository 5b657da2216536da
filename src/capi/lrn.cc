// Group `LRN`.
// SPDX-License-Identifier: MIT
#include <miopen/lrn.h>

#include <algorithm>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/common/log_call.h"
#include "capi/common/tensor.h"
#include "primitives/lrn/lrn.h"

using namespace polymio;
using capi::deref;
using capi::described;
using capi::guard;
using capi::not_null;
using lrn::Problem;

namespace {

struct LrnObject : miopenLRNDescriptor, capi::InSlots<LrnObject> {
  static constexpr const char* kKind = "LRN descriptor";
  capi::Magic<0x706f6c796c726e64> magic;
  lrn::Mode mode = lrn::Mode::kWithinChannel;
  lrn::Window window;
  lrn::Parameters parameters;
};

LrnObject& object(miopenLRNDescriptor_t l) { return capi::checked<LrnObject>(l); }

Problem problem_of(const LrnObject& descriptor, lrn::Direction direction, const TensorDesc& x, const TensorDesc& y,
                   const void* workspace) {
  Problem p;
  p.direction = direction;
  p.mode = descriptor.mode;
  p.window = descriptor.window;
  p.scale = workspace ? lrn::Scale::kBuffer : lrn::Scale::kNone;
  p.x = x;
  p.y = y;
  return p;
}

/// Logs the MIOpenDriver line of the call.
void run(miopenHandle_t handle, const LrnObject& descriptor, const Problem& problem, Problem::Args args,
         const char* function) {
  args.parameters = descriptor.parameters;
  capi::log_call(function, [&] {
    const auto& [alpha, beta, k] = args.parameters;
    return fmt::format("{} -A {} -B {} -K {}", problem.key(), alpha, beta, k);
  });
  lrn::run(deref(handle), problem, args);
}

}  // namespace

miopenStatus_t miopenCreateLRNDescriptor(miopenLRNDescriptor_t* lrnDesc) {
  return guard([&] {
    not_null(lrnDesc, "lrnDesc");
    *lrnDesc = new LrnObject;
  });
}

miopenStatus_t miopenSetLRNDescriptor(const miopenLRNDescriptor_t lrnDesc, miopenLRNMode_t mode, unsigned int lrnN,
                                      double lrnAlpha, double lrnBeta, double lrnK) {
  return guard([&] {
    LrnObject& descriptor = object(lrnDesc);
    const int number = static_cast<int>(mode);
    require(number == 0 || number == 1,
            "LRN mode {} is unknown: allowed are 0 (within a channel) and 1 (across channels)", number);
    require(lrnN >= 1, "lrnN is 0: the window must have at least 1 element");
    descriptor.mode = static_cast<lrn::Mode>(number);
    descriptor.window = {lrnN};
    descriptor.parameters = {lrnAlpha, lrnBeta, lrnK};
  });
}

miopenStatus_t miopenGetLRNDescriptor(const miopenLRNDescriptor_t lrnDesc, miopenLRNMode_t* mode, unsigned int* lrnN,
                                      double* lrnAlpha, double* lrnBeta, double* lrnK) {
  return guard([&] {
    const LrnObject& descriptor = object(lrnDesc);
    not_null(mode, "mode");
    not_null(lrnN, "lrnN");
    not_null(lrnAlpha, "lrnAlpha");
    not_null(lrnBeta, "lrnBeta");
    not_null(lrnK, "lrnK");
    *mode = static_cast<miopenLRNMode_t>(descriptor.mode);
    *lrnN = descriptor.window.n;
    *lrnAlpha = descriptor.parameters.alpha;
    *lrnBeta = descriptor.parameters.beta;
    *lrnK = descriptor.parameters.k;
  });
}

miopenStatus_t miopenLRNGetWorkSpaceSize(const miopenTensorDescriptor_t yDesc, size_t* workSpaceSize) {
  return guard([&] {
    const TensorDesc& y = described(yDesc, "y");
    // Four bytes for each element of a smaller type, too: so does MIOpen.
    *not_null(workSpaceSize, "workSpaceSize") =
        static_cast<std::size_t>(y.space()) * std::max<std::size_t>(size_of(y.type), sizeof(float));
  });
}

// MIOpen ignores alpha and beta, whatever they point to.
miopenStatus_t miopenLRNForward(miopenHandle_t handle, const miopenLRNDescriptor_t lrnDesc, const void* /*alpha*/,
                                const miopenTensorDescriptor_t xDesc, const void* x, const void* /*beta*/,
                                const miopenTensorDescriptor_t yDesc, void* y, bool do_backward, void* workSpace) {
  return guard([&] {
    const LrnObject& descriptor = object(lrnDesc);
    if (do_backward) not_null(workSpace, "the workspace, which do_backward requires,");
    const Problem problem = problem_of(descriptor, lrn::Direction::kForward, described(xDesc, "x"),
                                       described(yDesc, "y"), do_backward ? workSpace : nullptr);
    Problem::Args args;
    args.x = not_null(x, "the buffer of x");
    args.result = not_null(y, "the buffer of y");
    args.scale = do_backward ? workSpace : nullptr;
    run(handle, descriptor, problem, args, "miopenLRNForward");
  });
}

miopenStatus_t miopenLRNBackward(miopenHandle_t handle, const miopenLRNDescriptor_t lrnDesc, const void* /*alpha*/,
                                 const miopenTensorDescriptor_t yDesc, const void* y,
                                 const miopenTensorDescriptor_t dyDesc, const void* dy,
                                 const miopenTensorDescriptor_t xDesc, const void* x, const void* /*beta*/,
                                 const miopenTensorDescriptor_t dxDesc, void* dx, const void* workSpace) {
  return guard([&] {
    const LrnObject& descriptor = object(lrnDesc);
    Problem problem =
        problem_of(descriptor, lrn::Direction::kBackward, described(xDesc, "x"), described(yDesc, "y"), workSpace);
    problem.dy = described(dyDesc, "dy");
    problem.dx = described(dxDesc, "dx");
    Problem::Args args;
    args.x = not_null(x, "the buffer of x");
    args.y = not_null(y, "the buffer of y");
    args.dy = not_null(dy, "the buffer of dy");
    args.scale = const_cast<void*>(workSpace);
    args.result = not_null(dx, "the buffer of dx");
    run(handle, descriptor, problem, args, "miopenLRNBackward");
  });
}

miopenStatus_t miopenDestroyLRNDescriptor(miopenLRNDescriptor_t lrnDesc) {
  return guard([&] { delete &object(lrnDesc); });
}
