// The attention descriptor. No function of the API destroys one.
// SPDX-License-Identifier: MIT
#include "capi/mha.h"

#include <fmt/format.h>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/log_call.h"

using namespace polymio;
using capi::deref;
using capi::guard;
using capi::not_null;

namespace polymio::capi {

void log_call(const MhaCall& call, const mha::Problem::Args& args, const char* function, std::uint64_t solution) {
  log_call(function, [&] {
    std::string line = fmt::format("{} --scale {}", call.problem.key(), args.scale);
    if (args.mask == mha::Mask::kCausal) line += " --mask causal";
    if (solution) line += fmt::format(" -S {}", solution);
    return line;
  });
}

}  // namespace polymio::capi

miopenStatus_t miopenCreateMhaDescriptor(miopenMhaDescriptor_t* mhaDesc) {
  return guard([&] {
    not_null(mhaDesc, "mhaDesc");
    *mhaDesc = new capi::MhaObject;
  });
}

miopenStatus_t miopenSetMhaDescriptor(miopenMhaDescriptor_t mhaDesc, float scale) {
  return guard([&] { deref(mhaDesc).scale = scale; });
}

miopenStatus_t miopenGetMhaDescriptor(miopenMhaDescriptor_t mhaDesc, float* scale) {
  return guard([&] {
    const float value = deref(mhaDesc).scale;
    *not_null(scale, "scale") = value;
  });
}
