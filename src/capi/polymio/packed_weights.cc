// Packed weights: an extension of convolutions.
// SPDX-License-Identifier: MIT
#include <miopen/polymio.h>

#include <cstring>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/find2/problem.h"
#include "primitives/convolution/packed.h"

using namespace polymio;
using capi::deref;
using capi::guard;
using capi::not_null;

namespace {

struct PackedObject : polymioPackedWeights, capi::InSlots<PackedObject> {
  static constexpr const char* kKind = "packed weights object";
  capi::Magic<0x706f6c797061636b> magic;
  convolution::PackedWeights weights;
  PackedObject(Handle& handle, const capi::ConvolutionCall& call, const void* w)
      : weights(handle, call.problem, call.constraints, const_cast<void*>(w)) {}
};

}  // namespace

miopenStatus_t polymioPackWeights(miopenHandle_t handle, miopenProblem_t problem, const void* w,
                                  polymioPackedWeights_t* packed) {
  return guard([&] {
    Handle& h = deref(handle);
    const capi::ProblemCall given = capi::make_call(deref(problem), Status::kBadParm);
    const auto* const call = std::get_if<capi::ConvolutionCall>(&given);
    require(call, "weights are packed for a convolution alone, without fused operations");
    polymioPackedWeights_t& made = *not_null(packed, "packed");
    made = new PackedObject(h, *call, not_null(w, "the buffer of w"));
  });
}

miopenStatus_t polymioRunPackedWeights(miopenHandle_t handle, polymioPackedWeights_t packed, const void* input,
                                       void* output) {
  return guard([&] {
    Handle& h = deref(handle);
    const auto& object = capi::checked<PackedObject>(packed);
    void* const from = const_cast<void*>(not_null(input, "the input"));
    not_null(output, "the output");
    object.weights.run(h, from, output);
  });
}

miopenStatus_t polymioGetPackedWeightsInfo(polymioPackedWeights_t packed, polymioPackedWeightsInfo_t* info) {
  return guard([&] {
    const auto& weights = capi::checked<PackedObject>(packed).weights;
    polymioPackedWeightsInfo_t value = {};
    const SolverInfo solver = weights.solver().info();
    value.solution_id = solver.id;
    value.bytes = weights.bytes();
    std::strncpy(value.solver, solver.name, sizeof value.solver - 1);
    capi::put_sized(info, value, "info");
  });
}

miopenStatus_t polymioDestroyPackedWeights(polymioPackedWeights_t packed) {
  return guard([&] { delete &capi::checked<PackedObject>(packed); });
}
