// The objects behind the opaque handles of the C API, and translation of arguments.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/miopen.h>
#include <miopen/miopen_internal.h>
#include <miopen/polymio.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "base/error.h"
#include "capi/object.h"
#include "core/handle.h"
#include "core/tensor.h"
#include "primitives/convolution/convolution.h"

namespace polymio::capi {

struct HandleObject : miopenHandle, InSlots<HandleObject> {
  static constexpr const char* kKind = "handle";
  Magic<0x706f6c7968616e64> magic;
  Handle handle;
  HandleObject(const std::string& device, void* stream) : handle(device, stream) {}
};

struct TensorObject : miopenTensorDescriptor, InSlots<TensorObject> {
  static constexpr const char* kKind = "tensor descriptor";
  Magic<0x706f6c7974656e73> magic;
  TensorDesc desc;  // rank 0 until set
};

struct SeqTensorObject : miopenSeqTensorDescriptor, InSlots<SeqTensorObject> {
  static constexpr const char* kKind = "sequence tensor descriptor";
  Magic<0x706f6c7973657174> magic;
};

struct ConvolutionObject : miopenConvolutionDescriptor, InSlots<ConvolutionObject> {
  static constexpr const char* kKind = "convolution descriptor";
  Magic<0x706f6c79636f6e76> magic;
  struct State {
    bool transposed = false;
    std::vector<int> pad{0, 0}, stride{1, 1}, dilation{1, 1}, output_pad{0, 0};
    int groups = 1;
    int fp16_alt = -1, deterministic = 0, fp8_rounding = 1;
    int find_mode = static_cast<int>(search::default_find_mode());
    MathMode math = MathMode::kAccurate;
    std::uint64_t seed = 0;  // of stochastic rounding
  } state;
};

/// A problem of find 2.0: a convolution with fused operations, or operations that are to be fused with one.
struct ProblemState {
  bool has_convolution = false, has_bias = false, has_activation = false;  // its operations, in this order
  ConvolutionObject::State conv;
  convolution::Direction direction = convolution::Direction::kForward;
  struct Activation {
    int mode = 0;  // miopenActivationMode_t
    double alpha = 0, beta = 0, gamma = 0;
  } activation;
  std::map<miopenTensorArgumentId_t, TensorDesc> tensors;
  bool fused() const { return has_convolution + has_bias + has_activation > 1; }
};

struct ProblemObject : miopenProblem, InSlots<ProblemObject> {
  static constexpr const char* kKind = "problem";
  Magic<0x706f6c7970726f62> magic;
  ProblemState state;
};

inline Handle& deref(miopenHandle_t h) { return checked<HandleObject>(h).handle; }
inline TensorDesc& deref(miopenTensorDescriptor_t t) { return checked<TensorObject>(t).desc; }
inline ConvolutionObject::State& deref(miopenConvolutionDescriptor_t c) { return checked<ConvolutionObject>(c).state; }
inline ProblemState& deref(miopenProblem_t p) { return checked<ProblemObject>(p).state; }

/// The tensor of a descriptor that has been set; else BadParm.
const TensorDesc& described(miopenTensorDescriptor_t t, const char* role);

/// A pointer argument that must not be null.
template <class T>
T* not_null(T* p, const char* name) {
  require(p != nullptr, "{} is null", name);
  return p;
}

/// The size that the caller has set in a struct, of an older or newer version. BadParm if no version has such a size.
template <class T>
std::size_t struct_size(const T& given, const char* name) {
  constexpr std::size_t kMost = 4096;
  const std::size_t size = given.size;
  require(size >= sizeof(std::size_t) && size <= kMost && size % alignof(T) == 0,
          "{}->size is {}: set it to sizeof({}), {} in this version, first", name, size, name, sizeof(T));
  return size;
}

/// Writes as much of `value` as fits the caller's (older or newer) struct; its size field stays.
template <class T>
void put_sized(T* out, T value, const char* name) {
  const std::size_t size = struct_size(*not_null(out, name), name);
  value.size = size;
  std::memcpy(static_cast<void*>(out), &value, std::min(size, sizeof(T)));
}

/// Copies a text to a buffer of `*size` bytes and sets `*size` to the bytes needed; a null buffer only gets the size.
void put_text(const std::string& text, char* buffer, std::size_t* size);

/// The value of alpha or beta: a double if `output` is double, else a float.
double scalar(const void* p, DataType output, const char* name);

/// One convolution call as a plain convolution: transposed mode swaps x and y, and forward and backward data.
struct ConvolutionCall {
  convolution::Problem problem;
  Constraints constraints;
  std::uint64_t seed;
  bool swapped;
};

/// Translates a call. `x`, `w`, `y` are the API's tensors of the direction (dx, dw, dy included). Does not validate the
/// problem: convolution:: does that before it makes a new plan.
ConvolutionCall make_call(const ConvolutionObject::State&, convolution::Direction, const TensorDesc& x,
                          const TensorDesc& w, const TensorDesc& y);

/// The same for a complete problem; `missing` is the status if a tensor descriptor is not set.
ConvolutionCall make_call(const ProblemState&, Status missing);

/// Logs the MIOpenDriver line of the call, in transposed mode that of the equivalent plain convolution.
void log_call(const ConvolutionCall&, const convolution::Problem::Args&, const char* function,
              std::uint64_t solution = 0);

/// BadParm unless the argument belongs to the problem.
void check_id(const ProblemState&, miopenTensorArgumentId_t);
const char* name_of(miopenTensorArgumentId_t);

/// The argument that the last operation of the problem writes.
miopenTensorArgumentId_t output_id(const ProblemState&);

/// Sizes of the result of a convolution (or transposed convolution) of x with w.
std::vector<std::int64_t> output_sizes(const ConvolutionObject::State&, const TensorDesc& x, const TensorDesc& w);

}  // namespace polymio::capi
