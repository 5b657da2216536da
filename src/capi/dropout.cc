// Group `dropout`.
// SPDX-License-Identifier: MIT
#include "capi/dropout.h"

#include <utility>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/common/log_call.h"
#include "capi/common/tensor.h"
#include "core/problem_text.h"

using namespace polymio;
using capi::deref;
using capi::described;
using capi::DropoutObject;
using capi::guard;
using capi::not_null;

namespace {

/// Stores the values; nothing if they are refused.
DropoutObject& store(miopenDropoutDescriptor_t desc, float rate, void* states, std::size_t bytes,
                     unsigned long long seed, bool use_mask, bool state_evo, miopenRNGType_t rng_mode) {
  DropoutObject& d = deref(desc);
  require(static_cast<int>(rng_mode) == 0, "the generator {} is unknown: 0 (XORWOW) is allowed",
          static_cast<int>(rng_mode));
  require(states || bytes == 0, "states is null, but has {} bytes", bytes);
  d.rate = rate;
  d.states = states;
  d.states_bytes = bytes;
  d.seed = seed;
  d.use_mask = use_mask;
  d.state_evo = state_evo;
  return d;
}

/// The mask in the reserve space, null if there is none.
std::uint8_t* mask_of(const DropoutObject& d, const TensorDesc& x, miopenTensorDescriptor_t noise_shape, void* reserve,
                      std::size_t bytes) {
  const TensorDesc& noise = described(noise_shape, "noise_shape");
  if (noise.rank != x.rank || noise.count() != x.count())
    fail(Status::kUnknownError, "noise_shape has sizes {}: it must have the rank and number of elements of x, {}",
         sizes_text(noise), sizes_text(x));
  const auto count = static_cast<std::size_t>(x.count());
  if ((reserve || d.use_mask) && bytes < count)
    fail(Status::kUnknownError, "the reserve space has {} bytes, {} are needed: see miopenDropoutGetReserveSpaceSize",
         bytes, count);
  return static_cast<std::uint8_t*>(reserve);
}

/// Nothing for a rank that the driver has no flags for.
std::string command_of(const DropoutObject& d, const dropout::Choice& choice, const TensorDesc& x, const TensorDesc& y,
                       bool forward) {
  constexpr int kLeastRank = 2, kMostRank = 5;
  if (x.rank < kLeastRank || x.rank > kMostRank) return "";
  return base_arg("dropout", x.type, x.rank - 2) + size_flags(x) +
         layout_flags(x, forward ? "-I" : "-O", forward ? "--in_strides" : "--dout_strides") +
         layout_flags(y, forward ? "-O" : "-I", forward ? "--out_strides" : "--din_strides") +
         fmt::format(" -F {} -p {} -L {} -M {} -m {:d} --state_evo {:d} --reserve {:d}", forward ? 1 : 2, d.rate,
                     d.seed & 0xffffffffu, d.seed >> 32, d.use_mask, d.state_evo, choice.mask != nullptr);
}

void run(miopenHandle_t handle, const DropoutObject& d, const dropout::Choice& choice, const TensorDesc& x,
         const void* from, const TensorDesc& y, void* to, bool forward) {
  const char* const function = forward ? "miopenDropoutForward" : "miopenDropoutBackward";
  Handle& on = deref(handle);
  capi::log_call(function, [&] { return command_of(d, choice, x, y, forward); });
  on.run([&](Stream& stream) { dropout::apply(stream, choice, x, from, y, to); });
}

}  // namespace

miopenStatus_t miopenCreateDropoutDescriptor(miopenDropoutDescriptor_t* dropoutDesc) {
  return guard([&] {
    not_null(dropoutDesc, "dropoutDesc");
    *dropoutDesc = new DropoutObject;
  });
}

miopenStatus_t miopenDestroyDropoutDescriptor(miopenDropoutDescriptor_t dropoutDesc) {
  return guard([&] { delete &deref(dropoutDesc); });
}

miopenStatus_t miopenDropoutGetReserveSpaceSize(const miopenTensorDescriptor_t xDesc, size_t* reserveSpaceSizeInBytes) {
  return guard([&] {
    const TensorDesc& x = described(xDesc, "x");
    *not_null(reserveSpaceSizeInBytes, "reserveSpaceSizeInBytes") = static_cast<std::size_t>(x.count());
  });
}

miopenStatus_t miopenDropoutGetStatesSize(miopenHandle_t handle, size_t* stateSizeInBytes) {
  return guard([&] {
    deref(handle);
    *not_null(stateSizeInBytes, "stateSizeInBytes") = static_cast<std::size_t>(dropout::kSlots) * dropout::kStateBytes;
  });
}

miopenStatus_t miopenGetDropoutDescriptor(miopenDropoutDescriptor_t dropoutDesc, miopenHandle_t handle, float* dropout,
                                          void** states, unsigned long long* seed, bool* use_mask, bool* state_evo,
                                          miopenRNGType_t* rng_mode) {
  return guard([&] {
    const DropoutObject& d = deref(dropoutDesc);
    deref(handle);
    not_null(dropout, "dropout");
    not_null(states, "states");
    not_null(seed, "seed");
    not_null(use_mask, "use_mask");
    not_null(state_evo, "state_evo");
    *not_null(rng_mode, "rng_mode") = MIOPEN_RNG_PSEUDO_XORWOW;
    *dropout = d.rate;
    *states = d.states;
    *seed = d.seed;
    *use_mask = d.use_mask;
    *state_evo = d.state_evo;
  });
}

miopenStatus_t miopenRestoreDropoutDescriptor(miopenDropoutDescriptor_t dropoutDesc, miopenHandle_t handle,
                                              float dropout, void* states, size_t stateSizeInBytes,
                                              unsigned long long seed, bool use_mask, bool state_evo,
                                              miopenRNGType_t rng_mode) {
  return guard([&] {
    deref(handle);
    store(dropoutDesc, dropout, states, stateSizeInBytes, seed, use_mask, state_evo, rng_mode);
  });
}

miopenStatus_t miopenSetDropoutDescriptor(miopenDropoutDescriptor_t dropoutDesc, miopenHandle_t handle, float dropout,
                                          void* states, size_t stateSizeInBytes, unsigned long long seed, bool use_mask,
                                          bool state_evo, miopenRNGType_t rng_mode) {
  return guard([&] {
    Stream& stream = deref(handle).stream();
    store(dropoutDesc, dropout, states, stateSizeInBytes, seed, use_mask, state_evo, rng_mode);
    if (states) dropout::seed(stream, states, stateSizeInBytes, seed);
  });
}

miopenStatus_t miopenDropoutForward(miopenHandle_t handle, const miopenDropoutDescriptor_t dropoutDesc,
                                    const miopenTensorDescriptor_t noise_shape, const miopenTensorDescriptor_t xDesc,
                                    const void* x, const miopenTensorDescriptor_t yDesc, void* y, void* reserveSpace,
                                    size_t reserveSpaceSizeInBytes) {
  return guard([&] {
    const DropoutObject& d = deref(dropoutDesc);
    const TensorDesc &x_desc = described(xDesc, "x"), &y_desc = described(yDesc, "y");
    not_null(x, "the buffer of x");
    not_null(y, "the buffer of y");
    dropout::Choice choice{d.rate, d.use_mask, false, d.states, d.states_bytes, nullptr};
    choice.mask = mask_of(d, x_desc, noise_shape, reserveSpace, reserveSpaceSizeInBytes);
    // Without a mask the backward pass draws it from the states again.
    choice.advances = d.state_evo && choice.mask;
    run(handle, d, choice, x_desc, x, y_desc, y, true);
  });
}

miopenStatus_t miopenDropoutBackward(miopenHandle_t handle, const miopenDropoutDescriptor_t dropoutDesc,
                                     const miopenTensorDescriptor_t noise_shape, const miopenTensorDescriptor_t dyDesc,
                                     const void* dy, const miopenTensorDescriptor_t dxDesc, void* dx,
                                     void* reserveSpace, size_t reserveSpaceSizeInBytes) {
  return guard([&] {
    const DropoutObject& d = deref(dropoutDesc);
    const TensorDesc &dy_desc = described(dyDesc, "dy"), &dx_desc = described(dxDesc, "dx");
    not_null(dy, "the buffer of dy");
    not_null(dx, "the buffer of dx");
    dropout::Choice choice{d.rate, d.use_mask, false, d.states, d.states_bytes, nullptr};
    choice.mask = mask_of(d, dy_desc, noise_shape, reserveSpace, reserveSpaceSizeInBytes);
    choice.stored = d.use_mask || choice.mask;
    run(handle, d, choice, dy_desc, dy, dx_desc, dx, false);
  });
}
